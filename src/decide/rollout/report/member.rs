//! One Application of a report: its phase, and why it is waited for.

use jiff::Timestamp;

use super::{Application, Count, OUTSIDE, Report, ReportedWait, State, Step, waits};
use crate::api::HealthStatus;
use crate::api::conditions::application_set::reason;
use crate::decide::blocking_resource::Blocking;
use crate::decide::rollout::phase::{Entry, Phase};
use crate::decide::rollout::wait::{OPERATION_START, Turn, WaitKind};

/// One Application of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// It, if it exists.
    pub live: Option<Application>,
    /// Its entry in the status, listed or implied.
    pub entry: Option<Entry>,
    /// The wait for it, as the status reports it.
    pub reported: Option<ReportedWait>,
    /// Its step, counted from 0; `None` when no step selects it.
    pub step: Option<usize>,
    /// The entry is not listed.
    pub(super) is_implied: bool,
    /// It is generated, and no step selects it.
    pub(super) is_outside: bool,
}

/// Why an Application is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// The kind of the reason.
    pub kind: WaitKind,
    /// The reason; may be empty.
    pub message: String,
}

impl Member {
    /// What exists, and is as yet in no report.
    pub(super) fn new(live: Option<Application>) -> Self {
        Self { live, ..Self::default() }
    }

    /// Its phase now: the status of the set follows its Applications.
    pub fn phase(&self) -> Option<Phase> {
        let entry = self.entry.as_ref()?;
        let has_started = self.live.as_ref().is_some_and(|live| live.has_started(entry));
        Some(if has_started { Phase::Progressing } else { entry.phase })
    }

    /// The start of the phase in the status.
    pub fn since(&self) -> Option<Timestamp> {
        Some(self.entry.as_ref()?.since)
    }

    /// Whether it is being deleted.
    pub fn is_going(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.deletion.is_some())
    }

    /// Whether a sync of it is requested or running.
    pub fn is_operating(&self) -> bool {
        self.live.as_ref().is_some_and(Application::is_operating)
    }

    /// Whether its whole sync has succeeded, and it is Synced and Healthy since.
    pub fn is_seen_done(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.is_done() && !live.is_partial())
    }

    /// Whether a person has synced it to something else, which holds it (ST-065).
    pub fn is_held(&self) -> bool {
        !self.is_going() && self.entry.as_ref().is_some_and(Entry::is_held)
    }

    /// Whether only another sync continues it, also when a dry run came after the one that
    /// failed.
    pub fn needs_a_sync(&self) -> bool {
        self.entry.as_ref().is_some_and(Entry::needs_a_sync)
    }
}

/// Reasons of errors of single Applications that a controller retries by itself.
const RETRIED: [&str; 3] = [
    reason::CREATE_APPLICATION_ERROR,
    reason::UPDATE_APPLICATION_ERROR,
    reason::DELETE_APPLICATION_ERROR,
];

impl Report {
    /// Whether the error of the set is over with a next attempt of its controller.
    pub(super) fn is_retried(reason: &str) -> bool {
        RETRIED.contains(&reason)
    }

    /// Whether the error of the set is that of single Applications: the others are rolled out.
    pub fn fails_for_applications(&self) -> bool {
        self.set.status.error.as_ref().is_some_and(|(reason, _)| {
            Self::is_retried(reason) || reason == reason::APPLICATION_VALIDATION_ERROR
        })
    }

    /// Whether a step is open and its Applications are rolled out.
    pub fn goes_on(&self) -> bool {
        let state = self.state();
        let fails = state == State::Failed && self.fails_for_applications();
        self.open_step.is_some() && (state == State::Rolling || fails)
    }

    /// The Applications in the order of the steps, then by name; those that no step selects
    /// come last.
    pub fn ordered(&self) -> Vec<(&str, &Member)> {
        let mut members: Vec<(&str, &Member)> =
            self.members.iter().map(|(name, member)| (name.as_str(), member)).collect();
        // Stable, so by name within a step.
        members.sort_by_key(|(_, member)| member.step.unwrap_or(usize::MAX));
        members
    }

    /// Whether a member is complete: in a rollout Healthy by the status of the set, which also
    /// finds Applications in sync whose last operation has failed; without one, by that
    /// operation.
    pub fn is_done(&self, member: &Member) -> bool {
        let Some(live) = &member.live else { return false };
        if !self.is_rolling() {
            return live.is_done();
        }
        let is_healthy = member.entry.as_ref().is_some_and(|entry| entry.phase == Phase::Healthy);
        is_healthy && !live.is_operating() && live.observed.is_synced_and_healthy()
    }

    /// Whether it uses the limit of its step: it syncs, or its sync is over and its phase is
    /// not.
    pub fn is_in_flight(&self, member: &Member) -> bool {
        if member.is_operating() {
            return true;
        }
        if !self.is_rolling() {
            let live = member.live.as_ref();
            return live.is_some_and(|live| live.observed.health == HealthStatus::Progressing);
        }
        match member.phase() {
            Some(Phase::Pending) => true,
            Some(Phase::Progressing) => !member.is_seen_done(),
            Some(Phase::Waiting | Phase::Healthy) | None => false,
        }
    }

