//! Health scripts of the ConfigMap `argocd-cm`, in a running process.

use serde_json::{Value, json};

use crate::support::cluster::patch_object;
use crate::support::manifests::plain;
use crate::support::{Kind, Setup, World};

/// SE-480, SE-484: a script acts once it is in the ConfigMap, a change of it acts, and the rules
/// are back without it, in one process.
pub async fn scripts_of_argocd_cm_act_without_a_restart(mut world: World) {
    let revision = world.repository.commit("v1", &plain("one", "v1"));
    world.start_process(&Setup::default()).await;
    let app = json!({
        "metadata": {"name": world.tagged("one"), "namespace": world.namespace},
        "spec": {
            "project": "my-project",
            "source": {"repoURL": world.repository.url(), "path": "apps/one", "targetRevision": revision},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": world.target},
            "syncPolicy": {"automated": {}},
        },
    });
    world.create(Kind::Application, app).await;
    let until = async |status: &str, message: &str| {
        let is = |app: &Value| {
            let row = |row: &Value| {
                row["kind"] == "ConfigMap"
                    && row["health"]["status"].as_str().unwrap_or_default() == status
                    && row["health"]["message"].as_str().unwrap_or_default() == message
            };
            let rows = app["status"]["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
            rows.iter().any(row) && app["status"]["sync"]["status"] == "Synced"
        };
        let what = format!("{status}: {message}");
        world
            .until(&what, |log| log.get(Kind::Application, "one").filter(|app| is(app)).map(|_| ()))
            .await;
    };
    until("", "").await;

    let namespace = world.namespace.clone();
    let script = |message: &str| format!("return {{status='Suspended', message={message}}}");
    let key = "resource.customizations.health.ConfigMap";
    let settings = json!({
        "metadata": {"name": "argocd-cm"},
        "data": {key: script("'held ' .. obj.metadata.name:lower()")},
    });
    world.create_in(&namespace, Kind::ConfigMap, settings).await;
    until("Unknown", "<string>:1: attempt to index string with 'lower'").await;
    let set = async |data: Value| {
        let patch = json!({ "data": data });
        let name = "argocd-cm";
        patch_object(&world.client, Kind::ConfigMap, &namespace, name, &patch).await.unwrap();
    };
    set(json!({"resource.customizations.useOpenLibs.ConfigMap": "true", key: script("('Held'):lower()")})).await;
    until("Suspended", "held").await;
    set(json!({key: script("tostring(#obj.data)")})).await;
    until("Suspended", "0").await;
    set(json!({
        key: null,
        "resource.customizations": "'Config*':\n  health.lua: return {status='Healthy', message='wild'}\n",
    }))
    .await;
    until("Healthy", "wild").await;
    set(json!({"resource.customizations": null})).await;
    until("", "").await;
    let changes = world.controller_log().matches("settings have changed").count();
    assert_eq!(changes, 5, "{}", world.controller_log());
    world.finish().await;
}
