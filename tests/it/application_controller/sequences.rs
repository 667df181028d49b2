//! Phases, waves and hooks of a sync, one after the other (SE-192 to SE-293).

use super::limits::settings;
use super::*;

/// An Application of this folder, whose sync has ended.
async fn synced(world: &World, name: &str) -> Value {
    world.create_app(&world.application(name, name)).await;
    world.sync(name, json!({})).await;
    world.until(name, "over", |app| matches!(phase(app), "Succeeded" | "Failed" | "Error")).await
}

async fn exists(world: &World, kind: &str, name: &str) -> bool {
    let api_version = if kind == "Job" { "batch/v1" } else { "v1" };
    world.get(api_version, kind, "web", name).await.is_object()
}

/// SE-192, SE-242, SE-253, SE-257, SE-259, SE-261, SE-270: hooks of all phases run, what comes after a resource waits
/// for its health, and a hook for failures does not run in a sync that succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_and_resources_wait_for_each_other_se_192_se_257_to_se_261() {
    let world = World::start().await;
    let slow = ("simulate.wavegate.dev/delay", "300ms");
    world.write("app/both.json", &config_map("both", "1", &[(HOOK, "PreSync,PostSync")]));
    world.write("app/job.json", &job("job", &[(HOOK, "Sync"), slow]));
    world.write("app/web.json", &deployment("web", &[slow]));
    world.write("app/alarm.json", &config_map("alarm", "1", &[(HOOK, "SyncFail")]));
    world.commit_file("one/web.json", &deployment("one", &[HANGS]));
    let app = synced(&world, "app").await;
    assert_eq!(phase(&app), "Succeeded", "{}", message(&app));
    assert_eq!(message(&app), "successfully synced (no more tasks)");
    let results = app["status"]["operationState"]["syncResult"]["resources"].as_array().unwrap();
    let order: Vec<String> = results
        .iter()
        .map(|result| {
            let text = |field: &str| result[field].as_str().unwrap_or_default();
            format!("{} {} {}", text("syncPhase"), text("name"), text("hookPhase"))
        })
        .collect();
    let want = [
        "PreSync both Succeeded",
        "Sync web Succeeded",
        "Sync job Succeeded",
        "PostSync both Succeeded",
    ];
    assert_eq!(order, want, "SE-192, SE-261");
    assert_eq!(result(&app, "both")["message"], "both created", "SE-255: no health check");
    assert!(!exists(&world, "ConfigMap", "alarm").await, "SE-270");
    world.until_good("app").await;

    // SE-242, SE-253: one wave without hooks does not wait, and its result says so.
    let app = synced(&world, "one").await;
    assert_eq!(message(&app), "successfully synced (all tasks run)", "SE-242");
    assert_eq!(result(&app, "one")["hookPhase"], "Running", "SE-253");
}

/// SE-243: each wave is applied in each sync, also what is in sync, and none before the one
/// before it is healthy. SE-262: what is waited for has a name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_wave_waits_for_the_one_before_se_243_se_262() {
    let world = World::start().await;
    // It progresses for a while, and then is Degraded.
    let late = ("simulate.wavegate.dev/delay", "10s");
    world.write("app/a.json", &deployment("a", &[(WAVE, "-1"), FAILS, late]));
    world.write("app/b.json", &config_map("b", "1", &[(WAVE, "-1")]));
    world.commit_file("app/c.json", &config_map("c", "1", &[]));
    world.create_app(&world.application("app", "app")).await;
    world.sync("app", json!({})).await;
    let waits = |app: &Value| message(app).contains("waiting for healthy state of ");
    let app = world.until("app", "waiting", waits).await;
    let text = "waiting for healthy state of apps/Deployment/a";
    assert!(message(&app).starts_with(text), "SE-262: {}", message(&app));
    assert_eq!(phase(&app), "Running");
    assert!(!exists(&world, "ConfigMap", "c").await, "SE-241");
    // SE-275: what is Degraded fails a sync of several waves.
    let app = world.until("app", "failed", |app| phase(app) == "Failed").await;
    let text = "one or more synchronization tasks completed unsuccessfully";
    assert!(message(&app).starts_with(text), "SE-275: {}", message(&app));
    assert_eq!(result(&app, "a")["hookPhase"], "Failed", "SE-256");
    assert!(!exists(&world, "ConfigMap", "c").await, "SE-275");
    assert!(exists(&world, "ConfigMap", "b").await, "SE-286: what was applied stays");

    // Mended: everything is applied again, also what is in sync.
    let mended = deployment("a", &[(WAVE, "-1")]).replace("app:1", "app:2");
    world.commit_file("app/a.json", &mended);
    world.sync("app", json!({})).await;
    let app = world.until("app", "synced", |app| phase(app) == "Succeeded").await;
    assert_eq!(result(&app, "b")["message"], "configmap/b unchanged", "SE-243, SE-341");
    assert!(exists(&world, "ConfigMap", "c").await);
}

