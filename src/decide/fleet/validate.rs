//! Which generated Applications may be written (AS-180).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// A cluster that Applications may be deployed to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// Its address, without a trailing slash.
    pub server: String,
}

/// What a validation may know.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The AppProjects in the control-plane namespace.
    pub projects: BTreeSet<String>,
    /// The clusters, the local one included.
    pub clusters: Vec<Cluster>,
}

/// Finds what is wrong with generated Applications, by name. Applications that
/// share a name are all refused: nobody knows which one is meant.
pub fn problems(applications: &[Value], known: &Known) -> BTreeMap<String, String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for application in applications {
        *counts.entry(crate::desired::name_of(application)).or_default() += 1;
    }
    let mut problems = BTreeMap::new();
    for application in applications {
        let name = crate::desired::name_of(application);
        let count = counts.get(name).copied().unwrap_or_default();
        let problem = match (name, count) {
            ("", _) => Some("spec.template.metadata.name: renders to an empty name".to_owned()),
            (_, 2..) => Some(format!(
                "spec.template.metadata.name: {count} parameter sets give the name {name}; it must be unique"
            )),
            _ => problem_of_project(application, known)
                .or_else(|| problem_of_destination(application, known)),
        };
        if let Some(problem) = problem {
            problems.insert(name.to_owned(), problem);
        }
    }
    problems
}

fn problem_of_project(application: &Value, known: &Known) -> Option<String> {
    let project = application["spec"]["project"].as_str().filter(|text| !text.is_empty());
    let project = project.unwrap_or("default");
    (!known.projects.contains(project))
        .then(|| format!("spec.project: AppProject {project} does not exist"))
}

/// What is wrong with an Application's destination, if anything.
pub fn problem_of_destination(application: &Value, known: &Known) -> Option<String> {
    let destination = &application["spec"]["destination"];
    let text = |field: &str| destination[field].as_str().unwrap_or_default();
    let named = || known.clusters.iter().filter(|cluster| cluster.name == text("name")).count();
    let server = text("server").trim_end_matches('/');
    match (text("name"), server) {
        ("", "") => Some("spec.destination: needs a server or a name".to_owned()),
        ("", server) if known.clusters.iter().any(|cluster| cluster.server == server) => None,
        ("", server) => Some(format!("spec.destination.server: {server} is no known cluster")),
        (name, "") => match named() {
            1 => None,
            0 => Some(format!("spec.destination.name: there is no cluster named {name}")),
            count => Some(format!("spec.destination.name: {count} clusters are named {name}")),
        },
        (name, server) => Some(format!(
            "spec.destination: has both the name {name} and the server {server}; give one of them"
        )),
    }
}
