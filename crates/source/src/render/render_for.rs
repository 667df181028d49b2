//! What a source is rendered for.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::git::access::RepositoryAccess;
use crate::git::checkout::Checkout;
use crate::network::Network;

/// The Application that a source is rendered for.
#[derive(Debug, Clone)]
pub struct RenderFor {
    /// Name of the Application; the release name of a chart unless `helm.releaseName` is set.
    pub application: String,
    /// `destination.namespace`; may be empty.
    pub namespace: String,
    /// The name in tracking metadata; empty for that of the Application. Differs for one
    /// outside of the namespace of the control plane.
    pub instance: String,
    /// Name of its project; may be empty.
    pub project: String,
    /// Version and kinds of the destination, for charts; `None` when they are not known.
    pub cluster: Option<ChartCapabilities>,
    /// The sources with a `ref`, by its value: they may contain values files (SE-034).
    pub references: BTreeMap<String, Arc<Checkout>>,
    /// Which repositories the dependencies of a chart may come from; `None` for none.
    pub charts: Option<Arc<dyn RepositoryAccess>>,
    /// How what is fetched shares the network with others.
    pub network: Network,
    /// The annotation `argocd.argoproj.io/manifest-generate-paths`, which limits what plugins
    /// get; may be empty.
    pub generate_paths: String,
    /// Limit on the memory of the objects, in bytes.
    pub memory: u64,
}

impl RenderFor {
    /// The name that Argo CD gives to sources: of an Application outside of the namespace of
    /// the control plane, that with its namespace.
    pub(crate) fn instance_name(&self) -> &str {
        if self.instance.is_empty() { &self.application } else { &self.instance }
    }
}

impl Default for RenderFor {
    fn default() -> Self {
        Self {
            application: String::new(),
            namespace: String::new(),
            instance: String::new(),
            project: String::new(),
            cluster: None,
            references: BTreeMap::new(),
            charts: None,
            network: Network::default(),
            generate_paths: String::new(),
            memory: crate::directory::source_directory::DEFAULT_MAX_MEMORY,
        }
    }
}

/// What charts may ask of the destination: `.Capabilities`. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChartCapabilities {
    /// Version of Kubernetes, such as `1.33.2`.
    pub kube_version: String,
    /// Each `group/version` and `group/version/Kind`; the core group as `v1`.
    pub api_versions: Arc<[String]>,
}
