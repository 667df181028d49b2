//! State of one ApplicationSet and its Applications: their steps and phases, and what is
//! measured of each step.
//!
//! Pure: takes observations and the time, returns transitions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::app_view::AppView;
use super::member::{Count, Member};
use super::set_status::{Status, StatusView, hidden, summarize};
use super::steps::ExpectedSteps;
use super::text::count;
use super::transition::{Transition, change, moved, progress};
use crate::api::application_set::{ApplicationSetApplicationStatus, RolloutPhase};
use crate::api::{ObjectKey, SyncStatusCode};
use crate::cli::rollout_summary::left_outside;
use crate::decide::rollout::held::HELD;
use crate::decide::rollout::steps::Labels;

/// One ApplicationSet.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Set {
    /// Name; empty until the set itself was observed.
    pub name: String,
    /// Namespace of the set and its Applications.
    pub namespace: String,
    /// UID and generation that the steps were read from.
    pub(super) version: (String, Option<i64>),
    /// Its steps and limits.
    pub plan: ExpectedSteps,
    /// Why these cannot be determined.
    pub error: Option<String>,
    /// Its status.
    pub status: Status,
    /// It is being deleted.
    pub is_deleting: bool,
    /// It is one of a cluster, whose controller may not be running.
    pub is_in_cluster: bool,
    /// Its Applications by name: generated ones, and others that it owns.
    pub members: BTreeMap<String, Member>,
    /// Measurements of each step.
    pub measured: Vec<Measured>,
    /// Numbers of Applications of each step, kept current with every member.
    counts: Vec<Count>,
    /// Applications that started before the previous steps were complete.
    pub out_of_order: Vec<String>,
}

/// Measurements of a step, from watching its Applications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Measured {
    /// Time when its first Application started.
    pub opened: Option<Duration>,
    /// Time when its last Application completed.
    pub done: Option<Duration>,
    /// Largest number of Applications in flight at the same time, without manual syncs.
    pub peak: u64,
}

impl Set {
    /// Its namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }

    /// Number of Applications of a step.
    pub fn count(&self, step: usize) -> Count {
        self.counts.get(step).copied().unwrap_or_default()
    }

    /// Counts the members of all steps again, as after a change of the steps.
    fn recount(&mut self) {
        self.counts = vec![Count::default(); self.plan.steps.len()];
        for member in self.members.values() {
            if let Some(count) = member.step.and_then(|step| self.counts.get_mut(step)) {
                count.add(member.counts(self.plan.rolling));
            }
        }
        for (step, count) in self.plan.steps.iter_mut().zip(&self.counts) {
            step.resize(count.total);
        }
    }

    /// The labels of an observed Application, from which its step follows.
    pub(super) fn label(&mut self, name: &str, labels: Labels) {
        let member = self.members.entry(name.to_owned()).or_default();
        let is_new = member.seen.is_none();
        if !is_new && member.labels == labels {
            return;
        }
        let step = self.plan.step_of(&labels);
        member.labels = labels;
        // The controller decides by the labels that it generates; its status goes before.
        if self.plan.observed.is_some() && (is_new || !self.plan.rolling) {
            self.place(name, step);
        }
    }

    /// Puts a member into a step, or into none.
    fn place(&mut self, name: &str, step: Option<usize>) {
        let rolling = self.plan.rolling;
        let Some(member) = self.members.get_mut(name) else { return };
        let before = std::mem::replace(&mut member.step, step);
        if before == step {
            return;
        }
        let count = member.counts(rolling);
        for (of, is_added) in [(before, false), (step, true)] {
            let Some(of) = of else { continue };
            let Some(counts) = self.counts.get_mut(of) else { continue };
            if is_added {
                counts.add(count);
            } else {
                counts.remove(count);
            }
            let total = counts.total;
            if let Some(step) = self.plan.steps.get_mut(of) {
                step.resize(total);
            }
        }
    }

    /// Changes a member, except for its step, and the count of its step with it.
    fn change<T>(&mut self, name: &str, change: impl FnOnce(&mut Member) -> T) -> T {
        let rolling = self.plan.rolling;
        let member = match self.members.get_mut(name) {
            Some(member) => member,
            None => self.members.entry(name.to_owned()).or_default(),
        };
        let before = member.counts(rolling);
        let changed = change(member);
        let after = member.counts(rolling);
        if let Some(count) = member.step.and_then(|step| self.counts.get_mut(step)) {
            count.remove(before);
            count.add(after);
        }
        changed
    }

