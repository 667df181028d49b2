//! A sync operation of an Application, and its state (SE-040 … SE-053).

use std::ops::Deref;
use std::sync::OnceLock;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::app_spec::{ManagedNamespaceMetadata, RetryStrategy};
use super::read::{ReadError, read_leniently};
use super::source::{ApplicationSource, NameValue};
use super::time::Time;

lenient! {
    /// A requested sync operation. Setting it on an Application starts the sync; the
    /// controller removes it when the sync has finished.
    pub struct Operation {
        /// What to sync and how.
        pub sync: Option<SyncOperation>,
        /// User or controller that requested the operation.
        pub initiated_by: Option<OperationInitiator>,
        /// Additional information that is stored with the operation.
        pub info: Vec<NameValue>,
        /// Retry strategy; no retries when absent.
        pub retry: Option<RetryStrategy>,
    } and extra

    /// User or controller that requested an operation.
    pub struct OperationInitiator {
        /// Name of a user or a controller.
        pub username: String,
        /// Whether the operation was started by automated sync. Sync windows depend on it.
        pub automated: bool,
    } and extra

    /// What to sync and how.
    pub struct SyncOperation {
        /// Revision to sync to; the revision of the spec when empty.
        pub revision: String,
        /// Revisions of several sources, by position.
        pub revisions: Vec<String>,
        /// Delete resources that are no longer defined in the source.
        pub prune: bool,
        /// Run a dry run without applying changes.
        pub dry_run: bool,
        /// Whether to run hooks and whether to force.
        pub sync_strategy: Option<SyncStrategy>,
        /// Resources to sync; all when empty.
        pub resources: Vec<SyncOperationResource>,
        /// Source to use instead of the spec's, for a rollback.
        pub source: Option<ApplicationSource>,
        /// Several sources to use instead of the spec's.
        pub sources: Vec<ApplicationSource>,
        /// Manifests to use instead of a source.
        pub manifests: Vec<String>,
        /// Sync options such as `CreateNamespace=true`. Options of the spec are not added.
        pub sync_options: Option<Vec<String>>,
        /// Number of previous self-heal attempts.
        pub auto_heal_attempts_count: i64,
    } and extra

    /// Whether to run hooks and whether to force. Hooks run when empty.
    pub struct SyncStrategy {
        /// Apply resources without hooks.
        pub apply: Option<SyncStrategyForce>,
        /// Apply resources and run hooks.
        pub hook: Option<SyncStrategyForce>,
    } and extra

    /// Whether to use force.
    pub struct SyncStrategyForce {
        /// Delete and recreate resources that cannot be updated in place.
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
        /// Namespace; empty matches any namespace.
        pub namespace: String,
    } and extra

    /// A requested operation, each field of which is read whatever is wrong with others.
    pub struct RequestView {
        /// Who requested it.
        pub initiated_by: OperationInitiator,
        /// The requested sync; absent for none.
        pub sync: Option<SyncRequestView>,
        /// Additional items.
        pub info: Vec<NameValue>,
    }

    /// A requested sync, with its sources exactly as they are written.
    pub struct SyncRequestView {
        /// The revision.
        pub revision: String,
        /// Those of several sources.
        pub revisions: Vec<String>,
        /// Whether resources that left the source are deleted.
        pub prune: bool,
        /// Whether nothing is changed.
        pub dry_run: bool,
        /// The selected resources; all when empty.
        pub resources: Vec<SyncOperationResource>,
        /// Its source; null for that of the spec.
        pub source: Value,
        /// Its sources; null for those of the spec.
        pub sources: Value,
        /// Its sync options.
        pub sync_options: Vec<String>,
        /// Number of previous self-heal attempts.
        pub auto_heal_attempts_count: i64,
    }

    /// State of the running operation, or of the last one.
    #[schemars(extend("required" = ["operation", "phase", "startedAt"]))]
    pub struct OperationState {
        /// Phase of the operation: Running, Terminating, Succeeded, Failed or Error.
        pub phase: OperationPhase,
        /// What the operation is waiting for, or why it ended in its phase.
        pub message: String,
        /// Time when the operation started.
        pub started_at: Option<Time>,
        /// Time when the operation finished; also set between two retries.
        pub finished_at: Option<Time>,
        /// Number of retries.
        pub retry_count: i64,
        /// The requested operation.
        #[schemars(with = "Operation")]
        pub operation: Requested,
        /// Result of the sync.
        pub sync_result: Option<SyncOperationResult>,
        /// Internal state of the sync engine while the operation runs.
        #[schemars(schema_with = "super::lenient::any_object")]
        pub progress: serde_json::Map<String, Value>,
    }

    /// Result of a sync operation.
    #[schemars(extend("required" = ["revision"]))]
    pub struct SyncOperationResult {
        /// Resolved revisions of several sources, by position.
        pub revisions: Vec<String>,
        /// Source of the sync.
        #[schemars(with = "Option<ApplicationSource>")]
        pub source: Option<Value>,
        /// Several sources of the sync.
        #[schemars(with = "Vec<ApplicationSource>")]
        pub sources: Vec<Value>,
        /// Results of the resources, one per resource and phase, in the order of their
        /// first result.
        pub resources: Vec<ResourceResult>,
        /// Labels and annotations that were set on the namespace.
        #[schemars(with = "Option<ManagedNamespaceMetadata>")]
        pub managed_namespace_metadata: Option<Value>,
    } and always {
        /// Revision that was resolved when the operation started.
        pub revision: String,
    }

    /// Result of a sync for one resource in one phase.
    #[schemars(extend("required" = ["group", "kind", "name", "namespace", "version"]))]
    pub struct ResourceResult {
        /// Result: Synced, SyncFailed, Pruned or PruneSkipped; empty while there is none.
        pub status: ResultCode,
        /// Response of the API server, or the reason of the failure.
        pub message: String,
        /// Type of the hook; empty for ordinary resources.
        pub hook_type: String,
        /// Operation phase of the resource, set for hooks and ordinary resources.
        pub hook_phase: OperationPhase,
        /// Sync phase: PreSync, Sync, PostSync or SyncFail.
        pub sync_phase: SyncPhase,
        /// Images of the containers.
        pub images: Vec<String>,
        // The following fields are ours and removed once the task is complete. Argo CD's
        // definition prunes them: the process keeps them, and after a restart, which reads all
        // objects anew, waits count again (`crates/engine/src/sync/restore.rs`).
        /// UID of the object that was applied or deleted.
        pub uid: String,
        /// Resource version of the object after it was applied.
        pub resource_version: String,
        /// Time when the object was applied.
        #[schemars(with = "Option<Time>")]
        pub since: Option<Timestamp>,
    } and always {
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
    }
}

