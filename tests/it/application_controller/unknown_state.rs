//! What is not known to be in sync is not skipped, and what was not applied does not count.

use super::*;

const ONLY: &str = "ApplyOutOfSyncOnly=true";
const CREATE: &str = "CreateNamespace=true";

/// Objects that the comparison does not count as managed differ from the source all the same, and a
/// sync that skips what is in sync applies them (SE-115, SE-116, SE-318).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_others_are_applied_by_a_sync_of_what_is_out_of_sync_se_318() {
    let world = World::start().await;
    let names = ["plain", "owned", "copied", "same"];
    let write = |value: &str| {
        for name in names {
            let value = if name == "same" { "1" } else { value };
            world.write(&format!("app/{name}.json"), &config_map(name, value, &[]));
        }
        world.commit()
    };
    let first = write("1");
    world.create_app(&world.application("app", "app")).await;
    world.sync_until_good("app", json!({"revision": first})).await;
    let owner: Value = serde_json::from_str(&config_map("owner", "1", &[])).unwrap();
    let mut owner = owner;
    owner["metadata"]["namespace"] = "web".into();
    world.create("v1", "ConfigMap", &owner).await;
    let uid = world.get("v1", "ConfigMap", "web", "owner").await["metadata"]["uid"].clone();
    let owners = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]);
    world.patch_map("owned", json!({"metadata": {"ownerReferences": owners}})).await;
    let copied = json!({"argocd.argoproj.io/tracking-id": "app:/ConfigMap:web/other"});
    world.patch_map("copied", json!({"metadata": {"annotations": copied}})).await;
    let second = write("2");
    world.refresh("app").await;
    world.until("app", "changed", |app| app["status"]["sync"]["status"] == "OutOfSync").await;
    let app = world.sync_to_end("app", json!({"revision": second, "syncOptions": [ONLY]})).await;
    assert_eq!(phase(&app), "Succeeded", "{app}");
    for name in names {
        let live = world.get("v1", "ConfigMap", "web", name).await;
        let (value, is_applied) = if name == "same" { ("1", false) } else { ("2", true) };
        assert_eq!(live["data"]["value"], value, "{name}");
        assert_eq!(!result(&app, name).is_null(), is_applied, "{name}: {app}");
    }
    world.until("app", "synced", |app| is(app, "Synced", "Healthy")).await;
}

/// What was pinned counted as applied, and the Application as Synced without its labels, of which
/// some are guards (SE-025, SE-147).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metadata_of_the_namespace_counts_once_it_is_applied_se_025() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    let revision = world.commit();
    let policy = |level: &str| {
        json!({"spec": {"syncPolicy": {
            "managedNamespaceMetadata": {"labels": {"level": level}}, "syncOptions": [CREATE],
        }}})
    };
    let level = async || {
        world.get("v1", "Namespace", "", "fresh").await["metadata"]["labels"]["level"].clone()
    };
    let mut app = world.application("app", "app");
    app["spec"]["destination"]["namespace"] = "fresh".into();
    json_patch::merge(&mut app, &policy("1"));
    world.create_app(&app).await;
    let options = json!([CREATE]);
    let whole = json!({"revision": revision, "syncOptions": options});
    world.sync_until_good("app", whole.clone()).await;
    assert_eq!(level().await, "1");

    world.patch("app", policy("2")).await;
    let differs = |app: &Value| settled(app) && app["status"]["sync"]["status"] == "OutOfSync";
    world.until("app", "changed", differs).await;
    let missing = [json!({"kind": "ConfigMap", "group": "", "name": "nothing"})];
    for (what, sync) in [
        ("a dry run", json!({"revision": revision, "dryRun": true, "syncOptions": options})),
        ("without the option", json!({"revision": revision})),
        ("of no resource, without the option", json!({"revision": revision, "resources": missing})),
        ("of an unknown revision", json!({"revision": "nowhere", "syncOptions": options})),
    ] {
        world.sync_to_end("app", sync).await;
        world.refresh("app").await;
        let app = world.app("app").await;
        assert_eq!(level().await, "1", "{what}");
        assert!(differs(&app), "{what}: {app}");
    }
    // Nor one that fails before, or is retried with another revision.
    let bad = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad"},
        "data": {"a": {"b": 1}}});
    let failing = world.commit_file("app/bad.json", &bad.to_string());
    let app = world.sync_to_end("app", json!({"revision": failing, "syncOptions": options})).await;
    assert_eq!(phase(&app), "Failed", "{app}");
    world.remove("app/bad.json");
    let revision = world.commit();
    world.refresh("app").await;
    let app = world.app("app").await;
    assert!(level().await == "2" || differs(&app), "{app}");

    // One that skips what is in sync applies it, too.
    let only = json!({"revision": revision, "syncOptions": [CREATE, ONLY]});
    let app = world.sync_until_good("app", only.clone()).await;
    assert_eq!(level().await, "2", "{app}");
    assert!(result(&app, "one").is_null(), "{app}");

    // And what is left out of it is removed.
    let none = json!({"spec": {"syncPolicy": {"managedNamespaceMetadata": {
        "labels": {"level": null, "other": "1"},
    }}}});
    world.patch("app", none).await;
    world.until("app", "changed", differs).await;
    world.sync_until_good("app", only).await;
    assert_eq!(level().await, Value::Null);

    // Without any there is nothing to apply, and the next sync ends it.
    world.patch("app", json!({"spec": {"syncPolicy": {"managedNamespaceMetadata": null}}})).await;
    world.until("app", "changed", differs).await;
    world.sync_until_good("app", whole).await;
}