    /// How long the rollout has taken until now, or until it was complete; `None` when the
    /// status does not contain its start.
    pub fn duration(&self, now: Timestamp) -> Option<Duration> {
        let started = self.status.started_at?;
        let end = if self.status.complete { self.status.changed_at? } else { now };
        Some(Duration::try_from(end.duration_since(started)).unwrap_or_default())
    }

    /// What a member waits for since when, and until when at the latest, if known.
    pub fn wait_of(&self, name: &str, member: &Member) -> (Option<Timestamp>, Option<Timestamp>) {
        let listed = self.wait(name);
        let seen = member.seen.as_ref().and_then(|seen| seen.since);
        let runs = member.seen.as_ref().is_some_and(|seen| seen.operation.is_running());
        match listed {
            // The limit is that of the start. The status follows the Application.
            Some(wait) if member.phase == RolloutPhase::Pending && runs => {
                (seen.or(wait.since), None)
            }
            Some(wait) if member.phase == RolloutPhase::Pending => {
                (wait.since.or(seen), wait.until)
            }
            // The operation knows the start of its wait; the status that of the phase.
            Some(wait) if runs => (seen.or(wait.since), None),
            Some(wait) => (wait.since.or(seen), None),
            None => (seen, None),
        }
    }

    /// The Applications that no step selects and that need a manual sync, in a sentence.
    pub fn left_outside(&self) -> Option<String> {
        let outside = self.members.iter().filter(|(_, member)| {
            let seen = member.seen.as_ref();
            let needs_it = seen.is_some_and(|seen| !seen.is_operating() && !seen.is_done());
            self.plan.rolling && member.step.is_none() && needs_it
        });
        let names: Vec<&str> = outside.map(|(name, _)| name.as_str()).collect();
        let text = left_outside(&names)?;
        Some(format!("N{}.", &text[1..]))
    }

    /// Whether a member is complete: in the rollout, or without one, Synced and Healthy.
    pub fn is_done(&self, member: &Member) -> bool {
        member.is_done(self.plan.rolling)
    }

    /// Whether Applications of a step may start.
    pub fn is_open(&self, step: usize) -> bool {
        !self.plan.rolling || self.status.complete || self.status.open_step >= Some(step)
    }

    /// Its steps, which were read from the set.
    pub(super) fn adopt(&mut self, plan: ExpectedSteps) {
        if plan == self.plan {
            return;
        }
        self.members
            .retain(|name, member| member.seen.is_some() || plan.applications.contains_key(name));
        if plan.observed.is_some() {
            for member in self.members.values_mut() {
                member.step = plan.step_of(&member.labels);
            }
        }
        for (name, step) in &plan.applications {
            self.members.entry(name.clone()).or_default().step = *step;
        }
        self.measured.resize(plan.steps.len(), Measured::default());
        self.plan = plan;
        self.recount();
    }

    /// The phases of Applications that a large set does not list: Healthy or Waiting
    /// (`decide/rollout/listed.rs`), and Healthy when seen in sync after its operation.
    fn unlisted(&self, status: &StatusView) -> Vec<(String, RolloutPhase)> {
        if status.rollout.as_ref().is_none_or(|rollout| rollout.listed.is_none()) {
            return Vec::new();
        }
        let names: BTreeSet<&str> =
            status.application_status.iter().map(|entry| entry.application.as_str()).collect();
        let unlisted = self.members.iter().filter(|(name, _)| !names.contains(name.as_str()));
        let phase = |(name, member): (&String, &Member)| {
            let seen = member.seen.as_ref()?;
            let is_done = seen.sync == SyncStatusCode::Synced && seen.judged_since;
            let phase = if is_done { RolloutPhase::Healthy } else { RolloutPhase::Waiting };
            (member.phase != phase).then(|| (name.clone(), phase))
        };
        unlisted.filter_map(phase).collect()
    }

