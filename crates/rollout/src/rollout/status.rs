//! Conversion of entries from and to `status.applicationStatus`.
//!
//! Steps count from 0 in code and from 1 in the status; only this module
//! converts (AS-008).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::entry::{Earlier, Entry, EntryMark, Phase};

/// The most bytes of a stored message, as JSON.
pub(super) const MESSAGE_LIMIT: usize = 256;

/// A step's number for users: `"1"` for the first, `"-1"` for none.
pub fn step_text(step: Option<usize>) -> String {
    step.map_or_else(|| "-1".to_owned(), |step| (step + 1).to_string())
}

/// Entries as JSON, in the given order.
pub fn to_json(entries: &[Entry]) -> Value {
    Value::Array(entries.iter().map(entry_json).collect())
}

/// One entry as JSON.
pub fn entry_json(entry: &Entry) -> Value {
    json!({
        "application": entry.application,
        "status": entry.phase.name(),
        "step": step_text(entry.step),
        "message": format!("{}{}", earlier_text(entry.earlier), cut(&entry.message, MESSAGE_LIMIT)),
        "targetRevisions": entry.target_revisions,
        "lastTransitionTime": entry.since.to_string(),
    })
}

/// All fields of an element.
pub const FIELDS: [&str; 6] =
    ["application", "status", "step", "message", "targetRevisions", "lastTransitionTime"];

/// Whether [`entry_json`] is this value, but for so many fields.
pub fn is_json_of(entry: &Entry, value: &Value, unknown: usize) -> bool {
    let Value::Object(fields) = value else { return false };
    let text = |field: &str| fields.get(field).and_then(Value::as_str);
    let message = cut(&entry.message, MESSAGE_LIMIT);
    let is_same_message = match earlier_text(entry.earlier) {
        // Of most entries, without a copy.
        earlier if earlier.is_empty() => text("message") == Some(message),
        earlier => text("message") == Some(&format!("{earlier}{message}")),
    };
    let revisions = fields.get("targetRevisions").and_then(Value::as_array);
    fields.len() == FIELDS.len() + unknown
        && text("application") == Some(&entry.application)
        && text("status") == Some(entry.phase.name())
        && text("step") == Some(&step_text(entry.step))
        && is_same_message
        && revisions.is_some_and(|listed| {
            listed.len() == entry.target_revisions.len()
                && listed
                    .iter()
                    .zip(&entry.target_revisions)
                    .all(|(value, revision)| value == revision)
        })
        && text("lastTransitionTime") == Some(&entry.since.to_string())
}

/// Whether an entry equals the stored one, with its message truncated.
pub fn is_stored(entry: &Entry, stored: &Entry) -> bool {
    entry.phase == stored.phase
        && entry.step == stored.step
        && entry.since == stored.since
        && entry.target_revisions == stored.target_revisions
        && entry.earlier == stored.earlier
        && cut(&entry.message, MESSAGE_LIMIT) == stored.message
}

/// The stored part of the message.
pub fn stored_message(message: &str) -> &str {
    cut(message, MESSAGE_LIMIT)
}

/// How the message of an entry begins that remembers a sync by a person. It is not part of
/// [`Entry::message`].
const EARLIER: &str = "Takes back the sync by a person of ";

fn earlier_text(earlier: Earlier) -> String {
    match earlier {
        Earlier::Sync(start) => format!("{EARLIER}{start}: "),
        Earlier::None | Earlier::Unknown => String::new(),
    }
}

/// How messages of Argo CD's ApplicationSet controller begin. Its entries know nothing about
/// syncs by people.
const OF_ARGO_CD: [&str; 5] = [
    "No Application status found",
    "Application has pending changes",
    "Application moved to Pending",
    "Application moved from",
    "Application resource",
];

/// Reads what a message remembers, and the rest of it.
fn read_earlier(message: &str) -> (Earlier, &str) {
    if OF_ARGO_CD.iter().any(|start| message.starts_with(start)) {
        return (Earlier::Unknown, message);
    }
    let read = || {
        let (start, rest) = message.strip_prefix(EARLIER)?.split_once(": ")?;
        let start: Timestamp = start.parse().ok()?;
        Some((Earlier::Sync(start), rest))
    };
    read().unwrap_or((Earlier::None, message))
}

/// The size of an entry in the status with its message truncated, in bytes.
pub(super) fn bytes(entry: &Entry, message: usize) -> usize {
    bytes_around(entry) + entry.phase.name().len() + json_bytes(cut(&entry.message, message))
}

/// The size of an entry without its phase and its message: including names of
/// fields, quotes and the comma after it.
pub(super) fn bytes_around(entry: &Entry) -> usize {
    const FIELDS: &str = r#"{"application":"","lastTransitionTime":"","message":"","status":"","step":"","targetRevisions":[]},"#;
    let step = entry.step.map_or(2, |step| (step + 1).checked_ilog10().unwrap_or(0) as usize + 1);
    let revisions: usize =
        entry.target_revisions.iter().map(|revision| json_bytes(revision) + 3).sum();
    // All years have four digits; times are in whole seconds.
    let time = 20;
    let earlier = earlier_text(entry.earlier).len();
    FIELDS.len() + json_bytes(&entry.application) + step + revisions + time + earlier
}

/// The size of a text as JSON, without quotes.
pub fn json_bytes(text: &str) -> usize {
    text.bytes().map(byte_as_json).sum()
}

fn byte_as_json(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..=0x1f => 6,
        _ => 1,
    }
}

