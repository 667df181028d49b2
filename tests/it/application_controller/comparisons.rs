//! What is compared, when, and what is taken for equal.

use super::*;

const SYNC_OPTIONS: &str = "argocd.argoproj.io/sync-options";

async fn without_resyncs() -> World {
    let mut world = World::start().await;
    world.crash().await;
    world.settings.reconciliation_timeout = Duration::ZERO;
    world.run();
    world
}

/// An object that was tracked by its label is no difference; one that another Application tracks
/// is (SE-118).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_tracking_method_is_no_difference_se_118() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("app/two.json", &config_map("two", "1", &[]));
    let live = |name: &str, annotations: &[(&str, &str)]| {
        let mut object: Value = serde_json::from_str(&config_map(name, "1", annotations)).unwrap();
        object["metadata"]["namespace"] = "web".into();
        object["metadata"]["labels"] = json!({"app.kubernetes.io/instance": "app"});
        object
    };
    world.create("v1", "ConfigMap", &live("one", &[])).await;
    let other = ("argocd.argoproj.io/tracking-id", "other:/ConfigMap:web/two");
    world.create("v1", "ConfigMap", &live("two", &[other])).await;
    world.create_app(&world.application("app", "app")).await;
    let app = world.until("app", "compared", |app| is(app, "OutOfSync", "Healthy")).await;
    assert_eq!(row(&app, "one")["status"], "Synced", "{app}");
    assert_eq!(row(&app, "two")["status"], "OutOfSync", "{app}");
}

/// An object that nobody tracks is taken over as it is, and another version of its kind is the
/// same object (SE-119, SE-139).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_adopted_in_any_version_of_their_kind_se_119_se_139() {
    let world = World::start().await;
    let version = |name: &str| {
        json!({
            "name": name, "served": true, "storage": name == "v2",
            "schema": {"openAPIV3Schema": {"type": "object",
                "x-kubernetes-preserve-unknown-fields": true}},
        })
    };
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [version("v1"), version("v2")],
        },
    });
    world.create("apiextensions.k8s.io/v1", "CustomResourceDefinition", &definition).await;
    let widget = |version: &str, size: u64| {
        json!({
            "apiVersion": format!("example.com/{version}"), "kind": "Widget",
            "metadata": {"name": "one"}, "spec": {"size": size},
        })
    };
    let mut live = widget("v1", 1);
    live["metadata"]["namespace"] = "web".into();
    let object: DynamicObject = serde_json::from_value(live).unwrap();
    let api = world.api("example.com/v1", "Widget", "web");
    let create = async || api.create(&PostParams::default(), &object).await.is_ok();
    until("the kind is served", create).await;
    let uid = |object: &Value| object["metadata"]["uid"].clone();
    let before = uid(&world.get("example.com/v2", "Widget", "web", "one").await);
    let first = world.commit_file("app/one.json", &widget("v1", 1).to_string());
    world.create_app(&world.application("app", "app")).await;
    let app = world.until("app", "compared", |app| is(app, "OutOfSync", "Healthy")).await;
    assert_eq!(row(&app, "one")["status"], "OutOfSync", "it is not tracked yet");
    world.sync_until_good("app", json!({"revision": first, "prune": true})).await;
    let second = world.commit_file("app/one.json", &widget("v2", 2).to_string());
    world.sync("app", json!({"revision": second, "prune": true})).await;
    let is_second = |app: &Value| {
        app["status"]["sync"]["revision"] == *second && settled(app) && is(app, "Synced", "Healthy")
    };
    let app = world.until("app", "in its other version", is_second).await;
    assert_eq!(app["status"]["resources"].as_array().unwrap().len(), 1, "{app}");
    assert_eq!(row(&app, "one")["version"], "v2");
    let live = world.get("example.com/v1", "Widget", "web", "one").await;
    assert_eq!((uid(&live), &live["spec"]["size"]), (before, &json!(2)), "it is the same object");
}

/// Several commits and syncs in one second: a comparison never takes a revision that was
/// resolved before the sync (SE-372).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comparison_after_a_sync_knows_the_synced_commit_se_372() {
    let world = without_resyncs().await;
    for value in 0..12 {
        world.write("app/one.json", &config_map("one", &value.to_string(), &[]));
        let revision = world.commit();
        if value == 0 {
            world.create_app(&world.application("app", "app")).await;
        }
        world.sync("app", json!({"revision": revision})).await;
        let is_synced = |app: &Value| {
            app["status"]["sync"]["revision"] == *revision
                && settled(app)
                && is(app, "Synced", "Healthy")
        };
        world.until("app", "compared with its commit", is_synced).await;
    }
}

