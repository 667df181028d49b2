//! Settings whose ConfigMap vanishes while `run` runs: a guard stays closed while a tool creates it
//! again.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube_sim::RequestRecord;
use wavegate_controller::leader::LEASE;

use super::arguments::Running;
use super::embedded::Cluster;
use super::*;

const MAP: &str = "argocd-cmd-params-cm";

fn condition(set: &Value, kind: &str) -> Value {
    let conditions = set["status"]["conditions"].as_array();
    let mut found = conditions.into_iter().flatten().filter(|one| one["type"] == kind);
    found.next().cloned().unwrap_or_default()
}

/// Waits until the set satisfies this.
async fn until_set(cluster: &Cluster, running: &Running, what: &str, is: impl Fn(&Value) -> bool) {
    let until = std::time::Instant::now() + WAIT;
    loop {
        let set = cluster.api("ApplicationSet").get("set").await.unwrap();
        let set = serde_json::to_value(&set).unwrap();
        if is(&set) {
            return;
        }
        assert!(std::time::Instant::now() < until, "{what}: {set:#} {}", running.log());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// AS-150, AS-301, AS-500: without the map, an Application would be deleted that the policy keeps,
/// and a rollout would be over; a condition, the log and a metric name the map until it is there
/// again.
#[tokio::test(flavor = "multi_thread")]
async fn settings_that_vanish_stay_in_force_until_they_are_there_again() {
    let cluster = Cluster::with_set(&["b"], &["a", "b"], "https://r", &[]).await;
    let data = json!({
        "applicationsetcontroller.policy": "create-only",
        "applicationsetcontroller.enable.progressive.syncs": "true",
        "applicationsetcontroller.sync.engine": "external",
    });
    cluster.sets(data.clone()).await;
    let metrics = unused_address();
    let flag = format!("--metrics-addr={metrics}");
    let arguments = ["--probe-addr=", &flag, "--webhook-addr="];
    let mut running = Running::start(&cluster, &arguments, &[]);
    until_set(&cluster, &running, "it rolls out", |set| {
        !condition(set, "RolloutProgressing").is_null()
    })
    .await;
    let log = running.until_logged("ConfigMap argocd/argocd-cm does not exist").await;
    assert_eq!(log.matches("does not exist: what it could set has its default").count(), 1);

    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "argocd");
    maps.delete(MAP, &DeleteParams::default()).await.unwrap();
    running.until_logged("ConfigMap argocd-cmd-params-cm had settings").await;
    until_set(&cluster, &running, "it is named", |set| {
        let found = condition(set, "SettingsAbsent");
        found["status"] == "True" && found["message"].as_str().unwrap().contains(MAP)
    })
    .await;
    // The reconcile that wrote it has decided with the former settings.
    let applications = cluster.api("Application");
    let kept = applications.get("a").await.unwrap();
    assert!(kept.metadata.deletion_timestamp.is_none(), "create-only: {}", running.log());
    until_set(&cluster, &running, "still a rollout", |set| {
        !condition(set, "RolloutProgressing").is_null()
            && condition(set, "InvalidRolloutConfig")["status"] != "True"
    })
    .await;
    let text = metrics_of(&metrics).await;
    let series = r#"wavegate_settings_absent{source="ConfigMap argocd-cmd-params-cm"} 1"#;
    assert!(text.contains(series), "{text}");
    let shown = cluster.run(&["explain", "set"]).await;
    assert!(shown.out.contains("SettingsAbsent"), "{}", shown.out);

    cluster.sets(data).await;
    until_set(&cluster, &running, "it is back", |set| condition(set, "SettingsAbsent").is_null())
        .await;
    assert!(!metrics_of(&metrics).await.contains("wavegate_settings_absent{"));
    let log = running.log();
    assert!(!log.contains("the settings have changed"), "{log}");
    assert!(applications.get("a").await.unwrap().metadata.deletion_timestamp.is_none());

    // Written empty, it means the defaults.
    let empty = json!({"data": null});
    let patch = kube::api::Patch::Merge(empty);
    maps.patch(MAP, &kube::api::PatchParams::default(), &patch).await.unwrap();
    running.until_logged("the settings have changed").await;
}

/// AS-150, AS-500: a replica that stands by for days saw settings that were not there when it started.
/// It leads with what it saw last, when the map vanishes before it leads.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_stands_by_keeps_what_it_saw_last() {
    let cluster = Cluster::with_set(&["b"], &["a", "b"], "https://r", &[]).await;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "argocd");
    let lease = json!({
        "metadata": {"name": LEASE},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600,
            "renewTime": "2100-01-01T00:00:00.000000Z"},
    });
    let lease = serde_json::from_value(lease).unwrap();
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let arguments =
        ["--probe-addr=", "--metrics-addr=", "--webhook-addr=", "--enable-leader-election"];
    let mut running = Running::start(&cluster, &arguments, &[]);
    running.until_logged("the lease is held by other").await;

    let reads = || {
        let is_read = |request: &RequestRecord| {
            let is_ours = request.client != "test" && request.resource == "configmaps";
            is_ours
                && (request.verb.as_str(), request.name.as_str(), request.code) == ("get", MAP, 200)
        };
        cluster.server.requests().into_iter().filter(is_read).count()
    };
    let data = json!({
        "applicationsetcontroller.policy": "create-only",
        "applicationsetcontroller.sync.engine": "external",
    });
    cluster.sets(data).await;
    let until = std::time::Instant::now() + WAIT;
    while reads() == 0 {
        assert!(std::time::Instant::now() < until, "{}", running.log());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "argocd");
    maps.delete(MAP, &DeleteParams::default()).await.unwrap();
    running.until_logged("ConfigMap argocd-cmd-params-cm had settings").await;
    leases.delete(LEASE, &DeleteParams::default()).await.unwrap();
    until_set(&cluster, &running, "it leads, and names what is gone", |set| {
        let found = condition(set, "SettingsAbsent");
        found["status"] == "True" && found["message"].as_str().unwrap().contains(MAP)
    })
    .await;
    let kept = cluster.api("Application").get("a").await.unwrap();
    assert!(kept.metadata.deletion_timestamp.is_none(), "create-only: {}", running.log());
}

