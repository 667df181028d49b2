//! Watches: too old, dropped, bookmarks, streaming lists, slow readers.

use std::time::Duration;

use ::http::Method;
use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _, io::BufReader};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::runtime::watcher::{self, Event};
use serde_json::{Value, json};

use super::{MAPS, get, map, post, send, with_maps};

/// Opens a watch: a stream of event type and object.
pub(super) async fn open(
    client: &kube::Client,
    query: &str,
) -> futures::stream::BoxStream<'static, (String, Value)> {
    let request =
        ::http::Request::get(format!("{MAPS}?watch=true&{query}")).body(Vec::new()).unwrap();
    let lines = BufReader::new(Box::pin(client.request_stream(request).await.unwrap())).lines();
    lines
        .map(|line| {
            let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            (event["type"].as_str().unwrap().to_owned(), event["object"].clone())
        })
        .boxed()
}

#[tokio::test]
async fn a_forgotten_version_is_answered_with_410() {
    let (server, client) = with_maps(2).await;
    let (_, list) = get(&client, MAPS).await;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    server.compact();
    let events: Vec<_> = open(&client, &format!("resourceVersion={version}")).await.collect().await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].0, "ERROR");
    assert_eq!((&events[0].1["code"], &events[0].1["reason"]), (&json!(410), &json!("Expired")));
    // From now on it works again.
    let (_, list) = get(&client, MAPS).await;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut events = open(&client, &format!("resourceVersion={version}")).await;
    post(&client, MAPS, &map("new")).await;
    assert_eq!(events.next().await.unwrap().0, "ADDED");
}

#[tokio::test]
async fn compaction_leaves_a_watch_alone_that_has_seen_all() {
    let (server, client) = with_maps(1).await;
    let mut events = open(&client, "").await;
    assert_eq!(events.next().await.unwrap().0, "ADDED");
    server.compact();
    post(&client, MAPS, &map("new")).await;
    assert_eq!(events.next().await.unwrap().1["metadata"]["name"], "new");
}

#[tokio::test]
async fn pages_of_a_forgotten_moment_are_answered_with_410() {
    let (server, client) = with_maps(3).await;
    let (_, first) = get(&client, &format!("{MAPS}?limit=1")).await;
    assert_eq!(first["metadata"]["remainingItemCount"], 2);
    server.compact();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (code, status) = get(&client, &format!("{MAPS}?limit=1&continue={token}")).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
}

#[tokio::test]
async fn dropped_watches_end() {
    let (server, client) = with_maps(1).await;
    let mut events = open(&client, "").await;
    assert_eq!(events.next().await.unwrap().0, "ADDED");
    server.drop_watches();
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_have_the_version_of_quiet_times() {
    let (_server, client) = with_maps(1).await;
    let mut events = open(&client, "allowWatchBookmarks=true&timeoutSeconds=90").await;
    assert_eq!(events.next().await.unwrap().0, "ADDED");
    // Something happens elsewhere.
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    let (_, secret) = post(&client, "/api/v1/namespaces/default/secrets", &secret).await;
    let began = tokio::time::Instant::now();
    // The first comes after a minute; it may tell of the time before the Secret.
    let (kind, object) = events.next().await.unwrap();
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(object["kind"], "ConfigMap");
    assert!(began.elapsed() >= Duration::from_secs(59));
    let (kind, object) = events.next().await.unwrap();
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(object["metadata"]["resourceVersion"], secret["metadata"]["resourceVersion"]);
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_streaming_list_says_where_it_ends() {
    let (_server, client) = with_maps(2).await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let events: Vec<_> = open(&client, query).await.take(3).collect().await;
    assert_eq!(
        events.iter().map(|e| e.0.as_str()).collect::<Vec<_>>(),
        ["ADDED", "ADDED", "BOOKMARK"]
    );
    assert_eq!(events[2].1["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let (code, _) = get(&client, &format!("{MAPS}?watch=true&sendInitialEvents=true")).await;
    assert_eq!(code, 422);
}

#[tokio::test]
async fn a_reader_that_falls_behind_the_log_is_refused_so() {
    let (server, client) = with_maps(1).await;
    let mut events = open(&client, "").await;
    assert_eq!(events.next().await.unwrap().0, "ADDED");
    // More than the log keeps, while no client reads: the log is 10,000 changes long.
    let patch = |i: usize| json!({"data": {"a": i.to_string()}});
    for i in 0..20 {
        send(
            &client,
            Method::PATCH,
            &format!("{MAPS}/m0"),
            "application/merge-patch+json",
            &patch(i),
        )
        .await;
    }
    server.compact();
    let last = events.collect::<Vec<_>>().await.pop().unwrap();
    assert_eq!((last.0.as_str(), &last.1["code"]), ("ERROR", &json!(410)));
}

#[tokio::test(start_paused = true)]
async fn a_kube_watcher_recovers_from_drops_and_compaction() {
    let (server, client) = with_maps(1).await;
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let mut events = watcher::watcher(api, watcher::Config::default()).boxed();
    let mut seen = Vec::new();
    while !seen.contains(&"z-done".to_owned()) {
        match events.try_next().await {
            Ok(Some(Event::InitApply(m) | Event::Apply(m))) => seen.push(m.metadata.name.unwrap()),
            Ok(Some(Event::InitDone)) if seen == ["m0"] => {
                server.drop_watches();
                post(&client, MAPS, &map("late")).await;
                server.compact();
                post(&client, MAPS, &map("z-done")).await;
            }
            // It reports errors and continues.
            Ok(Some(_)) | Err(_) => {}
            Ok(None) => break,
        }
    }
    assert!(seen.contains(&"late".to_owned()), "{seen:?}");
}

#[tokio::test]
async fn objects_of_a_definition_that_goes_are_reported_deleted() {
    let server = super::Server::new();
    let client = server.client();
    let definition = super::server::definition();
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(post(&client, crds, &definition).await.0, 201);
    let path = "/apis/example.com/v1/namespaces/default/widgets";
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    assert_eq!(post(&client, path, &widget).await.0, 201);
    let request = ::http::Request::get(format!("{path}?watch=true")).body(Vec::new()).unwrap();
    let mut lines = BufReader::new(Box::pin(client.request_stream(request).await.unwrap())).lines();
    assert!(lines.next().await.unwrap().unwrap().contains("ADDED"));
    let one = format!("{crds}/widgets.example.com");
    send(&client, Method::DELETE, &one, "application/json", &Value::Null).await;
    assert!(lines.next().await.unwrap().unwrap().contains("DELETED"));
    assert_eq!(get(&client, &one).await.0, 404);
    assert_eq!(get(&client, path).await.0, 404);
}
