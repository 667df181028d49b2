//! Faults inside of the controller (SE-375).

use std::backtrace::Backtrace;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// SE-375: a step of an operation that panics ends the operation with its text, and the controller
/// goes on: with other Applications, and with the next operation of this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_panics_ends_its_operation_and_nothing_else_se_375() {
    let mut world = World::start().await;
    world.crash().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("other/two.json", &config_map("two", "1", &[]));
    let is_armed = Arc::new(AtomicBool::new(false));
    let armed = is_armed.clone();
    // What the rounds of an operation ask for, and nothing before and after them.
    let is_in_a_round = || Backtrace::force_capture().to_string().contains("::rounds");
    let clock = Clock::of(move || {
        let fails = armed.load(Ordering::SeqCst) && is_in_a_round();
        assert!(!(fails && armed.swap(false, Ordering::SeqCst)), "out of {}", "cheese");
        jiff::Timestamp::now()
    });
    world.run_by(world.server.client_as(CONTROLLER), clock);
    for name in ["app", "other"] {
        world.create_app(&world.application(name, name)).await;
        world.until(name, "compared", |app| is(app, "OutOfSync", "Missing")).await;
    }
    is_armed.store(true, Ordering::SeqCst);
    let app = world.sync_to_end("app", json!({})).await;
    assert_eq!((phase(&app), message(&app)), ("Error", "internal error: out of cheese"));
    assert!(!is_armed.load(Ordering::SeqCst), "it has failed once");
    assert!(app["status"]["operationState"]["finishedAt"].is_string(), "{app}");
    assert!(app["status"]["history"].is_null(), "{app}");
    for name in ["other", "app"] {
        let app = world.sync_to_end(name, json!({})).await;
        assert_eq!(phase(&app), "Succeeded", "{app}");
        world.until_good(name).await;
    }
}
