//! Validation of what an Application may do: whether its spec is complete, its
//! project permits it, and the sources and destinations it may use (SE-012,
//! SE-031, SE-070, SE-071, SE-077). Comparisons, operations, deletions and dry
//! runs all use this module.

use jiff::Timestamp;
use serde_json::Value;

use crate::condition::NewCondition;
use crate::project::{self, Permits};
use crate::{operation, spec};
use wavegate_api::cluster::ClusterScope;
use wavegate_api::conditions::application::UNKNOWN_ERROR;
use wavegate_api::operation::OperationState;
use wavegate_api::{AppProjectSpec, ApplicationSpec, Raw};
use wavegate_engine::windows::{self, Evaluation, Window};

/// The state of the project that a spec names.
#[derive(Clone, Copy, Debug)]
pub enum ProjectFact<'a> {
    /// It does not exist.
    Missing,
    /// It cannot be read, for this reason.
    Unreadable(&'a str),
    /// It exists.
    Known {
        /// Its permissions.
        spec: &'a AppProjectSpec,
        /// Its configuration errors.
        problems: &'a [String],
    },
}

/// The state of the cluster that a spec names.
#[derive(Clone, Copy, Debug)]
pub enum ClusterFact<'a> {
    /// It does not exist.
    Unknown(&'a str),
    /// It cannot be used, for this reason.
    Unusable(&'a str),
    /// It exists.
    Known {
        /// Its URL.
        server: &'a str,
        /// Its name.
        name: &'a str,
        /// The only project that may use it; empty for all.
        project: &'a str,
    },
}

/// The Application, as input of a validation.
#[derive(Clone, Copy, Debug)]
pub struct Applicant<'a> {
    /// Namespace of the Application.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its spec.
    pub spec: &'a ApplicationSpec,
    /// Namespace of the controller.
    pub control_plane_namespace: &'a str,
}

/// Why an Application must not be reconciled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The conditions for its status.
    pub conditions: Vec<NewCondition>,
    /// What could not be found for it; [`Lacking::Nothing`] when it is refused for another
    /// reason.
    pub lacking: Lacking,
}

impl Refusal {
    /// A refusal for what the spec or the project says.
    pub fn of(conditions: Vec<NewCondition>) -> Self {
        Self { conditions, lacking: Lacking::Nothing }
    }
}

/// What an Application refers to and is not there, or cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lacking {
    /// Everything is there.
    #[default]
    Nothing,
    /// The project.
    Project,
    /// The destination cluster.
    Cluster,
}

impl Lacking {
    /// The words before the reason, in the message of an operation (SE-373).
    pub fn words(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Project => "Failed to load application project: ",
            Self::Cluster => "Failed to get destination cluster: ",
        }
    }
}

/// Name of the project that a spec refers to.
pub fn project_name(spec: &ApplicationSpec) -> &str {
    or_default(&spec.project)
}

/// Name of the project that a raw Application refers to.
pub fn project_of(application: &Value) -> &str {
    or_default(application.text("/spec/project"))
}

/// The name of a project as written; `default` for an empty one.
pub fn or_default(project: &str) -> &str {
    if project.is_empty() { "default" } else { project }
}

/// Whether an Application may be compared, synced and deleted with its
/// destination.
///
/// # Errors
///
/// [`Refusal`] when it may not.
pub fn check(
    applicant: &Applicant<'_>,
    project: ProjectFact<'_>,
    cluster: ClusterFact<'_>,
) -> Result<(), Refusal> {
    let refusal = refusals(applicant, project, cluster);
    if refusal.conditions.is_empty() { Ok(()) } else { Err(refusal) }
}

/// Whether an Application may use a project, by its namespace (SE-004).
pub fn may_use(applicant: &Applicant<'_>, project: &AppProjectSpec) -> bool {
    project::permits_application(project, applicant.namespace, applicant.control_plane_namespace)
}

