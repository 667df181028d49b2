//! Notifications of the transitions of runs (ST-084): what is said about each of them, and to
//! whom.
//!
//! The transitions are those of a run's timeline, as stored. They are counted, and the number
//! and the UID of the run identify each: made again after a restart, the message of a transition
//! has the same id.

pub mod address;
mod commands;
mod run;
pub mod sink;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

pub use self::run::Run;

use self::commands::{ENTRIES, commands};
use wavegate_api::policy::Format;
use wavegate_api::run::{RevisionCount, RolloutRunStatus, RunGate, RunPhase, TimelineEntry};
use wavegate_api::time::to_rfc3339;

/// The most bytes of a message.
pub const MAX_BYTES: usize = 64 << 10;
/// The most characters of a text in a message.
const TEXT: usize = 300;
/// The most characters of a name in a message.
const NAME: usize = 100;
/// The most people that are named as having approved.
const PEOPLE: usize = 5;

/// A transition of a run.
#[derive(Clone, Copy, Debug)]
pub struct Transition<'a> {
    run: Run<'a>,
    /// Its number in the run, counted from 1.
    pub number: i64,
    entry: &'a TimelineEntry,
    /// Whether nothing has happened since: what a person may do now follows from it.
    is_last: bool,
}

/// How many transitions a run has had. Those of runs of versions that did not count them are the
/// ones in the timeline.
pub fn transition_count(status: &RolloutRunStatus) -> i64 {
    status.transitions.max(i64::try_from(status.timeline.len()).unwrap_or(i64::MAX))
}

/// The transitions of a run after the first `after` ones, as far as its timeline has them.
pub fn transitions_since<'a>(run: Run<'a>, after: i64) -> impl Iterator<Item = Transition<'a>> {
    let timeline = &run.status.timeline;
    let first =
        transition_count(run.status) - i64::try_from(timeline.len()).unwrap_or(i64::MAX) + 1;
    let numbered = (first..).zip(timeline);
    let last = timeline.last().map(|last| &last.at);
    numbered.filter(move |(number, _)| *number > after).map(move |(number, entry)| Transition {
        run,
        number,
        entry,
        is_last: last == Some(&entry.at),
    })
}

/// An object with another field, if that has a value.
fn with_field(mut object: Value, field: &str, value: Option<Value>) -> Value {
    if let (Value::Object(fields), Some(value)) = (&mut object, value) {
        fields.insert(field.to_owned(), value);
    }
    object
}

