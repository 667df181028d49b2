//! How often and when an operation is tried again (SE-020 to SE-023, SE-390 to SE-396).

use super::*;

/// An Application whose sync fails before anything is applied, with this retry.
async fn failing(world: &World, name: &str, retry: Value) {
    let mut operation = json!({"sync": {}});
    if !retry.is_null() {
        operation["retry"] = retry;
    }
    world.create_app(&world.application(name, "app")).await;
    world.patch(name, json!({ "operation": operation })).await;
}

/// SE-020, SE-021, SE-022, SE-023, SE-391, SE-392, SE-395, SE-396, SE-581: the wait is the announced one, and grows as
/// the request says; without `retry` a hand-written operation has none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_wait_as_announced_se_391_se_392_se_396_se_581() {
    let world = World::start().await;
    let kind =
        json!({"apiVersion": "none.example.com/v1", "kind": "None", "metadata": {"name": "n"}});
    world.commit_file("app/none.json", &kind.to_string());
    let started = std::time::Instant::now();
    // SE-021: a bare number is seconds. SE-022: a factor of 1 does not grow.
    failing(&world, "twice", json!({"limit": 2, "backoff": {"duration": "1", "factor": 1}})).await;
    failing(&world, "never", Value::Null).await;
    failing(&world, "zero", json!({"limit": 0})).await;
    // SE-020: a negative limit is none. SE-023: no pause is longer than the cap.
    let capped =
        json!({"limit": -1, "backoff": {"duration": "1h", "factor": 9, "maxDuration": "1s"}});
    failing(&world, "always", capped).await;
    let text = "one or more synchronization tasks are not valid: The Kubernetes API could not find";

    let app = world.until("twice", "over", |app| phase(app) == "Failed").await;
    assert!(started.elapsed() >= Duration::from_secs(1), "SE-392: it has waited");
    assert!(message(&app).starts_with(text), "SE-207: {}", message(&app));
    assert!(message(&app).ends_with(" (retried 2 times)."), "SE-391: {}", message(&app));
    assert_eq!(app["status"]["operationState"]["retryCount"], 2, "SE-396");
    assert!(app["status"]["history"].is_null());
    for name in ["never", "zero"] {
        let app = world.until(name, "over", |app| phase(app) == "Failed").await;
        assert!(!message(&app).contains("retried"), "SE-020 {name}: {}", message(&app));
        assert!(app["status"]["history"].is_null());
    }
    let many = |app: &Value| app["status"]["operationState"]["retryCount"].as_i64() >= Some(3);
    let app = world.until("always", "tried often", many).await;
    assert_eq!(phase(&app), "Running", "SE-020");
    world.terminate("always").await;
    let ended = |app: &Value| phase(app) == "Failed" && app["operation"].is_null();
    let app = world.until("always", "terminated", ended).await;
    assert!(message(&app).contains("terminated"), "{}", message(&app));
}

/// SE-392, SE-393, SE-581: what is announced for the next attempt is when it is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_attempt_is_announced_se_390_se_392() {
    let world = World::start().await;
    let kind =
        json!({"apiVersion": "none.example.com/v1", "kind": "None", "metadata": {"name": "n"}});
    world.commit_file("app/none.json", &kind.to_string());
    failing(&world, "app", json!({"limit": 5, "backoff": {"duration": "1h", "factor": 2}})).await;
    let waits = |app: &Value| app["status"]["operationState"]["retryCount"] == 1;
    let app = world.until("app", "waiting", waits).await;
    assert_eq!(phase(&app), "Running", "SE-390");
    assert!(message(&app).contains(". Retrying attempt #1 at "), "SE-390: {}", message(&app));
    assert!(app["status"]["operationState"]["finishedAt"].is_string(), "SE-390");
    assert!(!app["operation"].is_null(), "SE-390: it goes on");
    world.rest().await;
    assert_eq!(world.app("app").await["status"]["operationState"]["retryCount"], 1, "SE-392");
}
