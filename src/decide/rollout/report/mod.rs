//! What is reported to users about a rollout: its steps, its Applications, what it waits for, and
//! what it came to.
//!
//! [`report`] is the only reading of a rollout outside of the controller. It starts from what
//! a controller has stored in the status of the set, Argo CD's own included, and from the
//! Applications as they are now, which a status follows by up to a second. It decides
//! nothing: what comes next is only known to the controller.
//!
//! A report can be kept: [`Report::observe`] and [`Report::read`] take a new version of an
//! Application or of the set, and lead to the report of all at once.

mod application;
mod member;
mod outcome;
#[cfg(test)]
mod tests;
mod waits;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

pub use self::application::{Application, Awaited, Deletion, Doing, Initiator};
pub use self::member::{Member, Why};
pub use self::outcome::{Failure, Outcome};
pub use self::waits::{DONE, Foremost, OUTSIDE};
use super::budget::{Limit, MaxUpdate};
use super::listed;
use super::phase::{Compared, Entry, Phase};
use super::steps::{Labels, Step as Rule, Strategy};
use super::wait::{Turn, WaitKind};
use crate::api::SyncStatusCode;

/// What is known of an ApplicationSet.
#[derive(Clone, Debug)]
pub struct Set {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// It is being deleted.
    pub is_deleting: bool,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// Its strategy.
    pub strategy: Strategy,
    /// The step of each Application that it generates, where that is known; an error of its
    /// generators.
    pub generated: Option<Result<BTreeMap<String, Option<usize>>, String>>,
    /// Its status.
    pub status: Status,
}

impl Default for Set {
    fn default() -> Self {
        Self {
            namespace: String::new(),
            name: String::new(),
            is_deleting: false,
            finalizers: Vec::new(),
            strategy: Strategy::AllAtOnce,
            generated: None,
            status: Status::default(),
        }
    }
}

/// What the status of a set says.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// A controller has written it.
    pub exists: bool,
    /// Reason and message of its error.
    pub error: Option<(String, String)>,
    /// What is wrong with its strategy.
    pub invalid_config: Option<String>,
    /// Deletions wait for the approval of a person.
    pub holds_deletions: bool,
    /// Its Applications match the set, as far as the controller reports it.
    pub is_up_to_date: bool,
    /// `health.status`; empty when absent.
    pub health: String,
    /// That `resources` does not list every Application.
    pub truncated: Option<String>,
    /// The listed entries, by name.
    pub entries: Vec<Entry>,
    /// The entries that are not listed follow from the Applications ([`listed::implied`]); the
    /// start of the rollout then.
    pub implied_since: Option<Timestamp>,
    /// The summary; `None` for a status of Argo CD's own controller, and while there is no
    /// rollout.
    pub rollout: Option<Rollout>,
}

/// The summary of a rollout in the status.
#[derive(Clone, Debug, Default)]
pub struct Rollout {
    /// The open step, or the last one when all are complete; counted from 0.
    pub step: Option<usize>,
    /// All steps are complete.
    pub is_complete: bool,
    /// Number of complete Applications, and of all.
    pub progress: Option<(u64, u64)>,
    /// The state in one line.
    pub message: String,
    /// Its start.
    pub started_at: Option<Timestamp>,
    /// The first Applications that it waits for.
    pub waiting: Vec<ReportedWait>,
    /// Those that it has waited for too long.
    pub stalled: BTreeSet<String>,
}

/// A wait as the status reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedWait {
    /// The Application.
    pub application: String,
    /// `None` in a status of an older version.
    pub kind: Option<WaitKind>,
    /// The reason.
    pub message: String,
    /// The resource; empty when there is none.
    pub resource: String,
    /// Start of the wait, and its latest end.
    pub since: Option<Timestamp>,
    /// The latest end.
    pub until: Option<Timestamp>,
}

/// State of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum State {
    /// The set is being deleted.
    Deleting,
    /// No controller has written a status yet.
    Unseen,
    /// The controller reports an error.
    Failed,
    /// The set uses RollingSync, but progressive syncs are disabled.
    SwitchedOff,
    /// The set has no rollout.
    AllAtOnce,
    /// The rollout is in progress.
    Rolling,
    /// All steps are complete.
    Complete,
}

/// A step; a set without steps has one that stands for all of its Applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What selects its Applications, and `maxUpdate`.
    pub rule: Rule,
    /// Its Applications in numbers.
    pub count: Count,
}

impl Step {
    /// How many may be in flight.
    pub fn limit(&self) -> Limit {
        self.rule.max_update.limit(self.count.total)
    }

