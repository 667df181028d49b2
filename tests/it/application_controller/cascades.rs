//! What a deletion does to the resources, and what holds it.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;

use super::hooks::deployed;
use super::option_effects::finalizers_of_deletion;
use super::*;

fn finalizers(app: &Value) -> Vec<String> {
    let all = app["metadata"]["finalizers"].as_array().into_iter().flatten();
    let mut all: Vec<String> = all.filter_map(|one| one.as_str().map(str::to_owned)).collect();
    all.sort();
    all
}

/// They are added for the hooks that the source has, and removed with them (SE-511).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_finalizers_of_deletion_hooks_follow_the_source_se_511() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.write("app/before.json", &job("before", &[(HOOK, "PreDelete")]));
    world.commit_file("app/after.json", &job("after", &[(HOOK, "PostDelete")]));
    world.create_app(&world.application("app", "app")).await;
    let both = |kind: &str| {
        let name = format!("{kind}-delete-finalizer.argocd.argoproj.io");
        [name.clone(), format!("{name}/cleanup")]
    };
    let all = [both("post"), both("pre")].concat();
    let app = world.until("app", "held by both", |app| finalizers(app) == all).await;
    assert!(is(&app, "OutOfSync", "Missing") || app["status"].is_null(), "before the status");
    world.remove("app/before.json");
    world.commit();
    world.refresh("app").await;
    world.until("app", "held by one", |app| finalizers(app) == both("post")).await;
    world.remove("app/after.json");
    world.commit();
    world.refresh("app").await;
    world.until("app", "not held", |app| finalizers(app).is_empty()).await;
}

/// The first finalizer decides how resources are deleted; a definition is never deleted, and with
/// it all objects of its kind in the cluster (SE-515, SE-516).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cascade_deletes_as_its_finalizer_says_and_no_definition_se_515_se_516() {
    let world = World::start().await;
    let definition = widgets(json!({}));
    let held = |name: &str| {
        let mut object: Value = serde_json::from_str(&config_map(name, "1", &[])).unwrap();
        // Shows how it is deleted.
        object["metadata"]["finalizers"] = json!(["example.com/hold"]);
        object.to_string()
    };
    let maps = world.api("v1", "ConfigMap", "web");
    for (name, finalizer, in_foreground) in [
        ("foreground", CASCADE.to_owned(), true),
        ("background", format!("{CASCADE}/background"), false),
    ] {
        world.write(&format!("{name}/one.json"), &held(name));
        world.write(&format!("{name}/definition.json"), &definition.to_string());
        let revision = world.commit();
        world.create_with(name, name, json!({"metadata": {"finalizers": [finalizer]}})).await;
        world.sync_until_good(name, json!({"revision": revision})).await;
        let live = maps.get(name).await.unwrap().metadata.resource_version.unwrap();
        let mut changes = maps.watch(&Default::default(), &live).await.unwrap().boxed();
        world.delete_app(name).await;
        let going = finalizers_of_deletion(&mut changes, name).await;
        let is_foreground = going.iter().any(|one| one == "foregroundDeletion");
        assert_eq!(is_foreground, in_foreground, "{name}: {going:?}");
        world.patch_map(name, json!({"metadata": {"finalizers": null}})).await;
        world.until(name, "gone", Value::is_null).await;
        let kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        let left = world.get(kind.0, kind.1, "", "widgets.example.com").await;
        assert!(left.is_object() && left["metadata"]["deletionTimestamp"].is_null(), "SE-516");
    }
}

/// Nothing of the source is needed to delete what was applied (SE-521).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_does_not_render_holds_no_plain_cascade_se_521() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    deployed(&world, "app").await;
    world.commit_file("app/one.json", "{");
    world.refresh("app").await;
    world.until("app", "failed", |app| condition(app, "ComparisonError", "one.json")).await;
    world.delete_app("app").await;
    world.until("app", "gone", Value::is_null).await;
    assert!(world.get("v1", "ConfigMap", "web", "one").await.is_null());
}

