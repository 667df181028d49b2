//! The fleet: all ApplicationSets, those that need a person first (PG-010).

use std::sync::Arc;

use maud::{Markup, html};

use super::actions::selection_buttons;
use super::context::{View, ViewContext};
use super::heads::{badges, bar};
use super::parts::Part;
use super::words::{age, counted, shape, text};
use crate::address::{Parameters, set_path};
use crate::reports::{Attention, CellState, RolloutDocument};

/// The groups, with their headings.
const GROUPS: [(Attention, &str, &str); 3] = [
    (Attention::Person, "person", "Needs a person"),
    (Attention::Running, "running", "Rolling out"),
    (Attention::Done, "done", "Done"),
];

/// The view.
pub(super) fn fleet_view(
    fleet: &[Arc<RolloutDocument>],
    asked: &Parameters,
    context: &ViewContext,
) -> View {
    let filter = Filter::of(asked);
    let mut shown: Vec<&RolloutDocument> =
        fleet.iter().map(Arc::as_ref).filter(|set| filter.takes(set)).collect();
    shown.sort_by_key(|set| (set.attention, !is_failing(set), set.of.clone()));
    let mut parts = vec![Part::leaf("fleet-head", head(fleet, &filter, context))];
    for (attention, id, title) in GROUPS {
        let rows: Vec<Part> = shown
            .iter()
            .filter(|set| set.attention == attention)
            .map(|set| {
                let id = format!("r-{}-{}", set.of.namespace, set.of.name);
                let html = row(&id, set, context);
                Part::leaf(id, html)
            })
            .collect();
        if rows.is_empty() {
            continue;
        }
        let heading = html! {
            h2 id={ "h-" (id) } class="group" { (title) span class="count" { (rows.len()) } }
        };
        parts.push(Part::leaf(format!("h-{id}"), heading));
        let open = html! { (maud::PreEscaped(format!("<ul id=\"g-{id}\" class=\"rows\">"))) };
        parts.push(Part::group(format!("g-{id}"), (open, "</ul>"), rows));
    }
    if shown.is_empty() && context.state.is_listed {
        let why = match fleet.is_empty() {
            true => "There are no ApplicationSets here.",
            false => "No ApplicationSet matches.",
        };
        parts.push(Part::leaf("none", html! { p id="none" class="quiet" { (why) } }));
    }
    View { title: "Fleet".to_owned(), parts, is_missing: false }
}

fn is_failing(set: &RolloutDocument) -> bool {
    set.steps.iter().any(|step| step.stuck > 0)
}

/// What is searched, from the address.
struct Filter<'a> {
    text: &'a str,
    namespace: &'a str,
    phase: &'a str,
    label: &'a str,
    only: &'a str,
    step: &'a str,
}

impl<'a> Filter<'a> {
    fn of(asked: &'a Parameters) -> Self {
        Self {
            text: asked.text("q").trim(),
            namespace: asked.text("ns"),
            phase: asked.text("phase"),
            label: asked.text("label").trim(),
            only: asked.text("only"),
            step: asked.text("step"),
        }
    }

    fn takes(&self, set: &RolloutDocument) -> bool {
        let wanted = self.text.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&wanted);
        let is_text = wanted.is_empty()
            || has(&set.of.name)
            || has(&set.of.namespace)
            || has(&set.message)
            || has(&set.summary);
        let is_only = match self.only {
            "person" => set.attention == Attention::Person,
            "unhealthy" => !matches!(set.health.as_str(), "Healthy" | "Progressing"),
            _ => true,
        };
        is_text
            && is_only
            && (self.namespace.is_empty() || self.namespace == set.of.namespace)
            && (self.phase.is_empty() || self.phase == phase_of(set))
            && (self.step.is_empty()
                || open_step(set).is_some_and(|step| step.to_string() == self.step))
            && (self.label.is_empty() || set.labels.iter().any(|label| label == self.label))
    }
}

/// The open step of a set, counted from 1; `None` while it rolls nothing out.
fn open_step(set: &RolloutDocument) -> Option<usize> {
    let is_open = |step: &crate::reports::StepDocument| step.status == "open";
    let at = set.steps.iter().position(is_open)?;
    (set.attention != Attention::Done).then_some(at + 1)
}

/// The phase of a set: that of its run, or its state.
fn phase_of(set: &RolloutDocument) -> &str {
    set.run.as_ref().map_or(set.state.as_str(), |run| run.phase.as_str())
}

