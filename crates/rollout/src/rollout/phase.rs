//! The phase of one Application in a rollout: Waiting, Pending, Progressing,
//! Healthy.
//!
//! `advance` is the state machine of AS-350 to AS-357 for a single
//! Application. It knows nothing of steps or budgets; the promotion from
//! Waiting to Pending is decided for the whole step.
//!
//! Principle: **a stale status is never used.** Health and sync status count
//! only if they were computed for the spec that is being rolled out, and after
//! the requested operation.

use jiff::{SignedDuration, Timestamp};

use super::entry::{Earlier, REQUESTED_BEFORE};
pub use super::entry::{Entry, EntryMark, Phase, Rules};
use super::manual_override;
pub use super::observed::{
    Compared, Deployed, Observed, ObservedOperation, RequestedOperation, SourceKey,
};
use wavegate_api::{OperationPhase, SyncStatusCode, time};
use wavegate_engine::{blocking_resource, health};

/// The sync of an entry may have completed by so much before the entry was Progressing: it is
/// observed later than it happens, and by another clock.
const OBSERVED_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// Advances the entry of one Application by what is observed.
///
/// `stored` is the entry of the last reconcile, if any. Never promotes Waiting
/// to Pending. The rule numbers are those of AS-353.
pub(crate) fn advance(
    name: &str,
    stored: Option<&Entry>,
    step: Option<usize>,
    seen: &Observed,
    rules: &Rules,
    now: Timestamp,
) -> Entry {
    let stored = stored.filter(|entry| !is_of_former(entry, seen));
    // The phase for the rules R5 to R11: an Application applies at most one of
    // them in one reconcile.
    let before = stored.map(|entry| entry.phase);
    let mut entry = stored.cloned().unwrap_or_else(|| Entry {
        application: name.to_owned(),
        phase: Phase::Waiting,
        step,
        message: "No application status found, waiting for its step".to_owned(),
        mark: None,
        target_revisions: seen.revisions.clone(),
        since: time::stored_time(now),
        earlier: Earlier::None,
    });
    entry.step = step;

    if entry.target_revisions.is_empty() || synced_by_own_operation(&entry, seen) {
        // The first revision, or the one that our own operation resolved: what
        // is being rolled out did not change, only its name became known.
        if !seen.revisions.is_empty() {
            entry.target_revisions.clone_from(&seen.revisions);
        }
    }
    // A status without a revision could not be computed, and is not a change.
    let revision_changed = !seen.revisions.is_empty() && entry.target_revisions != seen.revisions;
    let is_new = before.is_some() && (revision_changed || seen.spec_differs);
    if is_new {
        let why = if seen.spec_differs {
            "Application has a pending spec change, waiting for its step"
        } else {
            "Application has a new revision, waiting for its step"
        };
        entry.set(Phase::Waiting, why, now); // R1
        if revision_changed {
            entry.target_revisions.clone_from(&seen.revisions);
        }
    } else if before == Some(Phase::Healthy) && drifted(&entry, seen, rules) {
        entry.set(Phase::Waiting, "Application drifted (OutOfSync), waiting for its step", now); // R1d
    }

    if let Some(message) = manual_override::hold(stored, &mut entry, seen, is_new) {
        entry.hold(message, now);
        return entry;
    }
    if entry.is_held() {
        entry.set(Phase::Waiting, "The sync by a person is taken back, waiting for its step", now);
    }

    match (entry.phase, before) {
        (Phase::Waiting, _) => from_waiting(&mut entry, seen, now),
        (Phase::Pending, _) => from_pending(&mut entry, seen, rules, now),
        (Phase::Progressing, _) => from_progressing(&mut entry, seen, now),
        (Phase::Healthy, _) => {
            // R11. After a timeout, the first Synced comparison resets the
            // mark.
            if entry.timed_out() && seen.is_current() && seen.sync == SyncStatusCode::Synced {
                entry.message = "Application is synced".to_owned();
                entry.mark = None;
            }
        }
    }
    entry
}

/// Whether the entry is of an Application that was deleted and created again: it is past
/// Waiting, which needs a comparison and then an operation, and there is none. Times do not
/// decide it: the clock of the API server may differ.
fn is_of_former(entry: &Entry, seen: &Observed) -> bool {
    let has_operation = seen.operation.is_some() || seen.requested.is_some();
    match entry.phase {
        Phase::Waiting => false,
        _ if has_operation => false,
        Phase::Pending | Phase::Healthy => seen.compared == Compared::Never,
        Phase::Progressing => {
            seen.compared == Compared::Never
                || entry.mark != Some(EntryMark::FoundSynced) && !seen.has_error_condition
        }
    }
}

/// Whether the operation of this promotion syncs exactly the observed
/// revisions.
fn synced_by_own_operation(entry: &Entry, seen: &Observed) -> bool {
    entry.phase.is_in_flight()
        && seen.operation.as_ref().is_some_and(|operation| {
            operation.promotion.is_some_and(|promotion| promotion >= entry.since)
                && operation.revisions == seen.revisions
        })
}

fn drifted(entry: &Entry, seen: &Observed, rules: &Rules) -> bool {
    rules.capture_drift
        && seen.sync == SyncStatusCode::OutOfSync
        && seen.is_current()
        && !entry.timed_out()
}

/// R2 to R4.
fn from_waiting(entry: &mut Entry, seen: &Observed, now: Timestamp) {
    if seen.sync != SyncStatusCode::Synced || !seen.is_current() || seen.went_back_just_now {
        return;
    }
    if let Some(failure) = failure(entry, seen.failed_sync(), seen) {
        entry.fail(failure);
    } else if seen.is_synced_and_healthy() {
        entry.set(Phase::Healthy, "Application is already synced and healthy", now);
    } else {
        entry.set(Phase::Progressing, EntryMark::FoundSynced.prefix(), now);
        entry.mark = Some(EntryMark::FoundSynced);
    }
}