/// An operation exactly as it was requested, with what can be read of it. Two are equal when
/// they are stored alike: that is how a newer request is recognised.
#[derive(Clone, Debug, Default)]
pub struct Requested {
    raw: Value,
    read: Operation,
    error: Option<ReadError>,
    view: OnceLock<RequestView>,
}

impl Requested {
    /// Reads a stored operation. Nothing is read of one with a field of a wrong type.
    pub fn of(raw: Value) -> Self {
        let (read, error) = match super::read_typed(&raw) {
            Ok(read) => (read, None),
            Err(error) => (Operation::default(), Some(error)),
        };
        Self { raw, read, error, view: OnceLock::new() }
    }

    /// The operation as it is stored.
    pub fn raw(&self) -> &Value {
        &self.raw
    }

    /// What can be read of each field alone, whatever is wrong with others.
    pub fn view(&self) -> &RequestView {
        self.view.get_or_init(|| RequestView::of(&self.raw))
    }

    /// The sync that is requested; `None` for none.
    ///
    /// # Errors
    ///
    /// When a field of the operation has a wrong type.
    pub fn sync(&self) -> Result<Option<&SyncOperation>, &ReadError> {
        match &self.error {
            Some(error) => Err(error),
            None => Ok(self.read.sync.as_ref()),
        }
    }

    /// Removes the revisions from the request.
    pub fn forget_revisions(&mut self) {
        let mut raw = std::mem::take(&mut self.raw);
        if let Some(sync) = raw.get_mut("sync").and_then(Value::as_object_mut) {
            sync.remove("revision");
            sync.remove("revisions");
        }
        *self = Self::of(raw);
    }
}

impl Deref for Requested {
    type Target = Operation;

    fn deref(&self) -> &Operation {
        &self.read
    }
}

impl PartialEq for Requested {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl Serialize for Requested {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Requested {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::of)
    }
}

impl RequestView {
    /// Reads a requested operation; of null, one that requests nothing.
    pub fn of(operation: &Value) -> Self {
        read_leniently(operation)
    }

    /// The requested revisions, by source; empty for none.
    pub fn revisions(&self) -> Vec<String> {
        self.sync.as_ref().map(SyncRequestView::revisions).unwrap_or_default()
    }
}

impl Operation {
    /// Whether it syncs the whole Application: not a dry run, and not only some resources.
    pub fn is_full(&self) -> bool {
        self.sync.as_ref().is_none_or(|sync| !sync.dry_run && sync.resources.is_empty())
    }

    /// The raw operation of an Application; `None` when it has none.
    pub fn raw(application: &Value) -> Option<&Value> {
        application.get("operation").filter(|operation| !operation.is_null())
    }
}

words! {
    /// Phase of an operation, or of one resource within it (SE-050).
    pub enum OperationPhase {
        /// Running, or waiting for a retry.
        Running = "Running",
        /// Termination was requested.
        Terminating = "Terminating",
        /// Finished successfully.
        Succeeded = "Succeeded",
        /// Finished because tasks failed, or because the operation was terminated.
        Failed = "Failed",
        /// Finished because the operation could not be executed.
        Error = "Error",
        _ =>
        /// Absent, or a value of a later version.
        Unknown = "",
    }
}

impl OperationPhase {
    /// Whether the operation has finished, successfully or not (SE-050).
    pub const fn is_completed(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Error)
    }

    /// Whether it has ended, and not well.
    pub const fn has_failed(self) -> bool {
        matches!(self, Self::Failed | Self::Error)
    }

    /// Whether the operation has not finished.
    pub const fn is_running(self) -> bool {
        matches!(self, Self::Running | Self::Terminating)
    }
}

words! {
    /// Result of a sync for a resource (SE-053).
    pub enum ResultCode {
        /// Applied.
        Synced = "Synced",
        /// Applying failed.
        SyncFailed = "SyncFailed",
        /// Deleted.
        Pruned = "Pruned",
        /// Not deleted, because pruning is disabled for the resource.
        PruneSkipped = "PruneSkipped",
        _ =>
        /// No result yet.
        Unknown = "",
    }
}

words! {
    /// Phase of a sync, in the order of execution (SE-053).
    pub enum SyncPhase {
        /// Before the resources are applied.
        PreSync = "PreSync",
        /// Resources are applied.
        Sync = "Sync",
        /// After all resources are applied and healthy.
        PostSync = "PostSync",
        /// Only after the sync failed.
        SyncFail = "SyncFail",
        _ =>
        /// Absent, or a value of a later version.
        Unknown = "",
    }
}
