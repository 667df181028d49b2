//! What a rollout waits for.

use super::{Application, Member, Report, ReportedWait, State};
use crate::decide::rollout::WAITING_LIMIT;
use crate::decide::rollout::phase::Phase;
use crate::decide::rollout::wait::{ANOTHER_OPERATION, Wait, WaitKind};

/// The reason for an Application that is done before the status of its set says so.
pub const DONE: &str = "it is Synced and Healthy, its step is being updated";

/// Why an Application outside of the steps is not rolled out.
pub const OUTSIDE: &str = "no step selects it: it waits for a manual sync";

/// What a rollout that goes on is waiting for, in the first place.
#[derive(Clone, Debug)]
pub enum Foremost<'a> {
    /// Its set is being deleted.
    Deletion,
    /// An Application has failed, and why.
    Failed(&'a str, &'a Member, super::Failure),
    /// An operation or a sync that has begun, and how many more are in flight.
    Moving(&'a str, &'a Member, usize),
    /// What the status reports.
    Reported(&'a ReportedWait),
    /// It is done, which the status does not say yet.
    Done(&'a str),
    /// It is not complete.
    Incomplete(&'a str, &'a Application),
    /// Nothing is known.
    Unknown,
}

/// The kind and the reason of a wait by the Application that was just read: the status of the
/// set follows it by up to a second. Without a kind, it follows from the state of the Application.
pub(super) fn current(reported: &ReportedWait, member: &Member) -> (Option<WaitKind>, String) {
    let unchanged = || (reported.kind, reported.message.clone());
    // The Application does not say that its cluster is excluded.
    let live = member.live.as_ref().filter(|_| reported.kind != Some(WaitKind::Excluded));
    let (Some(live), Some(phase)) = (live, member.phase()) else { return unchanged() };
    let follows = match phase {
        Phase::Progressing => reported.kind != Some(WaitKind::Invalid),
        Phase::Pending => live.operation().is_running(),
        Phase::Waiting => reported.kind == Some(WaitKind::OtherOperation),
        Phase::Healthy => false,
    };
    // A dry run says nothing about the sync that the rollout waits for.
    let is_hidden = reported.kind == Some(WaitKind::FailedOperation) && live.is_partial();
    if !follows || is_hidden {
        return unchanged();
    }
    let other = Some(WaitKind::OtherOperation);
    let is_in_sync = live.observed.is_synced_and_healthy() && !live.is_partial();
    match live.blocking.reason.as_str() {
        "" if live.is_operating() && phase == Phase::Waiting => {
            (other, ANOTHER_OPERATION.to_owned())
        }
        found if live.is_operating() && phase == Phase::Waiting => {
            (other, format!("{ANOTHER_OPERATION}: {found}"))
        }
        "" if !live.is_operating() && is_in_sync => (None, DONE.to_owned()),
        "" => unchanged(),
        found => (None, found.to_owned()),
    }
}

impl Report {
    /// The Applications that the rollout waits for, most important first: those that the
    /// status lists, else the first ones; with `all`, all of them.
    pub fn waits(&self, all: bool) -> Vec<Wait> {
        let listed = match (&self.set.status.rollout, self.goes_on()) {
            (Some(rollout), true) => rollout.waiting.as_slice(),
            (None, _) | (_, false) => &[],
        };
        let mut names: Vec<&str> =
            listed.iter().map(|reported| reported.application.as_str()).collect();
        if all || listed.is_empty() {
            let most = if all { usize::MAX } else { WAITING_LIMIT };
            let waited = self.ordered().into_iter().filter(|(_, member)| {
                // The status has them in its own order.
                (listed.is_empty() || member.reported.is_none()) && self.is_waited_for(member)
            });
            names.extend(waited.take(most).map(|(name, _)| name));
        }
        let none = Member::default();
        let wait = |name: &str| self.wait(name, self.members.get(name).unwrap_or(&none));
        names.into_iter().map(wait).collect()
    }

    /// How many Applications the rollout waits for.
    pub fn waiting_count(&self) -> usize {
        self.members.values().filter(|member| self.is_waited_for(member)).count()
    }

    fn wait(&self, name: &str, member: &Member) -> Wait {
        let why = self.why(member);
        let live = member.live.as_ref();
        let reported = member.reported.as_ref();
        // Of the Application that was just read: the status of the set follows it.
        let blocking = self.blocking(member);
        let since = match live.and_then(|live| live.deletion.as_ref()) {
            Some(deletion) => deletion.since.parse().ok(),
            None => member.since().or(blocking.and_then(|blocking| blocking.since)),
        };
        let until = blocking.and_then(|blocking| blocking.until);
        let resource =
            reported.map(|reported| reported.resource.clone()).filter(|text| !text.is_empty());
        let message = match (why.message, live) {
            (message, _) if !message.is_empty() => message,
            (_, None) => "the Application does not exist yet".to_owned(),
            (_, Some(live)) => {
                let of = |text: &str| if text.is_empty() { "Unknown" } else { text }.to_owned();
                format!("sync status {}, health status {}", of(&live.sync), of(&live.health))
            }
        };
        Wait {
            kind: why.kind,
            application: name.to_owned(),
            step: member.step.or(self.open_step).unwrap_or_default(),
            resource,
            message,
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
            let step = member.step.filter(|step| *step > open)?;
            (member.phase() != Some(Phase::Healthy)).then_some((name, step))
        };
        self.ordered().into_iter().filter_map(later).collect()
    }

    /// What the rollout is waiting for in the first place: a failed Application, then what its
    /// status waits for, as far as it has begun, then operations, then the rest of its status.
    pub fn foremost(&self) -> Foremost<'_> {
        if self.state() == State::Deleting {
            return Foremost::Deletion;
        }
        let members = || self.members.iter().map(|(name, member)| (name.as_str(), member));
        let failed = members().find_map(|(name, member)| {
            let failure = self.failure(member).filter(|failure| !failure.why.is_empty())?;
            Some(Foremost::Failed(name, member, failure))
        });
        if let Some(failed) = failed {
            return failed;
        }
        let is_in_flight = |member: &Member| {
            let is_open = !self.is_rolling() || member.step == self.open_step;
            is_open && self.is_in_flight(member)
        };
        let moving = |name, member| {
            let all = members().filter(|(_, member)| is_in_flight(member)).count();
            Foremost::Moving(name, member, all.saturating_sub(1))
        };
        let rollout = self.set.status.rollout.as_ref();
        let reported = rollout.map(|rollout| rollout.waiting.as_slice()).unwrap_or_default();
        let open = |reported: &&ReportedWait| {
            let member = self.members.get(&reported.application);
            !member.is_some_and(|member| {
                member.phase() == Some(Phase::Progressing) && member.is_seen_done()
            })
        };
        let begun = reported.iter().filter(open).find_map(|reported| {
            let member = self.members.get(&reported.application);
            Some((reported, member.filter(|member| is_in_flight(member))?))
        });
        if let Some((reported, member)) = begun {
            let says = |live: &Application| {
                !live.doing.detail.is_empty() && (live.is_operating() || !live.is_partial())
            };
            return match member.live.as_ref().is_some_and(says) {
                true => moving(&reported.application, member),
                false => Foremost::Reported(reported),
            };
        }
        let says = |member: &Member| {
            member.live.as_ref().is_some_and(|live| !live.doing.detail.is_empty())
        };
        let found = members()
            .find(|(_, member)| says(member) && !self.is_done(member) && is_in_flight(member));
        if let Some((name, member)) = found {
            return moving(name, member);
        }
        if let Some(reported) = reported.iter().find(open) {
            return Foremost::Reported(reported);
        }
        if let Some(reported) = reported.first() {
            return Foremost::Done(&reported.application);
        }
        let incomplete = members().filter(|(_, member)| !self.is_done(member));
        let mut live = incomplete.filter_map(|(name, member)| Some((name, member.live.as_ref()?)));
        live.next().map_or(Foremost::Unknown, |(name, live)| Foremost::Incomplete(name, live))
    }
}