/// SE-271, SE-272, SE-273, SE-274, SE-292, SE-293: a failed hook runs the hooks for failures once the others of its
/// wave are over; policies of several kinds count together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_hook_runs_the_hooks_for_failures_se_272_to_se_274_se_293() {
    let world = World::start().await;
    let both = (POLICY, "HookSucceeded,HookFailed");
    let slow = ("simulate.wavegate.dev/delay", "500ms");
    world.write("app/bad.json", &job("bad", &[(HOOK, "PreSync"), FAILS, both]));
    world.write("app/slow.json", &job("slow", &[(HOOK, "PreSync"), slow]));
    world.write("app/good.json", &job("good", &[(HOOK, "PreSync"), (POLICY, "HookFailed")]));
    world.write("app/one.json", &config_map("one", "1", &[]));
    let two = [(HOOK, "SyncFail"), (WAVE, "2")];
    world.write("app/first.json", &job("first", &[(HOOK, "SyncFail"), (WAVE, "1")]));
    world.commit_file("app/second.json", &config_map("second", "1", &two));
    let app = synced(&world, "app").await;
    assert_eq!(phase(&app), "Failed", "SE-273");
    let text = "one or more synchronization tasks completed unsuccessfully";
    assert!(message(&app).starts_with(text), "SE-272: {}", message(&app));
    assert_eq!(result(&app, "slow")["hookPhase"], "Succeeded", "SE-274: it was waited for");
    assert_eq!(result(&app, "first")["hookPhase"], "Succeeded", "SE-271");
    assert!(exists(&world, "ConfigMap", "second").await, "SE-271, SE-589: the next wave of them");
    assert!(!exists(&world, "ConfigMap", "one").await, "SE-273");
    assert!(!exists(&world, "Job", "bad").await, "SE-293");
    assert_eq!(result(&app, "good")["hookPhase"], "Succeeded", "SE-292");
    assert!(!exists(&world, "Job", "good").await, "SE-292: by the end of the operation");
    assert!(exists(&world, "Job", "slow").await, "SE-294");
}

