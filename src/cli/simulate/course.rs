//! The course of a simulation as a timeline.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::scenario::SimulationCase;
use super::timeline::{
    ApplicationLine, GateKind, GateLine, Opening, SetLine, StepLine, Timeline, TimelineMark,
    TimelineSpan,
};
use wavegate_api::run::{RolloutRunStatus, RunGate};
use wavegate_simulation::{ApplicationHistory, History, HistorySpan, PerformedAction, SpanEnd};

/// The timeline of a history.
pub(super) fn timeline(case: &SimulationCase, history: &History) -> Timeline {
    let names: BTreeSet<&str> = case.applications.values().map(|(set, _)| &**set).collect();
    let set = |name: &str| {
        let place = format!("{}/{name}", case.namespace());
        let runs = self::runs(history.runs.get(&place).map(Vec::as_slice).unwrap_or_default());
        SetLine {
            namespace: case.namespace().to_owned(),
            name: name.to_owned(),
            runs: runs.iter().map(|run| run.name.to_owned()).collect(),
            steps: steps(case, history, name, &runs),
            waits: history.waits.get(&place).cloned().unwrap_or_default(),
        }
    };
    let mark = |happened: &PerformedAction| TimelineMark {
        at: happened.at,
        until: happened.until,
        text: match &happened.refused {
            None => happened.what.clone(),
            Some(why) => format!("{}: not done: {why}", happened.what),
        },
    };
    Timeline {
        start: history.start,
        end: history.end,
        is_complete: history.outcome == SpanEnd::Complete,
        outcome: outcome(&history.outcome),
        sets: names.into_iter().map(set).collect(),
        marks: history.happened.iter().map(mark).collect(),
    }
}

/// How it ended, in words.
pub(super) fn outcome(end: &SpanEnd) -> String {
    match end {
        SpanEnd::Complete => "complete".to_owned(),
        SpanEnd::Ended { message } => format!("ended: {message}"),
        SpanEnd::Stuck { message } => format!("does not end: {message}"),
        SpanEnd::TimeIsOver { message } => {
            format!("not complete when the time was over: {message}")
        }
    }
}

/// A run with its end.
struct Run<'a> {
    name: &'a str,
    status: &'a RolloutRunStatus,
    /// When it ended, at the latest by the beginning of the next one.
    ended: Option<Timestamp>,
}

fn runs(all: &[(String, RolloutRunStatus)]) -> Vec<Run<'_>> {
    let mut runs: Vec<Run<'_>> = Vec::with_capacity(all.len());
    let mut next = None;
    for (name, status) in all.iter().rev() {
        let ended = status.ended_at.as_ref().map(|at| at.0).or(next);
        runs.push(Run { name, status, ended });
        next = status.started_at.as_ref().map(|at| at.0);
    }
    runs.reverse();
    runs
}

impl Run<'_> {
    /// When it had a step open.
    fn opening(&self, step: usize) -> Option<Opening> {
        let step = self.status.steps.get(step)?;
        let completed = step.completed_at.as_ref().map(|at| at.0);
        Some(Opening {
            run: self.name.to_owned(),
            opened: step.opened_at.as_ref()?.0,
            completed,
            ended: self.ended.filter(|_| completed.is_none()),
        })
    }
}

fn steps(case: &SimulationCase, history: &History, set: &str, runs: &[Run<'_>]) -> Vec<StepLine> {
    let mut of_step: BTreeMap<Option<usize>, Vec<ApplicationLine>> = BTreeMap::new();
    for (name, (_, step)) in case.applications.iter().filter(|(_, (of, _))| of == set) {
        let known = history.applications.get(name);
        let spans = known.map(|known| spans(known, history.end)).unwrap_or_default();
        let line = ApplicationLine { name: name.clone(), spans };
        of_step.entry(*step).or_default().push(line);
    }
    let line = |(step, applications): (Option<usize>, Vec<ApplicationLine>)| {
        // A run that superseded another begins its steps anew.
        let mut openings: Vec<Opening> = runs.iter().filter_map(|run| run.opening(step?)).collect();
        let last = openings.pop();
        let total = u64::try_from(applications.len()).unwrap_or(u64::MAX);
        StepLine {
            number: step.map(|step| step + 1),
            limit: step.and_then(|step| case.limit(set, step, total)),
            opened: last.as_ref().map(|last| last.opened),
            completed: last.as_ref().and_then(|last| last.completed),
            ended: last.as_ref().and_then(|last| last.ended),
            run: last.map(|last| last.run),
            earlier: openings,
            total,
            applications,
            gates: runs.iter().flat_map(|run| gates(run, step, history.end)).collect(),
        }
    };
    // Those of no step are last.
    let (without, with): (Vec<_>, Vec<_>) =
        of_step.into_iter().partition(|(step, _)| step.is_none());
    with.into_iter().chain(without).map(line).collect()
}

/// The gates of a run that hold a step.
fn gates(run: &Run<'_>, step: Option<usize>, end: Timestamp) -> Vec<GateLine> {
    let known = step.and_then(|step| run.status.steps.get(step));
    let Some(known) = known else { return Vec::new() };
    let is_of_step = |gate: &&RunGate| known.gates.contains(&gate.name);
    let line = |gate: &RunGate| {
        // Until the Applications before it are Healthy, these are waited for, and not the gate.
        let since = known.opened_at.as_ref().or(gate.soaking_since.as_ref())?.0;
        let has_soak = gate.soaks_until.is_some();
        let opened = gate.opened_at.as_ref().map(|at| at.0);
        Some(GateLine {
            name: gate.name.clone(),
            run: run.name.to_owned(),
            since: since.min(end),
            opened,
            ended: run.ended.filter(|_| opened.is_none()),
            soaks_until: gate.soaks_until.as_ref().map(|at| at.0),
            what: match (gate.approvals > 0, has_soak) {
                (true, true) => GateKind::Both,
                (true, false) => GateKind::Approval,
                _ => GateKind::Soak,
            },
            by: Some(gate.approved_by.join(", ")).filter(|by| !by.is_empty()),
        })
    };
    run.status.gates.iter().filter(is_of_step).filter_map(line).collect()
}

fn spans(history: &ApplicationHistory, end: Timestamp) -> Vec<TimelineSpan> {
    // What an Application did after the end is no part of the rollout.
    let next = history.spans.iter().skip(1).map(|span| span.from.min(end)).chain([end]);
    let span = |(span, until): (&HistorySpan, Timestamp)| TimelineSpan {
        from: span.from,
        until,
        what: span.state,
    };
    // What lasts no time is a comparison before the next one; at the end, it is what was reached.
    let lasts = |(span, until): &(&HistorySpan, Timestamp)| {
        span.from < *until || *until == end && span.from == end
    };
    history.spans.iter().zip(next).filter(lasts).map(span).collect()
}
