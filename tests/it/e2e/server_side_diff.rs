//! The API server predicts the differences of an Application, and a setting ignores some.

use serde_json::{Value, json};

use crate::support::cluster::patch_object;
use crate::support::manifests::plain;
use crate::support::{Kind, Setup, World};

/// SE-150, SE-158, SE-170: dry runs find a drift and nothing else, self-heal takes it back, and a
/// rule of the ConfigMap `argocd-cm` ignores it from then on.
pub async fn the_server_predicts_a_drift_and_a_setting_ignores_it(mut world: World) {
    let revision = world.repository.commit("v1", &plain("one", "v1"));
    world.start_process(&Setup::default()).await;
    let app = json!({
        "metadata": {
            "name": world.tagged("one"), "namespace": world.namespace,
            "annotations": {"argocd.argoproj.io/compare-options": "ServerSideDiff=true"},
        },
        "spec": {
            "project": "my-project",
            "source": {"repoURL": world.repository.url(), "path": "apps/one", "targetRevision": revision},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": world.target},
            "syncPolicy": {"automated": {}},
        },
    });
    world.create(Kind::Application, app).await;
    let until = async |what: &str, sync: &str| {
        let is = |app: &Value| {
            let mut conditions = app["status"]["conditions"].as_array().into_iter().flatten();
            app["status"]["sync"]["status"] == sync
                && !conditions.any(|one| one["type"] == "ComparisonError")
        };
        world
            .until(what, |log| log.get(Kind::Application, "one").filter(|app| is(app)).map(|_| ()))
            .await;
    };
    until("compared with what the server predicts", "Synced").await;
    let (target, name) = (world.target.clone(), "one-config");
    let drift = json!({"data": {"version": "of a person"}});
    patch_object(&world.client, Kind::ConfigMap, &target, name, &drift).await.unwrap();
    until("the drift is seen", "OutOfSync").await;
    let namespace = world.namespace.clone();
    let settings = json!({
        "metadata": {"name": "argocd-cm"},
        "data": {"resource.customizations.ignoreDifferences.ConfigMap": "jsonPointers: [/data/version]\n"},
    });
    world.create_in(&namespace, Kind::ConfigMap, settings).await;
    until("SE-170: it is ignored", "Synced").await;
    world.finish().await;
}