/// A window that denies the sync does not keep a person from ending it (SE-584).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_a_window_blocks_can_be_terminated_se_584() {
    let world = World::start().await;
    let rules = json!({"syncWindows": [{"kind": "deny", "schedule": "* * * * *", "duration": "24h", "applications": ["*"], "manualSync": false}]});
    world.project("closed", rules).await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let mut app = world.application("app", "app");
    app["spec"]["project"] = "closed".into();
    world.create_app(&app).await;
    world.sync("app", json!({"revision": revision})).await;
    let is_blocked = |app: &Value| {
        let said = &app["status"]["operationState"]["message"];
        phase(app) == "Running" && said.as_str().is_some_and(|said| said.contains("window"))
    };
    world.until("app", "blocked", is_blocked).await;
    world.terminate("app").await;
    let app = world.until("app", "ended", settled).await;
    assert_eq!(phase(&app), "Failed", "{app}");
    assert!(world.get("v1", "ConfigMap", "web", "one").await.is_null());
}

/// Both were only in the log of the controller: who deletes an Application sees what it waits for
/// (SE-315, SE-514).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_waits_for_somebody_says_so_se_315() {
    let world = World::start().await;
    let option = "argocd.argoproj.io/sync-options";
    world.write("app/asks.json", &config_map("asks", "1", &[(option, "Delete=confirm")]));
    let mut held: Value = serde_json::from_str(&config_map("held", "1", &[])).unwrap();
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.write("app/held.json", &held.to_string());
    deployed(&world, "app").await;
    world.delete_app("app").await;
    let text = "waiting for approval of the deletion of ConfigMap web/asks";
    world.until("app", "waiting", |app| condition(app, "DeletionWarning", text)).await;
    world.rest().await;
    let maps = world.api("v1", "ConfigMap", "web");
    for name in ["asks", "held"] {
        let live = maps.get(name).await.unwrap().metadata;
        assert_eq!(live.deletion_timestamp, None, "{name}: nothing is deleted before");
    }
    let approved = json!({"metadata": {"annotations": {
        "argocd.argoproj.io/deletion-approved": (jiff::Timestamp::now() + jiff::SignedDuration::from_secs(60)).to_string(),
    }}});
    world.patch("app", approved).await;
    let text = "waiting for deletion of ConfigMap web/held, held by example.com/hold";
    let app = world.until("app", "held", |app| condition(app, "DeletionWarning", text)).await;
    assert!(!condition(&app, "DeletionWarning", "approval"), "{app}");
    world.patch_map("held", json!({"metadata": {"finalizers": null}})).await;
    world.until("app", "gone", Value::is_null).await;
    assert!(maps.get_opt("asks").await.unwrap().is_none());
}

/// Found by simulated fleets: one that was asked to sync when it was deleted was reconciled without
/// a pause until it was gone (SE-512).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_with_a_request_waits_in_peace_se_512() {
    let mut world = World::start().await;
    let mut held: Value = serde_json::from_str(&config_map("held", "1", &[])).unwrap();
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.write("app/held.json", &held.to_string());
    deployed(&world, "app").await;
    world.crash().await;
    world.delete_app("app").await;
    let request = json!({"sync": {}, "initiatedBy": {"username": "ann"}});
    world.patch("app", json!({"operation": request})).await;
    // Each reconcile looks at the clock.
    let looks = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&looks);
    let clock = Clock::of(move || {
        count.fetch_add(1, Ordering::Relaxed);
        jiff::Timestamp::now()
    });
    world.run_by(world.server.client_as(CONTROLLER), clock);
    let text = "waiting for deletion of ConfigMap web/held, held by example.com/hold";
    let app = world.until("app", "held", |app| condition(app, "DeletionWarning", text)).await;
    assert_eq!(app["operation"], request, "it is kept, and does not begin");
    world.rest().await;
    let before = looks.load(Ordering::Relaxed);
    world.rest().await;
    let more = looks.load(Ordering::Relaxed) - before;
    assert!(more < 50, "it looks at the clock {more} times while nothing happens");
    world.patch_map("held", json!({"metadata": {"finalizers": null}})).await;
    world.until("app", "gone", Value::is_null).await;
}

