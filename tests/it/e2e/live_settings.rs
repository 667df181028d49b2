//! The ConfigMaps of the control plane are followed: a change acts in a running process.

use serde_json::{Value, json};

use crate::support::cluster::patch_object;
use crate::support::manifests::plain;
use crate::support::{Kind, Setup, World};

/// Whether an Application has a condition of this type.
fn has(app: &Value, type_: &str) -> bool {
    app["status"]["conditions"].as_array().into_iter().flatten().any(|one| one["type"] == type_)
}

/// SE-120, SE-112: excluded kinds and the tracking of resources change without a restart of the
/// process, a setting that is not understood stops the Applications until it is corrected, and
/// other keys of the ConfigMap change nothing.
pub async fn settings_of_argocd_cm_act_without_a_restart(mut world: World) {
    let revision = world.repository.commit("v1", &plain("one", "v1"));
    world.start_process(&Setup::default()).await;
    let app = json!({
        "metadata": {"name": world.tagged("one"), "namespace": world.namespace},
        "spec": {
            "project": "my-project",
            "source": {"repoURL": world.repository.url(), "path": "apps/one", "targetRevision": revision},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": world.target},
            "syncPolicy": {"automated": {"selfHeal": true}},
        },
    });
    world.create(Kind::Application, app).await;
    let is_good = |app: &Value| {
        app["status"]["sync"]["status"] == "Synced"
            && app["status"]["health"]["status"] == "Healthy"
    };
    let until = async |what: &str, is: &dyn Fn(&Value) -> bool| {
        world
            .until(what, |log| log.get(Kind::Application, "one").filter(|app| is(app)).map(|_| ()))
            .await;
    };
    until("synced", &is_good).await;

    let namespace = world.namespace.clone();
    let settings = json!({
        "metadata": {"name": "argocd-cm"},
        "data": {"resource.exclusions": "- kinds: [ConfigMap]\n", "url": "https://example.com"},
    });
    world.create_in(&namespace, Kind::ConfigMap, settings).await;
    until("SE-120: the kind is excluded", &|app| has(app, "ExcludedResourceWarning")).await;

    let set = async |data: Value| {
        let patch = json!({ "data": data });
        let name = "argocd-cm";
        patch_object(&world.client, Kind::ConfigMap, &namespace, name, &patch).await.unwrap();
    };
    set(json!({"resource.exclusions": "- ["})).await;
    until("refused while it is not understood", &|app| {
        has(app, "InvalidSpecError") || has(app, "ComparisonError")
    })
    .await;
    let label = "application.instanceLabelKey";
    set(json!({
        "resource.exclusions": null,
        "application.resourceTrackingMethod": "annotation+label",
        label: "example.com/instance",
    }))
    .await;
    until("managed again", &|app| is_good(app) && !has(app, "ExcludedResourceWarning")).await;
    let name = world.tagged("one");
    world
        .until("SE-112: the label of the setting", |log| {
            let mut all = log.all(Kind::ConfigMap);
            all.any(|(_, map)| map["metadata"]["labels"]["example.com/instance"] == name)
                .then_some(())
        })
        .await;
    let changes = |world: &World| world.controller_log().matches("settings have changed").count();
    assert_eq!(changes(&world), 3, "{}", world.controller_log());
    set(json!({"url": "https://other.example.com"})).await;
    set(json!({"installationID": "east"})).await;
    world
        .until("SE-113: the identity of the setting", |log| {
            let id = "argocd.argoproj.io/installation-id";
            let mut all = log.all(Kind::ConfigMap);
            all.any(|(_, map)| map["metadata"]["annotations"][id] == "east").then_some(())
        })
        .await;
    assert_eq!(changes(&world), 4, "the URL is no setting of the controllers");
    world.finish().await;
}
