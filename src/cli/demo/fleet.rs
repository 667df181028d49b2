//! State of the ApplicationSets and their Applications in the demo, from a watch of the
//! API server only.
//!
//! Pure: takes events and the time, returns transitions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::app_view::AppView;
use super::steps::{self, ExpectedSteps};
use super::text::count;
use crate::api::application_set::{ApplicationSetStatus, RolloutPhase, WaitingFor};
use crate::api::conditions::application_set as condition;
use crate::api::{self, SyncStatusCode};
use crate::desired::name_of;

/// All sets, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Fleet {
    pub sets: BTreeMap<String, Set>,
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
    /// Its steps and limits.
    pub plan: ExpectedSteps,
    /// StopReason these cannot be determined.
    pub mistake: Option<String>,
    /// Its status.
    pub status: Status,
    /// Its Applications by name: generated ones, and others that it owns.
    pub members: BTreeMap<String, Member>,
    /// Measurements of each step.
    pub measured: Vec<Measured>,
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
}

/// Measurements of a step, from watching its Applications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Measured {
    /// Time when its first Application started.
    pub opened: Option<Duration>,
    /// Time when its last Application completed.
    pub done: Option<Duration>,
    /// Largest number of Applications in flight at the same time.
    pub peak: u64,
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
    /// A set was created or changed.
    pub fn set(&mut self, raw: &Value, now: Timestamp, at: Duration) -> Vec<Transition> {
        let set = self.sets.entry(name_of(raw).to_owned()).or_default();
        name_of(raw).clone_into(&mut set.name);
        let namespace = raw["metadata"]["namespace"].as_str().unwrap_or_default();
        namespace.clone_into(&mut set.namespace);
        match steps::plan(raw, now) {
            Ok(plan) => {
                set.mistake = None;
                set.adopt(plan);
            }
            Err(error) => set.mistake = Some(error.to_string()),
        }
        set.read_status(&raw["status"], at)
    }

    /// A set was deleted.
    pub fn set_gone(&mut self, name: &str) {
        self.sets.remove(name);
    }

    /// An Application was created or changed; Applications without a set are ignored.
    pub fn application(&mut self, raw: &Value, at: Duration) -> Vec<Transition> {
        let Some(owner) = owner(raw) else { return Vec::new() };
        let (name, seen) = (name_of(raw).to_owned(), AppView::read(raw));
        if !seen.started_at.is_empty() {
            let key = (name.clone(), seen.started_at.clone());
            for hook in &seen.hooks {
                self.hooks.insert((key.0.clone(), key.1.clone(), hook.clone()));
            }
            if seen.operation.is_completed() {
                self.syncs.insert(key);
            }
        }
        self.sets.entry(owner).or_default().observe(name, seen, at)
    }

    /// An Application was deleted.
    pub fn application_gone(&mut self, raw: &Value, at: Duration) -> Vec<Transition> {
        let Some(set) = owner(raw).and_then(|owner| self.sets.get_mut(&owner)) else {
            return Vec::new();
        };
        let name = name_of(raw);
        let Some(member) = set.members.get_mut(name) else { return Vec::new() };
        let step = member.step;
        (member.seen, member.in_flight) = (None, false);
        if !set.plan.applications.contains_key(name) {
            set.members.remove(name);
        }
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

fn owner(application: &Value) -> Option<String> {
    let owners = application["metadata"]["ownerReferences"].as_array()?;
    let set = owners.iter().find(|owner| owner["kind"] == "ApplicationSet")?;
    Some(set["name"].as_str()?.to_owned())
}

impl Set {
    /// Number of Applications of a step: all, complete ones, and those in flight.
    pub fn count(&self, step: usize) -> (u64, u64, u64) {
        let mut count = (0, 0, 0);
        for member in self.members.values().filter(|member| member.step == Some(step)) {
            count.0 += 1;
            count.1 += u64::from(self.is_done(member));
            count.2 += u64::from(member.in_flight);
        }
        count
    }

    /// Whether a member is complete: in the rollout, or without one, Synced and Healthy.
    pub fn is_done(&self, member: &Member) -> bool {
        let works = member.seen.as_ref().is_some_and(AppView::is_done);
        works && (!self.plan.rolling || member.phase == RolloutPhase::Healthy)
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
    }

    /// The phase of each Application, with a message. One that a large set does not
    /// list is Healthy or Waiting (`decide/rollout/listed.rs`): Healthy when it was
    /// seen in sync after its operation.
    fn phases(&self, status: &ApplicationSetStatus) -> Vec<(String, RolloutPhase, String)> {
        let listed = status.application_status.iter();
        let mut phases: Vec<(String, RolloutPhase, String)> = listed
            .map(|entry| (entry.application.clone(), entry.status, entry.message.clone()))
            .collect();
        if status.rollout.as_ref().is_none_or(|rollout| rollout.listed.is_none()) {
            return phases;
        }
        let names: BTreeSet<&str> =
            status.application_status.iter().map(|entry| entry.application.as_str()).collect();
        let unlisted = self.members.iter().filter(|(name, _)| !names.contains(name.as_str()));
        phases.extend(unlisted.filter_map(|(name, member)| {
            let seen = member.seen.as_ref()?;
            let is_done = seen.sync == SyncStatusCode::Synced && seen.judged_since;
            let phase = if is_done { RolloutPhase::Healthy } else { RolloutPhase::Waiting };
            Some((name.clone(), phase, String::new()))
        }));
        phases
    }

    fn read_status(&mut self, raw: &Value, at: Duration) -> Vec<Transition> {
        let status: ApplicationSetStatus = api::read(raw).unwrap_or_default();
        let mut transitions = Vec::new();
        for (application, to, message) in self.phases(&status) {
            let member = self.members.entry(application.clone()).or_default();
            let before = std::mem::replace(&mut member.phase, to);
            // Entries that start in Waiting are not logged.
            let begins = before == RolloutPhase::Unknown && to == RolloutPhase::Waiting;
            if before == to || begins {
                continue;
            }
            let phase = match before {
                RolloutPhase::Unknown => to.to_string(),
                before => format!("{before} → {to}"),
            };
            // The detail of the operation is more specific.
            let doing = member.seen.as_ref().filter(|seen| !seen.stage.is_empty()).map(progress);
            transitions.push(Transition {
                at,
                step: member.step,
                application,
                phase,
                text: doing.unwrap_or(message),
            });
        }
        // In order: complete Applications, started steps, started Applications.
        transitions.sort_by_key(|transition| !transition.phase.ends_with("Healthy"));
        let done = transitions.iter().filter(|t| t.phase.ends_with("Healthy")).count();
        let before = std::mem::replace(&mut self.status, summarize(&status, self.plan.steps.len()));
        transitions.splice(done..done, self.opened(&before, at));
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
        self.measure(at);
        transitions
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
            let (total, ..) = self.count(step);
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
        let member = self.members.entry(name.clone()).or_default();
        if is_new && !self.plan.rolling && !self.plan.steps.is_empty() {
            member.step = Some(0);
        }
        let step = member.step;
        let begins = seen.is_operating() && !member.in_flight;
        member.in_flight = seen.is_operating() || (member.in_flight && !seen.is_done());
        let before = member.seen.replace(seen);
        let news = member.seen.as_ref().and_then(|seen| news(before.as_ref(), seen));
        let transition = news.map(|text| Transition {
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
            if self.plan.rolling && self.members.values().any(waits) {
                self.out_of_order.push(name);
            }
            if let Some(measured) = self.measured.get_mut(step) {
                measured.opened.get_or_insert(at);
            }
        }
        self.measure(at);
        Vec::from_iter(transition)
    }

    fn measure(&mut self, at: Duration) {
        for step in 0..self.measured.len() {
            let (total, done, in_flight) = self.count(step);
            let measured = &mut self.measured[step];
            measured.peak = measured.peak.max(in_flight);
            if done < total {
                measured.done = None;
            } else if total > 0 {
                measured.done.get_or_insert(at);
            }
        }
    }
}

fn summarize(status: &ApplicationSetStatus, steps: usize) -> Status {
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
fn news(before: Option<&AppView>, seen: &AppView) -> Option<String> {
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
