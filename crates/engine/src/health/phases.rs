//! What the words of phases, states and errors say that kinds without a rule report.

use serde_json::Value;

use super::reported_words::{cut_text, has_part, is_first_word, is_last_word, plain_text};
use super::status::{Health, Status};
use super::words::{BAD, BAD_WORDS, BEGUN, BUSY_WORDS, GOOD, PAST, PAUSED_WORDS, PHASES};
use wavegate_api::Raw;

/// Whether a message reports a fault.
pub fn is_fault(message: &str) -> bool {
    let words = [
        "fail",
        "error",
        "invalid",
        "notfound",
        "cannot",
        "unable",
        "doesnotexist",
        "notaccepted",
        "notbeenaccepted",
    ];
    has_part(message, &words)
}

/// The worst of the phases that are understood.
pub fn by_phase(status: &Value, ends: bool) -> Option<Health> {
    let fields = status.as_object()?.iter().filter(|(field, _)| {
        let field = plain_text(field);
        PHASES.iter().any(|end| field.ends_with(end))
    });
    let judged = fields.filter_map(|(_, value)| {
        let text = word_in(value)?;
        Some((of_word(text, ends)?, text))
    });
    let rank = |status: &Status| match status {
        Status::Degraded => 3,
        Status::Suspended => 2,
        Status::Progressing => 1,
        _ => 0,
    };
    let Some((worst, text)) = judged.max_by_key(|(status, _)| rank(status)) else {
        return by_ready(status);
    };
    if worst == Status::Healthy && by_ready(status).is_some_and(|h| h.status != Status::Healthy) {
        return by_ready(status);
    }
    let messages = ["message", "reason", "phaseReason", "error", "errorDescription"];
    let message = messages.iter().map(|field| status.field(field)).find(|text| !text.is_empty());
    let error = || reported_error(status).filter(|_| worst == Status::Degraded);
    Some(Health::new(worst, cut_text(message.or_else(error).unwrap_or(text))))
}

/// What a word of a phase says; `ends` of work that ends.
pub fn of_word(text: &str, ends: bool) -> Option<Status> {
    let word = plain_text(text);
    let word = word.as_str();
    if ends && BEGUN.contains(&word) {
        return Some(Status::Progressing);
    }
    if GOOD.contains(&word) {
        return Some(Status::Healthy);
    }
    let is_bad = word.starts_with("failed")
        || is_first_word(text, "error")
        || BAD.iter().any(|end| word.ends_with(end))
        || BAD_WORDS.iter().any(|end| is_last_word(text, end));
    if is_bad {
        return Some(Status::Degraded);
    }
    if PAUSED_WORDS.contains(&word) {
        return Some(Status::Suspended);
    }
    let busy = BUSY_WORDS.contains(&word)
        || ["waiting", "creating", "updating", "applying", "deploying"]
            .iter()
            .any(|start| word.starts_with(start))
        || word.ends_with("notready")
        || word.ends_with("pending")
        || word.ends_with("inprogress");
    busy.then_some(Status::Progressing)
}

/// A word, also of a map that has it in `state`, `status` or `phase`.
fn word_in(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Object(map) => {
            let inner = ["state", "status", "phase"].iter().find_map(|field| map.get(*field));
            inner.and_then(Value::as_str)
        }
        _ => None,
    }
}

/// Fields that say whether something is there or right.
fn by_ready(status: &Value) -> Option<Health> {
    let parts = [Some(status), status.get("conditionStatus")];
    let parts = || parts.into_iter().flatten();
    let found = |value: bool| {
        let fields = ["ready", "healthy", "readyToUse", "applied", "valid", "registered"];
        parts().find_map(|part| {
            let is = |field: &&str| match part.get(*field) {
                Some(Value::Bool(is)) => *is == value,
                Some(Value::String(is)) => is == if value { "True" } else { "False" },
                _ => false,
            };
            fields.into_iter().find(is).map(|field| (part, field))
        })
    };
    let Some((part, field)) = found(false) else {
        return found(true).map(|_| Health::healthy(""));
    };
    let message = part.field("message");
    // One that was not tried yet has no message.
    let is_refused = ["applied", "valid", "registered"].contains(&field) && !message.is_empty();
    let fault = (is_refused || is_fault(message)).then_some(message);
    Some(match reported_error(part).or(fault) {
        Some(fault) => Health::degraded(cut_text(fault)),
        None => Health::progressing(format!("Waiting for status.{field}")),
    })
}

/// What a status calls an error.
pub fn reported_error(status: &Value) -> Option<&str> {
    let fields = ["error", "errors", "validationErrors", "errorSummary"];
    let texts = fields.iter().filter_map(|field| match status.get(*field)? {
        Value::Array(list) => list.first()?.as_str(),
        one => one.as_str(),
    });
    texts.into_iter().find(|text| !text.is_empty() && *text != "None")
}

/// A failure of a part, of an object that reports nothing else that is understood: of each
/// namespace in `statuses`, of each cluster in `aggregatedStatus`, of the job in `jobResult`.
/// What was before is none.
pub fn by_parts(status: &Value, ends: bool) -> Option<Health> {
    let fields = status.as_object()?.iter();
    let parts = fields.filter(|(field, _)| !has_part(field, PAST)).flat_map(|(_, value)| {
        let inner: Vec<&Value> = match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(map) => std::iter::once(value).chain(map.values()).collect(),
            _ => Vec::new(),
        };
        inner.into_iter().filter(|part| part.is_object())
    });
    let mut failures = parts.filter_map(|part| failure_of(part, ends));
    failures.next().map(|text| Health::degraded(cut_text(text)))
}

/// What a part says about its failure, if it has one.
fn failure_of(part: &Value, ends: bool) -> Option<&str> {
    let texts = ["phase", "state", "health", "status"].map(|field| part.field(field));
    let bad = texts.into_iter().find(|text| of_word(text, ends) == Some(Status::Degraded))?;
    let said = ["message", "reason"].map(|field| part.field(field));
    Some(said.into_iter().find(|text| !text.is_empty()).unwrap_or(bad))
}
