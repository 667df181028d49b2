//! Kubernetes Events about an Application: one per change of a field of its status (SE-540,
//! SE-541).

use std::collections::BTreeSet;

use serde_json::Value;

use wavegate_api::OperationPhase;
use wavegate_api::app_view::{ApplicationView, StatusView};
use wavegate_api::conditions::application::{DELETION_ERROR, ERRORS, SYNC_ERROR};
use wavegate_api::operation::RequestView;
use wavegate_api::time::from_rfc3339;

/// The reason of the Event at the end of an operation.
pub const COMPLETED: &str = "OperationCompleted";

/// What an Event is about, among those of the same reason: only Events about the same are
/// counted together (SE-541).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Subject {
    /// What its reason says.
    #[default]
    Reason,
    /// A sync that nobody has requested: its start is an Event of its own, however short it is.
    AutomatedSync,
    /// The sync status.
    SyncStatus,
    /// The health.
    Health,
}

/// One Event about an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationEvent {
    /// Whether the Event is a warning.
    pub warning: bool,
    /// The reason, in CamelCase.
    pub reason: &'static str,
    /// The action that was taken or failed.
    pub action: &'static str,
    /// What it is about.
    pub subject: Subject,
    /// The message.
    pub text: String,
    /// What identifies the change of the stored version.
    pub change: String,
    /// The states before and after it, of a field of the status.
    pub states: Option<[String; 2]>,
}

/// What a write changes in an Application: the stored version, and the one to be stored.
#[derive(Debug)]
pub struct StatusChange {
    before: ApplicationView,
    after: ApplicationView,
}

impl StatusChange {
    /// That between two versions.
    pub fn of(before: &Value, after: &Value) -> Self {
        let [before, after] = [before, after].map(ApplicationView::of);
        Self { before, after }
    }

    /// The Events of the differences. What identifies each of them depends on the stored version
    /// only, and on what is announced: a write that is repeated has the same ones, whatever time
    /// it is then, and whether this process or its successor repeats it.
    pub fn events(&self) -> Vec<ApplicationEvent> {
        let Self { before, after } = self;
        let mut events = of_operation(before, after);
        events.extend(of_comparison(&before.status, &after.status));
        events.extend(errors(&before.status, &after.status));
        events
    }

    /// Whether the write ends what clients wait for, so that who sees it finds these Events of it.
    pub fn announces(&self, events: &[ApplicationEvent]) -> bool {
        let ends = events.iter().any(|event| event.reason == COMPLETED);
        !events.is_empty() && (ends || is_waited_for(&self.before.status, &self.after.status))
    }
}

/// Whether a write is what clients wait for after the end of an operation: the first comparison
/// after it, or a state that is Synced and Healthy.
fn is_waited_for(before: &StatusView, after: &StatusView) -> bool {
    let time = |value: &Value| value.as_str().and_then(from_rfc3339);
    let finished = time(&after.operation_state.finished_at);
    let is_compared = |status: &StatusView| {
        let at = time(&status.reconciled_at);
        finished.is_some_and(|end| at.is_some_and(|at| at >= end))
    };
    let is_good =
        |status: &StatusView| status.sync.status == "Synced" && status.health.status == "Healthy";
    (is_compared(after) && !is_compared(before)) || (is_good(after) && !is_good(before))
}

/// The start and the end of an operation.
fn of_operation(before: &ApplicationView, after: &ApplicationView) -> Vec<ApplicationEvent> {
    let (old, new) = (&before.status.operation_state, &after.status.operation_state);
    // No two operations start at the same time: this one is named by its start, and until that
    // is stored, as the one that follows the last one.
    let operation = match old.started_at == new.started_at {
        true => format!("at {}", new.started_at),
        false => format!("after {}: {}", old.started_at, new.operation),
    };
    let starts = new.started_at.is_string() && new.started_at != old.started_at;
    let has_ended = OperationPhase::from_word(&new.phase).is_completed();
    let ends = has_ended && (old.phase != new.phase || old.finished_at != new.finished_at);
    let request = match starts || ends {
        true => RequestView::of(&new.operation),
        false => RequestView::default(),
    };
    let mut events = Vec::new();
    if starts {
        let by = &request.initiated_by;
        // What a rollout starts is automated, too, but was requested by an earlier write.
        let (subject, text) = match before.operation.is_null() && by.automated {
            true => {
                let revisions = request.revisions().join(", ");
                (Subject::AutomatedSync, format!("Initiated automated sync to '{revisions}'"))
            }
            false if by.username.is_empty() => {
                (Subject::Reason, "Sync operation started".to_owned())
            }
            false => (Subject::Reason, format!("Sync operation started by {}", by.username)),
        };
        let change = format!("start of the operation {operation}");
        let start = event(false, "OperationStarted", "Sync", text, change);
        events.push(ApplicationEvent { subject, ..start });
    }
    if ends {
        let partial = request.sync.as_ref().is_some_and(|sync| !sync.resources.is_empty());
        let what = if partial { "Partial sync operation" } else { "Sync operation" };
        // Without spaces, and without a result there is none, as in Argo CD (SE-541).
        let revisions = new.sync_result.revisions().join(",");
        let to = if revisions.is_empty() { String::new() } else { format!(" to {revisions}") };
        let failed = new.phase != "Succeeded";
        let outcome = match failed {
            true => format!("failed: {}", new.message),
            false => "succeeded".to_owned(),
        };
        let text = format!("{what}{to} {outcome}");
        let change = format!("end of the operation {operation}: {:?}", new.phase);
        events.push(event(failed, COMPLETED, "Sync", text, change));
    }
    events
}

