//! Settings of the application controller.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use super::namespaces::{CONTROL_PLANE_NAMESPACE, Namespaces};
use wavegate_api::annotations::DEFAULT_INSTANCE_LABEL;
use wavegate_api::resource_filter::ResourceFilter;
use wavegate_api::tracking::TrackingMethod;
use wavegate_application::argocd_cache::{ReaderSettings, RedisSettings};
use wavegate_application::auto_sync::SelfHeal;
use wavegate_application::global_projects::GlobalProjects;
use wavegate_application::operate::OperationSettings;
use wavegate_application::reconcile::ComparisonSettings;
use wavegate_application::unsupported::KindSetting;
use wavegate_engine::diff::{DEFAULT_MANAGER, SystemSettings};
use wavegate_engine::health::Checks;
use wavegate_engine::sync;
use wavegate_source::{ArtifactSettings, DEFAULT_MAX_MEMORY, RenderOptions};

/// Of so many checks of a revision that change nothing, one is written to the status.
const UNCHANGED: u32 = 4;

/// Settings of the controller. `Default` is the default of an installation.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplicationSettings {
    /// Additional namespaces whose Applications are handled (SE-004).
    pub namespaces: Namespaces,
    /// Namespace of projects, clusters and the controller itself.
    pub control_plane_namespace: String,
    /// Pause between two waves; `ARGOCD_SYNC_WAVE_DELAY` (SE-560).
    pub wave_delay: Duration,
    /// Interval at which revisions are resolved again without a trigger; zero disables it
    /// (SE-378).
    pub reconciliation_timeout: Duration,
    /// Maximum random delay that is added to the interval, per Application.
    pub reconciliation_jitter: Duration,
    /// Interval at which manifests are rendered again; zero disables it.
    pub hard_reconciliation_timeout: Duration,
    /// Grace period during which an unavailable repository does not change the status (SE-107).
    pub repo_error_grace: Duration,
    /// How resources are assigned to Applications (SE-110).
    pub tracking_method: TrackingMethod,
    /// Time limit of one jq expression on one object (SE-572).
    pub jq_timeout: Duration,
    /// Label of the tracking methods that use one (SE-112).
    pub instance_label: String,
    /// `installationID`; empty when unset (SE-113).
    pub installation_id: String,
    /// The kinds that are not managed (SE-120).
    pub resource_filter: ResourceFilter,
    /// Whether Applications may use the controller's own cluster.
    pub in_cluster_enabled: bool,
    /// Whether this process runs in a cluster, where the server of its own one has an address of
    /// its own.
    pub runs_in_cluster: bool,
    /// Whether syncs act as the service accounts of projects (SE-079).
    pub impersonation: bool,
    /// Whether a sync without a matching service account is refused. Otherwise it acts with the
    /// rights of the controller.
    pub impersonation_enforced: bool,
    /// Projects whose lists others inherit.
    pub global_projects: Arc<GlobalProjects>,
    /// How all Applications are compared (SE-150, SE-163 to SE-178).
    pub compared: Arc<SystemSettings>,
    /// Settings about some kinds that have no effect, for the Applications they concern.
    pub customizations: Vec<KindSetting>,
    /// Settings that limit what is managed and are not understood, each with its key: no
    /// Application is compared, synced or deleted while there is one.
    pub unreadable: Vec<String>,
    /// Applications that are reconciled in parallel (SE-565).
    pub parallel: usize,
    /// Parallel writes of all operations to one cluster (SE-566).
    pub parallel_applies: usize,
    /// Maximum time until the kind of a definition that a sync applies can be used (SE-603).
    pub definition_timeout: Duration,
    /// Whether hooks of a deletion that succeeded are deleted, whatever their policy (SE-519).
    pub clean_delete_hooks: bool,
    /// Field manager of applied resources (SE-342).
    pub field_manager: String,
    /// Whether sources may be local directories. For the demo; the repositories must
    /// allow it, too.
    pub allow_local: bool,
    /// Which kinds have a health (SE-468, SE-478).
    pub checks: Checks,
    /// Whether the health of each resource is kept in the status (SE-571).
    pub resource_health: bool,
    /// Whether operations without options use those of the spec (SE-304).
    pub inherit_sync_options: bool,
    /// Whether the first dry run of a server-side apply is sent to the server. All other
    /// objects are validated locally with the schemas of the server (SE-250).
    pub server_dry_run: bool,
    /// Nothing is written; intended changes are logged (AS-161).
    pub dry_run: bool,
    /// Whether Kubernetes Events are written (SE-540).
    pub events: bool,
    /// The reasons of those about Applications that are written; `None` for all (SE-574).
    pub event_reasons: Option<BTreeSet<String>>,
    /// Labels of Applications that a metric shows (SE-550).
    pub metrics_labels: Vec<String>,
    /// Types of conditions of Applications that a metric shows (SE-550).
    pub metrics_conditions: Vec<String>,
    /// Delays between attempts of self-heal (SE-426).
    pub self_heal: SelfHeal,
    /// Memory limit for the manifests of one Application, in bytes.
    pub manifest_memory: u64,
    /// Memory limit for the cached manifests of all Applications, in bytes; manifests
    /// beyond it are rendered again when needed.
    pub kept_manifest_memory: u64,
    /// The Redis that Argo CD's API server reads.
    pub redis: RedisSettings,
    /// What is shown there beyond the objects.
    pub readers: ReaderSettings,
    /// How sources are rendered.
    pub render: RenderOptions,
    /// Whether submodules of repositories are read (`reposerver.enable.git.submodule`).
    pub submodules: bool,
    /// Which artifacts of registries are read (SE-032). The repositories must have the same.
    pub artifacts: ArtifactSettings,
    /// Settings of the sync engine; its pause between waves is [`Self::wave_delay`].
    pub sync: sync::SyncSettings,
}

