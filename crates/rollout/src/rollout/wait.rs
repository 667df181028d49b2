//! What a rollout waits for: the one ladder from the state of an Application of the open
//! step to the kind of its wait and the message that users see.
//!
//! The rungs, from the first that applies:
//!
//! | state | kind |
//! |---|---|
//! | validation rejected it | `Invalid` |
//! | it does not exist yet | `Creating` |
//! | its entry is Waiting, a person has synced it to something else, and no operation runs | `HeldByPerson` |
//! | Waiting, and a person or a policy holds it ([`Hold`]) | `Paused`, `Unreadable`, `Approval`, `Soak`, `FailureBudget`, `Quarantined`, `HeldBack`, `RollingBack`, `RollbackFailed` |
//! | Waiting, and a sync window denies its sync | `SyncWindow` |
//! | Waiting, and an operation runs or is requested | `OtherOperation` |
//! | Waiting, and `maxUpdate` is 0 | `ManualSync` |
//! | Waiting, and its new spec is not written or not compared, the comparison failed or is older than the end of its operation, or another Application has seen a newer revision | `Comparison` |
//! | Waiting, in sync and not Healthy | `Health` |
//! | Waiting, and as many as `maxUpdate` allows are in flight | `MaxUpdate` |
//! | Waiting, and a limit of a policy permits no more (`run/pace.rs`) | `Pace`, `MaxInFlight` |
//! | Waiting, and the status can hold no more entries in flight | `StatusFull` |
//! | Waiting otherwise | `Promotion` |
//! | Pending or Progressing, and the deadline of a policy has passed | `Deadline` |
//! | Pending, and its spec was changed before its operation was written | `Comparison` |
//! | Pending otherwise | `OperationStart` |
//! | Progressing, and its operation runs or is requested | `Operation` |
//! | Progressing, and a person or a policy holds its way back or its retry | as when it is Waiting |
//! | Progressing, and its operation failed | `FailedOperation` |
//! | Progressing otherwise | `Health` |
//! | Healthy, but another Application has seen a newer revision | `Comparison` |
//! | Healthy, but its health is now another (only with the setting of AS-331) | `Health` |
//!
//! These are more specific:
//!
//! | kind | when | specific |
//! |---|---|---|
//! | `Comparison`, `Health` | it has an error condition | `ErrorCondition` |
//! | `Operation`, `OtherOperation` | a person has to confirm deletions | `Confirmation` |
//! | `Health` | its operation is over, and it is Degraded | `Degraded` |
//! | `Health` | its operation is over, and it is OutOfSync | `OutOfSync` |
//!
//! Two kinds replace all of these: `FailedWrite` or `Refused` when the write that it waits for
//! failed or must not be done, and `Excluded` when the application controller would have to
//! act, which an annotation forbids.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use super::budget::Limit;
use super::phase::{Compared, Entry, EntryMark, Observed, ObservedOperation, Phase};
use super::run_input::{Failure, Hold, RowRun};
use super::snapshot::{Denied, Lag, Row, SlotCount, Unwritten};
pub use super::wait_kind::{EndedBy, WaitKind};
use wavegate_api::SyncStatusCode;
use wavegate_engine::health;

impl WaitKind {
    /// The kind of the wait for an existing Application in this phase, for a report of a status
    /// that names none: what only the controller knows, such as a sync window, does not count.
    /// One that is complete waits for its next comparison to say so.
    pub(super) fn in_step(
        phase: Phase,
        entry: &Entry,
        seen: &Observed,
        turn: StepCapacity,
    ) -> Self {
        let existing = Existing { phase, entry, seen, denied: None, behind: None, run: None };
        existing.rung(turn, false).map_or_else(|| Self::unlisted(seen), |rung| rung.kind())
    }

    /// The same for one that a rollout has no phase for yet.
    pub(super) fn unlisted(seen: &Observed) -> Self {
        match seen.has_operation_in_flight() {
            true => Self::of_running(seen, Self::Operation),
            false if seen.is_synced_and_healthy() || !seen.has_error => Self::Health,
            false => Self::ErrorCondition,
        }
    }

