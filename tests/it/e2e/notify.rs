//! Notifications through the controllers (ST-084): each transition of a run arrives, at least
//! once and with a stable id, whatever its receiver and the controller go through.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use super::policies::{commit, create, environments, phase, policy, run, until_run, wavegate};
use crate::support::cluster::{JSON, send};
use crate::support::receiver::{Received, Receiver};
use crate::support::{Setup, World};

const KEY: &str = "0123456789abcdef0123456789abcdef";

fn permitted() -> Setup {
    Setup { allow_private_sinks: true, ..Setup::default() }
}

async fn secret(world: &World, name: &str, data: Value) {
    let path = format!("/api/v1/namespaces/{}/secrets", world.namespace);
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data,
    });
    send(&world.client, Method::POST, &path, JSON, &object).await.unwrap();
}

async fn until(world: &World, what: &str, is: impl Fn() -> bool) {
    let until = Instant::now() + World::wait_limit();
    while !is() {
        assert!(Instant::now() < until, "not so: {what}\n{}", world.controller_log());
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

/// The ids of the transitions of a run, in order.
fn ids(run: &Value) -> Vec<String> {
    let uid = run["metadata"]["uid"].as_str().unwrap();
    let count = run["status"]["transitions"].as_i64().unwrap();
    (1..=count).map(|number| format!("{uid}.{number}")).collect()
}

fn ids_of(received: &[Received]) -> Vec<String> {
    received.iter().map(Received::id).collect()
}

/// The condition Valid of a policy: whether it is, and the message.
async fn valid(world: &World, name: &str) -> (bool, String) {
    let path = format!(
        "/apis/wavegate.dev/v1alpha1/namespaces/{}/rolloutpolicies/{name}",
        world.namespace
    );
    let policy = send(&world.client, Method::GET, &path, JSON, &Value::Null).await.unwrap();
    let conditions = policy["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let valid = conditions.iter().find(|one| one["type"] == "Valid").cloned().unwrap_or_default();
    (valid["status"] == "True", valid["message"].as_str().unwrap_or_default().to_owned())
}

/// ST-084: a run with a gate: its transitions arrive once, in order, signed, in both formats; the mark in
/// the status keeps another start from sending them again.
pub async fn each_transition_arrives_once_and_is_signed(mut world: World) {
    let (events, channel) = (Receiver::willing().await, Receiver::willing().await);
    secret(
        &world,
        "events",
        json!({"url": events.url("/in?x=1"), "hmac": KEY, "header": "Authorization: Bearer t0ken"}),
    )
    .await;
    secret(&world, "channel", json!({"url": channel.url("/services/T0/B0/s3cr3t")})).await;
    policy(
        &world,
        "production",
        json!({
            "gates": [{"name": "production", "steps": [2], "approvals": 1}],
            "notify": [
                {"secretRef": {"name": "events"}},
                {"secretRef": {"name": "channel"}, "format": "slack"},
            ],
        }),
    )
    .await;
    let members = environments(&[("dev", 2), ("prod", 2)]);
    commit(&world, &members, "v1");
    create(&world, "fleet", &members, &[("dev", json!(null)), ("prod", json!(null))]).await;
    world.start(&permitted()).await;
    until_run(&world, "fleet", "it waits for an approval", |run| phase(run) == "AwaitingApproval")
        .await;
    let awaits = |one: &Received| {
        let text = one.json()["text"].as_str().unwrap().to_owned();
        text.contains(" waits for an approval: ")
            && text.contains("wavegate approve -n ")
            && text.contains(" fleet --gate production`")
    };
    until(&world, "the channel has the message", || channel.received().iter().any(awaits)).await;
    wavegate(&world, &["approve", "fleet", "--yes"]).await;
    let last = until_run(&world, "fleet", "it is complete, and all is sent", |run| {
        phase(run) == "Complete" && run["status"]["notified"] == run["status"]["transitions"]
    })
    .await;
    let ids = ids(&last);
    let received = events.received();
    assert_eq!(ids_of(&received), ids, "{last:#}");
    let timeline = last["status"]["timeline"].as_array().unwrap();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, KEY.as_bytes());
    for (one, entry) in received.iter().zip(timeline) {
        let header = |name: &str| one.headers.get(name).cloned().unwrap_or_default();
        let tag = ring::hmac::sign(&key, &one.body);
        let tag = data_encoding::HEXLOWER.encode(tag.as_ref());
        assert_eq!(header("x-wavegate-signature"), format!("sha256={tag}"));
        assert_eq!(header("authorization"), "Bearer t0ken");
        assert_eq!(header("content-type"), "application/cloudevents+json");
        assert_eq!(one.path, "/in?x=1");
        let event = one.json();
        assert_eq!(event["type"], format!("dev.wavegate.run.{}", entry["what"].as_str().unwrap()));
        assert_eq!(event["time"], entry["at"]);
        assert_eq!(event["data"]["applicationSet"], "fleet");
    }
    let kinds: BTreeSet<&str> = timeline.iter().filter_map(|one| one["what"].as_str()).collect();
    for kind in ["StepOpened", "AwaitingApproval", "GateApproved", "GateOpened", "Complete"] {
        assert!(kinds.contains(kind), "{kind}: {kinds:?}");
    }
    assert_eq!(channel.received().len(), ids.len());
    assert!(valid(&world, "production").await.0);
    world.stop().await;
    world.start(&permitted()).await;
    world.until_calm("another start sends nothing again").await;
    assert_eq!((events.received().len(), channel.received().len()), (ids.len(), ids.len()));
    let said = format!("{:?}", world.recorder.read(|log| format!("{:?}", log.records)));
    assert!(!said.contains("s3cr3t") && !said.contains("t0ken"));
    world.finish().await;
}

/// A sink that never answers, and one that fails at first: the rollout and the other sink do not
/// wait for them.
pub async fn sinks_that_fail_hold_nobody_up(mut world: World) {
    let dead = Receiver::start(|_, _| None).await;
    let moody = Receiver::start(|number, _| {
        Some(if number < 3 { "500 Internal Server Error" } else { "204 No Content" })
    })
    .await;
    let good = Receiver::willing().await;
    policy(
        &world,
        "sinks",
        json!({"notify": [
            {"url": dead.url("/")}, {"url": moody.url("/")}, {"url": good.url("/")},
        ]}),
    )
    .await;
    let members = environments(&[("dev", 3), ("prod", 3)]);
    commit(&world, &members, "v1");
    create(&world, "fleet", &members, &[("dev", json!(1)), ("prod", json!(null))]).await;
    world.start(&permitted()).await;
    let last = until_run(&world, "fleet", "it is complete", |run| phase(run) == "Complete").await;
    let ids = ids(&last);
    until(&world, "the good sink has all", || good.received().len() >= ids.len()).await;
    assert_eq!(ids_of(&good.received()), ids);
    until(&world, "so has the other at last", || moody.received().len() >= ids.len() + 3).await;
    let (first, rest) = (moody.received(), &ids[1..]);
    assert!(ids_of(&first[..4]).iter().all(|id| *id == ids[0]), "the same id each time");
    assert_eq!(ids_of(&first[4..]), rest);
    // What one sink has not got is not done with.
    assert_eq!(run(&world, "fleet").await.unwrap()["status"]["notified"], 0);
    let said = ids_of(&dead.received());
    assert!(said.iter().all(|id| *id == ids[0]), "{said:?}");
    world.finish().await;
}

/// The controller is killed before anything is delivered, also the end of the run.
pub async fn what_was_not_delivered_is_sent_after_a_kill(mut world: World) {
    let is_up = Arc::new(AtomicBool::new(false));
    let up = Arc::clone(&is_up);
    let receiver = Receiver::start(move |_, _| {
        Some(if up.load(Ordering::SeqCst) { "200 OK" } else { "503 Service Unavailable" })
    })
    .await;
    policy(&world, "sinks", json!({"notify": [{"url": receiver.url("/")}]})).await;
    let members = environments(&[("dev", 4)]);
    commit(&world, &members, "v1");
    create(&world, "fleet", &members, &[("dev", json!(1))]).await;
    world.start_process(&permitted()).await;
    let last = until_run(&world, "fleet", "it is complete", |run| phase(run) == "Complete").await;
    let ids = ids(&last);
    world.process().kill();
    let before = receiver.received().len();
    is_up.store(true, Ordering::SeqCst);
    world.process().kill_and_restart();
    let after = || ids_of(&receiver.received()[before..]);
    until(&world, "all arrive", || after().ends_with(&ids)).await;
    // The last request of the killed process may have been read later.
    assert!(after().len() <= ids.len() + 1, "{:?}", after());
    until_run(&world, "fleet", "it is known", |run| {
        run["status"]["notified"] == run["status"]["transitions"]
    })
    .await;
    world.finish().await;
}

/// Without the flag, nothing is sent to private addresses, and the policy says so, as it does of
/// Secrets that are missing; the rollout goes on.
pub async fn private_addresses_are_refused(mut world: World) {
    let receiver = Receiver::willing().await;
    let port = receiver.address.port();
    secret(&world, "odd", json!({"header": "Host: elsewhere"})).await;
    policy(
        &world,
        "sinks",
        json!({"notify": [
            {"url": receiver.url("/s3cr3t")},
            {"url": format!("https://127.0.0.1:{port}/s3cr3t")},
            {"url": format!("https://localhost:{port}/s3cr3t")},
            {"url": "https://169.254.169.254/latest/meta-data"},
            {"url": "https://hooks.example.com/s3cr3t", "secretRef": {"name": "missing"}},
            {"secretRef": {"name": "odd"}},
        ]}),
    )
    .await;
    let members = environments(&[("dev", 2)]);
    commit(&world, &members, "v1");
    create(&world, "fleet", &members, &[("dev", json!(null))]).await;
    world.start(&Setup::default()).await;
    until_run(&world, "fleet", "it is complete", |run| phase(run) == "Complete").await;
    let wanted = [
        "notify[0]: url: http://127.0.0.1",
        "is not encrypted",
        "notify[1]: url: 127.0.0.1 is a private address, which only --allow-private-sinks permits",
        "notify[2]: url: https://localhost",
        "notify[3]: url: 169.254.169.254 is a link-local, metadata or reserved address",
        "notify[4]: Secret missing: does not exist",
        "notify[5]: Secret odd: key header: host cannot be set",
    ];
    let until = Instant::now() + World::wait_limit();
    loop {
        let (is_valid, message) = valid(&world, "sinks").await;
        if wanted.iter().all(|words| message.contains(words)) {
            assert!(!is_valid && !message.contains("s3cr3t"), "{message}");
            break;
        }
        assert!(Instant::now() < until, "{message}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(receiver.received().is_empty());
    world.finish().await;
}
