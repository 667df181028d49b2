//! One rollout: its steps, what it waits for, its gates, what happened (PG-011, PG-018).

use maud::{Markup, PreEscaped, html};

use super::actions::set_buttons;
use super::context::{View, ViewContext};
use super::heads::{badges, bar, tabs};
use super::history::{failures, gates, timeline};
use super::parts::Part;
use super::words::{
    advice, age, class_of, conditions, counted, last_lines, names, revisions, shape, text, until,
    word_of,
};
use crate::address::{application_path, segment, set_path};
use crate::reports::{
    Attention, CellDocument, CellState, LogDocument, PageObject, RolloutDocument, StepDocument,
    WaitDocument,
};

/// Up to so many Applications of a step are shown by their names, more by their marks alone.
const NAMED: usize = 40;
/// Applications of a part: what is exchanged when one of them changes.
const CELLS: usize = 100;

/// The view.
pub(super) fn rollout_view(set: &RolloutDocument, context: &ViewContext) -> View {
    let mut parts =
        vec![Part::leaf("head", head(set, context)), Part::leaf("now", now(set, context))];
    let steps = set.steps.iter().enumerate().map(|(index, step)| step_part(set, index, step));
    let open =
        html! { (PreEscaped("<section id=\"steps\" class=\"steps\" aria-label=\"Steps\">")) };
    parts.push(Part::group("steps", (open, "</section>"), steps.collect()));
    parts.push(Part::leaf("waits", waits(set, context)));
    if let Some(run) = &set.run {
        let beside = html! {
            section id="run" class="columns" {
                (gates(&set.of, run, context))
                (failures(&set.of.namespace, &run.failures))
                (limits(set))
                (timeline(&run.timeline, context))
            }
        };
        parts.push(Part::leaf("run", beside));
    } else if !set.limits.is_empty() {
        parts.push(Part::leaf("run", html! { section id="run" class="columns" { (limits(set)) } }));
    }
    View { title: set.of.name.clone(), parts, is_missing: false }
}

fn head(set: &RolloutDocument, context: &ViewContext) -> Markup {
    let state = match set.attention {
        Attention::Person => CellState::Stuck,
        Attention::Running => CellState::Moving,
        Attention::Done => CellState::Done,
    };
    let phase = set.run.as_ref().map_or(set.state.as_str(), |run| run.phase.as_str());
    html! {
        div id="head" class="head" {
            p class="crumbs" { a href="/" data-up { "Fleet" } " / " (text(&set.of.namespace)) }
            h1 { (shape(state)) (text(&set.of.name)) span class="phase" { (text(phase)) } }
            (tabs(&set.of, ""))
            p class="facts" {
                @if let Some(run) = &set.run {
                    span { "Run " a href=(set_path(&set.of, &format!("/history/{}", segment(&run.run)))) { (text(&run.run)) } }
                    @if !run.from.is_empty() || !run.to.is_empty() {
                        span {
                            @if !run.from.is_empty() { (revisions(&run.from)) " " }
                            span class="to" aria-label="to" { "→ " } (revisions(&run.to))
                        }
                    }
                }
                span { (set.complete) " of " (counted(set.total, "Application")) " complete" }
                @if !set.started.is_empty() { span { "started " (age(&set.started, context)) " ago" } }
                @if !set.left.is_empty() { span { (text(&set.left)) } }
            }
            (bar(set))
        }
    }
}

/// What it waits for, who ends that, and the buttons.
fn now(set: &RolloutDocument, context: &ViewContext) -> Markup {
    let first = set.waits.first().filter(|_| set.attention != Attention::Done);
    html! {
        section id="now" class={ "now " (match set.attention { Attention::Person => "f", Attention::Running => "m", Attention::Done => "d" }) } aria-label="Now" {
            p class="summary" { (text(&set.summary)) }
            @if let Some(wait) = first {
                p class="quiet" {
                    (wait.ended_by)
                    @if !wait.since.is_empty() { " · for " (age(&wait.since, context)) }
                    @if !wait.until.is_empty() { " · at most " (until(&wait.until, context)) " more" }
                }
            }
            @if !set.cause.is_empty() { p class="cause" { (text(&set.cause)) } }
            @if !set.paused.is_empty() { p { (advice(&set.paused)) } }
            @if !set.truncated.is_empty() { p class="quiet" { (text(&set.truncated)) } }
            p class="badges" { (badges(set)) }
            @if set.total == 0 {
                p { "It has no Applications yet. " a href=(set_path(&set.of, "/plan")) { "Next change" } " has what its generators find, and which pattern fits nothing." }
            }
            @if !set.advice.is_empty() {
                ul class="advice" { @for line in &set.advice { li { (advice(line)) } } }
            }
            (conditions(&set.conditions))
            @for note in &set.notes { p class="quiet" { (text(note)) } }
            @if context.allows_actions { (set_buttons(set, context)) }
        }
    }
}

