//! The decision of a reconcile: actions, and what is to be stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::options::{Method, Propagation};
use wavegate_api::operation::{OperationPhase, ResourceResult, SyncPhase};
use wavegate_api::resource_key::ResourceKey;
use wavegate_api::time::to_rfc3339;

/// The decision of one reconcile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncPlan {
    /// The actions, group after group; see [`Group`]. Empty means: wait.
    pub actions: Vec<Group>,
    /// The new full list of results, in order of first result.
    pub results: Vec<ResourceResult>,
    /// Progress to store beside the results.
    pub progress: SyncProgress,
    /// The phase to store. Completed phases come without actions.
    pub phase: OperationPhase,
    /// The message to store.
    pub message: String,
    /// What the operation waits for, in task order.
    pub waiting_for: Vec<Waiting>,
    /// When to call again even without an event; `None` means on events only.
    pub wake_at: Option<Timestamp>,
    /// Whether phase, results and progress must be stored before the actions
    /// run: because they must survive a crash, or an action is not safe to
    /// repeat without them.
    pub needs_persist_before_actions: bool,
    /// Errors in manifests and options, for conditions; they never stop a sync.
    pub warnings: Vec<String>,
    /// Whether it ends because a user or the time limit terminated it: then it
    /// is not retried.
    pub terminated: bool,
}

impl SyncPlan {
    /// The message with details of the wait that it names: the state of the
    /// resource, its finalizers, and the start (SE-588, SE-600). It contains
    /// the start, not the duration, which would change in every reconcile.
    pub fn detailed_message(&self) -> String {
        // The message names the first hook, or else the first resource.
        let is_hook = |waiting: &&Waiting| waiting.reason == WaitReason::HookCompletion;
        let named = self.waiting_for.iter().find(is_hook).or(self.waiting_for.first());
        match named.filter(|waiting| !waiting.detail.is_empty()) {
            None => self.message.clone(),
            Some(Waiting { detail, since: Some(since), .. }) => {
                format!("{} ({detail}, since {})", self.message, to_rfc3339(*since))
            }
            Some(Waiting { detail, .. }) => format!("{} ({detail})", self.message),
        }
    }
}

/// Actions that may run in parallel. Groups run one after another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// In task order.
    pub actions: Vec<Action>,
    /// Whether later groups run only if no action of this group failed. Groups
    /// of creations continue after a failure (SE-251).
    pub stops_on_failure: bool,
}

/// Identifies one task: a resource, and its phase. A hook of two phases is two
/// tasks (SE-184).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct TaskKey {
    /// The phase comes first, so that keys roughly sort in run order.
    pub phase: SyncPhase,
    /// The resource; the namespace is empty for cluster-scoped kinds.
    #[serde(with = "StoredKey")]
    pub resource: ResourceKey,
}

impl TaskKey {
    /// The task of a result.
    pub fn of(result: &ResourceResult) -> Self {
        let ResourceResult { group, kind, namespace, name, .. } = result;
        let resource = ResourceKey::new(group, kind, namespace, name);
        Self { phase: result.sync_phase, resource }
    }

    /// The result of a task of which nothing is known yet.
    pub(super) fn result(&self, version: &str) -> ResourceResult {
        let ResourceKey { group, kind, namespace, name } = self.resource.clone();
        let (version, sync_phase) = (version.to_owned(), self.phase);
        ResourceResult { group, version, kind, namespace, name, sync_phase, ..Default::default() }
    }
}

/// How a [`ResourceKey`] is stored.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ResourceKey")]
struct StoredKey {
    group: String,
    kind: String,
    namespace: String,
    name: String,
}

/// One action.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Check that the object would be accepted, without changes (SE-250).
    DryRun(Apply),
    /// Create the destination namespace, before anything else (SE-203).
    CreateNamespace(Apply),
    /// Apply a resource, or a hook that may exist already.
    Apply(Apply),
    /// Create a hook that does not exist. If it exists and carries `stamp`,
    /// that is a success: an interrupted reconcile has created it.
    CreateHook(Apply),
    /// Remove the hook finalizer from one object; success when the object or
    /// the finalizer does not exist (SE-295).
    RemoveFinalizer(LiveState),
    /// Delete a hook object.
    DeleteHook(LiveState, DeleteReason, Propagation),
    /// Delete an extraneous object.
    Prune(LiveState, Propagation),
    /// Read an object past the cache to check whether it exists (SE-258).
    Read(TaskKey),
}

impl Action {
    /// The identity that an [`ActionOutcome`] refers to.
    pub fn id(&self) -> ActionId {
        let (verb, task) = match self {
            Self::DryRun(apply) => (Verb::DryRun, &apply.task),
            Self::CreateNamespace(apply) => (Verb::CreateNamespace, &apply.task),
            Self::Apply(apply) => (Verb::Apply, &apply.task),
            Self::CreateHook(apply) => (Verb::CreateHook, &apply.task),
            Self::RemoveFinalizer(object) => (Verb::RemoveFinalizer, &object.task),
            Self::DeleteHook(object, ..) => (Verb::DeleteHook, &object.task),
            Self::Prune(object, _) => (Verb::Prune, &object.task),
            Self::Read(task) => (Verb::Read, task),
        };
        ActionId { verb, task: task.clone() }
    }
}

/// An object to send for a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply {
    /// The task.
    pub task: TaskKey,
    /// The request.
    pub request: ApplyRequest,
}

