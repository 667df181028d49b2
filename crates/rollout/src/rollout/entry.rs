//! The entry of an Application in `status.applicationStatus`: what a rollout persists of it
//! between two reconciles.

use jiff::{SignedDuration, Timestamp};

use super::observed::{Observed, ObservedOperation};
use wavegate_api::time::stored_time;

/// The word by which a hold is recognised, in the message of the entry.
pub(super) const HELD: &str = "HeldByPerson";

/// The settings of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long an entry may be Pending before it counts as Healthy; `None`
    /// disables the timeout (AS-356).
    pub progressing_timeout: Option<SignedDuration>,
    /// Whether a drifted Healthy Application is rolled out again (AS-354).
    pub capture_drift: bool,
}

/// What an entry knows about a person's sync that is older than its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Earlier {
    /// There was none when the target was new.
    #[default]
    None,
    /// The one that started at this time.
    Sync(Timestamp),
    /// The entry was not written by this controller, or is not listed.
    Unknown,
}

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
    pub mark: Option<EntryMark>,
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
pub(super) const REQUESTED_BEFORE: SignedDuration = SignedDuration::from_secs(3);

/// How an entry entered its phase, if the next reconcile depends on it.
///
/// An element of `status.applicationStatus` has no field for it and cannot get
/// one: the CustomResourceDefinitions of Argo CD would drop it. It is stored as
/// a fixed prefix of the message, which [`EntryMark::of`] reads. No other message is
/// parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryMark {
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
    /// It was Degraded after its sync. It has failed until it is Healthy, also while it makes
    /// progress: pods that end again and again do so in between.
    Degraded,
    /// How the last sync ended was not observed: a dry run or a sync of some resources has
    /// taken its place in the status, and the history has no success. Found again in each
    /// reconcile.
    ResultUnknown,
    /// A person has synced it to something else than what is being rolled out (ST-065).
    HeldByPerson,
}

