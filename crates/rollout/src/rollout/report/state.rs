//! The report: a set and its Applications, read together.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::application::ApplicationReport;
use super::member::Member;
use super::set::Set;
use super::step::{Count, Step, StepStatus};
use crate::rollout::budget::MaxUpdate;
use crate::rollout::listed;
use crate::rollout::phase::{Compared, Entry, Phase};
use crate::rollout::steps::{Labels, Step as Rule};
use wavegate_api::{HealthStatus, SyncStatusCode};

/// State of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum ReportState {
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
pub fn build_report(
    set: Set,
    applications: impl IntoIterator<Item = (String, ApplicationReport)>,
) -> Report {
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
    pub fn state(&self) -> ReportState {
        let status = &self.set.status;
        let has_entry = |member: &Member| member.entry.is_some();
        if self.set.is_deleting {
            ReportState::Deleting
        } else if !status.exists {
            ReportState::Unseen
        } else if status.error.is_some() {
            ReportState::Failed
        } else if !self.is_rolling() {
            ReportState::AllAtOnce
        } else if status.rollout.is_none() && !self.members.values().any(has_entry) {
            ReportState::SwitchedOff
        } else if self.open_step.is_some() {
            ReportState::Rolling
        } else {
            ReportState::Complete
        }
    }

    /// When the rollout began, and when it was complete, else `now`; `None` when the status does
    /// not contain its start.
    pub fn span(&self, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let status = &self.set.status;
        let last = || status.entries.iter().map(|entry| entry.since).max();
        let end = if self.is_complete() { last()? } else { now };
        Some((status.rollout.as_ref()?.started_at?, end))
    }

    /// Whether an Application of a step is not Synced and Healthy, which begins another rollout
    /// once its controller observes it.
    pub fn has_changed(&self) -> bool {
        let mut members = self.members.values().filter(|member| member.step.is_some());
        self.is_rolling() && members.any(|member| !self.is_done(member))
    }

    /// Whether a newer comparison of an Application may be about to say something else.
    pub fn may_be_outdated(&self) -> bool {
        let mut live = self.members.values().filter_map(|member| member.live.as_ref());
        live.any(ApplicationReport::may_be_outdated)
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
                    live.map(ApplicationReport::is_done).collect()
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
            Some(Phase::Progressing) => !member.is_seen_done() && !self.rests(member),
            Some(Phase::Waiting | Phase::Healthy) | None => false,
        }
    }

    /// Whether nothing goes on for it, whatever its phase: it went back and stays there, or its step
    /// is complete without it.
    fn rests(&self, member: &Member) -> bool {
        let is_passed = self.is_rolling() && member.step.is_some_and(|step| step < self.passed());
        !member.is_operating() && (is_passed || self.held_at(member).is_some())
    }

    fn count_of(&self, member: &Member) -> Count {
        let seen = member.live.as_ref().map(|live| &live.observed);
        let promoted = member.entry.as_ref().is_some_and(|entry| entry.is_in_flight(seen));
        let promoted = promoted && !self.rests(member);
        Count {
            total: 1,
            done: self.is_done(member).into(),
            in_flight: self.is_in_flight(member).into(),
            promoted: promoted.into(),
        }
    }

    /// Whether no step selects it, and it needs a manual sync.
    pub fn is_outside(&self, member: &Member) -> bool {
        let rests = |live: &ApplicationReport| {
            live.deletion.is_none() && !live.is_operating() && !live.is_done()
        };
        let waits = match &member.entry {
            Some(entry) => entry.phase == Phase::Waiting,
            None => member.is_outside && member.live.is_some(),
        };
        self.is_rolling()
            && member.step.is_none()
            && waits
            && member.live.as_ref().is_none_or(rests)
    }

    /// The steps that match no Application, counted from 0, once all are written as generated: a
    /// step may be about one that could not be created.
    pub fn empty_steps(&self) -> Vec<usize> {
        let is_known = self.is_rolling() && self.set.status.is_up_to_date;
        let selects = |step: &Step| {
            let live = self.members.values().filter_map(|member| member.live.as_ref());
            live.map(|live| &live.labels).any(|labels| step.rule.selects(labels))
        };
        let empty = self.steps.iter().enumerate().filter(|(_, step)| {
            is_known && !self.members.is_empty() && step.count.total == 0 && !selects(step)
        });
        empty.map(|(index, _)| index).collect()
    }

    /// The Applications that no step selects and that need a manual sync.
    pub fn outside(&self) -> impl Iterator<Item = &str> {
        let outside = self.members.iter().filter(|(_, member)| self.is_outside(member));
        outside.map(|(name, _)| name.as_str())
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
        let rollout = set.status.rollout.as_ref();
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

    /// Reads why the rollout goes on without Applications, by name. Of the run, which is written
    /// before the status of the set.
    pub fn leave_out(&mut self, why: impl Fn(&str) -> Option<String>) {
        for (name, member) in &mut self.members {
            member.left_out = why(name);
        }
    }

    /// A new version of an Application that the set owns; `None` when it was deleted.
    pub fn observe(&mut self, name: &str, live: Option<ApplicationReport>) {
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
