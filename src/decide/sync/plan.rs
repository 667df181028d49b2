//! What a pass decided: actions, and what is to be stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::options::{Method, Propagation};
use super::task::TaskKey;
use crate::api::operation::{OperationPhase, ResourceResult};
use crate::api::resource_key::ResourceKey;
use crate::api::time::to_rfc3339;

/// The decision of one pass.
#[derive(Clone, Debug, PartialEq)]
pub struct SyncPlan {
    /// What to do, group after group; see [`Group`]. Empty means: wait.
    pub actions: Vec<Group>,
    /// The new full list of results, in order of first result.
    pub results: Vec<ResourceResult>,
    /// Notes to store beside the results.
    pub progress: Progress,
    /// The phase to store. Completed phases come without actions.
    pub phase: OperationPhase,
    /// The message to store.
    pub message: String,
    /// What the operation waits for, in task order.
    pub waiting_for: Vec<Waiting>,
    /// When to call again even if no event arrives; absent means on events only.
    pub wake_at: Option<Timestamp>,
    /// Whether phase, results and progress must be stored before the actions
    /// run: something was learnt that a crash must not forget, or an action
    /// is not safe to repeat blindly.
    pub needs_persist_before_actions: bool,
    /// Mistakes in manifests and options, for conditions; never a reason to stop.
    pub warnings: Vec<String>,
    /// Whether it ends because a person or the time limit stopped it: then it
    /// is not tried again.
    pub terminated: bool,
}

impl SyncPlan {
    /// The message with what is known of the wait that it names: the state of
    /// the resource, or who holds it, and since when (SE-588, SE-600). The
    /// instant is told, not the duration, which would be another at each look.
    pub fn told(&self) -> String {
        // The message names the first hook, or else the first resource.
        let is_hook = |waiting: &&Waiting| {
            matches!(waiting.reason, WaitReason::HookCompletion | WaitReason::HookDeletion)
        };
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
    /// Whether later groups run only if every action of this one did not
    /// fail. Groups of creations go on after a failure (SE-251).
    pub stops_on_failure: bool,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Check that the object would be accepted; change nothing (SE-250).
    DryRun(Apply),
    /// Create the destination namespace, before anything else (SE-203).
    CreateNamespace(Apply),
    /// Bring a resource, or a hook that may stay from earlier, to its target.
    Apply(Apply),
    /// Create a hook that does not exist. If it does exist and carries
    /// `stamp`, that is success: an earlier pass created it and was cut off.
    CreateHook(Apply),
    /// Take the hook finalizer off one object; success when it is gone or
    /// has none (SE-295).
    RemoveFinalizer(Object),
    /// Delete a hook object.
    DeleteHook(Object, DeleteReason, Propagation),
    /// Delete an extraneous object.
    Prune(Object, Propagation),
    /// Read an object past the cache: does it exist (SE-258)?
    Read(TaskKey),
}

impl Action {
    /// What an [`Outcome`] refers to.
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
    /// Which task it is.
    pub task: TaskKey,
    /// What to send.
    pub request: ApplyRequest,
}

/// An object to send.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplyRequest {
    /// Where it is.
    pub key: ResourceKey,
    /// The object, complete: name, namespace, finalizer and stamp are set.
    pub manifest: Arc<Value>,
    /// How to send it.
    pub method: Method,
    /// The stamp in the manifest, for hooks and nameless objects.
    pub stamp: Option<String>,
    /// Whether to wait until the object, a CustomResourceDefinition, is
    /// established before the next group runs (SE-254).
    pub wait_established: bool,
}

/// An object to touch; only the one with this UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Which task it belongs to.
    pub task: TaskKey,
    /// Where it is.
    pub key: ResourceKey,
    /// The version to address it by.
    pub version: String,
    /// Precondition of the request; empty when the object shows none (SE-360).
    pub uid: String,
}

/// Why a hook object is deleted (SE-290..SE-293).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeleteReason {
    /// It is in the way of a new one.
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

/// Names an action of a plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActionId {
    /// What was to be done.
    pub verb: Verb,
    /// For which task.
    pub task: TaskKey,
}

/// What became of one action. Actions that were not run have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Which action.
    pub action: ActionId,
    /// What became of it.
    pub result: Happened,
}

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// Done, or accepted. For a read: the object exists.
    Done {
        /// In kubectl's words, such as `deployment.apps/web configured`
        /// (SE-341); not used for deletes and reads.
        message: String,
        /// UID of the object afterwards; empty when not known.
        uid: String,
        /// Resource version afterwards; empty when not known. The engine
        /// judges health only by objects that are at least this new.
        resource_version: String,
    },
    /// The object does not exist.
    Gone,
    /// Refused, with the API server's words.
    Failed(String),
    /// Nobody knows, for the answer got lost. The action is issued again
    /// after a pause; all actions are safe to repeat.
    Unknown(String),
}

/// Notes of the engine to itself about one attempt. Losing them (an older
/// store, another controller) repeats harmless work, and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Progress {
    /// Whether the dry run of all tasks is over.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run_done: bool,
    /// Whether there is more than one wave, as seen at the start (SE-257).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multi_step: Option<bool>,
    /// No wave starts and no health is judged before this (SE-265).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_until: Option<Timestamp>,
    /// Waves of prune tasks as planned at the start: they are computed from
    /// what is there, and pruned objects are not there any more (SE-210).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prune_waves: BTreeMap<String, i64>,
    /// Why the operation is failing; SyncFail hooks may still be running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The end that is decided; only hooks remain to be cleaned up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// Whether the operation is terminating because of the sync timeout.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// Actions under way whose effect cannot be told from the world alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_flight: Vec<InFlight>,
}

/// The decided end of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
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
    /// Which task.
    pub task: TaskKey,
    /// The task's wave.
    pub wave: i64,
    /// Version of the object.
    pub version: String,
    /// UID of the object to delete.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// Something the operation waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The object.
    pub key: ResourceKey,
    /// What it has to do.
    pub reason: WaitReason,
    /// What it says about itself: health, finalizers; may be empty.
    pub detail: String,
    /// Since when; absent when not known.
    pub since: Option<Timestamp>,
    /// When the wait ends by itself; absent means never.
    pub until: Option<Timestamp>,
}

/// What is awaited (SE-262).
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
    /// A person has to approve a deletion.
    PruneConfirmation,
    /// The configured pause between waves.
    WaveDelay,
    /// The answer to an action got lost; it is tried again.
    LostAnswer,
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
            Self::WaveDelay => "the delay between waves after",
            Self::LostAnswer => "an answer about",
        }
    }
}
