//! A run of a cluster as a chart: its steps and gates from its record, its Applications from what
//! they were deployed with. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::cli::console::output::human;
use crate::cli::rollout_view::set::max_update;
use crate::cli::runs::ReportedSet;
use wavegate_api::Raw;
use wavegate_api::run::{RunGate, RunStep};
use wavegate_dashboard::reports::{
    CellState, ChartDocument, ChartRowDocument, ChartSpanDocument, ChartStepDocument,
};
use wavegate_rollout::application_set::status::report_input;
use wavegate_rollout::requests::Run;

/// The chart of a run of this set.
pub(super) fn chart_of_run(found: &ReportedSet, run: &Run, now: Timestamp) -> ChartDocument {
    let status = &run.status;
    let Some(start) = status.started_at.as_ref().map(|at| at.0) else {
        return ChartDocument::default();
    };
    let end = status.ended_at.as_ref().map_or(now, |at| at.0).max(start);
    let report = report_input::read_report(&found.set, &found.applications, None);
    let mut rows: BTreeMap<Option<usize>, Vec<ChartRowDocument>> = BTreeMap::new();
    for (name, member) in report.ordered() {
        let Some(live) = found.applications.get(name) else { continue };
        let spans = spans(live, run, (start, end));
        if !spans.is_empty() {
            let note = note(&spans);
            let row = ChartRowDocument { name: name.to_owned(), spans, note };
            rows.entry(report.counted_in(member)).or_default().push(row);
        }
    }
    let step = |(index, step): (usize, &RunStep)| {
        let opened = step.opened_at.as_ref().map(|at| at.0);
        let completed = step.completed_at.as_ref().map(|at| at.0);
        let limit = report.steps.get(index).map(|step| max_update(&step.rule.max_update));
        let limit = limit.filter(|limit| !limit.is_empty());
        let gates = status.gates.iter().filter(|gate| step.gates.contains(&gate.name));
        ChartStepDocument {
            title: format!("Step {}", index + 1),
            note: match limit {
                Some(limit) => format!("{}/{}, at most {limit} at a time", step.done, step.total),
                None => format!("{}/{}", step.done, step.total),
            },
            open: opened
                .map(|from| ChartSpanDocument {
                    from,
                    until: completed.unwrap_or(end),
                    state: if completed.is_some() { CellState::Done } else { CellState::Moving },
                    label: "open".to_owned(),
                })
                .into_iter()
                .collect(),
            gates: gates.filter_map(|gate| gate_row(gate, end)).collect(),
            rows: rows.remove(&Some(index)).unwrap_or_default(),
        }
    };
    let steps = status.steps.iter().enumerate().map(step).collect();
    // What happened is beside it.
    ChartDocument { span: Some((start, end)), now: None, steps, marks: Vec::new() }
}

fn gate_row(gate: &RunGate, end: Timestamp) -> Option<ChartRowDocument> {
    let since = gate.soaking_since.as_ref().or(gate.waiting_since.as_ref())?.0;
    let opened = gate.opened_at.as_ref().map(|at| at.0);
    let until = opened.unwrap_or(end).max(since);
    Some(ChartRowDocument {
        name: format!("Gate {}", gate.name),
        note: match opened {
            Some(_) if gate.approved_by.is_empty() => human(until.as_second() - since.as_second()),
            Some(_) => format!("by {}", gate.approved_by.join(", ")),
            None => "holds".to_owned(),
        },
        spans: vec![ChartSpanDocument {
            from: since,
            until,
            state: if opened.is_some() { CellState::Waiting } else { CellState::Stuck },
            label: "held".to_owned(),
        }],
    })
}

/// The states of an Application during a run: when it was deployed, when it failed, what it does now.
fn spans(live: &Value, run: &Run, (start, end): (Timestamp, Timestamp)) -> Vec<ChartSpanDocument> {
    let name = live.name();
    let span = |from: Timestamp, until: Timestamp, state, label: &str| ChartSpanDocument {
        from: from.max(start),
        until: until.min(end).max(from.max(start)),
        state,
        label: label.to_owned(),
    };
    if run.status.skipped.iter().any(|one| one == name) {
        return vec![span(start, end, CellState::Skipped, "skipped")];
    }
    // What happened to it, in order: when, until when if it is known, and as what.
    let mut happened: Vec<(Timestamp, Option<Timestamp>, CellState, &str)> = Vec::new();
    for deployed in live.items("/status/history") {
        let (Some(from), Some(until)) =
            (deployed.time("/deployStartedAt"), deployed.time("/deployedAt"))
        else {
            continue;
        };
        if until >= start && from <= end {
            happened.push((from, Some(until), CellState::Moving, "syncing"));
            happened.push((until, None, CellState::Done, "deployed"));
        }
    }
    for entry in
        run.status.timeline.iter().filter(|one| one.what == "Failed" && one.subject == name)
    {
        if let Some(at) = &entry.at {
            happened.push((at.0, None, CellState::Stuck, "failed"));
        }
    }
    let is_running = live.text("/status/operationState/phase") == "Running";
    if let Some(from) = live.time("/status/operationState/startedAt").filter(|_| is_running)
        && from <= end
    {
        happened.push((from, None, CellState::Moving, "syncing"));
    }
    happened.sort_by_key(|one| one.0);
    let next = happened.iter().skip(1).map(|one| one.0).chain([end]).collect::<Vec<_>>();
    let first = happened.first().map(|one| one.0).filter(|first| *first > start);
    let waiting = first.map(|first| span(start, first, CellState::Waiting, "waiting"));
    let of = |((from, until, state, label), next): (&(_, Option<_>, _, &str), Timestamp)| {
        span(*from, until.unwrap_or(next).min(next), *state, label)
    };
    waiting.into_iter().chain(happened.iter().zip(next).map(of)).collect()
}

/// How long it was in flight, or how it ended.
fn note(spans: &[ChartSpanDocument]) -> String {
    let is_moving = |span: &&ChartSpanDocument| span.state == CellState::Moving;
    let took = |span: &ChartSpanDocument| span.until.as_second() - span.from.as_second();
    let took: i64 = spans.iter().filter(is_moving).map(took).sum();
    match spans.last().map(|span| span.state) {
        Some(CellState::Stuck) => "failed".to_owned(),
        Some(CellState::Skipped) => "skipped".to_owned(),
        Some(CellState::Moving) => format!("{} +", human(took)),
        _ => human(took),
    }
}
