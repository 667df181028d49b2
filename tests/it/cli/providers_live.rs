//! The controller asks services: what changes there changes the Applications, and what fails
//! there changes nothing (AS-047, AS-098, AS-140, AS-421, AS-501).

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;

use super::arguments::Running;
use super::embedded::Cluster;
use super::providers::{reference, shows, token};
use super::*;
use crate::support::service::{Asked, Says, Service, code, json as document};

pub(super) const FLAGS: [&str; 4] =
    ["--metrics-addr=", "--probe-addr=", "--webhook-addr=", "--sync-engine=external"];

pub(super) async fn names(cluster: &Cluster) -> Vec<String> {
    let listed = cluster.api("Application").list(&ListParams::default()).await.unwrap();
    listed.items.into_iter().filter_map(|one| one.metadata.name).collect()
}

pub(super) async fn until_names(cluster: &Cluster, running: &Running, want: &[&str]) {
    let until = Instant::now() + WAIT;
    while names(cluster).await != want {
        assert!(Instant::now() < until, "{want:?} are not there: {}", running.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until a condition of the set is true with a message that contains a text.
pub(super) async fn until_condition(
    cluster: &Cluster,
    running: &Running,
    kind: &str,
    text: &str,
) -> String {
    let until = Instant::now() + WAIT;
    loop {
        let set = cluster.api("ApplicationSet").get("set").await.unwrap();
        let conditions = set.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|one| one["type"] == kind && one["status"] == "True");
        let message = found.and_then(|one| one["message"].as_str()).unwrap_or_default();
        if message.contains(text) {
            return message.to_owned();
        }
        assert!(Instant::now() < until, "no {text:?} in {conditions:?}: {}", running.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(super) async fn refresh(cluster: &Cluster) {
    let annotations = json!({"argocd.argoproj.io/application-set-refresh": "true"});
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    cluster.api("ApplicationSet").patch("set", &PatchParams::default(), &patch).await.unwrap();
}

/// How many reconciles have ended. Those without a change are logged for debugging only.
pub(super) fn reconciles(running: &Running) -> usize {
    running.log().matches("end of reconcile").count()
}

fn pull(number: u64) -> Value {
    json!({"number": number, "title": "t", "head": {"ref": "f", "sha": "1"}, "base": {"ref": "m"}, "user": null})
}

pub(super) async fn start(server: &Service, generator: Value) -> Cluster {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let secrets: Api<k8s_openapi::api::core::v1::Secret> =
        Api::namespaced(cluster.client.clone(), "argocd");
    let secret = serde_json::from_value(token()).unwrap();
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let mut generator = generator;
    if let Some(github) = generator.pointer_mut("/pullRequest/github") {
        github["api"] = server.url().into();
    }
    let mut set = shows(generator, "pr-{{.number}}", "p");
    set["spec"]["syncPolicy"] = json!({"preserveResourcesOnDeletion": true});
    cluster.create("ApplicationSet", set).await;
    cluster
}

pub(super) fn github(requeue: u64) -> Value {
    json!({"pullRequest": {
        "github": {"owner": "o", "repo": "r", "tokenRef": reference()}, "requeueAfterSeconds": requeue,
    }})
}

/// What the server answers now: 0 two pull requests, 1 a failure on the second page, 2 only
/// one of them, 3 none at all, 4 a limit.
fn answer(mode: &AtomicU8, asked: &Asked) -> Says {
    let is_second = asked.parameter("page") == Some("2");
    let next =
        format!("<http://{}/api/v3/repos/o/r/pulls?page=2>; rel=\"next\"", asked.header("host"));
    match (mode.load(Ordering::SeqCst), is_second) {
        (0 | 1, false) => document(json!([pull(1)])).with("link", next),
        (0, true) => document(json!([pull(2)])),
        (1, true) => code(500, "boom"),
        (2, _) => document(json!([pull(1)])),
        (3, _) => document(json!([])),
        _ => code(403, "rate limit")
            .with("x-ratelimit-remaining", "0")
            .with("x-ratelimit-reset", (jiff::Timestamp::now().as_second() + 1_000).to_string()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_and_partial_answers_delete_nothing_as_098() {
    let mode = Arc::new(AtomicU8::new(0));
    let mode_of = Arc::clone(&mode);
    let server = Service::start(move |asked| answer(&mode_of, asked));
    let cluster = start(&server, github(1)).await;
    let running = Running::start(&cluster, &[&FLAGS[..], &["--loglevel=debug"]].concat(), &[]);
    until_names(&cluster, &running, &["pr-1", "pr-2"]).await;

    // A page that fails fails the generator; the interval is 1 s, and goes on.
    mode.store(1, Ordering::SeqCst);
    let failed = until_condition(&cluster, &running, "ErrorOccurred", "page 2: ").await;
    assert!(failed.contains("spec.generators[0].pullRequest: o/r: "), "{failed}");
    assert_eq!(names(&cluster).await, ["pr-1", "pr-2"], "AS-140");

    // What is really gone goes, also the last one.
    mode.store(2, Ordering::SeqCst);
    until_names(&cluster, &running, &["pr-1"]).await;
    mode.store(3, Ordering::SeqCst);
    until_names(&cluster, &running, &[]).await;
    mode.store(0, Ordering::SeqCst);
    until_names(&cluster, &running, &["pr-1", "pr-2"]).await;

    // A limit is named with its end, and nothing is sent before: not even for a request of a
    // user, or at the interval.
    mode.store(4, Ordering::SeqCst);
    let limited =
        until_condition(&cluster, &running, "ErrorOccurred", "the rate limit is exceeded").await;
    assert!(limited.contains(&format!("{} is asked again after 2", server.url())), "{limited}");
    assert!(!limited.contains("s3cr3t"), "{limited}");
    let sent = server.asked().len();
    mode.store(0, Ordering::SeqCst);
    // The request of a user is answered, from what is known.
    let before = reconciles(&running);
    refresh(&cluster).await;
    let until = Instant::now() + WAIT;
    // One that had begun before may end first.
    while reconciles(&running) < before + 2 {
        assert!(Instant::now() < until, "{}", running.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.asked().len(), sent, "the limit ends in 1000 s");
    assert_eq!(names(&cluster).await, ["pr-1", "pr-2"]);
    assert!(!running.log().contains("s3cr3t"), "{}", running.log());
}

/// An item that moves to a page that was read already is not gone.
#[tokio::test(flavor = "multi_thread")]
async fn what_moves_between_pages_stays_as_098() {
    let calls = Arc::new(Mutex::new(0));
    let count = Arc::clone(&calls);
    let moving = Arc::new(AtomicU8::new(0));
    let is_moving = Arc::clone(&moving);
    let server = Service::start(move |asked| {
        let next = format!(
            "<http://{}/api/v3/repos/o/r/pulls?page=2>; rel=\"next\"",
            asked.header("host")
        );
        let is_second = asked.parameter("page") == Some("2");
        if is_second {
            *count.lock().unwrap() += 1;
        }
        match (is_second, is_moving.load(Ordering::SeqCst)) {
            (false, _) => document(json!([pull(1)])).with("link", next),
            (true, 0) => document(json!([pull(2)])),
            // Once, number 2 is missed.
            (true, _) => {
                is_moving.store(0, Ordering::SeqCst);
                document(json!([]))
            }
        }
    });
    let cluster = start(&server, github(1)).await;
    let running = Running::start(&cluster, &FLAGS, &[]);
    until_names(&cluster, &running, &["pr-1", "pr-2"]).await;
    moving.store(1, Ordering::SeqCst);
    let before = *calls.lock().unwrap();
    let until = Instant::now() + WAIT;
    while *calls.lock().unwrap() < before + 4 {
        assert!(Instant::now() < until, "{}", running.log());
        assert_eq!(names(&cluster).await, ["pr-1", "pr-2"]);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(names(&cluster).await, ["pr-1", "pr-2"]);
    let deleted = cluster.server.requests().into_iter().any(|request| request.verb == "delete");
    assert!(!deleted, "nothing was deleted in between");
}

#[tokio::test(flavor = "multi_thread")]
async fn providers_may_be_forbidden_as_501() {
    let server = Service::start(|_| document(json!([pull(1)])));
    for (flag, why) in [
        ("--enable-scm-providers=false", "scm providers are disabled"),
        (
            "--allowed-scm-providers=https://git.example.com",
            "not allowed, must use one of the following: https://git.example.com",
        ),
    ] {
        let cluster = start(&server, github(1)).await;
        let flags: Vec<&str> = FLAGS.into_iter().chain([flag]).collect();
        let running = Running::start(&cluster, &flags, &[]);
        until_condition(&cluster, &running, "ErrorOccurred", why).await;
    }
    assert!(server.asked().is_empty(), "nothing was sent");
}

/// A plugin is asked again after a webhook, and placement resources are read from the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn plugins_and_decisions_are_read_by_the_controller_as_098() {
    let found = Arc::new(Mutex::new(json!([{"number": "1"}])));
    let of = Arc::clone(&found);
    let server =
        Service::start(move |_| document(json!({"output": {"parameters": *of.lock().unwrap()}})));
    let generator =
        json!({"plugin": {"configMapRef": {"name": "plugin"}, "requeueAfterSeconds": 0}});
    let cluster = start(&server, generator).await;
    let create_map = async |name: &str, data: Value| {
        cluster.create_map(json!({"metadata": {"name": name}, "data": data})).await;
    };
    create_map("plugin", json!({"baseUrl": server.url(), "token": "$token:token"})).await;
    let webhooks = unused_address();
    let flag = format!("--webhook-addr={webhooks}");
    let flags: Vec<&str> =
        FLAGS.into_iter().chain([flag.as_str()]).filter(|one| *one != "--webhook-addr=").collect();
    let mut running = Running::start(&cluster, &flags, &[]);
    until_names(&cluster, &running, &["pr-1"]).await;
    *found.lock().unwrap() = json!([{"number": "1"}, {"number": "2"}]);
    running.until_logged("starting").await;
    let until = Instant::now() + WAIT;
    while tokio::net::TcpStream::connect(&webhooks).await.is_err() {
        assert!(Instant::now() < until, "it does not listen: {}", running.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let opened =
        json!({"action": "opened", "repository": {"html_url": "https://github.com/any/repo"}})
            .to_string();
    let code =
        super::webhooks::post(&webhooks, &[("X-GitHub-Event", "pull_request")], &opened).await;
    assert_eq!(code, 200);
    until_names(&cluster, &running, &["pr-1", "pr-2"]).await;

    // The kind of a definition, by its plural.
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = serde_json::from_value(json!({
        "metadata": {"name": "placementdecisions.cluster.example.com"},
        "spec": {
            "group": "cluster.example.com", "scope": "Namespaced",
            "names": {"kind": "PlacementDecision", "plural": "placementdecisions", "singular": "placementdecision", "listKind": "PlacementDecisionList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    }));
    definitions.create(&PostParams::default(), &definition.unwrap()).await.unwrap();
    let kind = json!({"apiVersion": "cluster.example.com/v1", "kind": "placementdecisions", "statusListKey": "decisions", "matchKey": "clusterName"});
    create_map("kind", kind).await;
    let selector = json!({"matchLabels": {"for": "set"}});
    let decisions = json!([{"clusterDecisionResource": {"configMapRef": "kind", "labelSelector": selector, "requeueAfterSeconds": 1}}]);
    let patch = Patch::Merge(json!({"spec": {"generators": decisions}}));
    cluster.api("ApplicationSet").patch("set", &PatchParams::default(), &patch).await.unwrap();
    until_condition(
        &cluster,
        &running,
        "ErrorOccurred",
        "no placementdecisions of cluster.example.com/v1 with the labels for=set",
    )
    .await;
    assert_eq!(names(&cluster).await, ["pr-1", "pr-2"], "AS-098");
    let placement: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "cluster.example.com/v1", "kind": "PlacementDecision",
        "metadata": {"name": "chosen", "labels": {"for": "set"}},
        "status": {"decisions": [{"clusterName": "one", "number": "9"}]},
    }))
    .unwrap();
    let resource = ApiResource {
        group: "cluster.example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "cluster.example.com/v1".to_owned(),
        kind: "PlacementDecision".to_owned(),
        plural: "placementdecisions".to_owned(),
    };
    let placements: Api<DynamicObject> =
        Api::namespaced_with(cluster.client.clone(), "argocd", &resource);
    placements.create(&PostParams::default(), &placement).await.unwrap();
    refresh(&cluster).await;
    until_names(&cluster, &running, &["pr-9"]).await;
}
