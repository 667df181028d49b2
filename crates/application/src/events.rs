//! Kubernetes Events about an Application: one per change of a field of its status (SE-540,
//! SE-541).

use std::collections::BTreeSet;

use serde_json::Value;

use wavegate_api::conditions::application::{DELETION_ERROR, ERRORS, SYNC_ERROR};
use wavegate_api::sources::revisions as given;
use wavegate_api::time::from_rfc3339;

/// The reason of the Event at the end of an operation.
const COMPLETED: &str = "OperationCompleted";

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
pub struct Event {
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
}

/// Whether a write ends what clients wait for: who sees it finds its Events.
pub fn are_first(before: &Value, after: &Value, events: &[Event]) -> bool {
    let ends = events.iter().any(|event| event.reason == COMPLETED);
    !events.is_empty() && (ends || is_waited_for(before, after))
}

/// Whether a write is what clients wait for after the end of an operation: the first comparison
/// after it, or a state that is Synced and Healthy.
fn is_waited_for(before: &Value, after: &Value) -> bool {
    let time = |value: &Value| value.as_str().and_then(from_rfc3339);
    let finished = time(&after["status"]["operationState"]["finishedAt"]);
    let is_compared = |object: &Value| {
        let at = time(&object["status"]["reconciledAt"]);
        finished.is_some_and(|end| at.is_some_and(|at| at >= end))
    };
    let is_good = |object: &Value| {
        let status = &object["status"];
        status["sync"]["status"] == "Synced" && status["health"]["status"] == "Healthy"
    };
    (is_compared(after) && !is_compared(before)) || (is_good(after) && !is_good(before))
}

/// The Events of the differences. What identifies each of them depends on the stored version
/// only, and on what is announced: a write that is repeated has the same ones, whatever time it
/// is then, and whether this process or its successor repeats it.
pub fn events(before: &Value, after: &Value) -> Vec<Event> {
    let mut events = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let state = |object: &Value| object["status"]["operationState"].clone();
    let (old, new) = (state(before), state(after));
    // No two operations start at the same time: this one is named by its start, and until that
    // is stored, as the one that follows the last one.
    let operation = match old["startedAt"] == new["startedAt"] {
        true => format!("at {}", new["startedAt"]),
        false => format!("after {}: {}", old["startedAt"], new["operation"]),
    };
    let since = since(before);
    let starts = new["startedAt"].is_string() && new["startedAt"] != old["startedAt"];
    let automated = &new["operation"]["initiatedBy"]["automated"];
    // What a rollout starts is automated, too, but was requested by an earlier write.
    if starts && before["operation"].is_null() && *automated == true {
        let revision = given(&new["operation"]["sync"]).join(", ");
        let action = "Sync";
        let text = format!("Initiated automated sync to '{revision}'");
        let change = format!("start of the operation {operation}");
        let start = event(false, "OperationStarted", action, text, change);
        events.push(Event { subject: Subject::AutomatedSync, ..start });
    } else if starts {
        let who = text(&new["operation"]["initiatedBy"]["username"]);
        let by = if who.is_empty() { String::new() } else { format!(" by {who}") };
        events.push(event(
            false,
            "OperationStarted",
            "Sync",
            format!("Sync operation started{by}"),
            format!("start of the operation {operation}"),
        ));
    }
    let ended =
        |state: &Value| matches!(state["phase"].as_str(), Some("Succeeded" | "Failed" | "Error"));
    if ended(&new) && (old["phase"] != new["phase"] || old["finishedAt"] != new["finishedAt"]) {
        let sync = &new["operation"]["sync"];
        let partial = sync["resources"].as_array().is_some_and(|list| !list.is_empty());
        let what = if partial { "Partial sync operation" } else { "Sync operation" };
        // Without spaces, and without a result there is none, as in Argo CD (SE-541).
        let revisions = given(&new["syncResult"]).join(",");
        let to = if revisions.is_empty() { String::new() } else { format!(" to {revisions}") };
        let failed = new["phase"] != "Succeeded";
        let outcome = match failed {
            true => format!("failed: {}", text(&new["message"])),
            false => "succeeded".to_owned(),
        };
        let text = format!("{what}{to} {outcome}");
        let change = format!("end of the operation {operation}: {}", new["phase"]);
        events.push(event(failed, COMPLETED, "Sync", text, change));
    }
    let changed = |path: &str| {
        let of = |object: &Value| object.pointer(path).map(text).unwrap_or_default();
        let (was, is) = (of(before), of(after));
        (was != is).then_some((was, is))
    };
    let mut updated = |subject, text, change| {
        let updated = event(false, "ResourceUpdated", "Compare", text, change);
        events.push(Event { subject, ..updated });
    };
    if let Some((was, is)) = changed("/status/sync/status") {
        let text = format!("Updated sync status: {was} -> {is}");
        let change = format!("{text} since {since}");
        updated(Subject::SyncStatus, text, change);
    }
    if let Some((was, is)) = changed("/status/health/status") {
        let why = text(&after["status"]["health"]["message"]);
        let why = if why.is_empty() { why } else { format!(" ({why})") };
        let at = &before["status"]["health"]["lastTransitionTime"];
        let since = if at.is_string() { at.to_string() } else { since.clone() };
        let change = format!("Updated health status: {was} -> {is} since {since}");
        let text = format!("Updated health status: {was} -> {is}{why}");
        updated(Subject::Health, text, change);
    }
    events.extend(errors(before, after));
    events
}

/// An Event about what its reason says.
fn event(
    warning: bool,
    reason: &'static str,
    action: &'static str,
    text: String,
    change: String,
) -> Event {
    Event { warning, reason, action, subject: Subject::Reason, text, change }
}

/// What was last compared, and of which operation it knew.
fn since(object: &Value) -> String {
    let status = &object["status"];
    let state = &status["operationState"];
    format!("{} {} {}", status["reconciledAt"], state["startedAt"], state["finishedAt"])
}

/// Error conditions that are new or changed. A stalled Application is then reported once,
/// by an Event.
fn errors(before: &Value, after: &Value) -> Vec<Event> {
    let said = |object: &Value, type_: &str| -> Vec<String> {
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let conditions = conditions.filter(|condition| condition["type"] == type_);
        conditions
            .filter_map(|condition| condition["message"].as_str().map(str::to_owned))
            .collect()
    };
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
        let mut known: BTreeSet<String> =
            said(before, type_).iter().map(|text| without_numbers(text)).collect();
        for text in said(after, type_) {
            if known.insert(without_numbers(&text)) {
                let change = format!("{type_} {} since {}", without_numbers(&text), since(before));
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

    use super::events;

    fn texts(before: &Value, after: &Value) -> Vec<String> {
        events(before, after)
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
                let all = events(before, after).into_iter();
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
            events(&json!({}), &after).into_iter().map(|event| event.text).collect()
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