    /// The same for one of a set without steps.
    pub(super) fn without_steps(seen: &Observed) -> Self {
        let has_failed = seen.operation.as_ref().is_some_and(|last| last.phase.has_failed());
        let is_out = seen.reconciled_at.is_some() && seen.sync == SyncStatusCode::OutOfSync;
        match Self::unlisted(seen) {
            Self::Health if has_failed => Self::FailedOperation,
            Self::Health if seen.is_degraded() => Self::Degraded,
            Self::Health if is_out && !seen.is_automated => Self::ManualSync,
            Self::Health if seen.needs_a_prune => Self::OutOfSync,
            Self::ErrorCondition if has_failed => Self::FailedOperation,
            kind => kind,
        }
    }

    /// Of one whose operation, if any, did not fail.
    fn after_operation(seen: &Observed) -> Self {
        match Self::unlisted(seen) {
            Self::Health if seen.is_degraded() => Self::Degraded,
            Self::Health if seen.stays_out_of_sync() => Self::OutOfSync,
            kind => kind,
        }
    }

    /// Of one with a running or requested operation.
    const fn of_running(seen: &Observed, kind: Self) -> Self {
        if seen.needs_confirmation { Self::Confirmation } else { kind }
    }

    /// Of one that waits for a comparison.
    const fn of_comparison(seen: &Observed) -> Self {
        if seen.has_error { Self::ErrorCondition } else { Self::Comparison }
    }
}

/// The most waiting and the most stalled Applications that a plan names.
pub const WAITING_LIMIT: usize = 10;

/// An Application that the rollout is waiting for, with the reason, the start
/// and the latest end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutWait {
    /// The kind of the reason.
    pub kind: WaitKind,
    /// The Application.
    pub application: String,
    /// The step, counted from 0.
    pub step: usize,
    /// The resource that it waits for, as `apps/Deployment shop/web`, if known.
    pub resource: Option<String>,
    /// The reason in words, with the name of the resource if known.
    pub message: String,
    /// When the wait started, if known.
    pub since: Option<Timestamp>,
    /// When the wait ends by itself, if it does.
    pub until: Option<Timestamp>,
    /// The write of the Application that it waits for, if it does.
    pub write: Option<Write>,
}

/// A write of an Application that the rollout waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Its creation.
    Create,
    /// The update of its spec.
    Update,
    /// The start of its sync.
    Start,
}

impl StepCapacity {
    /// Nothing has to wait for another Application.
    pub const UNLIMITED: Self = Self {
        limit: Limit::Unlimited,
        places: SlotCount { in_flight: 0, kept: 0 },
        keeps_place: false,
        is_full: false,
    };

    fn shown(self, limit: u64) -> String {
        self.places.shown(self.keeps_place, limit, "")
    }

    /// Whether one more of the step may start.
    pub fn is_free(self) -> bool {
        self.limit.permits_more(self.places.taken(self.keeps_place))
    }
}

impl RolloutWait {
    /// The same wait after its write has failed; the reason is then that failure.
    /// No change if it waits for something else.
    #[must_use]
    pub fn after_failure(self, failure: &Unwritten) -> Self {
        let Some(write) = self.write else { return self };
        let what = match write {
            Write::Create => "it cannot be created",
            Write::Update => "its new spec cannot be written",
            Write::Start => "its sync cannot be started",
        };
        let message = format!("{what}: {}", failure.why);
        // What it was waiting for before is not at fault.
        Self { kind: kind_of(failure), message, resource: None, ..self }
    }
}

const fn kind_of(failure: &Unwritten) -> WaitKind {
    if failure.is_refused { WaitKind::Refused } else { WaitKind::FailedWrite }
}

/// How many of a step may be in flight, and are.
#[derive(Clone, Copy, Debug)]
pub struct StepCapacity {
    /// How many may be.
    pub limit: Limit,
    /// The places that are taken.
    pub(super) places: SlotCount,
    /// Whether one of them is kept for the Application that is asked about.
    pub keeps_place: bool,
    /// An Application was not promoted because the status is full.
    pub is_full: bool,
}

