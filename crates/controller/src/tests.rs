//! Both controllers together: when they lead, and what they leave behind.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Api;
use kube::api::PostParams;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube_sim::{Effect, InjectedFault, RequestRecord, Server};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::leader::Candidate;
use super::{Controllers, Led};
use crate::settings::{ApplicationSetSettings, Settings};
use wavegate_api::crds;
use wavegate_cluster::watch::follow::follow_objects;
use wavegate_cluster::watch::object::{StoredObject, kind_resource};
use wavegate_net::clock::Clock;
use wavegate_source::{Repositories, SourceSettings};

const NAMESPACE: &str = "argocd";
/// Time limit of every wait, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A server with a project, and a set of so many Applications.
async fn with_set(applications: usize) -> Server {
    let server = Server::new();
    let client = server.client_as("test");
    for crd in crds::all_definitions() {
        Api::all(client.clone()).create(&PostParams::default(), &crd).await.unwrap();
    }
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let create = async |kind: &str, name: &str, spec: Value| {
        let object = json!({
            "apiVersion": wavegate_api::API_VERSION, "kind": kind,
            "metadata": {"name": name}, "spec": spec,
        });
        let api: Api<StoredObject> =
            Api::namespaced_with(client.clone(), NAMESPACE, &kind_resource(kind));
        api.create(&PostParams::default(), &object.into()).await.unwrap();
    };
    create("AppProject", "default", json!({})).await;
    let elements: Vec<Value> =
        (0..applications).map(|number| json!({"name": format!("app-{number}")})).collect();
    let spec = json!({
        "generators": [{"list": {"elements": elements}}],
        "template": {
            "metadata": {"name": "{{name}}"},
            "spec": {
                "project": "default",
                "source": {"repoURL": "https://git.invalid/r", "path": "p"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "default"},
            },
        },
    });
    create("ApplicationSet", "set", spec).await;
    server
}

fn candidate(server: &Server, name: &str) -> Candidate {
    Candidate::new(server.client_as(name), NAMESPACE, name.to_owned(), Clock::system())
}

/// The controllers of a replica; Argo CD does the syncing.
fn controllers(server: &Server, name: &str) -> Controllers {
    let folder = tempfile::tempdir().unwrap();
    let sources = Repositories::open(folder.path(), SourceSettings::default()).unwrap();
    let settings =
        Settings { application_sets: ApplicationSetSettings::default(), applications: None };
    Controllers::new(server.client_as(name), settings, Arc::new(sources), Clock::system())
}

fn is_write(request: &RequestRecord) -> bool {
    !["get", "list", "watch"].contains(&request.verb.as_str())
}

/// A reconcile that runs at a shutdown is completed; until then no other replica may begin: both
/// would decide and write about the same set.
#[tokio::test]
async fn a_lease_is_released_after_the_last_write_of_a_replica_that_stops() {
    let server = with_set(4).await;
    let creates = |request: &RequestRecord| {
        request.client == "a" && request.verb == "create" && request.resource == "applications"
    };
    let slow = Effect::Latency(Duration::from_secs(2));
    server.inject(InjectedFault::new(slow, creates).times(usize::MAX));
    let (first, second) = (candidate(&server, "a"), candidate(&server, "b"));
    let (shutdown, running) = (CancellationToken::new(), CancellationToken::new());
    first.acquire(&shutdown).await.unwrap();
    let lead = async {
        let controllers = controllers(&server, "a");
        controllers.lead(Some(&first), &shutdown, std::future::pending()).await
    };
    let begins = async {
        while !server.requests().iter().any(creates) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        shutdown.cancel();
        second.acquire(&running).await
    };
    let both = async { tokio::join!(lead, begins) };
    let (led, held) = tokio::time::timeout(LIMIT, both).await.expect("both end");
    assert_eq!(led.unwrap(), Led::UntilShutdown);
    assert_eq!(held, Some(()), "the Lease is free");

    let requests = server.requests();
    let taken = |request: &RequestRecord| {
        request.client == "b" && request.resource == "leases" && request.verb == "update"
    };
    let (before, after) = requests.split_at(requests.iter().position(taken).unwrap());
    let late: Vec<_> =
        after.iter().filter(|request| request.client == "a" && is_write(request)).collect();
    assert!(late.is_empty(), "written after another replica has the Lease: {late:#?}");
    assert_eq!(before.iter().filter(|request| creates(request)).count(), 4, "it was completed");
}

/// A process that was stopped and continues, such as one in a frozen container, acts before it
/// finds out whether another replica leads now. Here none does, and the Lease is renewed.
#[tokio::test(start_paused = true)]
async fn a_replica_that_was_stopped_for_a_while_writes_nothing_before_it_has_renewed_the_lease() {
    let server = with_set(4).await;
    let first = candidate(&server, "a");
    let shutdown = CancellationToken::new();
    first.acquire(&shutdown).await.unwrap();
    tokio::time::advance(Duration::from_secs(12)).await;
    server.forget_requests();
    let lead = async {
        let controllers = controllers(&server, "a");
        controllers.lead(Some(&first), &shutdown, std::future::pending()).await
    };
    let created = async {
        let client = server.client_as("test");
        let kind = kind_resource("Application");
        let applications: Api<StoredObject> = Api::namespaced_with(client, NAMESPACE, &kind);
        let all = follow_objects(applications, watcher::Config::default()).applied_objects();
        pin!(all).next().await.expect("watches do not end").unwrap();
        shutdown.cancel();
    };
    let both = async { tokio::join!(lead, created) };
    let (led, ()) = tokio::time::timeout(LIMIT, both).await.expect("both end");
    assert_eq!(led.unwrap(), Led::UntilShutdown);
    let requests = server.requests();
    let mut writes = requests.iter().filter(|request| request.client == "a" && is_write(request));
    let resource = writes.next().map(|request| request.resource.as_str());
    assert_eq!(resource, Some("leases"), "written before the renewal: {requests:#?}");
}

/// Not a test: the worker of all tests of this crate, which have no other program.
#[test]
#[ignore = "only for processes that a pool starts"]
fn serve_as_a_worker() {
    wavegate_sandbox::serve_in_test();
}