/// Ignored fields count for `ApplyOutOfSyncOnly`, and are left as they are by
/// `RespectIgnoreDifferences` (SE-026, SE-176, SE-177, SE-324, SE-331).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ignored_fields_are_not_applied_se_177_se_324() {
    let world = World::start().await;
    let map = |name: &str, value: &str| config_map(name, value, &[]);
    for name in ["ignored", "changed"] {
        world.write(&format!("app/{name}.json"), &map(name, "1"));
    }
    let first = world.commit();
    let mut app = world.application("app", "app");
    app["spec"]["ignoreDifferences"] =
        json!([{"kind": "ConfigMap", "name": "ignored", "jsonPointers": ["/data/value"]}]);
    world.create_app(&app).await;
    world.sync_until_good("app", json!({"revision": first})).await;
    let maps = world.api("v1", "ConfigMap", "web");
    world.patch_map("ignored", json!({"data": {"value": "of a person"}})).await;
    let version = || async { maps.get("ignored").await.unwrap().metadata.resource_version };
    let before = version().await;

    let sync = |revision: String, options: Value| {
        let world = &world;
        async move {
            world.sync("app", json!({"revision": revision, "syncOptions": options})).await;
            let is_new = |app: &Value| {
                settled(app)
                    && app["status"]["operationState"]["operation"]["sync"]["syncOptions"]
                        == options
                    && app["status"]["operationState"]["syncResult"]["revision"] == *revision
            };
            let app = world.until("app", "synced", is_new).await;
            assert_eq!(phase(&app), "Succeeded", "{app}");
            app
        }
    };
    let second = world.commit_file("app/changed.json", &map("changed", "2"));
    let app = sync(second.clone(), json!(["ApplyOutOfSyncOnly=true"])).await;
    let applied = app["status"]["operationState"]["syncResult"]["resources"].as_array().unwrap();
    let names: Vec<&Value> = applied.iter().map(|result| &result["name"]).collect();
    assert_eq!(names, ["changed"], "SE-177");
    assert_eq!(version().await, before, "SE-177: it is not written");
    // Another field of it changes: it is applied, without the ignored one.
    world.write("app/ignored.json", &config_map("ignored", "2", &[("example.com/a", "b")]));
    let third = world.commit();
    sync(third.clone(), json!(["RespectIgnoreDifferences=true"])).await;
    let live = world.get("v1", "ConfigMap", "web", "ignored").await;
    assert_eq!(live["metadata"]["annotations"]["example.com/a"], "b");
    assert_eq!(live["data"]["value"], "of a person", "SE-324");
    sync(third, json!(["Validate=true"])).await;
    let live = world.get("v1", "ConfigMap", "web", "ignored").await;
    assert_eq!(live["data"]["value"], "2", "without the option it is");
}

/// A commit is found at the next check of the revision; nobody has to ask (SE-378).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_found_by_the_resync_se_378() {
    let mut world = World::start().await;
    world.crash().await;
    world.settings.reconciliation_timeout = Duration::from_millis(300);
    world.settings.reconciliation_jitter = Duration::from_millis(100);
    world.run();
    let first = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&world.application("app", "app")).await;
    world.until("app", "compared", |app| app["status"]["sync"]["revision"] == *first).await;
    let second = world.commit_file("app/two.json", &config_map("two", "1", &[]));
    let app =
        world.until("app", "checked", |app| app["status"]["sync"]["revision"] == *second).await;
    assert_eq!(row(&app, "two")["status"], "OutOfSync");
}

/// A repository that does not answer for a moment changes nothing; when it takes longer, the
/// condition says so (SE-107).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_that_fails_for_a_moment_changes_nothing_se_107() {
    let mut world = World::start().await;
    world.crash().await;
    world.settings.reconciliation_timeout = Duration::from_millis(300);
    world.settings.reconciliation_jitter = Duration::ZERO;
    world.settings.repo_error_grace = Duration::from_secs(3600);
    world.run();
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&world.application("app", "app")).await;
    world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    // Not missing: Git cannot read it.
    let config = world.repo.path().join(".git/config");
    let good = std::fs::read(&config).unwrap();
    std::fs::write(&config, "[broken").unwrap();
    // One that was never compared says so at once; the other one is checked meanwhile.
    world.create_app(&world.application("new", "app")).await;
    let text = "Failed to load target state: ";
    world.until("new", "reported", |app| condition(app, "ComparisonError", text)).await;
    // A check that had begun before may end after.
    world.rest().await;
    let app = world.app("app").await;
    world.rest().await;
    let now = world.app("app").await;
    assert!(is(&now, "OutOfSync", "Missing") && now["status"]["conditions"].is_null(), "{now}");
    assert_eq!(now["metadata"]["resourceVersion"], app["metadata"]["resourceVersion"]);

    world.crash().await;
    world.settings.repo_error_grace = Duration::ZERO;
    world.run();
    world.until("app", "reported", |app| condition(app, "ComparisonError", text)).await;
    std::fs::write(&config, good).unwrap();
    let is_good =
        |app: &Value| !condition(app, "ComparisonError", "") && is(app, "OutOfSync", "Missing");
    world.until("app", "compared again", is_good).await;
}

