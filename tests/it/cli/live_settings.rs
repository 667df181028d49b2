//! Settings of the ConfigMaps that change while `run` runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube_sim::{Effect, Fault, RequestRecord};

use super::arguments::Running;
use super::embedded::Cluster;
use super::*;

/// No servers, and Argo CD does the syncing.
const FLAGS: [&str; 4] =
    ["--probe-addr=", "--metrics-addr=", "--webhook-addr=", "--sync-engine=external"];

/// Changes keys of `argocd-cmd-params-cm`.
async fn change(cluster: &Cluster, data: Value) {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "argocd");
    let patch = Patch::Merge(json!({ "data": data }));
    maps.patch("argocd-cmd-params-cm", &PatchParams::default(), &patch).await.unwrap();
}

fn is_read(request: &RequestRecord) -> bool {
    request.client != "test"
        && (request.verb.as_str(), request.resource.as_str()) == ("get", "configmaps")
}

/// Waits until the settings have been read for the watches that begin.
async fn until_followed(cluster: &Cluster) {
    let reads = || cluster.server.requests().iter().filter(|request| is_read(request)).count();
    let calm = async {
        let mut before = 0;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = reads();
            // Those of the start, and those of a watch.
            if now >= 4 && now == before {
                return;
            }
            before = now;
        }
    };
    tokio::time::timeout(WAIT, calm).await.expect("the settings are followed");
}

/// AS-500: the event of a change comes once. When the API server does not answer the read that
/// follows, it is read again.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_setting_acts_although_its_first_reads_fail() {
    let cluster = Cluster::start().await;
    cluster.sets(json!({"applicationsetcontroller.policy": "sync"})).await;
    let mut running = Running::start(&cluster, &FLAGS, &[]);
    running.until_logged("\"starting\"").await;
    until_followed(&cluster).await;

    let left = Arc::new(AtomicUsize::new(2));
    let fails = Arc::clone(&left);
    let refused = move |request: &RequestRecord| {
        let take = |left: usize| left.checked_sub(1);
        is_read(request) && fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
    };
    cluster.server.inject(Fault::new(Effect::Status(500), refused).times(usize::MAX));
    change(&cluster, json!({"applicationsetcontroller.policy": "create-only"})).await;
    let log = running.until_logged("the settings have changed").await;
    assert_eq!(left.load(Ordering::SeqCst), 0, "the reads have failed");
    assert!(log.contains("its last settings stay until it can"), "{log}");
}
