//! How often and when an operation is tried again (SE-020 to SE-023, SE-390 to SE-396).

use std::sync::Mutex;

use jiff::{Timestamp, tz::TimeZone};
use kube_sim::RecordedRequest;
use wavegate_source::InMemory;

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

/// A repository that holds one object.
#[derive(Debug)]
struct Holds(Value);

impl InMemory for Holds {
    fn head(&self, _: &str) -> String {
        "1".repeat(40)
    }

    fn objects(&self, _: &str, _: &Value, _: &str) -> Vec<Value> {
        vec![self.0.clone()]
    }
}

/// A world on a clock that jumps, where nothing but what is asked for happens, with an Application
/// `app` of one object.
async fn on_a_clock_that_jumps(object: &str) -> World {
    let holds = Arc::new(Holds(serde_json::from_str(object).unwrap()));
    let settings = ApplicationSettings {
        reconciliation_timeout: Duration::ZERO,
        ..ApplicationSettings::default()
    };
    let world = World::in_memory(Server::new(), settings, holds).await;
    let mut app = world.application("app", ".");
    app["spec"]["source"]["repoURL"] = "https://example.com/app.git".into();
    world.create_app(&app).await;
    world
}

/// SE-392, SE-393: attempt n comes duration * factor^(n-1) after the one before it, and never later
/// than the cap; what is announced is when it comes.
#[tokio::test(start_paused = true)]
async fn each_attempt_waits_a_factor_longer_up_to_the_cap_se_392_se_393() {
    let unknown =
        json!({"apiVersion": "none.example.com/v1", "kind": "None", "metadata": {"name": "n"}});
    for (backoff, want) in [
        (json!({"duration": "2s", "factor": 3, "maxDuration": "12s"}), vec![2, 6, 12, 12]),
        (json!({"duration": "3m", "factor": 2, "maxDuration": "10m"}), vec![180, 360, 600]),
        (json!({"duration": "7", "factor": 1}), vec![7, 7, 7]),
        (Value::Null, vec![5, 10, 20, 40, 80, 160, 180, 180]),
    ] {
        let mut world = on_a_clock_that_jumps(&unknown.to_string()).await;
        world.until("app", "compared", |app| !app["status"].is_null()).await;
        // When each attempt has failed, and what is announced then.
        let failed = Arc::<Mutex<Vec<(Timestamp, String)>>>::default();
        let (seen, clock) = (failed.clone(), world.server.clock());
        world.server.record_into(move |entry| {
            let RecordedRequest::Change(change) = entry else { return };
            if &*change.resource != "applications" {
                return;
            }
            let app: Value = serde_json::from_slice(&change.object).unwrap();
            let said = message(&app).to_owned();
            let mut seen = seen.lock().unwrap();
            let is_end = said.contains("Retrying attempt #") || said.contains("(retried ");
            if is_end && seen.last().is_none_or(|(_, last)| *last != said) {
                seen.push((clock.now(), said));
            }
        });
        let mut retry = json!({ "limit": want.len() });
        if !backoff.is_null() {
            retry["backoff"] = backoff.clone();
        }
        world.patch("app", json!({"operation": {"sync": {}, "retry": retry}})).await;
        let over = |app: &Value| phase(app) == "Failed";
        let ended = async {
            while !over(&world.app("app").await) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(7200), ended).await.expect("it ends");
        let failed = failed.lock().unwrap().clone();
        // Counted from a time in whole seconds.
        let waits: Vec<i64> =
            failed.windows(2).map(|pair| pair[1].0.as_second() - pair[0].0.as_second()).collect();
        assert_eq!(waits, want, "{backoff}: {failed:?}");
        for (index, pair) in failed.windows(2).enumerate() {
            let at = |earlier: i64| {
                let at = pair[1].0 - jiff::SignedDuration::from_secs(earlier);
                let shown = at.to_zoned(TimeZone::UTC).strftime("%-I:%M%p").to_string();
                format!("Retrying attempt #{} at {shown}.", index + 1)
            };
            let said = &pair[0].1;
            assert!((0..2).any(|earlier| said.ends_with(&at(earlier))), "{said}: {}", at(0));
        }
        world.crash().await;
    }
}

/// SE-240: while an operation runs, it is looked at every thirty seconds, also when nothing
/// happens; afterwards nothing looks.
#[tokio::test(start_paused = true)]
async fn an_operation_is_looked_at_every_thirty_seconds_se_240() {
    let world = on_a_clock_that_jumps(&job("pre", &[(HOOK, "PreSync")])).await;
    world.until("app", "compared", |app| !app["status"].is_null()).await;
    world.sync("app", json!({})).await;
    let waits = |app: &Value| message(app).starts_with("waiting for completion of hook");
    world.until("app", "waiting for its hook", waits).await;
    let looks_within = async |time: Duration| {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let before = world.reconciles();
        tokio::time::sleep(time).await;
        world.reconciles() - before
    };
    let hour = Duration::from_secs(3600);
    let looks = looks_within(hour).await;
    assert!((115..=125).contains(&looks), "SE-240: {looks} in an hour");
    world.complete_job("pre").await;
    world.until("app", "over", |app| phase(app) == "Succeeded").await;
    let looks = looks_within(hour).await;
    assert!(looks <= 2, "{looks} in an hour without an operation");
}
