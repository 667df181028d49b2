//! What can happen to open watches, and how a client takes it.

use std::time::Duration;

use ::http::Request;
use futures::stream::BoxStream;
use futures::{AsyncReadExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::watches::open;
use super::{MAPS, get, map, post, with_maps};
use crate::{Disturbance, Effect, InjectedFault, RequestRecord};

fn watches(request: &RequestRecord) -> bool {
    request.verb == "watch" && request.resource == "configmaps"
}

/// Type and name of the next event, and after how many seconds it comes.
async fn next(events: &mut BoxStream<'_, (String, Value)>) -> Option<(String, String, u64)> {
    let began = Instant::now();
    let (kind, object) = events.next().await?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    Some((kind, name, began.elapsed().as_secs()))
}

fn event(kind: &str, name: &str, seconds: u64) -> Option<(String, String, u64)> {
    Some((kind.to_owned(), name.to_owned(), seconds))
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_silent_watch_sends_what_was_missed_when_it_speaks_again() {
    let (server, client) = with_maps(1).await;
    let mut events = open(&client, "allowWatchBookmarks=true").await;
    assert_eq!(next(&mut events).await, event("ADDED", "m0", 0));
    assert_eq!(server.disturb(&Disturbance::Silence(5 * MINUTE), watches), 1);
    assert_eq!(server.disturb(&Disturbance::Silence(MINUTE), |r| r.resource == "secrets"), 0);
    post(&client, MAPS, &map("a")).await;
    post(&client, MAPS, &map("b")).await;
    assert_eq!(next(&mut events).await, event("ADDED", "a", 300));
    assert_eq!(next(&mut events).await, event("ADDED", "b", 0));
    assert_eq!(next(&mut events).await, event("BOOKMARK", "", 0));
    post(&client, MAPS, &map("c")).await;
    assert_eq!(next(&mut events).await, event("ADDED", "c", 0));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_silent_for_ever_stays_open_until_it_is_closed() {
    let (server, client) = with_maps(1).await;
    let mut events = open(&client, "allowWatchBookmarks=true&timeoutSeconds=60").await;
    assert_eq!(next(&mut events).await, event("ADDED", "m0", 0));
    server.disturb(&Disturbance::Silence(Duration::MAX), watches);
    post(&client, MAPS, &map("a")).await;
    assert!(tokio::time::timeout(1000 * MINUTE, events.next()).await.is_err());
    server.drop_watches();
    assert_eq!(next(&mut events).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_watch_with_a_delay_lags_and_keeps_the_order() {
    let (server, client) = with_maps(1).await;
    server.inject(InjectedFault::new(Effect::Disturb(Disturbance::Delay(MINUTE)), watches));
    let mut events = open(&client, "allowWatchBookmarks=true&timeoutSeconds=100").await;
    let (tick, second) = (Duration::from_secs(10), Duration::from_secs(1));
    let writer = client.clone();
    tokio::spawn(async move {
        for name in ["a", "b"] {
            tokio::time::sleep(tick).await;
            post(&writer, MAPS, &map(name)).await;
        }
    });
    assert_eq!(next(&mut events).await, event("ADDED", "m0", 60));
    assert_eq!(next(&mut events).await, event("ADDED", "a", 10));
    server.disturb(&Disturbance::Delay(Duration::ZERO), watches);
    tokio::time::sleep(second).await;
    post(&client, MAPS, &map("c")).await;
    assert_eq!(next(&mut events).await, event("ADDED", "b", 9));
    // From the first minute; what came after it does not overtake it.
    assert_eq!(next(&mut events).await, event("BOOKMARK", "", 40));
    assert_eq!(next(&mut events).await, event("ADDED", "c", 0));
    assert_eq!(next(&mut events).await, event("BOOKMARK", "", 0));
    assert_eq!(next(&mut events).await, None);
}

#[tokio::test(start_paused = true)]
async fn the_last_events_are_repeated() {
    let (server, client) = with_maps(3).await;
    let mut events = open(&client, "fieldSelector=metadata.name!=m2").await;
    assert_eq!(next(&mut events).await, event("ADDED", "m0", 0));
    assert_eq!(next(&mut events).await, event("ADDED", "m1", 0));
    post(&client, MAPS, &map("a")).await;
    assert_eq!(next(&mut events).await, event("ADDED", "a", 0));
    server.disturb(&Disturbance::Repeat(2), watches);
    assert_eq!(next(&mut events).await, event("ADDED", "m1", 0));
    assert_eq!(next(&mut events).await, event("ADDED", "a", 0));
    post(&client, MAPS, &map("b")).await;
    assert_eq!(next(&mut events).await, event("ADDED", "b", 0));
    // As soon as it is open, a watch that resumes gets what its client has seen.
    server.inject(InjectedFault::new(Effect::Disturb(Disturbance::Repeat(1)), watches));
    let (_, list) = get(&client, MAPS).await;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut events = open(&client, &format!("resourceVersion={version}")).await;
    assert_eq!(next(&mut events).await, event("ADDED", "b", 0));
}

#[tokio::test(start_paused = true)]
async fn a_watch_expires_or_is_closed_at_once() {
    let (server, client) = with_maps(1).await;
    let mut events = open(&client, "").await;
    assert_eq!(next(&mut events).await, event("ADDED", "m0", 0));
    server.disturb(&Disturbance::Expire, watches);
    let (kind, status) = events.next().await.unwrap();
    assert_eq!(
        (kind.as_str(), &status["code"], &status["reason"]),
        ("ERROR", &json!(410), &json!("Expired"))
    );
    assert_eq!(next(&mut events).await, None);
    let mut events = open(&client, "").await;
    server.disturb(&Disturbance::Close, watches);
    assert_eq!(next(&mut events).await, None);
    assert_eq!(server.disturb(&Disturbance::Close, watches), 0, "none is open");
}

#[tokio::test(start_paused = true)]
async fn a_cut_watch_ends_in_the_middle_of_an_event() {
    let (server, client) = with_maps(1).await;
    for disturbance in [None, Some(Disturbance::Cut)] {
        let request = Request::get(format!("{MAPS}?watch=true")).body(Vec::new()).unwrap();
        if disturbance.is_none() {
            server.inject(InjectedFault::new(Effect::Disturb(Disturbance::Cut), watches));
        }
        let mut body = Box::pin(client.request_stream(request).await.unwrap());
        if let Some(disturbance) = disturbance {
            server.disturb(&disturbance, watches);
        }
        let mut text = Vec::new();
        body.read_to_end(&mut text).await.expect_err("the connection fails");
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("{\"type\":\"") && !text.ends_with('\n'), "{text}");
    }
}

/// Each disturbance leaves a client that resumes with all objects in the end.
#[tokio::test(start_paused = true)]
async fn a_kube_watcher_survives_each_disturbance() {
    let disturbances = [
        Disturbance::Silence(5 * MINUTE),
        Disturbance::Delay(MINUTE),
        Disturbance::Repeat(5),
        Disturbance::Expire,
        Disturbance::Close,
        Disturbance::Cut,
    ];
    for disturbance in disturbances {
        let (server, client) = with_maps(2).await;
        let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let changes = watcher(api, watcher::Config::default()).default_backoff().applied_objects();
        let mut changes = changes.boxed();
        for name in ["m0", "m1"] {
            assert_eq!(changes.next().await.unwrap().unwrap().name_any(), name);
        }
        // Let it come to the watch.
        let idle = tokio::time::timeout(Duration::from_secs(1), changes.next()).await;
        assert!(idle.is_err());
        assert_eq!(server.disturb(&disturbance, watches), 1, "{disturbance:?}");
        post(&client, MAPS, &map("late")).await;
        loop {
            // Errors are reported on the way.
            match changes.next().await.expect("it goes on") {
                Ok(object) if object.name_any() == "late" => break,
                Ok(_) | Err(_) => {}
            }
        }
    }
}
