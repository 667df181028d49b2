//! Kubernetes Events about an Application: what a write has changed, told once
//! (SE-540, SE-541).

use serde_json::Value;

use super::context::Context;
use crate::act::events::Note;

/// Tells what differs between two stored versions.
pub async fn tell(ctx: &Context, before: &Value, after: &Value) {
    let notes = notes(before, after);
    for note in &notes {
        let application = format!(
            "{}/{}",
            after["metadata"]["namespace"].as_str().unwrap_or_default(),
            after["metadata"]["name"].as_str().unwrap_or_default()
        );
        let revision = after["status"]["sync"]["revision"].as_str().unwrap_or_default();
        tracing::info!(application, revision, reason = note.reason, "{}", note.text);
    }
    let Some(events) = ctx.events.clone().filter(|_| !notes.is_empty()) else { return };
    let Ok(about) = serde_json::from_value(after.clone()) else { return };
    // Nobody waits for an event.
    tokio::spawn(async move {
        for note in notes {
            events.tell(&about, note).await;
        }
    });
}

fn notes(before: &Value, after: &Value) -> Vec<Note> {
    let mut notes = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let note = |warning, reason, action, text| Note { warning, reason, action, text };
    let state = |object: &Value| object["status"]["operationState"].clone();
    let (old, new) = (state(before), state(after));
    let automated = &after["operation"]["initiatedBy"]["automated"];
    if before["operation"].is_null() && *automated == true {
        let sync = &after["operation"]["sync"];
        let revision = text(&sync["revision"]);
        let action = "Sync";
        let text = format!("Initiated automated sync to '{revision}'");
        notes.push(note(false, "OperationStarted", action, text));
    } else if new["startedAt"] != old["startedAt"] && new["phase"] == "Running" {
        let who = text(&new["operation"]["initiatedBy"]["username"]);
        let by = if who.is_empty() { String::new() } else { format!(" by {who}") };
        notes.push(note(false, "OperationStarted", "Sync", format!("Sync operation started{by}")));
    }
    let ended =
        |state: &Value| matches!(state["phase"].as_str(), Some("Succeeded" | "Failed" | "Error"));
    if ended(&new) && (old["phase"] != new["phase"] || old["finishedAt"] != new["finishedAt"]) {
        let sync = &new["operation"]["sync"];
        let partial = sync["resources"].as_array().is_some_and(|list| !list.is_empty());
        let what = if partial { "Partial sync operation" } else { "Sync operation" };
        let revision = text(&new["syncResult"]["revision"]);
        let failed = new["phase"] != "Succeeded";
        let outcome = match failed {
            true => format!("failed: {}", text(&new["message"])),
            false => "succeeded".to_owned(),
        };
        let text = format!("{what} to {revision} {outcome}");
        notes.push(note(failed, "OperationCompleted", "Sync", text));
    }
    let changed = |path: &str| {
        let of = |object: &Value| object.pointer(path).map(text).unwrap_or_default();
        let (was, is) = (of(before), of(after));
        (was != is).then_some((was, is))
    };
    if let Some((was, is)) = changed("/status/sync/status") {
        let text = format!("Updated sync status: {was} -> {is}");
        notes.push(note(false, "ResourceUpdated", "Compare", text));
    }
    if let Some((was, is)) = changed("/status/health/status") {
        let why = text(&after["status"]["health"]["message"]);
        let why = if why.is_empty() { why } else { format!(" ({why})") };
        let warning = is == "Degraded";
        let text = format!("Updated health status: {was} -> {is}{why}");
        notes.push(note(warning, "ResourceUpdated", "Compare", text));
    }
    let deletion = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().find(|c| c["type"] == "DeletionError").map(|c| text(&c["message"]))
    };
    if let Some(error) = deletion(after).filter(|error| deletion(before).as_ref() != Some(error)) {
        let text = format!("Unable to delete application resources: {error}");
        notes.push(note(true, "StatusRefreshed", "Delete", text));
    }
    notes
}
