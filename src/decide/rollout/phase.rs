//! The phase of one Application in a rollout: Waiting, Pending, Progressing,
//! Healthy.
//!
//! [`advance`] is the state machine of AS-350 to AS-357 for a single
//! Application. It knows nothing of steps or budgets; the promotion from
//! Waiting to Pending is decided for the whole step.
//!
//! Principle: **a stale status is never used.** Health and sync status count
//! only if they were computed for the spec that is being rolled out, and after
//! the requested operation.

use jiff::{SignedDuration, Timestamp};

use super::held::{self, Earlier};
pub use super::observed::{
    Compared, Deployed, Observed, ObservedOperation, RequestedOperation, SourceKey,
};
use crate::api::OperationPhase;
use crate::api::SyncStatusCode;
use crate::decide::blocking_resource;

/// The phases of an entry in `status.applicationStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Has something to roll out; its sync was not requested.
    Waiting,
    /// Its sync was requested; the operation was not observed yet.
    Pending,
    /// The operation started; the Application is not yet Synced and Healthy.
    Progressing,
    /// The rollout of this Application is complete.
    Healthy,
}

impl Phase {
    /// The name of the phase in the status.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Pending => "Pending",
            Self::Progressing => "Progressing",
            Self::Healthy => "Healthy",
        }
    }

    /// Parses the name of the phase; `None` for any other text.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Waiting, Self::Pending, Self::Progressing, Self::Healthy]
            .into_iter()
            .find(|phase| phase.name() == name)
    }

    /// Whether it counts against `maxUpdate` of its step, whatever its Application does.
    pub fn is_in_flight(self) -> bool {
        match self {
            Self::Pending | Self::Progressing => true,
            Self::Waiting | Self::Healthy => false,
        }
    }
}

/// One element of `status.applicationStatus`: the state of an Application that
/// a rollout persists between two reconciles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The Application's name.
    pub application: String,
    /// Its phase.
    pub phase: Phase,
    /// Its step, counted from 0; `None` when no step selects it (`"-1"`).
    pub step: Option<usize>,
    /// The reason of the phase, for users.
    pub message: String,
    /// What the next reconcile has to know besides the phase.
    pub mark: Option<Mark>,
    /// The revisions of its sources at the last comparison.
    pub target_revisions: Vec<String>,
    /// When the phase began, in whole seconds, as Kubernetes stores it. For
    /// Pending it is also the identity of the promotion: each promotion of an
    /// Application has a different time.
    pub since: Timestamp,
    /// The sync by a person that is older than this target (ST-065).
    pub earlier: Earlier,
}

/// The time of a promotion may be ahead of the clock by so much.
const REQUESTED_BEFORE: SignedDuration = SignedDuration::from_secs(3);

/// The sync of an entry may have completed by so much before the entry was Progressing: it is
/// observed later than it happens, and by another clock.
const OBSERVED_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// How an entry entered its phase, if the next reconcile depends on it.
///
/// An element of `status.applicationStatus` has no field for it and cannot get
/// one: the CustomResourceDefinitions of Argo CD would drop it. It is stored as
/// a fixed prefix of the message, which [`Mark::of`] reads. No other message is
/// parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The progressing timeout made it Healthy. Drift does not reset such an
    /// entry (AS-354), so that a timeout cannot loop.
    TimedOut,
    /// Its step closed before its operation was seen to start (AS-356). If its
    /// operation is requested anyway, the rollout waits for it again when the
    /// step opens.
    StepClosed,
    /// It was found Synced without an operation of its own (R3). An earlier
    /// failed operation is not relevant for it.
    FoundSynced,
    /// Its step opened again while its operation was still requested: this operation is
    /// the one of this promotion, although it was written for an earlier one.
    Requested,
    /// The last sync of what is being rolled out has failed. Only another sync of the whole
    /// Application takes this back, not a dry run and not a sync of some resources, which
    /// take its place in the status.
    SyncFailed,
    /// How the last sync ended was not observed: a dry run or a sync of some resources has
    /// taken its place in the status, and the history has no success. Found again in each
    /// reconcile.
    ResultUnknown,
    /// A person has synced it to something else than what is being rolled out (ST-065).
    HeldByPerson,
}

impl Mark {
    const ALL: [Self; 7] = [
        Self::TimedOut,
        Self::StepClosed,
        Self::FoundSynced,
        Self::Requested,
        Self::SyncFailed,
        Self::ResultUnknown,
        Self::HeldByPerson,
    ];

