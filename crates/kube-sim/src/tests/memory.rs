//! What is kept: how objects are stored, and how much of the past.

use std::time::Duration;

use ::http::Method;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use serde_json::{Value, json};

use super::watches::open;
use super::*;
use crate::event_expiry::MAX_EVENTS;
use crate::log::{Change, LOG_BYTES, LOG_LIMIT, Log};
use crate::place::Key;
use crate::stored::{Object, Stored};

const MERGE: &str = "application/merge-patch+json";
const EVENTS: &str = "/api/v1/namespaces/default/events";

async fn patch(client: &kube::Client, name: &str, patch: &Value) {
    let path = format!("{MAPS}/{name}");
    assert_eq!(send(client, Method::PATCH, &path, MERGE, patch).await.0, 200);
}

/// Changes one object until the log has lost what was before.
async fn overflow(client: &kube::Client, name: &str) {
    const BYTES: usize = 1 << 20;
    for round in 0..=LOG_BYTES / BYTES + 1 {
        let text = format!("{round}-{}", "x".repeat(BYTES));
        patch(client, name, &json!({ "data": { "a": text } })).await;
    }
}

#[test]
fn objects_are_kept_as_text_and_read_again() {
    let managed = json!([{"manager": "m", "fieldsV1": {"f:data": {}}}]);
    let whole = |meta: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta,
            "data": {"z": "\"quoted\" \u{fc}", "n": 0.1, "list": [1, null]}, "aFirst": {}})
    };
    for meta in [
        json!({}),
        json!({"managedFields": managed}),
        json!({"name": "a", "uid": "u", "resourceVersion": "7", "managedFields": managed}),
        json!({"name": "a", "labels": {"l": "1"}, "finalizers": ["x/y"], "deletionTimestamp": "t",
            "ownerReferences": [{"uid": "o", "blockOwnerDeletion": true}, {"uid": "p"}]}),
    ] {
        let whole = whole(meta.clone());
        let stored = Stored::new(&Object::new(whole.clone()));
        let json: Value = serde_json::from_slice(&stored.json).unwrap();
        assert_eq!(json, whole);
        assert_eq!(stored.object().into_whole(), whole);
        assert!(stored.value()["metadata"].get("managedFields").is_none());
        assert_eq!(serde_json::from_slice::<Value>(stored.metadata()).unwrap(), meta);
        let body = [b"{", stored.body()].concat();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body, json!({"metadata": meta, "data": whole["data"], "aFirst": {}}));
        assert!(stored.is_of("v1") && !stored.is_of("v") && !stored.is_of("v1beta1"));
    }
    let stored = Stored::new(&Object::new(whole(json!({
        "uid": "u", "resourceVersion": "7", "labels": {"l": "1"}, "finalizers": ["x/y"],
        "deletionTimestamp": "2026-01-02T03:04:05Z",
        "ownerReferences": [{"uid": "o", "blockOwnerDeletion": true}, {"uid": "p"}],
    }))));
    assert_eq!((&*stored.uid, stored.revision, stored.deleting), ("u", 7, true));
    assert_eq!((stored.label("l"), stored.label("m")), (Some("1"), None));
    assert!(stored.has_finalizer("x/y") && !stored.has_finalizer("x"));
    let owners: Vec<_> = stored.owners.iter().map(|o| (&*o.uid, o.blocks)).collect();
    assert_eq!(owners, [("o", true), ("p", false)]);
}

