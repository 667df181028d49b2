//! A deletion goes on whatever became of the spec.

use super::hooks::deployed;
use super::*;

/// Deletes a synced Application after a change of it or its project (SE-512). Returns
/// whether its object is left.
async fn left_after(world: &World, name: &str, spec: Value, project: Option<Value>) -> bool {
    world.project(name, json!({})).await;
    world.write(&format!("{name}/one.json"), &config_map(name, "1", &[]));
    deployed(world, name).await;
    world.patch(name, json!({"spec": {"project": name}})).await;
    world.until(name, "in its project", |app| is(app, "Synced", "Healthy")).await;
    let projects = world.api("argoproj.io/v1alpha1", "AppProject", NAMESPACE);
    match project {
        Some(Value::Null) => {
            projects.delete(name, &DeleteParams::default()).await.unwrap();
        }
        Some(patch) => {
            let patch = Patch::Merge(json!({"spec": patch}));
            projects.patch(name, &PatchParams::default(), &patch).await.unwrap();
        }
        None => {}
    }
    world.patch(name, json!({"spec": spec})).await;
    world.until(name, "refused", |app| condition(app, "InvalidSpecError", "")).await;
    world.delete_app(name).await;
    world.until(name, "gone", Value::is_null).await;
    !world.get("v1", "ConfigMap", "web", name).await.is_null()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_source_or_project_does_not_hold_a_deletion_se_512_se_514() {
    let world = World::start().await;
    let none = || json!({});
    for (name, spec, project) in [
        ("no-repository", json!({"source": {"repoURL": ""}}), None),
        ("no-path", json!({"source": {"path": null}}), None),
        ("source-denied", none(), Some(json!({"sourceRepos": []}))),
        ("no-project", none(), Some(Value::Null)),
        ("other-project", json!({"project": "nowhere"}), None),
    ] {
        assert!(!left_after(&world, name, spec, project).await, "{name}: it is left");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_leaves_what_the_project_denies_and_reports_it_se_082_se_514() {
    let world = World::start().await;
    let elsewhere = json!({"destinations": [{"server": "*", "namespace": "elsewhere"}]});
    assert!(left_after(&world, "denied", json!({}), Some(elsewhere)).await, "it is deleted");
    let reported = world.warnings("DeletionError", "are left in the cluster").await;
    assert!(reported[0].contains("project 'denied' does not permit them"), "{reported:?}");
    assert!(reported[0].contains("ConfigMap web/denied"), "{reported:?}");
}

/// Without a project, only what it was known to permit is deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_project_a_deletion_does_not_touch_what_was_never_compared_se_514() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    let mut app = world.application("app", "app");
    world.commit();
    app["metadata"]["finalizers"] = json!([CASCADE]);
    app["spec"]["project"] = "nowhere".into();
    world.create_app(&app).await;
    world.until("app", "refused", |app| condition(app, "InvalidSpecError", "")).await;
    let id = "app:/ConfigMap:web/other";
    let other = json!({"metadata": {
        "name": "other", "namespace": "web",
        "annotations": {"argocd.argoproj.io/tracking-id": id},
    }});
    world.create("v1", "ConfigMap", &other).await;
    world.delete_app("app").await;
    world.until("app", "gone", Value::is_null).await;
    assert!(!world.get("v1", "ConfigMap", "web", "other").await.is_null());
    let reported = world.warnings("DeletionError", "are left in the cluster").await;
    assert!(reported[0].contains("ConfigMap web/other"), "{reported:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_cluster_the_finalizers_go_and_an_event_says_so_se_512() {
    let world = World::start().await;
    for (name, destination) in [
        ("both", json!({"name": "in-cluster"})),
        ("neither", json!({"server": null})),
        ("unknown", json!({"server": "https://gone.example.com"})),
    ] {
        let spec = json!({"destination": destination});
        assert!(left_after(&world, name, spec, None).await, "{name}: it is deleted");
    }
    let reported = world.warnings("DeletionError", "finalizers are removed without").await;
    let text = "can't have both name and server defined";
    assert!(reported.iter().any(|reported| reported.contains(text)), "{reported:?}");
}
