//! The clusters that ApplicationSets can use.

use k8s_openapi::api::core::v1::Secret;
use kube::Resource;

use crate::api::Cluster;

/// Address of the cluster of the controller.
pub const IN_CLUSTER_SERVER: &str = "https://kubernetes.default.svc";
/// Its name.
pub const IN_CLUSTER_NAME: &str = "in-cluster";

/// The clusters of a list of Secrets, and the local one.
pub fn clusters_of<'a>(secrets: impl Iterator<Item = &'a Secret>) -> Vec<Cluster> {
    let mut clusters: Vec<Cluster> = secrets
        .filter(|secret| secret.meta().deletion_timestamp.is_none())
        .map(|secret| {
            let text = |key: &str| {
                let bytes = secret.data.as_ref().and_then(|data| data.get(key));
                bytes
                    .map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned())
                    .unwrap_or_default()
            };
            Cluster { name: text("name"), server: text("server").trim_end_matches('/').to_owned() }
        })
        .collect();
    if !clusters.iter().any(|cluster| cluster.server == IN_CLUSTER_SERVER) {
        clusters.push(Cluster {
            name: IN_CLUSTER_NAME.to_owned(),
            server: IN_CLUSTER_SERVER.to_owned(),
        });
    }
    clusters.sort();
    clusters
}
