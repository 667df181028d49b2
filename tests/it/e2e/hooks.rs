//! Hooks and projects: objects of others are not changed.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::manifests::{rolling, set};
use crate::support::recorder::Change;
use crate::support::{Kind, Setup, World};

use super::external::is_complete;

const HOOK: &str = "argocd.argoproj.io/hook";

fn file(application: &str, name: &str, object: &Value) -> (String, String) {
    (format!("apps/{application}/{name}.yaml"), format!("{object:#}\n"))
}

fn job(metadata: &Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
        "spec": {"backoffLimit": 0, "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{ "name": "main", "image": "example.invalid/job:1" }],
        }}},
    })
}

fn config_map(metadata: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"of": "git"} })
}

pub async fn objects_of_others_are_not_changed(mut world: World) {
    let narrow = json!({"spec": {
        "destinations": [{"server": "*", "namespace": world.target}],
        "clusterResourceWhitelist": null,
    }});
    world.patch(Kind::AppProject, "my-project", &narrow).await;
    let theirs = json!({"metadata": {"name": "theirs"}, "data": {"of": "somebody"}});
    let theirs = world.create(Kind::ConfigMap, theirs).await;
    let hook = json!({"name": "theirs", "annotations": {HOOK: "PreSync"}});
    let outside = json!({"generateName": "x-", "namespace": world.namespace});
    let outside_hook = json!({
        "generateName": "x-", "namespace": world.namespace, "annotations": {HOOK: "PreSync"},
    });
    let cluster = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"generateName": "x-"}, "rules": [],
    });
    let all = [("hook", "dev"), ("outside", "dev"), ("outside-hook", "dev"), ("cluster", "dev")];
    let mut files = vec![
        file("hook", "hook", &config_map(&hook)),
        file("outside", "map", &config_map(&outside)),
        file("outside-hook", "map", &config_map(&outside_hook)),
        file("cluster", "role", &cluster),
    ];
    // Permitted objects of the same sync are not applied either.
    files.extend(all.iter().map(|(name, _)| {
        file(name, "beside", &config_map(&json!({ "name": format!("beside-{name}") })))
    }));
    world.repository.commit("first", &files);
    let strategy = rolling(&[("dev", json!(null))]);
    world.create(Kind::ApplicationSet, set(&world, "fleet", &all, &strategy)).await;
    world.start(&Setup::default()).await;
    let (target, namespace) = (world.target.clone(), world.namespace.clone());
    let wants = [
        (
            "hook",
            format!("ConfigMap {target}/theirs: an object of this name is not managed by any"),
        ),
        ("outside", format!("namespace {namespace} is not permitted in project 'my-project'")),
        ("outside-hook", format!("namespace {namespace} is not permitted in project 'my-project'")),
        ("cluster", "ClusterRole is not permitted in project my-project".to_owned()),
    ];
    world
        .until("all are refused, with the reason", |log| {
            let refused = wants.iter().all(|(name, want)| {
                let app = log.get(Kind::Application, name);
                let state = app.map(|app| app["status"]["operationState"].clone());
                let state = state.unwrap_or_default();
                // It may be between two retries.
                state["message"].as_str().unwrap_or_default().contains(want.as_str())
            });
            refused.then_some(())
        })
        .await;
    world.recorder.read(|log| {
        let now = log.get(Kind::ConfigMap, "theirs").unwrap();
        assert_eq!(now["metadata"]["resourceVersion"], theirs["metadata"]["resourceVersion"]);
        assert!(log.of(Kind::ConfigMap).all(|map| !map.name().starts_with("beside-")));
    });
    world.finish().await;
}

pub async fn every_hook_has_its_own_object(mut world: World) {
    let all = [("a", "dev"), ("b", "dev")];
    let nameless = json!({"generateName": "migrate-", "annotations": {HOOK: "PreSync"}});
    let files = all.iter().flat_map(|(name, _)| {
        let both = json!({
            "name": format!("{name}-both"), "annotations": {HOOK: "PreSync,PreDelete"},
        });
        let last = json!({"generateName": "last-", "annotations": {HOOK: "PostDelete"}});
        [
            file(name, "one", &job(&nameless)),
            file(name, "two", &job(&nameless)),
            file(name, "both", &job(&both)),
            file(name, "last", &job(&last)),
            file(name, "map", &config_map(&json!({ "name": name }))),
        ]
    });
    let files: Vec<_> = files.collect();
    world.repository.commit("first", &files);
    let strategy = rolling(&[("dev", json!(null))]);
    world.create(Kind::ApplicationSet, set(&world, "fleet", &all, &strategy)).await;
    world.start(&Setup::default()).await;
    world.until("it is rolled out", |log| is_complete(log, "fleet").then_some(())).await;
    let made = |world: &World, start: &str| {
        world.recorder.read(|log| {
            let jobs = log.of(Kind::Job).filter(|job| job.change == Change::Added);
            let jobs = jobs.filter(|job| job.name().starts_with(start));
            let uids = jobs.map(|job| job.object["metadata"]["uid"].to_string());
            uids.collect::<BTreeSet<String>>().len()
        })
    };
    assert_eq!(made(&world, "migrate-"), 4, "two of each Application");
    assert_eq!((made(&world, "a-both"), made(&world, "b-both")), (1, 1));
    world.delete(Kind::ApplicationSet, "fleet").await;
    world
        .until("everything is gone", |log| {
            let left = [Kind::ApplicationSet, Kind::Application]
                .into_iter()
                .any(|kind| log.all(kind).next().is_some());
            let maps = all.iter().any(|(name, _)| log.get(Kind::ConfigMap, name).is_some());
            (!left && !maps).then_some(())
        })
        .await;
    assert_eq!((made(&world, "a-both"), made(&world, "b-both")), (2, 2), "and for the deletion");
    assert_eq!(made(&world, "last-"), 2);
    assert_eq!(made(&world, "migrate-"), 4);
    world.finish().await;
}