/// The longest prefix of a text of at most this many bytes as JSON, in whole
/// characters.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    if text.len() * 6 <= limit {
        return text;
    }
    let mut left = limit;
    for (at, char) in text.char_indices() {
        let takes = match char.is_ascii() {
            true => byte_as_json(char as u8),
            false => char.len_utf8(),
        };
        if takes > left {
            return &text[..at];
        }
        left -= takes;
    }
    text
}

/// Parses `status.applicationStatus`.
///
/// Unreadable elements, such as those with an unknown phase, are skipped: the
/// next reconcile creates them again from what is observed. A missing time is
/// read as the epoch, so that nothing waits for it.
pub fn from_json(stored: Option<&Value>) -> BTreeMap<String, Entry> {
    let elements = stored.and_then(Value::as_array).into_iter().flatten();
    let entries = elements.filter_map(|element| {
        let text = |field: &str| element.get(field).and_then(Value::as_str);
        let application = text("application")?.to_owned();
        let step = text("step").and_then(|step| step.parse::<usize>().ok());
        let revisions = element.get("targetRevisions").and_then(Value::as_array);
        let since = text("lastTransitionTime").and_then(|time| time.parse().ok());
        let phase = Phase::from_name(text("status")?)?;
        let (earlier, message) = read_earlier(text("message").unwrap_or_default());
        let entry = Entry {
            application: application.clone(),
            phase,
            step: step.and_then(|step| step.checked_sub(1)),
            message: message.to_owned(),
            mark: EntryMark::of(phase, message),
            target_revisions: revisions
                .into_iter()
                .flatten()
                .filter_map(|revision| revision.as_str().map(str::to_owned))
                .collect(),
            since: since.unwrap_or(Timestamp::UNIX_EPOCH),
            earlier,
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
            mark: None,
            target_revisions: revisions.iter().map(|text| (*text).into()).collect(),
            since: "2026-01-02T03:04:05Z".parse().unwrap(),
            earlier: match step {
                Some(_) => Earlier::Sync("2026-01-02T01:00:00Z".parse().unwrap()),
                None => Earlier::None,
            },
        };
        let entries = [entry("a", Some(0), &["abc"]), entry("b", None, &[])];
        let stored = to_json(&entries);
        assert_eq!(stored[0]["step"], "1");
        assert_eq!(stored[1]["step"], "-1");
        assert_eq!(stored[1]["targetRevisions"], json!([]));
        assert_eq!(stored[0]["lastTransitionTime"], "2026-01-02T03:04:05Z");
        let read: Vec<Entry> = from_json(Some(&stored)).into_values().collect();
        assert_eq!(read, entries);
        for (entry, stored) in entries.iter().zip(stored.as_array().unwrap()) {
            assert!(is_json_of(entry, stored, 0), "{stored}");
            let mut more = stored.clone();
            more["more"] = json!(1);
            assert!(!is_json_of(entry, &more, 0) && is_json_of(entry, &more, 1), "{more}");
            for field in stored.as_object().unwrap().keys() {
                let mut other = stored.clone();
                other[field] = json!("other");
                assert!(!is_json_of(entry, &other, 0), "{other}");
                other.as_object_mut().unwrap().remove(field);
                assert!(!is_json_of(entry, &other, 0), "{other}");
            }
        }
    }

    /// Of a long message, the begin is stored.
    #[test]
    fn an_entry_is_stored_when_all_of_it_is() {
        let entry = Entry {
            application: "a".to_owned(),
            phase: Phase::Progressing,
            step: Some(1),
            message: "long ".repeat(200),
            mark: None,
            target_revisions: vec!["r1".to_owned()],
            since: "2026-01-02T03:04:05Z".parse().unwrap(),
            earlier: Earlier::None,
        };
        let read = from_json(Some(&to_json(std::slice::from_ref(&entry))));
        let stored = &read["a"];
        assert!(stored.message.len() < entry.message.len() && is_stored(&entry, stored));
        let later = "2026-01-02T03:04:06Z".parse().unwrap();
        for other in [
            Entry { phase: Phase::Healthy, ..stored.clone() },
            Entry { step: None, ..stored.clone() },
            Entry { message: "other".to_owned(), ..stored.clone() },
            Entry { target_revisions: Vec::new(), ..stored.clone() },
            Entry { since: later, ..stored.clone() },
            Entry { earlier: Earlier::Sync(later), ..stored.clone() },
        ] {
            assert!(!is_stored(&entry, &other), "{other:?}");
        }
    }

    #[test]
    fn what_an_entry_takes_is_known_before_it_is_written() {
        let cases = [
            ("a", None, "", vec![]),
            ("app-\"x\"", Some(8), "quoted \" \\ \n \u{1} ü 😀", vec!["r1".to_owned()]),
            ("b", Some(99), &*"long ".repeat(200), vec!["r1".to_owned(), "".to_owned()]),
            ("c", Some(9), &*"\u{2}".repeat(200), vec![]),
        ];
        for (name, step, message, revisions) in cases {
            let entry = Entry {
                application: name.to_owned(),
                phase: Phase::Progressing,
                step,
                message: message.to_owned(),
                mark: None,
                target_revisions: revisions,
                since: "2026-01-02T03:04:05Z".parse().unwrap(),
                earlier: match step {
                    Some(_) => Earlier::Sync("2026-01-02T01:00:00Z".parse().unwrap()),
                    None => Earlier::None,
                },
            };
            let written = entry_json(&entry).to_string().len() + 1;
            // A comma is counted after each revision, including the last one.
            let most = bytes(&entry, MESSAGE_LIMIT);
            assert!((written..=written + 1).contains(&most), "{name}: {most} for {written}");
        }
        assert_eq!(cut("äöü", 5), "äö");
        assert_eq!(cut("\n\n\n", 5), "\n\n");
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