#[test]
fn the_log_is_bounded_in_changes_and_in_the_bytes_that_only_it_keeps() {
    let state = |revision: u64, bytes: usize| {
        let mut object = map("a");
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        object["data"]["a"] = json!("x".repeat(bytes));
        Stored::new(&Object::new(object))
    };
    let change = |revision, before, after| Change {
        revision,
        key: Key::new("default", "a"),
        before,
        after,
        removed: false,
    };
    // What is created is stored, and costs the log nothing.
    let mut log = Log::default();
    for revision in 1..=50 {
        log.push(change(revision, None, state(revision, 1 << 20)));
    }
    assert_eq!((log.len(), log.bytes()), (50, 0));
    // What is replaced is kept by the log only.
    let mut before = state(50, 1 << 20);
    for revision in 51..=100 {
        let after = state(revision, 1 << 20);
        log.push(change(revision, Some(before), after.clone()));
        before = after;
        assert!(log.bytes() <= LOG_BYTES, "{}", log.bytes());
    }
    assert!(log.since(50).is_none() && log.since(99).is_some());
    let kept = (0..=100).find_map(|revision| log.since(revision)).unwrap().count();
    assert_eq!(kept, LOG_BYTES / (1 << 20) - 1);

    let mut log = Log::default();
    let small = state(1, 1);
    for revision in 1..=2 * LOG_LIMIT as u64 {
        log.push(change(revision, None, small.clone()));
    }
    assert_eq!(log.len(), LOG_LIMIT);
    assert!(log.since(LOG_LIMIT as u64 - 1).is_none());
    assert_eq!(log.since(LOG_LIMIT as u64).unwrap().count(), LOG_LIMIT);
}

#[tokio::test]
async fn a_watch_from_before_what_is_kept_gets_410_and_its_client_recovers() {
    let (server, client) = with_maps(2).await;
    let (_, list) = get(&client, MAPS).await;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut slow = open(&client, &format!("resourceVersion={version}")).await;
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let mut watcher = watcher::watcher(api, watcher::Config::default()).default_backoff().boxed();
    while !matches!(watcher.try_next().await, Ok(Some(Event::InitDone))) {}

    overflow(&client, "m0").await;
    patch(&client, "m1", &json!({"data": {"a": "last"}})).await;
    let memory = server.memory();
    assert!(memory.change_bytes <= LOG_BYTES, "{memory:?}");
    assert!(memory.object_bytes < 4 << 20, "{memory:?}");

    // The one that was open and has read nothing, and one that comes now.
    let mut late = open(&client, &format!("resourceVersion={version}")).await;
    for events in [&mut slow, &mut late] {
        let (kind, status) = events.next().await.unwrap();
        assert_eq!((kind.as_str(), &status["code"]), ("ERROR", &json!(410)), "{status}");
        assert_eq!(events.next().await, None);
    }
    // kube's own lists again and sees what is there now.
    loop {
        match watcher.try_next().await {
            Ok(Some(Event::Apply(map) | Event::InitApply(map)))
                if map.data.as_ref().is_some_and(|data| data["a"] == "last") =>
            {
                assert_eq!(map.metadata.name.as_deref(), Some("m1"));
                break;
            }
            Ok(Some(_)) | Err(_) => {}
            Ok(None) => panic!("the watch has ended"),
        }
    }
}

#[tokio::test]
async fn every_moment_that_is_kept_is_listed_as_it_was() {
    let (_server, client) = with_maps(4).await;
    let list = async |query: &str| {
        let (code, list) = get(&client, &format!("{MAPS}?{query}")).await;
        assert_eq!(code, 200, "{list}");
        list
    };
    let mut moments = vec![list("").await];
    for round in 0..12 {
        let name = format!("m{}", round % 5);
        match round % 3 {
            0 => {
                let path = format!("{MAPS}/{name}");
                send(&client, Method::DELETE, &path, "application/json", &Value::Null).await;
            }
            1 => {
                post(&client, MAPS, &map(&format!("n{round}"))).await;
            }
            _ => {
                let change = json!({"data": {"a": round.to_string()}});
                send(&client, Method::PATCH, &format!("{MAPS}/{name}"), MERGE, &change).await;
            }
        }
        moments.push(list("").await);
    }
    for moment in moments {
        let version = moment["metadata"]["resourceVersion"].as_str().unwrap();
        let exact = format!("resourceVersion={version}&resourceVersionMatch=Exact");
        assert_eq!(list(&exact).await["items"], moment["items"], "at {version}");
        // And in pages of two, with what each says of the rest.
        let mut items = Vec::new();
        let mut query = format!("{exact}&limit=2");
        loop {
            let page = list(&query).await;
            items.extend(page["items"].as_array().unwrap().clone());
            let left = moment["items"].as_array().unwrap().len() - items.len();
            let remaining = page["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
            assert_eq!(remaining, left as u64, "{page}");
            let Some(token) = page["metadata"]["continue"].as_str() else { break };
            query = format!("limit=2&continue={token}");
        }
        assert_eq!(Value::Array(items), moment["items"], "at {version}");
    }
}

fn event(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "ConfigMap", "name": "m0"}, "reason": "Tried"})
}

