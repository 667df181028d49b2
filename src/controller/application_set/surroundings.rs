//! What a reconcile reads besides the ApplicationSet and its Applications: projects, clusters
//! and credentials of repositories.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;

use crate::api::cluster::ClusterSecret;
use crate::api::{AppProject, AppProjectSpec};
use crate::controller::credentials::RepositorySecrets;
use crate::decide::app_state::{project, unsupported};
use crate::decide::application_set::validate::Known;
use crate::decide::windows::{self, Window};
use crate::desired::inputs::Projects;
use crate::watch::control_plane::{ControlPlane, clusters_of};
use crate::watch::object::Object;

/// Projects and clusters.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// The observed versions of these objects.
    versions: Vec<(String, String)>,
    /// The projects and clusters that Applications may refer to.
    pub known: Known,
    /// The projects, with what keeps generators from reading their repositories.
    projects: Projects,
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
    /// The projects, with what keeps generators of sets in a namespace from reading their
    /// repositories.
    pub fn projects_for(&self, namespace: &str) -> Projects {
        let closed = |name: &String| {
            let spec = self.specs.get(name)?;
            project::closed_to(spec, name, namespace, &self.known.namespace)
        };
        let all = self.projects.iter();
        all.map(|(name, why)| (name.clone(), why.clone().or_else(|| closed(name)))).collect()
    }

    /// Reads the projects of the control plane in this namespace, and clusters, again if one of them has changed; returns whether.
    pub fn observe(&mut self, plane: &ControlPlane, namespace: &str) -> bool {
        let projects = plane.projects.in_namespace(namespace);
        let secrets = plane.secrets.all();
        let version =
            |object: &Object| (object.uid().to_owned(), object.resource_version().to_owned());
        let versions: Vec<_> = projects.values().chain(&secrets).map(version).collect();
        if versions == self.versions && !self.known.clusters.is_empty() {
            return false;
        }
        self.versions = versions;
        self.windows = projects
            .iter()
            .map(|(name, project)| (name.clone(), windows::windows(&project.parse())))
            .collect();
        self.projects = projects
            .iter()
            .map(|(name, project)| (name.clone(), unsupported::demand(&project.parse())))
            .collect();
        // One that cannot be read permits nothing.
        let spec = |project: &Object| {
            project.read::<AppProject>().map(|project| project.spec).unwrap_or_default()
        };
        self.specs = projects.iter().map(|(name, project)| (name.clone(), spec(project))).collect();
        let projects = projects.into_keys().collect();
        let clusters = plane.clusters();
        let namespace = namespace.to_owned();
        self.known = Known { projects, namespace, clusters: clusters_of(&clusters) };
        self.clusters = clusters.into();
        let secrets: Vec<Secret> = secrets.iter().filter_map(|object| object.read().ok()).collect();
        let credentials = RepositorySecrets::read(&secrets).trusting(Arc::clone(&plane.trust));
        self.credentials = Arc::new(credentials);
        true
    }
}
