//! What a verb will do, and what became of it (PG-020, PG-021).

use maud::{Markup, html};

use super::context::{View, ViewContext};
use super::parts::Part;
use super::words::{command_to_copy, counted, shape, text};
use crate::address::{application_path, segment, set_path};
use crate::reports::{
    ActionAnswer, ActionOutcomeDocument, ActionRequest, Attention, CellState, PageObject,
    RolloutDocument,
};

/// The verbs, with their words.
const VERBS: [(&str, &str); 14] = [
    ("pause", "Pause"),
    ("resume", "Resume"),
    ("approve", "Approve"),
    ("approve-deletions", "Approve deletions"),
    ("abort", "Abort"),
    ("rollback", "Roll back"),
    ("retry", "Retry"),
    ("retry-app", "Retry"),
    ("skip", "Skip"),
    ("unskip", "Undo skip"),
    ("sync", "Sync"),
    ("refresh", "Refresh"),
    ("refresh-app", "Refresh"),
    ("terminate", "Terminate"),
];

/// A verb in a word; `None` when there is none.
pub(crate) fn verb_words(verb: &str) -> Option<&'static str> {
    VERBS.iter().find(|(name, _)| *name == verb).map(|(_, words)| *words)
}

/// The verbs that a label is offered with.
const OF_LABEL: [&str; 7] = ["approve", "pause", "resume", "abort", "rollback", "retry", "refresh"];

/// Whether a verb is about ApplicationSets, so that it may be about all of a label.
pub(crate) fn is_verb_of_sets(verb: &str) -> bool {
    OF_LABEL.contains(&verb) || verb == "approve-deletions"
}

/// Buttons of verbs. Those that the person may not use are disabled, with the reason below (PG-020).
/// With `leads`, the first of them is what helps.
pub(super) fn verb_buttons(
    verbs: &[&str],
    of: &PageObject,
    leads: bool,
    context: &ViewContext,
) -> Markup {
    let of = format!("set={}/{}", segment(&of.namespace), segment(&of.name));
    let words = |verb: &str| verb_words(verb).unwrap_or_default();
    let refusal = |verb: &str| context.permissions.refusal(verb);
    let mut refused: Vec<(&str, Vec<&str>)> = Vec::new();
    for verb in verbs {
        let Some(why) = refusal(verb) else { continue };
        match refused.iter_mut().find(|(known, _)| *known == why) {
            Some((_, all)) => all.push(words(verb)),
            None => refused.push((why, vec![words(verb)])),
        }
    }
    html! {
        p class="buttons" {
            @for (index, verb) in verbs.iter().enumerate() {
                @match refusal(verb) {
                    Some(why) => button type="button" class="button" disabled title=(text(why)) { (words(verb)) },
                    None => a class={ "button" @if index == 0 && leads { " first" } } href={ "/act/" (verb) "?" (of) } data-dialog { (words(verb)) "…" },
                }
            }
        }
        @for (why, verbs) in &refused { p class="quiet" { (verbs.join(", ")) ": " (text(why)) } }
    }
}

/// The verbs of a set that make sense now first; whether one does is shown when it is chosen.
pub(super) fn set_buttons(set: &RolloutDocument, context: &ViewContext) -> Markup {
    let phase = set.run.as_ref().map_or("", |run| run.phase.as_str());
    let holds = set.conditions.iter().any(|(kind, _)| kind == "DeletionsHeld");
    let is_stuck = set.attention == Attention::Person;
    let verbs: &[&str] = match phase {
        "AwaitingApproval" => &["approve", "pause", "abort", "rollback"],
        "Paused" => &["resume", "abort", "rollback"],
        "Held" => &["retry", "rollback", "abort"],
        "Progressing" | "Soaking" if is_stuck => &["retry", "rollback", "pause", "abort"],
        "Progressing" | "Soaking" => &["pause", "abort", "rollback"],
        "Aborted" | "RolledBack" => &["retry", "rollback"],
        _ if set.paused.is_empty() => &["pause", "refresh"],
        _ => &["resume", "refresh"],
    };
    let deletions: &[&str] = if holds { &["approve-deletions"] } else { &[] };
    verb_buttons(&[verbs, deletions].concat(), &set.of, is_stuck, context)
}

