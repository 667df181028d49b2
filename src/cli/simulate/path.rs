//! What a simulated rollout took its time for, and what would shorten it.

use jiff::Timestamp;
use serde::Serialize;

use super::scale::exact;
use super::timeline::{GateKind, SpanKind, StepLine, Timeline};

/// A part of the way from the start to the end, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part {
    /// The set.
    pub set: String,
    /// The step, counted from 1.
    pub step: usize,
    /// What the time was taken for.
    pub what: String,
    /// How long, in seconds.
    pub seconds: i64,
    /// The setting that would shorten it.
    pub shorten: String,
}

/// The critical path of each set: steps follow one another, so each step is on it, divided into
/// what its gates held and what its batches took.
pub(super) fn parts(timeline: &Timeline) -> Vec<Part> {
    let mut parts = Vec::new();
    for set in &timeline.sets {
        for step in &set.steps {
            let (Some(number), Some(opened)) = (step.number, step.opened) else { continue };
            let until = step.completed.unwrap_or(timeline.end);
            let held = step.gates.iter().filter_map(|gate| {
                let opened = gate.opened.unwrap_or(timeline.end);
                (opened > gate.since).then_some((opened, gate))
            });
            let last = held.max_by_key(|(opened, _)| *opened);
            let mut began = opened;
            if let Some((opens, gate)) = last {
                let (what, shorten) = match gate.what {
                    GateKind::Soak => ("soaks", "its soak"),
                    GateKind::Approval => ("waits for approvals", "an earlier approval"),
                    GateKind::Both => {
                        ("soaks and waits for approvals", "its soak, or an earlier approval")
                    }
                };
                parts.push(Part {
                    set: set.name.clone(),
                    step: number,
                    what: format!("gate {} {what}", gate.name),
                    seconds: seconds(opens.min(until), opened),
                    shorten: shorten.to_owned(),
                });
                began = opens.min(until);
            }
            let took = seconds(until, began);
            if took > 0 {
                let (what, shorten) = of_step(step, number, timeline.end);
                parts.push(Part {
                    set: set.name.clone(),
                    step: number,
                    what,
                    seconds: took,
                    shorten,
                });
            }
        }
    }
    parts
}

/// The part that takes the longest.
pub(super) fn longest(parts: &[Part]) -> Option<&Part> {
    // The first of equal ones.
    parts.iter().rev().max_by_key(|part| part.seconds)
}

fn of_step(step: &StepLine, number: usize, end: Timestamp) -> (String, String) {
    let slowest = step.applications.iter().filter_map(|application| {
        let begins = application.spans.iter().find(|span| {
            matches!(span.what, SpanKind::Pending | SpanKind::Syncing | SpanKind::BecomingHealthy)
        })?;
        let mut after = application.spans.iter().filter(|span| span.from >= begins.from);
        let healthy = after.rfind(|span| span.what == SpanKind::Healthy);
        let until = healthy.map_or(end, |span| span.from);
        Some((seconds(until, begins.from), &application.name))
    });
    let slowest = slowest.max_by_key(|(took, _)| *took);
    let named = slowest.map_or_else(String::new, |(took, name)| {
        format!("; the slowest of them is {name} with {}", text(took))
    });
    match step.limit.filter(|limit| *limit < step.total) {
        Some(0) => (
            format!("step {number} is synced by hand"),
            format!("maxUpdate of step {number}, which is 0"),
        ),
        Some(limit) => {
            let batches = step.total.div_ceil(limit);
            let what =
                format!("{} Applications, {limit} at a time, {batches} batches{named}", step.total);
            (what, format!("maxUpdate of step {number}"))
        }
        None => {
            let what = format!("{} Applications at once{named}", step.total);
            let shorten =
                slowest.map_or_else(String::new, |(_, name)| format!("the time of {name}"));
            (what, shorten)
        }
    }
}

fn seconds(until: Timestamp, from: Timestamp) -> i64 {
    until.duration_since(from).as_secs().max(0)
}

/// A time in words.
pub(super) fn text(seconds: i64) -> String {
    exact(seconds.saturating_mul(1000))
}