    pub(super) fn count_of(&self, member: &Member) -> Count {
        let seen = member.live.as_ref().map(|live| &live.observed);
        let promoted = member.entry.as_ref().is_some_and(|entry| entry.is_in_flight(seen));
        Count {
            total: 1,
            done: self.is_done(member).into(),
            in_flight: self.is_in_flight(member).into(),
            promoted: promoted.into(),
        }
    }

    /// Whether no step selects it, and it needs a manual sync.
    pub fn is_outside(&self, member: &Member) -> bool {
        let rests =
            |live: &Application| live.deletion.is_none() && !live.is_operating() && !live.is_done();
        let waits = match &member.entry {
            Some(entry) => entry.phase == Phase::Waiting,
            None => member.is_outside && member.live.is_some(),
        };
        self.is_rolling()
            && member.step.is_none()
            && waits
            && member.live.as_ref().is_none_or(rests)
    }

    /// The Applications that no step selects and that need a manual sync.
    pub fn outside(&self) -> impl Iterator<Item = &str> {
        let outside = self.members.iter().filter(|(_, member)| self.is_outside(member));
        outside.map(|(name, _)| name.as_str())
    }

    /// Whether the rollout waits for it: it is in the open step and not complete; without
    /// steps, it is not Synced and Healthy, or its sync has failed.
    pub fn is_waited_for(&self, member: &Member) -> bool {
        match self.state() {
            _ if self.goes_on() => {
                member.step == self.open_step && member.phase() != Some(Phase::Healthy)
            }
            State::AllAtOnce => !member.live.as_ref().is_some_and(Application::is_done),
            State::Deleting => member.is_going(),
            State::Complete => self.is_outside(member),
            State::Unseen | State::Failed | State::SwitchedOff | State::Rolling => false,
        }
    }

    /// What is reported about a member: why the rollout waits for it, else what its entry says.
    pub fn why(&self, member: &Member) -> Why {
        let of = |kind: Option<WaitKind>, message: String| Why {
            kind: kind.unwrap_or_else(|| self.kind_of(member)),
            message,
        };
        if let Some(deletion) = member.live.as_ref().and_then(|live| live.deletion.as_ref()) {
            return of(None, deletion.message.clone());
        }
        if self.is_outside(member) {
            return of(Some(WaitKind::ManualSync), OUTSIDE.to_owned());
        }
        if let Some(reported) =
            member.reported.as_ref().filter(|reported| !reported.message.is_empty())
        {
            let (kind, message) = waits::current(reported, member);
            return of(kind, message);
        }
        let entry = member.entry.as_ref();
        let blocking = self.blocking(member).filter(|_| self.is_waited_for(member));
        // The entry may be older than what a running operation says.
        let runs = member.phase() == Some(Phase::Progressing) && member.is_operating();
        let current = blocking.filter(|blocking| blocking.resource.is_some() || runs);
        if let Some(blocking) = current.filter(|blocking| !blocking.reason.is_empty()) {
            return of(None, blocking.reason.clone());
        }
        let message = match (entry, &member.live) {
            (Some(entry), _) => entry.message.clone(),
            (None, Some(live)) if live.is_done() => String::new(),
            (None, Some(live)) => match live.blocking.reason.as_str() {
                "" if live.observed.requested.is_some() => OPERATION_START.to_owned(),
                reason => reason.to_owned(),
            },
            (None, None) => String::new(),
        };
        match blocking {
            Some(blocking) if message.is_empty() => of(None, blocking.reason.clone()),
            _ => of(None, message),
        }
    }

    /// What keeps a member from being Synced and Healthy. Resources do not block an Application
    /// whose sync has not started.
    pub fn blocking<'a>(&self, member: &'a Member) -> Option<&'a Blocking> {
        let has_started = member.phase() != Some(Phase::Waiting) && !member.is_going();
        member.live.as_ref().filter(|_| has_started).map(|live| &live.blocking)
    }

    /// The kind of a wait that no status names: that of the controller's own ladder, by the
    /// Application as it is now. Of a set without steps, by its operation.
    fn kind_of(&self, member: &Member) -> WaitKind {
        let Some(live) = &member.live else { return WaitKind::Creating };
        let kind = match (member.phase(), &member.entry) {
            (Some(phase), Some(entry)) => {
                let turn = self.step_of(member).map_or(Turn::UNLIMITED, Step::turn);
                WaitKind::of(phase, entry, &live.observed, turn)
            }
            (None, _) | (_, None) => None,
        };
        kind.unwrap_or(match () {
            () if live.is_operating() => WaitKind::Operation,
            () if live.operation().has_failed() && live.has_failed() => WaitKind::FailedOperation,
            () => WaitKind::Health,
        })
    }

    /// Start and latest end of the wait for a member, as of its operation if it runs: that
    /// knows the start of its own wait, and the status that of the phase.
    pub fn age_of(&self, member: &Member) -> (Option<Timestamp>, Option<Timestamp>) {
        let runs = member.live.as_ref().is_some_and(|live| live.operation().is_running());
        let is_pending = member.entry.as_ref().is_some_and(|entry| entry.phase == Phase::Pending);
        let seen = member.live.as_ref().and_then(|live| live.doing.since);
        match &member.reported {
            Some(reported) if runs => (seen.or(reported.since), None),
            // The limit is that of the start.
            Some(reported) if is_pending => (reported.since.or(seen), reported.until),
            Some(reported) => (reported.since.or(seen), None),
            None => (seen, None),
        }
    }
}