/// Changes of the sync status and of the health.
fn of_comparison(before: &StatusView, after: &StatusView) -> Vec<ApplicationEvent> {
    let mut events = Vec::new();
    let mut updated = |subject, text, change, states: [&str; 2]| {
        let updated = event(false, "ResourceUpdated", "Compare", text, change);
        let states = Some(states.map(str::to_owned));
        events.push(ApplicationEvent { subject, states, ..updated });
    };
    let (was, is) = (&before.sync.status, &after.sync.status);
    if was != is {
        let text = format!("Updated sync status: {was} -> {is}");
        let change = format!("{text} since {}", since(before));
        updated(Subject::SyncStatus, text, change, [was, is]);
    }
    let (was, is) = (&before.health, &after.health);
    if was.status != is.status {
        let change = format!("Updated health status: {} -> {}", was.status, is.status);
        let text = match is.message.as_str() {
            "" => change.clone(),
            why => format!("{change} ({why})"),
        };
        let at = &was.last_transition_time;
        let since = if at.is_string() { at.to_string() } else { since(before) };
        let change = format!("{change} since {since}");
        updated(Subject::Health, text, change, [&was.status, &is.status]);
    }
    events
}

/// An Event about what its reason says.
fn event(
    warning: bool,
    reason: &'static str,
    action: &'static str,
    text: String,
    change: String,
) -> ApplicationEvent {
    let (subject, states) = (Subject::Reason, None);
    ApplicationEvent { warning, reason, action, subject, text, change, states }
}

/// What was last compared, and of which operation it knew.
fn since(status: &StatusView) -> String {
    let state = &status.operation_state;
    format!("{} {} {}", status.reconciled_at, state.started_at, state.finished_at)
}

/// Error conditions that are new or changed. A stalled Application is then reported once,
/// by an Event.
fn errors(before: &StatusView, after: &StatusView) -> Vec<ApplicationEvent> {
    fn messages<'a>(status: &'a StatusView, type_: &'a str) -> impl Iterator<Item = &'a str> {
        let conditions = status.conditions.iter().filter(move |found| found.type_ == type_);
        conditions.map(|condition| condition.message.as_str())
    }
    let mut events = Vec::new();
    for type_ in ERRORS {
        let (reason, action, start) = match type_ {
            // SE-518, SE-541.
            DELETION_ERROR => {
                ("StatusRefreshed", "Delete", "Unable to delete application resources: ")
            }
            SYNC_ERROR => (type_, "Sync", ""),
            _ => (type_, "Compare", ""),
        };
        let mut known: BTreeSet<String> = messages(before, type_).map(without_numbers).collect();
        for text in messages(after, type_) {
            if known.insert(without_numbers(text)) {
                let change = format!("{type_} {} since {}", without_numbers(text), since(before));
                events.push(event(true, reason, action, format!("{start}{text}"), change));
            }
        }
    }
    events
}