/// The verbs over several sets of the fleet: all that wait for an approval, and all of the label that
/// it is filtered by (PG-021).
pub(super) fn selection_buttons(is_gated: bool, label: &str) -> Markup {
    html! {
        @if is_gated {
            a class="button" href="/act/approve?all=waiting" data-dialog { "Approve all that wait…" }
        }
        @if !label.is_empty() {
            p class="buttons" {
                span class="quiet" { "All of " (text(label)) ":" }
                @for verb in OF_LABEL {
                    a class="button" href={ "/act/" (verb) "?all=label&label=" (segment(label)) } data-dialog {
                        (verb_words(verb).unwrap_or_default()) "…"
                    }
                }
            }
        }
    }
}

/// What a verb will do, and the form that does it.
pub(crate) fn action_view(action: &ActionRequest, answer: &ActionAnswer, word: &str) -> View {
    let title = verb_words(&action.verb).unwrap_or_default();
    let changes = answer.outcomes.iter().filter(|one| one.outcome == "planned").count();
    let body = html! {
        section id="action" class="message action" {
            h1 { (title) }
            (outcomes(&answer.outcomes))
            @if answer.outcomes.is_empty() { p { "There is no ApplicationSet to do it for." } }
            @for command in answer.commands.iter().take(20) { (command_to_copy(command)) }
            form method="post" action={ "/act/" (action.verb) } {
                input type="hidden" name="word" value=(word);
                @for of in &action.of {
                    input type="hidden" name="set" value={ (of.namespace) "/" (of.name) };
                }
                @if !action.gate.is_empty() { input type="hidden" name="gate" value=(action.gate); }
                @if action.verb == "pause" {
                    label { "Why, for others " input type="text" name="reason" maxlength="200" value=(action.reason); }
                }
                p class="buttons" {
                    @if changes > 0 {
                        button type="submit" class="button first" {
                            (title) @if changes > 1 { " " (counted(changes as u64, "ApplicationSet")) }
                        }
                    }
                    a class="button" href=(back(action)) data-close { "Back" }
                }
            }
        }
    };
    View { title: title.to_owned(), parts: vec![Part::leaf("action", body)], is_missing: false }
}

/// What became of a verb.
pub(crate) fn outcome_view(action: &ActionRequest, answer: &ActionAnswer) -> View {
    let title = verb_words(&action.verb).unwrap_or_default();
    let body = html! {
        section id="action" class="message action" {
            h1 { (title) }
            (outcomes(&answer.outcomes))
            p class="buttons" { a class="button first" href=(back(action)) data-close { "Back" } }
        }
    };
    View { title: title.to_owned(), parts: vec![Part::leaf("action", body)], is_missing: false }
}

fn back(action: &ActionRequest) -> String {
    match (action.of.as_slice(), action.verb.as_str()) {
        ([one], "skip" | "unskip" | "sync" | "terminate" | "refresh-app" | "retry-app") => {
            application_path(&one.namespace, &one.name)
        }
        ([one], _) => set_path(one, ""),
        _ => "/".to_owned(),
    }
}

fn outcomes(outcomes: &[ActionOutcomeDocument]) -> Markup {
    let state = |outcome: &str| match outcome {
        "done" => CellState::Done,
        "planned" => CellState::Moving,
        "already" => CellState::Skipped,
        _ => CellState::Stuck,
    };
    html! {
        ul class="outcomes" { @for one in outcomes { li {
            (shape(state(&one.outcome)))
            strong { (text(&one.namespace)) "/" (text(&one.application_set)) } " "
            @match one.outcome.as_str() {
                "planned" => "will ", "done" => "done: ", "already" => "already: ",
                "refused" => "refused: ", _ => "failed: ",
            }
            (text(&one.message))
        } } }
    }
}
