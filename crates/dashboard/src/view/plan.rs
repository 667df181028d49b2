//! The next change of a set (PG-013).

use maud::{Markup, html};
use serde_json::Value;

use super::context::{View, ViewContext};
use super::heads::head;
use super::parts::Part;
use super::words::{command_to_copy, counted, names, text};
use crate::address::application_path;
use crate::reports::{
    AppDifferenceDocument, PageObject, PlanDocument, PlannedChangeDocument, PlannedStepDocument,
};

/// The most Applications of a batch that are named.
const NAMES: usize = 30;
/// The most Applications whose difference is shown, and the most fields of one.
const DIFFERENCES: usize = 50;
const FIELDS: usize = 200;

/// What becomes of Applications, with the heading of each.
const CHANGES: [(&str, &str); 6] = [
    ("create", "Created"),
    ("update", "Changed"),
    ("delete", "Deleted"),
    ("wait", "Waits"),
    ("move", "Changes its owner"),
    ("refuse", "Cannot be written"),
];

/// The view.
pub(super) fn plan_view(of: &PageObject, plan: &PlanDocument, _: &ViewContext) -> View {
    let parts = vec![
        Part::leaf("head", head(of, "Next change", "/plan")),
        Part::leaf("plan", summary(of, plan)),
        Part::leaf("held", holds(of, plan)),
        Part::leaf("planned", steps(of, plan)),
        Part::leaf("changes", changes(of, plan)),
    ];
    View { title: format!("Next change of {}", of.name), parts, is_missing: false }
}

fn summary(of: &PageObject, plan: &PlanDocument) -> Markup {
    let hash = &plan.steering.hash;
    html! {
        section id="plan" {
            p class="quiet" { "What would happen now, as wavegate plan --live prints it." }
            @if !hash.is_empty() {
                p { "Plan " code { (text(hash)) } }
                (command_to_copy(&format!("wavegate approve -n {} {} --plan {}", text(&of.namespace), text(&of.name), text(hash))))
            }
            @for problem in &plan.problems { p class="problem" { strong { (text(&problem.code)) } " " (text(&problem.message)) } }
        }
    }
}

/// Who holds it, and what limits it.
fn holds(of: &PageObject, plan: &PlanDocument) -> Markup {
    let held = &plan.steering;
    html! {
        section id="held" {
            @if !held.gates.is_empty() || !held.limits.is_empty() {
                h2 { "Held and limited by" }
                ul class="plan" {
                    @for gate in &held.gates { li {
                        p {
                            strong { "Gate " (text(&gate.name)) }
                            span class="quiet" { " of policy " (text(&gate.policy)) }
                            @if gate.approvals > 0 { " · " (counted(gate.approvals, "approval")) }
                            @if !gate.soak.is_empty() { " · soak " (text(&gate.soak)) }
                        }
                        p class="batch" {
                            @let shown = &gate.applications[..gate.applications.len().min(NAMES)];
                            @if shown.is_empty() { "holds no Application" }
                            (names(&of.namespace, shown, gate.applications.len() as u64))
                        }
                    } }
                    @for limit in &held.limits { li { p { (text(limit)) } } }
                }
            }
        }
    }
}

fn steps(of: &PageObject, plan: &PlanDocument) -> Markup {
    html! {
        section id="planned" {
            h2 { "Steps" span class="count" { (plan.steps.len()) } }
            @if plan.steps.is_empty() { p class="quiet" { "All at once." } }
            ol class="plan" { @for step in &plan.steps { (planned_step(of, step)) } }
            @if !plan.unmatched.is_empty() {
                p { "Not selected by a step, so a manual sync is required: " (text(&plan.unmatched.join(", "))) }
            }
        }
    }
}

fn planned_step(of: &PageObject, step: &PlannedStepDocument) -> Markup {
    html! {
        li {
            p {
                strong { "Step " (step.step) }
                span class="quiet" { " " (step.limit) " at a time" }
            }
            @for batch in &step.batches {
                p class="batch" { (names(&of.namespace, &batch[..batch.len().min(NAMES)], batch.len() as u64)) }
            }
        }
    }
}

fn changes(of: &PageObject, plan: &PlanDocument) -> Markup {
    let of_change = |wanted: &str| -> Vec<&PlannedChangeDocument> {
        plan.live.iter().filter(|one| one.change == wanted).collect()
    };
    let unchanged = of_change("none").len();
    let count = plan.live.len() - unchanged;
    let mut shown = 0;
    html! {
        section id="changes" {
            h2 { "Changes" span class="count" { (count) } }
            @if count == 0 { p class="quiet" { "None." } }
            @for (change, title) in CHANGES {
                @let found = of_change(change);
                @if !found.is_empty() {
                    h3 { (title) span class="count" { (found.len()) } }
                    ul class="changes" { @for one in found {
                        @let difference = plan.difference.iter().find(|known| known.application == one.application);
                        @let difference = difference.filter(|_| { shown += 1; shown <= DIFFERENCES });
                        (planned_change(of, one, difference))
                    } }
                }
            }
            @if shown > DIFFERENCES {
                p class="quiet" { "The difference of the first " (DIFFERENCES) " is shown; wavegate diff appset/" (text(&of.name)) " has all." }
            }
            @if unchanged > 0 {
                p class="quiet" { (counted(unchanged as u64, "Application")) " without a change" }
            }
        }
    }
}

fn planned_change(
    of: &PageObject,
    one: &PlannedChangeDocument,
    difference: Option<&AppDifferenceDocument>,
) -> Markup {
    html! {
        li {
            p {
                a href=(application_path(&of.namespace, &one.application)) { (text(&one.application)) }
                @for word in [&one.sync, &one.health] {
                    @if !word.is_empty() { span class="quiet" { " " (text(word)) } }
                }
                @if !one.message.is_empty() { " " (text(&one.message)) }
            }
            @if let Some(difference) = difference { (differs(difference)) }
        }
    }
}

/// The fields that differ; the whole of what is created.
fn differs(difference: &AppDifferenceDocument) -> Markup {
    let written = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    };
    html! {
        @if difference.live.is_null() && !difference.predicted.is_null() {
            details { summary { "What is created" } pre class="new" { (text(&written(&difference.predicted["spec"]))) } }
        } @else if difference.predicted.is_null() && difference.change == "delete" {
            details { summary { "What is deleted" } pre class="old" { (text(&written(&difference.live["spec"]))) } }
        } @else if !difference.changes.is_empty() {
            table class="table" {
                thead { tr { th { "Field" } th { "Now" } th { "Then" } } }
                tbody { @for change in difference.changes.iter().take(FIELDS) { tr {
                    td { code { (text(&change.path)) } }
                    td class="old" { (text(&written(&change.from))) }
                    td class="new" { (text(&written(&change.to))) }
                } } }
            }
            @if difference.changes.len() > FIELDS {
                p class="quiet" { "and " (difference.changes.len() - FIELDS) " fields more" }
            }
        }
    }
}
