//! Waits end by themselves, or by the events that they name.

use wavegate_engine::wait::WakeEvent;

use super::*;

/// Applications whose revision is never checked again: a wait that nothing ends lasts.
async fn world_without_resyncs() -> World {
    let mut world = World::start().await;
    world.crash().await;
    world.settings.reconciliation_timeout = Duration::ZERO;
    world.run();
    world
}

async fn drift(world: &World, value: &str) {
    let api = world.api("v1", "ConfigMap", "web");
    let patch = Patch::Merge(json!({"data": {"value": value}}));
    api.patch("one", &PatchParams::default(), &patch).await.unwrap();
}

fn attempts(app: &Value) -> i64 {
    let state = &app["status"]["operationState"];
    state["operation"]["sync"]["autoHealAttemptsCount"].as_i64().unwrap_or(0)
}

/// The second drift in a row was healed at the next resync only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn self_heal_continues_after_its_back_off_without_an_event_se_426() {
    let mut world = world_without_resyncs().await;
    world.crash().await;
    // Long enough to be seen.
    world.settings.self_heal.initial = jiff::SignedDuration::from_secs(10);
    world.run();
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let more = json!({"spec": {"syncPolicy": {"automated": {"selfHeal": true}}}});
    world.create_good_with("app", "app", more).await;
    drift(&world, "first").await;
    let healed = |attempt| {
        move |app: &Value| attempts(app) == attempt && settled(app) && is(app, "Synced", "Healthy")
    };
    world.until("app", "healed at once", healed(1)).await;
    drift(&world, "second").await;
    world.until("app", "waiting", |app| is(app, "OutOfSync", "Healthy")).await;
    // What else triggers a reconcile does not end the wait.
    let mark = json!({"metadata": {"annotations": {"example.com/mark": "1"}}});
    world.patch("app", mark).await;
    world.until("app", "healed after its back-off", healed(2)).await;
    let object = world.get("v1", "ConfigMap", "web", "one").await;
    assert_eq!(object["data"]["value"], "1");
}

/// A window that denies syncs for a few seconds from now on.
fn short_window() -> Value {
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    let seconds = now.second() + 6;
    let schedule = format!("{} {} * * *", now.minute(), now.hour());
    json!({
        "kind": "deny", "schedule": schedule, "duration": format!("{seconds}s"),
        "applications": ["*"],
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_automated_sync_starts_when_its_window_opens_se_420() {
    let world = world_without_resyncs().await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.project("shut", json!({"syncWindows": [short_window()]})).await;
    let more = json!({"spec": {"project": "shut", "syncPolicy": {"automated": {}}}});
    world.create_with("app", "app", more).await;
    let started = std::time::Instant::now();
    world.until_good("app").await;
    assert!(started.elapsed() < Duration::from_secs(100), "{:?}", started.elapsed());
}

/// Each event that a wait may name ends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_ends_the_wait_for_it() {
    let world = world_without_resyncs().await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let refused = |app: &Value| condition(app, "InvalidSpecError", "");
    for event in WakeEvent::ALL {
        match event {
            WakeEvent::Application => {
                let mut app = world.application("by-application", "app");
                app["spec"]["source"]["path"] = Value::Null;
                world.create_app(&app).await;
                world.until("by-application", "refused", refused).await;
                let path = json!({"spec": {"source": {"path": "app"}}});
                world.patch("by-application", path).await;
                let compared = |app: &Value| is(app, "OutOfSync", "Missing");
                world.until("by-application", "compared", compared).await;
            }
            WakeEvent::LiveObject => {
                world.sync_until_settled("by-application", json!({"revision": revision})).await;
                drift(&world, "2").await;
                let drifted = |app: &Value| is(app, "OutOfSync", "Healthy");
                world.until("by-application", "compared", drifted).await;
            }
            WakeEvent::Project => {
                world.create_with("by-project", "app", json!({"spec": {"project": "later"}})).await;
                world.until("by-project", "refused", refused).await;
                world.project("later", json!({})).await;
                world.until("by-project", "compared", |app| !refused(app)).await;
            }
            WakeEvent::Secret => {
                let mut app = world.application("by-secret", "app");
                app["spec"]["destination"] = json!({"name": "far", "namespace": "web"});
                world.create_app(&app).await;
                world.until("by-secret", "refused", refused).await;
                world.add_cluster("far", "https://127.0.0.1:1", &json!({})).await;
                let reached = |app: &Value| condition(app, "ComparisonError", "");
                world.until("by-secret", "compared", reached).await;
            }
            // See `crates/controller/src/application_set/tests/wakes.rs`.
            WakeEvent::ApplicationSet => {}
        }
    }
}