    /// How many may be in flight, and are.
    pub fn turn(&self) -> Turn {
        Turn { limit: self.limit(), in_flight: self.count.promoted, is_full: false }
    }
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepStatus {
    /// Its Applications wait for an earlier step.
    Closed,
    /// Its Applications may start.
    Open,
    /// It is complete.
    Done,
}

/// Numbers of Applications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All.
    pub total: u64,
    /// Complete ones that are Synced and Healthy now.
    pub done: u64,
    /// Those that are syncing, or not Healthy yet after it.
    pub in_flight: u64,
    /// Those that count against `maxUpdate`.
    pub promoted: u64,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.total += other.total;
        self.done += other.done;
        self.in_flight += other.in_flight;
        self.promoted += other.promoted;
    }

    fn remove(&mut self, other: Self) {
        self.total -= other.total;
        self.done -= other.done;
        self.in_flight -= other.in_flight;
        self.promoted -= other.promoted;
    }
}

/// A rollout, for users.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The set.
    pub set: Set,
    /// The first incomplete step, counted from 0; `None` when there is none.
    pub open_step: Option<usize>,
    /// The steps; one for a set without steps.
    pub steps: Vec<Step>,
    /// The Applications by name: those that exist, and those that are generated, listed or
    /// waited for.
    pub members: BTreeMap<String, Member>,
}

/// The report of a set and the Applications that it owns.
pub fn report(set: Set, applications: impl IntoIterator<Item = (String, Application)>) -> Report {
    let known = |(name, application)| (name, Member::new(Some(application)));
    let members = applications.into_iter().map(known).collect();
    let mut report = Report { members, ..Report::default() };
    report.read(set);
    report
}

impl Report {
    /// Whether Applications are rolled out in steps.
    pub fn is_rolling(&self) -> bool {
        !self.set.strategy.steps().is_empty()
    }

    /// All steps are complete.
    pub fn is_complete(&self) -> bool {
        let status = &self.set.status;
        let is_rolled_out = status.rollout.is_some() || !status.entries.is_empty();
        self.is_rolling() && is_rolled_out && self.open_step.is_none()
    }

    /// Its state.
    pub fn state(&self) -> State {
        let status = &self.set.status;
        let has_entry = |member: &Member| member.entry.is_some();
        if self.set.is_deleting {
            State::Deleting
        } else if !status.exists {
            State::Unseen
        } else if status.error.is_some() {
            State::Failed
        } else if !self.is_rolling() {
            State::AllAtOnce
        } else if status.rollout.is_none() && !self.members.values().any(has_entry) {
            State::SwitchedOff
        } else if self.open_step.is_some() {
            State::Rolling
        } else {
            State::Complete
        }
    }

    /// Number of complete Applications, and of all.
    pub fn progress(&self) -> (u64, u64) {
        let reported = self.set.status.rollout.as_ref().and_then(|rollout| rollout.progress);
        reported.unwrap_or_else(|| {
            let entries = || self.members.values().filter_map(|member| member.entry.as_ref());
            let is_complete: Vec<bool> = match entries().next() {
                Some(_) => {
                    let counted = entries().filter(|entry| entry.step.is_some());
                    counted.map(|entry| entry.phase == Phase::Healthy).collect()
                }
                None => {
                    let live = self.members.values().filter_map(|member| member.live.as_ref());
                    live.map(Application::is_done).collect()
                }
            };
            (is_complete.iter().filter(|done| **done).count() as u64, is_complete.len() as u64)
        })
    }

