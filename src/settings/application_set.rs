//! Settings of the ApplicationSet controller.

use super::Namespaces;
use crate::decide::application_set::policy::Policy;
use crate::decide::application_set::{self, Room};
use crate::decide::rollout;

/// How the ApplicationSet controller is set up (AS-500 to AS-505).
#[derive(Clone, Debug)]
pub struct ApplicationSetSettings {
    /// The namespace of projects and cluster Secrets.
    pub control_plane_namespace: String,
    /// Which namespaces are watched besides (AS-400).
    pub namespaces: Namespaces,
    /// Whether progressive syncs are enabled (AS-301).
    pub progressive_syncs: bool,
    /// The state machine's settings.
    pub rollout: rollout::Settings,
    /// What sets may do to their Applications.
    pub policy: Policy,
    /// Whether a set may choose its own policy (AS-502).
    pub policy_override: bool,
    /// Nothing is written, and the log says what would be (AS-161).
    pub dry_run: bool,
    /// How many sets are reconciled at once.
    pub concurrent_reconciliations: u16,
    /// How many Applications of one set are written at once.
    pub concurrent_application_updates: usize,
    /// Annotations that are preserved on all Applications.
    pub preserved_annotations: Vec<String>,
    /// Labels that are preserved on all Applications.
    pub preserved_labels: Vec<String>,
    /// The most resources that a status lists; 0 means all.
    pub max_resources: usize,
    /// Whether sync windows take a sync of a rollout for one by hand (AS-366):
    /// who syncs decides that, and Argo CD's application controller does not.
    pub windows_by_hand: bool,
    /// What a status has room for.
    pub room: Room,
}

impl ApplicationSetSettings {
    /// What decisions need of them.
    pub fn rules(&self) -> application_set::Settings {
        application_set::Settings {
            progressive_syncs: self.progressive_syncs,
            rollout: self.rollout,
            policy: self.policy,
            policy_override: self.policy_override,
            preserved_annotations: self.preserved_annotations.clone(),
            preserved_labels: self.preserved_labels.clone(),
            max_resources: self.max_resources,
            windows_by_hand: self.windows_by_hand,
            room: self.room,
        }
    }
}

impl Default for ApplicationSetSettings {
    fn default() -> Self {
        Self {
            control_plane_namespace: "argocd".to_owned(),
            namespaces: Namespaces::default(),
            progressive_syncs: false,
            rollout: rollout::Settings::default(),
            policy: Policy::Sync,
            policy_override: true,
            dry_run: false,
            concurrent_reconciliations: 10,
            concurrent_application_updates: 1,
            preserved_annotations: Vec::new(),
            preserved_labels: Vec::new(),
            max_resources: 5000,
            windows_by_hand: true,
            room: Room::default(),
        }
    }
}
