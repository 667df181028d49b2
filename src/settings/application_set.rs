//! Settings of the ApplicationSet controller.

use std::time::Duration;

use super::{CONTROL_PLANE_NAMESPACE, Namespaces};
use crate::decide::application_set::policy::Policy;
use crate::decide::application_set::{self, SizeLimits};
use crate::decide::rollout;
use crate::desired::generators::path_pattern::Globbing;
use crate::desired::inputs::{Inputs, REQUEUE_AFTER};

/// Settings of the ApplicationSet controller (AS-500 to AS-505).
#[derive(Clone, Debug)]
pub struct ApplicationSetSettings {
    /// The namespace of projects and cluster Secrets.
    pub control_plane_namespace: String,
    /// Additional namespaces to watch (AS-400).
    pub namespaces: Namespaces,
    /// Whether progressive syncs are enabled (AS-301).
    pub progressive_syncs: bool,
    /// Settings of the rollout.
    pub rollout: rollout::RolloutSettings,
    /// Which changes ApplicationSets may make to their Applications.
    pub policy: Policy,
    /// Whether an ApplicationSet may choose its own policy (AS-502).
    pub policy_override: bool,
    /// Nothing is written; intended changes are logged (AS-161).
    pub dry_run: bool,
    /// ApplicationSets that are reconciled in parallel.
    pub concurrent_reconciliations: u16,
    /// Applications of one ApplicationSet that are written in parallel.
    pub concurrent_application_updates: usize,
    /// Annotations that are preserved on all Applications.
    pub preserved_annotations: Vec<String>,
    /// Labels that are preserved on all Applications.
    pub preserved_labels: Vec<String>,
    /// Maximum number of resources in a status; 0 means no limit.
    pub max_resources: usize,
    /// Whether sync windows treat the syncs of a rollout as manual (AS-366). It depends
    /// on the controller that syncs; that of Argo CD does not.
    pub manual_windows: bool,
    /// Size limits of a status.
    pub size_limits: SizeLimits,
    /// How the patterns of git generators are read (AS-096).
    pub git_file_globbing: Globbing,
    /// Interval at which repositories are read again (AS-503).
    pub requeue_after: Duration,
    /// Whether Applications of generators that find nothing any more are kept until a person
    /// approves their deletion.
    pub hold_deletions: bool,
    /// Labels of ApplicationSets that a metric shows (AS-602).
    pub metrics_labels: Vec<String>,
    /// Webhook events that are processed in parallel (AS-421).
    pub webhook_parallelism: usize,
}

impl ApplicationSetSettings {
    /// Whether the ApplicationSets of a namespace are watched (AS-400).
    pub fn covers(&self, namespace: &str) -> bool {
        namespace == self.control_plane_namespace || self.namespaces.matches(namespace)
    }

    /// The settings of generators; nothing is observed yet.
    pub fn inputs(&self) -> Inputs {
        Inputs {
            globbing: self.git_file_globbing,
            requeue_after: self.requeue_after,
            ..Inputs::default()
        }
    }

    /// The settings that decisions need.
    pub fn rules(&self) -> application_set::Settings {
        application_set::Settings {
            progressive_syncs: self.progressive_syncs,
            rollout: self.rollout,
            policy: self.policy,
            policy_override: self.policy_override,
            preserved_annotations: self.preserved_annotations.clone(),
            preserved_labels: self.preserved_labels.clone(),
            max_resources: self.max_resources,
            manual_windows: self.manual_windows,
            size_limits: self.size_limits,
            hold_deletions: self.hold_deletions,
        }
    }
}

impl Default for ApplicationSetSettings {
    fn default() -> Self {
        Self {
            control_plane_namespace: CONTROL_PLANE_NAMESPACE.to_owned(),
            namespaces: Namespaces::default(),
            progressive_syncs: false,
            rollout: rollout::RolloutSettings::default(),
            policy: Policy::Sync,
            policy_override: true,
            dry_run: false,
            concurrent_reconciliations: 10,
            concurrent_application_updates: 1,
            preserved_annotations: Vec::new(),
            preserved_labels: Vec::new(),
            max_resources: 5000,
            manual_windows: true,
            size_limits: SizeLimits::default(),
            git_file_globbing: Globbing::default(),
            requeue_after: REQUEUE_AFTER,
            hold_deletions: true,
            metrics_labels: Vec::new(),
            webhook_parallelism: 50,
        }
    }
}