impl EntryMark {
    const ALL: [Self; 8] = [
        Self::TimedOut,
        Self::StepClosed,
        Self::FoundSynced,
        Self::Requested,
        Self::SyncFailed,
        Self::Degraded,
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
            Self::Degraded => "Degraded after its sync, waiting for it to be healthy",
            Self::ResultUnknown => "Result of the last sync is not known",
            Self::HeldByPerson => HELD,
        }
    }

    /// The mark of a stored entry.
    pub fn of(phase: Phase, message: &str) -> Option<Self> {
        let fits = |mark: &Self| match mark {
            Self::TimedOut => phase == Phase::Healthy,
            Self::StepClosed => matches!(phase, Phase::Waiting | Phase::Pending),
            Self::FoundSynced | Self::ResultUnknown | Self::Degraded => phase == Phase::Progressing,
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
        self.phase == Phase::Healthy && self.mark == Some(EntryMark::TimedOut)
    }

    /// Why what is being rolled out has failed, if it has: its sync, or its health after that.
    pub fn failure(&self) -> Option<&str> {
        let mark =
            self.mark.filter(|mark| matches!(mark, EntryMark::SyncFailed | EntryMark::Degraded))?;
        let text = self.message.get(mark.prefix().len()..).unwrap_or_default();
        Some(text.trim_start_matches([':', ' ']))
    }

    /// Makes it Pending, with `promotion` as its identity.
    pub fn promote(&mut self, promotion: Timestamp) {
        self.phase = Phase::Pending;
        self.message = "Step is open, waiting for the operation to start".to_owned();
        self.mark = None;
        self.since = promotion;
    }

    /// Promotes an entry anew whose operation was not written within the timeout: the time of
    /// AS-356 is for an operation that does not start, and begins with it.
    pub fn promote_again(&mut self, rules: &Rules, now: Timestamp) {
        if !self.was_closed() && self.is_overdue(rules, now) {
            self.promote(stored_time(now));
        }
    }

    /// The same for an entry whose operation is requested already.
    pub fn promote_requested(&mut self, promotion: Timestamp) {
        self.promote(promotion);
        self.message = EntryMark::Requested.prefix().to_owned();
        self.mark = Some(EntryMark::Requested);
    }

    /// Whether an operation that a rollout wrote is the one of this promotion.
    pub fn owns(&self, operation: &ObservedOperation) -> bool {
        let Some(promotion) = operation.promotion else { return false };
        // One that ended before the step opened again was not requested then.
        let is_requested = || {
            let ended = operation.finished_at.and_then(|at| at.checked_add(REQUESTED_BEFORE).ok());
            self.mark == Some(EntryMark::Requested) && ended.is_none_or(|ended| ended >= self.since)
        };
        promotion >= self.since || is_requested()
    }

    /// Whether the operation of this promotion was written, or another one is in its place.
    pub(super) fn is_written(&self, seen: &Observed) -> bool {
        seen.has_operation_in_flight() || self.has_promotion(seen)
    }

    /// Whether the Application has, or had, the operation of this promotion or of a
    /// later one.
    pub(super) fn has_promotion(&self, seen: &Observed) -> bool {
        seen.promotions().any(|promotion| promotion >= self.since)
            || seen.operation.as_ref().is_some_and(|operation| self.owns(operation))
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
            EntryMark::TimedOut.prefix()
        );
        self.set(Phase::Healthy, message, now);
        self.mark = Some(EntryMark::TimedOut);
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
        self.set(phase, EntryMark::StepClosed.prefix(), now);
        self.mark = Some(EntryMark::StepClosed);
    }

    /// Returns a Pending entry to Waiting if its step was closed in between, so
    /// that it is promoted again with the full timeout.
    pub fn reopen(&mut self) {
        if self.was_closed() {
            self.phase = Phase::Waiting;
        }
    }

    fn was_closed(&self) -> bool {
        self.mark == Some(EntryMark::StepClosed)
    }

    /// Returns an entry to Waiting that a sync window denies (AS-366).
    pub fn deny(&mut self, now: Timestamp) {
        self.set(Phase::Waiting, "A sync window denies the sync, waiting for it to open", now);
    }

    /// Returns an entry to Waiting that `maxUpdate` does not permit any more (AS-341).
    pub fn revert(&mut self, now: Timestamp) {
        self.set(Phase::Waiting, "More are in flight than maxUpdate permits, waiting", now);
    }

    /// Returns an entry to Waiting that a person or a policy holds (ST-020).
    pub fn hold_back(&mut self, now: Timestamp) {
        self.set(Phase::Waiting, "Held before its operation was written, waiting", now);
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

    /// Whether a person's sync holds it.
    pub fn is_held(&self) -> bool {
        self.phase == Phase::Waiting && self.mark == Some(EntryMark::HeldByPerson)
    }

    /// Whether only a sync of the whole Application continues it: the last one has failed, or
    /// how it ended is not known.
    pub fn needs_a_sync(&self) -> bool {
        matches!(self.mark, Some(EntryMark::SyncFailed | EntryMark::ResultUnknown))
    }

    /// Holds an entry that a person has synced to something else.
    pub(super) fn hold(&mut self, message: String, now: Timestamp) {
        self.set(Phase::Waiting, message, now);
        self.mark = Some(EntryMark::HeldByPerson);
    }

    /// Keeps an entry in its phase whose sync has failed.
    pub(super) fn fail(&mut self, message: String) {
        self.message = message;
        self.mark = Some(EntryMark::SyncFailed);
    }

    pub(super) fn set(&mut self, phase: Phase, message: impl Into<String>, now: Timestamp) {
        if self.phase != phase {
            // Never backwards: the time of a promotion may be ahead of the
            // clock, and a later promotion must not get the same time.
            self.since = stored_time(now).max(self.since);
        }
        self.phase = phase;
        self.message = message.into();
        self.mark = None;
    }
}
