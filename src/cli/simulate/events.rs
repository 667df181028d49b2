//! What happens in a simulation: as options, and as a file of events in the same words.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::path;
use super::when::{Pattern, Slow};
use crate::cli::console::error::Error;
use crate::cli::files::input;
use crate::cli::watch::args::timeout;
use wavegate_api::unknown::nearest_name;
use wavegate_api::yaml;
use wavegate_engine::names::some_of;
use wavegate_simulation::{FleetAction, FleetChange, ScheduledAction, WorkloadOutcome};

/// The most events of a file.
const MOST: usize = 10_000;
/// The most names in a message.
const NAMES: usize = 5;
/// The words of a file of events.
const WORDS: [&str; 14] = [
    "fail", "hang", "slow", "degrade", "push", "restart", "apiDown", "pause", "resume", "approve",
    "rollback", "abort", "retry", "skip",
];
/// The field with the time.
const AT: &str = "at";
/// The value of a word that needs none.
const YES: &str = "true";

/// Something that happens.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Event {
    /// What is wrong when it is, and where: the option, or the entry and its field.
    error: (&'static str, String),
    /// When; `None` for what holds from the start on.
    at: Option<Duration>,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    /// What becomes of deployments.
    Outcome(Pattern, WorkloadOutcome),
    Slow(Slow),
    Degrade(Pattern),
    Skip(Pattern),
    /// A commit; for all without a pattern.
    Push(Option<Pattern>),
    /// The gate; all gates when empty.
    Approve(String),
    Plain(FleetAction),
}

/// Reads the value of a word.
fn what(word: &str, value: &str) -> Result<What, String> {
    let plain = |action: FleetAction| match value {
        YES => Ok(What::Plain(action)),
        _ => Err(format!("it needs no value: write {word}: true")),
    };
    match word {
        "fail" => Ok(What::Outcome(value.parse()?, WorkloadOutcome::Fails)),
        "hang" => Ok(What::Outcome(value.parse()?, WorkloadOutcome::Hangs)),
        "slow" => Ok(What::Slow(value.parse()?)),
        "degrade" => Ok(What::Degrade(value.parse()?)),
        "skip" => Ok(What::Skip(value.parse()?)),
        "push" if value == YES => Ok(What::Push(None)),
        "push" => Ok(What::Push(Some(value.parse()?))),
        "approve" if value == YES => Ok(What::Approve(String::new())),
        "approve" => Ok(What::Approve(value.to_owned())),
        "apiDown" => Ok(What::Plain(FleetAction::ApiDown(timeout(value)?))),
        "restart" => plain(FleetAction::Restart),
        "pause" => plain(FleetAction::Pause),
        "resume" => plain(FleetAction::Resume),
        "rollback" => plain(FleetAction::Rollback),
        "abort" => plain(FleetAction::Abort),
        "retry" => plain(FleetAction::Retry(BTreeSet::new())),
        _ => Err(format!("it is none of {}", WORDS.join(", "))),
    }
}

/// What the text of an option says: a value of the word, and a time.
type Given = Result<(String, Option<Duration>), String>;

/// An option of a name, whose text becomes a value of the word, and a time.
pub(super) fn option(
    name: &'static str,
    word: &'static str,
    read: fn(&str) -> Given,
) -> impl Fn(&str) -> Result<Event, String> + Clone {
    move |text| {
        let (value, at) = read(text)?;
        let error = ("invalid option", format!("{name} {text}"));
        Ok(Event { error, at, what: what(word, &value)? })
    }
}

/// `--fail APP`.
pub(super) fn always(text: &str) -> Given {
    Ok((text.to_owned(), None))
}

/// `--skip APP@TIME`.
pub(super) fn value_at(text: &str) -> Given {
    let (value, time) = text.rsplit_once('@').ok_or("write it as NAME@10m")?;
    Ok((value.to_owned(), Some(timeout(time)?)))
}

/// `--pause-at TIME`.
pub(super) fn at(text: &str) -> Given {
    Ok((YES.to_owned(), Some(timeout(text)?)))
}

