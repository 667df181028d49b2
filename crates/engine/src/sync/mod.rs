//! The wave engine: applies the manifests of an Application in phases and
//! waves.
//!
//! # Overview
//!
//! An *operation* is a list of *tasks*: a manifest to apply, a hook to run, an
//! extraneous object to prune. Each has a slot, and slots run in order:
//!
//! 1. *phase*: PreSync, Sync, PostSync; SyncFail only when the rest failed,
//! 2. *wave*: the number from the sync-wave annotation, lowest first; prune
//!    tasks run through the waves backwards,
//! 3. *kind*: Namespace first, custom resources last,
//! 4. *name*.
//!
//! Tasks with the same phase and wave make up a wave. First, all tasks are
//! checked in a dry run. Then, for each wave: prune, delete the old hooks,
//! apply kind by kind, wait for the delay (`ARGOCD_SYNC_WAVE_DELAY`), and wait
//! until hooks are complete, resources healthy and pruned objects gone. Only
//! then the next wave starts. A failure stops the sequence, runs the SyncFail
//! hooks and ends the operation.
//!
//! # One reconcile
//!
//! [`step`] is a plain function from a [`SyncSnapshot`] and the time to a
//! [`SyncPlan`]. It keeps no state between two calls. The caller applies a
//! plan:
//!
//! 1. it stores `results`, `progress`, `phase` and `message` if they changed:
//!    before the actions if [`SyncPlan::needs_persist_before_actions`], and
//!    always if a plan has no actions,
//! 2. it runs the actions, group after group, and records an [`ActionOutcome`] for
//!    each,
//! 3. it calls [`step`] again with the plan's own state (stored or not), the
//!    outcomes of its actions and a new snapshot of the live objects,
//!
//! until a plan has no actions; then the next event or [`SyncPlan::wake_at`]
//! triggers the next call, without outcomes. Outcomes are never stored: they
//! are lost in a crash, and the next reconcile continues from the stored state
//! and the live objects. No hook runs twice, since a hook carries the stamp of
//! the task that created it. No prune result is lost, since prunes are
//! announced in [`SyncProgress::in_flight`]. Everything else is safe to repeat.
//!
//! An API server with Argo CD's definitions drops [`SyncProgress`] and the fields of results that
//! are ours. The process keeps them; after a restart they are restored (`restore.rs`): what
//! is in flight from results without a phase (`announce.rs`), a failure from the results, times
//! as if the wave had just been applied, and prunes run later rather than earlier.
//!
//! A status that would be too large for the API server lists only some of the results
//! (`unlisted.rs`); the process keeps all of them, and after a restart the engine adds them again.
//!
//! A live object that is older than what was applied (a stale cache) never
//! completes a task.
//!
//! # Files
//!
//! `snapshot.rs` input; `plan.rs` decisions; `task.rs` one task; `build.rs`
//! manifests to tasks; `order.rs`, `prune.rs` slots; `hooks.rs`, `options.rs`
//! annotations; `gate.rs` completion; `engine.rs`, `record.rs`, `wave.rs`,
//! `finish.rs` the decision; `messages.rs` its messages; `retry.rs` retries of
//! a failed attempt.
//!
//! Nothing here talks to a cluster, reads a clock, fails, or panics.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod announce;
mod build;
mod engine;
mod finish;
mod gate;
mod hooks;
mod messages;
mod object;
mod options;
mod order;
mod plan;
mod prune;
mod record;
mod restore;
mod retry;
mod snapshot;
mod task;
mod unlisted;
mod wave;

#[cfg(test)]
mod tests;

use jiff::Timestamp;

pub use announce::{take_announced, with_announced};
pub use hooks::{
    OPERATION_ANNOTATION, ObjectClass, classify_hook, generated_name, is_stamp_of, operation_id,
    operation_stamp,
};
pub use messages::{BY_TIMEOUT, TASKS_RUNNING, TERMINATED, as_by_kubectl};
pub use options::{
    ApplyMethod, Method, Propagation, is_unknown_option, near_option, problem_of_application,
};
pub use order::{Slot, apply_order, kind_rank};
pub use plan::{
    Action, ActionId, ActionOutcome, ActionResult, Apply, ApplyRequest, DeleteReason, Group,
    InFlight, LiveState, SyncEnding, SyncPlan, SyncProgress, TaskKey, Verb, WaitReason, Waiting,
};
pub use prune::prune_order;
pub use retry::{BadDuration, RetryDecision, decide_retry, retry_delay, retry_message};
pub use snapshot::{
    Denial, Handover, HookPolicyScope, LiveObject, NamespaceFact, ResolvedOperation, SyncSettings,
    SyncSnapshot, wave_delay,
};
pub use unlisted::{leave_out, take_unlisted};

/// Group and kind that an object defines; `None` for all but a
/// CustomResourceDefinition.
pub fn defines_kind(object: &serde_json::Value) -> Option<(String, String)> {
    let (group, kind, _) = object::defines(object)?;
    Some((group.to_owned(), kind.to_owned()))
}

/// Decides what one operation does next.
///
/// A plan without actions and without [`SyncPlan::waiting_for`] is final. For
/// an operation that is not running, the plan contains its own state.
pub fn step(snapshot: &SyncSnapshot, now: Timestamp) -> SyncPlan {
    if !snapshot.phase.is_running() {
        return SyncPlan {
            results: snapshot.results.clone(),
            progress: SyncProgress { unlisted: None, ..snapshot.progress.clone() },
            phase: snapshot.phase,
            message: snapshot.message.clone(),
            ..SyncPlan::default()
        };
    }
    engine::Engine::new(snapshot, now).decide()
}
