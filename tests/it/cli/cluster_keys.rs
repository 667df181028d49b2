//! Keys of cluster Secrets that have no effect are named in the log.

use kube::Api;
use kube::api::PostParams;

use super::arguments::Running;
use super::embedded::Cluster;
use super::*;

/// A misspelt key, one in `config`, and `shard` (SE-299) are named once, with the Secret and
/// without values; what Argo CD writes is not.
#[tokio::test(flavor = "multi_thread")]
async fn keys_of_cluster_secrets_that_nothing_reads_are_named() {
    let cluster = Cluster::start().await;
    let secrets: Api<k8s_openapi::api::core::v1::Secret> =
        Api::namespaced(cluster.client.clone(), "argocd");
    let create = async |name: &str, data: Value| {
        let secret = json!({
            "metadata": {"name": name, "labels": {"argocd.argoproj.io/secret-type": "cluster"}},
            "stringData": data,
        });
        let secret = serde_json::from_value(secret).unwrap();
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    };
    let config = json!({
        "execProviderConfg": {"command": "s3cr3t"}, "tlsClientConfig": {"insecur": true},
    });
    let misspelt = json!({
        "name": "misspelt", "server": "https://127.0.0.1:1", "namespace": "only-this",
        "clusterResource": "true", "shard": "1", "config": config.to_string(),
    });
    create("misspelt", misspelt).await;
    let config = json!({"tlsClientConfig": {"insecure": false}, "username": ""});
    let right = json!({
        "name": "right", "server": "https://127.0.0.1:2", "project": "default",
        "namespaces": "web", "clusterResources": "false", "config": config.to_string(),
    });
    create("right", right).await;
    let args = ["--metrics-addr=", "--probe-addr=", "--webhook-addr="];
    let mut running = Running::start(&cluster, &args, &[]);
    let shard = "shard of a cluster is accepted without effect: one process handles all clusters";
    running.until_logged(shard).await;
    let log = running.until_logged("keys of a cluster that nothing reads: ").await;
    let lines = |words: &str| log.lines().filter(|line| line.contains(words)).collect::<Vec<_>>();
    let unread = lines("keys of a cluster that nothing reads: ");
    assert_eq!(unread.len(), 1, "{log}");
    for key in [
        "clusterResource",
        "namespace",
        "config.execProviderConfg",
        "config.tlsClientConfig.insecur",
        "misspelt",
    ] {
        assert!(unread[0].contains(key), "{key}: {log}");
    }
    assert!(!unread[0].contains("right") && lines(shard).len() == 1, "{log}");
    assert!(!log.contains("s3cr3t") && !log.contains("only-this"), "{log}");
}
