//! One ApplicationSet that is watched: the report of its rollout, what is measured of each
//! step, and the changes that are worth a line.
//!
//! Pure: takes observations and the time, returns transitions.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::run;
use super::state;
use super::text::count;
use super::transition::{Transition, change, moved, progress};
use wavegate_api::ObjectKey;
use wavegate_api::run::RunPhase;
use wavegate_rollout::requests::{Run, number_of};
use wavegate_rollout::rollout::budget::{Limit, MaxUpdate};
use wavegate_rollout::rollout::phase::Phase;
use wavegate_rollout::rollout::report::{
    self, ApplicationReport, Initiator, Member, Report, RolloutOutcome,
};

/// One ApplicationSet.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct WatchedSet {
    /// Its rollout; without a name until the set itself was observed.
    pub report: Report,
    /// UID and generation that its Applications were generated from.
    pub(super) version: (String, Option<i64>),
    /// It is one of a cluster, whose controller may not be running.
    pub is_in_cluster: bool,
    /// Measurements of each step.
    pub measured: Vec<Measured>,
    /// Applications that were seen to sync and have not completed since, whatever the
    /// controller reports; and whether a person started it, which says nothing about limits.
    begun: BTreeMap<String, bool>,
    /// Its runs by name.
    runs: BTreeMap<String, Run>,
}

/// Measurements of a step, from watching its Applications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Measured {
    /// Time when its first Application started.
    pub opened: Option<Duration>,
    /// Time when its last Application completed.
    pub done: Option<Duration>,
    /// Largest number of Applications in flight at the same time, without manual syncs.
    pub peak: usize,
}

