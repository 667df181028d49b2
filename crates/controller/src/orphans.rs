//! Objects of a namespace that no Application manages (SE-078, CA-311).

use std::sync::Arc;

use wavegate_api::tracking::from_instance_name;
use wavegate_api::{AppProjectSpec, ObjectKey};
use wavegate_application::argocd_cache::Orphans;
use wavegate_application::project::permits_kind_of_key;
use wavegate_cluster::watch::cluster_cache::IsOrphan;
use wavegate_cluster::watch::control_plane::Cache;

/// The Applications of the control plane, by the names in tracking labels and annotations.
#[derive(Clone, Debug)]
pub struct Instances {
    /// The Applications.
    pub applications: Arc<Cache>,
    /// The namespace whose Applications are named without it.
    pub control_plane_namespace: String,
}

impl Instances {
    /// Whether there is an Application of this name.
    fn exist(&self, instance: &str) -> bool {
        let (namespace, name) = from_instance_name(instance, &self.control_plane_namespace);
        self.applications.get(&ObjectKey::new(namespace, name)).is_some()
    }
}

/// Which objects without an owner a project reports as orphaned: those that it may manage and
/// that no existing Application tracks.
pub fn is_orphan(
    project: &Arc<AppProjectSpec>,
    orphans: Orphans,
    instances: Instances,
) -> IsOrphan {
    let project = Arc::clone(project);
    Arc::new(move |key, instance| {
        orphans.includes(key)
            && permits_kind_of_key(&project, key)
            && !instance.is_some_and(|instance| instances.exist(instance))
    })
}