/// Both annotations of a request go when it is answered; a newer request is kept (CA-030, SE-379).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_removed_with_its_time_se_379() {
    let world = without_resyncs().await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&world.application("app", "app")).await;
    world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    let keys = ["argocd.argoproj.io/refresh", "argocd.argoproj.io/refresh-timestamp"];
    let ask = |at: u64| json!({"metadata": {"annotations": {keys[0]: "normal", keys[1]: format!("2026-01-02T03:04:{at:02}Z")}}});
    let answered =
        |app: &Value| keys.iter().all(|key| app["metadata"]["annotations"][*key].is_null());
    // While the first one is being answered, the next ones come in: each is answered.
    for round in 0..5 {
        world.write("app/one.json", &config_map("one", &round.to_string(), &[]));
        world.patch("app", ask(round * 2)).await;
        let revision = world.commit();
        world.patch("app", ask(round * 2 + 1)).await;
        let is_newest =
            |app: &Value| answered(app) && app["status"]["sync"]["revision"] == *revision;
        world.until("app", "answered with the newest", is_newest).await;
    }
}

/// The condition of an automated sync that is not tried again follows what is the case (SE-423,
/// SE-429).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_error_of_an_automated_sync_is_replaced_and_cleared_se_429() {
    let world = World::start().await;
    let bad = |name: &str| {
        json!({"apiVersion": "none.example.com/v1", "kind": name, "metadata": {"name": "n"}})
            .to_string()
    };
    let first = world.commit_file("app/one.json", &bad("First"));
    let more = json!({"spec": {"syncPolicy": {"automated": {}, "retry": {"limit": 0}}}});
    world.create_with("app", "app", more).await;
    let text = format!("Failed last sync attempt to [{first}]: ");
    world.until("app", "refused", |app| condition(app, "SyncError", &text)).await;
    let second = world.commit_file("app/one.json", &bad("Second"));
    world.refresh("app").await;
    let other = format!("Failed last sync attempt to [{second}]: ");
    let is_other =
        |app: &Value| condition(app, "SyncError", &other) && !condition(app, "SyncError", &text);
    world.until("app", "refused again", is_other).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.refresh("app").await;
    let is_good = |app: &Value| is(app, "Synced", "Healthy") && !condition(app, "SyncError", "");
    world.until("app", "synced", is_good).await;
}

/// What is switched on takes effect at once (SE-430).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn automated_syncs_begin_when_they_are_switched_on_se_430() {
    let world = without_resyncs().await;
    let revision = world.commit_file("app/one.json", &config_map("one", "2", &[]));
    world.create_app(&world.application("app", "app")).await;
    world.until("app", "compared", |app| app["status"]["sync"]["revision"] == *revision).await;
    world.patch("app", json!({"spec": {"syncPolicy": {"automated": {}}}})).await;
    let is_synced = |app: &Value| settled(app) && is(app, "Synced", "Healthy");
    world.until("app", "synced", is_synced).await;
    world.patch_map("one", json!({"data": {"value": "of a person"}})).await;
    world.until("app", "different", |app| is(app, "OutOfSync", "Healthy")).await;
    world.patch("app", json!({"spec": {"syncPolicy": {"automated": {"selfHeal": true}}}})).await;
    world.until_good("app").await;
    assert_eq!(world.get("v1", "ConfigMap", "web", "one").await["data"]["value"], "2");
}

/// A partial manifest changes what it names, with server-side apply and without validation
/// (SE-347).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partial_manifest_is_applied_by_the_server_se_347() {
    let world = World::start().await;
    let mut live: Value = serde_json::from_str(&deployment("shared", &[])).unwrap();
    live["metadata"]["namespace"] = "web".into();
    world.create("apps/v1", "Deployment", &live).await;
    let part = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "shared", "annotations": {SYNC_OPTIONS: "ServerSideApply=true,Validate=false"}},
        "spec": {"replicas": 3},
    });
    let revision = world.commit_file("app/part.json", &part.to_string());
    world.create_app(&world.application("app", "app")).await;
    let app = world.sync_until_settled("app", json!({"revision": revision})).await;
    assert_eq!(phase(&app), "Succeeded", "{app}");
    let live = world.get("apps/v1", "Deployment", "web", "shared").await;
    assert_eq!(live["spec"]["replicas"], 3);
    let containers = &live["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers[0]["image"], "example.com/app:1", "the rest stays");
    world.until("app", "synced", |app| app["status"]["sync"]["status"] == "Synced").await;
}