/// SE-298, SE-512: the hook was deleted before it was stored that it had ended, so it ran again
/// after a write that failed, and the same after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_hook_runs_once_whatever_becomes_of_the_write_of_its_end_se_298() {
    for hook in ["PreDelete", "PostDelete"] {
        let world = World::start().await;
        let annotations = [(HOOK, hook), (POLICY, "HookSucceeded"), HANGS];
        world.write("app/hook.json", &job("hook", &annotations));
        world.write("app/one.json", &config_map("one", "1", &[]));
        deployed(&world, "app").await;
        world.until("app", "held", |app| finalizers(app).len() == 3).await;
        world.server.forget_requests();
        world.delete_app("app").await;
        world.until_made(1).await;
        world.rest().await;
        let stores = requests("patch", "applications");
        world.server.inject(InjectedFault::new(Effect::Status(500), stores).times(usize::MAX));
        world.complete_job("hook").await;
        until("the end is written again and again", async || {
            let is_failed = |record: &&RequestRecord| stores(record) && record.code == 500;
            world.server.requests().iter().filter(is_failed).count() >= 8
        })
        .await;
        world.server.clear_faults();
        world.until("app", "gone", Value::is_null).await;
        assert_eq!(world.made(), ["jobs"], "{hook}");
        assert!(world.get("batch/v1", "Job", "web", "hook").await.is_null(), "{hook}");
    }
}

/// SE-436, SE-514: it counted as complete, and the object was left without a word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_waits_for_a_kind_that_cannot_be_listed_for_now_se_436() {
    let mut world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    deployed(&world, "app").await;
    world.crash().await;
    // Of an earlier state of the Application, of which the status says nothing.
    let left = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "left", "namespace": "web", "annotations": {
            "argocd.argoproj.io/tracking-id": "app:/ServiceAccount:web/left",
        }},
    });
    world.create("v1", "ServiceAccount", &left).await;
    let lists = requests("list", "serviceaccounts");
    world.server.inject(InjectedFault::new(Effect::Status(500), lists).times(usize::MAX));
    world.run();
    world.delete_app("app").await;
    let text = "waiting until all kinds of the cluster can be listed";
    world.until("app", "held", |app| condition(app, "DeletionWarning", text)).await;
    assert!(world.get("v1", "ConfigMap", "web", "one").await.is_null(), "what is known is gone");
    world.server.clear_faults();
    // Without it, the kinds are listed again after half a minute.
    world.refresh("app").await;
    world.until("app", "gone", Value::is_null).await;
    assert!(world.get("v1", "ServiceAccount", "web", "left").await.is_null());
}

