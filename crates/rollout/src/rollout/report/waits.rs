//! What a rollout waits for: one wait for each Application, and their order.

use jiff::Timestamp;

use super::application::ApplicationReport;
use super::member::Member;
use super::set::ReportedWait;
use super::state::{Report, ReportState};
use super::step::Step;
use crate::rollout::WAITING_LIMIT;
use crate::rollout::budget::Limit;
use crate::rollout::phase::Phase;
use crate::rollout::wait::{
    ANOTHER_OPERATION, EndedBy, OPERATION_START, RolloutWait, StepCapacity, WaitKind,
};
use wavegate_api::conditions::application_set::reason;
use wavegate_engine::blocking_resource::Blocking;

/// The reason for an Application that is done before the status of its set says so.
pub const DONE: &str = "it is Synced and Healthy, its step is being updated";

/// Why an Application outside of the steps is not rolled out.
pub const OUTSIDE: &str = "no step selects it: it waits for a manual sync";

/// Why an Application is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// The kind of the reason.
    pub kind: WaitKind,
    /// The reason; may be empty.
    pub message: String,
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
        let fails = state == ReportState::Failed && self.fails_for_applications();
        self.open_step.is_some() && (state == ReportState::Rolling || fails)
    }

    /// Whether the rollout waits for it: it is in the open step and not complete; without
    /// steps, it is not Synced and Healthy, or its sync has failed.
    pub fn is_waited_for(&self, member: &Member) -> bool {
        match self.state() {
            _ if self.goes_on() => {
                member.step == self.open_step
                    && member.phase() != Some(Phase::Healthy)
                    && member.left_out.is_none()
            }
            ReportState::AllAtOnce => !member.live.as_ref().is_some_and(ApplicationReport::is_done),
            ReportState::Deleting => member.is_going(),
            // A complete rollout names those that it is complete without.
            ReportState::Complete => {
                let kind = member.reported.as_ref().and_then(|reported| reported.kind);
                kind == Some(WaitKind::Skipped) || self.is_outside(member)
            }
            ReportState::Unseen
            | ReportState::Failed
            | ReportState::SwitchedOff
            | ReportState::Rolling => false,
        }
    }

    /// Whether it is in the open step, or there are no steps.
    fn is_in_turn(&self, member: &Member) -> bool {
        !self.is_rolling() || member.step.is_some() && member.step == self.open_step
    }

    /// The wait that the status reports for a member, unless the Application says more: that was
    /// just read, and the status follows it by up to a second.
    fn reported<'a>(&self, member: &'a Member) -> Option<(&'a ReportedWait, bool)> {
        let reported = member.reported.as_ref().filter(|reported| !reported.message.is_empty())?;
        // The Application does not say that its cluster is excluded.
        let live = member.live.as_ref().filter(|_| reported.kind != Some(WaitKind::Excluded));
        let (Some(live), Some(phase)) = (live, member.phase()) else {
            return Some((reported, false));
        };
        let is_newer = match (phase, reported.kind) {
            // A dry run says nothing about the sync that the rollout waits for.
            (_, Some(WaitKind::FailedOperation)) if live.is_partial() => false,
            // Nor does the Application know its deadline.
            (_, Some(WaitKind::Deadline)) => live.is_done(),
            // Only the controller knows that it went back, and is OutOfSync on purpose, or is skipped.
            (_, Some(kind)) if kind.is_at_rest() || kind == WaitKind::Skipped => false,
            (Phase::Progressing, kind) => kind != Some(WaitKind::Invalid),
            (Phase::Pending, _) => live.operation().is_running(),
            (Phase::Waiting, Some(WaitKind::OtherOperation | WaitKind::HeldByPerson)) => true,
            (Phase::Waiting | Phase::Healthy, _) => false,
        };
        Some((reported, is_newer))
    }

    /// The kind of the wait for a member. What no status says follows from the Application as it is
    /// now, by the controller's own ladder.
    pub fn kind(&self, member: &Member) -> WaitKind {
        if member.is_going() {
            return WaitKind::Deletion;
        }
        if self.is_outside(member) {
            return WaitKind::ManualSync;
        }
        if member.left_out.is_some() {
            return WaitKind::Skipped;
        }
        if let Some((ReportedWait { kind: Some(kind), .. }, false)) = self.reported(member) {
            return *kind;
        }
        match &member.live {
            Some(live) => self.kind_of_live(member, live),
            None => WaitKind::Creating,
        }
    }

    /// The same by the controller's ladder alone.
    fn kind_of_live(&self, member: &Member, live: &ApplicationReport) -> WaitKind {
        let seen = &live.observed;
        match (member.phase(), &member.entry) {
            _ if !self.is_rolling() => WaitKind::without_steps(seen),
            (Some(phase), Some(entry)) => WaitKind::in_step(phase, entry, seen, self.turn(member)),
            (None, _) | (_, None) => WaitKind::unlisted(seen),
        }
    }

    fn turn(&self, member: &Member) -> StepCapacity {
        self.step_of(member).map_or(StepCapacity::UNLIMITED, Step::turn)
    }

    /// What is reported about a member: why the rollout waits for it, else what its entry says.
    pub fn why(&self, member: &Member) -> Why {
        Why { kind: self.kind(member), message: self.message(member) }
    }

    fn message(&self, member: &Member) -> String {
        if let Some(deletion) = member.live.as_ref().and_then(|live| live.deletion.as_ref()) {
            return deletion.message.clone();
        }
        if self.is_outside(member) {
            return OUTSIDE.to_owned();
        }
        if let Some(why) = &member.left_out {
            return why.clone();
        }
        match self.reported(member) {
            Some((reported, false)) => return reported.message.clone(),
            Some((reported, true)) => {
                let newer = member.live.as_ref().and_then(|live| newer_message(member, live));
                return newer.unwrap_or_else(|| reported.message.clone());
            }
            None => {}
        }
        if let Some(good) = self.held_at(member) {
            return format!("it is held at {} after a rollback", good.join(", "));
        }
        let blocking = self.blocking(member).filter(|_| self.is_waited_for(member));
        // The entry may be older than what a running operation says.
        let runs = member.phase() == Some(Phase::Progressing) && member.is_operating();
        let current = blocking.filter(|blocking| blocking.resource.is_some() || runs);
        if let Some(blocking) = current.filter(|blocking| !blocking.reason.is_empty()) {
            return blocking.reason.clone();
        }
        let message = match (&member.entry, &member.live) {
            (Some(entry), _) => entry.message.clone(),
            (None, Some(live)) if live.is_done() => String::new(),
            (None, Some(live)) => match live.blocking.reason.as_str() {
                "" if live.observed.requested.is_some() => OPERATION_START.to_owned(),
                reason => reason.to_owned(),
            },
            (None, None) => String::new(),
        };
        match blocking {
            Some(blocking) if message.is_empty() => blocking.reason.clone(),
            _ => message,
        }
    }

    /// The revisions that a rollback has taken a member back to, while it stays there. The status of
    /// the set names only those of the open step, and only a moment later.
    pub(super) fn held_at<'a>(&self, member: &'a Member) -> Option<&'a [String]> {
        let is_open = member.phase().is_some_and(|phase| phase != Phase::Healthy);
        let live = member.live.as_ref().filter(|_| self.is_rolling() && is_open)?;
        live.held_at.as_deref().filter(|_| !member.is_operating())
    }

    /// What keeps a member from being Synced and Healthy. Resources do not block an Application
    /// whose sync has not started.
    pub fn blocking<'a>(&self, member: &'a Member) -> Option<&'a Blocking> {
        let has_started = member.phase() != Some(Phase::Waiting) && !member.is_going();
        member.live.as_ref().filter(|_| has_started).map(|live| &live.blocking)
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

    /// Who ends the wait for a member. What is reported of an existing Application may hide how it
    /// is: it goes on as it is, or does not.
    pub(super) fn ended_by(&self, member: &Member) -> EndedBy {
        let kind = self.kind(member);
        let Some(live) = member.live.as_ref().filter(|_| kind != WaitKind::Deletion) else {
            return kind.ended_by();
        };
        // The status follows an operation by up to a second.
        if live.is_operating() && kind != WaitKind::Confirmation {
            return EndedBy::Events;
        }
        let hides = matches!(
            kind,
            WaitKind::Invalid
                | WaitKind::Refused
                | WaitKind::FailedWrite
                | WaitKind::Excluded
                | WaitKind::SyncWindow
        );
        let kind = if hides { self.kind_of_live(member, live) } else { kind };
        match (kind.ended_by(), self.turn(member)) {
            (EndedBy::Events, turn) if member.phase() == Some(Phase::Waiting) => match turn.limit {
                Limit::AtMost(0) => EndedBy::Sync,
                _ if !turn.is_free() || self.may_be_held(member) => EndedBy::Turn,
                Limit::AtMost(_) | Limit::Unlimited => EndedBy::Events,
            },
            (ended_by, _) => ended_by,
        }
    }

    /// Whether a run or a policy may hold a Waiting member that the status does not name: it names
    /// as many as it may, and only people end these waits. What holds them is not in an Application.
    pub fn may_be_held(&self, member: &Member) -> bool {
        let is_of_people = |wait: &ReportedWait| {
            let ended_by = wait.kind.map(WaitKind::ended_by);
            matches!(ended_by, Some(EndedBy::Person | EndedBy::Word))
        };
        let is_unnamed = member.reported.is_none() && member.phase() == Some(Phase::Waiting);
        let rollout = self.set.status.rollout.as_ref().filter(|_| is_unnamed && self.goes_on());
        rollout.is_some_and(|rollout| {
            rollout.waiting.len() >= WAITING_LIMIT && rollout.waiting.iter().all(is_of_people)
        })
    }

    /// Why a member holds the rollout: only a person continues it, or it is not created, which may
    /// be over with the next attempt. What has failed in a closed step is of an earlier revision,
    /// and of no interest until its step opens.
    pub fn hold(&self, member: &Member) -> Option<Why> {
        if !self.is_in_turn(member) || self.is_done(member) || member.left_out.is_some() {
            return None;
        }
        let kind = self.kind(member);
        let is_uncreated = member.live.is_none() && kind == WaitKind::FailedWrite;
        let holds = is_uncreated || self.ended_by(member) == EndedBy::Person;
        holds.then(|| Why { kind, message: self.cause(member, kind) })
    }

    /// What a person has to end, in the few words of the operation where it says that.
    pub(super) fn cause(&self, member: &Member, kind: WaitKind) -> String {
        let live = member.live.as_ref().filter(|live| match kind {
            // A dry run has taken its place.
            WaitKind::FailedOperation => !live.is_partial(),
            kind => kind != WaitKind::HeldByPerson,
        });
        let detail = live.map(|live| live.doing.detail.clone()).filter(|detail| !detail.is_empty());
        detail.unwrap_or_else(|| self.message_or_state(member))
    }

    fn message_or_state(&self, member: &Member) -> String {
        match (self.message(member), &member.live) {
            (message, _) if !message.is_empty() => message,
            (_, None) => "the Application does not exist yet".to_owned(),
            (_, Some(live)) => {
                let of = |text: &str| if text.is_empty() { "Unknown" } else { text }.to_owned();
                format!("sync status {}, health status {}", of(&live.sync), of(&live.health))
            }
        }
    }

    /// The Applications that the rollout waits for, most important first: the [`foremost`] one and
    /// those that the status lists, else the first ones; with `all`, all of them.
    ///
    /// [`foremost`]: Self::foremost
    pub fn waits(&self, all: bool) -> Vec<RolloutWait> {
        let rollout = self.set.status.rollout.as_ref().filter(|_| self.goes_on());
        let is_listed = !all && rollout.is_some_and(|rollout| !rollout.waiting.is_empty());
        let most = if all { usize::MAX } else { WAITING_LIMIT };
        let waiting = self.waiting().into_iter().enumerate();
        let shown = waiting
            .filter(|(place, (_, member))| !is_listed || *place == 0 || member.reported.is_some());
        shown.take(most).map(|(_, (name, member))| self.wait(name, member)).collect()
    }

    /// What the rollout waits for in the first place; also before a status says that it waits, and
    /// while a complete one changes.
    pub fn foremost(&self) -> Option<RolloutWait> {
        let incomplete = || {
            let mut members = self.members.iter();
            members.find(|(_, member)| member.live.is_some() && !self.is_done(member))
        };
        let first = self.waiting().into_iter().next();
        let first = first.or_else(|| incomplete().map(|(name, member)| (name.as_str(), member)));
        first.map(|(name, member)| self.wait(name, member))
    }

    /// How many Applications the rollout waits for.
    pub fn waiting_count(&self) -> usize {
        self.members.values().filter(|member| self.is_waited_for(member)).count()
    }

    /// Those that the rollout waits for, most important first: existing ones that only a person
    /// continues, then what is in flight, then what waits; what is done, and not known to be, comes
    /// last.
    fn waiting(&self) -> Vec<(&str, &Member)> {
        let goes_on = self.goes_on();
        let is_reported = |member: &Member| goes_on && member.reported.is_some();
        let waits = |member: &Member| {
            self.is_waited_for(member) || is_reported(member) && member.left_out.is_none()
        };
        let waiting = self.members.iter().filter(|(_, member)| waits(member));
        let mut waiting: Vec<(&str, &Member)> =
            waiting.map(|(name, member)| (name.as_str(), member)).collect();
        // Stable, so by name otherwise.
        waiting.sort_by_cached_key(|(_, member)| match self.ended_by(member) {
            EndedBy::Person | EndedBy::Word if member.live.is_some() => 0,
            _ if member.phase() == Some(Phase::Progressing) && member.is_seen_done() => 3,
            _ if self.is_in_flight(member) => 1,
            EndedBy::Events | EndedBy::Turn | EndedBy::Sync | EndedBy::Word | EndedBy::Person => 2,
        });
        waiting
    }

    /// How many Applications of the open step, or of a set without steps, are in flight.
    pub fn in_flight(&self) -> usize {
        let counts = |member: &&Member| self.is_in_turn(member) && self.is_in_flight(member);
        self.members.values().filter(counts).count()
    }

    fn wait(&self, name: &str, member: &Member) -> RolloutWait {
        let live = member.live.as_ref();
        let reported = member.reported.as_ref();
        // Of the Application that was just read: the status of the set follows it.
        let blocking = self.blocking(member);
        let since = match live.and_then(|live| live.deletion.as_ref()) {
            Some(deletion) => deletion.since.parse().ok(),
            None => member.since().or(blocking.and_then(|blocking| blocking.since)),
        };
        let until = blocking.and_then(|blocking| blocking.until);
        let resource = reported.map(|reported| reported.resource.clone());
        RolloutWait {
            kind: self.kind(member),
            application: name.to_owned(),
            step: member.step.or(self.open_step).unwrap_or_default(),
            resource: resource.filter(|text| !text.is_empty()),
            message: self.message_or_state(member),
            since: reported.and_then(|reported| reported.since).or(since),
            until: until.or(reported.and_then(|reported| reported.until)),
            write: None,
        }
    }

    /// The Applications of later steps that wait until the open one is complete, in the order
    /// of the steps.
    pub fn behind(&self) -> Vec<(&str, usize)> {
        let Some(open) = self.open_step.filter(|_| self.goes_on()) else { return Vec::new() };
        let later = |(name, member): (_, &Member)| {
            let step = member.step.filter(|step| *step > open && member.left_out.is_none())?;
            (member.phase() != Some(Phase::Healthy)).then_some((name, step))
        };
        self.ordered().into_iter().filter_map(later).collect()
    }
}

/// What an Application says that the status of its set does not know yet.
fn newer_message(member: &Member, live: &ApplicationReport) -> Option<String> {
    let is_of_others = live.is_operating() && member.phase() == Some(Phase::Waiting);
    let is_in_sync = live.observed.is_synced_and_healthy() && !live.is_partial();
    match live.blocking.reason.as_str() {
        // What a person syncs is said by the entry.
        _ if member.is_held() => None,
        "" if is_of_others => Some(ANOTHER_OPERATION.to_owned()),
        found if is_of_others => Some(format!("{ANOTHER_OPERATION}: {found}")),
        "" => (!live.is_operating() && is_in_sync).then(|| DONE.to_owned()),
        found => Some(found.to_owned()),
    }
}
