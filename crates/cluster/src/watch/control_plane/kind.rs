//! The kinds of the control plane.

use k8s_openapi::api::core::v1::Secret;
use kube::api::ApiResource;

use crate::watch::object::kind_resource;
use wavegate_api::{policy, run};

/// The kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// ApplicationSets.
    ApplicationSet,
    /// Applications.
    Application,
    /// AppProjects.
    Project,
    /// Secrets of clusters and repositories.
    Secret,
    /// RolloutPolicies, which are optional.
    Policy,
    /// RolloutRuns, which are optional.
    Run,
}

impl Kind {
    /// Their names in messages.
    pub fn plural(self) -> &'static str {
        match self {
            Self::ApplicationSet => "ApplicationSets",
            Self::Application => "Applications",
            Self::Project => "AppProjects",
            Self::Secret => "Secrets",
            Self::Policy => "RolloutPolicies",
            Self::Run => "RolloutRuns",
        }
    }

    pub(super) fn resource(self) -> ApiResource {
        match self {
            Self::ApplicationSet => kind_resource("ApplicationSet"),
            Self::Application => kind_resource("Application"),
            Self::Project => kind_resource("AppProject"),
            Self::Secret => ApiResource::erase::<Secret>(&()),
            Self::Policy => kind_resource(policy::POLICY),
            Self::Run => kind_resource(run::RUN),
        }
    }

    /// Whether everything works without it.
    pub(super) const fn is_optional(self) -> bool {
        matches!(self, Self::Policy | Self::Run)
    }
}
