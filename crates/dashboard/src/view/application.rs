//! One Application (PG-012).

use maud::{Markup, html};
use serde_json::Value;

use super::actions::verb_buttons;
use super::context::{View, ViewContext};
use super::parts::Part;
use super::rollout::{links, wait_row};
use super::words::{age, conditions, revision, shape, state_of_health, text};
use crate::address::{application_path, set_path};
use crate::reports::{ApplicationDocument, ResourceDocument, Unavailable};

/// The most lines of one difference.
const LINES: usize = 400;

/// The view.
pub(super) fn application_view(
    app: &ApplicationDocument,
    difference: Option<Result<Value, Unavailable>>,
    context: &ViewContext,
) -> View {
    let parts = vec![
        Part::leaf("head", head(app, context)),
        Part::leaf("now", now(app, context)),
        Part::leaf("tree", tree(app)),
        Part::leaf("diff", differs(app, difference)),
        Part::leaf("deployed", deployed(app, context)),
        Part::leaf("events", events(app, context)),
    ];
    View { title: app.of.name.clone(), parts, is_missing: false }
}

fn head(app: &ApplicationDocument, context: &ViewContext) -> Markup {
    let tree = &app.tree;
    let health = tree.health["status"].as_str().unwrap_or_default();
    let to = &tree.destination;
    let to = |key: &str| to[key].as_str().unwrap_or_default();
    let cluster = if to("name").is_empty() { to("server") } else { to("name") };
    html! {
        div id="head" class="head" {
            p class="crumbs" {
                a href="/" data-up[app.set.is_none()] { "Fleet" } " / "
                @match &app.set {
                    Some(set) => a href=(set_path(set, "")) data-up { (text(&set.namespace)) " / " (text(&set.name)) },
                    None => (text(&app.of.namespace)),
                }
            }
            h1 { (shape(state_of_health(health))) (text(&app.of.name)) span class="phase" { (text(health)) } }
            p class="facts" {
                span { (text(&tree.sync)) }
                @if !tree.operation.is_empty() { span { "operation " (text(&tree.operation)) } }
                @for one in &tree.revisions { span { code { (revision(one)) } } }
                span { (text(cluster)) " / " (text(to("namespace"))) }
                span { "project " (text(&tree.project)) }
                @for link in &app.links { span { (external(link)) } }
            }
            @if context.allows_actions {
                (verb_buttons(&["sync", "refresh-app", "terminate", "skip", "unskip", "retry-app"], &app.of, false, context))
            }
        }
    }
}

/// A link of the Application, if it leads to a web page: an address of another kind may run script.
fn external(link: &str) -> Markup {
    let is_web = link.starts_with("https://") || link.starts_with("http://");
    let shown = text(link);
    html! {
        @if is_web { a href=(link) rel="noopener noreferrer" target="_blank" { (shown) } }
        @else { (shown) }
    }
}

fn now(app: &ApplicationDocument, context: &ViewContext) -> Markup {
    html! {
        section id="now" class="now" aria-label="Now" {
            p class="summary" { (text(&app.summary)) }
            @if !app.tree.waits_for.is_empty() { p class="cause" { (text(&app.tree.waits_for)) } }
            @if !app.waits.is_empty() {
                ul { @for wait in &app.waits { (wait_row(&app.of.namespace, wait, context)) } }
            }
            (conditions(&app.conditions))
            @if !app.others.is_empty() {
                p { "Other owners of its resources: " (links(&app.others)) }
            }
            @for note in app.notes.iter().chain(&app.tree.notes) { p class="quiet" { (text(note)) } }
        }
    }
}

fn tree(app: &ApplicationDocument) -> Markup {
    html! {
        section id="tree" class="tree" {
            h2 { "Resources" span class="count" { (app.tree.resources.len()) } }
            @if app.tree.resources.is_empty() { p class="quiet" { "None yet." } }
            ul { @for resource in &app.tree.resources { (node(resource)) } }
        }
    }
}

