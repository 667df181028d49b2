//! The heads of the views of a set.

use maud::{Markup, html};

use super::words::text;
use crate::address::set_path;
use crate::reports::{Attention, PageObject, RolloutDocument};

/// Links to the views of a set, with the open one marked.
pub(super) fn tabs(of: &PageObject, open: &str) -> Markup {
    let tabs = [("", "Rollout"), ("/plan", "Next change"), ("/history", "History")];
    html! {
        nav class="tabs" aria-label="Views of the set" {
            @for (view, title) in tabs {
                a href=(set_path(of, view)) aria-current=[(view == open).then_some("page")] { (title) }
            }
        }
    }
}

/// The head of a view of a set, besides the rollout.
pub(super) fn head(of: &PageObject, title: &str, open: &str) -> Markup {
    html! {
        div id="head" class="head" {
            p class="crumbs" {
                a href="/" { "Fleet" } " / " a href=(set_path(of, "")) data-up { (text(&of.namespace)) " / " (text(&of.name)) }
            }
            h1 { (text(title)) }
            (tabs(of, open))
        }
    }
}

/// What a set is complete without, or is not Healthy in spite of that (PG-018).
pub(super) fn badges(set: &RolloutDocument) -> Markup {
    let skipped = set.run.as_ref().map(|run| run.skipped.as_slice()).unwrap_or_default();
    let is_complete = set.attention == Attention::Done
        || set.run.as_ref().is_some_and(|run| run.phase.starts_with("Complete"));
    html! {
        @if is_complete {
            @if !skipped.is_empty() {
                span class="badge" { "without " (text(&skipped.join(", "))) }
            }
            @if !matches!(set.health.as_str(), "Healthy" | "") {
                span class="badge" { "complete, but " (text(&set.health)) }
            }
        }
    }
}

/// The steps as a bar: each as wide as it has Applications, filled by those that are complete.
pub(super) fn bar(set: &RolloutDocument) -> Markup {
    let total: u64 = set.steps.iter().map(|step| step.total).sum();
    // Steps without Applications have a mark, too.
    let width = |of: u64| (of * 1000).checked_div(total).unwrap_or_default();
    let mut at = 0;
    let segments: Vec<_> = set
        .steps
        .iter()
        .map(|step| {
            let begin = at;
            at += step.total;
            let gap = if at < total { 6 } else { 0 };
            let whole = width(step.total).saturating_sub(gap).max(2);
            let part = |of: u64| (whole * of).checked_div(step.total).unwrap_or_default();
            let moving = part(step.in_flight.saturating_sub(step.stuck));
            (width(begin), whole, part(step.done), moving, part(step.stuck))
        })
        .collect();
    let label = set.steps.iter().enumerate().map(|(index, step)| {
        format!("step {}: {} of {} complete", index + 1, step.done, step.total)
    });
    let label = label.collect::<Vec<_>>().join(", ");
    html! {
        svg class="bar" viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" aria-label=(label) {
            @for (x, whole, done, moving, stuck) in segments {
                rect class="w" x=(x) y="0" width=(whole) height="10" {}
                @if done > 0 { rect class="d" x=(x) y="0" width=(done) height="10" {} }
                @if moving > 0 { rect class="m" x=(x + done) y="0" width=(moving) height="10" {} }
                @if stuck > 0 { rect class="f" x=(x + done + moving) y="0" width=(stuck) height="10" {} }
            }
        }
    }
}
