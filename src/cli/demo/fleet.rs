//! State of the ApplicationSets and their Applications in the demo, from a watch of the
//! API server only.
//!
//! Pure: takes events and the time, returns transitions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use super::app_view::AppView;
use super::steps::{self, ExpectedSteps};
use super::text::count;
use crate::api::SyncStatusCode;
use crate::api::application_set::{
    ApplicationSetApplicationStatus, ApplicationSetCondition, RolloutPhase, RolloutStatus,
    WaitingFor,
};
use crate::api::conditions::application_set as condition;
use crate::desired::inputs::Inputs;
use crate::watch::control_plane::owner;
use crate::watch::object::Object;

/// All sets, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Fleet {
    pub sets: BTreeMap<String, Set>,
    /// What their generators read.
    inputs: Inputs,
    /// Completed syncs, by Application and start time.
    syncs: BTreeSet<(String, String)>,
    /// Completed hooks, by Application, start time of the sync, and hook.
    hooks: BTreeSet<(String, String, String)>,
}

/// One ApplicationSet.
#[derive(Clone, Debug, Default)]
pub(super) struct Set {
    /// Name; empty until the set itself was observed.
    pub name: String,
    /// Namespace of the set and its Applications.
    pub namespace: String,
    /// UID and generation that the steps were read from.
    version: (String, Option<i64>),
    /// Its steps and limits.
    pub plan: ExpectedSteps,
    /// Why these cannot be determined.
    pub error: Option<String>,
    /// Its status.
    pub status: Status,
    /// Its Applications by name: generated ones, and others that it owns.
    pub members: BTreeMap<String, Member>,
    /// Measurements of each step.
    pub measured: Vec<Measured>,
    /// Numbers of Applications of each step, kept current with every member.
    counts: Vec<Count>,
    /// Applications that started before the previous steps were complete.
    pub out_of_order: Vec<String>,
}

/// The displayed part of a set's status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// The first incomplete step, counted from 0; `None` before the rollout started and
    /// after it ended.
    pub open_step: Option<usize>,
    /// All steps are complete.
    pub complete: bool,
    /// Description of the rollout's state.
    pub message: String,
    /// Applications the rollout is waiting for, and why.
    pub waiting: Vec<(String, String)>,
    /// Reason and message of an error that requires user action.
    pub error: Option<(String, String)>,
}

/// One Application of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Member {
    /// Its step, counted from 0.
    pub step: Option<usize>,
    /// The last observed version; `None` when it does not exist.
    pub seen: Option<AppView>,
    /// Its rollout phase in the status of the set.
    pub phase: RolloutPhase,
    /// It started to sync and has not completed since.
    pub in_flight: bool,
    /// A user started that sync: it says nothing about the limits of the rollout.
    pub by_hand: bool,
}

/// Measurements of a step, from watching its Applications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Measured {
    /// Time when its first Application started.
    pub opened: Option<Duration>,
    /// Time when its last Application completed.
    pub done: Option<Duration>,
    /// Largest number of Applications in flight at the same time, without manual syncs.
    pub peak: u64,
}

/// Number of Applications of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub total: u64,
    /// Complete ones.
    pub done: u64,
    pub in_flight: u64,
    /// Those in flight that a user synced.
    pub by_hand: u64,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.total += other.total;
        self.done += other.done;
        self.in_flight += other.in_flight;
        self.by_hand += other.by_hand;
    }

    fn remove(&mut self, other: Self) {
        self.total -= other.total;
        self.done -= other.done;
        self.in_flight -= other.in_flight;
        self.by_hand -= other.by_hand;
    }
}

impl Member {
    fn is_done(&self, rolling: bool) -> bool {
        let works = self.seen.as_ref().is_some_and(AppView::is_done);
        works && (!rolling || self.phase == RolloutPhase::Healthy)
    }

    /// What it adds to the count of its step.
    fn counts(&self, rolling: bool) -> Count {
        let (done, in_flight) = (self.is_done(rolling), self.in_flight);
        let by_hand = in_flight && self.by_hand;
        Count { total: 1, done: done.into(), in_flight: in_flight.into(), by_hand: by_hand.into() }
    }
}

/// The part of a set's status that the demo reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusView {
    conditions: Vec<ApplicationSetCondition>,
    application_status: Vec<ApplicationSetApplicationStatus>,
    rollout: Option<RolloutStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SetView {
    metadata: Metadata,
    status: StatusView,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    generation: Option<i64>,
}

/// A change to log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transition {
    /// Time since the start.
    pub at: Duration,
    /// The step, counted from 0; `None` outside steps.
    pub step: Option<usize>,
    /// The Application; empty when the change concerns the step or the set.
    pub application: String,
    /// The rollout phase before and after the change, or the current one.
    pub phase: String,
    /// Description of the change.
    pub text: String,
}

impl Fleet {
    /// No set is known yet.
    pub fn new(inputs: Inputs) -> Self {
        Self { inputs, ..Self::default() }
    }

