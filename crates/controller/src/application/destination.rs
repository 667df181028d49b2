//! The destination of an Application and its permissions there, before anything is read.

use std::sync::Arc;

use http::HeaderValue;

use super::acting::{Acting, writing_client};
use super::projects::Project;
use super::reconciliation::Reconciliation;
use wavegate_api::{ApplicationSpec, Raw};
use wavegate_application::access::{self, Access, Applicant, ClusterFact, ProjectFact, Refusal};
use wavegate_application::deletion_scope::{self, DeletionPlace, DeletionScope};
use wavegate_application::errors::ObserveError;
use wavegate_application::{NewCondition, impersonation, unsupported};
use wavegate_cluster::watch::cluster_cache;
use wavegate_cluster::watch::clusters::{self, ConnectedCluster};

/// The destination of an Application, and its project.
#[derive(Clone, Debug)]
pub struct ResolvedDestination {
    /// Name of the Application.
    pub application: String,
    /// The typed spec.
    pub spec: ApplicationSpec,
    /// Cluster state.
    pub destination: ConnectedCluster,
    /// The project.
    pub project: Arc<Project>,
    /// Who writes there.
    pub acting: Acting,
}

impl ResolvedDestination {
    /// The permissions of the Application at its destination.
    pub fn access(&self) -> Access<'_> {
        Access {
            application: &self.application,
            spec: &self.spec,
            project: &self.project.spec,
            project_name: access::project_name(&self.spec),
            windows: &self.project.windows,
            server: &self.destination.server,
            cluster: &self.destination.name,
            scope: &self.destination.scope,
        }
    }
}

impl ResolvedDestination {
    /// The client that sends the writes.
    ///
    /// # Errors
    ///
    /// When the user is not known.
    pub fn client(&self) -> Result<kube::Client, String> {
        writing_client(&self.destination.cluster, &self.acting)
    }
}

fn refused(message: String) -> ObserveError {
    let conditions = vec![NewCondition::invalid_spec(message)];
    ObserveError::Refused(Refusal::of(conditions))
}

pub(super) fn of_cluster(error: cluster_cache::Error) -> ObserveError {
    match error {
        cluster_cache::Error::Ended { .. } => ObserveError::Ended(error.to_string()),
        _ => ObserveError::Live(error.to_string()),
    }
}