fn step_part(set: &RolloutDocument, index: usize, step: &StepDocument) -> Part {
    let id = format!("s{index}");
    let title = match step.selects.is_empty() {
        true => "No step".to_owned(),
        false if set.strategy == "AllAtOnce" => "All at once".to_owned(),
        false => format!("Step {}", index + 1),
    };
    let head = html! {
        div id={ (id) "-h" } class={ "step-head " (step.status) } {
            h2 { (title) span class="count" { (step.done) "/" (step.total) } }
            p class="quiet" {
                @if step.selects.is_empty() { "waits for a manual sync" }
                @else { (text(&step.selects)) }
                @if !step.limit.is_empty() { " · " (text(&step.limit)) }
            }
            p class="quiet" {
                (step.status)
                @if step.in_flight > 0 { " · " (step.in_flight) " in progress" }
                @if step.stuck > 0 { " · " strong class="f" { (step.stuck) " stuck" } }
            }
        }
    };
    let is_named = step.cells.len() <= NAMED;
    let chunks = step.cells.chunks(CELLS).enumerate().map(|(number, chunk)| {
        let id = format!("{id}-c{number}");
        let cells = html! {
            div id=(id) class="cells" {
                @for (index, cell) in chunk.iter().enumerate() {
                    (cell_link(&set.of.namespace, cell, number + index == 0, is_named))
                }
            }
        };
        Part::leaf(id, cells)
    });
    let parts = std::iter::once(Part::leaf(format!("{id}-h"), head)).chain(chunks).collect();
    let size = match step.cells.len() {
        _ if is_named => "few",
        ..=400 => "some",
        _ => "many",
    };
    let open = format!("<article id=\"{id}\" class=\"step {size}\" data-cells>");
    Part::group(id, (html! { (PreEscaped(open)) }, "</article>"), parts)
}

/// A mark. The first of a step is reached with the tabulator, and the others from it with arrows:
/// nobody steps through thousands.
fn cell_link(namespace: &str, cell: &CellDocument, is_first: bool, is_named: bool) -> Markup {
    let label = format!("{}: {}", cell.name, word_of(cell.state));
    let mut said = label.clone();
    for more in [&cell.words, &cell.cluster, &cell.revision, &cell.message] {
        if !more.is_empty() {
            said.push('\n');
            said.push_str(more);
        }
    }
    html! {
        a class={ "c " (class_of(cell.state)) @if is_named { " named" } } href=(application_path(namespace, &cell.name))
            title=(text(&said)) aria-label=(text(&label)) tabindex=[(!is_first).then_some("-1")] {
            @if is_named { (text(&cell.name)) }
        }
    }
}

/// The limits of policies, each with who uses it.
fn limits(set: &RolloutDocument) -> Markup {
    let of = &set.of.namespace;
    html! {
        @if !set.limits.is_empty() {
            div class="column" {
                h2 { "Limits" span class="count" { (set.limits.len()) } }
                ul { @for limit in &set.limits { li class="limit" {
                    p { (text(&limit.text)) }
                    @for used in &limit.uses { p class="quiet" {
                        (text(&used.of)) ": " (used.used)
                        @if let Some(most) = used.most { "/" (most) }
                        @if !used.applications.is_empty() { " – " (names(of, &used.applications, used.used)) }
                    } }
                } } }
            }
        }
    }
}

/// The Applications that are waited for, each with its chain of causes.
fn waits(set: &RolloutDocument, context: &ViewContext) -> Markup {
    html! {
        section id="waits" class="waits" {
            @if !set.waits.is_empty() {
                h2 { "Waits for" span class="count" { (set.waits.len() + set.more_waits) } }
                ul {
                    @for wait in &set.waits { (wait_row(&set.of.namespace, wait, context)) }
                }
                @if set.more_waits > 0 { p class="quiet" { "and " (set.more_waits) " more" } }
            }
            @if !set.behind.is_empty() { p class="quiet" { (text(&set.behind)) } }
        }
    }
}

/// The end of the log of a Pod.
fn log_end(log: &LogDocument) -> Markup {
    html! {
        @if log.unread.is_empty() {
            details class="log" open {
                summary { "Log of " (text(&log.of)) }
                pre { (last_lines(&log.lines)) }
            }
        } @else {
            p class="quiet" { "Log of " (text(&log.of)) " is not shown: " (text(&log.unread)) }
        }
    }
}

/// Applications with links.
pub(super) fn links(all: &[PageObject]) -> Markup {
    html! {
        @for (index, one) in all.iter().enumerate() {
            @if index > 0 { ", " }
            a href=(application_path(&one.namespace, &one.name)) { (text(&one.namespace)) "/" (text(&one.name)) }
        }
    }
}

pub(super) fn wait_row(namespace: &str, wait: &WaitDocument, context: &ViewContext) -> Markup {
    html! {
        li class="wait-row" {
            p {
                a href=(application_path(namespace, &wait.application)) { (text(&wait.application)) }
                @if let Some(step) = wait.step { span class="quiet" { " step " (step) } }
                span class="quiet" { " " (text(&wait.words)) }
                @if !wait.since.is_empty() { span class="quiet" { " for " (age(&wait.since, context)) } }
            }
            p { (text(&wait.reason)) }
            @if !wait.cause.is_empty() { p class="cause" { (text(&wait.cause)) } }
            @if let Some(log) = &wait.log { (log_end(log)) }
            @if !wait.others.is_empty() {
                p class="quiet" { "Also owned by " (links(&wait.others)) }
            }
            @if !wait.advice.is_empty() {
                ul class="advice" { @for line in &wait.advice { li { (advice(line)) } } }
            }
        }
    }
}