    /// A set was created or changed.
    pub fn set(&mut self, object: &Object, now: Timestamp, at: Duration) -> Vec<Transition> {
        let set = self.sets.entry(object.name().to_owned()).or_default();
        object.name().clone_into(&mut set.name);
        object.namespace().clone_into(&mut set.namespace);
        let view: SetView = object.read().unwrap_or_default();
        // The status changes much more often than the spec.
        let version = (object.uid().to_owned(), view.metadata.generation);
        if version.1.is_none() || version != set.version {
            match steps::plan(&object.parse(), &self.inputs, now) {
                Ok(plan) => {
                    set.error = None;
                    set.adopt(plan);
                }
                Err(error) => set.error = Some(error.to_string()),
            }
            set.version = version;
        }
        set.read_status(view.status, at)
    }

    /// A set was deleted.
    pub fn set_gone(&mut self, name: &str) {
        self.sets.remove(name);
    }

    /// An Application was created or changed; Applications without a set are ignored.
    pub fn application(&mut self, object: &Object, at: Duration) -> Vec<Transition> {
        let Some(owner) = owner(object) else { return Vec::new() };
        let (name, seen) = (object.name().to_owned(), AppView::read(object));
        if !seen.started_at.is_empty() {
            let key = (name.clone(), seen.started_at.clone());
            for hook in &seen.hooks {
                self.hooks.insert((key.0.clone(), key.1.clone(), hook.clone()));
            }
            if seen.operation.is_completed() {
                self.syncs.insert(key);
            }
        }
        self.sets.entry(owner.name).or_default().observe(name, seen, at)
    }

    /// An Application was deleted.
    pub fn application_gone(&mut self, object: &Object, at: Duration) -> Vec<Transition> {
        let Some(set) = owner(object).and_then(|owner| self.sets.get_mut(&owner.name)) else {
            return Vec::new();
        };
        let name = object.name();
        let Some(member) = set.members.get_mut(name) else { return Vec::new() };
        let step = member.step;
        (member.seen, member.in_flight) = (None, false);
        if !set.plan.applications.contains_key(name) {
            set.members.remove(name);
        }
        set.recount();
        vec![Transition {
            at,
            step,
            application: name.to_owned(),
            phase: String::new(),
            text: "deleted".to_owned(),
        }]
    }

    /// Sets that were observed themselves, not only through their Applications.
    pub fn known(&self) -> impl Iterator<Item = &Set> {
        self.sets.values().filter(|set| !set.name.is_empty())
    }

    /// Number of completed syncs.
    pub fn syncs(&self) -> usize {
        self.syncs.len()
    }

    /// Number of completed hooks.
    pub fn hooks(&self) -> usize {
        self.hooks.len()
    }
}

impl Set {
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

    /// Whether a member is complete: in the rollout, or without one, Synced and Healthy.
    pub fn is_done(&self, member: &Member) -> bool {
        member.is_done(self.plan.rolling)
    }

    /// Whether Applications of a step may start.
    pub fn is_open(&self, step: usize) -> bool {
        !self.plan.rolling || self.status.complete || self.status.open_step >= Some(step)
    }

