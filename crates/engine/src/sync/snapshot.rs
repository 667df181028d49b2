//! The input of one reconcile of the wave engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::object::is_namespace;
use super::options::AppOptions;
use super::plan::{ActionOutcome, SyncPlan, SyncProgress, TaskKey, Verb};
use crate::health::Health;
use wavegate_api::Raw;
use wavegate_api::app_spec::{ManagedNamespaceMetadata, RetryStrategy};
use wavegate_api::kind::{GroupVersionKind, Served};
use wavegate_api::operation::{OperationPhase, ResourceResult, ResultCode, SyncOperationResource};
use wavegate_api::resource_key::ResourceKey;

/// The input of one reconcile of one operation. The engine uses nothing else.
#[derive(Clone, Debug)]
pub struct SyncSnapshot {
    /// The request: a copy (SE-051).
    pub operation: ResolvedOperation,
    /// Identifies this operation across restarts and Applications; part of the
    /// stamp on hooks. Must not contain `/`.
    pub operation_id: String,
    /// The number of retries before this attempt; 0 for the first (SE-390).
    /// Each attempt starts without `results` and `progress`.
    pub attempt: u64,
    /// When the operation began, retries included.
    pub started_at: Timestamp,
    /// The stored phase. Any phase but `Running` and `Terminating` results in
    /// an empty plan: the operation has ended or the phase is unknown.
    pub phase: OperationPhase,
    /// The stored message.
    pub message: String,
    /// The stored results of this attempt, oldest first (SE-053).
    pub results: Vec<ResourceResult>,
    /// The stored progress of this attempt; the default if it was lost.
    pub progress: SyncProgress,
    /// Outcomes of actions since the state was stored. Empty after a restart:
    /// then the live objects are used.
    pub outcomes: Vec<ActionOutcome>,

    /// The namespace of the Application's destination; may be empty.
    pub destination_namespace: String,
    /// Name of the project, for messages.
    pub project: String,
    /// The targets, in source order, with tracking and namespaces, and with
    /// `RespectIgnoreDifferences` applied (SE-331).
    pub targets: Vec<Arc<Value>>,
    /// Live objects: those that the Application manages, hooks included,
    /// objects with the identity of a target, and the destination namespace.
    /// Without those that carry another object's tracking id (SE-116), have an
    /// owner (SE-115), or that the project hides (SE-082). A failed read must
    /// end the reconcile earlier, since an object that is not in this map does
    /// not exist.
    pub live: BTreeMap<ResourceKey, LiveObject>,
    /// Which of them other Applications have in their sources, or may have: they are not pruned.
    pub handovers: BTreeMap<ResourceKey, Handover>,
    /// Discovery results for each kind among the targets. A kind that is not
    /// listed was not requested: it counts as existing, with unknown scope.
    pub kinds: BTreeMap<GroupVersionKind, Served>,
    /// Targets that the project forbids, by index: a target without a name is
    /// checked like all others. Forbidden live objects are not in `live`.
    pub denied: BTreeMap<usize, Denial>,
    /// Why the destination namespace may not be created or labelled.
    pub namespace_denied: Option<Denial>,
    /// Messages of `SharedResourceWarning` (SE-117), for `FailOnSharedResource`.
    pub shared: Vec<String>,
    /// Whether the destination namespace exists.
    pub namespace: NamespaceFact,
    /// `spec.syncPolicy.managedNamespaceMetadata` (SE-025).
    pub managed_namespace_metadata: Option<ManagedNamespaceMetadata>,
    /// Whether the Application tracks the destination namespace, which is not in its source any
    /// more: it has that metadata also without the option `CreateNamespace` (SE-144).
    pub tracks_namespace: bool,
    /// Value of the Application's annotation `deletion-approved` (SE-313).
    pub deletion_approved_at: Option<Timestamp>,
    /// SyncSettings of the installation.
    pub settings: SyncSettings,
}

impl SyncSnapshot {
    /// Whether the destination namespace is as this operation has to make it: it was applied, or
    /// the source has one of its own, which managed metadata does not change (SE-202).
    pub fn has_namespace(&self, plan: &SyncPlan) -> bool {
        let name = self.destination_namespace.as_str();
        let is_applied = plan.results.iter().any(|row| {
            let is_it = row.group.is_empty() && row.kind == "Namespace" && row.name == name;
            is_it && row.status == ResultCode::Synced
        });
        let mut targets = self.targets.iter();
        let is_declared = targets.any(|target| is_namespace(target) && target.name() == name);
        let is_over = is_declared && plan.phase == OperationPhase::Succeeded;
        let creates = self.operation.options().create_namespace || self.tracks_namespace;
        creates && !self.operation.dry_run && (is_applied || is_over)
    }

