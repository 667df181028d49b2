//! Entries as `status.applicationStatus` stores them, and back.
//!
//! Steps count from 0 in code and from 1 here; this is the one place that
//! converts (AS-008).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::phase::{Entry, Phase};

/// The most characters of a message that are stored.
const MESSAGE_LIMIT: usize = 256;

/// A step's number for users: `"1"` for the first, `"-1"` for none.
pub fn step_text(step: Option<usize>) -> String {
    step.map_or_else(|| "-1".to_owned(), |step| (step + 1).to_string())
}

/// Entries as JSON, in the given order.
pub fn to_json(entries: &[Entry]) -> Value {
    let entry = |entry: &Entry| {
        json!({
            "application": entry.application,
            "status": entry.phase.name(),
            "step": step_text(entry.step),
            "message": entry.message.chars().take(MESSAGE_LIMIT).collect::<String>(),
            "targetRevisions": entry.target_revisions,
            "lastTransitionTime": entry.since.to_string(),
        })
    };
    Value::Array(entries.iter().map(entry).collect())
}

/// Reads `status.applicationStatus`.
///
/// An element that cannot be read, of an unknown phase say, is left out: the
/// next pass makes it anew from what is observed. A missing time is the
/// beginning of time, so that nothing waits for it.
pub fn from_json(stored: Option<&Value>) -> BTreeMap<String, Entry> {
    let elements = stored.and_then(Value::as_array).into_iter().flatten();
    let entries = elements.filter_map(|element| {
        let text = |field: &str| element.get(field).and_then(Value::as_str);
        let application = text("application")?.to_owned();
        let step = text("step").and_then(|step| step.parse::<usize>().ok());
        let revisions = element.get("targetRevisions").and_then(Value::as_array);
        let since = text("lastTransitionTime").and_then(|time| time.parse().ok());
        let entry = Entry {
            application: application.clone(),
            phase: Phase::from_name(text("status")?)?,
            step: step.and_then(|step| step.checked_sub(1)),
            message: text("message").unwrap_or_default().to_owned(),
            target_revisions: revisions
                .into_iter()
                .flatten()
                .filter_map(|revision| revision.as_str().map(str::to_owned))
                .collect(),
            since: since.unwrap_or(Timestamp::UNIX_EPOCH),
        };
        Some((application, entry))
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_being_stored_as_008() {
        let entry = |name: &str, step, revisions: &[&str]| Entry {
            application: name.into(),
            phase: Phase::Pending,
            step,
            message: "waits".into(),
            target_revisions: revisions.iter().map(|text| (*text).into()).collect(),
            since: "2026-01-02T03:04:05Z".parse().unwrap(),
        };
        let entries = [entry("a", Some(0), &["abc"]), entry("b", None, &[])];
        let stored = to_json(&entries);
        assert_eq!(stored[0]["step"], "1");
        assert_eq!(stored[1]["step"], "-1");
        assert_eq!(stored[1]["targetRevisions"], json!([]));
        assert_eq!(stored[0]["lastTransitionTime"], "2026-01-02T03:04:05Z");
        let read: Vec<Entry> = from_json(Some(&stored)).into_values().collect();
        assert_eq!(read, entries);
    }

    #[test]
    fn what_cannot_be_read_is_left_out_and_nothing_panics() {
        let stored = json!([
            {"application": "no-phase"},
            {"application": "odd", "status": "Sleeping", "step": "x"},
            7,
            {"application": "ok", "status": "Healthy", "targetRevisions": null, "step": "0"},
        ]);
        let read = from_json(Some(&stored));
        assert_eq!(read.keys().collect::<Vec<_>>(), ["ok"]);
        assert_eq!((read["ok"].step, read["ok"].since), (None, Timestamp::UNIX_EPOCH));
        assert!(from_json(None).is_empty());
    }
}
