//! Rollouts that are followed, and when that is over.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::time::Instant;

use crate::cli::console::error::{CHECK_FAILED, Error};
use crate::cli::explain;
use crate::cli::rollout_view::events::{WatchEvent, Watched};
use crate::cli::rollout_view::live::{LiveRollouts, has_settled};
use crate::cli::rollout_view::newest::Newest;
use crate::cli::rollout_view::screen::Frame;
use crate::cli::rollout_view::set::WatchedSet;
use crate::cli::rollout_view::signals::READER_GONE;
use crate::cli::rollout_view::transition::Transition;
use wavegate_api::ObjectKey;
use wavegate_rollout::rollout::report::RolloutOutcome;

/// A rollout that cannot continue must stay so for this time: a controller may be about to
/// try again.
const SETTLED: Duration = Duration::from_secs(2);
/// The same for a set without the status of a rollout, which a controller may be about to
/// start, and for comparisons that may be older than the end of a sync.
const STARTED: Duration = Duration::from_secs(10);

/// The same after a comparison that was asked for: a rollout may be about to start by it.
const COMPARED: Duration = Duration::from_secs(5);

/// Why following ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Complete,
    Stuck,
    Deleted,
    TimedOut(Duration),
    Signal(u8),
    ReaderGone,
}

impl Ending {
    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Stuck | Self::Deleted | Self::TimedOut(_) => CHECK_FAILED,
            Self::Signal(code) => *code,
            Self::ReaderGone => READER_GONE,
        }
    }
}

/// The rollouts, and what becomes of following them.
pub(super) struct FollowedRollouts {
    pub live: LiveRollouts,
    pub has_had_sets: bool,
    /// The outcomes that would end it, and since when they are so.
    pub settling: Option<(Ending, Instant)>,
    /// Asks for newer comparisons; `None` when those from before the start count.
    pub client: Option<Client>,
    pub newest: Newest,
    /// What is waited for besides the rollouts.
    pub notes: Vec<String>,
}

impl FollowedRollouts {
    /// Takes an event; the transitions that follow from it.
    ///
    /// # Errors
    ///
    /// When something cannot be watched.
    pub fn take(&mut self, event: WatchEvent) -> Result<Vec<Transition>, Error> {
        let mut transitions = Vec::new();
        match &event {
            WatchEvent::Changed(Watched::Sets, _) => self.has_had_sets = true,
            WatchEvent::Gone(Watched::Sets, set) => {
                let text = format!("ApplicationSet {} was deleted", set.key());
                transitions.push(self.line(set.name().to_owned(), text));
            }
            // The first connection must succeed; with a name, it has.
            WatchEvent::Lost(_, why)
                if self.live.is_unknown() && self.live.scope().set.is_none() =>
            {
                return Err(Error::input("cannot watch", "ApplicationSets", why));
            }
            WatchEvent::Lost(..) => {
                self.settling = None;
                // It is asked again, also when the request has failed just before.
                if matches!(self.newest, Newest::Asked(_) | Newest::Unknown) {
                    self.newest = Newest::NotAsked;
                    self.notes.clear();
                }
            }
            _ => {}
        }
        transitions.extend(self.live.apply(event)?);
        Ok(transitions)
    }

    /// A line about a set as a whole.
    pub fn line(&self, set: String, text: String) -> Transition {
        Transition { at: self.live.began.elapsed(), set, text, ..Transition::default() }
    }

    /// What the first set waits for, or why that is not known; `None` before it is listed.
    pub fn reason(&self) -> Option<String> {
        let first = self.live.fleet.known().next().map(|set| explain::summary(&set.report));
        let lost = self.live.disconnected().map(|why| format!("disconnected, retrying: {why}"));
        lost.or(first).filter(|_| self.live.is_listed())
    }

    /// Whether it is over: complete, or settled without a way to continue.
    pub fn ending(&mut self) -> Option<Ending> {
        let (ending, time) = if self.live.is_current() { self.reached() } else { None }?;
        has_settled(&mut self.settling, ending.clone(), time).then_some(ending)
    }

    /// Before it ends, comparisons must be newer than its start: asks for them once. `None`
    /// when it can end, else what is waited for.
    pub fn confirm(&mut self, ending: &Ending) -> Option<String> {
        if !matches!(ending, Ending::Complete | Ending::Stuck) {
            return None;
        }
        let client = self.client.clone()?;
        match &self.newest {
            Newest::NotAsked => {}
            // Still waited for: nothing more is said.
            Newest::Asked(_) => return Some(String::new()),
            Newest::Known(..) | Newest::Unknown => return None,
        }
        let sets = self.live.fleet.known().map(WatchedSet::key).collect();
        self.newest = Newest::ask(&client, sets, &self.live.compared);
        let text = "waiting for comparisons that are newer than this command, to see commits \
                    that were just pushed"
            .to_owned();
        self.notes = vec![text.clone()];
        Some(text)
    }

    /// What has been reached, and for how long it must stay so.
    fn reached(&mut self) -> Option<(Ending, Duration)> {
        let outcomes = self.live.fleet.outcomes();
        let is_running =
            |(_, outcome): &(ObjectKey, RolloutOutcome)| *outcome == RolloutOutcome::Running;
        if outcomes.is_empty() {
            let is_gone = self.has_had_sets || self.live.scope().set.is_some();
            return is_gone.then_some((Ending::Deleted, Duration::ZERO));
        }
        if outcomes.iter().any(is_running) {
            self.settling = None;
            return None;
        }
        let mut sets = outcomes.iter().filter_map(|(key, _)| self.live.fleet.sets.get(key));
        let is_done = |outcome: &RolloutOutcome| {
            matches!(outcome, RolloutOutcome::Complete | RolloutOutcome::RunEnded)
        };
        if outcomes.iter().all(|(_, outcome)| is_done(outcome)) {
            // A controller may not have observed yet what is OutOfSync: it starts a rollout then.
            let time = match (sets.any(|set| set.report.has_changed()), &self.newest) {
                (true, Newest::Known(true)) => COMPARED,
                // A lost connection, which may be why, is about to be noticed.
                (true, _) | (false, Newest::Known(true) | Newest::Unknown) => SETTLED,
                (false, _) => Duration::ZERO,
            };
            let is_stuck = outcomes.iter().any(|(_, outcome)| outcome.is_stuck());
            return Some((if is_stuck { Ending::Stuck } else { Ending::Complete }, time));
        }
        let is_off = outcomes
            .iter()
            .any(|(_, outcome)| matches!(outcome, RolloutOutcome::Invalid { is_off: true, .. }));
        let is_early = is_off || sets.any(|set| set.report.may_be_outdated());
        Some((Ending::Stuck, if is_early { STARTED } else { SETTLED }))
    }

    /// The time that the screen shows: that of the rollout, if it is only one.
    pub fn elapsed(&self, now: Timestamp) -> Duration {
        let mut sets = self.live.fleet.known();
        let only = sets.next().filter(|_| sets.next().is_none());
        only.and_then(|set| set.duration(now)).unwrap_or_else(|| self.live.began.elapsed())
    }

    pub fn frame(&self) -> Frame<'_> {
        let now = Timestamp::now();
        Frame {
            fleet: &self.live.fleet,
            elapsed: self.elapsed(now),
            now,
            notes: &self.notes,
            disconnected: self.live.disconnected(),
        }
    }
}
