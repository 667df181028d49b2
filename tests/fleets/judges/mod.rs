//! Judges of a rollout. They know what users wrote, and the record of the API server.

mod advice;
mod deletion;
mod end;
mod exactly_once;
mod foreign;
mod freshness;
mod gates;
mod hooks;
mod limits;
mod order;
mod pace;
mod quarantine;
mod waits;

use std::time::Duration;

use jiff::Timestamp;
use kube_sim::{Exchange, RecordedRequest};
use serde_json::Value;
use wavegate_simulation::History;

use crate::case::{Case, What};
use crate::strikes::{self, Strikes};
use crate::track::{Moment, Track};
use crate::world::{Changed, Kind, World};

/// What a judge found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The name of the judge.
    pub judge: &'static str,
    pub at: Timestamp,
    pub what: String,
}

/// What is known at a moment.
pub struct Known<'a> {
    pub case: &'a Case,
    pub start: Timestamp,
    /// Whether the change has begun; before, the fleet is made ready for it without limits.
    pub has_begun: bool,
    pub world: &'a World,
    pub track: &'a Track,
    pub strikes: &'a Strikes,
    pub now: Timestamp,
}

/// Without faults, the controllers know what has changed after this time.
pub const AWARE: Duration = Duration::from_secs(5);

impl Known<'_> {
    /// Since the start.
    pub fn passed(&self) -> Duration {
        Duration::try_from(self.now.duration_since(self.start)).unwrap_or_default()
    }

    /// How long ago something was.
    pub fn since(&self, at: Timestamp) -> Duration {
        Duration::try_from(self.now.duration_since(at)).unwrap_or_default()
    }

    /// When something was, by the time since the start.
    pub fn time_of(&self, at: Timestamp) -> Duration {
        Duration::try_from(at.duration_since(self.start)).unwrap_or_default()
    }

    /// Whether what the controllers write now may have been decided before they knew of a change
    /// of a resource of the control plane.
    pub fn is_unaware_of(&self, resource: &str, changed: Timestamp) -> bool {
        let (age, now) = (self.since(changed), self.passed());
        age <= AWARE
            || self.case.events.iter().any(|event| {
                let What::Fault(fault) = &event.what else { return false };
                let is_until =
                    |time: Duration| now <= event.at.saturating_add(time).saturating_add(AWARE);
                let is_hidden = strikes::hides(fault, resource).is_some_and(is_until);
                let is_late = strikes::delays(fault)
                    .is_some_and(|(by, lasting)| age <= by + AWARE && is_until(lasting));
                event.at <= now && (is_hidden || is_late)
            })
    }

    /// The newest run of a set.
    pub fn run(&self, set: &str) -> Option<&Value> {
        let of_set = self.world.all(Kind::Run).map(|(_, run)| &**run);
        let of_set = of_set.filter(|run| run["spec"]["applicationSet"] == *set);
        let number = |run: &&Value| {
            let name = run["metadata"]["name"].as_str()?;
            name.rsplit_once('-')?.1.parse::<u64>().ok()
        };
        of_set.max_by_key(number)
    }

    /// The phase of the newest run of a set.
    pub fn run_phase(&self, set: &str) -> &str {
        self.run(set).and_then(|run| run["status"]["phase"].as_str()).unwrap_or_default()
    }

    /// Whether nothing has gone wrong for so long.
    pub fn is_calm_for(&self, time: Duration) -> bool {
        let now = self.passed();
        let is_over = |at: Duration| at > now || at.saturating_add(time) < now;
        self.strikes.crashes().all(is_over)
            && self.case.events.iter().all(|event| {
                let lasting = match &event.what {
                    What::Fault(fault) => fault.lasting(),
                    What::Restart => Duration::ZERO,
                    _ => return true,
                };
                event.at > now || event.at.saturating_add(lasting).saturating_add(time) < now
            })
    }

    /// The same of everything that happens from outside.
    pub fn is_quiet_for(&self, time: Duration) -> bool {
        let now = self.passed();
        let is_over = |at: Duration| at > now || at + time < now;
        self.is_calm_for(time) && self.case.events.iter().all(|event| is_over(event.at))
    }
}

/// What is wrong, if anything is.
pub type Verdict = Result<(), String>;

/// A judge of one thing.
pub trait Judge: Send {
    /// Judges a change, and what it means for its Application.
    ///
    /// # Errors
    ///
    /// What is wrong.
    fn change(&mut self, _: &Known<'_>, _: &Changed, _: &[Moment]) -> Verdict {
        Ok(())
    }

    /// Judges a request that has been answered, and the changes that it caused.
    ///
    /// # Errors
    ///
    /// What is wrong.
    fn request(&mut self, _: &Known<'_>, _: &Exchange, _: &[Changed]) -> Verdict {
        Ok(())
    }

