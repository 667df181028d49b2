//! Kubernetes Events about an Application: one per change of a field of its status (SE-540,
//! SE-541).

use std::collections::BTreeSet;

use serde_json::Value;

use super::context::Context;
use crate::act::events::EventRecord;
use crate::api::conditions::application::{DELETION_ERROR, ERRORS, SYNC_ERROR};
use crate::decide::app_state::operation::{self, given};
use crate::decide::app_state::refresh::digest;
use crate::watch::object::Object;

/// The reason of the Event at the end of an operation.
const COMPLETED: &str = "OperationCompleted";

/// Publishes the differences between two stored versions.
pub fn publish(ctx: &Context, before: &Value, after: &Value) {
    let records = records(before, after);
    log(&records, after);
    if records.is_empty() {
        return;
    }
    let about = Object::from(after.clone());
    for record in records {
        ctx.events.publish(&about, record);
    }
}

/// Publishes the differences between a stored version and the one to be stored, when the
/// latter announces something that clients wait for: who sees it finds the Events. Returns
/// whether it does; `announced` is the digest of the Events of a write that has not succeeded
/// yet, which are not repeated when the write is.
pub async fn announce(
    ctx: &Context,
    before: &Value,
    after: &Value,
    announced: &mut Option<u64>,
) -> bool {
    let records = records(before, after);
    let ends = records.iter().any(|record| record.reason == COMPLETED);
    if records.is_empty() || !(ends || is_waited_for(before, after)) {
        return false;
    }
    let texts: Vec<&str> = records.iter().map(|record| record.text.as_str()).collect();
    let started = &after["status"]["operationState"]["startedAt"];
    let digest = Some(digest(&(started, texts)));
    if std::mem::replace(announced, digest) != digest {
        log(&records, after);
        ctx.events.publish_now(&Object::from(before.clone()), records).await;
    }
    true
}

/// Whether a write is what clients wait for after the end of an operation: the first comparison
/// after it, or a state that is Synced and Healthy.
fn is_waited_for(before: &Value, after: &Value) -> bool {
    let finished = operation::finished_at(after);
    let is_compared = |object: &Value| {
        finished.is_some_and(|end| operation::reconciled_at(object).is_some_and(|at| at >= end))
    };
    let is_good = |object: &Value| {
        let status = &object["status"];
        status["sync"]["status"] == "Synced" && status["health"]["status"] == "Healthy"
    };
    (is_compared(after) && !is_compared(before)) || (is_good(after) && !is_good(before))
}

fn log(records: &[EventRecord], after: &Value) {
    for record in records {
        let application = format!(
            "{}/{}",
            after["metadata"]["namespace"].as_str().unwrap_or_default(),
            after["metadata"]["name"].as_str().unwrap_or_default()
        );
        let revision = given(&after["status"]["sync"]).join(", ");
        if record.warning {
            tracing::warn!(application, revision, reason = record.reason, "{}", record.text);
        } else {
            tracing::info!(application, revision, reason = record.reason, "{}", record.text);
        }
    }
}

fn records(before: &Value, after: &Value) -> Vec<EventRecord> {
    let mut records = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let record = |warning, reason, action, text| EventRecord { warning, reason, action, text };
    let state = |object: &Value| object["status"]["operationState"].clone();
    let (old, new) = (state(before), state(after));
    let starts = new["startedAt"].is_string() && new["startedAt"] != old["startedAt"];
    let automated = &new["operation"]["initiatedBy"]["automated"];
    // What a rollout starts is automated, too, but was requested by an earlier write.
    if starts && before["operation"].is_null() && *automated == true {
        let revision = given(&new["operation"]["sync"]).join(", ");
        let action = "Sync";
        let text = format!("Initiated automated sync to '{revision}'");
        records.push(record(false, "OperationStarted", action, text));
    } else if starts {
        let who = text(&new["operation"]["initiatedBy"]["username"]);
        let by = if who.is_empty() { String::new() } else { format!(" by {who}") };
        records.push(record(
            false,
            "OperationStarted",
            "Sync",
            format!("Sync operation started{by}"),
        ));
    }
    let ended =
        |state: &Value| matches!(state["phase"].as_str(), Some("Succeeded" | "Failed" | "Error"));
    if ended(&new) && (old["phase"] != new["phase"] || old["finishedAt"] != new["finishedAt"]) {
        let sync = &new["operation"]["sync"];
        let partial = sync["resources"].as_array().is_some_and(|list| !list.is_empty());
        let what = if partial { "Partial sync operation" } else { "Sync operation" };
        let revision = given(&new["syncResult"]).join(", ");
        let failed = new["phase"] != "Succeeded";
        let outcome = match failed {
            true => format!("failed: {}", text(&new["message"])),
            false => "succeeded".to_owned(),
        };
        let text = format!("{what} to {revision} {outcome}");
        records.push(record(failed, COMPLETED, "Sync", text));
    }
    let changed = |path: &str| {
        let of = |object: &Value| object.pointer(path).map(text).unwrap_or_default();
        let (was, is) = (of(before), of(after));
        (was != is).then_some((was, is))
    };
    let mut updated = |text| records.push(record(false, "ResourceUpdated", "Compare", text));
    if let Some((was, is)) = changed("/status/sync/status") {
        updated(format!("Updated sync status: {was} -> {is}"));
    }
    if let Some((was, is)) = changed("/status/health/status") {
        let why = text(&after["status"]["health"]["message"]);
        let why = if why.is_empty() { why } else { format!(" ({why})") };
        updated(format!("Updated health status: {was} -> {is}{why}"));
    }
    records.extend(errors(before, after));
    records
}

/// Error conditions that are new or changed. A stalled Application is then reported once,
/// by an Event.
fn errors(before: &Value, after: &Value) -> Vec<EventRecord> {
    let said = |object: &Value, type_: &str| -> Vec<String> {
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let conditions = conditions.filter(|condition| condition["type"] == type_);
        conditions
            .filter_map(|condition| condition["message"].as_str().map(str::to_owned))
            .collect()
    };
    let mut records = Vec::new();
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
                let text = format!("{start}{text}");
                records.push(EventRecord { warning: true, reason, action, text });
            }
        }
    }
    records
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

    use super::records;

    fn texts(before: &Value, after: &Value) -> Vec<String> {
        records(before, after)
            .iter()
            .map(|record| {
                assert!(record.warning, "{record:?}");
                format!("{}: {}", record.reason, record.text)
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
                let all = records(before, after).into_iter();
                all.map(|record| (record.reason, record.text)).collect()
            };
            let want = vec![("OperationStarted", want.to_owned())];
            assert_eq!(of(&stored, &after), want, "{operation}");
            assert_eq!(of(&after, &after), [], "{operation}");
        }
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
