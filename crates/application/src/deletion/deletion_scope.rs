//! What the deletion of an Application may delete (SE-512, SE-514).
//!
//! A deletion goes on whatever became of the spec, as long as its destination cluster is
//! known: it needs neither a valid source nor a project that still permits the spec. What
//! it deletes is limited by the project all the same, object by object.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::access::{self, ClusterFact, ProjectFact};
use wavegate_api::app_view::{ResourceView, SpecView};
use wavegate_api::{AppProjectSpec, ApplicationSpec, Raw, ResourceKey};

/// Which of the tracked objects may be deleted, besides the rules of the project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeletionScope {
    /// All of them.
    #[default]
    Tracked,
    /// Those of the last comparison: no project says what is permitted now, and what is
    /// listed was permitted then.
    Listed(BTreeSet<ResourceKey>),
}

impl DeletionScope {
    /// Whether an object is within it.
    pub fn contains(&self, key: &ResourceKey) -> bool {
        match self {
            Self::Tracked => true,
            Self::Listed(keys) => keys.contains(key),
        }
    }
}

/// Where a deletion takes place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletionPlace {
    /// Nowhere: no cluster can be told from the spec, so nothing can be deleted. The text
    /// is the reason.
    Nowhere(String),
    /// In the destination cluster.
    Cluster(DeletionScope),
}

/// The spec of an Application that is being deleted: of an invalid one, what a deletion
/// needs.
pub fn deletion_spec(application: &Value) -> ApplicationSpec {
    wavegate_api::read_typed::<ApplicationSpec>(application.spec()).unwrap_or_else(|_| {
        ApplicationSpec {
            destination: wavegate_api::read_typed(&SpecView::of(application).destination)
                .unwrap_or_default(),
            project: access::project_of(application).to_owned(),
            ..ApplicationSpec::default()
        }
    })
}

/// Where the deletion of an Application takes place.
///
/// # Errors
///
/// A message, when that is unknown: the project or the credentials of the cluster cannot
/// be read. Nothing is deleted, and nothing is given up, until they can.
pub fn deletion_place(
    application: &Value,
    applicant: &access::Applicant<'_>,
    project: ProjectFact<'_>,
    cluster: ClusterFact<'_>,
) -> Result<DeletionPlace, String> {
    let destination = &applicant.spec.destination;
    if !destination.server.is_empty() && !destination.name.is_empty() {
        return Ok(DeletionPlace::Nowhere(format!(
            "application destination can't have both name and server defined: {} {}",
            destination.name, destination.server
        )));
    }
    match cluster {
        ClusterFact::Unknown(error) => return Ok(DeletionPlace::Nowhere(error.to_owned())),
        ClusterFact::Unusable(error) => return Err(error.to_owned()),
        ClusterFact::Known { .. } => {}
    }
    let name = access::project_name(applicant.spec);
    Ok(DeletionPlace::Cluster(match project {
        ProjectFact::Unreadable(reason) => {
            return Err(format!("project {name} cannot be read: {reason}"));
        }
        ProjectFact::Known { spec, .. } if access::may_use(applicant, spec) => {
            DeletionScope::Tracked
        }
        // It does not exist, or is not for this Application.
        ProjectFact::Known { .. } | ProjectFact::Missing => {
            DeletionScope::Listed(listed(application))
        }
    }))
}

/// Permissions that deny nothing: without a project, the scope is the limit.
pub fn without_project() -> AppProjectSpec {
    use wavegate_api::app_project::{ProjectDestination, ResourcePattern};
    let any = || "*".to_owned();
    let destination =
        ProjectDestination { server: any(), namespace: any(), ..ProjectDestination::default() };
    let kind = ResourcePattern { group: any(), kind: any(), ..ResourcePattern::default() };
    AppProjectSpec {
        destinations: vec![destination],
        cluster_resource_whitelist: vec![kind],
        ..AppProjectSpec::default()
    }
}

/// The objects of the last comparison: without those that were not permitted, whose state
/// is Unknown (SE-146).
fn listed(application: &Value) -> BTreeSet<ResourceKey> {
    let rows = ResourceView::rows(application).filter(|row| row.status != "Unknown");
    rows.map(|row| row.key()).collect()
}
