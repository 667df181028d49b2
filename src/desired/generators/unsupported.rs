//! Generators that are not supported (AS-098): their use is an error, never an empty
//! result, which would delete the Applications.

use serde_json::Value;

use super::element::{Element, Failure};
use super::scope::{Generator, Scope};

/// A generator that is known but not supported.
pub struct Unsupported(&'static str);

/// Repositories of an organization.
pub static SCM_PROVIDER: Unsupported = Unsupported("scmProvider");
/// Decisions of a cluster-placement resource.
pub static CLUSTER_DECISION_RESOURCE: Unsupported = Unsupported("clusterDecisionResource");
/// Pull requests of a repository.
pub static PULL_REQUEST: Unsupported = Unsupported("pullRequest");
/// An external service.
pub static PLUGIN: Unsupported = Unsupported("plugin");

impl Generator for Unsupported {
    fn key(&self) -> &'static str {
        self.0
    }

    fn fields(&self) -> &'static [&'static str] {
        &[]
    }

    fn declare<'a>(&self, _: &'a Value, _: &mut Scope<'_, '_>) -> Result<&'a [Value], Failure> {
        Err(self.failure())
    }

    fn generate(&self, _: &Value, _: &mut Scope<'_, '_>) -> Result<Vec<Element>, Failure> {
        Err(self.failure())
    }
}

impl Unsupported {
    fn failure(&self) -> Failure {
        let cause = format!(
            "the {} generator is not supported, and no application is changed; use a list, \
             clusters, git, matrix or merge generator",
            self.0
        );
        Failure::new("", cause)
    }
}