/// `--push TIME` and `--push APP@TIME`.
pub(super) fn at_or_value_at(text: &str) -> Given {
    if text.contains('@') { value_at(text) } else { at(text) }
}

/// `--api-down TIME:FOR`.
pub(super) fn at_for(text: &str) -> Given {
    let (at, time) = text.split_once(':').ok_or("write it as 5m:30s")?;
    Ok((time.to_owned(), Some(timeout(at)?)))
}

/// Reads a file of events.
pub(super) fn file(file: &Path) -> Result<Vec<Event>, Error> {
    let (place, text) = input::text(file)?;
    let wrong = |why: &str| Error::input("cannot read", &place, why);
    let documents = yaml::parse_documents(&text).map_err(|error| wrong(&error.to_string()))?;
    let list = match documents.as_slice() {
        [] => {
            return Err(wrong(
                "it is empty; write a list of events, such as - {at: 10m, push: true}",
            ));
        }
        [document] => document.value.as_array(),
        _ => return Err(wrong("it has several documents; write one list of events")),
    };
    let list = list.ok_or_else(|| {
        wrong("it is not a list of events; write each of them such as - {at: 10m, push: true}")
    })?;
    if list.len() > MOST {
        return Err(wrong(&format!("it has {} events; at most {MOST}", list.len())));
    }
    if let Some(repeated) = documents.iter().find_map(|document| document.repeated.first()) {
        return Err(wrong(&repeated.to_string()));
    }
    let entries = list.iter().enumerate();
    entries.map(|(index, value)| entry(&format!("{place}: entry {}", index + 1), value)).collect()
}

fn entry(place: &str, entry: &Value) -> Result<Event, Error> {
    const WRONG: &str = "invalid event";
    let wrong = |why: String| Error::input(WRONG, place, why);
    let of_field = |field: &str, why: String| Error::input(WRONG, format!("{place}: {field}"), why);
    let example = "write it as a mapping, such as {at: 10m, push: true}";
    let fields = entry.as_object().ok_or_else(|| wrong(example.to_owned()))?;
    let known = || [AT].into_iter().chain(WORDS);
    for field in fields.keys() {
        if !known().any(|known| known == field) {
            let hint = match nearest_name(field, known()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("the fields are {}", known().collect::<Vec<_>>().join(", ")),
            };
            return Err(of_field(field, format!("unknown field; {hint}")));
        }
    }
    let at = match fields.get(AT) {
        None => None,
        Some(at) => {
            Some(text(at).and_then(|text| timeout(&text)).map_err(|why| of_field(AT, why))?)
        }
    };
    let words: Vec<(&String, &Value)> = fields.iter().filter(|(field, _)| *field != AT).collect();
    let (word, value) = match words.as_slice() {
        [one] => *one,
        [] => return Err(wrong(format!("it does not say what happens; {example}"))),
        several => {
            let names = several.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>();
            let why = format!("it says {}; write an entry for each", names.join(" and "));
            return Err(wrong(why));
        }
    };
    let what = text(value).and_then(|value| what(word, &value));
    let what = what.map_err(|why| of_field(word, why))?;
    if at.is_none() && !matches!(what, What::Outcome(..) | What::Slow(_)) {
        return Err(wrong(format!("at is missing: when {word} happens, such as at: 10m")));
    }
    Ok(Event { error: (WRONG, format!("{place}: {word}")), at, what })
}

/// A value of a file as an option would have it.
fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(true) => Ok(YES.to_owned()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(false) => {
            Err("what does not happen is not written: remove the entry".to_owned())
        }
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err("write one text, such as web-* or 30s".to_owned())
        }
    }
}

/// The Applications that there are, with their steps counted from 0, the gates, and the time at
/// which the simulation is given up.
pub(super) struct EventContext<'a> {
    pub limit: Duration,
    pub applications: &'a BTreeMap<String, Option<usize>>,
    pub gates: &'a BTreeSet<String>,
}