fn refusals(
    applicant: &Applicant<'_>,
    project: ProjectFact<'_>,
    cluster: ClusterFact<'_>,
) -> Refusal {
    let Applicant { namespace, name, spec, .. } = *applicant;
    let own = spec::spec_problems(spec);
    if !own.is_empty() {
        return Refusal::of(own);
    }
    let lacks = |lacking, message: String| Refusal {
        conditions: vec![NewCondition::invalid_spec(message)],
        lacking,
    };
    let project_name = project_name(spec);
    let (project, problems) = match project {
        ProjectFact::Known { spec, problems } => (spec, problems),
        ProjectFact::Unreadable(reason) => {
            let message = format!("project {project_name} cannot be read: {reason}");
            return lacks(Lacking::Project, message);
        }
        ProjectFact::Missing => {
            let message =
                format!("Application referencing project {project_name} which does not exist");
            return lacks(Lacking::Project, message);
        }
    };
    let with_warnings = |mut refusals: Vec<NewCondition>| {
        let warnings = problems.iter().map(|p| NewCondition::invalid_project(project_name, p));
        refusals.extend(warnings);
        refusals
    };
    if !may_use(applicant, project) {
        let message = format!(
            "application '{name}' in namespace '{namespace}' is not permitted to use project \
             '{project_name}': spec.sourceNamespaces does not permit its namespace; add \
             {namespace}, or remove the entry with ! that denies it"
        );
        return Refusal::of(with_warnings(vec![NewCondition::new(UNKNOWN_ERROR, message)]));
    }
    let (server, cluster, reserved_for) = match cluster {
        ClusterFact::Known { server, name, project } => (server, name, project),
        ClusterFact::Unknown(error) | ClusterFact::Unusable(error) => {
            let field = if spec.destination.name.is_empty() { "server" } else { "name" };
            return lacks(Lacking::Cluster, format!("spec.destination.{field}: {error}"));
        }
    };
    let mut denials = project::denials(spec, project_name, project, server, cluster);
    if project.permit_only_project_scoped_clusters && reserved_for != project_name {
        denials.push(NewCondition::invalid_spec(format!(
            "cluster '{cluster}' is not reserved for project '{project_name}', which permits only \
             such clusters"
        )));
    }
    Refusal::of(if denials.is_empty() { denials } else { with_warnings(denials) })
}

/// The validated environment of an Application.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// Its name.
    pub application: &'a str,
    /// Its spec.
    pub spec: &'a ApplicationSpec,
    /// Its project.
    pub project: &'a AppProjectSpec,
    /// Name of the project.
    pub project_name: &'a str,
    /// The sync windows of the project.
    pub windows: &'a [Window],
    /// URL of the destination cluster.
    pub server: &'a str,
    /// Its name.
    pub cluster: &'a str,
    /// What its Secret permits to manage.
    pub scope: &'a ClusterScope,
}

impl<'a> Access<'a> {
    /// The permissions in the destination cluster.
    pub fn permits(&self) -> Permits<'a> {
        Permits { project: self.project, server: self.server, cluster: self.cluster }
    }

    /// Errors of sources that an operation names instead of those of the spec,
    /// as a rollback does.
    pub fn denied_source(&self, sources: &[Value]) -> Option<NewCondition> {
        let urls = sources.iter().map(|source| source.field("repoURL"));
        let denied = |url| project::denied_source(url, self.project_name, self.project);
        urls.filter_map(denied).next()
    }

    /// The error of a repository that a chart depends on.
    pub fn denied_dependency(&self, url: &str) -> Option<NewCondition> {
        project::denied_dependency(url, self.project_name, self.project)
    }

    /// Whether sync windows allow an operation to run (SE-406); for an
    /// automated sync that is not running yet, without its state.
    pub fn window(&self, state: Option<&OperationState>, now: Timestamp) -> Evaluation {
        let who = state.map(|state| state.operation.initiated_by.clone().unwrap_or_default());
        let username = who.as_ref().map_or("", |who| who.username.as_str());
        let automated = who.as_ref().is_none_or(|who| who.automated);
        let started_at = state.and_then(operation::started);
        let attempt = windows::SyncAttempt {
            application: self.application,
            server: self.server,
            cluster: self.cluster,
            namespace: &self.spec.destination.namespace,
            manual: windows::is_manual(username, automated),
            started_at,
        };
        windows::evaluate(self.windows, &attempt, now)
    }
}
