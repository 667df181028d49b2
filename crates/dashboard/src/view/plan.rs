//! The next change of a set (PG-013).

use maud::html;

use super::context::{View, ViewContext};
use super::heads::head;
use super::parts::Part;
use super::words::{command_to_copy, counted, text};
use crate::address::application_path;
use crate::reports::{PageObject, PlanDocument};

/// The most Applications of a batch that are named.
const NAMES: usize = 30;

/// The view.
pub(super) fn plan_view(of: &PageObject, plan: &PlanDocument, _: &ViewContext) -> View {
    let hash = plan.steering["hash"].as_str().unwrap_or_default();
    let changing = plan.live.iter().filter(|one| one.change != "Unchanged" && one.change != "none");
    let changing: Vec<_> = changing.collect();
    let body = html! {
        section id="plan" {
            p class="quiet" { "What would happen now, as wavegate plan --live prints it." }
            @if !hash.is_empty() {
                p { "Plan " code { (text(hash)) } }
                (command_to_copy(&format!("wavegate approve -n {} {} --plan {}", text(&of.namespace), text(&of.name), text(hash))))
            }
            @for problem in &plan.problems { p class="problem" { strong { (text(&problem.code)) } " " (text(&problem.message)) } }
            h2 { "Steps" span class="count" { (plan.steps.len()) } }
            @if plan.steps.is_empty() { p class="quiet" { "All at once." } }
            ol class="plan" {
                @for step in &plan.steps { li {
                    p { strong { "Step " (step.step) } span class="quiet" { " " (step.limit) " at a time" } }
                    @for batch in &step.batches {
                        p class="batch" {
                            @for (index, name) in batch.iter().take(NAMES).enumerate() {
                                @if index > 0 { ", " }
                                a href=(application_path(&of.namespace, name)) { (text(name)) }
                            }
                            @if batch.len() > NAMES { " and " (batch.len() - NAMES) " more" }
                        }
                    }
                } }
            }
            @if !plan.unmatched.is_empty() {
                p { "Not selected by a step, so a manual sync is required: " (text(&plan.unmatched.join(", "))) }
            }
            h2 { "Changes" span class="count" { (changing.len()) } }
            @if changing.is_empty() { p class="quiet" { "None." } }
            @else { table class="table" {
                thead { tr { th { "Application" } th { "Change" } th { "Sync" } th { "Health" } th { "What" } } }
                tbody { @for one in &changing { tr {
                    td { a href=(application_path(&of.namespace, &one.application)) { (text(&one.application)) } }
                    td { (text(&one.change)) } td { (text(&one.sync)) } td { (text(&one.health)) }
                    td { @if one.message.is_empty() { (text(&one.fields.join(", "))) } @else { (text(&one.message)) } }
                } } }
            } }
            @if plan.live.len() > changing.len() {
                p class="quiet" { (counted((plan.live.len() - changing.len()) as u64, "Application")) " without a change" }
            }
        }
    };
    let parts =
        vec![Part::leaf("head", head(of, "Next change", "/plan")), Part::leaf("plan", body)];
    View { title: format!("Next change of {}", of.name), parts, is_missing: false }
}
