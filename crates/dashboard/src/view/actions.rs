//! What a verb will do, and what became of it (PG-020, PG-021).

use maud::{Markup, html};

use super::context::View;
use super::parts::Part;
use super::words::{command_to_copy, counted, shape, text};
use crate::address::{application_path, set_path};
use crate::reports::{ActionAnswer, ActionOutcomeDocument, ActionRequest, CellState};

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

/// What a verb will do, and the form that does it.
pub(crate) fn action_view(action: &ActionRequest, answer: &ActionAnswer, word: &str) -> View {
    let title = verb_words(&action.verb).unwrap_or_default();
    let changes = answer.outcomes.iter().filter(|one| one.outcome == "planned").count();
    let body = html! {
        section id="action" class="message action" {
            h1 { (title) }
            (outcomes(&answer.outcomes))
            @if answer.outcomes.is_empty() { p { "No ApplicationSet waits for it." } }
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