impl WatchedSet {
    /// Its namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.report.set.namespace, self.name())
    }

    /// Its name; empty until it was observed.
    pub fn name(&self) -> &str {
        &self.report.set.name
    }

    /// What it came to.
    pub fn outcome(&self) -> RolloutOutcome {
        outcome_with(&self.report, self.run())
    }

    /// That its run is complete without some Applications, and which; `None` for another one.
    pub fn complete_without(&self) -> Option<String> {
        let ended = || self.run().and_then(|run| run::ended(run, &self.key()));
        let complete = [RunPhase::Complete, RunPhase::CompleteWithFailures];
        self.is_run_in(&complete).then(ended).flatten()
    }

    fn is_run_in(&self, phases: &[RunPhase]) -> bool {
        is_run_in(&self.report, self.run(), phases)
    }

    /// The latest run that a controller has described.
    pub fn run(&self) -> Option<&Run> {
        let known = self.runs.values().filter(|run| run.is_known);
        known.max_by_key(|run| number_of(&run.name))
    }

    /// Whether its run goes on only by the word of a person.
    pub fn waits_for_a_word(&self) -> bool {
        self.is_run_in(&WORD)
    }

    /// The time that is left, in words; `None` without a history, or when nothing goes on.
    pub fn left(&self) -> Option<String> {
        let run = self.run().filter(|run| !run.phase().has_ended())?;
        run.status.estimate.as_ref().map(run::estimate_text)
    }

    /// A new version of a run. Its transitions are news, unless it is the first that is seen of
    /// it and `is_known` before.
    pub(super) fn observe_run(
        &mut self,
        run: Run,
        is_known: bool,
        at: Duration,
    ) -> Vec<Transition> {
        let before = self.runs.get(&run.name);
        if before.is_none() && is_known {
            self.runs.insert(run.name.clone(), run);
            return Vec::new();
        }
        let before = before.map(|before| before.status.timeline.as_slice()).unwrap_or_default();
        let news = run.status.timeline.iter().filter(|entry| !before.contains(entry));
        let lines = news.filter_map(|entry| run::transition(&run, entry));
        let lines = lines.map(|text| self.line(at, None, "", String::new(), text)).collect();
        self.runs.insert(run.name.clone(), run);
        lines
    }

    /// A run was deleted.
    pub(super) fn lose_run(&mut self, name: &str) {
        self.runs.remove(name);
    }

    /// How long the rollout has taken until now, or until it was complete; `None` when the
    /// status does not contain its start.
    pub fn duration(&self, now: Timestamp) -> Option<Duration> {
        let (start, end) = self.report.span(now)?;
        Some(Duration::try_from(end.duration_since(start)).unwrap_or_default())
    }

    /// The Applications that no step selects and that need a manual sync, in a sentence.
    pub fn left_outside(&self) -> Option<String> {
        let text = state::left_outside(&self.report)?;
        Some(format!("N{}.", &text[1..]))
    }

    /// A new version of the set.
    pub(super) fn read(&mut self, set: report::Set, at: Duration) -> Vec<Transition> {
        let phase_of = |member: &Member| (member.phase(), member.since(), member.is_held());
        let before: BTreeMap<String, _> =
            self.report.members.iter().map(|(name, one)| (name.clone(), phase_of(one))).collect();
        let steps = self.report.steps.len();
        let passed_before = self.report.passed();
        let (open_before, error_before) =
            (self.report.open_step, self.report.set.status.error.clone());
        self.report.read(set);
        if self.report.steps.len() != steps {
            self.measured.resize(self.report.steps.len(), Measured::default());
        }
        let (mut completed, mut others) = (Vec::new(), Vec::new());
        for (name, member) in &self.report.members {
            let (phase, since) = (member.phase(), member.since());
            let known = before.get(name).copied();
            if known == Some((phase, since, member.is_held())) {
                continue;
            }
            let was = known.and_then(|(phase, ..)| phase);
            let Some(moved) = phase.and_then(|phase| moved(was, phase)) else { continue };
            // The detail of the operation is more specific.
            let doing = member.live.as_ref().filter(|live| !live.doing.stage.is_empty());
            let of_entry = || member.entry.as_ref().map(|entry| entry.message.clone());
            let text = doing.map(progress).or_else(of_entry).unwrap_or_default();
            let list = if phase == Some(Phase::Healthy) { &mut completed } else { &mut others };
            list.push(self.line(at, member.step, name, moved, text));
        }
        // In order: complete Applications, started steps, started Applications.
        let mut transitions = completed;
        transitions.extend(self.opened(passed_before, open_before, at));
        transitions.append(&mut others);
        if let Some((reason, message)) = &self.report.set.status.error
            && error_before != self.report.set.status.error
        {
            transitions.push(self.line(at, None, "", reason.clone(), message.clone()));
        }
        for step in 0..self.report.steps.len() {
            self.measure(step, at);
        }
        transitions
    }

    fn line(
        &self,
        at: Duration,
        step: Option<usize>,
        application: &str,
        phase: String,
        text: String,
    ) -> Transition {
        let (set, application) = (self.name().to_owned(), application.to_owned());
        Transition { at, set, step, application, phase, text }
    }

    /// Steps that started, including those that were skipped.
    fn opened(&self, passed: usize, open: Option<usize>, at: Duration) -> Vec<Transition> {
        let line = |step, text| self.line(at, Some(step), "", String::new(), text);
        let last = self.report.passed().min(self.report.steps.len());
        let mut transitions: Vec<Transition> =
            (passed..last).map(|step| line(step, "complete".to_owned())).collect();
        if let Some(index) = self.report.open_step.filter(|step| open != Some(*step))
            && let Some(step) = self.report.steps.get(index)
        {
            let total = usize::try_from(step.count.total).unwrap_or(usize::MAX);
            let members = count(total, "Application");
            let (selects, written) = (self.selects(index), max_update(&step.rule.max_update));
            let text = match step.limit() {
                Limit::Unlimited => format!("starts: {selects}, {members}, all at once"),
                Limit::AtMost(0) => {
                    format!("is held (maxUpdate {written}): {selects}, {members}")
                }
                Limit::AtMost(limit) => {
                    format!("starts: {selects}, {members}, {limit} at a time (maxUpdate {written})")
                }
            };
            transitions.push(line(index, text));
        }
        transitions
    }

    /// What a step selects, such as `env = prod`.
    pub fn selects(&self, step: usize) -> String {
        match self.report.steps.get(step).filter(|_| self.report.is_rolling()) {
            Some(step) => step.rule.to_string(),
            None => "all at once".to_owned(),
        }
    }

    /// A new version of an Application.
    pub(super) fn observe(
        &mut self,
        name: &str,
        live: ApplicationReport,
        at: Duration,
    ) -> Vec<Transition> {
        let before = self.report.members.get(name);
        let phase_before = before.and_then(Member::phase);
        let known = before.and_then(|member| member.live.as_ref());
        let changed = change(known, &live);
        let begins = live.is_operating() && !self.begun.contains_key(name);
        if live.is_operating() {
            self.begun.insert(name.to_owned(), live.initiator == Initiator::Person);
        } else if live.is_done() {
            self.begun.remove(name);
        }
        let doing = progress(&live);
        self.report.observe(name, Some(live));
        let Some(member) = self.report.members.get(name) else { return Vec::new() };
        let phase = member.phase();
        let moved = phase.and_then(|phase| moved(phase_before, phase));
        let text = changed.or_else(|| moved.is_some().then_some(doing));
        let (of_member, step) = (member.step, self.report.counted_in(member));
        let transition = text.map(|text| {
            let known = || phase.map_or("Unknown", Phase::name).to_owned();
            self.line(at, of_member, name, moved.unwrap_or_else(known), text)
        });
        if begins && let Some(measured) = step.and_then(|step| self.measured.get_mut(step)) {
            measured.opened.get_or_insert(at);
        }
        if let Some(step) = step {
            self.measure(step, at);
        }
        Vec::from_iter(transition)
    }

    /// An Application was deleted.
    pub(super) fn lose(&mut self, name: &str, at: Duration) -> Option<Transition> {
        let step = self.report.members.get(name)?.step;
        self.begun.remove(name);
        self.report.observe(name, None);
        Some(self.line(at, step, name, String::new(), "deleted".to_owned()))
    }

    fn measure(&mut self, step: usize, at: Duration) {
        let Some(count) = self.report.steps.get(step).map(|step| step.count) else { return };
        let by_rollout = self.begun.iter().filter(|(_, is_manual)| !**is_manual);
        let begun = by_rollout.filter(|(name, _)| {
            let member = self.report.members.get(*name);
            member.is_some_and(|member| self.report.counted_in(member) == Some(step))
        });
        let begun = begun.count();
        let Some(measured) = self.measured.get_mut(step) else { return };
        measured.peak = measured.peak.max(begun);
        if count.done < count.total {
            measured.done = None;
        } else if count.total > 0 {
            measured.done.get_or_insert(at);
        }
    }
}

