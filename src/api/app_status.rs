//! Status of an Application (SE-055 … SE-061).

use serde_json::Value;

use super::application::{ApplicationDestination, IgnoreDifference};
use super::operation::{OperationInitiator, OperationState};
use super::source::{ApplicationSource, SourceHydratorStatus};
use super::time::Time;

lenient! {
    /// What the controller found and did.
    pub struct ApplicationStatus {
        /// Whether the cluster is as the source says.
        pub sync: SyncStatus,
        /// Whether what is in the cluster works.
        pub health: AppHealth,
        /// The operation under way, or the last one.
        pub operation_state: Option<OperationState>,
        /// Every resource of the Application, sorted by group, kind, namespace and name.
        pub resources: Vec<ResourceStatus>,
        /// Past syncs, the oldest first.
        pub history: Vec<RevisionHistory>,
        /// Errors and warnings, sorted by type, message and time.
        pub conditions: Vec<ApplicationCondition>,
        /// When the cluster was last compared with the source.
        pub reconciled_at: Option<Time>,
        /// When the status was last seen to change; kept for older readers.
        pub observed_at: Option<Time>,
        /// What kind of source it is: Helm, Kustomize, Directory or Plugin.
        pub source_type: String,
        /// The same for several sources.
        pub source_types: Vec<String>,
        /// What to show in a list.
        pub summary: ApplicationSummary,
        /// Namespace of the controller that wrote this.
        pub controller_namespace: String,
        /// Where the health of resources is kept: empty for here, or `appTree`.
        pub resource_health_source: String,
        /// What the peer's hydrator found and did; kept, not used here.
        #[schemars(with = "Option<SourceHydratorStatus>")]
        pub source_hydrator: Option<Value>,
    }

    /// Whether the cluster is as the source says.
    #[schemars(extend("required" = ["status"]))]
    pub struct SyncStatus {
        /// Synced, OutOfSync or Unknown.
        pub status: SyncStatusCode,
        /// The revision that was compared.
        pub revision: String,
        /// The same for several sources, by position.
        pub revisions: Vec<String>,
        /// The part of the spec that was compared.
        pub compared_to: Option<ComparedTo>,
    }

    /// The part of the spec that a comparison was made for.
    pub struct ComparedTo {
        /// The source.
        pub source: Option<ApplicationSource>,
        /// The sources.
        pub sources: Vec<ApplicationSource>,
        /// The destination.
        pub destination: ApplicationDestination,
        /// Differences that did not count.
        pub ignore_differences: Vec<IgnoreDifference>,
    }

    /// Whether what is in the cluster works.
    pub struct AppHealth {
        /// Healthy, Progressing, Suspended, Degraded, Missing or Unknown.
        pub status: HealthStatus,
        /// Why.
        pub message: String,
        /// When the status last changed.
        pub last_transition_time: Option<Time>,
    }

    /// Health of one resource.
    pub struct ResourceHealth {
        /// Healthy, Progressing, Suspended, Degraded, Missing or Unknown.
        pub status: HealthStatus,
        /// Why.
        pub message: String,
        /// Kept for older readers; not written here.
        pub last_transition_time: Option<Time>,
    }

    /// One resource and how it stands.
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
        /// Its health, where kept here.
        pub health: Option<ResourceHealth>,
        /// Whether it is a hook.
        pub hook: bool,
        /// Whether it is no longer in the source.
        pub requires_pruning: bool,
        /// Whether its deletion waits for approval.
        pub requires_deletion_confirmation: bool,
        /// Its wave.
        pub sync_wave: i64,
    }

    /// A past sync.
    #[schemars(extend("required" = ["deployedAt", "id"]))]
    pub struct RevisionHistory {
        /// Number of the sync; each is one more than the last.
        pub id: i64,
        /// Revision that was synced.
        pub revision: String,
        /// The same for several sources, by position.
        pub revisions: Vec<String>,
        /// Source that was used.
        pub source: Option<ApplicationSource>,
        /// The same for several sources.
        pub sources: Vec<ApplicationSource>,
        /// When the sync started.
        pub deploy_started_at: Option<Time>,
        /// When it ended.
        pub deployed_at: Option<Time>,
        /// Who asked for it.
        pub initiated_by: Option<OperationInitiator>,
    } and extra

    /// An error or a warning. Its presence is its meaning.
    #[schemars(extend("required" = ["message", "type"]))]
    pub struct ApplicationCondition {
        /// What kind of trouble it is.
        #[serde(rename = "type")]
        pub type_: String,
        /// What happened.
        pub message: String,
        /// Since when it has been so.
        pub last_transition_time: Option<Time>,
    }

    /// What to show in a list.
    pub struct ApplicationSummary {
        /// Links to the running application.
        #[serde(rename = "externalURLs")]
        pub external_urls: Vec<String>,
        /// Images in use.
        pub images: Vec<String>,
        /// Whether it manages Applications itself.
        pub is_app_of_apps: bool,
    }
}

words! {
    /// Whether the cluster is as the source wants it (SE-055).
    ///
    /// Declared from best to worst; `Unknown` is worse than a known difference.
    pub enum SyncStatusCode {
        /// No difference that counts.
        Synced = "Synced",
        /// There is something to apply or to prune.
        OutOfSync = "OutOfSync",
        _ =>
        /// Could not be found out, is absent, or a word of a later version.
        Unknown = "Unknown",
    }
}

words! {
    /// Health of a resource or an Application.
    ///
    /// Declared from best to worst (SE-440), so that the derived order is the
    /// one an Application is judged by: `max` of two is the worse one.
    pub enum HealthStatus {
        /// It does what it is meant to do.
        Healthy = "Healthy",
        /// It was told to stop for now: a paused Deployment, a suspended Job.
        Suspended = "Suspended",
        /// It is on its way and may still get there without help.
        Progressing = "Progressing",
        /// It should exist and does not.
        Missing = "Missing",
        /// It failed, or will not get there without help.
        Degraded = "Degraded",
        _ =>
        /// Could not be judged, is absent, or a word of a later version.
        Unknown = "Unknown",
    }
}

impl HealthStatus {
    /// Reads a name as Argo CD writes it; `None` for anything else, an empty
    /// text included (SE-483).
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

impl SyncStatus {
    /// The compared revisions: `revisions` when it has items, else `revision`
    /// as the only one; empty when neither is there (AS-351).
    pub fn revisions(&self) -> Vec<String> {
        if !self.revisions.is_empty() {
            return self.revisions.clone();
        }
        Vec::from_iter(Some(self.revision.clone()).filter(|revision| !revision.is_empty()))
    }
}
