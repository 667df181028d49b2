//! Settings of the application controller.

use std::time::Duration;

use jiff::SignedDuration;

use super::Namespaces;
use crate::api::annotations::DEFAULT_INSTANCE_LABEL;
use crate::api::tracking::TrackingMethod;
use crate::decide::app_state::auto_sync::SelfHeal;
use crate::decide::app_state::{operate, reconcile};
use crate::decide::diff::DEFAULT_MANAGER;
use crate::decide::sync;
use crate::source::{DEFAULT_MAX_MEMORY, RenderOptions};

/// How the controller works. `Default` is what an installation starts with.
#[derive(Clone, Debug)]
pub struct ApplicationSettings {
    /// Namespaces besides the control plane's own whose Applications are
    /// handled (SE-004).
    pub namespaces: Namespaces,
    /// Namespace of projects, clusters and the controller itself.
    pub control_plane_namespace: String,
    /// Pause between two waves; `ARGOCD_SYNC_WAVE_DELAY` (SE-560).
    pub wave_delay: Duration,
    /// After this time a revision is looked up again even if nothing
    /// happened; zero switches it off (SE-378).
    pub reconciliation_timeout: Duration,
    /// Up to this much later, each Application at its own time.
    pub reconciliation_jitter: Duration,
    /// After this time manifests are rendered anew; zero switches it off.
    pub hard_reconciliation_timeout: Duration,
    /// For how long a repository that cannot be reached changes no status
    /// (SE-107).
    pub repo_error_grace: Duration,
    /// How objects are told apart by Application (SE-110).
    pub tracking_method: TrackingMethod,
    /// Label of the methods that use one (SE-112).
    pub instance_label: String,
    /// `installationID`; empty when unset (SE-113).
    pub installation_id: String,
    /// Applications that are worked on at the same time (SE-565).
    pub parallel: usize,
    /// Writes of one operation at the same time (SE-566).
    pub parallel_applies: usize,
    /// Owner of the fields that are applied (SE-342).
    pub field_manager: String,
    /// Whether sources may be directories of this machine. For the demo; the
    /// repositories must allow it too.
    pub allow_local: bool,
    /// Whether the health of each resource is kept in the status (SE-571).
    pub resource_health: bool,
    /// Whether operations without options take those of the spec (SE-304).
    pub inherit_sync_options: bool,
    /// Whether the first dry run asks the server about objects that are applied
    /// on its side. All others are checked here, by the schemas of the server
    /// (SE-250).
    pub server_dry_run: bool,
    /// Nothing is written, and the log says what would be (AS-161).
    pub dry_run: bool,
    /// Whether Kubernetes Events are written (SE-540).
    pub events: bool,
    /// Pauses between attempts of self-heal (SE-426).
    pub self_heal: SelfHeal,
    /// Bytes of memory that the manifests of one Application may take.
    pub manifest_memory: u64,
    /// Bytes of memory that the kept manifests of all Applications may take;
    /// what is over is rendered again when it is needed.
    pub kept_manifest_memory: u64,
    /// How sources are rendered.
    pub render: RenderOptions,
    /// The wave engine; its pause between waves is [`Self::wave_delay`].
    pub sync: sync::Settings,
}

impl Default for ApplicationSettings {
    fn default() -> Self {
        Self {
            namespaces: Namespaces::default(),
            control_plane_namespace: "argocd".to_owned(),
            wave_delay: Duration::from_secs(2),
            reconciliation_timeout: Duration::from_secs(120),
            reconciliation_jitter: Duration::from_secs(60),
            hard_reconciliation_timeout: Duration::ZERO,
            repo_error_grace: Duration::from_secs(180),
            tracking_method: TrackingMethod::Annotation,
            instance_label: DEFAULT_INSTANCE_LABEL.to_owned(),
            installation_id: String::new(),
            parallel: 20,
            parallel_applies: 20,
            field_manager: DEFAULT_MANAGER.to_owned(),
            allow_local: false,
            resource_health: true,
            inherit_sync_options: false,
            server_dry_run: true,
            dry_run: false,
            events: true,
            self_heal: SelfHeal::default(),
            manifest_memory: DEFAULT_MAX_MEMORY,
            kept_manifest_memory: 1 << 30,
            render: RenderOptions::default(),
            sync: sync::Settings::default(),
        }
    }
}

impl ApplicationSettings {
    /// Those of comparisons.
    pub fn comparison(&self) -> reconcile::Settings {
        reconcile::Settings {
            self_heal: self.self_heal,
            resource_health: self.resource_health,
            repo_error_grace: self.repo_error_grace,
        }
    }

    /// Those of operations.
    pub fn operation(&self) -> operate::Settings {
        let wave_delay = SignedDuration::try_from(self.wave_delay).unwrap_or_default();
        operate::Settings {
            sync: sync::Settings { wave_delay, ..self.sync.clone() },
            inherit_sync_options: self.inherit_sync_options,
        }
    }
}