    /// A new status of the set.
    pub(super) fn read_status(&mut self, mut status: StatusView, at: Duration) -> Vec<Transition> {
        let (mut completed, mut others) = (Vec::new(), Vec::new());
        let mut add = |phase, changed: Option<Transition>| {
            let list = if phase == RolloutPhase::Healthy { &mut completed } else { &mut others };
            list.extend(changed);
        };
        status.take_rollout();
        let summary = summarize(&status, self.plan.steps.len(), self.plan.rolling);
        if self.plan.observed.is_some() && self.plan.rolling {
            self.place_as_listed(&status.application_status, &summary);
        }
        let unlisted = self.unlisted(&status);
        for entry in std::mem::take(&mut status.application_status) {
            let since = entry.last_transition_time.as_ref().map(|at| at.0);
            let changed = self.moves(entry.application, entry.status, since, entry.message, at);
            add(entry.status, changed);
        }
        for (application, phase) in unlisted {
            add(phase, self.moves(application, phase, None, String::new(), at));
        }
        let before = std::mem::replace(&mut self.status, summary);
        // In order: complete Applications, started steps, started Applications.
        let mut transitions = completed;
        transitions.extend(self.opened(&before, at));
        transitions.append(&mut others);
        if let Some((reason, message)) = &self.status.error
            && before.error != self.status.error
        {
            transitions.push(Transition {
                at,
                set: self.name.clone(),
                step: None,
                application: String::new(),
                phase: reason.clone(),
                text: message.clone(),
            });
        }
        for step in 0..self.plan.steps.len() {
            self.measure(step, at);
        }
        transitions
    }

    /// Puts the members into the steps of the status; those that it does not list into
    /// those of their labels. An Application that cannot be created has no entry: it is
    /// waited for in the open step.
    fn place_as_listed(&mut self, entries: &[ApplicationSetApplicationStatus], summary: &Status) {
        let step = |entry: &ApplicationSetApplicationStatus| {
            let number: i64 = entry.step.parse().ok()?;
            usize::try_from(number.saturating_sub(1)).ok()
        };
        let mut listed: BTreeMap<&str, Option<usize>> =
            entries.iter().map(|entry| (entry.application.as_str(), step(entry))).collect();
        for wait in &summary.waiting {
            let is_seen = |member: &Member| member.seen.is_some();
            let name = wait.application.as_str();
            if !name.is_empty() && !self.members.get(name).is_some_and(is_seen) {
                listed.entry(name).or_insert(summary.open_step);
            }
        }
        let before = self.members.len();
        self.members
            .retain(|name, member| member.seen.is_some() || listed.contains_key(name.as_str()));
        if self.members.len() < before {
            self.recount();
        }
        for name in listed.keys() {
            if !self.members.contains_key(*name) {
                self.members.insert((*name).to_owned(), Member::default());
            }
        }
        let steps: Vec<(String, Option<usize>)> = self
            .members
            .iter()
            .map(|(name, member)| {
                let of_labels = || self.plan.step_of(&member.labels);
                let step = listed.get(name.as_str()).copied().unwrap_or_else(of_labels);
                (name, member.step, step)
            })
            .filter(|(_, before, step)| before != step)
            .map(|(name, _, step)| (name.clone(), step))
            .collect();
        for (name, step) in steps {
            self.place(&name, step);
        }
    }

    /// An Application is in another phase of the rollout.
    fn moves(
        &mut self,
        application: String,
        to: RolloutPhase,
        since: Option<Timestamp>,
        message: String,
        at: Duration,
    ) -> Option<Transition> {
        let held = Some(&message).filter(|message| message.starts_with(HELD));
        let held = held.map(|message| hidden(message));
        let is_same =
            |member: &Member| member.phase == to && member.since == since && member.held == held;
        if self.members.get(&application).is_some_and(is_same) {
            return None;
        }
        let (before, after) = self.change(&application, |member| {
            let before = member.current_phase();
            (member.phase, member.since, member.held) = (to, since, held);
            (before, member.current_phase())
        });
        let phase = moved(before, after)?;
        let member = self.members.get(&application)?;
        // The detail of the operation is more specific.
        let doing = member.seen.as_ref().filter(|seen| !seen.stage.is_empty()).map(progress);
        let (step, text) = (member.step, doing.unwrap_or_else(|| hidden(&message)));
        Some(Transition { at, set: self.name.clone(), step, application, phase, text })
    }