    /// The prefix of the message of an entry with this mark. Messages are never
    /// truncated below the length of the longest prefix.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::TimedOut => "Progressing timeout",
            Self::StepClosed => {
                "Step closed before the operation started, waiting for it to open again"
            }
            Self::FoundSynced => "Application is synced, waiting for it to be healthy",
            Self::Requested => "Step is open again, waiting for the requested operation to start",
            Self::SyncFailed => "Sync failed, waiting for one that succeeds",
            Self::ResultUnknown => "Result of the last sync is not known",
            Self::HeldByPerson => held::HELD,
        }
    }

    /// The mark of a stored entry.
    pub fn of(phase: Phase, message: &str) -> Option<Self> {
        let fits = |mark: &Self| match mark {
            Self::TimedOut => phase == Phase::Healthy,
            Self::StepClosed => matches!(phase, Phase::Waiting | Phase::Pending),
            Self::FoundSynced | Self::ResultUnknown => phase == Phase::Progressing,
            Self::Requested => phase == Phase::Pending,
            Self::HeldByPerson => phase == Phase::Waiting,
            Self::SyncFailed => matches!(phase, Phase::Waiting | Phase::Progressing),
        };
        Self::ALL.into_iter().find(|mark| fits(mark) && message.starts_with(mark.prefix()))
    }
}

impl Entry {
    /// Whether the progressing timeout made it Healthy.
    pub fn timed_out(&self) -> bool {
        self.phase == Phase::Healthy && self.mark == Some(Mark::TimedOut)
    }

    /// Makes it Pending, with `promotion` as its identity.
    pub fn promote(&mut self, promotion: Timestamp) {
        self.phase = Phase::Pending;
        self.message = "Step is open, waiting for the operation to start".to_owned();
        self.mark = None;
        self.since = promotion;
    }

    /// The same for an entry whose operation is requested already.
    pub fn promote_requested(&mut self, promotion: Timestamp) {
        self.promote(promotion);
        self.message = Mark::Requested.prefix().to_owned();
        self.mark = Some(Mark::Requested);
    }

    /// Whether an operation that a rollout wrote is the one of this promotion.
    pub fn owns(&self, operation: &ObservedOperation) -> bool {
        let Some(promotion) = operation.promotion else { return false };
        // One that ended before the step opened again was not requested then.
        let is_requested = || {
            let ended = operation.finished_at.and_then(|at| at.checked_add(REQUESTED_BEFORE).ok());
            self.mark == Some(Mark::Requested) && ended.is_none_or(|ended| ended >= self.since)
        };
        promotion >= self.since || is_requested()
    }

    /// Moves a Pending entry of an open step to Healthy if its operation has
    /// not started within the timeout (R7, AS-356). Returns whether it did.
    pub fn time_out(&mut self, rules: &Rules, now: Timestamp) -> bool {
        if self.phase != Phase::Pending || self.was_closed() || !self.is_overdue(rules, now) {
            return false;
        }
        let seconds = rules.progressing_timeout.unwrap_or_default().as_secs();
        let message = format!(
            "{}: the operation did not start within {seconds} s, moved on as Healthy",
            Mark::TimedOut.prefix()
        );
        self.set(Phase::Healthy, message, now);
        self.mark = Some(Mark::TimedOut);
        true
    }

    fn is_overdue(&self, rules: &Rules, now: Timestamp) -> bool {
        rules.progressing_timeout.is_some_and(|timeout| now.duration_since(self.since) >= timeout)
    }

    /// Marks a Pending entry whose step has closed. The timeout is suspended;
    /// when it would have expired, the entry returns to Waiting, since it must
    /// not count as rolled out.
    pub fn close(&mut self, rules: &Rules, now: Timestamp) {
        let phase = if self.is_overdue(rules, now) { Phase::Waiting } else { Phase::Pending };
        self.set(phase, Mark::StepClosed.prefix(), now);
        self.mark = Some(Mark::StepClosed);
    }

    /// Returns a Pending entry to Waiting if its step was closed in between, so
    /// that it is promoted again with the full timeout.
    pub fn reopen(&mut self) {
        if self.was_closed() {
            self.phase = Phase::Waiting;
        }
    }

    fn was_closed(&self) -> bool {
        self.mark == Some(Mark::StepClosed)
    }

    /// Returns an entry to Waiting that a sync window denies (AS-366).
    pub fn deny(&mut self, now: Timestamp) {
        self.set(Phase::Waiting, "A sync window denies the sync, waiting for it to open", now);
    }

    /// Returns an entry to Waiting that `maxUpdate` does not permit any more (AS-341).
    pub fn revert(&mut self, now: Timestamp) {
        self.set(Phase::Waiting, "More are in flight than maxUpdate permits, waiting", now);
    }

