//! A request to sync an Application, and what became of it (SE-040 … SE-053).

use serde_json::Value;

use super::application::{ManagedNamespaceMetadata, RetryStrategy};
use super::source::{ApplicationSource, NameValue};
use super::time::Time;

lenient! {
    /// A request to sync. Setting it on an Application starts the sync; the
    /// controller removes it when the sync has ended.
    pub struct Operation {
        /// What to sync.
        pub sync: Option<SyncOperation>,
        /// Who asked.
        pub initiated_by: Option<OperationInitiator>,
        /// Notes that stay with the operation.
        pub info: Vec<NameValue>,
        /// How to retry; absent means not at all.
        pub retry: Option<RetryStrategy>,
    } and extra

    /// Who asked for an operation.
    pub struct OperationInitiator {
        /// Name of a user or a controller.
        pub username: String,
        /// Whether nobody asked by hand. Sync windows look at this.
        pub automated: bool,
    } and extra

    /// What to sync and how.
    pub struct SyncOperation {
        /// Revision to sync to; empty is what the spec asks for.
        pub revision: String,
        /// The same for several sources, by position.
        pub revisions: Vec<String>,
        /// Allow the deletion of resources that are no longer in the source.
        pub prune: bool,
        /// Change nothing, only try.
        pub dry_run: bool,
        /// With or without hooks, and whether to use force.
        pub sync_strategy: Option<SyncStrategy>,
        /// Sync only these resources; empty syncs all.
        pub resources: Vec<SyncOperationResource>,
        /// Use this source instead of the spec's, for a rollback.
        pub source: Option<ApplicationSource>,
        /// The same for several sources.
        pub sources: Vec<ApplicationSource>,
        /// Use these manifests instead of a source.
        pub manifests: Vec<String>,
        /// Options such as `CreateNamespace=true`. The spec's are not added.
        pub sync_options: Option<Vec<String>>,
        /// How often self-heal has tried before.
        pub auto_heal_attempts_count: i64,
    } and extra

    /// With or without hooks. Empty means with hooks.
    pub struct SyncStrategy {
        /// Apply only, no hooks.
        pub apply: Option<SyncStrategyForce>,
        /// Apply and run hooks.
        pub hook: Option<SyncStrategyForce>,
    } and extra

    /// Whether to use force.
    pub struct SyncStrategyForce {
        /// Delete and recreate what cannot be changed in place.
        pub force: bool,
    } and extra

    /// A resource to sync.
    pub struct SyncOperationResource {
        /// API group; empty for the core group.
        pub group: String,
        /// Kind.
        pub kind: String,
        /// Name.
        pub name: String,
        /// Namespace; empty matches any.
        pub namespace: String,
    } and extra

    /// An operation under way, or the last one.
    #[schemars(extend("required" = ["operation", "phase", "startedAt"]))]
    pub struct OperationState {
        /// How far it is: Running, Terminating, Succeeded, Failed or Error.
        pub phase: OperationPhase,
        /// What is being waited for, or why it ended this way.
        pub message: String,
        /// When it started.
        pub started_at: Option<Time>,
        /// When it ended; also set between two attempts.
        pub finished_at: Option<Time>,
        /// How many attempts were made after the first.
        pub retry_count: i64,
        /// A copy of the request.
        pub operation: Operation,
        /// What was synced.
        pub sync_result: Option<SyncOperationResult>,
    }

    /// What a sync did.
    #[schemars(extend("required" = ["revision"]))]
    pub struct SyncOperationResult {
        /// The revision that was resolved when the operation began.
        pub revision: String,
        /// The same for several sources, by position.
        pub revisions: Vec<String>,
        /// The source that was used.
        pub source: Option<ApplicationSource>,
        /// The same for several sources.
        pub sources: Vec<ApplicationSource>,
        /// One entry per resource and phase, in the order of first results.
        pub resources: Vec<ResourceResult>,
        /// Metadata that was given to the namespace.
        pub managed_namespace_metadata: Option<ManagedNamespaceMetadata>,
    }

    /// What a sync did to one resource in one phase.
    #[schemars(extend("required" = ["group", "kind", "name", "namespace", "version"]))]
    pub struct ResourceResult {
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
        /// Outcome: Synced, SyncFailed, Pruned or PruneSkipped; empty before there is one.
        pub status: ResultCode,
        /// Answer of the API server, or why it failed.
        pub message: String,
        /// Type of the hook; empty for ordinary resources.
        pub hook_type: String,
        /// Phase that the resource has reached, hook or not.
        pub hook_phase: OperationPhase,
        /// The phase of the sync: PreSync, Sync, PostSync or SyncFail.
        pub sync_phase: SyncPhase,
        /// Images of its containers.
        pub images: Vec<String>,
    }
}

impl OperationState {
    /// Whether the request carries an info item of this name and value: how a
    /// controller recognises what it asked for itself (AS-361).
    pub fn has_info(&self, name: &str, value: &str) -> bool {
        self.operation.has_info(name, value)
    }
}

impl Operation {
    /// Whether it carries an info item of this name and value.
    pub fn has_info(&self, name: &str, value: &str) -> bool {
        self.info.iter().any(|info| info.name == name && info.value == value)
    }

    /// The raw operation of an Application; `None` when it has none.
    pub fn raw(application: &Value) -> Option<&Value> {
        application.get("operation").filter(|operation| !operation.is_null())
    }
}

words! {
    /// How far an operation, or one resource of it, is (SE-050).
    pub enum OperationPhase {
        /// Under way, or between two attempts.
        Running = "Running",
        /// Asked to stop.
        Terminating = "Terminating",
        /// Ended well.
        Succeeded = "Succeeded",
        /// Ended because tasks failed, or because it was stopped.
        Failed = "Failed",
        /// Ended because it could not be carried out at all.
        Error = "Error",
        _ =>
        /// Absent, or a word of a later version.
        Unknown = "",
    }
}

impl OperationPhase {
    /// Whether it has ended, well or not (SE-050).
    pub const fn is_completed(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Error)
    }

    /// Whether it is still under way.
    pub const fn is_running(self) -> bool {
        matches!(self, Self::Running | Self::Terminating)
    }
}

words! {
    /// What a sync did to a resource (SE-053).
    pub enum ResultCode {
        /// Applied.
        Synced = "Synced",
        /// Not applied.
        SyncFailed = "SyncFailed",
        /// Deleted.
        Pruned = "Pruned",
        /// Should have been deleted, but that was not allowed.
        PruneSkipped = "PruneSkipped",
        _ =>
        /// Nothing yet.
        Unknown = "",
    }
}

words! {
    /// A phase of a sync, in the order of execution (SE-053).
    pub enum SyncPhase {
        /// Before anything is applied.
        PreSync = "PreSync",
        /// Where resources are applied.
        Sync = "Sync",
        /// After everything is applied and healthy.
        PostSync = "PostSync",
        /// Only after a failure.
        SyncFail = "SyncFail",
        _ =>
        /// Absent, or a word of a later version.
        Unknown = "",
    }
}
