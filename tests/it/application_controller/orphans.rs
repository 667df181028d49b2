//! Objects of the destination namespace that no Application manages, without Redis (SE-078).

use super::refusals::conditions;
use super::*;

const WARNING: &str = "OrphanedResourceWarning";

fn map(name: &str, more: Value) -> Value {
    let mut metadata = json!({"name": name, "namespace": "web"});
    metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "metadata": metadata })
}

async fn until_count(world: &World, name: &str, count: usize) {
    let text = format!("Application has {count} orphaned resources");
    let has = |app: &Value| match count {
        0 => conditions(app, WARNING).is_empty(),
        _ => conditions(app, WARNING) == [text.as_str()],
    };
    world.until(name, &format!("{count} orphans"), has).await;
}

/// SE-078: what no Application manages is counted, as it comes and goes: not what every namespace has, what
/// belongs to something else, what another Application manages, what the project ignores or must
/// not manage, and what is elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphaned_resources_are_counted_as_they_change_as_se_078() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("other/two.json", &config_map("two", "1", &[]));
    for name in ["app", "other"] {
        world.create_until_good(&automated(world.application(name, name))).await;
    }
    for name in ["kube-root-ca.crt", "ignored-1"] {
        world.create("v1", "ConfigMap", &map(name, json!({}))).await;
    }
    world.create("v1", "ServiceAccount", &map("default", json!({}))).await;
    world.create("v1", "Secret", &map("denied", json!({}))).await;
    world.create("v1", "Namespace", &json!({"metadata": {"name": "far"}})).await;
    world.create("v1", "ConfigMap", &map("far", json!({"namespace": "far"}))).await;
    // Without the setting, only the kinds of the Applications are read.
    world.server.forget_requests();
    world.refresh("app").await;
    world.rest().await;
    let follows = |resource: &str| {
        let all = world.server.requests();
        all.iter().any(|r| r.client == CONTROLLER && r.resource == resource && r.verb == "watch")
    };
    assert!(!follows("serviceaccounts") && conditions(&world.app("app").await, WARNING).is_empty());

    let monitor = json!({
        "namespaceResourceBlacklist": [{"group": "", "kind": "Secret"}],
        "orphanedResources": {
            "warn": true, "ignore": [{"kind": "ConfigMap", "name": "ignored*"}],
        },
    });
    world.create("v1", "ConfigMap", &map("stray", json!({}))).await;
    world.patch_project(monitor).await;
    for name in ["app", "other"] {
        until_count(&world, name, 1).await;
    }
    assert!(follows("serviceaccounts"));

    // Changes of the namespace act at once, and only those.
    let mut stray: Value = serde_json::from_str(&job("stray", &[])).unwrap();
    stray["metadata"]["namespace"] = "web".into();
    world.create("batch/v1", "Job", &stray).await;
    until_count(&world, "app", 2).await;
    let stray = world.get("v1", "ConfigMap", "web", "stray").await;
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "stray",
        "uid": stray["metadata"]["uid"]}]);
    world.create("v1", "ConfigMap", &map("owned", json!({"ownerReferences": owner}))).await;
    world.create("v1", "ConfigMap", &map("far-too", json!({"namespace": "far"}))).await;
    world.rest().await;
    world.server.forget_requests();
    world.patch_map("stray", json!({"data": {"a": "b"}})).await;
    world.create("v1", "ConfigMap", &map("ignored-2", json!({}))).await;
    world.rest().await;
    assert_eq!(world.writes(), [""; 0], "the number is the same");
    assert!(condition(&world.app("app").await, WARNING, "has 2 "));
    world.delete_map("stray").await;
    until_count(&world, "app", 1).await;

    // What a deleted Application has left is managed by nobody.
    world.delete_app("other").await;
    world.until("other", "gone", Value::is_null).await;
    world.refresh("app").await;
    until_count(&world, "app", 2).await;
    world.patch_project(json!({"orphanedResources": {"warn": false}})).await;
    until_count(&world, "app", 0).await;
}

/// SE-078: a kind that must not be listed is left out, and nothing waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_must_not_be_listed_holds_no_comparison() {
    let world = World::start().await;
    let forbidden = |record: &RequestRecord| {
        record.client == CONTROLLER && record.resource == "serviceaccounts"
    };
    world.server.inject(InjectedFault::new(Effect::Status(403), forbidden).times(usize::MAX));
    world.create("v1", "ConfigMap", &map("stray", json!({}))).await;
    world.patch_project(json!({"orphanedResources": {"warn": true}})).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_until_good(&automated(world.application("app", "app"))).await;
    until_count(&world, "app", 1).await;
}
