//! The clusters that ApplicationSets can use.

use k8s_openapi::api::core::v1::Secret;
use kube::Resource;

use crate::watch::secrets;
use wavegate_api::annotations::{LAST_APPLIED, is_skipped_by};
use wavegate_api::cluster::{ClusterSecret, IN_CLUSTER_NAME, IN_CLUSTER_SERVER};
use wavegate_api::{Cluster, ObjectKey};

/// The cluster that a Secret describes, without its credentials; `None` for other Secrets,
/// and for one that is being deleted.
pub fn cluster_secret(secret: &Secret) -> Option<ClusterSecret> {
    if !secrets::is_cluster(secret) || secret.meta().deletion_timestamp.is_some() {
        return None;
    }
    let text = |key: &str| secrets::secret_text(secret, key);
    let mut annotations = secret.metadata.annotations.clone().unwrap_or_default();
    annotations.remove(LAST_APPLIED);
    let text_of = |text: &Option<String>| text.clone().unwrap_or_default();
    let metadata = &secret.metadata;
    Some(ClusterSecret {
        secret: ObjectKey::new(&text_of(&metadata.namespace), &text_of(&metadata.name)).to_string(),
        name: text("name"),
        server: text("server").trim_end_matches('/').to_owned(),
        project: text("project"),
        labels: secret.metadata.labels.clone().unwrap_or_default(),
        annotations,
    })
}

/// The clusters of Secrets, and the local one.
pub fn clusters_of(secrets: &[ClusterSecret]) -> Vec<Cluster> {
    let of = |secret: &ClusterSecret| Cluster {
        name: secret.name.clone(),
        server: secret.server.clone(),
        excluded_by: match is_skipped_by(Some(&secret.annotations)) {
            true => secret.secret.clone(),
            false => String::new(),
        },
    };
    let mut clusters: Vec<Cluster> = secrets.iter().map(of).collect();
    if !clusters.iter().any(|cluster| cluster.server == IN_CLUSTER_SERVER) {
        clusters.push(Cluster {
            name: IN_CLUSTER_NAME.to_owned(),
            server: IN_CLUSTER_SERVER.to_owned(),
            ..Cluster::default()
        });
    }
    clusters.sort();
    clusters
}