/// The phases of a run that goes on only by the word of a person.
pub(in crate::cli) const WORD: [RunPhase; 3] =
    [RunPhase::Paused, RunPhase::AwaitingApproval, RunPhase::Held];

/// Whether the run of a rollout in steps is in one of these phases.
pub(in crate::cli) fn is_run_in(report: &Report, run: Option<&Run>, phases: &[RunPhase]) -> bool {
    report.is_rolling() && run.is_some_and(|run| phases.contains(&run.phase()))
}

/// What a rollout came to, with the latest run that a controller has described.
pub(in crate::cli) fn outcome_with(report: &Report, run: Option<&Run>) -> RolloutOutcome {
    match report.outcome() {
        // What has failed goes back.
        RolloutOutcome::Blocked { .. } | RolloutOutcome::Complete
            if is_run_in(report, run, &[RunPhase::RollingBack]) =>
        {
            RolloutOutcome::Running
        }
        // As `wait` has it: also of a run that had started nothing.
        RolloutOutcome::Complete
            if is_run_in(report, run, &[RunPhase::Aborted, RunPhase::RolledBack]) =>
        {
            RolloutOutcome::RunEnded
        }
        outcome => outcome,
    }
}

/// `maxUpdate` as written; empty when absent.
pub(in crate::cli) fn max_update(written: &MaxUpdate) -> String {
    match written {
        MaxUpdate::Unlimited => String::new(),
        written => written.to_string(),
    }
}
