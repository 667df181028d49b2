//! What a reconcile reads besides the ApplicationSet and its Applications: projects, clusters
//! and credentials of repositories.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use super::signed::{self, ByProject};
use crate::credentials::RepositorySecrets;
use wavegate_api::cluster::ClusterSecret;
use wavegate_api::{AppProject, AppProjectSpec};
use wavegate_application::global_projects::GlobalProjects;
use wavegate_application::project;
use wavegate_cluster::watch::control_plane::{ControlPlane, clusters_of};
use wavegate_cluster::watch::object::StoredObject;
use wavegate_engine::windows::Window;
use wavegate_rollout::application_set::generate::validate::KnownTargets;
use wavegate_rollout::desired::inputs::{ProjectReads, Projects};

/// Projects and clusters.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// The observed versions of these objects.
    versions: Vec<(String, String)>,
    /// The projects and clusters that Applications may refer to.
    pub known: KnownTargets,
    /// The projects, with how generators may read their repositories.
    projects: Projects,
    /// What projects demand of the commits of these.
    pub demands: Arc<ByProject>,
    /// The cluster Secrets.
    pub clusters: Arc<[ClusterSecret]>,
    /// The credentials of repositories.
    pub credentials: Arc<RepositorySecrets>,
    /// The sync windows of each project.
    pub windows: BTreeMap<String, Vec<Window>>,
    /// Their specs, for the namespaces that they permit.
    specs: BTreeMap<String, AppProjectSpec>,
}

impl Surroundings {
    /// The projects, with how generators of sets in a namespace may read their repositories.
    pub fn projects_for(&self, namespace: &str) -> Projects {
        let closed = |name: &String| {
            let spec = self.specs.get(name)?;
            project::closed_to(spec, name, namespace, &self.known.namespace)
        };
        let reads = |(name, reads): (&String, &ProjectReads)| {
            let reads = match reads {
                ProjectReads::Refused(_) => None,
                ProjectReads::AsTheyAre | ProjectReads::Signed(_) => {
                    closed(name).map(ProjectReads::Refused)
                }
            }
            .unwrap_or_else(|| reads.clone());
            (name.clone(), reads)
        };
        self.projects.iter().map(reads).collect()
    }

    /// Reads the projects of the control plane in this namespace, and clusters, again if one of them has changed; returns whether.
    pub fn observe(
        &mut self,
        plane: &ControlPlane,
        namespace: &str,
        global: &GlobalProjects,
    ) -> bool {
        let projects = plane.projects.in_namespace(namespace);
        let secrets = plane.secrets.all();
        let mut versions: Vec<_> =
            projects.values().chain(&secrets).map(StoredObject::version).collect();
        // The keys of those who sign commits.
        versions.push((String::new(), plane.trust.version().to_string()));
        if versions == self.versions && !self.known.clusters.is_empty() {
            return false;
        }
        self.versions = versions;
        let global_values: BTreeMap<&str, Value> = global
            .names()
            .into_iter()
            .filter_map(|name| Some((name, projects.get(name)?.parse())))
            .collect();
        let windows = |project: &StoredObject| {
            global.windows(&project.parse(), |name| global_values.get(name))
        };
        self.windows =
            projects.iter().map(|(name, project)| (name.clone(), windows(project))).collect();
        let keys = plane.trust.signing_keys();
        let mut demands = ByProject::new();
        self.projects.clear();
        for (name, project) in &projects {
            let (reads, demanded) = signed::project_reads(&project.parse(), &keys);
            self.projects.insert(name.clone(), reads);
            demands.extend(demanded.map(|demanded| (name.clone(), demanded)));
        }
        self.demands = Arc::new(demands);
        // One that cannot be read permits nothing.
        let spec = |project: &StoredObject| {
            project.read::<AppProject>().map(|project| project.spec).unwrap_or_default()
        };
        self.specs = projects.iter().map(|(name, project)| (name.clone(), spec(project))).collect();
        let projects = projects.into_keys().collect();
        let clusters = plane.clusters();
        let namespace = namespace.to_owned();
        self.known = KnownTargets { projects, namespace, clusters: clusters_of(&clusters) };
        self.clusters = clusters.into();
        let secrets: Vec<Secret> = secrets.iter().filter_map(|object| object.read().ok()).collect();
        let credentials = RepositorySecrets::read(&secrets).trusting(Arc::clone(&plane.trust));
        self.credentials = Arc::new(credentials);
        true
    }
}