impl Default for ApplicationSettings {
    fn default() -> Self {
        Self {
            namespaces: Namespaces::default(),
            control_plane_namespace: CONTROL_PLANE_NAMESPACE.to_owned(),
            wave_delay: Duration::from_secs(2),
            reconciliation_timeout: Duration::from_secs(120),
            reconciliation_jitter: Duration::from_secs(60),
            hard_reconciliation_timeout: Duration::ZERO,
            repo_error_grace: Duration::from_secs(180),
            jq_timeout: crate::evaluator::JQ_TIME,
            tracking_method: TrackingMethod::Annotation,
            instance_label: DEFAULT_INSTANCE_LABEL.to_owned(),
            installation_id: String::new(),
            resource_filter: ResourceFilter::default(),
            in_cluster_enabled: true,
            runs_in_cluster: false,
            impersonation: false,
            impersonation_enforced: true,
            global_projects: Arc::default(),
            compared: Arc::default(),
            customizations: Vec::new(),
            unreadable: Vec::new(),
            parallel: 20,
            parallel_applies: 20,
            definition_timeout: Duration::from_secs(30),
            clean_delete_hooks: false,
            field_manager: DEFAULT_MANAGER.to_owned(),
            allow_local: false,
            checks: Checks::default(),
            resource_health: true,
            inherit_sync_options: false,
            server_dry_run: true,
            dry_run: false,
            events: true,
            event_reasons: None,
            metrics_labels: Vec::new(),
            metrics_conditions: Vec::new(),
            self_heal: SelfHeal::default(),
            manifest_memory: DEFAULT_MAX_MEMORY,
            kept_manifest_memory: 1 << 30,
            redis: RedisSettings::default(),
            readers: ReaderSettings::default(),
            render: RenderOptions::default(),
            submodules: true,
            artifacts: ArtifactSettings::default(),
            sync: sync::SyncSettings::default(),
        }
    }
}

impl ApplicationSettings {
    /// Whether the Applications of a namespace are handled.
    pub fn covers(&self, namespace: &str) -> bool {
        namespace == self.control_plane_namespace || self.namespaces.matches(namespace)
    }

    /// The settings of comparisons.
    pub fn comparison(&self) -> ComparisonSettings {
        ComparisonSettings {
            self_heal: self.self_heal,
            // Without a tree in Redis it would be nowhere (CA-416). A Redis that cannot be used
            // has been switched off.
            resource_health: self.resource_health || !self.redis.is_on(),
            repo_error_grace: self.repo_error_grace,
            reconciled_every: self.reconciliation_timeout.saturating_mul(UNCHANGED),
        }
    }

    /// The settings of operations.
    pub fn operation(&self) -> OperationSettings {
        let wave_delay = SignedDuration::try_from(self.wave_delay).unwrap_or_default();
        OperationSettings {
            sync: sync::SyncSettings { wave_delay, ..self.sync.clone() },
            inherit_sync_options: self.inherit_sync_options,
        }
    }
}
