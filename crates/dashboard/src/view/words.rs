//! What views share: texts, ages, states, commands.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use maud::{Markup, html};

use super::context::ViewContext;
use super::parts::Part;
use crate::address::application_path;
use crate::reports::{CellState, KnownState, RevisionDocument};

/// The most characters of one text: a Pod may say megabytes.
const MOST: usize = 2000;

/// A text of a cluster: without credentials, of bounded length, and with what would change the
/// direction of the text around it shown as it is escaped in a terminal.
pub(super) fn text(text: &str) -> String {
    let cut = match text.char_indices().nth(MOST) {
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
        None => Cow::Borrowed(text),
    };
    let redacted = wavegate_net::redact::redact_text(&cut);
    wavegate_net::terminal::printable_lines(&redacted, false)
}

/// The end of a long text, such as a log, as [`text`] shows it.
pub(super) fn last_lines(lines: &str) -> String {
    let count = lines.chars().count();
    let end: String = lines.chars().skip(count.saturating_sub(MOST)).collect();
    text(end.trim_end())
}

/// Revisions with the words of their commits.
pub(super) fn revisions(all: &[RevisionDocument]) -> Markup {
    html! {
        @for (index, one) in all.iter().take(3).enumerate() {
            @if index > 0 { ", " }
            code { (revision(&one.revision)) }
            (commit_words(one))
        }
        @if all.len() > 3 { " and " (all.len() - 3) " more" }
        @if all.is_empty() { "nothing" }
    }
}

/// Subject and author of the commit of a revision, where they are known.
fn commit_words(revision: &RevisionDocument) -> Markup {
    html! {
        @if !revision.subject.is_empty() {
            " " span class="subject" { (text(&revision.subject)) }
            @if !revision.author.is_empty() { " by " (text(&revision.author)) }
        }
    }
}

/// The Applications of a namespace with links, of which there are more.
pub(super) fn names(namespace: &str, all: &[String], total: u64) -> Markup {
    let more = total.saturating_sub(all.len() as u64);
    html! {
        @for (index, name) in all.iter().enumerate() {
            @if index > 0 { ", " }
            a href=(application_path(namespace, name)) { (text(name)) }
        }
        @if more > 0 { " and " (more) " more" }
    }
}

/// The time since then.
pub(super) fn age(since: &str, context: &ViewContext) -> Markup {
    let shown = context.now.map(|now| gotime::age::age_since(since, now)).unwrap_or_default();
    html! { @if !since.is_empty() { time class="age" datetime=(since) title=(since) { (shown) } } }
}

/// The time until then.
pub(super) fn until(until: &str, context: &ViewContext) -> Markup {
    let left = context.now.and_then(|now| {
        let until: Timestamp = until.parse().ok()?;
        Some(human(until.as_second().saturating_sub(now.as_second()).max(0)))
    });
    html! {
        @if !until.is_empty() {
            time class="until" datetime=(until) title=(until) { (left.unwrap_or_default()) }
        }
    }
}

/// Seconds in words, as in the command line.
pub(super) fn human(seconds: i64) -> String {
    gotime::age::human_duration(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

/// The class of a state: its colour and its shape.
pub(super) fn class_of(state: CellState) -> &'static str {
    match state {
        CellState::Done => "d",
        CellState::Moving => "m",
        CellState::Waiting => "w",
        CellState::Stuck => "f",
        CellState::Skipped => "s",
    }
}

/// A state in a word.
pub(super) fn word_of(state: CellState) -> &'static str {
    match state {
        CellState::Done => "complete",
        CellState::Moving => "in progress",
        CellState::Waiting => "waiting",
        CellState::Stuck => "stuck",
        CellState::Skipped => "skipped",
    }
}

/// The shape of a state, with its word for those who do not see it.
pub(super) fn shape(state: CellState) -> Markup {
    html! { span class={ "shape " (class_of(state)) } role="img" aria-label=(word_of(state)) {} }
}

/// The state of what has this health or sync status.
pub(super) fn state_of_health(health: &str) -> CellState {
    match health {
        "Healthy" | "Synced" | "Succeeded" => CellState::Done,
        "Progressing" | "Running" | "Requested" => CellState::Moving,
        "Degraded" | "Failed" | "Error" | "Missing" => CellState::Stuck,
        _ => CellState::Waiting,
    }
}

/// A line of advice: what it is for, and its command to copy.
pub(super) fn advice(line: &str) -> Markup {
    let line = text(line);
    let starts = ["wavegate ", "kubectl ", "git "];
    let command = starts.iter().filter_map(|start| line.find(&format!(": {start}"))).min();
    if starts.iter().any(|start| line.starts_with(start)) {
        return command_to_copy(&line);
    }
    html! {
        @match command {
            Some(at) => { span { (line[..at]) } (command_to_copy(&line[at + 2..])) }
            None => { span { (line) } }
        }
    }
}

/// A command, with a button that copies it; the button is shown when the script runs.
pub(super) fn command_to_copy(command: &str) -> Markup {
    html! {
        span class="cmd" {
            code { (command) }
            button type="button" class="copy" data-copy=(command) hidden { "Copy" }
        }
    }
}

/// What is not as current as it should be; empty while all is well.
pub(super) fn notice(state: &KnownState) -> Part {
    Part::leaf(
        "notice",
        html! {
            div id="notice" role="status" {
                @for problem in &state.problems {
                    p class="notice" { (shape(CellState::Stuck)) (text(problem)) }
                }
                @if !state.is_listed && state.problems.is_empty() {
                    p class="notice quiet" { "Reading the cluster…" }
                }
            }
        },
    )
}

/// A number with its noun.
pub(super) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Conditions that report a problem.
pub(super) fn conditions(conditions: &[(String, String)]) -> Markup {
    html! {
        @for (kind, message) in conditions {
            p class="problem" { strong { (text(kind)) } " " (text(message)) }
        }
    }
}

/// A short revision.
pub(super) fn revision(revision: &str) -> String {
    let short = |one: &str| {
        let is_hash = one.len() >= 40 && one.chars().all(|c| c.is_ascii_hexdigit());
        one.chars().take(if is_hash { 7 } else { 60 }).collect::<String>()
    };
    text(&revision.split(',').map(|one| short(one.trim())).collect::<Vec<_>>().join(", "))
}
