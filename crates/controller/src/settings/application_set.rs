//! Settings of the ApplicationSet controller.

use std::sync::Arc;
use std::time::Duration;

use super::namespaces::{CONTROL_PLANE_NAMESPACE, Namespaces};
use wavegate_application::global_projects::GlobalProjects;
use wavegate_providers::ProviderSettings;
use wavegate_rollout::application_set;
use wavegate_rollout::desired::generators::path_pattern::Globbing;
use wavegate_rollout::desired::inputs::{Inputs, REQUEUE_AFTER};

/// Settings of the ApplicationSet controller (AS-500 to AS-505).
#[derive(Clone, Debug, PartialEq)]
pub struct ApplicationSetSettings {
    /// The namespace of projects and cluster Secrets.
    pub control_plane_namespace: String,
    /// Additional namespaces to watch (AS-400).
    pub namespaces: Namespaces,
    /// What decisions depend on.
    pub decisions: application_set::DecisionSettings,
    /// Whether this process syncs the Applications: what it starts has begun with its request.
    pub begins_operations: bool,
    /// Nothing is written; intended changes are logged (AS-161).
    pub dry_run: bool,
    /// ApplicationSets that are reconciled in parallel.
    pub concurrent_reconciliations: u16,
    /// Applications of one ApplicationSet that are written in parallel.
    pub concurrent_application_updates: usize,
    /// How the patterns of git generators are read (AS-096).
    pub git_file_globbing: Globbing,
    /// Whether git generators list directories whose names start with a dot (AS-092).
    pub hidden_directories: bool,
    /// Whether git generators read the submodules of repositories (AS-501).
    pub git_submodules: bool,
    /// Interval at which repositories are read again (AS-503).
    pub requeue_after: Duration,
    /// Settings of generators that ask services.
    pub providers: ProviderSettings,
    /// Labels of ApplicationSets that a metric shows (AS-602).
    pub metrics_labels: Vec<String>,
    /// Webhook events that are processed in parallel (AS-421).
    pub webhook_parallelism: usize,
    /// Notifications may be sent to private addresses, and to them without encryption (ST-084).
    pub allow_private_sinks: bool,
    /// Projects whose sync windows others inherit.
    pub global_projects: Arc<GlobalProjects>,
    /// RolloutRuns that are kept for each ApplicationSet (ST-005).
    pub rollout_history_limit: u32,
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
            hidden_directories: self.hidden_directories,
            requeue_after: self.requeue_after,
            providers: self.providers.rules.clone(),
            ..Inputs::default()
        }
    }
}

impl Default for ApplicationSetSettings {
    fn default() -> Self {
        Self {
            control_plane_namespace: CONTROL_PLANE_NAMESPACE.to_owned(),
            namespaces: Namespaces::default(),
            decisions: application_set::DecisionSettings {
                jq: crate::evaluator::limited_jq(crate::evaluator::JQ_TIME),
                ..application_set::DecisionSettings::default()
            },
            begins_operations: false,
            dry_run: false,
            concurrent_reconciliations: 10,
            concurrent_application_updates: 1,
            git_file_globbing: Globbing::default(),
            hidden_directories: false,
            git_submodules: true,
            requeue_after: REQUEUE_AFTER,
            providers: ProviderSettings::default(),
            metrics_labels: Vec::new(),
            webhook_parallelism: 50,
            allow_private_sinks: false,
            global_projects: Arc::default(),
            rollout_history_limit: 10,
        }
    }
}