/// A message with numbers replaced by placeholders: ports, times and counts differ
/// between retries of the same error.
fn without_numbers(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    for character in message.chars() {
        match character {
            '0'..='9' if text.ends_with('#') => {}
            '0'..='9' => text.push('#'),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::StatusChange;

    fn texts(before: &Value, after: &Value) -> Vec<String> {
        StatusChange::of(before, after)
            .events()
            .iter()
            .map(|event| {
                assert!(event.warning, "{event:?}");
                format!("{}: {}", event.reason, event.text)
            })
            .collect()
    }

    /// Those of a rollout, which are automated as well, had none (SE-540).
    #[test]
    fn each_start_of_an_operation_is_reported_once_as_se_540() {
        let operation = |who: Value| json!({"initiatedBy": who, "sync": {"revision": "abc"}});
        let started = |operation: &Value, at: &str| {
            json!({"operation": operation, "status": {"operationState": {
                "phase": "Running", "startedAt": at, "operation": operation}}})
        };
        let rollout = json!({"username": "applicationset-controller", "automated": true});
        let before =
            json!({"status": {"operationState": {"phase": "Succeeded", "startedAt": "1"}}});
        let own = "Initiated automated sync to 'abc'";
        let cases = [
            (json!({"automated": true}), false, own),
            (json!({"automated": true}), true, "Sync operation started"),
            (rollout, true, "Sync operation started by applicationset-controller"),
            (json!({"username": "alice"}), true, "Sync operation started by alice"),
            (json!({"username": "alice"}), false, "Sync operation started by alice"),
            (Value::Null, true, "Sync operation started"),
        ];
        for (who, is_requested, want) in cases {
            let operation = operation(who);
            let mut stored = before.clone();
            if is_requested {
                stored["operation"] = operation.clone();
            }
            let after = started(&operation, "2");
            let of = |before: &Value, after: &Value| -> Vec<(&str, String)> {
                let all = StatusChange::of(before, after).events().into_iter();
                all.map(|event| (event.reason, event.text)).collect()
            };
            let want = vec![("OperationStarted", want.to_owned())];
            assert_eq!(of(&stored, &after), want, "{operation}");
            assert_eq!(of(&after, &after), [], "{operation}");
        }
    }

    /// Several revisions are one word, and an operation without a result has none (SE-541).
    #[test]
    fn the_end_of_an_operation_names_its_revisions_as_se_541() {
        let of = |state: Value| -> Vec<String> {
            let after = json!({"status": {"operationState": state}});
            StatusChange::of(&json!({}), &after)
                .events()
                .into_iter()
                .map(|event| event.text)
                .collect()
        };
        let cases = [
            (json!({"revision": "a"}), "Sync operation to a succeeded"),
            (json!({"revisions": ["a", "b"]}), "Sync operation to a,b succeeded"),
            (json!({"revision": ""}), "Sync operation succeeded"),
            (Value::Null, "Sync operation succeeded"),
        ];
        for (result, want) in cases {
            let state = json!({"phase": "Succeeded", "finishedAt": "2", "syncResult": result});
            assert_eq!(of(state), [want]);
        }
        let failed = json!({"phase": "Error", "finishedAt": "2", "message": "no such path"});
        assert_eq!(of(failed), ["Sync operation failed: no such path"]);
    }

    #[test]
    fn an_error_is_reported_when_it_appears_and_when_its_message_changes() {
        let app = |conditions: &[(&str, &str)]| {
            let conditions: Vec<Value> = conditions
                .iter()
                .map(|(type_, message)| json!({"type": type_, "message": message}))
                .collect();
            json!({"status": {"conditions": conditions}})
        };
        let none = json!({});
        let port = app(&[("ComparisonError", "dial 10.0.0.1:4711 after 30s")]);
        let other_port = app(&[("ComparisonError", "dial 10.0.0.1:502 after 31s")]);
        let path = app(&[("ComparisonError", "a: no such path")]);
        let both = app(&[("ComparisonError", "a: no such path"), ("SyncError", "refused")]);
        let warning = app(&[("OrphanedResourceWarning", "2 objects")]);
        let deletion = app(&[("DeletionError", "Pod web/a: refused")]);
        let two = app(&[("InvalidSpecError", "spec.a"), ("InvalidSpecError", "spec.b")]);
        let cases: [(&str, &Value, &Value, &[&str]); 10] = [
            ("appears", &none, &port, &["ComparisonError: dial 10.0.0.1:4711 after 30s"]),
            ("unchanged", &port, &port, &[]),
            ("numbers only", &port, &other_port, &[]),
            ("another message", &port, &path, &["ComparisonError: a: no such path"]),
            ("one more", &path, &both, &["SyncError: refused"]),
            ("one less", &both, &path, &[]),
            ("goes", &path, &none, &[]),
            ("a warning", &none, &warning, &[]),
            (
                "deletion",
                &none,
                &deletion,
                &["StatusRefreshed: Unable to delete application resources: Pod web/a: refused"],
            ),
            ("two", &none, &two, &["InvalidSpecError: spec.a", "InvalidSpecError: spec.b"]),
        ];
        for (name, before, after, expected) in cases {
            assert_eq!(texts(before, after), expected, "{name}");
        }
    }
}
