//! Two runs of the same give the same, byte by byte, whatever chance there is in
//! tokio and in the standard library.

use std::sync::Arc;
use std::time::Duration;

use ::http::Method;
use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::watches::open;
use super::{MAPS, get, map, post, send};
use crate::{
    Disturbance, Effect, InjectedFault, RequestRecord, Server, ServerClock, ServerSettings,
    workloads,
};

const MERGE: &str = "application/merge-patch+json";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn start() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

/// Runs on a clock that jumps, in a runtime of its own.
fn simulated<T>(run: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(run)
}

/// Several clients, workloads, deletions, watches, faults: all that was said.
async fn scenario(seed: u64) -> Vec<String> {
    let clock = ServerClock::starting_at(start());
    let server = Server::with(ServerSettings { clock, seed, ..ServerSettings::default() });
    let log = Arc::new(Mutex::new(Vec::new()));
    let record = log.clone();
    server.record_into(move |entry| record.lock().push(entry.to_string()));
    let stop = CancellationToken::new();
    let options = workloads::WorkloadOptions {
        delay: Duration::from_secs(20),
        pods: true,
        clock: server.clock(),
        ..workloads::WorkloadOptions::default()
    };
    let working = workloads::run(server.client_as("workloads"), options, stop.clone());
    let working = tokio::spawn(working);
    // Each answers what it sees by a write: the order of their wakes can be seen.
    for number in 0..12 {
        let (client, log) = (server.client_as(&format!("watcher-{number}")), log.clone());
        tokio::spawn(async move {
            let mut events = open(&client, "allowWatchBookmarks=true").await;
            while let Some((kind, object)) = events.next().await {
                log.lock().push(format!("{number} {kind} {object}"));
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                if name.starts_with('m') {
                    post(&client, MAPS, &map(&format!("seen-{name}-{number}"))).await;
                }
            }
        });
    }
    let fails = |r: &RequestRecord| {
        r.seq.is_multiple_of(7) && (r.client == "workloads" || r.verb != "watch")
    };
    server.inject(InjectedFault::new(Effect::Status(500), fails).times(20));
    let slow = Effect::Latency(Duration::from_millis(30));
    server.inject(InjectedFault::new(slow, |r| r.seq.is_multiple_of(5)).times(40));
    let client = server.client_as("main");
    for number in 0..4 {
        post(&client, MAPS, &map(&format!("m{number}"))).await;
        let template = json!({"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": format!("web-{number}")},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template},
        });
        post(&client, DEPLOYMENTS, &deployment).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    server.shift_clock(SignedDuration::from_mins(-10));
    for number in 0..4 {
        let path = format!("{DEPLOYMENTS}/web-{number}");
        let patch = json!({"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}});
        send(&client, Method::PATCH, &path, MERGE, &patch).await;
    }
    server.drop_watches();
    server.disturb(&Disturbance::Repeat(3), |watch| watch.resource == "pods");
    server.disturb(&Disturbance::Delay(Duration::from_secs(5)), |r| r.resource == "deployments");
    server.disturb(&Disturbance::Expire, |watch| watch.resource == "replicasets");
    tokio::time::sleep(Duration::from_secs(60)).await;
    server.compact();
    for number in [2, 0] {
        let path = format!("{DEPLOYMENTS}/web-{number}?propagationPolicy=Foreground");
        send(&client, Method::DELETE, &path, MERGE, &Value::Null).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    stop.cancel();
    working.await.unwrap().unwrap();
    let mut log = std::mem::take(&mut *log.lock());
    assert!(log.len() > 1000);
    for path in [DEPLOYMENTS, MAPS, "/api/v1/pods", "/apis/apps/v1/replicasets", "/api/v1/events"] {
        log.push(get(&client, path).await.1.to_string());
    }
    log
}

#[test]
fn a_run_that_is_repeated_gives_the_same_log() {
    let first = simulated(scenario(1));
    for round in 0..4 {
        let again = simulated(scenario(1));
        let differs = first.iter().zip(&again).find(|(one, other)| one != other);
        assert_eq!(differs, None, "round {round}");
        assert_eq!(first.len(), again.len());
    }
    assert_ne!(first, simulated(scenario(2)), "identifiers come from the seed");
}

#[tokio::test(start_paused = true)]
async fn the_clock_starts_where_it_is_told_and_can_be_shifted() {
    let server = Server::starting_at(start());
    let client = server.client();
    let created = async |name: &str| {
        let (_, made) = post(&client, MAPS, &map(name)).await;
        made["metadata"]["creationTimestamp"].as_str().unwrap().to_owned()
    };
    assert_eq!(created("a").await, "2026-03-01T12:00:00Z");
    tokio::time::advance(Duration::from_secs(90)).await;
    assert_eq!(created("b").await, "2026-03-01T12:01:30Z");
    server.shift_clock(SignedDuration::from_mins(-5));
    assert_eq!(created("c").await, "2026-03-01T11:56:30Z");
    server.shift_clock(SignedDuration::from_hours(2));
    assert_eq!(created("d").await, "2026-03-01T13:56:30Z");
    assert_eq!(server.clock().unshifted(), start() + SignedDuration::from_secs(90));
}
