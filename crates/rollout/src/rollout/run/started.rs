//! What an Application carries of the run that started it, in an annotation that is written
//! with its operation.

use jiff::Timestamp;

use wavegate_api::HealthStatus;

/// A target: a generated spec with the revisions that it resolves to.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Target {
    /// The digest of the generated spec.
    pub spec: String,
    /// The revisions; empty when the sync resolved them.
    #[serde(default)]
    pub revisions: Vec<String>,
}

impl Target {
    /// Whether it is the same as a later one. Revisions that were not known count as the same.
    pub fn is(&self, spec: &str, revisions: &[String]) -> bool {
        self.spec == spec
            && (self.revisions.is_empty() || revisions.is_empty() || self.revisions == revisions)
    }
}

/// The start of an Application by a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The name of the run.
    pub run: String,
    /// The target of the Application, also when it goes back.
    pub target: Target,
    /// The promotion, by the clock of this controller.
    pub at: Timestamp,
    /// Its health before its first promotion in the run (ST-041).
    pub before: HealthStatus,
    /// The last good revisions, if it can go back to them by itself (ST-061).
    pub good: Vec<String>,
    /// The digest of its generated spec without its revisions.
    pub base: String,
    /// Whether this start takes it back to them.
    pub goes_back: bool,
}

impl Started {
    /// Whether this run has started it for this target.
    pub fn is_of(&self, run: &str, spec: Option<&str>, revisions: &[String]) -> bool {
        self.run == run && spec.is_some_and(|spec| self.target.is(spec, revisions))
    }
}