/// What happens after the start.
///
/// # Errors
///
/// An event that is for no Application, for no gate, or not over before the end, whether it is for
/// the start or not: a failure that does not happen proves nothing.
pub(super) fn actions(
    events: &[Event],
    known: &EventContext<'_>,
) -> Result<Vec<ScheduledAction>, Error> {
    let mut all = Vec::new();
    for event in events {
        let action = event.action(known)?;
        let Some(at) = event.at else { continue };
        if at.saturating_add(action.lasts()) >= known.limit {
            let limit = i64::try_from(known.limit.as_secs()).unwrap_or(i64::MAX);
            let what = if action.lasts().is_zero() { "does not happen" } else { "is not over" };
            let why = format!("it {what} before --limit, which is {}", path::text(limit));
            return Err(event.wrong(why));
        }
        all.push(ScheduledAction { at, action });
    }
    Ok(all)
}

impl Event {
    /// What it makes of deployments from the start on; `None` when it happens later.
    pub fn at_start(&self) -> Option<Start<'_>> {
        match &self.what {
            What::Outcome(pattern, outcome) if self.at.is_none() => {
                Some(Start::Outcome(pattern, *outcome))
            }
            What::Slow(slow) if self.at.is_none() => Some(Start::Slow(slow)),
            _ => None,
        }
    }

    fn action(&self, known: &EventContext<'_>) -> Result<FleetAction, Error> {
        let names = |pattern: &Pattern| self.named(pattern, known);
        let action = match &self.what {
            What::Outcome(pattern, outcome) => {
                FleetAction::Behave(names(pattern)?, FleetChange::Outcome(*outcome))
            }
            What::Slow(slow) => {
                FleetAction::Behave(names(&slow.pattern)?, FleetChange::Health(slow.time))
            }
            What::Degrade(pattern) => FleetAction::Degrade(names(pattern)?),
            What::Skip(pattern) => FleetAction::Skip(names(pattern)?),
            What::Push(pattern) => FleetAction::Push(pattern.as_ref().map(names).transpose()?),
            What::Approve(gate) => {
                self.check_gate(gate, known)?;
                FleetAction::Approve(gate.clone())
            }
            What::Plain(action) => action.clone(),
        };
        Ok(action)
    }

    /// The names of the Applications that a pattern is for.
    fn named(
        &self,
        pattern: &Pattern,
        known: &EventContext<'_>,
    ) -> Result<BTreeSet<String>, Error> {
        let all = || known.applications.iter();
        let names: BTreeSet<String> = all()
            .filter(|(name, step)| pattern.is_for(name, **step))
            .map(|(name, _)| name.clone())
            .collect();
        if !names.is_empty() {
            return Ok(names);
        }
        let other_steps: BTreeSet<usize> = all()
            .filter(|(name, _)| pattern.is_named(name))
            .filter_map(|(_, step)| Some((*step)? + 1))
            .collect();
        let near = nearest_name(pattern.name(), all().map(|(name, _)| name.as_str()));
        let hint = match near {
            _ if !other_steps.is_empty() => {
                format!("those of this name are in step {}", some_of(other_steps, NAMES))
            }
            Some(near) => format!("did you mean {near}?"),
            None => format!("they are {}", some_of(known.applications.keys(), NAMES)),
        };
        Err(self.wrong(format!("it is for none of the Applications; {hint}")))
    }

    fn check_gate(&self, gate: &str, known: &EventContext<'_>) -> Result<(), Error> {
        let hint = match nearest_name(gate, known.gates.iter().map(String::as_str)) {
            _ if known.gates.contains(gate) => return Ok(()),
            _ if known.gates.is_empty() => "there is none".to_owned(),
            _ if gate.is_empty() => return Ok(()),
            Some(near) => format!("did you mean {near}?"),
            None => format!("they are {}", some_of(known.gates, NAMES)),
        };
        Err(self.wrong(format!("it is none of the gates of the policies; {hint}")))
    }

    fn wrong(&self, why: String) -> Error {
        let (what, place) = &self.error;
        Error::input(*what, place, why)
    }
}

/// What holds from the start on.
pub(super) enum Start<'a> {
    Outcome(&'a Pattern, WorkloadOutcome),
    Slow(&'a Slow),
}
