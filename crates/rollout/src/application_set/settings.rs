//! The settings that decisions about sets depend on.

use crate::application_set::generate::policy::Policy;
use crate::rollout::RolloutSettings;
use crate::rollout::listed::ENTRIES_BYTES;
use wavegate_engine::diff::Jq;

/// The settings of ApplicationSets, from flags.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionSettings {
    /// Whether progressive syncs are enabled (AS-301).
    pub progressive_syncs: bool,
    /// The state machine's settings.
    pub rollout: RolloutSettings,
    /// The policy of the controller: which writes are allowed.
    pub policy: Policy,
    /// Whether a set may choose its own policy (AS-502).
    pub policy_override: bool,
    /// Annotations that are preserved on all Applications.
    pub preserved_annotations: Vec<String>,
    /// Labels that are preserved on all Applications.
    pub preserved_labels: Vec<String>,
    /// The most resources that a status lists; 0 means as many as fit.
    pub max_resources: usize,
    /// Whether sync windows treat a sync of a rollout as manual (AS-366). It depends on the
    /// controller that syncs; that of Argo CD does not.
    pub manual_windows: bool,
    /// The size limits of a status.
    pub size_limits: SizeLimits,
    /// Whether emptied generators hold deletions ([`emptied`](crate::application_set::deletion::deletion_guard)).
    pub hold_deletions: bool,
    /// Evaluates jq expressions of ignore rules.
    pub jq: Jq,
}

impl Default for DecisionSettings {
    fn default() -> Self {
        Self {
            progressive_syncs: false,
            rollout: RolloutSettings::default(),
            policy: Policy::Sync,
            policy_override: true,
            preserved_annotations: Vec::new(),
            preserved_labels: Vec::new(),
            max_resources: 5000,
            manual_windows: true,
            size_limits: SizeLimits::default(),
            hold_deletions: true,
            jq: Jq::default(),
        }
    }
}

/// The most bytes of the lists of a status. All other fields are bounded to
/// less than 96 KiB in total, so that the status stays below 512 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimits {
    /// `status.applicationStatus`.
    pub entries: usize,
    /// `status.resources`.
    pub resources: usize,
}

impl Default for SizeLimits {
    fn default() -> Self {
        Self { entries: ENTRIES_BYTES, resources: 160 << 10 }
    }
}