fn head(fleet: &[Arc<RolloutDocument>], filter: &Filter<'_>, context: &ViewContext) -> Markup {
    let mut namespaces: Vec<&str> = fleet.iter().map(|set| set.of.namespace.as_str()).collect();
    let mut phases: Vec<&str> = fleet.iter().map(|set| phase_of(set)).collect();
    for list in [&mut namespaces, &mut phases] {
        list.sort_unstable();
        list.dedup();
    }
    let mut steps: Vec<usize> = fleet.iter().filter_map(|set| open_step(set)).collect();
    steps.sort_unstable();
    steps.dedup();
    let of = |wanted| fleet.iter().filter(|set| set.attention == wanted).count();
    let (waiting, running) = (of(Attention::Person), of(Attention::Running));
    let is_gated = fleet.iter().any(|set| phase_of(set) == "AwaitingApproval");
    let option = |value: &str, now: &str| {
        html! { option value=(value) selected[value == now] { (text(value)) } }
    };
    let only = |value: &str, words: &str| {
        html! { option value=(value) selected[value == filter.only] { (words) } }
    };
    html! {
        div id="fleet-head" class="head" {
            h1 {
                @match (waiting, running) {
                    (0, 0) => { "Nothing is rolling out" }
                    (0, running) => { (counted(running as u64, "rollout")) " in progress" }
                    (waiting, 0) => { (waiting) " of " (counted(fleet.len() as u64, "set")) " waiting for a person" }
                    (waiting, running) => {
                        (waiting) " waiting for a person, " (running) " in progress"
                    }
                }
            }
            form class="filters" role="search" method="get" action="/" data-live {
                input type="search" name="q" value=(filter.text) placeholder="Search  /" aria-label="Search" autocomplete="off" spellcheck="false";
                select name="only" aria-label="Which" {
                    (only("", "All"))
                    (only("person", "Waiting for a person"))
                    (only("unhealthy", "Not Healthy"))
                }
                select name="phase" aria-label="Phase" {
                    option value="" { "Any phase" }
                    @for phase in &phases { (option(phase, filter.phase)) }
                }
                @if !steps.is_empty() || !filter.step.is_empty() {
                    select name="step" aria-label="Step" {
                        option value="" { "Any step" }
                        @for step in &steps {
                            option value=(step) selected[step.to_string() == filter.step] { "In step " (step) }
                        }
                    }
                }
                @if namespaces.len() > 1 {
                    select name="ns" aria-label="Namespace" {
                        option value="" { "All namespaces" }
                        @for namespace in &namespaces { (option(namespace, filter.namespace)) }
                    }
                }
                input type="text" name="label" value=(filter.label) placeholder="label=value" aria-label="Label" autocomplete="off" spellcheck="false";
                button type="submit" { "Show" }
            }
            @if context.allows_actions { (selection_buttons(is_gated, filter.label)) }
        }
    }
}

fn row(id: &str, set: &RolloutDocument, context: &ViewContext) -> Markup {
    let state = match set.attention {
        Attention::Person => CellState::Stuck,
        Attention::Running => CellState::Moving,
        Attention::Done => CellState::Done,
    };
    let first = set.waits.first();
    let wait = match (first, set.run.as_ref().filter(|run| is_of_run(run))) {
        (_, Some(run)) if !run.message.is_empty() => text(&run.message),
        (Some(wait), _) => text(&format!("{}: {}", wait.application, wait.reason)),
        (None, _) => text(if set.paused.is_empty() { &set.message } else { &set.paused }),
    };
    html! {
        li id=(id) class="row" {
            (shape(state))
            a class="name" href=(set_path(&set.of, "")) {
                (text(&set.of.name)) span class="ns" { (text(&set.of.namespace)) }
            }
            span class="phase" { (text(phase_of(set))) }
            (bar(set))
            span class="done" { (set.complete) "/" (set.total) }
            span class="wait" {
                span class="reason" { (wait) }
                (badges(set))
                @if let Some(wait) = first.filter(|_| set.attention != Attention::Done) {
                    span class="by" {
                        (wait.ended_by) @if !wait.since.is_empty() { " · for " (age(&wait.since, context)) }
                    }
                }
            }
            span class="when" {
                @if !set.started.is_empty() { (age(&set.started, context)) }
                @if !set.left.is_empty() { span class="left" { (text(&set.left)) } }
            }
        }
    }
}

/// Whether a run says more than its Applications.
fn is_of_run(run: &crate::reports::RunDocument) -> bool {
    !matches!(run.phase.as_str(), "" | "Progressing" | "Complete" | "Superseded")
}
