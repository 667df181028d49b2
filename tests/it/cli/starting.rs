//! The start of `run` while the API server does not answer.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use wavegate::embedded::{Effect, Fault, RequestRecord};

use super::arguments::Running;
use super::embedded::Cluster;
use super::proxy::Proxy;
use super::*;

/// The code that a probe gets; `None` while no server listens.
async fn probe(address: &str, path: &str) -> Option<u16> {
    let mut client = tokio::net::TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    tokio::io::AsyncWriteExt::write_all(&mut client, request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut client, &mut answer).await.ok()?;
    answer.split_whitespace().nth(1)?.parse().ok()
}

async fn until_probed(address: &str, path: &str, want: u16) {
    let look = async {
        while probe(address, path).await != Some(want) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), look).await;
    assert!(waited.is_ok(), "{path} does not answer {want}");
}

/// The settings may say that nothing is to be written: without them nothing starts.
#[tokio::test(flavor = "multi_thread")]
async fn settings_are_waited_for_while_the_server_does_not_answer() {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let set: Value = serde_json::from_str(&set(&["a"], json!([]))).unwrap();
    cluster.create("ApplicationSet", set).await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "argocd");
    let settings = serde_json::from_value(json!({
        "metadata": {"name": "argocd-cmd-params-cm"},
        "data": {
            "applicationsetcontroller.dryrun": "true",
            "applicationsetcontroller.log.format": "text",
        },
    }));
    maps.create(&PostParams::default(), &settings.unwrap()).await.unwrap();
    let before = writes(&cluster);

    let proxy = Proxy::in_front_of(&cluster).await;
    proxy.set_open(false);
    let probes = unused_address();
    let flag = format!("--probe-addr={probes}");
    let arguments = [&flag, "--metrics-addr=", "--webhook-addr=", "--sync-engine=external"];
    let mut running = Running::start_with(&proxy.kubeconfig(), &arguments, &[]);
    let log = running.until_logged("nothing starts before that").await;
    assert!(log.contains("ConfigMap argocd/argocd-cmd-params-cm cannot be read"), "{log}");
    assert!(!log.contains("\"starting\""), "{log}");
    until_probed(&probes, "/healthz", 200).await;
    assert_eq!(probe(&probes, "/readyz").await, Some(503), "it does nothing yet");

    proxy.set_open(true);
    let log = running.until_logged("dry run: nothing is written").await;
    let (waiting, started) = log.split_at(log.find("dry run:").unwrap());
    let last = started.lines().next().unwrap();
    assert!(waiting.starts_with('{') && !last.starts_with('{'), "the format of the map: {log}");
    running.until_logged("would create Application a").await;
    until_probed(&probes, "/readyz", 200).await;
    assert_eq!(writes(&cluster), before, "{}", running.log());
}

/// A server that refuses to show its settings answers: nothing is gained by waiting.
#[tokio::test(flavor = "multi_thread")]
async fn settings_that_are_forbidden_are_reported_and_not_used() {
    let cluster = Cluster::start().await;
    let refuse =
        |request: &RequestRecord| request.resource == "configmaps" && request.verb == "get";
    cluster.server.inject(Fault::new(Effect::Status(403), refuse).times(2));
    let arguments = ["--probe-addr=", "--metrics-addr=", "--webhook-addr="];
    let mut running = Running::start(&cluster, &arguments, &[]);
    let log = running.until_logged("\"message\":\"starting\"").await;
    let refused = "ConfigMap argocd-cmd-params-cm cannot be read, its settings are not used";
    assert!(log.contains(refused), "{log}");
}

/// Requests that change something.
fn writes(cluster: &Cluster) -> usize {
    let requests = cluster.server.requests();
    let writing = ["create", "update", "patch", "delete", "deletecollection"];
    requests.iter().filter(|request| writing.contains(&request.verb.as_str())).count()
}
