//! The summary at the end of the demo. Pure.

use std::time::Duration;

use crate::cli::explain::sync_commands;
use crate::cli::rollout_view::fleet::Fleet;
use crate::cli::rollout_view::member::Count;
use crate::cli::rollout_view::outcome::{self, Outcome};
use crate::cli::rollout_view::sentence::{describe, seconds};
use crate::cli::rollout_view::set::Set;
use crate::cli::rollout_view::text::{self, Line, Style, count};

/// Facts of a summary besides the fleet.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Facts {
    /// Elapsed time.
    pub elapsed: Duration,
    /// Mutating requests of the controllers, without dry runs.
    pub writes: u64,
    /// Columns of the terminal, if it is one: sentences are broken between words.
    pub columns: Option<usize>,
}

/// The lines.
pub(in crate::cli) fn lines(fleet: &Fleet, facts: &Facts) -> Vec<Line> {
    let outcomes = outcome::of_fleet(fleet);
    let complete = outcomes.iter().all(|(_, outcome)| *outcome == Outcome::Complete);
    let applications: usize = fleet.known().map(|set| set.members.len()).sum();
    let (style, word) = if complete {
        (Style::Green, "Rollout complete")
    } else {
        (Style::Red, "Rollout not complete")
    };
    let lines = vec![
        Line::default(),
        Line::of(style, word).and(
            Style::Plain,
            format!(
                " after {}: {}, {}, {}, {}",
                seconds(facts.elapsed),
                count(applications, "Application"),
                count(fleet.syncs(), "sync"),
                count(fleet.hooks(), "hook"),
                count(usize::try_from(facts.writes).unwrap_or(usize::MAX), "API write")
            ),
        ),
    ];
    let wrap = |line: Line| match facts.columns {
        Some(columns) => line.wrapped(columns, usize::MAX),
        None => vec![line],
    };
    let mut lines: Vec<Line> = lines.into_iter().flat_map(wrap).collect();
    let many = fleet.known().count() > 1;
    for set in fleet.known() {
        lines.push(Line::default());
        if many {
            lines.push(Line::of(Style::Bold, format!("ApplicationSet {}", set.name)));
        }
        lines.extend(table(set));
    }
    let counted = "Applications in flight are counted by watching them.";
    lines.extend(wrap(Line::of(Style::Dim, counted)));
    for (key, outcome) in &outcomes {
        let Some(set) = fleet.sets.get(key) else { continue };
        lines.extend(remarks(set).into_iter().flat_map(wrap));
        let text = describe(outcome);
        if !text.is_empty() {
            lines.extend(wrap(Line::of(Style::Red, text)));
        }
        if let Some(command) = how_to_continue(set, outcome) {
            // The server ends with the demo.
            let text = "To continue, start the demo with --listen 127.0.0.1:0, copy the export that it \
                        prints, and run:";
            lines.extend(wrap(Line::of(Style::Plain, text)));
            // To be copied: in one piece.
            lines.push(Line::of(Style::Plain, format!("  {command}")));
        }
    }
    lines
}

/// Whether the limits of the sets were kept, as far as measured.
pub(in crate::cli) fn is_kept(fleet: &Fleet) -> bool {
    fleet.known().all(|set| broken(set).is_empty() && set.out_of_order.is_empty())
}

fn table(set: &Set) -> Vec<Line> {
    let mut rows =
        vec![["Step", "Selects", "Done", "Time", "Max in flight", "Limit"].map(str::to_owned)];
    for (step, (plan, measured)) in set.plan.steps.iter().zip(&set.measured).enumerate() {
        let Count { total, done, .. } = set.count(step);
        let time = match (measured.opened, measured.done) {
            (Some(opened), Some(done)) => seconds(done.saturating_sub(opened)),
            (None, Some(_)) => "no sync needed".to_owned(),
            (_, None) => "-".to_owned(),
        };
        let limit = match (plan.limit, plan.max_update.as_str()) {
            (None, _) => "none".to_owned(),
            (Some(limit), written) if limit.to_string() == written => written.to_owned(),
            (Some(limit), written) => format!("{limit} ({written})"),
        };
        rows.push([
            if set.plan.rolling { (step + 1).to_string() } else { "-".to_owned() },
            text::ellipsis(&plan.selects, 40, false),
            format!("{done}/{total}"),
            time,
            measured.peak.to_string(),
            limit,
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| text::width(&row[column])).max();
    let widths: Vec<usize> = (0..6).map(|column| width(column).unwrap_or_default()).collect();
    let line = |(index, row): (usize, &[String; 6])| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| text::padded(cell, *width)).collect();
        let style = if index == 0 { Style::Dim } else { Style::Plain };
        Line::of(style, cells.join("  ").trim_end())
    };
    rows.iter().enumerate().map(line).collect()
}

/// Steps that exceeded their limit, counted from 1.
fn broken(set: &Set) -> Vec<usize> {
    let steps = set.plan.steps.iter().zip(&set.measured).enumerate();
    steps
        .filter(|(_, (plan, measured))| plan.limit.is_some_and(|limit| measured.peak > limit))
        .map(|(step, _)| step + 1)
        .collect()
}

fn remarks(set: &Set) -> Vec<Line> {
    let mut lines = Vec::new();
    for step in broken(set) {
        lines.push(Line::of(
            Style::Red,
            format!("Step {step} exceeded its limit of Applications in flight."),
        ));
    }
    if !set.out_of_order.is_empty() {
        let names = set.out_of_order.join(", ");
        let text = format!("Started before a previous step was complete: {names}.");
        lines.push(Line::of(Style::Red, text));
    }
    if let Some(text) = set.left_outside() {
        lines.push(Line::of(Style::Yellow, text));
    }
    lines
}

/// The command that syncs the Applications that wait for it.
pub(super) fn how_to_continue(set: &Set, outcome: &Outcome) -> Option<String> {
    let Outcome::Manual { applications, .. } = outcome else { return None };
    let names: Vec<&str> = applications.iter().map(String::as_str).collect();
    (!names.is_empty()).then(|| sync_commands(&names, &set.namespace))
}
