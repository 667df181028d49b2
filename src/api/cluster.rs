//! A cluster that Applications may be deployed to, as its Secret describes it.

use std::collections::BTreeMap;

/// URL of the cluster of the controller, which always exists.
pub const IN_CLUSTER_SERVER: &str = "https://kubernetes.default.svc";
/// Its name, unless a Secret gives it another one.
pub const IN_CLUSTER_NAME: &str = "in-cluster";

/// Name and address of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// Its address, without a trailing slash.
    pub server: String,
}

/// A cluster Secret without its credentials, as the clusters generator uses it (AS-060).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterSecret {
    /// `name`.
    pub name: String,
    /// `server`, without a trailing slash.
    pub server: String,
    /// `project`: the AppProject that the cluster is reserved for; empty for none.
    pub project: String,
    /// Labels of the Secret.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the Secret, without the one in which `kubectl apply` stores the
    /// manifest, credentials included.
    pub annotations: BTreeMap<String, String>,
}
