//! The runs of a set, and one of them (PG-014).

use jiff::Timestamp;
use maud::{Markup, html};

use super::context::{View, ViewContext};
use super::heads::head;
use super::parts::Part;
use super::words::{age, command_to_copy, counted, human, revision, shape, text, until};
use crate::address::{application_path, segment, set_path};
use crate::reports::{
    CellState, FailureDocument, GateDocument, HappeningDocument, PageObject, RunDocument,
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

/// How often, how long, how many failed.
fn figures(runs: &[RunDocument]) -> Markup {
    let last = &runs[..runs.len().min(FIGURES)];
    let ended = last.iter().filter(|run| !run.ended_at.is_empty());
    let mut seconds: Vec<i64> = ended.filter_map(|run| run.duration_seconds).collect();
    seconds.sort_unstable();
    let failed = last.iter().filter(|run| run.failed > 0).count();
    let middle = seconds.get(seconds.len() / 2).copied();
    html! {
        dl id="figures" class="figures" {
            div { dt { "Runs" } dd { (last.len()) } }
            div { dt { "Usual duration" } dd { (middle.map_or_else(|| "–".to_owned(), human)) } }
            div { dt { "With failures" } dd { (failed) } }
        }
    }
}

/// One run.
pub(super) fn run_view(of: &PageObject, run: &RunDocument, context: &ViewContext) -> View {
    let facts = html! {
        section id="facts" {
            p class="facts" {
                span { (shape(state_of(run))) (text(&run.phase)) }
                span { (run.done) " of " (counted(u64::try_from(run.total).unwrap_or_default(), "Application")) }
                @if let Some(seconds) = run.duration_seconds { span { (human(seconds)) } }
                @if !run.ended_by.is_empty() { span { "ended by " (text(&run.ended_by)) } }
            }
            @if !run.message.is_empty() { p class="summary" { (text(&run.message)) } }
            @if !run.skipped.is_empty() { p { "Skipped: " (text(&run.skipped.join(", "))) } }
            @if !run.unhealthy_before.is_empty() { p { "Not Healthy before it: " (text(&run.unhealthy_before.join(", "))) } }
            (chart(run, context))
        }
    };
    let beside = html! {
        section id="run" class="columns" {
            (gates(of, &run.gates, context))
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

/// The steps of a run over time.
fn chart(run: &RunDocument, context: &ViewContext) -> Markup {
    let time = |text: &str| text.parse::<Timestamp>().ok();
    let Some(begin) = time(&run.started_at) else { return html! {} };
    let now = context.now.unwrap_or_else(Timestamp::now);
    let end = time(&run.ended_at).unwrap_or(now).max(begin);
    let whole = end.as_second().saturating_sub(begin.as_second()).max(1);
    let at = |when: Timestamp| {
        (when.as_second().saturating_sub(begin.as_second()).clamp(0, whole)) * 1000 / whole
    };
    html! {
        table class="chart" aria-label="Steps over time" { tbody {
            @for (index, step) in run.steps.iter().enumerate() {
                @let opened = step.opened_at.as_deref().and_then(time);
                @let completed = step.completed_at.as_deref().and_then(time);
                tr {
                    th scope="row" { "Step " (index + 1) }
                    td {
                        svg class="bar" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
                            rect class="w" x="0" y="4" width="1000" height="2" {}
                            @if let Some(opened) = opened {
                                rect class=(if completed.is_some() { "d" } else { "m" }) x=(at(opened)) y="0" width=((at(completed.unwrap_or(end)) - at(opened)).max(4)) height="10" {}
                            }
                        }
                    }
                    td class="n" { (step.done) "/" (step.total) }
                    td class="n" {
                        @if let Some(opened) = opened {
                            (human(completed.unwrap_or(end).as_second() - opened.as_second()))
                        }
                    }
                }
            }
        } }
    }
}

/// Gates: who approved, how long a soak still takes.
pub(super) fn gates(of: &PageObject, gates: &[GateDocument], context: &ViewContext) -> Markup {
    html! {
        @if !gates.is_empty() {
            div class="column" {
                h2 { "Gates" span class="count" { (gates.len()) } }
                ul { @for gate in gates {
                    @let is_open = gate.opened_at.is_some();
                    @let lacks = gate.approvals > i64::try_from(gate.approved_by.len()).unwrap_or_default();
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
                        @if lacks && !is_open {
                            (command_to_copy(&format!("wavegate approve -n {} {} --gate {}", text(&of.namespace), text(&of.name), text(&gate.name))))
                        }
                    }
                } }
            }
        }
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
                        @for (index, name) in failure.applications.iter().enumerate() {
                            @if index > 0 { ", " }
                            a href=(application_path(namespace, name)) { (text(name)) }
                        }
                        @let more = failure.count.saturating_sub(i64::try_from(failure.applications.len()).unwrap_or_default());
                        @if more > 0 { " and " (more) " more" }
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
