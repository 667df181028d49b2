//! Events of an operation exist when its end is announced.

use super::*;

/// A client read the Events right after the sync had ended, and they were not there yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_an_operation_come_before_the_status_that_announces_its_end_se_541() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    let revision = world.commit();
    world.create_app(&world.application("app", "app")).await;
    world.sync("app", json!({"revision": revision})).await;
    world.until("app", "over", |app| phase(app) == "Succeeded").await;
    let events = world.api("events.k8s.io/v1", "Event", NAMESPACE);
    let events = events.list(&Default::default()).await.unwrap().items;
    let has = |reason: &str, text: &str| {
        events.iter().any(|event| {
            let note = event.data["note"].as_str().unwrap_or_default();
            event.data["reason"] == reason && note.contains(text)
        })
    };
    let notes: Vec<&Value> = events.iter().map(|event| &event.data["note"]).collect();
    assert!(has("OperationCompleted", "Sync operation to"), "{notes:?}");
    assert!(has("ResourceUpdated", "sync"), "{notes:?}");
}