    fn adopt(&mut self, plan: ExpectedSteps) {
        if plan == self.plan {
            return;
        }
        self.members
            .retain(|name, member| member.seen.is_some() || plan.applications.contains_key(name));
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

    fn read_status(&mut self, mut status: StatusView, at: Duration) -> Vec<Transition> {
        let (mut completed, mut others) = (Vec::new(), Vec::new());
        let mut add = |phase, changed: Option<Transition>| {
            let list = if phase == RolloutPhase::Healthy { &mut completed } else { &mut others };
            list.extend(changed);
        };
        let unlisted = self.unlisted(&status);
        for entry in std::mem::take(&mut status.application_status) {
            let changed = self.moves(entry.application, entry.status, entry.message, at);
            add(entry.status, changed);
        }
        for (application, phase) in unlisted {
            add(phase, self.moves(application, phase, String::new(), at));
        }
        let before = std::mem::replace(&mut self.status, summarize(&status, self.plan.steps.len()));
        // In order: complete Applications, started steps, started Applications.
        let mut transitions = completed;
        transitions.extend(self.opened(&before, at));
        transitions.append(&mut others);
        if let Some((reason, message)) = &self.status.error
            && before.error != self.status.error
        {
            transitions.push(Transition {
                at,
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

    /// An Application is in another phase of the rollout.
    fn moves(
        &mut self,
        application: String,
        to: RolloutPhase,
        message: String,
        at: Duration,
    ) -> Option<Transition> {
        if self.members.get(&application).is_some_and(|member| member.phase == to) {
            return None;
        }
        let before = self.change(&application, |member| std::mem::replace(&mut member.phase, to));
        // Entries that start in Waiting are not logged.
        if before == to || before == RolloutPhase::Unknown && to == RolloutPhase::Waiting {
            return None;
        }
        let phase = match before {
            RolloutPhase::Unknown => to.to_string(),
            before => format!("{before} → {to}"),
        };
        let member = self.members.get(&application)?;
        // The detail of the operation is more specific.
        let doing = member.seen.as_ref().filter(|seen| !seen.stage.is_empty()).map(progress);
        let (step, text) = (member.step, doing.unwrap_or(message));
        Some(Transition { at, step, application, phase, text })
    }

    /// Steps that started, including those that were skipped.
    fn opened(&mut self, before: &Status, at: Duration) -> Vec<Transition> {
        let line = |step, text| Transition {
            at,
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
            let limit = plan.limit.map_or_else(
                || "all at once".to_owned(),
                |limit| format!("{limit} at a time (maxUpdate {})", plan.max_update),
            );
            transitions.push(line(
                step,
                format!(
                    "starts: {}, {}, {limit}",
                    plan.selects,
                    count(total as usize, "Application")
                ),
            ));
        }
        transitions
    }

    fn observe(&mut self, name: String, seen: AppView, at: Duration) -> Vec<Transition> {
        let is_new = !self.members.contains_key(&name);
        let outside = is_new && !self.plan.rolling && !self.plan.steps.is_empty();
        if outside {
            self.members.insert(name.clone(), Member { step: Some(0), ..Member::default() });
            self.recount();
        }
        let (begins, before) = self.change(&name, |member| {
            let begins = seen.is_operating() && !member.in_flight;
            if seen.is_operating() {
                member.by_hand = seen.by_hand;
            }
            member.in_flight = seen.is_operating() || (member.in_flight && !seen.is_done());
            (begins, member.seen.replace(seen))
        });
        let Some(member) = self.members.get(&name) else { return Vec::new() };
        let step = member.step;
        let change = member.seen.as_ref().and_then(|seen| change(before.as_ref(), seen));
        let transition = change.map(|text| Transition {
            at,
            step: step.filter(|_| self.plan.rolling),
            application: name.clone(),
            phase: member.phase.to_string(),
            text,
        });
        if begins && let Some(step) = step {
            let waits = |member: &Member| {
                member.step.is_some_and(|of| of < step)
                    && !member.seen.as_ref().is_some_and(AppView::is_done)
            };
            let rollout = self.plan.rolling && !member.by_hand;
            if rollout && self.members.values().any(waits) {
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

    fn measure(&mut self, step: usize, at: Duration) {
        let Count { total, done, in_flight, by_hand } = self.count(step);
        let Some(measured) = self.measured.get_mut(step) else { return };
        measured.peak = measured.peak.max(in_flight.saturating_sub(by_hand));
        if done < total {
            measured.done = None;
        } else if total > 0 {
            measured.done.get_or_insert(at);
        }
    }
}

fn summarize(status: &StatusView, steps: usize) -> Status {
    let rollout = status.rollout.clone().unwrap_or_default();
    let find = |kind: &str| status.conditions.iter().find(|condition| condition.type_ == kind);
    let progressing = find(condition::ROLLOUT_PROGRESSING);
    let complete = progressing.is_some_and(|condition| condition.status == "False");
    let open_step =
        usize::try_from(rollout.step - 1).ok().filter(|step| !complete && *step < steps);
    let waiting = |wait: &WaitingFor| (wait.application.clone(), wait.reason.clone());
    let error = find(condition::ERROR_OCCURRED).filter(|condition| condition.status == "True");
    Status {
        open_step,
        complete,
        message: rollout.message,
        waiting: rollout.waiting_for.iter().map(waiting).collect(),
        error: error.map(|condition| (condition.reason.clone(), condition.message.clone())),
    }
}

/// What changed in an Application, if it is worth logging.
fn change(before: Option<&AppView>, seen: &AppView) -> Option<String> {
    let before = before?;
    if seen.operation.is_running() {
        let same = (&before.stage, &before.detail) == (&seen.stage, &seen.detail);
        return (!same && !seen.detail.is_empty()).then(|| progress(seen));
    }
    if seen.is_stuck() {
        let same = before.is_stuck() && before.detail == seen.detail;
        let what = if seen.has_failed() { "the sync failed" } else { "cannot be synced" };
        return (!same).then(|| format!("{what}: {}", seen.detail));
    }
    (seen.is_done() && !before.is_done()).then(|| "Synced and Healthy".to_owned())
}

/// Phase of a running operation and what it is waiting for.
pub(super) fn progress(seen: &AppView) -> String {
    let stage = seen.stage.as_str();
    if let Some(hook) = seen.detail.strip_prefix("completion of ") {
        return format!("{stage} {hook}").trim().to_owned();
    }
    let what = seen.detail.strip_prefix("healthy state of ").unwrap_or(&seen.detail);
    match (stage, what) {
        (stage, "") => stage.to_owned(),
        ("", what) => what.to_owned(),
        (stage, what) => format!("{stage}: {what}"),
    }
}
