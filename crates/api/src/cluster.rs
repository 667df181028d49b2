//! A cluster that Applications may be deployed to, as its Secret describes it.

use std::collections::{BTreeMap, BTreeSet};

/// URL of the cluster of the controller, which always exists.
pub const IN_CLUSTER_SERVER: &str = "https://kubernetes.default.svc";
/// Its name, unless a Secret gives it another one.
pub const IN_CLUSTER_NAME: &str = "in-cluster";

/// Label of its Secret that asks for the next one, if it is `true` (CA-510).
pub const AUTO_LABEL: &str = "argocd.argoproj.io/auto-label-cluster-info";
/// Label of its Secret with the version of Kubernetes.
pub const KUBERNETES_VERSION_LABEL: &str = "argocd.argoproj.io/kubernetes-version";

/// Name and address of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// Its address, without a trailing slash.
    pub server: String,
    /// Namespace and name of the Secret with an annotation that excludes the cluster from
    /// reconciling; empty for none.
    pub excluded_by: String,
}

/// A cluster Secret without its credentials, as the clusters generator uses it (AS-060).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterSecret {
    /// Namespace and name of the Secret, with a slash in between.
    pub secret: String,
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

/// A Secret that asks for a label with the version of its cluster (CA-510).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledSecret {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// URL of the cluster.
    pub server: String,
    /// The label that it has.
    pub version: Option<String>,
}

/// The part of a cluster that its Secret permits to be managed (SE-433). The default is all
/// of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterScope {
    /// `namespaces`: the only namespaces that are read and written; `None` for all.
    pub namespaces: Option<BTreeSet<String>>,
    /// `clusterResources`: whether cluster-scoped objects are managed although `namespaces`
    /// is set.
    pub cluster_resources: bool,
}

impl ClusterScope {
    /// Reads the fields of a Secret. A list without any name permits no namespace.
    pub fn parse(namespaces: &str, cluster_resources: &str) -> Self {
        let names = namespaces.split(',').map(str::trim).filter(|name| !name.is_empty());
        let names: BTreeSet<String> = names.map(str::to_owned).collect();
        Self {
            namespaces: (!namespaces.is_empty()).then_some(names),
            cluster_resources: cluster_resources.trim() == "true",
        }
    }

    /// Why an object must not be managed; a cluster-scoped one has no namespace.
    ///
    /// # Errors
    ///
    /// The message of Argo CD.
    pub fn check(&self, kind: &str, namespace: &str, name: &str) -> Result<(), String> {
        let Some(namespaces) = &self.namespaces else { return Ok(()) };
        match namespace {
            "" if self.cluster_resources => Ok(()),
            "" => Err(format!(
                "cluster level {kind} \"{name}\" can not be managed when in namespaced mode"
            )),
            namespace if namespaces.contains(namespace) => Ok(()),
            namespace => {
                Err(format!("namespace \"{namespace}\" for {kind} \"{name}\" is not managed"))
            }
        }
    }
}
