//! What `status --watch`, `explain --watch`, `wait` and `demo` share: the rollouts as their watches
//! report them, and the loop that tells what happens next.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::events::{WatchEvent, WatchScope, Watched};
use super::fleet::{Fleet, FleetSource};
use super::newest::{ComparisonAnswer, Newest};
use super::signals::{Signals, Wake};
use super::transition::Transition;
use crate::cli::console::error::Error;
use crate::cli::watch::args::until;
use wavegate_api::{ObjectKey, Raw};

/// Interval of drawing a screen, and of looking at what has changed: a change is shown after
/// this time at the latest.
const FRAME: Duration = Duration::from_millis(100);

/// The rollouts, and the state of their watches.
pub(in crate::cli) struct LiveRollouts {
    pub fleet: Fleet,
    pub began: Instant,
    scope: WatchScope,
    listed: Vec<Watched>,
    /// The watches that are disconnected, with the reason.
    lost: BTreeMap<Watched, String>,
    /// When each Application was last compared before the start.
    pub compared: BTreeMap<ObjectKey, String>,
}

impl LiveRollouts {
    /// Those of a scope; nothing is known of them yet.
    pub fn new(scope: WatchScope, source: FleetSource) -> Self {
        Self {
            fleet: Fleet::new(source),
            began: Instant::now(),
            scope,
            listed: Vec::new(),
            lost: BTreeMap::new(),
            compared: BTreeMap::new(),
        }
    }

    /// What is watched.
    pub fn scope(&self) -> &WatchScope {
        &self.scope
    }

    /// Whether nothing was listed yet.
    pub fn is_unknown(&self) -> bool {
        self.listed.is_empty()
    }

    /// Whether all that there was at the start is known.
    pub fn is_listed(&self) -> bool {
        let are_runs_listed = !self.scope.runs || self.fleet.are_runs_listed;
        self.listed.len() == Watched::ALL.len() && are_runs_listed
    }

    /// Why there are no news, if so.
    pub fn disconnected(&self) -> Option<&str> {
        self.lost.values().next().map(String::as_str)
    }

    /// Whether everything is known, as it is now.
    pub fn is_current(&self) -> bool {
        self.is_listed() && self.lost.is_empty()
    }

    /// Takes an event; the changes that are worth a line.
    ///
    /// # Errors
    ///
    /// When something may not be watched.
    pub fn apply(&mut self, event: WatchEvent) -> Result<Vec<Transition>, Error> {
        let at = self.began.elapsed();
        match event {
            WatchEvent::Changed(Watched::Sets, set) => {
                return Ok(self.fleet.set(&set, Timestamp::now(), at));
            }
            WatchEvent::Changed(Watched::Applications, application) => {
                if !self.is_listed() {
                    let compared = application.parse().text("/status/reconciledAt").to_owned();
                    self.compared.insert(application.key(), compared);
                }
                return Ok(self.fleet.application(&application, at));
            }
            WatchEvent::Changed(Watched::Runs, run) => return Ok(self.fleet.run(&run, at)),
            WatchEvent::Gone(Watched::Sets, set) => drop(self.fleet.sets.remove(&set.key())),
            WatchEvent::Gone(Watched::Applications, application) => {
                return Ok(self.fleet.application_gone(&application, at));
            }
            WatchEvent::Gone(Watched::Runs, run) => self.fleet.run_gone(&run),
            // What they hold, the runs say.
            WatchEvent::Changed(Watched::Policies, _) | WatchEvent::Gone(Watched::Policies, _) => {}
            WatchEvent::Listed(watched) => {
                self.lost.remove(&watched);
                if watched == Watched::Runs {
                    self.fleet.are_runs_listed = true;
                } else if Watched::ALL.contains(&watched) && !self.listed.contains(&watched) {
                    self.listed.push(watched);
                }
            }
            WatchEvent::Lost(watched, why) => {
                self.lost.insert(watched, why);
            }
            WatchEvent::Refused(watched, why) => {
                let kinds = format!("{}s", watched.kind());
                let place = match &self.scope.namespace {
                    Some(namespace) => format!("{kinds} of namespace {namespace}"),
                    None => format!("{kinds} of all namespaces"),
                };
                return Err(Error::input("cannot watch", place, why));
            }
        }
        Ok(Vec::new())
    }
}

/// Whether an end, which may still change, has stayed the same for a time.
pub(in crate::cli) fn has_settled<T: PartialEq>(
    settling: &mut Option<(T, Instant)>,
    end: T,
    time: Duration,
) -> bool {
    match settling {
        Some((before, since)) if *before == end => since.elapsed() >= time,
        _ => {
            *settling = Some((end, Instant::now()));
            time.is_zero()
        }
    }
}

/// What happens next to a command that follows rollouts.
pub(in crate::cli) enum LiveEvent<T> {
    Signal(Wake),
    /// The time limit is over.
    TimedOut,
    /// It is time to draw what has changed, and to decide whether it is over.
    Tick,
    /// The answer to the request for newer comparisons.
    Compared(ComparisonAnswer),
    Watch(WatchEvent),
    /// What only this command waits for.
    Other(T),
}

/// The loop of a command that follows rollouts.
pub(in crate::cli) struct LiveLoop {
    pub signals: Signals,
    changes: mpsc::Receiver<WatchEvent>,
    deadline: Option<Instant>,
    ticks: Interval,
}

impl LiveLoop {
    /// Begins with these events, until the deadline.
    pub fn new(
        signals: Signals,
        changes: mpsc::Receiver<WatchEvent>,
        deadline: Option<Instant>,
    ) -> Self {
        let mut ticks = tokio::time::interval(FRAME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { signals, changes, deadline, ticks }
    }

    /// The next event; the first ones of [`LiveEvent`] are the most urgent.
    pub async fn next<T>(
        &mut self,
        newest: &mut Newest,
        other: impl Future<Output = T>,
    ) -> LiveEvent<T> {
        tokio::select! {
            biased;
            wake = self.signals.next() => LiveEvent::Signal(wake),
            () = until(self.deadline) => LiveEvent::TimedOut,
            _ = self.ticks.tick() => LiveEvent::Tick,
            answer = newest.answer() => LiveEvent::Compared(answer),
            Some(event) = self.changes.recv() => LiveEvent::Watch(event),
            other = other => LiveEvent::Other(other),
        }
    }
}
