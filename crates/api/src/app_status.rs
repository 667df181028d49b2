//! Status of an Application (SE-055 … SE-061).

use serde_json::Value;

use super::app_spec::{ApplicationDestination, IgnoreDifference};
use super::operation::{OperationInitiator, OperationState};
use super::source::{ApplicationSource, SourceHydratorStatus};
use super::time::Time;

lenient! {
    /// Observed state of an Application.
    pub struct ApplicationStatus {
        /// Result of comparing live resources with the source.
        pub sync: SyncStatus,
        /// Aggregated health of the resources.
        pub health: Option<AppHealth>,
        /// State of the running operation, or of the last one.
        #[schemars(with = "Option<OperationState>")]
        pub operation_state: OperationState,
        /// All resources of the Application, sorted by group, kind, namespace and name.
        pub resources: Vec<ResourceStatus>,
        /// History of past syncs, the oldest first.
        pub history: Vec<RevisionHistory>,
        /// Errors and warnings, sorted by type, message and time.
        pub conditions: Vec<ApplicationCondition>,
        /// Time of the last comparison with the source.
        pub reconciled_at: Option<Time>,
        /// Time when a change of the status was last observed; kept for compatibility.
        pub observed_at: Option<Time>,
        /// Type of the source: Helm, Kustomize, Directory or Plugin.
        pub source_type: String,
        /// Types of several sources.
        pub source_types: Vec<String>,
        /// Namespace of the controller that wrote the status.
        pub controller_namespace: String,
        /// Where the health of resources is stored: in `resources` when empty, or `appTree`.
        pub resource_health_source: String,
        /// Status of Argo CD's source hydrator; stored, not used here.
        #[schemars(with = "Option<SourceHydratorStatus>")]
        pub source_hydrator: Option<Value>,
    } and always {
        /// External URLs and images of the Application.
        #[schemars(with = "Option<ApplicationSummary>")]
        pub summary: ApplicationSummary,
    }

    /// Result of comparing live resources with the source.
    #[schemars(extend("required" = ["status"]))]
    pub struct SyncStatus {
        /// Compared revision.
        pub revision: String,
        /// Compared revisions of several sources, by position.
        pub revisions: Vec<String>,
        /// The part of the spec that was compared.
        #[schemars(with = "Option<ComparedTo>")]
        pub compared_to: Option<Value>,
    } and always {
        /// Synced, OutOfSync or Unknown.
        pub status: SyncStatusCode,
    }

    /// The part of the spec that a comparison used.
    pub struct ComparedTo {
        /// The source.
        pub source: Option<ApplicationSource>,
        /// The sources.
        pub sources: Vec<ApplicationSource>,
        /// The destination.
        pub destination: ApplicationDestination,
        /// Differences that were ignored.
        pub ignore_differences: Vec<IgnoreDifference>,
    }

    /// Aggregated health of an Application.
    pub struct AppHealth {
        /// Details of the health status.
        pub message: String,
        /// Time of the last change of the health status.
        pub last_transition_time: Option<Time>,
    } and always {
        /// Healthy, Progressing, Suspended, Degraded, Missing or Unknown.
        pub status: HealthStatus,
    }

    /// Health of one resource.
    pub struct ResourceHealth {
        /// Details of the health status.
        pub message: String,
        /// Kept for compatibility; not written here.
        pub last_transition_time: Option<Time>,
    } and always {
        /// Healthy, Progressing, Suspended, Degraded, Missing or Unknown.
        pub status: HealthStatus,
    }

    /// Sync status and health of one resource.
    pub struct ResourceStatus {
        /// API group; empty for the core group.
        pub group: String,
        /// API version within the group.
        pub version: String,
        /// Kind.
        pub kind: String,
        /// Namespace.
        pub namespace: String,
        /// Name.
        pub name: String,
        /// Synced, OutOfSync or Unknown; absent for hooks.
        pub status: Option<SyncStatusCode>,
        /// Health of the resource, when it is stored here.
        pub health: Option<ResourceHealth>,
        /// Whether the resource is a hook.
        pub hook: bool,
        /// Whether the resource is no longer defined in the source and would be pruned.
        pub requires_pruning: bool,
        /// Whether the deletion of the resource requires confirmation.
        pub requires_deletion_confirmation: bool,
        /// Sync wave of the resource.
        pub sync_wave: i64,
    }

    /// A past sync in the history.
    #[schemars(extend("required" = ["deployedAt", "id"]))]
    pub struct RevisionHistory {
        /// Revision that was synced.
        pub revision: String,
        /// Revisions of several sources, by position.
        pub revisions: Vec<String>,
        /// Source of the sync.
        #[schemars(with = "Option<ApplicationSource>")]
        pub source: Option<Value>,
        /// Several sources of the sync.
        #[schemars(with = "Vec<ApplicationSource>")]
        pub sources: Vec<Value>,
        /// Time when the sync started.
        pub deploy_started_at: Option<Time>,
        /// Time when the sync finished.
        pub deployed_at: Option<Time>,
        /// User or controller that started the sync.
        pub initiated_by: Option<OperationInitiator>,
    } and always {
        /// Number of the sync, increasing by one.
        pub id: i64,
    }

    /// An error or a warning. A condition is active while it is present.
    #[schemars(extend("required" = ["message", "type"]))]
    pub struct ApplicationCondition {
        /// Type of the condition.
        #[serde(rename = "type")]
        pub type_: String,
        /// Details of the condition.
        pub message: String,
        /// Time when the condition was first observed.
        pub last_transition_time: Option<Time>,
    }

    /// External URLs and images of an Application.
    pub struct ApplicationSummary {
        /// External URLs of the resources.
        #[serde(rename = "externalURLs")]
        pub external_urls: Vec<String>,
        /// Images of the resources.
        pub images: Vec<String>,
        /// Whether the Application manages other Applications.
        pub is_app_of_apps: bool,
    }
}

words! {
    /// Whether live resources match the source (SE-055).
    ///
    /// Declared from best to worst; `Unknown` is worse than a known difference.
    pub enum SyncStatusCode {
        /// Live resources match the source.
        Synced = "Synced",
        /// A resource must be applied or pruned.
        OutOfSync = "OutOfSync",
        _ =>
        /// Not determined, absent, or a value of a later version.
        Unknown = "Unknown",
    }
}

words! {
    /// Health of a resource or an Application.
    ///
    /// Declared from best to worst (SE-440), so that `max` of two gives the worse one.
    pub enum HealthStatus {
        /// The resource works as intended.
        Healthy = "Healthy",
        /// The resource is paused: a paused Deployment, a suspended Job.
        Suspended = "Suspended",
        /// The resource is not healthy yet, but may still become healthy.
        Progressing = "Progressing",
        /// The resource is missing in the cluster.
        Missing = "Missing",
        /// The resource failed, or cannot become healthy within its deadline.
        Degraded = "Degraded",
        _ =>
        /// Not determined, absent, or a value of a later version.
        Unknown = "Unknown",
    }
}

impl HealthStatus {
    /// Parses a status as Argo CD writes it; `None` for anything else, including an empty
    /// string (SE-483).
    pub fn parse(name: &str) -> Option<Self> {
        Some(Self::from_word(name)).filter(|status| status.as_str() == name)
    }

    /// Whether `self` is strictly worse than `other` (SE-440).
    pub fn is_worse_than(self, other: Self) -> bool {
        self > other
    }

    /// The worse of the two.
    pub fn worst(self, other: Self) -> Self {
        self.max(other)
    }
}
