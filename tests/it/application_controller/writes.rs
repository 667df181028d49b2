//! Writes of an Application that the API server refuses, or that meet another client.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::gates::{Gate, patches_application};
use super::*;

fn writes_application(record: &RequestRecord) -> bool {
    record.client == CONTROLLER && record.resource == "applications" && record.verb == "patch"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_recorded_is_not_done_as_se_062() {
    let (world, revision) = World::with_app().await;
    world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    world.rest().await;
    // Each first write is too large; the second one is the condition that says so.
    let (refuses, count) = (Arc::new(AtomicBool::new(true)), AtomicUsize::new(0));
    let until = Arc::clone(&refuses);
    let too_large = move |record: &RequestRecord| {
        writes_application(record)
            && until.load(Ordering::Relaxed)
            && count.fetch_add(1, Ordering::Relaxed) % 2 == 0
    };
    world.server.inject(InjectedFault::new(Effect::Status(413), too_large).times(usize::MAX));
    world.sync("app", json!({"revision": revision})).await;
    let reported = |app: &Value| condition(app, "UnknownError", "too large to be stored");
    let app = world.until("app", "reported", reported).await;
    assert!(app["operation"].is_object(), "the operation waits: {}", app["operation"]);
    assert_eq!(world.made(), Vec::<String>::new());
    refuses.store(false, Ordering::Relaxed);
    world.until_good("app").await;
    assert_eq!(world.made(), ["configmaps"]);
}

/// SE-062: it would go on from the same stored state without an end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_operation_that_cannot_be_recorded_ends_as_se_062() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("app/hook.json", &job("hook", &[(HOOK, "PreSync"), HANGS]));
    world.create_app(&world.application("app", "app")).await;
    world.sync("app", json!({})).await;
    world.until_made(1).await;
    world.until("app", "in its hook", |app| phase(app) == "Running").await;
    world.rest().await;
    let too_large = InjectedFault::new(Effect::Status(413), writes_application);
    world.server.inject(too_large.times(1));
    let complete = json!({"status": {
        "succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}],
    }});
    let jobs = world.api("batch/v1", "Job", "web");
    let params = PatchParams::default();
    jobs.patch_status("hook", &params, &Patch::Merge(complete)).await.unwrap();
    let has_ended = |app: &Value| app["operation"].is_null() && phase(app) == "Error";
    let app = world.until("app", "ended", has_ended).await;
    let words = ["too large to be stored", "divide the application into several"];
    assert!(words.iter().all(|words| message(&app).contains(words)), "{}", message(&app));
    assert_eq!(world.made(), ["jobs"], "nothing follows");
}

/// SE-371: the request that is acted on is the stored one, also when it was withdrawn while its
/// start was being written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_is_withdrawn_meanwhile_is_not_run_se_371() {
    let (mut world, revision) = World::with_app().await;
    world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    let gate = Gate::start(&mut world, patches_application).await;
    world.rest().await;
    world.server.forget_requests();
    gate.shut();
    world.sync("app", json!({"revision": revision})).await;
    // The start is on its way.
    gate.until_held().await;
    world.patch("app", json!({"operation": null})).await;
    gate.open();
    world.rest().await;
    let app = world.app("app").await;
    assert_eq!(world.made(), [""; 0], "{app}");
    assert!(!matches!(phase(&app), "Running" | "Succeeded"), "{app}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_during_a_write_is_seen() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("other/two.json", &config_map("two", "2", &[]));
    let slow = InjectedFault::new(Effect::Latency(Duration::from_millis(500)), writes_application);
    world.server.inject(slow);
    world.create_app(&world.application("app", "app")).await;
    // The first write is on its way, without a resource version that knows of this.
    let is_open = || {
        let requests = world.server.requests();
        requests.iter().any(|record| writes_application(record) && record.code == 0)
    };
    until("the controller writes the comparison", async || is_open()).await;
    world.patch("app", json!({"spec": {"source": {"path": "other"}}})).await;
    let compares_other = |app: &Value| {
        app["status"]["sync"]["comparedTo"]["source"]["path"] == "other"
            && app["status"]["resources"][0]["name"] == "two"
    };
    world.until("app", "compared with the new source", compares_other).await;
}