    /// Takes a request of another client that has been answered, and the changes that it caused.
    fn outside(&mut self, _: &Known<'_>, _: &Exchange, _: &[Changed]) {}

    /// Judges how it ended.
    ///
    /// # Errors
    ///
    /// What is wrong.
    fn end(&mut self, _: &Known<'_>, _: &History) -> Verdict {
        Ok(())
    }
}

/// All judges, and what they know.
pub struct Court {
    case: Case,
    /// When it began; until the change begins, when the fleet is made ready for it.
    start: Timestamp,
    has_begun: bool,
    /// When the last of it happened.
    now: Timestamp,
    world: World,
    track: Track,
    pub strikes: Strikes,
    /// Changes of requests that are not answered yet.
    pending: Vec<Changed>,
    /// With what they judge.
    judges: Vec<(&'static str, Box<dyn Judge>)>,
    pub violations: Vec<Violation>,
    /// Requests of the controllers.
    pub requests: u64,
}

/// So many are enough.
const MOST: usize = 20;

impl Court {
    pub fn new(case: &Case, start: Timestamp) -> Self {
        let judges: Vec<(&str, Box<dyn Judge>)> = vec![
            ("limits", Box::new(limits::Limits)),
            ("order", Box::new(order::Order)),
            ("gates", Box::new(gates::Gates::default())),
            ("freshness", Box::new(freshness::Freshness::default())),
            ("exactly once", Box::new(exactly_once::ExactlyOnce)),
            ("hooks", Box::new(hooks::Hooks::default())),
            ("foreign", Box::new(foreign::Foreign)),
            ("deletion", Box::new(deletion::Deletion)),
            ("quarantine", Box::new(quarantine::Quarantine::default())),
            ("waits", Box::new(waits::Waits::default())),
            ("advice", Box::new(advice::Advice::default())),
            ("pace", Box::new(pace::Pace::default())),
            ("end", Box::new(end::End)),
        ];
        Self {
            case: case.clone(),
            start,
            has_begun: false,
            now: start,
            world: World::default(),
            track: Track::default(),
            strikes: Strikes::new(case),
            pending: Vec::new(),
            judges,
            violations: Vec::new(),
            requests: 0,
        }
    }

    /// The names of all judges.
    pub fn names(case: &Case) -> Vec<&'static str> {
        let court = Self::new(case, Timestamp::UNIX_EPOCH);
        court.judges.iter().map(|(name, _)| *name).collect()
    }

    /// Takes what happened; before the change begins, there is no time when that is.
    pub fn see(&mut self, started: Option<Timestamp>, entry: &RecordedRequest) {
        self.now = match entry {
            RecordedRequest::Change(change) => change.time,
            RecordedRequest::Exchange(exchange) => exchange.answered,
            RecordedRequest::Disturbed(disturbed) => disturbed.at,
        };
        self.start = started.unwrap_or(self.now);
        self.has_begun = started.is_some();
        let since_start = |at: Timestamp| {
            started.and_then(|start| Duration::try_from(at.duration_since(start)).ok())
        };
        self.strikes.see(since_start, entry);
        match entry {
            RecordedRequest::Change(change) => {
                let changed = self.world.take(change);
                let moments = self.track.take(&changed);
                self.ask(change.time, |judge, known| judge.change(known, &changed, &moments));
                self.pending.push(changed);
            }
            RecordedRequest::Exchange(exchange) => {
                let seq = exchange.request.seq;
                let caused: Vec<Changed> =
                    self.pending.extract_if(.., |changed| changed.cause == seq).collect();
                if wavegate_simulation::is_controller(&exchange.request.client) {
                    self.requests += 1;
                    self.ask(exchange.answered, |judge, known| {
                        judge.request(known, exchange, &caused)
                    });
                } else {
                    self.ask(exchange.answered, |judge, known| {
                        judge.outside(known, exchange, &caused);
                        Ok(())
                    });
                }
            }
            RecordedRequest::Disturbed(_) => {}
        }
    }

    /// The end.
    pub fn end(&mut self, history: &History) {
        self.ask(self.now, |judge, known| judge.end(known, history));
    }

    /// Whether each Application is Healthy with the last commit.
    pub fn is_settled(&self) -> bool {
        end::left(&self.case, &self.track).is_empty()
    }

    /// Adds what was found otherwise.
    pub fn add(&mut self, judge: &'static str, what: String) {
        self.violations.push(Violation { judge, at: self.now, what });
    }

    fn ask(
        &mut self,
        now: Timestamp,
        mut question: impl FnMut(&mut dyn Judge, &Known<'_>) -> Verdict,
    ) {
        let Self { case, start, has_begun, world, track, strikes, judges, violations, .. } = self;
        let (start, has_begun) = (*start, *has_begun);
        let known = Known { case, start, has_begun, world, track, strikes, now };
        for (name, judge) in judges {
            if let Err(what) = question(&mut **judge, &known)
                && violations.len() < MOST
            {
                violations.push(Violation { judge: name, at: now, what });
            }
        }
    }
}
