//! The runs of a set, and one of them (PG-014).

use maud::{Markup, html};

use super::chart::chart;
use super::context::{View, ViewContext};
use super::heads::head;
use super::parts::Part;
use super::words::{
    age, command_to_copy, counted, human, names, revision, revisions, shape, text, until,
};
use crate::address::{segment, set_path};
use crate::reports::{
    CellState, ChartDocument, FailureDocument, GateDocument, HappeningDocument, PageObject,
    RunDocument,
};

/// The runs that figures are of.
const FIGURES: usize = 20;

/// All runs.
pub(super) fn history_view(of: &PageObject, runs: &[RunDocument], context: &ViewContext) -> View {
    let list = html! {
        section id="runs" {
            @if runs.is_empty() { p class="quiet" { "Nothing was rolled out in steps since runs are recorded." } }
            @else { table class="table" {
                thead { tr { th { "Run" } th { "Phase" } th { "From → to" } th class="n" { "Done" } th class="n" { "Failed" } th { "Started" } th class="n" { "Duration" } th { "Ended by" } } }
                tbody { @for run in runs { tr {
                    td { a href=(set_path(of, &format!("/history/{}", segment(&run.run)))) { (text(&run.run)) } }
                    td { (shape(state_of(run))) (text(&run.phase)) }
                    td { (first_revision(&run.from)) " → " (first_revision(&run.to)) }
                    td class="n" { (run.done) "/" (run.total) }
                    td class="n" { (run.failed) }
                    td { (age(&run.started_at, context)) }
                    td class="n" { (run.duration_seconds.map(human).unwrap_or_default()) }
                    td { (text(&run.ended_by)) }
                } } }
            } }
        }
    };
    let parts = vec![
        Part::leaf("head", head(of, "History", "/history")),
        Part::leaf("figures", figures(runs)),
        Part::leaf("runs", list),
    ];
    View { title: format!("History of {}", of.name), parts, is_missing: false }
}

fn state_of(run: &RunDocument) -> CellState {
    match run.phase.as_str() {
        "Complete" if run.skipped.is_empty() => CellState::Done,
        "Progressing" | "Soaking" | "RollingBack" => CellState::Moving,
        "Superseded" => CellState::Skipped,
        "Complete" => CellState::Skipped,
        _ => CellState::Stuck,
    }
}

fn first_revision(all: &[crate::reports::RevisionDocument]) -> Markup {
    html! {
        @match all.first() {
            Some(first) => { code { (revision(&first.revision)) } @if all.len() > 1 { " +" (all.len() - 1) } }
            None => { "–" }
        }
    }
}

fn second_of(time: &str) -> Option<i64> {
    time.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second)
}

/// The middle of some durations, in words.
fn middle(mut seconds: Vec<i64>) -> String {
    seconds.sort_unstable();
    seconds.get(seconds.len() / 2).map_or_else(|| "–".to_owned(), |middle| human((*middle).max(0)))
}

/// How long it took from the first failure of a run until one was complete, of runs with the newest
/// first.
fn recoveries(runs: &[RunDocument]) -> Vec<i64> {
    let failure = |run: &RunDocument| {
        let failed = run.timeline.iter().find(|entry| entry.what == "Failed");
        second_of(failed?.at.as_deref()?)
    };
    let found = runs.iter().enumerate().filter_map(|(at, run)| {
        let failed = failure(run)?;
        let complete = runs[..=at].iter().rev().find(|later| later.phase == "Complete")?;
        Some(second_of(&complete.ended_at)?.saturating_sub(failed))
    });
    found.collect()
}

/// How often, how long, how many failed, and how long until all was well again.
fn figures(runs: &[RunDocument]) -> Markup {
    let last = &runs[..runs.len().min(FIGURES)];
    let ended = last.iter().filter(|run| !run.ended_at.is_empty());
    let seconds: Vec<i64> = ended.filter_map(|run| run.duration_seconds).collect();
    let starts: Vec<i64> = last.iter().filter_map(|run| second_of(&run.started_at)).collect();
    let between = starts.windows(2).map(|pair| pair[0].saturating_sub(pair[1])).collect();
    let failed = last.iter().filter(|run| run.failed > 0).count();
    html! {
        dl id="figures" class="figures" {
            div { dt { "Runs" } dd { (last.len()) } }
            div { dt { "One in" } dd { (middle(between)) } }
            div { dt { "Usual duration" } dd { (middle(seconds)) } }
            div { dt { "With failures" } dd { (failed) } }
            div { dt { "Time to recover" } dd { (middle(recoveries(last))) } }
        }
    }
}

/// One run.
pub(super) fn run_view(
    of: &PageObject,
    run: &RunDocument,
    over_time: &ChartDocument,
    context: &ViewContext,
) -> View {
    let facts = html! {
        section id="facts" {
            p class="facts" {
                span { (shape(state_of(run))) (text(&run.phase)) }
                span { (run.done) " of " (counted(u64::try_from(run.total).unwrap_or_default(), "Application")) }
                @if let Some(seconds) = run.duration_seconds { span { (human(seconds)) } }
                @if !run.ended_by.is_empty() { span { "ended by " (text(&run.ended_by)) } }
                @if !run.from.is_empty() { span { "from " (revisions(&run.from)) } }
                @if !run.to.is_empty() { span { "to " (revisions(&run.to)) } }
            }
            @if !run.message.is_empty() { p class="summary" { (text(&run.message)) } }
            @if !run.skipped.is_empty() { p { "Skipped: " (text(&run.skipped.join(", "))) } }
            @if !run.unhealthy_before.is_empty() { p { "Not Healthy before it: " (text(&run.unhealthy_before.join(", "))) } }
            (chart(over_time, Some(&of.namespace)))
        }
    };
    let beside = html! {
        section id="run" class="columns" {
            (gates(of, run, context))
            (failures(&of.namespace, &run.failures))
            (timeline(&run.timeline, context))
        }
    };
    let title = format!("Run {}", run.run);
    let parts = vec![
        Part::leaf("head", head(of, &title, "/history")),
        Part::leaf("facts", facts),
        Part::leaf("run", beside),
    ];
    View { title, parts, is_missing: false }
}

