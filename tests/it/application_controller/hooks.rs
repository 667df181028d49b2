//! Hooks: ownership, uniqueness, and objects they must not change.

use std::collections::BTreeSet;
use std::sync::Mutex;

use kube_sim::RecordedRequest;

use super::*;

const OPTIONS: &str = "argocd.argoproj.io/sync-options";

/// A manifest without a name.
pub fn nameless(manifest: &str, prefix: &str) -> String {
    let mut manifest: Value = serde_json::from_str(manifest).unwrap();
    let metadata = manifest["metadata"].as_object_mut().unwrap();
    metadata.remove("name");
    metadata.insert("generateName".to_owned(), prefix.into());
    manifest.to_string()
}

async fn all(world: &World, api_version: &str, kind: &str) -> Vec<DynamicObject> {
    let api: Api<DynamicObject> = world.api(api_version, kind, "web");
    api.list(&Default::default()).await.unwrap().items
}

fn claim(annotations: &[(&str, &str)]) -> Value {
    let object = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    serde_json::from_str(&annotated(object, annotations)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_never_changes_objects_of_others() {
    let world = World::start().await;
    let mut made = claim(&[]);
    made["metadata"]["namespace"] = "web".into();
    world.create("v1", "PersistentVolumeClaim", &made).await;
    world.write("other/shared.json", &config_map("shared", "theirs", &[]));
    world.commit_file("base/own.json", &config_map("own", "1", &[]));
    for name in ["other", "base"] {
        world.create_app(&world.application(name, name)).await;
        world.sync_until_good(name, json!({"revision": "main"})).await;
    }
    let uid = |object: &Value| object["metadata"]["uid"].clone();
    let before = [
        world.get("v1", "PersistentVolumeClaim", "web", "data").await,
        world.get("v1", "ConfigMap", "web", "shared").await,
        world.get("v1", "ConfigMap", "web", "own").await,
    ];

    // Each hook, each deletion policy, and the options that replace.
    let cases = [
        ("PreSync", "", ""),
        ("PostSync", "HookSucceeded", ""),
        ("SyncFail", "HookFailed", ""),
        ("Sync", "HookSucceeded,HookFailed", "Replace=true,Force=true"),
    ];
    for (hook, policy, options) in cases {
        let notes = [(HOOK, hook), (POLICY, policy), (OPTIONS, options)];
        let hooks = [
            ("PersistentVolumeClaim web/data", "managed by any", claim(&notes).to_string()),
            (
                "ConfigMap web/shared",
                "managed by Application argocd/other",
                config_map("shared", "mine", &notes),
            ),
            ("ConfigMap web/own", "not a hook", config_map("own", "2", &notes)),
        ];
        for (name, owner, manifest) in hooks {
            world.write("base/own.json", &config_map("own", "1", &[]));
            world.write("base/hook.json", &manifest);
            if name.ends_with("own") {
                world.remove("base/own.json");
            }
            let revision = world.commit();
            world.sync("base", json!({"revision": revision, "prune": true})).await;
            let app = world
                .until("base", "refused", |app| {
                    let synced = &app["status"]["operationState"]["syncResult"]["revision"];
                    settled(app) && *synced == *revision
                })
                .await;
            let said = message(&app);
            assert_eq!(phase(&app), "Failed", "{name} {hook} {policy}: {app}");
            assert!(said.contains(name) && said.contains(owner), "{hook} {policy}: {said}");
        }
    }
    let after = [
        world.get("v1", "PersistentVolumeClaim", "web", "data").await,
        world.get("v1", "ConfigMap", "web", "shared").await,
        world.get("v1", "ConfigMap", "web", "own").await,
    ];
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(uid(before), uid(after), "{before} {after}");
        assert_eq!(before["data"], after["data"], "{before} {after}");
        assert_eq!(after["metadata"]["finalizers"], before["metadata"]["finalizers"], "{after}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_left_by_argo_cd_is_recreated() {
    let world = World::start().await;
    world.write("app/hook.json", &job("migrate", &[(HOOK, "PreSync")]));
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let mut left: Value = serde_json::from_str(&job("migrate", &[(HOOK, "PreSync")])).unwrap();
    left["metadata"]["namespace"] = "web".into();
    left["metadata"]["finalizers"] = json!(["argocd.argoproj.io/hook-finalizer"]);
    left["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"] =
        "app:batch/Job:web/migrate".into();
    world.create("batch/v1", "Job", &left).await;
    let before = world.get("batch/v1", "Job", "web", "migrate").await;
    world.create_app(&world.application("app", "app")).await;
    let app = world.sync_until_settled("app", json!({"revision": revision})).await;
    assert_eq!(phase(&app), "Succeeded", "{app}");
    let after = world.get("batch/v1", "Job", "web", "migrate").await;
    assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"], "SE-290");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn force_does_not_delete_objects_of_another_application() {
    let world = World::start().await;
    world.write("other/shared.json", &config_map("shared", "theirs", &[]));
    let replaced = config_map("shared", "ours", &[(OPTIONS, "Replace=true,Force=true")]);
    let revision = world.commit_file("app/shared.json", &replaced);
    for (name, ends) in [("other", "Succeeded"), ("app", "Failed")] {
        world.create_app(&world.application(name, name)).await;
        let app = world.sync_until_settled(name, json!({"revision": revision})).await;
        assert_eq!(phase(&app), ends, "{app}");
        if name == "app" {
            assert!(message(&app).contains("managed by Application argocd/other"), "{app}");
        }
    }
    let shared = world.get("v1", "ConfigMap", "web", "shared").await;
    assert_eq!(shared["data"]["value"], "theirs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_with_generated_names_are_unique_per_application_and_position() {
    let world = World::start().await;
    let hook = nameless(&job("x", &[(HOOK, "PreSync")]), "migrate-");
    world.write("app/a.json", &hook);
    let revision = world.commit_file("app/b.json", &hook);
    let names = ["one", "two", "three", "four"];
    for name in names {
        world.create_app(&world.application(name, "app")).await;
        world.until(name, "compared", |app| is(app, "Synced", "Healthy")).await;
    }
    // All within about one second.
    for name in names {
        world.sync(name, json!({"revision": revision})).await;
    }
    for name in names {
        let app = world.until(name, "synced", settled).await;
        assert_eq!(phase(&app), "Succeeded", "{app}");
        let results = app["status"]["operationState"]["syncResult"]["resources"].as_array();
        assert_eq!(results.map(Vec::len), Some(2), "{app}");
    }
    let jobs = all(&world, "batch/v1", "Job").await;
    let name = |job: &DynamicObject| job.metadata.name.clone().unwrap();
    let jobs: Vec<String> = jobs.iter().map(name).collect();
    assert_eq!(jobs.len(), 8, "SE-604: {jobs:?}");
    let start = format!("migrate-{}-presync-", &revision[..7]);
    assert!(jobs.iter().all(|job| job.starts_with(&start) && job.len() <= 63), "{jobs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_with_generated_names_are_found_after_a_crash() {
    for round in 0..6u64 {
        let mut world = World::start().await;
        let hook = nameless(&job("x", &[(HOOK, "PreSync")]), "migrate-");
        world.write("app/a.json", &hook);
        world.write("app/b.json", &hook);
        world.write("app/c.json", &nameless(&config_map("x", "1", &[]), "made-"));
        let revision = world.commit();
        world.create_app(&world.application("app", "app")).await;
        world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
        world.server.forget_requests();
        world.sync("app", json!({"revision": revision})).await;
        for pause in [6 + 19 * round, 7 * round] {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            world.crash().await;
            world.run();
        }
        let app = world.until("app", "synced", settled).await;
        assert_eq!(phase(&app), "Succeeded", "round {round}: {app}");
        assert_eq!(world.made(), ["jobs", "jobs", "configmaps"], "round {round}");
    }
}

/// A synced Application that is deleted with its resources.
pub async fn deployed(world: &World, name: &str) -> Value {
    let revision = world.commit();
    world.create_with(name, name, json!({"metadata": {"finalizers": [CASCADE]}})).await;
    let app = world.sync_until_settled(name, json!({"revision": revision})).await;
    assert_eq!(phase(&app), "Succeeded", "{app}");
    app
}

fn deletion_error(app: &Value) -> Option<&str> {
    let all = app["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter().find(|c| c["type"] == "DeletionError")?["message"].as_str()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_hook_runs_again_for_the_deletion() {
    let world = World::start().await;
    let only = "HookSucceeded,HookFailed";
    world.write("app/a.json", &job("both", &[(HOOK, "PreSync,PreDelete")]));
    world
        .write("app/b.json", &job("late", &[(HOOK, "PreSync,PostDelete"), (POLICY, "HookFailed")]));
    world
        .write("app/c.json", &nameless(&job("x", &[(HOOK, "PostDelete"), (POLICY, only)]), "bye-"));
    world.write("app/one.json", &config_map("one", "1", &[]));
    deployed(&world, "app").await;
    let uid = |job: &Value| job["metadata"]["uid"].clone();
    let before = uid(&world.get("batch/v1", "Job", "web", "late").await);
    assert!(before.is_string());
    world.server.forget_requests();
    world.delete_app("app").await;
    world.until("app", "gone", Value::is_null).await;
    assert_eq!(world.made(), ["jobs", "jobs", "jobs"], "SE-517: {:?}", world.writes());
    let after = uid(&world.get("batch/v1", "Job", "web", "late").await);
    assert!(after.is_string() && before != after, "{before} {after}");
    assert_eq!(all(&world, "batch/v1", "Job").await.len(), 1, "SE-519");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_delete_hook_is_reported_once_and_blocks_the_deletion() {
    let world = World::start().await;
    world.write("app/a.json", &job("ask", &[(HOOK, "PreDelete"), FAILS]));
    world.write("app/one.json", &config_map("one", "1", &[]));
    deployed(&world, "app").await;
    world.server.forget_requests();
    world.delete_app("app").await;
    let app = world.until("app", "reported", |app| deletion_error(app).is_some()).await;
    let said = deletion_error(&app).unwrap();
    assert!(said.contains("PreDelete hook(s) failed: web/ask ("), "SE-517: {said}");
    // No request while it waits, then one more run.
    world.rest().await;
    let made = world.made().len();
    assert!((1..=2).contains(&made), "{made}");
    world.until_made(made + 1).await;
    let app = world.app("app").await;
    assert_eq!(deletion_error(&app), Some(said), "it has failed before");
    assert_eq!(
        world
            .warnings(
                "StatusRefreshed",
                "Unable to delete application resources: PreDelete hook(s) failed"
            )
            .await
            .len(),
        1
    );
    assert!(!world.get("v1", "ConfigMap", "web", "one").await.is_null(), "SE-518");

    // Fixed in the source, and refreshed.
    world.commit_file("app/a.json", &job("ask", &[(HOOK, "PreDelete")]));
    world.until("app", "failed again", |_| true).await;
    let refresh = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}});
    let api = world.api("argoproj.io/v1alpha1", "Application", NAMESPACE);
    let gone = async {
        while api.get_opt("app").await.unwrap().is_some() {
            // The refresh may be requested while the failing hook still runs.
            let _ = api.patch("app", &PatchParams::default(), &Patch::Merge(&refresh)).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    tokio::time::timeout(LIMIT, gone).await.expect("the deletion continues");
    assert!(world.get("v1", "ConfigMap", "web", "one").await.is_null());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_hook_is_subject_to_the_project() {
    let world = World::start().await;
    world.write("app/a.json", &nameless(&job("x", &[(HOOK, "PreDelete")]), "ask-"));
    world.write("app/b.json", &config_map("settings", "1", &[(HOOK, "PostDelete")]));
    world.write("app/one.json", &config_map("one", "1", &[]));
    deployed(&world, "app").await;
    let mut theirs: Value = serde_json::from_str(&config_map("settings", "theirs", &[])).unwrap();
    theirs["metadata"]["namespace"] = "web".into();
    world.create("v1", "ConfigMap", &theirs).await;
    let deny = async |list: Value| {
        world.patch_project(json!({"namespaceResourceBlacklist": list})).await;
    };
    deny(json!([{"group": "batch", "kind": "Job"}])).await;
    world.server.forget_requests();
    world.delete_app("app").await;
    let denial = "resource batch:Job is not permitted in project default";
    world
        .until("app", "denied", |app| deletion_error(app).is_some_and(|said| said.contains(denial)))
        .await;
    assert_eq!(world.made(), [""; 0]);

    deny(Value::Null).await;
    let not_ours = "ConfigMap web/settings: an object of this name is not managed by any";
    let reached = |app: &Value| deletion_error(app).is_some_and(|said| said.contains(not_ours));
    world.until("app", "refused", reached).await;
    let kept = world.get("v1", "ConfigMap", "web", "settings").await;
    assert_eq!(kept["data"]["value"], "theirs");
    assert!(world.get("v1", "ConfigMap", "web", "one").await.is_null(), "SE-520");
    world.delete_map("settings").await;
    world.until("app", "gone", Value::is_null).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_continues_when_the_operation_ends() {
    for (how, note) in [("ends", HANGS), ("is terminated", HANGS), ("is tried again", FAILS)] {
        let world = World::start().await;
        world.write("app/pre.json", &job("pre", &[(HOOK, "PreSync"), note]));
        let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
        world.create_with("app", "app", json!({"metadata": {"finalizers": [CASCADE]}})).await;
        let retry = json!({"limit": 3, "backoff": {"duration": "1h", "maxDuration": "1h"}});
        let operation = json!({"sync": {"revision": revision}, "retry": retry});
        world.patch("app", json!({"operation": operation})).await;
        let waits = if how == "is tried again" { "Retrying" } else { "waiting for completion" };
        world.until("app", "under way", |app| message(app).contains(waits)).await;
        world.delete_app("app").await;
        if how != "is tried again" {
            world.until("app", "going", |a| !a["metadata"]["deletionTimestamp"].is_null()).await;
        }
        if how == "ends" {
            world.complete_job("pre").await;
        }
        if how == "is terminated" {
            world.terminate("app").await;
        }
        world.until("app", &format!("gone: {how}: SE-513"), Value::is_null).await;
        assert!(world.get("batch/v1", "Job", "web", "pre").await.is_null(), "{how}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_sync_window_does_not_block_a_deletion() {
    let world = World::start().await;
    let window = json!({
        "kind": "deny", "schedule": "* * * * *", "duration": "24h", "applications": ["*"],
    });
    world.project("shut", json!({"syncWindows": [window]})).await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let more = json!({"spec": {"project": "shut"}, "metadata": {"finalizers": [CASCADE]}});
    world.create_with("app", "app", more).await;
    world.patch("app", json!({"operation": {"sync": {"revision": revision}}})).await;
    world.until("app", "blocked", |app| message(app).contains("window")).await;
    world.delete_app("app").await;
    world.until("app", "gone", Value::is_null).await;
    assert!(world.get("v1", "ConfigMap", "web", "one").await.is_null());
}

/// SE-360: what is deleted, a hook as well, is deleted in the foreground, and only as the object that
/// was seen: another one of its name stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletions_name_the_object_and_are_in_the_foreground_se_360() {
    let world = World::start().await;
    let (uids, deletions) = (Arc::<Mutex<BTreeSet<_>>>::default(), Arc::<Mutex<Vec<_>>>::default());
    let (seen, sent) = (uids.clone(), deletions.clone());
    world.server.record_into(move |entry| match entry {
        RecordedRequest::Change(change) => {
            let object: Value = serde_json::from_slice(&change.object).unwrap();
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            seen.lock().unwrap().insert((change.name.to_string(), uid));
        }
        RecordedRequest::Exchange(exchange)
            if exchange.request.client == CONTROLLER && exchange.request.verb == "delete" =>
        {
            let body: Value = serde_json::from_slice(&exchange.body).unwrap();
            sent.lock().unwrap().push((exchange.request.name, body));
        }
        _ => {}
    });
    let hook = |name: &str, type_: &str| {
        let annotations = [(HOOK, type_), (POLICY, "BeforeHookCreation,HookSucceeded")];
        world.write(&format!("app/{name}.json"), &job(name, &annotations));
    };
    hook("before", "PreSync");
    hook("first", "PreDelete");
    hook("last", "PostDelete");
    for name in ["one", "two"] {
        world.write(&format!("app/{name}.json"), &config_map(name, "1", &[]));
    }
    deployed(&world, "app").await;
    world.remove("app/two.json");
    world.commit();
    world.sync_to_end("app", json!({"prune": true})).await;
    world.delete_app("app").await;
    world.until("app", "gone", Value::is_null).await;
    let deletions = deletions.lock().unwrap().clone();
    for name in ["before", "first", "last", "one", "two"] {
        assert!(deletions.iter().any(|(of, _)| of == name), "{name}: {deletions:?}");
    }
    for (name, body) in deletions {
        assert_eq!(body["propagationPolicy"], "Foreground", "{name}: {body}");
        let uid = body["preconditions"]["uid"].as_str().unwrap_or_default().to_owned();
        assert!(uids.lock().unwrap().contains(&(name.clone(), uid)), "{name}: {body}");
    }
}

/// SE-517: the hooks of a deletion run wave by wave, by their waves and not by their names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_of_a_deletion_run_wave_by_wave_se_517() {
    for type_ in ["PreDelete", "PostDelete"] {
        let world = World::start().await;
        world.write("app/a.json", &job("a-late", &[(HOOK, type_), (WAVE, "1")]));
        world.write("app/b.json", &job("b-first", &[(HOOK, type_), (WAVE, "-1"), HANGS]));
        world.write("app/one.json", &config_map("one", "1", &[]));
        deployed(&world, "app").await;
        world.server.forget_requests();
        world.delete_app("app").await;
        world.until_made(1).await;
        world.rest().await;
        let of = async |name: &str| world.get("batch/v1", "Job", "web", name).await;
        assert!(!of("b-first").await.is_null(), "{type_}");
        assert!(of("a-late").await.is_null(), "{type_}: it waits for the wave before it");
        world.complete_job("b-first").await;
        world.until("app", &format!("gone: {type_}"), Value::is_null).await;
        assert_eq!(world.made(), ["jobs", "jobs"], "{type_}");
    }
}

/// SE-517: a hook of a deletion that is suspended has not completed: it is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_hook_of_a_deletion_is_waited_for_se_517() {
    let world = World::start().await;
    let mut hook: Value = serde_json::from_str(&job("ask", &[(HOOK, "PreDelete")])).unwrap();
    hook["spec"]["suspend"] = true.into();
    world.write("app/ask.json", &hook.to_string());
    world.write("app/one.json", &config_map("one", "1", &[]));
    deployed(&world, "app").await;
    world.server.forget_requests();
    world.delete_app("app").await;
    world.until_made(1).await;
    let suspended = json!({"conditions": [{"type": "Suspended", "status": "True"}]});
    world.patch_status_of(("batch/v1", "Job"), "web", "ask", json!({"status": suspended})).await;
    world.rest().await;
    assert!(!world.get("v1", "ConfigMap", "web", "one").await.is_null(), "nothing is deleted");
    assert_eq!(deletion_error(&world.app("app").await), None, "and nothing has failed");
    let goes_on = json!({"spec": {"suspend": false}, "status": {"conditions": null}});
    world.patch_object(("batch/v1", "Job"), "web", "ask", goes_on.clone()).await;
    world.patch_status_of(("batch/v1", "Job"), "web", "ask", goes_on).await;
    world.complete_job("ask").await;
    world.until("app", "gone", Value::is_null).await;
}