    /// Whether the stored progress was dropped: tasks have run or are announced, and it does
    /// not say so; or the stored status is not the whole one. The destination namespace may be
    /// created before.
    pub(super) fn has_lost_progress(&self) -> bool {
        let namespace = |key: &TaskKey| {
            let resource = &key.resource;
            resource.kind == "Namespace"
                && resource.group.is_empty()
                && resource.name == self.destination_namespace
        };
        let mut announced = self.progress.in_flight.iter();
        let mut results = self.results.iter();
        if self.progress.unlisted.is_some() {
            return true;
        }
        !self.progress.dry_run_done
            && !self.operation.dry_run
            && (announced.any(|action| action.verb != Verb::CreateNamespace)
                || results.any(|result| !namespace(&TaskKey::of(result))))
    }
}

/// Why an object that is no longer in the source is not pruned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handover {
    /// These other Applications have it in their sources, or track what is deleted with it.
    Left(String),
    /// These other Applications are compared first, since they may have it in their sources.
    Undecided(String),
}

/// One live object with computed state.
#[derive(Clone, Debug)]
pub struct LiveObject {
    /// The object as last observed.
    pub object: Arc<Value>,
    /// Its health; `None` when there is no health check for the kind. For an
    /// object with the hook finalizer this is its real state, even while it is
    /// being deleted (SE-260).
    pub health: Option<Result<Health, String>>,
    /// Whether it differs from its target. Not used for hooks.
    pub out_of_sync: bool,
    /// Whether it is tracked as a resource of the Application (SE-115). Other
    /// objects, such as one that a target is about to adopt (SE-119) or the
    /// destination namespace, are never pruned.
    pub tracked: bool,
    /// Why it must neither be deleted nor replaced for a hook of its name;
    /// `None` for a hook of this Application.
    pub objection: Option<String>,
    /// Whether it is the Application of this operation, which its own source contains. It is
    /// never awaited: its deletion waits for the end of the operation (SE-513), and its
    /// health may depend on later waves.
    pub is_itself: bool,
}

/// A sync request (SE-040..SE-049), resolved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResolvedOperation {
    /// The resolved revision; that of the first source if there are several.
    pub revision: String,
    /// Whether extraneous objects are deleted.
    pub prune: bool,
    /// Whether it is a dry run.
    pub dry_run: bool,
    /// `operation.sync.syncStrategy` (SE-043): without hooks.
    pub apply_only: bool,
    /// The same: delete and recreate on conflict.
    pub force: bool,
    /// When not empty: only these resources, and no hooks (SE-280).
    pub resources: Vec<SyncOperationResource>,
    /// `operation.sync.syncOptions`.
    pub sync_options: Vec<String>,
    /// The retry strategy; `None` means no retries.
    pub retry: Option<RetryStrategy>,
}

impl ResolvedOperation {
    /// Whether hooks take part (SE-192).
    pub fn runs_hooks(&self) -> bool {
        !self.apply_only && self.resources.is_empty()
    }

    /// Its options.
    pub(super) fn options(&self) -> AppOptions {
        AppOptions { force: self.force, ..AppOptions::of(&self.sync_options) }
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

/// Why the project forbids a resource (SE-206), with the rule that denies it and what would
/// permit it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The kind is not on the project's lists.
    Kind(String),
    /// The namespace is not a destination of the project.
    Namespace(String),
}

/// Whether the destination namespace exists (SE-201).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceFact {
    /// It does.
    Exists,
    /// It does not.
    Missing,
    /// It could not be read; the text is the reason.
    Failed(String),
}

/// When a hook with `HookSucceeded` or `HookFailed` is deleted (SE-291, SE-292).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HookPolicyScope {
    /// At the end of the operation, for all hooks with the policy.
    #[default]
    Operation,
    /// When the hook itself has completed, as documented.
    Hook,
}

