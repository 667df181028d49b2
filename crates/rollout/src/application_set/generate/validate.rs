//! Validation of generated Applications: which may be written (AS-180).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::application_set::generate::shape;
use crate::desired::Generation;
use wavegate_api::live::LiveSpec;
use wavegate_api::unknown::nearest_name;
use wavegate_api::{ApplicationDestination, Cluster, read_leniently};

/// The input of a validation.
#[derive(Clone, Debug, Default)]
pub struct KnownTargets {
    /// The AppProjects in the control-plane namespace.
    pub projects: BTreeSet<String>,
    /// That namespace; empty when none was searched.
    pub namespace: String,
    /// The clusters, including the local one.
    pub clusters: Vec<Cluster>,
}

/// Validation errors of generated Applications, by [`Generation::called`]:
/// their own, and those that depend on the cluster.
pub fn validation_problems(
    generation: &Generation,
    known: &KnownTargets,
) -> BTreeMap<String, String> {
    let mut problems = problems_alone(generation);
    for (name, application) in generation.called() {
        if problems.contains_key(name) {
            continue;
        }
        if let Some(problem) = problem_here(application, known) {
            problems.insert(name.to_owned(), problem);
        }
    }
    problems
}

/// Validation errors that do not depend on the cluster. Applications with the
/// same name are all rejected, since the name is ambiguous.
pub fn problems_alone(generation: &Generation) -> BTreeMap<String, String> {
    let mut origins: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (application, origin) in generation.applications.iter().zip(&generation.origins) {
        origins.entry(crate::desired::name_of(application)).or_default().push(origin);
    }
    let mut problems = BTreeMap::new();
    for ((name, application), origin) in generation.called().zip(&generation.origins) {
        let own_name = crate::desired::name_of(application);
        let namesakes = origins.get(own_name).map(Vec::as_slice).unwrap_or_default();
        let problem = shape::problem_of_namesakes(own_name, namesakes).or_else(|| {
            shape::shape_problem(application).map(|problem| match name == origin.as_str() {
                true => problem,
                false => format!("{problem} (generated from {origin})"),
            })
        });
        if let Some(problem) = problem {
            problems.insert(name.to_owned(), problem);
        }
    }
    problems
}

/// Validation errors of an Application that depend on the cluster.
pub fn problem_here(application: &Value, known: &KnownTargets) -> Option<String> {
    problem_of_target(&DeployTarget::of(&LiveSpec::of(application)), known)
}

/// Project and destination of an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeployTarget {
    /// Its project, `default` when it names none.
    pub project: Box<str>,
    /// The name of its cluster.
    pub cluster: Box<str>,
    /// The address of its cluster, without a trailing slash.
    pub server: Box<str>,
    /// Its namespace there.
    pub namespace: Box<str>,
}

impl DeployTarget {
    /// Its cluster among the known ones.
    pub fn cluster_in<'a>(&self, clusters: &'a [Cluster]) -> Option<&'a Cluster> {
        clusters.iter().find(|known| match &*self.cluster {
            "" => *known.server == *self.server,
            cluster => known.name == cluster,
        })
    }

    /// From the spec of an Application.
    pub fn of(spec: &LiveSpec) -> Self {
        let ApplicationDestination { name, server, namespace, .. } =
            read_leniently(&spec.destination);
        let project = Some(spec.project.as_str()).filter(|project| !project.is_empty());
        Self {
            project: project.unwrap_or("default").into(),
            cluster: name.into(),
            server: server.trim_end_matches('/').into(),
            namespace: namespace.into(),
        }
    }
}

/// Validation errors of a project and destination.
pub fn problem_of_target(target: &DeployTarget, known: &KnownTargets) -> Option<String> {
    let project = &*target.project;
    if !known.projects.contains(project) {
        let place = match known.namespace.as_str() {
            "" => String::new(),
            namespace => format!(" in namespace {namespace}"),
        };
        let near = nearest_name(project, known.projects.iter().map(AsRef::as_ref));
        let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        return Some(format!("spec.project: AppProject {project} does not exist{place}{hint}"));
    }
    destination_problem(target, &known.clusters)
}

/// How many clusters have a name.
pub fn clusters_named(name: &str, clusters: &[Cluster]) -> usize {
    clusters.iter().filter(|cluster| cluster.name == name).count()
}

/// Validation errors of a destination.
pub fn destination_problem(target: &DeployTarget, clusters: &[Cluster]) -> Option<String> {
    match (&*target.cluster, &*target.server) {
        ("", "") => Some("spec.destination: needs a server or a name".to_owned()),
        ("", server) if clusters.iter().any(|cluster| cluster.server == server) => None,
        ("", server) => {
            Some(format!("spec.destination.server: cluster {server} is not registered"))
        }
        (name, "") => match clusters_named(name, clusters) {
            1 => None,
            0 => Some(format!("spec.destination.name: cluster {name} not found")),
            count => Some(format!("spec.destination.name: {count} clusters are named {name}")),
        },
        (name, server) => Some(format!(
            "spec.destination: has both the name {name} and the server {server}; give one of them"
        )),
    }
}