    /// Keeps an entry Waiting that is Synced but does not fit in the status as
    /// Progressing.
    pub fn leave_waiting(&mut self, since: Timestamp) {
        self.phase = Phase::Waiting;
        self.message = "Application is synced, and not healthy yet".to_owned();
        self.mark = None;
        self.since = since;
    }

    /// Whether its operation was requested when its step closed.
    pub fn waits_for_its_request(&self, seen: &Observed) -> bool {
        let own = seen.requested.as_ref().is_some_and(|request| request.promotion.is_some());
        self.phase == Phase::Waiting && self.was_closed() && own
    }

    /// Whether it counts against `maxUpdate` of its step: also an operation that somebody else
    /// requested does.
    pub fn is_in_flight(&self, seen: Option<&Observed>) -> bool {
        self.phase.is_in_flight() || seen.is_some_and(Observed::has_operation_in_flight)
    }

    /// Whether only a sync of the whole Application continues it: the last one has failed, or
    /// how it ended is not known.
    pub fn needs_a_sync(&self) -> bool {
        matches!(self.mark, Some(Mark::SyncFailed | Mark::ResultUnknown))
    }

    /// Holds an entry that a person has synced to something else.
    fn hold(&mut self, message: String, now: Timestamp) {
        self.set(Phase::Waiting, message, now);
        self.mark = Some(Mark::HeldByPerson);
    }

    /// Keeps an entry in its phase whose sync has failed.
    fn fail(&mut self, message: String) {
        self.message = message;
        self.mark = Some(Mark::SyncFailed);
    }

    fn set(&mut self, phase: Phase, message: impl Into<String>, now: Timestamp) {
        if self.phase != phase {
            // Never backwards: the time of a promotion may be ahead of the
            // clock, and a later promotion must not get the same time.
            self.since = whole_seconds(now).max(self.since);
        }
        self.phase = phase;
        self.message = message.into();
        self.mark = None;
    }
}

/// The settings of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long an entry may be Pending before it counts as Healthy; `None`
    /// disables the timeout (AS-356).
    pub progressing_timeout: Option<SignedDuration>,
    /// Whether a drifted Healthy Application is rolled out again (AS-354).
    pub capture_drift: bool,
}

/// Advances the entry of one Application by what is observed.
///
/// `stored` is the entry of the last reconcile, if any. Never promotes Waiting
/// to Pending. The rule numbers are those of AS-353.
pub fn advance(
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
        since: whole_seconds(now),
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

    if let Some(message) = held::hold(stored, &mut entry, seen, is_new) {
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
                || entry.mark != Some(Mark::FoundSynced) && !seen.has_error_condition
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
    if seen.sync != SyncStatusCode::Synced || !seen.is_current() {
        return;
    }
    if let Some(failure) = failure(entry, seen.failed_sync(), seen) {
        entry.fail(failure);
    } else if seen.is_synced_and_healthy() {
        entry.set(Phase::Healthy, "Application is already synced and healthy", now);
    } else {
        entry.set(Phase::Progressing, Mark::FoundSynced.prefix(), now);
        entry.mark = Some(Mark::FoundSynced);
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
    let found_synced = entry.mark == Some(Mark::FoundSynced);
    let failed = if found_synced { seen.failed_sync() } else { seen.failed_operation() };
    if let Some(failure) = failure(entry, failed, seen) {
        // Stricter than Argo CD: after a failed PostSync hook (such as a smoke
        // test) an Application may be Synced and Healthy, but must not complete
        // its step. A later successful sync does, regardless of who requests it.
        entry.fail(failure);
    } else if !found_synced
        && seen.hides_its_result(entry.since.saturating_sub(OBSERVED_AFTER).unwrap_or(entry.since))
    {
        // A failure that nobody has seen must not be passed over.
        entry.message = format!(
            "{}: a dry run or a sync of some resources has replaced it, and status.history has no \
             success since; waiting for a sync that succeeds",
            Mark::ResultUnknown.prefix()
        );
        entry.mark = Some(Mark::ResultUnknown);
    } else if seen.is_synced_and_healthy() && seen.is_current() {
        entry.set(Phase::Healthy, "Application is synced and healthy", now);
    } else if found_synced {
        // Also while another operation runs, which may be a dry run.
    } else if seen.has_operation_in_flight() {
        entry.message = "Operation is running".to_owned();
        entry.mark = None;
    } else {
        entry.message = "Operation completed, waiting for it to be synced and healthy".to_owned();
        entry.mark = None;
    }
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
        return Some(format!("{}: {why}", Mark::SyncFailed.prefix()));
    }
    let was = entry.mark == Some(Mark::SyncFailed);
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

/// Truncates a time to whole seconds, the resolution of times in a status.
pub fn whole_seconds(at: Timestamp) -> Timestamp {
    // Every whole second of a timestamp is in range.
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