/// SE-207, SE-273, SE-589: by default a sync that is not valid runs no hook; a setting lets the hooks
/// for failures run. SE-590: without them counted, one wave with a hook stays one wave.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_run_for_invalid_tasks_where_it_is_configured_se_589_se_590() {
    for runs in [false, true] {
        let keys = [
            ("controller.sync.fail.on.invalid", if runs { "true" } else { "false" }),
            ("controller.sync.fail.counts.as.wave", "false"),
        ];
        let mut world = World::with(settings(&keys)).await;
        let none =
            json!({"apiVersion": "none.example.com/v1", "kind": "None", "metadata": {"name": "n"}});
        world.write("app/none.json", &none.to_string());
        world.write("app/one.json", &config_map("one", "1", &[]));
        world.write("app/alarm.json", &config_map("alarm", "1", &[(HOOK, "SyncFail")]));
        world.write("dry/bad.json", &config_map("Not_A_Name", "1", &[]));
        world.write("dry/alarm.json", &config_map("other", "1", &[(HOOK, "SyncFail")]));
        // A hook that is complete at once, and a resource that never is.
        world.write("plain/hook.json", &config_map("hook", "1", &[(HOOK, "Sync")]));
        world.write("plain/web.json", &deployment("web", &[HANGS]));
        world.commit_file("plain/alarm.json", &config_map("third", "1", &[(HOOK, "SyncFail")]));
        let app = synced(&world, "app").await;
        assert_eq!(phase(&app), "Failed", "SE-207");
        let text = "one or more synchronization tasks are not valid";
        assert!(message(&app).starts_with(text), "SE-207: {}", message(&app));
        assert_eq!(exists(&world, "ConfigMap", "alarm").await, runs, "SE-273, SE-589");
        assert!(!exists(&world, "ConfigMap", "one").await, "SE-207");
        let results = app["status"]["operationState"]["syncResult"]["resources"].as_array();
        assert_eq!(results.map(Vec::len), Some(if runs { 2 } else { 1 }), "{app}");
        let app = synced(&world, "dry").await;
        assert_eq!(phase(&app), "Failed", "{}", message(&app));
        if runs {
            assert!(message(&app).contains("Not_A_Name"), "SE-589: {}", message(&app));
        }
        let app = synced(&world, "plain").await;
        assert_eq!(phase(&app), "Succeeded", "SE-590: {}", message(&app));
        world.crash().await;
    }
}

/// SE-266, SE-285, SE-286: what was applied stays when a sync is terminated, hooks that run are
/// deleted, and the pause between waves ends at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_termination_ends_the_pause_between_waves_se_265_se_286() {
    let mut world = World::start().await;
    world.crash().await;
    world.settings.wave_delay = Duration::from_secs(3600);
    world.run();
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("app/two.json", &config_map("two", "1", &[(WAVE, "1")]));
    world.create_app(&world.application("app", "app")).await;
    world.sync("app", json!({})).await;
    let applied = |app: &Value| result(app, "one")["status"] == "Synced";
    world.until("app", "in its pause", applied).await;
    world.rest().await;
    assert!(!exists(&world, "ConfigMap", "two").await, "SE-265");
    // SE-580: the pause holds up no other Application.
    world.commit_file("other/three.json", &config_map("three", "1", &[]));
    synced(&world, "other").await;
    world.terminate("app").await;
    let app = world.until("app", "terminated", |app| phase(app) == "Failed").await;
    assert_eq!(message(&app), "Operation terminated", "CA-504, SE-285");
    assert!(exists(&world, "ConfigMap", "one").await, "SE-286");
    assert!(!exists(&world, "ConfigMap", "two").await);
}

/// SE-196, SE-293, SE-362: what is gone already, or has the identity of a hook, is no error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletions_are_idempotent_se_293_se_362() {
    let world = World::start().await;
    world.write("app/hook.json", &job("hook", &[(HOOK, "PreSync"), (POLICY, "HookSucceeded")]));
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("app/two.json", &config_map("two", "1", &[]));
    // The deletions succeed, and their answers are lost: they are sent again.
    let deletes = |record: &RequestRecord| record.client == CONTROLLER && record.verb == "delete";
    world.server.inject(InjectedFault::new(Effect::DropAfterApplying, deletes).times(2));
    let app = synced(&world, "app").await;
    assert_eq!(phase(&app), "Succeeded", "SE-293: {}", message(&app));
    assert!(!exists(&world, "Job", "hook").await, "SE-291");
    world.until_good("app").await;
    world.remove("app/two.json");
    world.commit();
    world.sync_until_good("app", json!({"prune": true})).await;
    assert!(!exists(&world, "ConfigMap", "two").await, "SE-362");
}