/// SyncSettings that hold for all operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncSettings {
    /// Delay after each wave but the last; see [`wave_delay`].
    pub wave_delay: SignedDuration,
    /// Longest duration of an operation, retries included; `None` means no
    /// limit (SE-288).
    pub sync_timeout: Option<SignedDuration>,
    /// Longest duration of one hook before it counts as failed; `None` means no
    /// limit (SE-601).
    pub hook_timeout: Option<SignedDuration>,
    /// Longest time for a resource to become healthy if a later wave waits for
    /// it; `None` means no limit (SE-588).
    pub wave_timeout: Option<SignedDuration>,
    /// See [`HookPolicyScope`].
    pub hook_policy_scope: HookPolicyScope,
    /// Success only once everything is healthy, even if no later wave waits for
    /// it (SE-591).
    pub wait_for_health: bool,
    /// Whether SyncFail hooks count for the number of waves of an operation
    /// (SE-257, SE-590).
    pub sync_fail_counts_as_wave: bool,
    /// Whether SyncFail hooks run also when tasks are not valid, or the dry run fails (SE-273,
    /// SE-589).
    pub sync_fail_on_invalid: bool,
    /// Whether hooks get a finalizer, so that they stay until their result is read (SE-194).
    pub hook_finalizer: bool,
}

impl SyncSettings {
    /// When an operation that has started then has to stop; `None` without a limit (SE-288).
    pub fn deadline(&self, started_at: Timestamp) -> Option<Timestamp> {
        let limit = self.sync_timeout.filter(|limit| limit.is_positive())?;
        started_at.checked_add(limit).ok()
    }
}

impl Default for SyncSettings {
    fn default() -> Self {
        Self {
            wave_delay: wave_delay(None),
            sync_timeout: None,
            hook_timeout: None,
            wave_timeout: None,
            hook_policy_scope: HookPolicyScope::Operation,
            wait_for_health: false,
            sync_fail_counts_as_wave: true,
            sync_fail_on_invalid: false,
            hook_finalizer: true,
        }
    }
}

/// Parses `ARGOCD_SYNC_WAVE_DELAY` in whole seconds; absent or invalid means 2,
/// negative means none (SE-265).
pub fn wave_delay(text: Option<&str>) -> SignedDuration {
    let seconds = text.and_then(|text| text.parse::<i32>().ok()).unwrap_or(2);
    SignedDuration::from_secs(seconds.max(0).into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::SyncSnapshot;
    use crate::sync::SyncPlan;
    use crate::sync::tests::world::World;
    use wavegate_api::operation::{OperationPhase, ResourceResult, ResultCode};

    /// It was applied, or the operation is over and its source has the namespace (SE-202).
    #[test]
    fn the_namespace_is_as_an_operation_makes_it_se_202() {
        let row = |group: &str, kind: &str, name: &str, status| ResourceResult {
            group: group.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            status,
            ..ResourceResult::default()
        };
        let applied = row("", "Namespace", "default", ResultCode::Synced);
        let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "default"}});
        let (running, succeeded) = (OperationPhase::Running, OperationPhase::Succeeded);
        let creates: fn(&mut SyncSnapshot) =
            |seen| seen.operation.sync_options = vec!["CreateNamespace=true".to_owned()];
        let tracks: fn(&mut SyncSnapshot) = |seen| seen.tracks_namespace = true;
        let dry_run: fn(&mut SyncSnapshot) = |seen| {
            seen.tracks_namespace = true;
            seen.operation.dry_run = true;
        };
        let neither: fn(&mut SyncSnapshot) = |_| {};
        let skipped = row("", "Namespace", "default", ResultCode::PruneSkipped);
        for (name, change, phase, rows, target, want) in [
            ("applied", creates, running, vec![applied.clone()], None, true),
            ("applied, as it is tracked", tracks, running, vec![applied.clone()], None, true),
            ("not by this operation", neither, running, vec![applied.clone()], None, false),
            ("a dry run", dry_run, running, vec![applied], None, false),
            ("no result", creates, running, vec![], None, false),
            ("another result", creates, running, vec![skipped], None, false),
            (
                "another namespace",
                creates,
                running,
                vec![row("", "Namespace", "other", ResultCode::Synced)],
                None,
                false,
            ),
            (
                "another kind",
                creates,
                running,
                vec![row("", "Pod", "default", ResultCode::Synced)],
                None,
                false,
            ),
            (
                "another group",
                creates,
                running,
                vec![row("x", "Namespace", "default", ResultCode::Synced)],
                None,
                false,
            ),
            ("declared, and over", creates, succeeded, vec![], Some(namespace("default")), true),
            ("declared, and not over", creates, running, vec![], Some(namespace("default")), false),
            ("another one declared", creates, succeeded, vec![], Some(namespace("other")), false),
            ("another kind declared", creates, succeeded, vec![], Some(pod), false),
        ] {
            let mut seen = World::new([]).snapshot();
            seen.targets = target.into_iter().map(Arc::new).collect();
            change(&mut seen);
            let plan = SyncPlan { phase, results: rows, ..SyncPlan::default() };
            assert_eq!(seen.has_namespace(&plan), want, "{name}");
        }
    }
}