impl Reconciliation<'_> {
    /// The destination of the Application and its permissions there (SE-031).
    pub(super) async fn destination(&self) -> Result<ResolvedDestination, ObserveError> {
        let (ctx, key) = (self.ctx, self.key);
        if let Some(setting) = ctx.settings.unreadable.first() {
            return Err(refused(setting.clone()));
        }
        let spec = wavegate_api::read_typed::<ApplicationSpec>(self.app.raw().spec());
        let spec = spec.map_err(|error| refused(format!("spec.{error}")))?;
        let known = ctx.projects.get(access::project_name(&spec));
        let project = project_fact(known.as_ref());
        // Its credentials may come from a program.
        let resolved = ctx.lend_slot(Box::pin(ctx.clusters.resolve(&spec.destination))).await;
        let problem = resolved.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let cluster = cluster_fact(&resolved, &problem);
        let applicant = Applicant {
            namespace: &key.namespace,
            name: &key.name,
            spec: &spec,
            control_plane_namespace: &ctx.settings.control_plane_namespace,
        };
        access::check(&applicant, project, cluster).map_err(ObserveError::Refused)?;
        match (known, resolved) {
            (Some(Ok(project)), Ok(destination)) => {
                let application = key.name.clone();
                let acting = self.acting(&spec, &destination, &project);
                Ok(ResolvedDestination { application, spec, destination, project, acting })
            }
            // Both cases were rejected above.
            _ => Err(refused(problem)),
        }
    }

    /// The user that writes to its objects are sent as, if they are not sent with the credentials
    /// of the cluster (SE-079).
    fn acting(
        &self,
        spec: &ApplicationSpec,
        destination: &ConnectedCluster,
        project: &Project,
    ) -> Acting {
        if !self.ctx.settings.impersonation {
            return Ok(None);
        }
        let place = impersonation::Destination {
            server: &destination.server,
            namespace: &spec.destination.namespace,
            application_namespace: &self.key.namespace,
        };
        let enforced = self.ctx.settings.impersonation_enforced;
        let user = impersonation::sync_user(&project.spec, place, enforced)?;
        let header = user.map(HeaderValue::try_from).transpose();
        header.map_err(|error| error.to_string())
    }

    /// Refuses what reads the sources of an Application whose project has guards that cannot
    /// be enforced (SE-080). A deletion without hooks reads none, and goes on.
    pub(super) fn guarded(&self, destination: &ResolvedDestination) -> Result<(), ObserveError> {
        let name = access::project_name(&destination.spec);
        let conditions = unsupported::guard_refusals(
            name,
            &destination.project.spec,
            destination.project.lost.as_deref(),
        );
        if conditions.is_empty() {
            return Ok(());
        }
        Err(ObserveError::Refused(Refusal::of(conditions)))
    }

    /// The destination of a deletion, whatever became of the spec (SE-512).
    pub(super) async fn destination_for_deletion(
        &self,
    ) -> Result<(Option<ResolvedDestination>, DeletionPlace), ObserveError> {
        let (ctx, key) = (self.ctx, self.key);
        // What they protect must not be deleted, either.
        if let Some(setting) = ctx.settings.unreadable.first() {
            return Err(refused(setting.clone()));
        }
        let spec = deletion_scope::deletion_spec(self.app.raw());
        let known = ctx.projects.get(access::project_name(&spec));
        // Its credentials may come from a program.
        let resolved = ctx.lend_slot(Box::pin(ctx.clusters.resolve(&spec.destination))).await;
        let problem = resolved.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let applicant = Applicant {
            namespace: &key.namespace,
            name: &key.name,
            spec: &spec,
            control_plane_namespace: &ctx.settings.control_plane_namespace,
        };
        let place = deletion_scope::deletion_place(
            self.app.raw(),
            &applicant,
            project_fact(known.as_ref()),
            cluster_fact(&resolved, &problem),
        );
        let place = place.map_err(ObserveError::Operation)?;
        let permitting = known
            .and_then(Result::ok)
            .filter(|_| place == DeletionPlace::Cluster(DeletionScope::Tracked));
        let acting = resolved.as_ref().ok().map(|destination| match &permitting {
            Some(project) => self.acting(&spec, destination, project),
            None if ctx.settings.impersonation => {
                Err(impersonation::without_project(access::project_name(&spec)))
            }
            None => Ok(None),
        });
        let project = permitting.unwrap_or_else(|| {
            let spec = deletion_scope::without_project();
            Arc::new(Project {
                spec: spec.into(),
                windows: Vec::new(),
                problems: Vec::new(),
                lost: None,
            })
        });
        let application = key.name.clone();
        let destination = resolved.ok().zip(acting);
        let destination = destination.map(|(destination, acting)| ResolvedDestination {
            application,
            spec,
            destination,
            project,
            acting,
        });
        Ok((destination, place))
    }
}

fn project_fact(known: Option<&Result<Arc<Project>, String>>) -> ProjectFact<'_> {
    match known {
        None => ProjectFact::Missing,
        Some(Err(reason)) => ProjectFact::Unreadable(reason),
        Some(Ok(project)) => {
            ProjectFact::Known { spec: &project.spec, problems: &project.problems }
        }
    }
}

fn cluster_fact<'a>(
    resolved: &'a Result<ConnectedCluster, clusters::Error>,
    problem: &'a str,
) -> ClusterFact<'a> {
    match resolved {
        Ok(found) => {
            ClusterFact::Known { server: &found.server, name: &found.name, project: &found.project }
        }
        Err(clusters::Error::Unknown { .. }) => ClusterFact::Unknown(problem),
        // A deletion waits until it is known which cluster is meant.
        Err(
            clusters::Error::Secret { .. }
            | clusters::Error::Ambiguous { .. }
            | clusters::Error::Disabled,
        ) => ClusterFact::Unusable(problem),
    }
}