    /// The step that a member is counted in.
    pub fn step_of<'a>(&'a self, member: &Member) -> Option<&'a Step> {
        self.steps.get(self.counted_in(member)?)
    }

    /// The index of that step.
    pub fn counted_in(&self, member: &Member) -> Option<usize> {
        if self.is_rolling() { member.step } else { Some(0) }
    }

    /// Number of complete steps.
    pub fn passed(&self) -> usize {
        match self.is_complete() {
            true => self.steps.len(),
            false => self.open_step.unwrap_or_default(),
        }
    }

    /// How far a step is.
    pub fn step_status(&self, step: usize) -> StepStatus {
        let count = self.steps.get(step).map(|step| step.count).unwrap_or_default();
        match self.is_rolling() {
            true if step < self.passed() => StepStatus::Done,
            true if self.open_step == Some(step) => StepStatus::Open,
            true => StepStatus::Closed,
            false if count.total > 0 && count.done == count.total => StepStatus::Done,
            false => StepStatus::Open,
        }
    }

    /// The Applications of all steps in numbers.
    pub fn total(&self) -> Count {
        let mut total = Count::default();
        self.steps.iter().for_each(|step| total.add(step.count));
        total
    }

    /// A new version of the set.
    pub fn read(&mut self, set: Set) {
        self.open_step = open_step(&set);
        self.steps = match set.strategy.steps() {
            [] => {
                vec![Rule { match_expressions: Vec::new(), max_update: MaxUpdate::Unlimited }]
            }
            rules => rules.to_vec(),
        }
        .into_iter()
        .map(|rule| Step { rule, count: Count::default() })
        .collect();
        let entries: BTreeMap<&str, &Entry> =
            set.status.entries.iter().map(|entry| (entry.application.as_str(), entry)).collect();
        let mut names: BTreeSet<&str> = entries.keys().copied().collect();
        names.extend(self.members.iter().filter(|(_, one)| one.live.is_some()).map(|(n, _)| &**n));
        if let Some(Ok(generated)) = &set.generated {
            names.extend(generated.keys().map(String::as_str));
        }
        let rollout = set.status.rollout.as_ref().filter(|_| self.open_step.is_some());
        // An Application that cannot be created is not there, and is waited for.
        let waiting = rollout.map(|rollout| rollout.waiting.as_slice()).unwrap_or_default();
        names.extend(waiting.iter().map(|wait| &*wait.application).filter(|name| !name.is_empty()));
        let mut members: BTreeMap<String, Member> =
            names.into_iter().map(|name| (name.to_owned(), Member::default())).collect();
        for (name, member) in &mut members {
            member.live = self.members.get_mut(name).and_then(|before| before.live.take());
            member.entry = entries.get(name.as_str()).map(|entry| (*entry).clone());
        }
        for wait in waiting {
            if let Some(member) = members.get_mut(&wait.application) {
                member.reported = Some(wait.clone());
            }
        }
        drop(entries);
        (self.set, self.members) = (set, BTreeMap::new());
        for (name, mut member) in members {
            self.place(&name, &mut member);
            self.count(&member, Count::add);
            self.members.insert(name, member);
        }
    }

    /// A new version of an Application that the set owns; `None` when it was deleted.
    pub fn observe(&mut self, name: &str, live: Option<Application>) {
        let known = self.members.remove(name);
        if let Some(known) = &known {
            self.count(known, Count::remove);
        }
        let mut member = known.unwrap_or_default();
        let is_gone = live.is_none();
        member.live = live;
        self.place(name, &mut member);
        let is_generated = matches!(&self.set.generated, Some(Ok(all)) if all.contains_key(name));
        if is_gone && !is_generated {
            return;
        }
        self.count(&member, Count::add);
        self.members.insert(name.to_owned(), member);
    }

    fn count(&mut self, member: &Member, change: impl FnOnce(&mut Count, Count)) {
        let of = self.count_of(member);
        if let Some(step) = self.counted_in(member).and_then(|step| self.steps.get_mut(step)) {
            change(&mut step.count, of);
        }
    }

    /// Completes a member by what the set says of it: its entry if the status implies it, and
    /// its step.
    fn place(&self, name: &str, member: &mut Member) {
        let by_labels = |labels: &Labels| {
            self.set.strategy.steps().iter().position(|step| step.selects(labels))
        };
        let of_labels = || member.live.as_ref().and_then(|live| by_labels(&live.labels));
        if member.is_implied {
            member.entry = None;
        }
        member.is_implied = false;
        if let (Some(began), None, Some(live)) =
            (self.set.status.implied_since, &member.entry, &member.live)
        {
            // The generated spec is not known here.
            let is_current = live.observed.compared == Compared::Current
                && live.observed.sync == SyncStatusCode::Synced;
            let record = live.record.as_ref().filter(|_| is_current);
            let seen = &live.observed;
            let entry = listed::implied(name, of_labels(), record, None, seen, began);
            (member.entry, member.is_implied) = (Some(entry), true);
        }
        // The controller decides by the labels that it generates.
        let generated = match &self.set.generated {
            Some(Ok(generated)) => generated.get(name).copied(),
            Some(Err(_)) | None => None,
        };
        member.is_outside = generated == Some(None) && self.is_rolling();
        member.step = match (generated, &member.entry) {
            _ if !self.is_rolling() => None,
            (Some(step), _) => step,
            (None, Some(entry)) => entry.step,
            (None, None) if member.live.is_none() => {
                self.open_step.filter(|_| member.reported.is_some())
            }
            (None, None) => of_labels(),
        };
    }
}

/// The first incomplete step, as the controller says; of Argo CD's own controller, that of the
/// first Application which is not Healthy.
fn open_step(set: &Set) -> Option<usize> {
    if set.strategy.steps().is_empty() {
        return None;
    }
    let rollout = set.status.rollout.as_ref();
    match rollout.and_then(|rollout| Some((rollout.step?, rollout.is_complete))) {
        Some((_, true)) => None,
        Some((step, false)) => Some(step),
        None => {
            let entries = set.status.entries.iter();
            let incomplete = entries.filter(|entry| entry.phase != Phase::Healthy);
            incomplete.filter_map(|entry| entry.step).min()
        }
    }
}
