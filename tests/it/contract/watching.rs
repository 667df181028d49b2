//! Watches.

use std::time::Duration;

use futures::io::{AsyncBufReadExt as _, BufReader, Lines};
use futures::{AsyncBufRead, StreamExt as _};
use kube::Client;
use serde_json::{Value, json};

use super::support::*;

/// An open watch, event by event.
struct Events(Lines<Box<dyn AsyncBufRead + Send + Unpin>>);

impl Events {
    async fn open(client: &Client, path: &str) -> Self {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let stream = client.request_stream(request).await.unwrap();
        let boxed: Box<dyn AsyncBufRead + Send + Unpin> =
            Box::new(BufReader::new(Box::pin(stream)));
        Self(boxed.lines())
    }

    /// The next event; `None` at the end.
    async fn line(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(Duration::from_secs(180), self.0.next()).await;
        Some(serde_json::from_str(&line.expect("an event in time")?.unwrap()).unwrap())
    }

    /// The next event that is not a bookmark; `None` at the end.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            let event = self.line().await?;
            if event["type"] != "BOOKMARK" {
                return Some((event["type"].as_str().unwrap().to_owned(), event["object"].clone()));
            }
        }
    }

    async fn expect(&mut self, kind: &str, name: &str) -> Value {
        let (found, object) = self.next().await.expect("an event");
        assert_eq!((found.as_str(), &object["metadata"]["name"]), (kind, &json!(name)), "{object}");
        object
    }
}

fn labelled(name: &str) -> Value {
    let mut object = config_map(name);
    object["metadata"]["labels"] = json!({"watched": "yes"});
    object
}

pub async fn a_watch_starts_with_existing_objects(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    post(&client, &all, &labelled("a")).await.ok(201);
    let path = format!("{all}?watch=true&labelSelector=watched%3Dyes");
    let mut events = Events::open(&client, &path).await;
    let added = events.expect("ADDED", "a").await;
    assert_eq!(added["kind"], "ConfigMap");
    assert_eq!(added["apiVersion"], "v1");
    post(&client, &all, &labelled("b")).await.ok(201);
    events.expect("ADDED", "b").await;
    let one = format!("{all}/a");
    let changed = patch(&client, &one, MERGE, &json!({"data": {"a": "2"}})).await.ok(200);
    assert_eq!(events.expect("MODIFIED", "a").await, changed);
    delete(&client, &one, &json!({})).await.ok(200);
    let deleted = events.expect("DELETED", "a").await;
    assert_eq!(deleted["data"]["a"], "2");
    // A deletion has its own version: a watch resumed from it does not repeat it.
    assert!(version(&deleted).parse::<u64>().unwrap() > version(&changed).parse::<u64>().unwrap());
}

pub async fn a_watch_resumes_where_a_list_ended(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    post(&client, &all, &labelled("a")).await.ok(201);
    let list = get(&client, &format!("{all}?labelSelector=watched%3Dyes")).await.ok(200);
    patch(&client, &format!("{all}/a"), MERGE, &json!({"data": {"a": "2"}})).await.ok(200);
    let second = post(&client, &all, &labelled("b")).await.ok(201);
    let from = |version: &str| {
        format!("{all}?watch=1&labelSelector=watched%3Dyes&resourceVersion={version}")
    };
    let mut events = Events::open(&client, &from(version(&list))).await;
    events.expect("MODIFIED", "a").await;
    assert_eq!(events.expect("ADDED", "b").await, second);
    let mut events = Events::open(&client, &from(version(&second))).await;
    delete(&client, &format!("{all}/b"), &json!({})).await.ok(200);
    events.expect("DELETED", "b").await;
}

pub async fn a_selector_turns_changes_into_additions_and_deletions(
    client: Client,
    namespace: &str,
) {
    let all = config_maps(namespace);
    let one = format!("{all}/a");
    let list = get(&client, &all).await.ok(200);
    let path =
        format!("{all}?watch=true&labelSelector=watched%3Dyes&resourceVersion={}", version(&list));
    let mut events = Events::open(&client, &path).await;
    post(&client, &all, &config_map("a")).await.ok(201);
    patch(&client, &one, MERGE, &json!({"metadata": {"labels": {"watched": "yes"}}})).await.ok(200);
    events.expect("ADDED", "a").await;
    patch(&client, &one, MERGE, &json!({"data": {"a": "2"}})).await.ok(200);
    events.expect("MODIFIED", "a").await;
    patch(
        &client,
        &one,
        MERGE,
        &json!({"metadata": {"labels": {"watched": "no"}}, "data": {"a": "3"}}),
    )
    .await
    .ok(200);
    events.expect("DELETED", "a").await;
    delete(&client, &one, &json!({})).await.ok(200);
    post(&client, &all, &labelled("b")).await.ok(201);
    // No event for the deletion, which was not selected.
    events.expect("ADDED", "b").await;
}

pub async fn a_watch_ends_on_time(client: Client, namespace: &str) {
    let path = format!(
        "{}?watch=true&timeoutSeconds=1&labelSelector=watched%3Dyes",
        config_maps(namespace)
    );
    let mut events = Events::open(&client, &path).await;
    assert_eq!(events.next().await, None);
}

pub async fn a_streaming_list_ends_with_a_bookmark_that_says_so(client: Client, namespace: &str) {
    if lacks(&client, 32, "streaming lists").await {
        return;
    }
    let all = config_maps(namespace);
    for name in ["a", "b"] {
        post(&client, &all, &labelled(name)).await.ok(201);
    }
    let path = format!("{all}?watch=true&labelSelector=watched%3Dyes&sendInitialEvents=true");
    get(&client, &path).await.refused(422, "Invalid");
    let path = format!("{path}&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan");
    let mut events = Events::open(&client, &path).await;
    let mut names = Vec::new();
    let end = loop {
        let event = events.line().await.expect("an event");
        if event["type"] == "BOOKMARK" {
            break event["object"].clone();
        }
        assert_eq!(event["type"], "ADDED", "{event}");
        names.push(event["object"]["metadata"]["name"].as_str().unwrap().to_owned());
    };
    names.sort();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(end["kind"], "ConfigMap", "{end}");
    assert_eq!(end["metadata"]["annotations"]["k8s.io/initial-events-end"], "true", "{end}");
    // The watch goes on from there, here and in another one.
    post(&client, &all, &labelled("c")).await.ok(201);
    events.expect("ADDED", "c").await;
    let path =
        format!("{all}?watch=true&labelSelector=watched%3Dyes&resourceVersion={}", version(&end));
    Events::open(&client, &path).await.expect("ADDED", "c").await;
}