async fn metrics_of(address: &str) -> String {
    let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut client, request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut client, &mut answer).await.unwrap();
    answer
}

/// AS-500: beside Argo CD the default would be a second controller that syncs.
#[tokio::test(flavor = "multi_thread")]
async fn a_mistyped_sync_engine_is_refused_as_500() {
    let cluster = Cluster::start().await;
    let (key, variable) =
        ("applicationsetcontroller.sync.engine", "ARGOCD_APPLICATIONSET_CONTROLLER_SYNC_ENGINE");
    let run = ["run", "--namespace=argocd", "--probe-addr=", "--metrics-addr=", "--webhook-addr="];
    let refused = cluster.run_with(&run, &[(variable, "exteral")]).await;
    refused.fails(2, &[variable, "exteral", "is not understood; write embedded, or external"]);
    cluster.sets(json!({ key: "externl" })).await;
    cluster.run(&run).await.fails(2, &[key, "externl", "is not understood"]);

    // While it runs, the former one stays.
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "argocd");
    let set = async |engine: &str| {
        let patch = kube::api::Patch::Merge(json!({"data": {key: engine}}));
        maps.patch(MAP, &kube::api::PatchParams::default(), &patch).await.unwrap();
    };
    set(" External ").await;
    let mut running = Running::start(&cluster, &run[2..], &[]);
    running.until_logged("External").await;
    set("exteral").await;
    let log = running.until_logged("the former ones stay").await;
    assert!(log.contains("is not understood; write embedded"), "{log}");
}