async fn event_names(client: &kube::Client) -> Vec<String> {
    let (_, list) = get(client, EVENTS).await;
    let items = list["items"].as_array().unwrap().iter();
    items.map(|event| event["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn events_go_an_hour_after_their_last_write() {
    let (_server, client) = with_maps(0).await;
    for name in ["a", "b", "c"] {
        assert_eq!(post(&client, EVENTS, &event(name)).await.0, 201);
    }
    tokio::time::advance(Duration::from_secs(3000)).await;
    let path = format!("{EVENTS}/b");
    assert_eq!(send(&client, Method::PATCH, &path, MERGE, &json!({"count": 2})).await.0, 200);
    // One of the same name is another Event.
    let path = format!("{EVENTS}/c");
    send(&client, Method::DELETE, &path, "application/json", &Value::Null).await;
    assert_eq!(post(&client, EVENTS, &event("c")).await.0, 201);
    assert_eq!(event_names(&client).await, ["a", "b", "c"]);
    tokio::time::advance(Duration::from_secs(700)).await;
    assert_eq!(event_names(&client).await, ["b", "c"]);
    tokio::time::advance(Duration::from_secs(3000)).await;
    assert_eq!(event_names(&client).await, Vec::<String>::new());
}

#[tokio::test]
async fn of_very_many_events_the_oldest_go() {
    let (server, client) = with_maps(0).await;
    let made = MAX_EVENTS + 5;
    for number in 0..made {
        let mut event = event(&format!("e{number:05}"));
        event["message"] = json!("said");
        assert_eq!(post(&client, EVENTS, &event).await.0, 201);
    }
    let names = event_names(&client).await;
    assert_eq!((names.len(), names[0].as_str()), (MAX_EVENTS, "e00005"));
    assert!(server.memory().changes <= 2 * LOG_LIMIT);
}

#[tokio::test]
async fn without_a_request_log_writes_are_counted_all_the_same() {
    let server = Server::without_request_log();
    let client = server.client_as("tester");
    post(&client, MAPS, &map("a")).await;
    post(&client, MAPS, &map("a")).await;
    get(&client, &format!("{MAPS}/a")).await;
    let path = format!("{MAPS}/a?dryRun=All");
    send(&client, Method::PATCH, &path, MERGE, &json!({"data": {"a": "2"}})).await;
    send(&client, Method::PATCH, &format!("{MAPS}/a"), MERGE, &json!({"data": {"a": "2"}})).await;
    assert!(server.requests().is_empty() && server.counts().is_empty());
    // Neither the one that was refused nor the dry run.
    assert_eq!((server.writes("tester"), server.writes("another")), (2, 0));
}

#[tokio::test]
async fn json_patches_reach_managed_fields() {
    let (_server, client) = with_maps(1).await;
    let path = format!("{MAPS}/m0");
    let media = "application/json-patch+json";
    let test = json!([
        {"op": "test", "path": "/metadata/managedFields/0/manager", "value": "in-process"},
        {"op": "add", "path": "/data/b", "value": "2"},
    ]);
    let (code, object) = send(&client, Method::PATCH, &path, media, &test).await;
    assert_eq!(code, 200, "{object}");
    let fields = &object["metadata"]["managedFields"][0]["fieldsV1"]["f:data"];
    assert_eq!(fields, &json!({".": {}, "f:a": {}, "f:b": {}}));
    let reset = json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]);
    let (code, object) = send(&client, Method::PATCH, &path, media, &reset).await;
    assert_eq!(code, 200, "{object}");
    assert!(object["metadata"].get("managedFields").is_none(), "{object}");
}