fn node(resource: &ResourceDocument) -> Markup {
    let health = resource.health["status"].as_str().unwrap_or_default();
    let state = match resource.missing {
        true => "Missing",
        false if health.is_empty() => resource.sync.as_str(),
        false => health,
    };
    let message = resource.health["message"].as_str().unwrap_or_default();
    html! {
        li {
            span class="node" {
                (shape(state_of_health(state)))
                span class="kind" { (text(&resource.kind)) } " "
                (text(&resource.name))
                span class="quiet" {
                    " " (text(state))
                    @if resource.sync == "OutOfSync" { " OutOfSync" }
                    @if !resource.hook.is_empty() { " hook " (text(&resource.hook)) }
                    @if resource.wave != 0 { " wave " (resource.wave) }
                }
            }
            @for said in [message, &resource.message] {
                @if !said.is_empty() { span class="cause" { (text(said)) } }
            }
            @let shown: Vec<_> = resource.children.iter().filter(|child| !child.scaled_down).collect();
            @if !shown.is_empty() { ul { @for child in shown { (node(child)) } } }
        }
    }
}

/// The difference to the source, when it is asked for: it reads the repository.
fn differs(app: &ApplicationDocument, difference: Option<Result<Value, Unavailable>>) -> Markup {
    let path = application_path(&app.of.namespace, &app.of.name);
    html! {
        section id="diff" class="diff" {
            h2 { "Difference to the source" }
            @match difference {
                None => p { a class="button" href={ (path) "?diff=1" } { "Compare now" } },
                Some(Err(error)) => p class="problem" { (text(&error.message)) },
                Some(Ok(report)) => {
                    @let resources = report["resources"].as_array().cloned().unwrap_or_default();
                    @if resources.is_empty() { p { "No difference." } }
                    @for resource in &resources { (changed(resource)) }
                }
            }
        }
    }
}

fn changed(resource: &Value) -> Markup {
    let field = |name: &str| resource[name].as_str().unwrap_or_default();
    let lines = |value: &Value| {
        let text = serde_json::to_string_pretty(value).unwrap_or_default();
        if value.is_null() { String::new() } else { text }
    };
    let changes = resource["changes"].as_array().cloned().unwrap_or_default();
    html! {
        details open {
            summary { (text(field("action"))) " " (text(field("kind"))) " " (text(field("namespace"))) "/" (text(field("name"))) }
            @if changes.is_empty() {
                pre { (text(&lines(&resource["predicted"]))) }
            } @else {
                table class="table" { tbody {
                    @for change in changes.iter().take(LINES) { tr {
                        td { code { (text(change["path"].as_str().unwrap_or_default())) } }
                        td class="old" { (text(&lines(&change["live"]))) }
                        td class="new" { (text(&lines(&change["desired"]))) (text(&lines(&change["predicted"]))) }
                    } }
                } }
            }
        }
    }
}

fn deployed(app: &ApplicationDocument, context: &ViewContext) -> Markup {
    html! {
        section id="deployed" {
            @if !app.deployed.is_empty() {
                h2 { "Deployed" }
                ol class="timeline" { @for (at, what, by) in &app.deployed { li {
                    span class="when" { (age(at, context)) }
                    span { code { (revision(what)) } @if !by.is_empty() { span class="quiet" { " by " (text(by)) } } }
                } } }
            }
        }
    }
}

/// Its Events, the newest first.
fn events(app: &ApplicationDocument, context: &ViewContext) -> Markup {
    html! {
        section id="events" {
            @if !app.events.is_empty() {
                h2 { "Events" span class="count" { (app.events.len()) } }
                ol class="timeline" { @for event in &app.events { li {
                    span class="when" { (age(&event.at, context)) }
                    span {
                        strong class=[event.is_warning.then_some("problem")] { (text(&event.reason)) }
                        " " (text(&event.message))
                        @if event.count > 1 { span class="quiet" { " " (event.count) " times" } }
                    }
                } } }
            }
        }
    }
}
