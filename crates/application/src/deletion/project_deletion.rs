//! Deletion of a project: its finalizer is removed when no Application refers to it
//! (SE-083). Without the project its Applications could not be deleted.

use serde_json::Value;

use crate::access;
use crate::project::permits_application;
use wavegate_api::annotations::{RESOURCES_FINALIZER, finalizers_of};
use wavegate_api::{AppProject, AppProjectSpec, ObjectKey, Raw, read_typed};
use wavegate_engine::names::some_of;

/// Maximum number of Applications named in a message.
const NAMED: usize = 5;

/// Whether a project is being deleted and has our finalizer.
pub fn is_terminating(project: &Value) -> bool {
    project.is_deleting() && finalizers_of(project).any(|own| own == RESOURCES_FINALIZER)
}

/// Where the Applications may be that a deletion waits for.
#[derive(Clone, Debug)]
pub struct Users<'a> {
    project: &'a str,
    /// `None` if it cannot be read: then all namespaces count.
    spec: Option<AppProjectSpec>,
    control_plane_namespace: &'a str,
}

impl<'a> Users<'a> {
    /// Those of a project.
    pub fn of(project: &'a Value, control_plane_namespace: &'a str) -> Self {
        let spec = read_typed::<AppProject>(project).ok().map(|project| project.spec);
        Self { project: project.name(), spec, control_plane_namespace }
    }

    /// Whether they may be outside the namespace of the control plane.
    pub fn are_elsewhere(&self) -> bool {
        self.spec.as_ref().is_none_or(|spec| !spec.source_namespaces.is_empty())
    }

    /// Whether an Application is one of them: this controller handles it (`is_handled`), or
    /// the project permits it.
    pub fn contain(&self, application: &Value, is_handled: bool) -> bool {
        let namespace = application.namespace();
        let permits = |spec| permits_application(spec, namespace, self.control_plane_namespace);
        access::project_of(application) == self.project
            && (is_handled || self.spec.as_ref().is_none_or(permits))
    }
}

/// The next step of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProjectStep {
    /// Remove the finalizer.
    Release,
    /// Only report this.
    Report(String),
}

/// Decides from the Applications that refer to the project.
pub fn project_step(mut users: Vec<ObjectKey>, dry_run: bool) -> ProjectStep {
    if users.is_empty() {
        let would = "would be deleted, since no Application refers to it".to_owned();
        return if dry_run { ProjectStep::Report(would) } else { ProjectStep::Release };
    }
    users.sort();
    let named = some_of(users, NAMED);
    ProjectStep::Report(format!("is not deleted while applications refer to it: {named}"))
}

/// The report of a failed step.
pub fn step_failure(error: &str) -> String {
    format!("cannot be deleted yet: {error}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_project_is_released_when_no_application_refers_to_it() {
        let keys = |names: &[&str]| names.iter().map(|name| ObjectKey::new("ns", name)).collect();
        let report = |text: &str| ProjectStep::Report(text.to_owned());
        let waits = "is not deleted while applications refer to it:";
        let cases = [
            (keys(&[]), false, ProjectStep::Release),
            (keys(&[]), true, report("would be deleted, since no Application refers to it")),
            (keys(&["b", "a"]), false, report(&format!("{waits} ns/a, ns/b"))),
            (
                keys(&["f", "e", "d", "c", "b", "a"]),
                true,
                report(&format!("{waits} ns/a, ns/b, ns/c, ns/d, ns/e and 1 more")),
            ),
        ];
        for (users, dry_run, want) in cases {
            assert_eq!(project_step(users, dry_run), want);
        }
    }

    #[test]
    fn applications_count_that_are_handled_or_permitted() {
        let project = |spec: Value| json!({"metadata": {"name": "p"}, "spec": spec});
        let app = |project: &str, namespace: &str| json!({"metadata": {"namespace": namespace}, "spec": {"project": project}});
        let cases = [
            ("in the control plane", json!({}), app("p", "argocd"), false, (false, true)),
            ("of another project", json!({}), app("q", "argocd"), true, (false, false)),
            ("not permitted", json!({}), app("p", "team"), false, (false, false)),
            ("handled", json!({}), app("p", "team"), true, (false, true)),
            (
                "permitted",
                json!({"sourceNamespaces": ["t*"]}),
                app("p", "team"),
                false,
                (true, true),
            ),
            ("of an unreadable project", json!(7), app("p", "team"), false, (true, true)),
        ];
        for (name, spec, application, is_handled, want) in cases {
            let project = project(spec);
            let users = Users::of(&project, "argocd");
            assert_eq!(
                (users.are_elsewhere(), users.contain(&application, is_handled)),
                want,
                "{name}"
            );
        }
    }
}