/// R5 to R8.
fn from_pending(entry: &mut Entry, seen: &Observed, rules: &Rules, now: Timestamp) {
    if let Some(operation) = began_after(entry, seen) {
        let what = match operation.phase {
            OperationPhase::Succeeded => "Operation succeeded, waiting for it to be healthy",
            OperationPhase::Failed | OperationPhase::Error | OperationPhase::Unknown => {
                "Operation completed with a failure, waiting for it to be synced and healthy"
            }
            OperationPhase::Running | OperationPhase::Terminating => "Operation is running",
        };
        entry.set(Phase::Progressing, what, now); // R5
        return;
    }
    if is_observed_since(entry, seen) && seen.has_error_condition {
        entry.set(Phase::Progressing, "Application has an error condition, see its status", now); // R6
        return;
    }
    entry.time_out(rules, now); // R7
}

/// R9 and R10.
fn from_progressing(entry: &mut Entry, seen: &Observed, now: Timestamp) {
    let found_synced = entry.mark == Some(EntryMark::FoundSynced);
    let failed = if found_synced { seen.failed_sync() } else { seen.failed_operation() };
    if let Some(failure) = failure(entry, failed, seen) {
        // Stricter than Argo CD: after a failed PostSync hook (such as a smoke
        // test) an Application may be Synced and Healthy, but must not complete
        // its step. A later successful sync does, regardless of who requests it.
        entry.fail(failure);
    } else if !found_synced && seen.hides_its_result(synced_since(entry)) {
        // A failure that nobody has seen must not be passed over.
        entry.message = format!(
            "{}: a dry run or a sync of some resources has replaced it, and status.history has no \
             success since; waiting for a sync that succeeds",
            EntryMark::ResultUnknown.prefix()
        );
        entry.mark = Some(EntryMark::ResultUnknown);
    } else if seen.is_synced_and_healthy() && seen.is_current() && !seen.went_back_just_now {
        entry.set(Phase::Healthy, "Application is synced and healthy", now);
    } else if found_synced {
        // Also while another operation runs, which may be a dry run.
    } else if is_degraded(entry, seen) {
        entry.message = format!("{}: {}", EntryMark::Degraded.prefix(), seen.why_degraded());
        entry.mark = Some(EntryMark::Degraded);
    } else if entry.mark == Some(EntryMark::Degraded) && !seen.has_sync_in_flight() {
        // It makes progress, or another operation has replaced its sync in the status.
    } else if seen.has_operation_in_flight() {
        entry.message = "Operation is running".to_owned();
        entry.mark = None;
    } else {
        entry.message = "Operation completed, waiting for it to be synced and healthy".to_owned();
        entry.mark = None;
    }
}

/// Whether an Application is Degraded after the sync of its entry.
fn is_degraded(entry: &Entry, seen: &Observed) -> bool {
    seen.health == health::Status::Degraded
        && !seen.has_sync_in_flight()
        && seen.is_judged_after_sync(synced_since(entry))
}

/// When the sync of a Progressing entry may have ended at the earliest.
fn synced_since(entry: &Entry) -> Timestamp {
    entry.since.saturating_sub(OBSERVED_AFTER).unwrap_or(entry.since)
}

/// The message of an entry whose sync has failed: in this operation, or in one before the
/// last, since when no other has synced the whole Application. It names the resource that
/// the sync failed on: a dry run may take the place of the operation.
fn failure(entry: &Entry, failed: Option<&ObservedOperation>, seen: &Observed) -> Option<String> {
    if let Some(failed) = failed {
        let why = match blocking_resource::cause_of_failure(&seen.detail) {
            "" => &failed.message,
            cause => cause,
        };
        return Some(format!("{}: {why}", EntryMark::SyncFailed.prefix()));
    }
    let was = entry.mark == Some(EntryMark::SyncFailed);
    let is_over = seen.operation.as_ref().is_some_and(ObservedOperation::has_synced);
    (was && !is_over).then(|| entry.message.clone())
}

/// The operation that was started for this Pending entry, or after it.
///
/// Our own operation is identified by its promotion time (AS-361), independent
/// of clocks.
fn began_after<'a>(entry: &Entry, seen: &'a Observed) -> Option<&'a ObservedOperation> {
    let operation = seen.operation.as_ref()?;
    if entry.owns(operation) {
        return Some(operation);
    }
    // Ours is still to come, or is requested behind it.
    if operation.is_partial {
        return None;
    }
    // One that a user requested right after ours has taken its place before this entry was
    // written as Progressing. Whatever it is: there is nothing left to sync.
    let about = entry.since.saturating_sub(REQUESTED_BEFORE).unwrap_or(entry.since);
    let is_done = operation.has_synced() && operation.revisions == seen.revisions;
    if is_done
        && operation.started_at >= about
        && seen.sync == SyncStatusCode::Synced
        && seen.is_current()
    {
        return Some(operation);
    }
    let is_later = operation.started_at >= entry.since
        && operation.finished_at.is_none_or(|finished| finished > entry.since);
    (is_later && is_observed_since(entry, seen)).then_some(operation)
}

/// The gate of AS-355: the status was computed after the entry became Pending.
fn is_observed_since(entry: &Entry, seen: &Observed) -> bool {
    seen.reconciled_at.is_none_or(|at| at >= entry.since)
}
