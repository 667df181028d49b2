//! Differences by the managers of fields (SE-157, SE-174).

use super::*;

fn row<'a>(app: &'a Value, name: &str) -> &'a Value {
    let rows = app["status"]["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
    rows.iter().find(|row| row["name"] == name).unwrap_or(&Value::Null)
}

/// Changes a live object as another manager.
async fn change(world: &World, (version, kind): (&str, &str), name: &str, by: &str, patch: Value) {
    let params = PatchParams { field_manager: Some(by.to_owned()), ..Default::default() };
    let api = world.api(version, kind, "web");
    api.patch(name, &params, &Patch::Merge(patch)).await.unwrap();
}

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
    world.sync("app", json!({})).await;
    world.until_good("app").await;
    let (web, map) = (("apps/v1", "Deployment"), ("v1", "ConfigMap"));
    let scale = || json!({"spec": {"replicas": 3}});
    change(&world, web, "web", "scaler", scale()).await;
    change(&world, web, "other", "somebody", scale()).await;
    change(&world, web, "both", "scaler", scale()).await;
    change(
        &world,
        web,
        "both",
        "somebody",
        json!({"spec": {"paused": false, "minReadySeconds": 4}}),
    )
    .await;
    let value = || json!({"data": {"value": "2"}});
    change(&world, map, "map-web", "scaler", value()).await;
    change(&world, map, "map-other", "scaler", value()).await;
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
        let mut app = world.application(name, name);
        app["spec"]["syncPolicy"] = json!({ "syncOptions": options });
        world.create_app(&app).await;
        world.sync(name, json!({"syncOptions": options})).await;
        world.until_good(name).await;
        let kind = ("v1", "ConfigMap");
        let theirs = json!({"data": {"theirs": "1"}, "metadata": {"labels": {"a": "b"}}});
        change(&world, kind, name, "somebody", theirs).await;
        world.rest().await;
        world.refresh(name).await;
        let app = world.app(name).await;
        assert_eq!(row(&app, name)["status"], "Synced", "SE-157: theirs: {app}");
        change(&world, kind, name, "somebody", json!({"data": {"ours": "2"}})).await;
        world.until(name, "SE-157: ours", |app| is(app, "OutOfSync", "Healthy")).await;
        change(&world, kind, name, "somebody", json!({"data": {"ours": "1"}})).await;
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
