//! The summary at the end of the demo. Pure.

use std::time::Duration;

use crate::cli::console::commands::sync_commands;
use crate::cli::rollout_view::fleet::Fleet;
use crate::cli::rollout_view::run;
use crate::cli::rollout_view::sentence::{describe, seconds};
use crate::cli::rollout_view::set::{WatchedSet, max_update};
use crate::cli::rollout_view::text::{self, Style, StyledLine, count};
use wavegate_api::run::RunPhase;
use wavegate_rollout::rollout::budget::Limit;
use wavegate_rollout::rollout::report::{Count, RolloutOutcome};

/// Facts of a summary besides the fleet.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct SummaryFacts {
    /// Elapsed time.
    pub elapsed: Duration,
    /// Mutating requests of the controllers, without dry runs.
    pub writes: u64,
    /// Columns of the terminal, if it is one: sentences are broken between words.
    pub columns: Option<usize>,
}

/// The lines.
pub(in crate::cli) fn lines(fleet: &Fleet, facts: &SummaryFacts) -> Vec<StyledLine> {
    let outcomes = fleet.outcomes();
    // Before the first set is known, nothing is.
    let complete = !outcomes.is_empty()
        && outcomes.iter().all(|(_, outcome)| *outcome == RolloutOutcome::Complete);
    let is_back =
        |set: &WatchedSet| set.run().is_some_and(|run| run.phase() == RunPhase::RolledBack);
    let applications: usize = fleet.known().map(|set| set.report.members.len()).sum();
    let (style, word) = if complete {
        (Style::Green, "Rollout complete")
    } else if fleet.known().any(is_back) {
        (Style::Yellow, "Rolled back")
    } else {
        (Style::Red, "Rollout not complete")
    };
    let lines = vec![
        StyledLine::default(),
        StyledLine::of(style, word).and(
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
    let wrap = |line: StyledLine| match facts.columns {
        Some(columns) => line.wrapped(columns, usize::MAX),
        None => vec![line],
    };
    let mut lines: Vec<StyledLine> = lines.into_iter().flat_map(wrap).collect();
    let many = fleet.known().count() > 1;
    for set in fleet.known() {
        lines.push(StyledLine::default());
        if many {
            lines.push(StyledLine::of(Style::Bold, format!("ApplicationSet {}", set.name())));
        }
        lines.extend(table(set));
    }
    let counted = "Applications in flight are counted by watching them.";
    lines.extend(wrap(StyledLine::of(Style::Dim, counted)));
    for (key, outcome) in &outcomes {
        let Some(set) = fleet.sets.get(key) else { continue };
        let left = set.left_outside().map(|text| StyledLine::of(Style::Yellow, text));
        lines.extend(left.into_iter().flat_map(wrap));
        let text = describe(set, outcome);
        if !text.is_empty() {
            lines.extend(wrap(StyledLine::of(Style::Red, text)));
        } else if let Some(text) = set.run().and_then(|run| run::ended(run, key)) {
            lines.extend(wrap(StyledLine::of(Style::Yellow, text)));
        }
        if let Some(command) = how_to_continue(set, outcome) {
            // The server ends with the demo.
            let text = "To continue, start the demo with --listen 127.0.0.1:0, copy the export that it \
                        prints, and run:";
            lines.extend(wrap(StyledLine::of(Style::Plain, text)));
            // To be copied: in one piece.
            lines.push(StyledLine::of(Style::Plain, format!("  {command}")));
        }
    }
    lines
}

fn table(set: &WatchedSet) -> Vec<StyledLine> {
    let mut rows =
        vec![["Step", "Selects", "Done", "Time", "Max in flight", "Limit"].map(str::to_owned)];
    for (step, (plan, measured)) in set.report.steps.iter().zip(&set.measured).enumerate() {
        let Count { total, done, .. } = plan.count;
        let time = match (measured.opened, measured.done) {
            (Some(opened), Some(done)) => seconds(done.saturating_sub(opened)),
            (None, Some(_)) => "no sync needed".to_owned(),
            (_, None) => "-".to_owned(),
        };
        let limit = match (plan.limit(), max_update(&plan.rule.max_update)) {
            (Limit::Unlimited, _) => "none".to_owned(),
            (Limit::AtMost(limit), written) if limit.to_string() == written => written,
            (Limit::AtMost(limit), written) => format!("{limit} ({written})"),
        };
        rows.push([
            if set.report.is_rolling() { (step + 1).to_string() } else { "-".to_owned() },
            text::ellipsis(&set.selects(step), 40, false),
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
        StyledLine::of(style, cells.join("  ").trim_end())
    };
    rows.iter().enumerate().map(line).collect()
}

/// The command that syncs the Applications that wait for it.
pub(super) fn how_to_continue(set: &WatchedSet, outcome: &RolloutOutcome) -> Option<String> {
    let RolloutOutcome::Manual { applications, .. } = outcome else { return None };
    let names: Vec<&str> = applications.iter().map(String::as_str).collect();
    (!names.is_empty()).then(|| sync_commands(&names, &set.report.set.namespace))
}
