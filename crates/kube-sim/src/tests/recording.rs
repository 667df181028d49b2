//! What is recorded of requests and changes.

use std::sync::Arc;
use std::time::Duration;

use ::http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::watches::open;
use super::{MAPS, map, post, send};
use crate::{
    Disturbance, Disturbed, Effect, EventType, Exchange, InjectedFault, RecordedChange,
    RecordedRequest, Server,
};

type Record = Arc<Mutex<Vec<RecordedRequest>>>;

fn recorded(server: &Server) -> Record {
    let record = Record::default();
    let sink = record.clone();
    server.record_into(move |entry| sink.lock().push(entry));
    record
}

/// Takes out what was recorded so far: requests and changes.
fn taken(record: &Record) -> (Vec<Exchange>, Vec<RecordedChange>) {
    let (mut exchanges, mut changes) = (Vec::new(), Vec::new());
    for entry in record.lock().drain(..) {
        match entry {
            RecordedRequest::Exchange(exchange) => exchanges.push(exchange),
            RecordedRequest::Change(change) => changes.push(change),
            RecordedRequest::Disturbed(_) => {}
        }
    }
    (exchanges, changes)
}

fn read(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap()
}

const MERGE: &str = "application/merge-patch+json";

#[tokio::test(start_paused = true)]
async fn requests_are_recorded_with_what_they_brought_and_stored() {
    let server = Server::new();
    let client = server.client_as("tester");
    post(&client, MAPS, &map("before")).await;
    let record = recorded(&server);
    post(&client, &format!("{MAPS}?fieldManager=me"), &map("a")).await;
    post(&client, &format!("{MAPS}?dryRun=All"), &map("b")).await;
    post(&client, MAPS, &map("a")).await;
    let a = format!("{MAPS}/a");
    send(&client, Method::PATCH, &a, MERGE, &json!({"data": {"a": "1"}})).await;
    send(&client, Method::DELETE, &a, MERGE, &Value::Null).await;
    let (exchanges, changes) = taken(&record);
    let seen: Vec<_> = exchanges
        .iter()
        .map(|e| (e.request.verb.as_str(), e.request.code, e.query.as_str(), e.stored.is_some()))
        .collect();
    let want = [
        ("create", 201, "fieldManager=me", true),
        ("create", 201, "dryRun=All", false),
        ("create", 409, "", false),
        ("patch", 200, "", true),
        ("delete", 200, "", false),
    ];
    assert_eq!(seen, want);
    let first = &exchanges[0];
    assert_eq!(read(&first.body), map("a"));
    assert_eq!(first.field_manager, "me");
    assert_eq!(exchanges[1].field_manager, "tester");
    assert!(exchanges[1].request.dry_run);
    // The patch changed nothing.
    let events: Vec<_> = changes.iter().map(|c| (c.event, &*c.name, c.cause)).collect();
    let last = exchanges[4].request.seq;
    let want = [(EventType::Added, "a", first.request.seq), (EventType::Deleted, "a", last)];
    assert_eq!(events, want);
    assert_eq!(Some(&changes[0].object), first.stored.as_ref());
    assert_eq!(exchanges[3].stored, first.stored);
    let version = read(&changes[1].object)["metadata"]["resourceVersion"].clone();
    assert_eq!(version, changes[1].revision.to_string());
    server.stop_recording();
    post(&client, MAPS, &map("c")).await;
    assert!(record.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn changes_tell_the_request_that_caused_them_and_come_before_it() {
    let server = Server::new();
    let client = server.client();
    let (_, owner) = post(&client, MAPS, &map("owner")).await;
    let mut child = map("child");
    child["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap",
        "name": "owner", "uid": owner["metadata"]["uid"]}]);
    post(&client, MAPS, &child).await;
    let record = recorded(&server);
    send(&client, Method::DELETE, &format!("{MAPS}/owner"), MERGE, &Value::Null).await;
    let lines: Vec<String> = record.lock().iter().map(ToString::to_string).collect();
    let starts = ["Deleted /configmaps default/owner", "Deleted /configmaps default/child"];
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.contains(&format!("#3 {start}")), "{line}");
    }
    assert!(lines[2].contains("#3 in-process delete /configmaps default/owner? -> 200"));
    assert_eq!(lines.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn watches_are_recorded_when_they_start_and_requests_that_nobody_waits_for_when_they_end() {
    let server = Server::new();
    let client = server.client();
    let record = recorded(&server);
    let _events = open(&client, "resourceVersion=1&labelSelector=a%3Db").await;
    let (exchanges, _) = taken(&record);
    let watch = &exchanges[0];
    assert_eq!((watch.request.verb.as_str(), watch.request.code), ("watch", 200));
    assert_eq!(watch.query, "watch=true&resourceVersion=1&labelSelector=a%3Db");
    server.inject(InjectedFault::new(Effect::Latency(Duration::from_secs(60)), |_| true));
    server.shift_clock(jiff::SignedDuration::from_hours(-1));
    let map = map("a");
    let asked = post(&client, MAPS, &map);
    assert!(tokio::time::timeout(Duration::from_secs(10), asked).await.is_err());
    let (exchanges, changes) = taken(&record);
    let left = &exchanges[0];
    assert_eq!((left.request.verb.as_str(), left.request.code), ("create", 0));
    assert_eq!(left.answered.duration_since(left.received).as_secs(), 10);
    assert_eq!(read(&left.body)["metadata"]["name"], "a");
    assert_eq!((&left.stored, changes.len()), (&None, 0));
}

/// Who counts which faults were noticed reads it from the record.
#[tokio::test(start_paused = true)]
async fn what_faults_do_to_requests_and_watches_is_recorded() {
    let server = Server::new();
    let client = server.client();
    let _events = open(&client, "resourceVersion=1").await;
    let record = recorded(&server);
    server.inject(InjectedFault::new(Effect::Status(500), |request| request.verb == "create"));
    post(&client, MAPS, &map("a")).await;
    post(&client, MAPS, &map("a")).await;
    server.disturb(&Disturbance::Close, |watch| watch.resource == "configmaps");
    server.disturb(&Disturbance::Close, |watch| watch.resource == "secrets");
    let all = std::mem::take(&mut *record.lock());
    let effects = all.iter().filter_map(|entry| match entry {
        RecordedRequest::Exchange(exchange) => Some(exchange.effects.clone()),
        _ => None,
    });
    assert_eq!(effects.collect::<Vec<_>>(), [vec![Effect::Status(500)], vec![]]);
    let disturbed: Vec<&Disturbed> = all
        .iter()
        .filter_map(|entry| match entry {
            RecordedRequest::Disturbed(disturbed) => Some(disturbed),
            _ => None,
        })
        .collect();
    assert_eq!(disturbed.len(), 1);
    let (watch, disturbance) = (&disturbed[0].watch, &disturbed[0].disturbance);
    assert_eq!((&*watch.resource, disturbance), ("configmaps", &Disturbance::Close));
}
