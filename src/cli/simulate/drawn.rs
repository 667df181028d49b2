//! A timeline as the chart of the page: the same one shows what was. Pure.

use jiff::Timestamp;

use super::scale::{TimeAxis, short};
use super::segments::{ending, in_flight, rows};
use super::timeline::{GateLine, Look, SetLine, StepLine, Timeline};
use wavegate_dashboard::reports::{
    CellState, ChartDocument, ChartMarkDocument, ChartRowDocument, ChartSpanDocument,
    ChartStepDocument,
};
use wavegate_simulation::SpanKind;

/// The chart of a set of a timeline.
pub(super) fn chart_document(timeline: &Timeline, set: &SetLine) -> ChartDocument {
    let clock = TimeAxis::of(timeline);
    let mark = |mark: &super::timeline::TimelineMark| {
        let until = mark.until.map(|until| format!(" until {}", short(clock.since_start(until))));
        let text = format!("{}{}", mark.text, until.unwrap_or_default());
        ChartMarkDocument { at: mark.at, text }
    };
    let mut marks: Vec<ChartMarkDocument> = timeline.marks.iter().map(mark).collect();
    marks.sort_by_key(|mark| mark.at);
    ChartDocument {
        span: Some((timeline.start, timeline.end.max(timeline.start))),
        now: None,
        steps: set.steps.iter().map(|step| chart_step(step, timeline, clock)).collect(),
        marks,
    }
}

fn chart_step(step: &StepLine, timeline: &Timeline, clock: TimeAxis) -> ChartStepDocument {
    let several = step.openings().count() > 1;
    let open = step.openings().map(|opening| ChartSpanDocument {
        from: opening.opened,
        until: opening.until().unwrap_or(timeline.end).max(opening.opened),
        state: match (opening.completed, opening.ended) {
            (Some(_), _) => CellState::Done,
            (None, Some(_)) => CellState::Skipped,
            (None, None) => CellState::Moving,
        },
        label: if several { format!("open in run {}", opening.run) } else { "open".to_owned() },
    });
    ChartStepDocument {
        title: step.title(),
        note: step.limit.map(|limit| format!("at most {limit} at a time")).unwrap_or_default(),
        open: open.collect(),
        gates: step.gates.iter().map(|gate| gate_row(gate, timeline.end)).collect(),
        rows: rows(step, clock)
            .into_iter()
            .map(|row| {
                let spans = row.application.spans.iter().filter(|span| span.from < span.until);
                let took = short(in_flight(&row.segments));
                let note = match ending(row.application, clock) {
                    Some(SpanKind::Healthy) | None => took,
                    Some(what) if what.is_active() => format!("{took} +"),
                    Some(what) => Look::of(what).label.to_owned(),
                };
                ChartRowDocument {
                    name: row.application.name.clone(),
                    spans: spans
                        .map(|span| ChartSpanDocument {
                            from: span.from,
                            until: span.until,
                            state: state_of(span.what),
                            label: Look::of(span.what).label.to_owned(),
                        })
                        .collect(),
                    note,
                }
            })
            .collect(),
    }
}

fn gate_row(gate: &GateLine, end: Timestamp) -> ChartRowDocument {
    let until = gate.until().unwrap_or(end).max(gate.since);
    ChartRowDocument {
        name: format!("Gate {}", gate.name),
        note: match (&gate.by, gate.opened) {
            (Some(by), Some(_)) => format!("by {by}"),
            (_, Some(_)) => gate.what.label().to_owned(),
            (_, None) if gate.ended.is_some() => "run ended".to_owned(),
            (_, None) => "holds".to_owned(),
        },
        spans: vec![ChartSpanDocument {
            from: gate.since,
            until,
            state: if gate.until().is_some() { CellState::Waiting } else { CellState::Stuck },
            label: format!("waits for {}", gate.what.label()),
        }],
    }
}

fn state_of(what: SpanKind) -> CellState {
    match what {
        SpanKind::Waiting | SpanKind::Held => CellState::Waiting,
        SpanKind::Pending | SpanKind::Syncing | SpanKind::BecomingHealthy | SpanKind::GoingBack => {
            CellState::Moving
        }
        SpanKind::Healthy => CellState::Done,
        SpanKind::Failed => CellState::Stuck,
        SpanKind::Back | SpanKind::Skipped => CellState::Skipped,
    }
}