    /// Steps that started, including those that were skipped.
    fn opened(&mut self, before: &Status, at: Duration) -> Vec<Transition> {
        let line = |step, text| Transition {
            at,
            set: self.name.clone(),
            step: Some(step),
            application: String::new(),
            phase: String::new(),
            text,
        };
        let mut transitions = Vec::new();
        let steps = self.plan.steps.len();
        let passed = |status: &Status| match (status.complete, status.open_step) {
            (true, _) => steps,
            (false, step) => step.unwrap_or_default(),
        };
        for step in passed(before)..passed(&self.status) {
            transitions.push(line(step, "complete".to_owned()));
        }
        if let Some(step) = self.status.open_step.filter(|step| before.open_step != Some(*step))
            && let Some(plan) = self.plan.steps.get(step)
        {
            let Count { total, .. } = self.count(step);
            let members = count(total as usize, "Application");
            let (selects, written) = (&plan.selects, &plan.max_update);
            let text = match plan.limit {
                None => format!("starts: {selects}, {members}, all at once"),
                Some(0) => format!("is held (maxUpdate {written}): {selects}, {members}"),
                Some(limit) => {
                    format!("starts: {selects}, {members}, {limit} at a time (maxUpdate {written})")
                }
            };
            transitions.push(line(step, text));
        }
        transitions
    }

    /// A new version of an Application.
    pub(super) fn observe(&mut self, name: String, seen: AppView, at: Duration) -> Vec<Transition> {
        let is_new = !self.members.contains_key(&name);
        let outside = is_new && !self.plan.rolling && !self.plan.steps.is_empty();
        if outside {
            self.members.insert(name.clone(), Member { step: Some(0), ..Member::default() });
            self.recount();
        }
        let (begins, before, phases) = self.change(&name, |member| {
            let begins = seen.is_operating() && !member.has_begun;
            let phase = member.current_phase();
            if seen.is_operating() {
                member.by_hand = seen.by_hand;
            }
            member.has_begun = seen.is_operating() || (member.has_begun && !seen.is_done());
            let before = member.seen.replace(seen);
            (begins, before, (phase, member.current_phase()))
        });
        let Some(member) = self.members.get(&name) else { return Vec::new() };
        let step = member.step;
        let moved = moved(phases.0, phases.1);
        let text = member.seen.as_ref().and_then(|seen| {
            let doing = || Some(progress(seen)).filter(|_| moved.is_some());
            change(before.as_ref(), seen).or_else(doing)
        });
        let transition = text.map(|text| Transition {
            at,
            set: self.name.clone(),
            step: step.filter(|_| self.plan.rolling),
            application: name.clone(),
            phase: moved.unwrap_or_else(|| phases.1.to_string()),
            text,
        });
        if begins && let Some(step) = step {
            let waits = |member: &Member| {
                member.step.is_some_and(|of| of < step)
                    && !member.seen.as_ref().is_some_and(AppView::is_done)
            };
            let rollout = self.plan.rolling && !member.by_hand;
            if rollout && !self.out_of_order.contains(&name) && self.members.values().any(waits) {
                self.out_of_order.push(name);
            }
            if let Some(measured) = self.measured.get_mut(step) {
                measured.opened.get_or_insert(at);
            }
        }
        if let Some(step) = step {
            self.measure(step, at);
        }
        Vec::from_iter(transition)
    }

    /// An Application was deleted.
    pub(super) fn lose(&mut self, name: &str, at: Duration) -> Option<Transition> {
        let member = self.members.get_mut(name)?;
        let step = member.step;
        (member.seen, member.has_begun) = (None, false);
        if !self.plan.applications.contains_key(name) {
            self.members.remove(name);
        }
        self.recount();
        Some(Transition {
            at,
            set: self.name.clone(),
            step,
            application: name.to_owned(),
            phase: String::new(),
            text: "deleted".to_owned(),
        })
    }

    fn measure(&mut self, step: usize, at: Duration) {
        let Count { total, done, observed, .. } = self.count(step);
        let Some(measured) = self.measured.get_mut(step) else { return };
        measured.peak = measured.peak.max(observed);
        if done < total {
            measured.done = None;
        } else if total > 0 {
            measured.done.get_or_insert(at);
        }
    }
}
