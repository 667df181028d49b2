//! Differences by the managers of fields (SE-157, SE-174).

use super::*;

/// SE-174: fields that a listed manager owns and that differ are ignored, those of others are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_of_listed_managers_are_ignored_se_174() {
    let world = World::start().await;
    for name in ["web", "other", "both"] {
        world.write(&format!("app/{name}.json"), &deployment(name, &[]));
        world.write(&format!("app/map-{name}.json"), &config_map(&format!("map-{name}"), "1", &[]));
    }
    world.commit();
    let mut app = world.application("app", "app");
    app["spec"]["ignoreDifferences"] = json!([
        {"group": "apps", "kind": "Deployment", "managedFieldsManagers": ["scaler", "nobody"]},
        {"kind": "ConfigMap", "name": "map-web", "managedFieldsManagers": ["scaler"]},
    ]);
    world.create_app(&app).await;
    world.sync_until_good("app", json!({})).await;
    let (web, map) = (("apps/v1", "Deployment"), ("v1", "ConfigMap"));
    let scale = || json!({"spec": {"replicas": 3}});
    world.drift(web, "web", "scaler", scale()).await;
    world.drift(web, "other", "somebody", scale()).await;
    world.drift(web, "both", "scaler", scale()).await;
    world
        .drift(web, "both", "somebody", json!({"spec": {"paused": false, "minReadySeconds": 4}}))
        .await;
    let value = || json!({"data": {"value": "2"}});
    world.drift(map, "map-web", "scaler", value()).await;
    world.drift(map, "map-other", "scaler", value()).await;
    let seen = |app: &Value| {
        row(app, "other")["status"] == "OutOfSync" && row(app, "map-other")["status"] == "OutOfSync"
    };
    world.until("app", "compared", seen).await;
    world.refresh("app").await;
    let app = world.app("app").await;
    for (name, want) in [
        ("web", "Synced"),
        // What is only live is no difference.
        ("both", "Synced"),
        ("other", "OutOfSync"),
        ("map-web", "Synced"),
        ("map-other", "OutOfSync"),
        ("map-both", "Synced"),
    ] {
        assert_eq!(row(&app, name)["status"], want, "SE-174 {name}: {}", app["status"]);
    }
}

/// SE-157: what is applied by the server is compared by what is ours: fields of others are no
/// difference, ours are, and so are those that the source no longer has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_side_apply_is_compared_by_ownership_se_157() {
    let world = World::start().await;
    let map = |name: &str, data: Value, annotations: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "annotations": annotations}, "data": data})
        .to_string()
    };
    let option = json!({"argocd.argoproj.io/sync-options": "ServerSideApply=true"});
    let folders = [("by-app", json!({})), ("by-object", option)];
    for (name, annotations) in &folders {
        let text = map(name, json!({"ours": "1", "gone": "1"}), annotations.clone());
        world.write(&format!("{name}/map.json"), &text);
    }
    world.commit();
    for (name, annotations) in folders {
        let options = if name == "by-app" { json!(["ServerSideApply=true"]) } else { json!([]) };
        let more = json!({"spec": {"syncPolicy": {"syncOptions": options}}});
        world.create_with(name, name, more).await;
        world.sync_until_good(name, json!({"syncOptions": options})).await;
        let kind = ("v1", "ConfigMap");
        let theirs = json!({"data": {"theirs": "1"}, "metadata": {"labels": {"a": "b"}}});
        world.drift(kind, name, "somebody", theirs).await;
        world.rest().await;
        world.refresh(name).await;
        let app = world.app(name).await;
        assert_eq!(row(&app, name)["status"], "Synced", "SE-157: theirs: {app}");
        world.drift(kind, name, "somebody", json!({"data": {"ours": "2"}})).await;
        world.until(name, "SE-157: ours", |app| is(app, "OutOfSync", "Healthy")).await;
        world.drift(kind, name, "somebody", json!({"data": {"ours": "1"}})).await;
        world.until(name, "SE-157: as it was", |app| is(app, "Synced", "Healthy")).await;

        world.write(&format!("{name}/map.json"), &map(name, json!({"ours": "1"}), annotations));
        world.commit();
        world.refresh(name).await;
        world.until(name, "SE-157: removed", |app| is(app, "OutOfSync", "Healthy")).await;
        world.sync(name, json!({"syncOptions": options})).await;
        world.until(name, "synced again", |app| settled(app) && is(app, "Synced", "Healthy")).await;
        let live = world.get("v1", "ConfigMap", "web", name).await;
        assert_eq!(live["data"], json!({"ours": "1", "theirs": "1"}), "SE-157 {name}");
    }
}

/// SE-157: a kind that no schema describes is compared by its owners, too: Argo CD reports an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_without_a_schema_is_compared_by_ownership_se_157() {
    let world = World::start().await;
    world.define("Widget").await;
    let widget = |spec: Value| {
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": spec})
            .to_string()
    };
    world.commit_file("app/one.json", &widget(json!({"ours": "1", "gone": "1", "list": ["a"]})));
    let options = json!(["ServerSideApply=true"]);
    world
        .create_with("app", "app", json!({"spec": {"syncPolicy": {"syncOptions": options}}}))
        .await;
    world.sync_until_good("app", json!({"syncOptions": options})).await;
    let kind = ("example.com/v1", "Widget");
    world.drift(kind, "one", "somebody", json!({"spec": {"theirs": "1"}})).await;
    world.rest().await;
    world.refresh("app").await;
    let app = world.app("app").await;
    assert!(is(&app, "Synced", "Healthy"), "theirs: {app}");
    assert!(!condition(&app, "ComparisonError", ""), "{app}");
    world.drift(kind, "one", "somebody", json!({"spec": {"list": ["a", "b"]}})).await;
    world.until("app", "ours: a list is one value", |app| is(app, "OutOfSync", "Healthy")).await;
    world.drift(kind, "one", "somebody", json!({"spec": {"list": ["a"]}})).await;
    world.until("app", "as it was", |app| is(app, "Synced", "Healthy")).await;
    world.commit_file("app/one.json", &widget(json!({"ours": "1", "list": ["a"]})));
    world.refresh("app").await;
    world.until("app", "what the source lost", |app| is(app, "OutOfSync", "Healthy")).await;
}
