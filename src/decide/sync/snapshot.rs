//! Everything that one pass of the wave engine may know.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::plan::{Outcome, Progress};
use crate::api::application::{ManagedNamespaceMetadata, RetryStrategy};
use crate::api::kind::{GroupVersionKind, Served};
use crate::api::operation::{OperationPhase, ResourceResult, SyncOperationResource};
use crate::api::resource_key::ResourceKey;
use crate::decide::health::Health;

/// The facts of one pass over one operation. The engine asks for nothing else.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What is to be done: a copy of the request (SE-051).
    pub operation: ResolvedOperation,
    /// Names this operation and no other, across restarts and Applications;
    /// part of the stamp on hooks. Must not contain `/`.
    pub operation_id: String,
    /// How many retries lie behind this attempt; 0 for the first (SE-390).
    /// Each attempt starts without `results` and `progress`.
    pub attempt: u64,
    /// When the operation began, retries included.
    pub started_at: Timestamp,
    /// The stored phase. Anything but `Running` and `Terminating` gives an
    /// empty plan: what has ended, and what nobody here understands.
    pub phase: OperationPhase,
    /// The stored message.
    pub message: String,
    /// The stored results of this attempt, oldest first (SE-053).
    pub results: Vec<ResourceResult>,
    /// The stored notes of this attempt; the default where they were lost.
    pub progress: Progress,
    /// What became of actions since the stored state was written. Empty
    /// after a restart: then the live objects tell.
    pub outcomes: Vec<Outcome>,

    /// The namespace of the Application's destination; may be empty.
    pub destination_namespace: String,
    /// Name of the project, for messages.
    pub project: String,
    /// What should exist, in source order, tracked and placed in namespaces,
    /// with `RespectIgnoreDifferences` already applied (SE-331).
    pub targets: Vec<Arc<Value>>,
    /// What exists: objects that the Application manages, hooks included,
    /// objects with the identity of a target, and the destination namespace.
    /// Without those
    /// that carry another object's tracking id (SE-116), have an owner
    /// (SE-115), or that the project hides (SE-082). A read that failed must
    /// end the pass before it gets here, for an object that is not in this
    /// map does not exist.
    pub live: BTreeMap<ResourceKey, LiveObject>,
    /// What the API server says about each kind among the targets. A kind
    /// that is not listed was not asked about: it counts as existing, and its
    /// scope as unknown.
    pub kinds: BTreeMap<GroupVersionKind, Served>,
    /// What the project forbids, by the place among the targets: what has no
    /// name yet is judged like everything else. Live objects that it forbids
    /// are not in `live`.
    pub denied: BTreeMap<usize, Denial>,
    /// Why the destination namespace may not be created or labelled.
    pub namespace_denied: Option<Denial>,
    /// Messages of `SharedResourceWarning` (SE-117), for `FailOnSharedResource`.
    pub shared: Vec<String>,
    /// Whether the destination namespace exists.
    pub namespace: NamespaceFact,
    /// `spec.syncPolicy.managedNamespaceMetadata` (SE-025).
    pub managed_namespace_metadata: Option<ManagedNamespaceMetadata>,
    /// Value of the Application's annotation `deletion-approved` (SE-313).
    pub deletion_approved_at: Option<Timestamp>,
    /// Settings of the installation.
    pub settings: Settings,
}

/// One object of the cluster, and what was computed from it.
#[derive(Clone, Debug)]
pub struct LiveObject {
    /// The object as last seen.
    pub object: Arc<Value>,
    /// Its health; absent when there is no health check for the kind. For an
    /// object that carries the hook finalizer this is its real state, even
    /// while it is being deleted (SE-260).
    pub health: Option<Result<Health, String>>,
    /// Whether it differs from its target. Without meaning for hooks.
    pub out_of_sync: bool,
    /// Whether it is tracked as the Application's own (SE-115). What is not,
    /// such as an object that a target is about to adopt (SE-119) or the
    /// destination namespace, is never pruned.
    pub tracked: bool,
    /// Why it must neither be deleted nor replaced for a hook of its name;
    /// `None` for a hook of this very Application.
    pub objection: Option<String>,
}