impl Transition<'_> {
    /// What identifies it, for ever.
    pub fn id(&self) -> String {
        format!("{}.{}", self.run.uid, self.number)
    }

    /// The message in a format.
    pub fn message(&self, format: Format) -> Value {
        match format {
            Format::CloudEvents => self.cloud_event(),
            Format::Slack => json!({ "text": self.slack() }),
        }
    }

    fn cloud_event(&self) -> Value {
        let event = self.event_of(self.data(false));
        if event.to_string().len() <= MAX_BYTES {
            return event;
        }
        self.event_of(self.data(true))
    }

    fn event_of(&self, data: Value) -> Value {
        let Run { key, set, .. } = self.run;
        let time = self.entry.at.as_ref().map(|at| to_rfc3339(at.0).into());
        let event = json!({
            "specversion": "1.0",
            "id": self.id(),
            "source": format!(
                "/apis/{}/namespaces/{}/applicationsets/{set}",
                wavegate_api::API_VERSION,
                key.namespace
            ),
            "type": format!("dev.wavegate.run.{}", self.entry.what),
            "subject": key.name,
            "datacontenttype": "application/json",
            "data": data,
        });
        with_field(event, "time", time)
    }

    /// What it is about. `is_short`: without the lists.
    fn data(&self, is_short: bool) -> Value {
        let Run { key, set, status, .. } = self.run;
        let entry = self.entry;
        let entries = if is_short { 0 } else { ENTRIES };
        let list = |revisions: Vec<Value>| if is_short { Vec::new() } else { revisions };
        let data = json!({
            "namespace": key.namespace,
            "applicationSet": set,
            "run": key.name,
            "transition": entry.what,
            "text": self.sentence(),
            "message": cut(&entry.message, TEXT),
            "status": {
                "phase": status.phase,
                "message": cut(&status.message, TEXT),
                "step": status.step,
                "steps": status.steps.len(),
                "done": status.done,
                "failed": status.failed,
                "total": status.total,
                "from": list(revisions(&status.from)),
                "to": list(revisions(&status.to)),
                "gates": status.gates.iter().take(entries).map(gate).collect::<Vec<_>>(),
            },
            "commands": self.commands(),
        });
        let by = Some(cut(&entry.by, NAME)).filter(|by| !by.is_empty());
        let subject = cut(&entry.subject, TEXT);
        let (field, subject) = match About::of(&entry.what) {
            About::Step => {
                ("step", Some(subject.parse::<i64>().map_or(json!(subject), Value::from)))
            }
            About::Gate => ("gate", Some(subject.into())),
            About::Application => ("application", Some(subject.into())),
            About::Run => {
                ("subject", Some(subject).filter(|text| !text.is_empty()).map(Value::from))
            }
        };
        with_field(with_field(data, "by", by.map(Value::from)), field, subject)
    }

    /// What a person may run now. An old transition, sent once its sink is there again, is not
    /// about what is waited for by then.
    fn commands(&self) -> Vec<String> {
        if self.is_last { commands(&self.run) } else { Vec::new() }
    }

    /// The transition in words.
    fn sentence(&self) -> String {
        let TimelineEntry { what, subject, by, message, .. } = self.entry;
        let (subject, by) = (cut(subject, TEXT), cut(by, NAME));
        let said = match what.as_str() {
            "StepOpened" => format!("step {subject} has opened"),
            "StepCompleted" => format!("step {subject} is complete"),
            "GateApproved" => format!("{by} has approved gate {subject}"),
            "ApprovalVoid" => format!("the approval of gate {subject} by {by} does not count"),
            "GateOpened" => format!("gate {subject} has opened"),
            "Failed" => format!("{subject} has failed"),
            "Skipped" if by.is_empty() => format!("{subject} is skipped"),
            "Skipped" => format!("{by} skips {subject}"),
            "Unskipped" if by.is_empty() => format!("{subject} is not skipped any more"),
            "Unskipped" => format!("{by} takes {subject} in again"),
            "Resumed" if by.is_empty() => "it is resumed".to_owned(),
            "Resumed" => format!("{by} has resumed it"),
            "Retried" if subject.is_empty() => format!("{by} retries what has failed"),
            "Retried" => format!("{by} retries {subject}"),
            "QuarantineEnded" | "BudgetExceeded" => return cut(message, TEXT),
            "Recovered" => format!("{subject} has recovered"),
            "SoakRestarted" => format!("the soak of gate {subject} begins again"),
            "WithoutEffect" => "something in its spec has no effect".to_owned(),
            phase => match RunPhase::from_word(phase) {
                RunPhase::Progressing if phase == "Progressing" => "it goes on".to_owned(),
                RunPhase::Progressing => phase.to_owned(),
                // Their messages say it.
                RunPhase::Paused | RunPhase::Superseded | RunPhase::Aborted
                    if !message.is_empty() =>
                {
                    return cut(message, TEXT);
                }
                RunPhase::Paused => "it is paused".to_owned(),
                RunPhase::AwaitingApproval => "it waits for an approval".to_owned(),
                RunPhase::Soaking => "it waits for the soak of a gate".to_owned(),
                RunPhase::Held => "it is held".to_owned(),
                RunPhase::Complete => "it is complete".to_owned(),
                RunPhase::CompleteWithFailures => "it is complete, with failures".to_owned(),
                RunPhase::Superseded => "it is superseded".to_owned(),
                RunPhase::Aborted => "it was aborted".to_owned(),
                RunPhase::RollingBack => "it is being rolled back".to_owned(),
                RunPhase::RolledBack => "it was rolled back".to_owned(),
            },
        };
        match message.as_str() {
            "" => said,
            message => format!("{said}: {}", cut(message, TEXT)),
        }
    }

    /// For people, in Slack's markup. What others wrote does not become markup.
    fn slack(&self) -> String {
        let Run { key, set, status, .. } = self.run;
        let counts = match status.failed {
            0 => format!("{} of {} done", status.done, status.total),
            failed => format!("{} of {} done, {failed} failed", status.done, status.total),
        };
        let to: Vec<String> = status.to.iter().take(3).map(|to| short(&to.revision)).collect();
        let to = if to.is_empty() { String::new() } else { format!(" to {}", to.join(", ")) };
        let mut text = format!(
            "*{}*{}: {} ({counts})",
            escaped(&key.name),
            escaped(&format!(" of {}/{set}{to}", key.namespace)),
            escaped(&self.sentence())
        );
        if About::of(&self.entry.what) == About::Run {
            for command in self.commands() {
                text.push_str(&format!("\n`{}`", escaped(&command)));
            }
        }
        text
    }
}

/// What a transition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Step,
    Gate,
    Application,
    /// The whole run: its phase, or what a person said.
    Run,
}

impl About {
    fn of(what: &str) -> Self {
        match what {
            "StepOpened" | "StepCompleted" => Self::Step,
            "GateApproved" | "ApprovalVoid" | "GateOpened" | "SoakRestarted" => Self::Gate,
            "Failed" | "Skipped" | "Unskipped" | "Recovered" => Self::Application,
            _ => Self::Run,
        }
    }
}

fn revisions(all: &[RevisionCount]) -> Vec<Value> {
    let revision = |one: &RevisionCount| json!({ "revision": cut(&one.revision, TEXT), "applications": one.applications });
    all.iter().take(ENTRIES).map(revision).collect()
}

fn gate(gate: &RunGate) -> Value {
    let by = gate.approved_by.iter().take(PEOPLE).map(|by| cut(by, NAME));
    json!({
        "name": cut(&gate.name, NAME),
        "policy": cut(&gate.policy, TEXT),
        "applications": gate.applications,
        "approvals": gate.approvals,
        "approvedBy": by.collect::<Vec<_>>(),
        "open": gate.is_open(),
    })
}

/// A commit as people write it, and another revision as it is.
fn short(revision: &str) -> String {
    let is_commit = revision.len() == 40 && revision.chars().all(|c| c.is_ascii_hexdigit());
    cut(revision, if is_commit { 7 } else { NAME })
}

fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// The three characters that begin markup, mentions and links in Slack.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