/// An object to send.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplyRequest {
    /// Its key.
    pub key: ResourceKey,
    /// The complete object: with name, namespace, finalizer and stamp.
    pub manifest: Arc<Value>,
    /// How to apply it.
    pub method: Method,
    /// The stamp in the manifest, for hooks and nameless objects.
    pub stamp: Option<String>,
    /// Whether to wait until the object, a CustomResourceDefinition, is
    /// established before the next group runs (SE-254).
    pub wait_established: bool,
}

/// An object to delete or change; only the one with this UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveState {
    /// The task it belongs to.
    pub task: TaskKey,
    /// Its key.
    pub key: ResourceKey,
    /// The API version to use.
    pub version: String,
    /// Precondition of the request; empty when the object has no UID (SE-360).
    pub uid: String,
}

/// Why a hook object is deleted (SE-290..SE-293).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeleteReason {
    /// It must be replaced by a new one.
    BeforeHookCreation,
    /// Its policy, after success.
    HookSucceeded,
    /// Its policy, after failure.
    HookFailed,
    /// The operation is being terminated.
    Terminated,
}

/// The kind of an action, without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each is documented at the action of that name")]
pub enum Verb {
    DryRun,
    CreateNamespace,
    Apply,
    CreateHook,
    RemoveFinalizer,
    DeleteHook,
    Prune,
    Read,
}

/// Identifies an action of a plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActionId {
    /// The kind of the action.
    pub verb: Verb,
    /// The task.
    pub task: TaskKey,
}

/// The outcome of one action. Actions that were not run have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionOutcome {
    /// The action.
    pub action: ActionId,
    /// Its result.
    pub result: ActionResult,
}

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionResult {
    /// Applied, or accepted. For a read: the object exists.
    Done {
        /// As printed by kubectl, such as `deployment.apps/web configured`
        /// (SE-341); not used for deletes and reads.
        message: String,
        /// UID of the object afterwards; empty if unknown.
        uid: String,
        /// Resource version afterwards; empty if unknown. The engine evaluates
        /// health only of objects that are at least this new.
        resource_version: String,
    },
    /// The object does not exist.
    Gone,
    /// Not deleted, since this other Application has it in its source, or tracks it.
    Left(String),
    /// Rejected, with the API server's message.
    Failed(String),
    /// Unknown, since the response was lost. The action is repeated after a
    /// delay; all actions are safe to repeat.
    Unknown(String),
}

/// State of the engine for one attempt. Losing it (an older store, another
/// controller) only repeats harmless work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SyncProgress {
    /// Whether the dry run of all tasks is complete.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run_done: bool,
    /// Whether there is more than one wave, as computed at the start (SE-257).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multi_step: Option<bool>,
    /// Before this time no wave starts and no health is evaluated (SE-265).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_until: Option<Timestamp>,
    /// Waves of prune tasks as computed at the start: they depend on live
    /// objects, and pruned objects no longer exist (SE-210).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prune_waves: BTreeMap<String, i64>,
    /// Why the operation is failing; SyncFail hooks may still be running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The final phase; only hooks remain to be deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<SyncEnding>,
    /// Whether the operation is terminating because of the sync timeout.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// Actions in progress whose effect cannot be derived from the cluster
    /// alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_flight: Vec<InFlight>,
    /// What the stored results do not list; read from them, and added to them at once.
    #[serde(skip)]
    pub unlisted: Option<Unlisted>,
}

/// The final phase of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncEnding {
    /// A completed phase.
    pub phase: OperationPhase,
    /// The final message.
    pub message: String,
}

/// One action that was about to run when the state was stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InFlight {
    /// `Prune`, `CreateNamespace`, or `Apply` with ApplyOutOfSyncOnly.
    pub verb: Verb,
    /// The task.
    pub task: TaskKey,
    /// The task's wave.
    pub wave: i64,
    /// Version of the object.
    pub version: String,
    /// UID of the object to delete.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// An object that the operation waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The object.
    pub key: ResourceKey,
    /// The reason.
    pub reason: WaitReason,
    /// Its state: health, finalizers; may be empty.
    pub detail: String,
    /// The start of the wait; `None` if unknown.
    pub since: Option<Timestamp>,
    /// When the wait ends by itself; `None` means never.
    pub until: Option<Timestamp>,
}

/// Reasons of waits (SE-262).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// A hook has to complete.
    HookCompletion,
    /// A resource has to become healthy.
    Health,
    /// A pruned object has to disappear.
    Deletion,
    /// An old hook object has to disappear.
    HookDeletion,
    /// A user has to confirm a deletion.
    PruneConfirmation,
    /// Other Applications have to be compared, which may have it in their sources.
    Handover,
    /// The configured delay between waves.
    WaveDelay,
    /// The response to an action was lost; it is retried.
    LostResponse,
}

impl WaitReason {
    /// As in `waiting for <reason> <group>/<kind>/<name>`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HookCompletion => "completion of hook",
            Self::Health => "healthy state of",
            Self::Deletion => "deletion of",
            Self::HookDeletion => "deletion of hook",
            Self::PruneConfirmation => "pruning confirmation of",
            Self::Handover => "comparisons before pruning of",
            Self::WaveDelay => "the delay between waves after",
            Self::LostResponse => "the response to a request for",
        }
    }
}

/// Applied resources of a stored status that it does not list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlisted {
    /// The first task after them that is listed.
    pub(super) before: TaskKey,
    /// Their digest.
    pub(super) digest: String,
}