/// A sync request (SE-040..SE-049), resolved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResolvedOperation {
    /// The concrete revision; for several sources the first one's.
    pub revision: String,
    /// Whether extraneous objects are deleted.
    pub prune: bool,
    /// Whether to only say what would happen.
    pub dry_run: bool,
    /// `operation.sync.syncStrategy` (SE-043): without hooks.
    pub apply_only: bool,
    /// The same: delete and create again on conflict.
    pub force: bool,
    /// When not empty: only these resources, and no hooks (SE-280).
    pub resources: Vec<SyncOperationResource>,
    /// `operation.sync.syncOptions`.
    pub sync_options: Vec<String>,
    /// What to do after a failure; absent means nothing.
    pub retry: Option<RetryStrategy>,
}

impl ResolvedOperation {
    /// Whether hooks take part (SE-192).
    pub fn runs_hooks(&self) -> bool {
        !self.apply_only && self.resources.is_empty()
    }

    /// Whether a resource takes part (SE-044).
    pub(super) fn selects(&self, key: &ResourceKey) -> bool {
        let matches = |wanted: &SyncOperationResource| {
            wanted.group == key.group
                && wanted.kind == key.kind
                && wanted.name == key.name
                && (wanted.namespace.is_empty() || wanted.namespace == key.namespace)
        };
        self.resources.is_empty() || self.resources.iter().any(matches)
    }
}

/// Why the project forbids a resource (SE-206).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The kind is not on the project's lists.
    Kind,
    /// The namespace is not a destination of the project.
    Namespace,
}

/// Whether the destination namespace exists (SE-201).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceFact {
    /// It does.
    Exists,
    /// It does not.
    Missing,
    /// It could not be read; the text says why.
    Failed(String),
}

/// When a hook with `HookSucceeded` or `HookFailed` is deleted (SE-291, SE-292).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HookPolicyScope {
    /// By the end of the operation, for all hooks with the policy.
    #[default]
    Operation,
    /// By the hook's own end, as the guides say.
    Hook,
}

/// Settings that hold for all operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Pause after each wave but the last; see [`wave_delay`].
    pub wave_delay: SignedDuration,
    /// Longest time an operation may take, retries included; absent means no
    /// limit (SE-288).
    pub sync_timeout: Option<SignedDuration>,
    /// Longest time one hook may run before it counts as failed; absent means
    /// no limit (SE-601).
    pub hook_timeout: Option<SignedDuration>,
    /// Longest time a resource may take to become healthy where a later wave
    /// waits for it; absent means no limit (SE-588).
    pub wave_timeout: Option<SignedDuration>,
    /// See [`HookPolicyScope`].
    pub hook_policy_scope: HookPolicyScope,
    /// Success only once everything is healthy, also when nothing else waits
    /// for it (SE-591).
    pub wait_for_health: bool,
    /// Whether SyncFail hooks count when telling whether an operation has
    /// more than one wave (SE-257, SE-590).
    pub sync_fail_counts_as_wave: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            wave_delay: wave_delay(None),
            sync_timeout: None,
            hook_timeout: None,
            wave_timeout: None,
            hook_policy_scope: HookPolicyScope::Operation,
            wait_for_health: false,
            sync_fail_counts_as_wave: true,
        }
    }
}

/// Reads `ARGOCD_SYNC_WAVE_DELAY` in whole seconds; absent or unreadable
/// means 2, negative means none (SE-265).
pub fn wave_delay(text: Option<&str>) -> SignedDuration {
    let seconds = text.and_then(|text| text.parse::<i32>().ok()).unwrap_or(2);
    SignedDuration::from_secs(seconds.max(0).into())
}
