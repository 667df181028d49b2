//! What is read of stored Applications beside the types of their definition: words and values
//! exactly as they are written, where they are shown, stored or compared as such. The lists of
//! resources are read apart, since they may be long: [`ResourceView`] and [`ResultView`].

use serde_json::Value;

use super::app_spec::AutomatedSync;
use super::listed::ListedWord;
use super::operation::OperationPhase;
use super::raw::Raw;
use super::read::read_leniently;
use super::resource_key::ResourceKey;
use super::time;

/// Where the resources are.
const RESOURCES: &str = "/status/resources";

/// Where the results of the resources are.
const RESULTS: &str = "/status/operationState/syncResult/resources";

lenient! {
    /// Operation and status of an Application.
    pub struct ApplicationView {
        /// The requested operation; null for none.
        pub operation: Value,
        /// The status.
        pub status: StatusView,
    }

    /// The status of an Application.
    pub struct StatusView {
        /// The sync status.
        pub sync: ListedWord,
        /// The health.
        pub health: HealthView,
        /// The state of the running operation, or of the last one.
        pub operation_state: OperationStateView,
        /// Errors and warnings.
        pub conditions: Vec<ConditionView>,
        /// When it was compared.
        pub reconciled_at: Value,
    }

    /// A health.
    pub struct HealthView {
        /// Its word.
        pub status: String,
        /// Its details.
        pub message: String,
        /// When it changed.
        pub last_transition_time: Value,
    }

    /// An error or a warning.
    pub struct ConditionView {
        /// Its type.
        #[serde(rename = "type")]
        pub type_: String,
        /// Its details.
        pub message: String,
    }

    /// A resource in the status.
    pub struct ResourceView {
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
        /// The word of its sync status.
        pub status: String,
        /// Its health.
        pub health: Option<HealthView>,
        /// Whether it is a hook.
        pub hook: bool,
        /// Whether it is no longer defined in the source.
        pub requires_pruning: bool,
        /// Its sync wave.
        pub sync_wave: i64,
    }

    /// The state of an operation.
    pub struct OperationStateView {
        /// The word of its phase.
        pub phase: String,
        /// What it waits for, or why it ended.
        pub message: String,
        /// When it started.
        pub started_at: Value,
        /// When it finished, or its last attempt.
        pub finished_at: Value,
        /// The number of retries.
        pub retry_count: i64,
        /// What was requested; null for nothing.
        pub operation: Value,
        /// The result of the sync.
        pub sync_result: SyncResultView,
    }

    /// The result of a sync.
    pub struct SyncResultView {
        /// The revision.
        pub revision: String,
        /// Those of several sources.
        pub revisions: Vec<String>,
    }

    /// The result of a sync for a resource.
    pub struct ResultView {
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
        /// The word of the result.
        pub status: String,
        /// What the API server said.
        pub message: String,
        /// The type of a hook; empty for others.
        pub hook_type: String,
        /// The word of its phase.
        pub hook_phase: String,
        /// The phase of the sync.
        pub sync_phase: String,
        /// When it was applied.
        pub since: Value,
    }

    /// Parts of a spec that a sync and a comparison take over as they are written.
    pub struct SpecView {
        /// Name of the project.
        pub project: String,
        /// Cluster and namespace.
        pub destination: Value,
        /// Ignored differences.
        pub ignore_differences: Value,
        /// When and how to sync.
        pub sync_policy: SyncPolicyView,
        /// The number of past syncs to keep; the default when absent.
        pub revision_history_limit: Option<i64>,
    }

    /// When and how to sync.
    pub struct SyncPolicyView {
        /// Settings of automated sync; absent without it.
        pub automated: Option<AutomatedSync>,
        /// Sync options.
        pub sync_options: Vec<String>,
        /// The retry strategy; null for none.
        pub retry: Value,
        /// Labels and annotations of the namespace; null for none.
        pub managed_namespace_metadata: Value,
    }
}

impl ApplicationView {
    /// Reads a stored Application.
    pub fn of(application: &Value) -> Self {
        read_leniently(application)
    }
}

impl SpecView {
    /// Reads the spec of a stored Application.
    pub fn of(application: &Value) -> Self {
        read_leniently(application.spec())
    }
}

impl ResourceView {
    /// Reads the rows of the resources in the status of an Application, as they are asked for.
    pub fn rows(application: &Value) -> impl Iterator<Item = Self> {
        application.items(RESOURCES).iter().map(read_leniently)
    }

    /// The same without those that are Synced, and Healthy or without a health.
    pub fn unsettled_rows(application: &Value) -> impl Iterator<Item = Self> {
        let is_settled = |row: &&Value| {
            row.field("status") == "Synced" && matches!(row.text("/health/status"), "" | "Healthy")
        };
        let rows = application.items(RESOURCES).iter();
        rows.filter(move |row| !is_settled(row)).map(read_leniently)
    }

    /// Its key.
    pub fn key(&self) -> ResourceKey {
        ResourceKey::new(&self.group, &self.kind, &self.namespace, &self.name)
    }
}

impl ResultView {
    /// Reads the results of the resources in the last operation of an Application, as they are
    /// asked for.
    pub fn rows(application: &Value) -> impl Iterator<Item = Self> {
        application.items(RESULTS).iter().map(read_leniently)
    }

    /// The same without those of resources that were applied or pruned and are ready.
    pub fn open_rows(application: &Value) -> impl Iterator<Item = Self> {
        let is_open = |row: &&Value| {
            [row.field("status"), row.field("hookPhase")].into_iter().any(|word| {
                matches!(word, "SyncFailed" | "PruneFailed" | "Failed" | "Error" | "Running")
            })
        };
        application.items(RESULTS).iter().filter(is_open).map(read_leniently)
    }

    /// The key of its resource.
    pub fn key(&self) -> ResourceKey {
        ResourceKey::new(&self.group, &self.kind, &self.namespace, &self.name)
    }
}

impl OperationStateView {
    /// Whether it has ended.
    pub fn is_completed(&self) -> bool {
        OperationPhase::from_word(&self.phase).is_completed()
    }

    /// When it started.
    pub fn started(&self) -> Option<jiff::Timestamp> {
        time::of_field(&self.started_at)
    }
}