/// A rung of the ladder, with what its message names.
#[derive(Clone, Copy, Debug)]
enum WaitReason<'a> {
    Invalid(&'a str),
    Creating,
    HeldByPerson(&'a Entry),
    Held(&'a Hold),
    GoesBack(StepCapacity),
    SyncWindow(&'a Denied),
    OtherOperation(&'a Entry, &'a Observed),
    ManualSync(&'a Entry, &'a Observed),
    SpecIsWritten,
    NotCompared(&'a Observed),
    NoComparison(&'a Observed),
    ComparedBefore(&'a Observed),
    MaxUpdate(StepCapacity, u64),
    StatusFull,
    Promotion(&'a Entry, &'a Observed),
    OperationStart,
    Overdue(&'a Failure),
    Operation(&'a Entry, &'a Observed),
    FailedOperation(&'a Entry, &'a Observed),
    NotHealthy(&'a Entry, &'a Observed),
    Behind(&'a str, &'a Observed),
    NoLongerHealthy(&'a Observed),
}

/// An Application that exists, with what keeps it from its promotion.
#[derive(Clone, Copy)]
struct Existing<'a> {
    phase: Phase,
    entry: &'a Entry,
    seen: &'a Observed,
    denied: Option<&'a Denied>,
    behind: Option<&'a Lag>,
    run: Option<&'a RowRun>,
}

impl<'a> Existing<'a> {
    fn rung(self, turn: StepCapacity, require_live_health: bool) -> Option<WaitReason<'a>> {
        let Self { entry, seen, .. } = self;
        Some(match self.phase {
            Phase::Waiting => self.rung_of_waiting(turn),
            Phase::Pending | Phase::Progressing if let Some(failure) = self.overdue() => {
                WaitReason::Overdue(failure)
            }
            // Its spec was changed since, so that the revisions of this one are not known.
            Phase::Pending if seen.compared == Compared::Stale && !entry.is_written(seen) => {
                WaitReason::NotCompared(seen)
            }
            Phase::Pending => WaitReason::OperationStart,
            Phase::Progressing if seen.has_operation_in_flight() => {
                WaitReason::Operation(entry, seen)
            }
            Phase::Progressing
                if let Some(hold) =
                    self.hold().filter(|hold| hold.kind.is_at_rest() || self.is_retried()) =>
            {
                WaitReason::Held(hold)
            }
            // What keeps it from its retry, and not what failed before.
            Phase::Progressing if self.is_retried() => self.rung_of_waiting(turn),
            Phase::Progressing => {
                let last = seen.operation.as_ref();
                let has_failed = last.is_some_and(ObservedOperation::has_failed);
                // The entry may be older than the operation.
                let has_synced = last.is_some_and(ObservedOperation::has_synced);
                match entry.needs_a_sync() && !has_synced || has_failed {
                    true => WaitReason::FailedOperation(entry, seen),
                    false => WaitReason::NotHealthy(entry, seen),
                }
            }
            Phase::Healthy if self.run.is_some_and(|run| run.is_due_back) => {
                match (self.hold(), self.denied) {
                    (Some(hold), _) => WaitReason::Held(hold),
                    (None, Some(denied)) => WaitReason::SyncWindow(denied),
                    (None, None) => WaitReason::GoesBack(turn),
                }
            }
            // It is about to start again (ST-063).
            Phase::Healthy if self.is_retried() => self.rung_of_waiting(turn),
            Phase::Healthy => match self.behind {
                Some(lag) => WaitReason::Behind(&lag.revision, seen),
                None if require_live_health && seen.health != health::Status::Healthy => {
                    WaitReason::NoLongerHealthy(seen)
                }
                None => return None,
            },
        })
    }

    /// Whether it would start again but for what holds it.
    fn is_retried(self) -> bool {
        self.run.is_some_and(|run| run.retries())
    }

    /// How it failed, if that is by its deadline.
    fn overdue(self) -> Option<&'a Failure> {
        self.run.and_then(|run| run.failure.as_ref()).filter(|failure| failure.is_overdue)
    }

    fn hold(self) -> Option<&'a Hold> {
        self.run.and_then(|run| run.hold.as_ref())
    }

    /// Whatever keeps [`start::promote`](super::start::promote) from a promotion has a rung.
    fn rung_of_waiting(self, turn: StepCapacity) -> WaitReason<'a> {
        let Self { entry, seen, .. } = self;
        if entry.is_held() {
            // The sync of the person may be running.
            return match seen.has_operation_in_flight() {
                true => WaitReason::OtherOperation(entry, seen),
                false => WaitReason::HeldByPerson(entry),
            };
        }
        if let Some(hold) = self.hold().filter(|hold| !hold.kind.is_of_a_limit()) {
            return WaitReason::Held(hold);
        }
        if let Some(denied) = self.denied {
            return WaitReason::SyncWindow(denied);
        }
        match turn.limit {
            _ if seen.has_operation_in_flight() => WaitReason::OtherOperation(entry, seen),
            Limit::AtMost(0) => WaitReason::ManualSync(entry, seen),
            _ if seen.spec_differs => WaitReason::SpecIsWritten,
            _ if seen.compared != Compared::Current => WaitReason::NotCompared(seen),
            _ if !seen.knows_its_revisions() => WaitReason::NoComparison(seen),
            _ if !seen.is_current() => WaitReason::ComparedBefore(seen),
            _ if !seen.may_be_started() && !self.is_retried() => {
                WaitReason::NotHealthy(entry, seen)
            }
            _ if let Some(lag) = self.behind => WaitReason::Behind(&lag.revision, seen),
            Limit::AtMost(limit) if !turn.is_free() => WaitReason::MaxUpdate(turn, limit),
            _ if let Some(hold) = self.hold() => WaitReason::Held(hold),
            Limit::AtMost(_) | Limit::Unlimited if turn.is_full => WaitReason::StatusFull,
            Limit::AtMost(_) | Limit::Unlimited => WaitReason::Promotion(entry, seen),
        }
    }
}

impl<'a> WaitReason<'a> {
    /// The first rung that applies; `None` when the Application is complete.
    fn of(row: &'a Row<'a>, turn: StepCapacity, require_live_health: bool) -> Option<Self> {
        // What goes back is waited for, whatever its step waited for before.
        if row.run.is_excused() && !row.run.is_due_back {
            return None;
        }
        Self::of_any(row, turn, require_live_health)
    }

    /// The same for one that its step may go on without.
    fn of_any(row: &'a Row<'a>, turn: StepCapacity, require_live_health: bool) -> Option<Self> {
        if let Some(reason) = row.member.invalid {
            return Some(Self::Invalid(reason));
        }
        let (Some(seen), Some(entry)) = (row.member.observed, &row.entry) else {
            return Some(Self::Creating);
        };
        let (denied, behind) = (row.denied(), row.behind.as_ref());
        let run = Some(&row.run);
        Existing { phase: entry.phase, entry, seen, denied, behind, run }
            .rung(turn, require_live_health)
    }

    fn kind(&self) -> WaitKind {
        match self {
            Self::Invalid(_) => WaitKind::Invalid,
            Self::Creating => WaitKind::Creating,
            Self::HeldByPerson(_) => WaitKind::HeldByPerson,
            Self::Held(hold) => hold.kind,
            Self::GoesBack(_) => WaitKind::RollingBack,
            Self::SyncWindow(_) => WaitKind::SyncWindow,
            Self::OtherOperation(_, seen) => WaitKind::of_running(seen, WaitKind::OtherOperation),
            Self::ManualSync(..) => WaitKind::ManualSync,
            Self::SpecIsWritten => WaitKind::Comparison,
            Self::NotCompared(seen)
            | Self::NoComparison(seen)
            | Self::ComparedBefore(seen)
            | Self::Behind(_, seen) => WaitKind::of_comparison(seen),
            Self::MaxUpdate { .. } => WaitKind::MaxUpdate,
            Self::StatusFull => WaitKind::StatusFull,
            Self::Promotion(..) => WaitKind::Promotion,
            Self::OperationStart => WaitKind::OperationStart,
            Self::Overdue(_) => WaitKind::Deadline,
            Self::Operation(_, seen) => WaitKind::of_running(seen, WaitKind::Operation),
            Self::FailedOperation(..) => WaitKind::FailedOperation,
            Self::NotHealthy(_, seen) => WaitKind::after_operation(seen),
            Self::NoLongerHealthy(_) => WaitKind::Health,
        }
    }

    /// The write that the Application waits for.
    fn write(&self, row: &Row<'_>) -> Option<Write> {
        match self {
            Self::Creating => Some(Write::Create),
            Self::OperationStart => {
                let is_idle =
                    row.member.observed.is_some_and(|seen| !seen.has_operation_in_flight());
                is_idle.then_some(Write::Start)
            }
            Self::HeldByPerson(_)
            | Self::Held(_)
            | Self::SyncWindow(_)
            | Self::ManualSync(..)
            | Self::SpecIsWritten => {
                let seen = row.member.observed?;
                (!seen.has_operation_in_flight() && seen.spec_differs).then_some(Write::Update)
            }
            Self::Invalid(_)
            | Self::OtherOperation(..)
            | Self::NotCompared(_)
            | Self::NoComparison(_)
            | Self::ComparedBefore(_)
            | Self::MaxUpdate { .. }
            | Self::StatusFull
            | Self::GoesBack(_)
            | Self::Promotion(..)
            | Self::Overdue(_)
            | Self::Operation(..)
            | Self::FailedOperation(..)
            | Self::NotHealthy(..)
            | Self::Behind(..)
            | Self::NoLongerHealthy(_) => None,
        }
    }

    fn message(&self, until: Option<Timestamp>) -> String {
        match self {
            Self::Invalid(reason) => format!("the application is invalid: {reason}"),
            Self::Creating => "the application is being created".to_owned(),
            Self::HeldByPerson(entry) => entry.message.clone(),
            Self::Held(hold) => hold.message.clone(),
            Self::GoesBack(turn) => match turn.limit {
                Limit::AtMost(limit) if !turn.is_free() => {
                    format!("it goes back once maxUpdate permits it: {}", turn.shown(limit))
                }
                Limit::AtMost(_) | Limit::Unlimited => {
                    "it goes back to its last good revisions".to_owned()
                }
            },
            Self::SyncWindow(denied) => format!("a sync window denies it: {}", denied.reason),
            Self::OtherOperation(entry, _) if entry.is_held() => entry.message.clone(),
            Self::OtherOperation(_, seen) => with_detail(&ANOTHER_OPERATION, seen),
            Self::ManualSync(entry, seen) => {
                let wait = "maxUpdate is 0: it waits for a manual sync";
                match failure_of(entry, seen) {
                    Some(failure) => format!("{wait}; {failure}"),
                    None => wait.to_owned(),
                }
            }
            Self::SpecIsWritten => "its new spec is being written".to_owned(),
            Self::NotCompared(seen) => with_detail(&"its new spec has not been compared yet", seen),
            Self::NoComparison(seen) => with_detail(&"its comparison failed", seen),
            Self::ComparedBefore(seen) => {
                with_detail(&"it has not been compared since the end of its operation", seen)
            }
            Self::MaxUpdate(turn, limit) => turn.shown(*limit),
            Self::StatusFull => {
                "as many Applications are in flight as the status of the ApplicationSet can hold"
                    .to_owned()
            }
            // It names what the sync failed on.
            Self::Promotion(entry, _) if entry.mark == Some(EntryMark::SyncFailed) => {
                entry.message.clone()
            }
            Self::Promotion(entry, seen) => with_detail(&entry.message, seen),
            Self::OperationStart => match until {
                Some(until) => format!("{OPERATION_START}, until {until} at most"),
                None => OPERATION_START.to_owned(),
            },
            Self::Overdue(failure) => failure.message.clone(),
            Self::Operation(entry, seen)
            | Self::FailedOperation(entry, seen)
            | Self::NotHealthy(entry, seen) => message_of_sync(entry, seen),
            // A failed comparison says why.
            Self::Behind(revision, seen) => {
                let what = format_args!("it has not been compared with revision {revision} yet");
                match seen.sync {
                    SyncStatusCode::Unknown => with_detail(&what, seen),
                    _ => what.to_string(),
                }
            }
            Self::NoLongerHealthy(seen) => {
                with_detail(&format_args!("its health is now {:?}", seen.health), seen)
            }
        }
    }
}

/// The message about an operation that is requested, without its limit.
pub const OPERATION_START: &str = "the operation to start";

/// The message about an operation of another client.
pub const ANOTHER_OPERATION: &str = "another operation is running";

/// The failure of a sync of the current revision, which a person has to repeat.
fn failure_of(entry: &Entry, seen: &Observed) -> Option<String> {
    match &seen.operation {
        Some(last) if last.has_failed() && last.revisions == seen.revisions => {
            Some(match seen.detail.as_str() {
                "" => format!("its sync failed: {}", last.message),
                detail => detail.to_owned(),
            })
        }
        Some(_) | None if entry.mark == Some(EntryMark::SyncFailed) => Some(entry.message.clone()),
        Some(_) | None => None,
    }
}

fn message_of_sync(entry: &Entry, seen: &Observed) -> String {
    // A dry run or a sync of some resources has taken its place in the status.
    if entry.needs_a_sync() && seen.is_partial() {
        entry.message.clone()
    } else if !seen.detail.is_empty() {
        // The resource says more than the states of the Application.
        seen.detail.clone()
    } else if seen.result_is_unknown() {
        // These states are older than its sync.
        let states = format_args!("{:?}, {:?} before it", seen.sync, seen.health);
        format!("it has not been compared since the end of its sync ({states})")
    } else {
        format!("{:?}, {:?}", seen.sync, seen.health)
    }
}

fn with_detail(what: &dyn fmt::Display, seen: &Observed) -> String {
    match seen.detail.as_str() {
        "" => what.to_string(),
        detail => format!("{what}: {detail}"),
    }
}

/// Whether an Application is complete: nothing of its step waits for it.
pub(super) fn is_complete(row: &Row<'_>, require_live_health: bool) -> bool {
    WaitReason::of(row, StepCapacity::UNLIMITED, require_live_health).is_none()
}

/// An Application that is not complete, as far as it costs nothing to say.
pub(super) struct Unfinished<'a> {
    row: &'a Row<'a>,
    rung: WaitReason<'a>,
    write: Option<Write>,
    /// The kind of its wait.
    pub kind: WaitKind,
}

impl<'a> Unfinished<'a> {
    /// `None` when it is complete.
    pub fn of(row: &'a Row<'a>, turn: StepCapacity, require_live_health: bool) -> Option<Self> {
        Some(Self::at(row, WaitReason::of(row, turn, require_live_health)?))
    }

    /// The same for one that a person skips: whatever is wrong with it, nobody has to act.
    pub fn of_skipped(row: &'a Row<'a>) -> Option<Self> {
        let unfinished = Self::at(row, WaitReason::of_any(row, StepCapacity::UNLIMITED, false)?);
        Some(Self { kind: WaitKind::Skipped, ..unfinished })
    }

    fn at(row: &'a Row<'a>, rung: WaitReason<'a>) -> Self {
        let write = rung.write(row);
        let kind = match (row.member.unwritten.filter(|_| write.is_some()), rung.kind()) {
            (Some(failure), _) => kind_of(failure),
            (None, kind) if row.member.excluded.is_some() && kind.is_for_the_controller() => {
                WaitKind::Excluded
            }
            (None, kind) => kind,
        };
        Self { row, rung, write, kind }
    }

    /// The whole wait in a step, counted from 0; `timeout` is that of Pending Applications.
    pub fn wait(&self, step: usize, timeout: Option<jiff::SignedDuration>) -> RolloutWait {
        let Self { row, rung, .. } = self;
        let (entry, seen) = (row.entry.as_ref(), row.member.observed);
        let until = match rung {
            WaitReason::SyncWindow(denied) => denied.until,
            WaitReason::Held(hold) => hold.until,
            WaitReason::OperationStart => {
                entry.and_then(|entry| entry.since.checked_add(timeout?).ok())
            }
            _ => None,
        };
        // The next attempt of its operation, which is not started in a denied window.
        let attempt = seen.filter(|seen| {
            seen.has_operation_in_flight() && !matches!(rung, WaitReason::SyncWindow(_))
        });
        let until = until.or(attempt.and_then(|seen| seen.until));
        let message = rung.message(until);
        let until = until.or(row.run.deadline);
        let excluded = row.member.excluded.filter(|_| self.kind == WaitKind::Excluded);
        let (message, secret) = match excluded {
            Some(excluded) => (format!("{message}; {}", excluded.why), excluded.secret.as_deref()),
            None => (message, None),
        };
        let wait = RolloutWait {
            kind: self.kind,
            application: row.member.name.to_owned(),
            step,
            resource: secret.or(row.member.resource).map(str::to_owned),
            message,
            since: entry.map(|entry| entry.since),
            until,
            write: self.write,
        };
        match row.member.unwritten {
            Some(failure) => wait.after_failure(failure),
            None => wait,
        }
    }
}

/// The Applications that are waited for because of one kind of reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindCount {
    /// How many.
    pub count: u64,
    /// Since when the first of them, if known.
    pub since: Option<Timestamp>,
}

/// Adds a wait.
pub(super) fn add(
    waits: &mut BTreeMap<WaitKind, KindCount>,
    kind: WaitKind,
    since: Option<Timestamp>,
) {
    let wait = waits.entry(kind).or_default();
    wait.count += 1;
    wait.since = [wait.since, since].into_iter().flatten().min();
}