/// The charts of a simulation, of each set with its name.
pub(crate) fn charts_view(
    title: &str,
    outcome: &str,
    is_complete: bool,
    charts: &[(String, ChartDocument)],
) -> View {
    let state = if is_complete { CellState::Done } else { CellState::Stuck };
    let head = html! {
        div id="head" class="head" {
            h1 { (shape(state)) (text(title)) }
            p class="summary" { (text(outcome)) }
        }
    };
    let body = html! {
        section id="charts" {
            @for (name, of) in charts {
                @if charts.len() > 1 { h2 { (text(name)) } }
                (chart(of, None))
            }
        }
    };
    let parts = vec![Part::leaf("head", head), Part::leaf("charts", body)];
    View { title: title.to_owned(), parts, is_missing: false }
}

/// Gates: who approved and who may, how long a soak still takes, and what one should know before
/// (PG-018).
pub(super) fn gates(of: &PageObject, run: &RunDocument, context: &ViewContext) -> Markup {
    let lacks = |gate: &GateDocument| {
        let given = i64::try_from(gate.approved_by.len()).unwrap_or(i64::MAX);
        gate.opened_at.is_none() && gate.approvals > given
    };
    let waits = run.gates.iter().any(|gate| gate.opened_at.is_none() && gate.applications > 0);
    html! {
        @if !run.gates.is_empty() {
            div class="column" {
                h2 { "Gates" span class="count" { (run.gates.len()) } }
                @if waits { (before_gate(of, run)) }
                ul { @for gate in &run.gates {
                    @let is_open = gate.opened_at.is_some();
                    li class="gate" {
                        p {
                            (shape(if is_open { CellState::Done } else if gate.waiting_since.is_some() { CellState::Stuck } else { CellState::Waiting }))
                            strong { (text(&gate.name)) }
                            span class="quiet" { " of policy " (text(&gate.policy)) }
                        }
                        p class="quiet" {
                            @if gate.approvals > 0 {
                                (gate.approved_by.len()) "/" (gate.approvals) " approvals"
                                @if !gate.approved_by.is_empty() { ", by " (text(&gate.approved_by.join(", "))) }
                                " · "
                            }
                            (counted(u64::try_from(gate.applications).unwrap_or_default(), "Application")) " behind it"
                            @if let Some(opened) = &gate.opened_at { " · open for " (age(opened, context)) }
                            @if let Some(soaks) = gate.soaks_until.as_deref().filter(|_| !is_open) { " · soaks for " (until(soaks, context)) " more" }
                        }
                        @if lacks(gate) {
                            (command_to_copy(&format!("wavegate approve -n {} {} --gate {}", text(&of.namespace), text(&of.name), text(&gate.name))))
                        }
                    }
                } }
                @if run.gates.iter().any(lacks) {
                    p class="quiet" { "Who may approve: who may patch rolloutruns in namespace " (text(&of.namespace)) ", such as people with the role wavegate-approver." }
                    (command_to_copy(&format!("kubectl auth can-i patch rolloutruns.wavegate.dev -n {}", text(&of.namespace))))
                }
            }
        }
    }
}

/// What failed or is left out before a gate, and what it lets go.
fn before_gate(of: &PageObject, run: &RunDocument) -> Markup {
    let unhealthy = run.unhealthy_before.len();
    let is_clean = run.failed == 0 && run.skipped.is_empty() && unhealthy == 0;
    html! {
        p class="before" {
            @if is_clean { "Nothing failed or was skipped before it." }
            @if run.failed > 0 { span class="problem" { (run.failed) " failed before it" } " " }
            @if !run.skipped.is_empty() { "Skipped: " (text(&run.skipped.join(", "))) " " }
            @if unhealthy > 0 { "Not Healthy before the run: " (text(&run.unhealthy_before.join(", "))) }
        }
        p class="quiet" { "What it lets go: " a href=(set_path(of, "/plan")) { "the difference" } }
    }
}

/// Failures by their signature.
pub(super) fn failures(namespace: &str, failures: &[FailureDocument]) -> Markup {
    html! {
        @if !failures.is_empty() {
            div class="column" {
                h2 { "Failures" span class="count" { (failures.len()) } }
                ul { @for failure in failures { li class="failure" {
                    p { (shape(CellState::Stuck)) (text(&failure.message)) }
                    p class="quiet" {
                        (names(namespace, &failure.applications, u64::try_from(failure.count).unwrap_or_default()))
                    }
                } } }
            }
        }
    }
}

/// What happened, the last first.
pub(super) fn timeline(entries: &[HappeningDocument], context: &ViewContext) -> Markup {
    html! {
        @if !entries.is_empty() {
            div class="column" {
                h2 { "What happened" }
                ol class="timeline" { @for entry in entries.iter().rev() { li {
                    span class="when" { (age(entry.at.as_deref().unwrap_or_default(), context)) }
                    span {
                        strong { (text(&entry.what)) } " " (text(&entry.subject))
                        @if !entry.by.is_empty() { span class="quiet" { " by " (text(&entry.by)) } }
                        @if !entry.message.is_empty() { span class="quiet" { " " (text(&entry.message)) } }
                    }
                } } }
            }
        }
    }
}
