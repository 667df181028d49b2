//! A controller that is killed in the middle of a wave.

use serde_json::{Value, json};

use crate::support::manifests::VERSION;
use crate::support::recorder::{Change, version};
use crate::support::{Kind, Setup, World};

use super::dry_run::{application, commit, phase};

/// A hook, a Deployment that takes a while, a ConfigMap in the wave behind it, and one that
/// only the first version has.
fn objects(of: &str) -> Vec<Value> {
    let slow = json!({ "simulate.wavegate.dev/delay": "2s" });
    let metadata = |name: &str, wave: &str| {
        json!({ "name": name, "annotations": {
            VERSION: of, "argocd.argoproj.io/sync-wave": wave, "simulate.wavegate.dev/delay": "2s",
        } })
    };
    let map = |name: &str, wave: &str| {
        let metadata = metadata(name, wave);
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "v": of } })
    };
    let mut hook = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": "before", "annotations": { "argocd.argoproj.io/hook": "PreSync" } },
        "spec": { "backoffLimit": 0, "template": { "spec": {
            "restartPolicy": "Never", "containers": [{ "name": "main", "image": "example.invalid/job:1" }],
        } } },
    });
    hook["metadata"]["annotations"][VERSION] = of.into();
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("web", "0"),
        "spec": {
            "replicas": 1, "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" }, "annotations": slow },
                "spec": { "containers": [{ "name": "main", "image": format!("example.invalid/main:{of}") }] },
            },
        },
    });
    let mut all = vec![hook, web, map("late", "1")];
    if of == "v1" {
        all.push(map("former", "-1"));
    }
    all
}

fn is_of(object: &Value, of: &str) -> bool {
    object["metadata"]["annotations"][VERSION] == of
}

fn is_ready(web: &Value) -> bool {
    let count = |field: &str| web["status"][field].as_i64().unwrap_or(0);
    web["status"]["observedGeneration"] == web["metadata"]["generation"]
        && [count("updatedReplicas"), count("availableReplicas"), count("replicas")] == [1, 1, 1]
}

/// Nothing is done twice, nothing is skipped, and no wave opens before the one ahead of it is
/// healthy, whether the server stores the state of the operation or drops it (SE-241, SE-252,
/// SE-318): after the kill, a Deployment with `ApplyOutOfSyncOnly` is in sync, but was never
/// seen healthy.
pub async fn a_wave_that_was_interrupted_is_continued(mut world: World) {
    commit(&world, "dev", &objects("v1"));
    application(&world, "dev").await;
    world.start_process(&Setup::default()).await;
    for of in ["v1", "v2"] {
        commit(&world, "dev", &objects(of));
        let options = json!(["ApplyOutOfSyncOnly=true"]);
        let sync = json!({ "prune": true, "syncOptions": options });
        let operation = json!({ "initiatedBy": { "username": "admin" }, "sync": sync });
        let asked = world.patch(Kind::Application, "dev", &json!({ "operation": operation })).await;
        world
            .until(&format!("{of} of the Deployment is applied"), |log| {
                log.get(Kind::Deployment, "web").filter(|web| is_of(web, of)).map(|_| ())
            })
            .await;
        world.process().kill_and_restart();
        let app = world
            .until(&format!("{of} is synced"), |log| {
                let app = log.get(Kind::Application, "dev")?;
                let over = version(app) > version(&asked)
                    && app["operation"].is_null()
                    && app["status"]["operationState"]["finishedAt"].is_string()
                    && app["status"]["operationState"]["phase"] != "Running";
                over.then(|| app.as_ref().clone())
            })
            .await;
        assert_eq!(phase(&app).0, "Succeeded", "{}", phase(&app).1);
        let rows = app["status"]["operationState"]["syncResult"]["resources"].as_array().unwrap();
        let mut names: Vec<(&str, &str)> = rows
            .iter()
            .map(|row| (row["name"].as_str().unwrap(), row["status"].as_str().unwrap_or_default()))
            .collect();
        names.sort_unstable();
        let former = if of == "v1" { "Synced" } else { "Pruned" };
        let want =
            [("before", "Synced"), ("former", former), ("late", "Synced"), ("web", "Synced")];
        assert_eq!(names, want, "{of}: {rows:#?}");
        world.recorder.read(|log| {
            let first = |kind: Kind, name: &str, is: &dyn Fn(&Value) -> bool| {
                let mut all = log.of(kind).filter(|record| record.name() == name);
                all.find(|record| is_of(&record.object, of) && is(&record.object))
                    .unwrap()
                    .version()
            };
            let healthy = first(Kind::Deployment, "web", &is_ready);
            let next = first(Kind::ConfigMap, "late", &|_| true);
            assert!(
                healthy < next,
                "{of}: the wave behind a Deployment opened before it was healthy"
            );
            let hooks = log.of(Kind::Job).filter(|record| record.change == Change::Added);
            let hooks = hooks.filter(|record| is_of(&record.object, of)).count();
            assert_eq!(hooks, 1, "{of}: the hook ran once");
        });
    }
    world.finish().await;
}