/// A root that manages itself, which waited for its own deletion: when a person deletes it, when
/// its sync prunes it, and when it is deleted during a sync that applies it (SE-513, SE-514).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_in_its_own_source_is_deleted_se_513_se_514() {
    for how in ["by a person", "by its sync", "during a sync"] {
        let world = World::start().await;
        let mut itself = world.application("root", "root");
        itself["apiVersion"] = "argoproj.io/v1alpha1".into();
        itself["kind"] = "Application".into();
        world.write("root/itself.json", &itself.to_string());
        world.write("root/one.json", &config_map("one", "1", &[]));
        world.write("root/two.json", &config_map("two", "2", &[(WAVE, "1")]));
        deployed(&world, "root").await;
        let listed = |app: &Value| {
            let all = app["status"]["resources"].as_array().into_iter().flatten();
            all.into_iter().any(|one| one["kind"] == "Application" && one["name"] == "root")
        };
        world.until("root", "managed by itself", listed).await;
        match how {
            "by a person" => world.delete_app("root").await,
            "by its sync" => {
                world.remove("root/itself.json");
                let revision = world.commit();
                world.sync("root", json!({"revision": revision, "prune": true})).await;
            }
            _ => {
                world.write("root/pre.json", &job("pre", &[(HOOK, "PreSync"), HANGS]));
                let revision = world.commit();
                world.sync("root", json!({"revision": revision})).await;
                let waits = |app: &Value| message(app).contains("waiting for completion");
                world.until("root", "under way", waits).await;
                world.delete_app("root").await;
                let going = |app: &Value| !app["metadata"]["deletionTimestamp"].is_null();
                world.until("root", "going", going).await;
                world.complete_job("pre").await;
            }
        }
        world.until("root", &format!("gone: {how}"), Value::is_null).await;
        for name in ["one", "two"] {
            assert!(world.get("v1", "ConfigMap", "web", name).await.is_null(), "{how}: {name}");
        }
    }
}

/// Hooks of kinds without a health are complete when they exist: nothing else announces it, so the
/// deletion goes on at once, and not only when it looks again (SE-518).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_hook_of_a_kind_without_health_holds_nothing_se_518() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.write("app/before.json", &config_map("before", "1", &[(HOOK, "PreDelete")]));
    world.commit_file("app/after.json", &config_map("after", "1", &[(HOOK, "PostDelete")]));
    deployed(&world, "app").await;
    let began = std::time::Instant::now();
    world.delete_app("app").await;
    world.until("app", "gone", Value::is_null).await;
    assert!(began.elapsed() < Duration::from_secs(25), "it has looked again: {began:?}");
    assert!(!world.get("v1", "ConfigMap", "web", "after").await.is_null());
}

/// A confirmation that is far ahead was not given for this deletion (SE-315).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmation_of_the_future_confirms_nothing_se_315() {
    let world = World::start().await;
    let asks = ("argocd.argoproj.io/sync-options", "Delete=confirm");
    world.commit_file("app/asks.json", &config_map("asks", "1", &[asks]));
    deployed(&world, "app").await;
    let confirm = async |ahead: i64| {
        let at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(ahead);
        let approved = json!({"argocd.argoproj.io/deletion-approved": at.to_string()});
        world.patch("app", json!({"metadata": {"annotations": approved}})).await;
    };
    confirm(2 * 3600).await;
    world.delete_app("app").await;
    let text = "waiting for approval of the deletion of ConfigMap web/asks: annotation \
                argocd.argoproj.io/deletion-approved is ahead";
    world.until("app", "waiting", |app| condition(app, "DeletionWarning", text)).await;
    assert!(!world.get("v1", "ConfigMap", "web", "asks").await.is_null());
    confirm(1).await;
    world.until("app", "gone", Value::is_null).await;
}

/// Hooks need a project, and it may never be back: the way without them is told (SE-521).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_with_hooks_and_without_a_project_tells_a_way_out_se_521() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("app/after.json", &config_map("after", "1", &[(HOOK, "PostDelete")]));
    deployed(&world, "app").await;
    world.patch("app", json!({"spec": {"project": "nowhere"}})).await;
    world.until("app", "refused", |app| condition(app, "InvalidSpecError", "nowhere")).await;
    world.delete_app("app").await;
    let text = "delete the application without them by removing its finalizers \
                post-delete-finalizer.argocd.argoproj.io, \
                post-delete-finalizer.argocd.argoproj.io/cleanup";
    world.until("app", "held", |app| condition(app, "DeletionError", text)).await;
    world.patch("app", json!({"metadata": {"finalizers": [CASCADE]}})).await;
    world.until("app", "gone", Value::is_null).await;
    assert!(world.get("v1", "ConfigMap", "web", "one").await.is_null());
    assert!(world.get("v1", "ConfigMap", "web", "after").await.is_null());
}
