//! How it went: the last lines of the demo. Pure.

use std::time::Duration;

use super::fleet::{Fleet, Set};
use super::outcome::{self, Outcome};
use super::screen::{describe, seconds};
use super::text::{Line, Look, count};

/// What a summary tells besides the fleet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// From the start to the end.
    pub elapsed: Duration,
    /// Requests by which the controllers changed something, dry runs not
    /// counted.
    pub writes: u64,
    /// Whether a user can reach the server with kubectl.
    pub served: bool,
}

/// The lines.
pub(super) fn lines(fleet: &Fleet, facts: &Facts) -> Vec<Line> {
    let verdicts = outcome::of_fleet(fleet);
    let complete = verdicts.iter().all(|(_, verdict)| *verdict == Outcome::Complete);
    let applications: usize = fleet.known().map(|set| set.members.len()).sum();
    let (look, word) = if complete {
        (Look::Green, "Rollout complete")
    } else {
        (Look::Red, "Rollout not complete")
    };
    let mut lines = vec![
        Line::default(),
        Line::of(look, word).and(
            Look::Plain,
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
    let many = fleet.known().count() > 1;
    for set in fleet.known() {
        lines.push(Line::default());
        if many {
            lines.push(Line::of(Look::Bold, format!("ApplicationSet {}", set.name)));
        }
        lines.extend(table(set));
    }
    lines.push(Line::of(Look::Dim, "In flight is measured by watching the Applications."));
    for (name, verdict) in &verdicts {
        let Some(set) = fleet.sets.get(name) else { continue };
        lines.extend(remarks(set));
        let text = describe(verdict);
        if !text.is_empty() {
            lines.push(Line::of(Look::Red, text));
        }
        if let Outcome::Manual { applications, .. } = verdict
            && let Some(application) = applications.first()
        {
            lines.push(hint(&set.namespace, application, facts.served));
        }
    }
    lines
}

/// Whether what the sets promise was kept, as far as it was measured.
pub(super) fn is_kept(fleet: &Fleet) -> bool {
    fleet.known().all(|set| broken(set).is_empty() && set.out_of_order.is_empty())
}

fn table(set: &Set) -> Vec<Line> {
    let mut rows =
        vec![["Step", "Selects", "Done", "Time", "Most in flight", "Limit"].map(str::to_owned)];
    for (step, (plan, measured)) in set.plan.steps.iter().zip(&set.measured).enumerate() {
        let (total, done, _) = set.count(step);
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
            super::text::ellipsis(&plan.selects, 40, false),
            format!("{done}/{total}"),
            time,
            measured.peak.to_string(),
            limit,
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..6).map(|column| width(column).unwrap_or_default()).collect();
    let line = |(index, row): (usize, &[String; 6])| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let look = if index == 0 { Look::Dim } else { Look::Plain };
        Line::of(look, cells.join("  ").trim_end())
    };
    rows.iter().enumerate().map(line).collect()
}

/// Steps with more in flight than allowed, counted from 1.
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
        lines.push(Line::of(Look::Red, format!("Step {step} had more in flight than its limit.")));
    }
    if !set.out_of_order.is_empty() {
        let names = set.out_of_order.join(", ");
        let text = format!("Began although a step before theirs was not done: {names}.");
        lines.push(Line::of(Look::Red, text));
    }
    let outside: Vec<&str> = set
        .members
        .iter()
        .filter(|(_, member)| member.step.is_none())
        .map(|(name, _)| name.as_str())
        .collect();
    if !outside.is_empty() {
        let names = crate::cli::output::some_of(outside, 5);
        let text = format!("In no step, and so waiting for a manual sync: {names}.");
        lines.push(Line::of(Look::Yellow, text));
    }
    lines
}

/// How to sync an Application by hand.
fn hint(namespace: &str, application: &str, served: bool) -> Line {
    let command = format!(
        "kubectl -n {namespace} patch application {application} --type merge -p '{{\"operation\":{{\"sync\":{{}}}}}}'"
    );
    let text = if served {
        format!("To go on: {command}")
    } else {
        format!("Start with --listen 127.0.0.1:0 to go on with: {command}")
    };
    Line::of(Look::Plain, text)
}
