//! The policies: which hold and limit what (PG-015).

use maud::html;

use super::context::View;
use super::parts::Part;
use super::words::{counted, shape, text};
use crate::address::set_path;
use crate::reports::{CellState, PageObject, PolicyDocument};

/// The view.
pub(super) fn policies_view(policies: &[PolicyDocument]) -> View {
    let head = html! {
        div id="head" class="head" { h1 { "Policies" span class="count" { (policies.len()) } } }
    };
    let list = html! {
        section id="policies" {
            @if policies.is_empty() { p class="quiet" { "No RolloutPolicy exists here." } }
            ul class="policies" { @for policy in policies {
                @let state = if policy.paused || !policy.problems.is_empty() { CellState::Stuck } else if policy.selected == 0 { CellState::Skipped } else { CellState::Done };
                li class="policy" {
                    p { (shape(state)) strong { (text(&policy.policy)) } span class="ns" { (text(&policy.namespace)) } }
                    p class="quiet" {
                        @if policy.selected == 0 { "is about nothing" }
                        @else { "selects " (counted(u64::try_from(policy.selected).unwrap_or_default(), "ApplicationSet")) ": " }
                        @for (index, set) in policy.application_sets.iter().take(20).enumerate() {
                            @if index > 0 { ", " }
                            a href=(set_path(&PageObject { namespace: policy.namespace.clone(), name: set.clone() }, "")) { (text(set)) }
                        }
                    }
                    @if policy.paused { p class="problem" { "paused: nothing that it selects is promoted" } }
                    @for problem in &policy.problems { p class="problem" { (text(problem)) } }
                    @if !policy.gates.is_empty() { p { "Gates: " (text(&policy.gates.join("; "))) } }
                    @if !policy.limits.is_empty() { p { "Limits: " (text(&policy.limits.join("; "))) } }
                    @if !policy.effective.is_empty() { p class="quiet" { (text(&policy.effective)) } }
                }
            } }
        }
    };
    let parts = vec![Part::leaf("head", head), Part::leaf("policies", list)];
    View { title: "Policies".to_owned(), parts, is_missing: false }
}
