//! Conversion of the rollout record ([`CompletionRecord`]) from and to the annotation of
//! an Application.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rollout::listed::{CompletionRecord, RecordKind};
use crate::rollout::status::step_text;
use wavegate_api::Raw;
use wavegate_api::annotations::{ROLLOUT, annotation_of};
use wavegate_api::time::to_rfc3339;

/// The annotation's JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Carried {
    /// Started, Healthy, TimedOut or Void.
    kind: String,
    step: String,
    target_revisions: Vec<String>,
    /// The digest of the generated spec.
    spec: String,
    at: String,
    /// The UID of the Application: the record of a copied or restored
    /// Application does not apply.
    uid: String,
}

fn kind_text(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Started => "Started",
        RecordKind::Healthy => "Healthy",
        RecordKind::TimedOut => "TimedOut",
        RecordKind::Void => "Void",
    }
}

/// The record of an Application; `None` when it is absent or unreadable.
pub fn read_record(application: &Value) -> Option<CompletionRecord> {
    let carried: Carried = serde_json::from_str(annotation_of(application, ROLLOUT)?).ok()?;
    if application.uid() != carried.uid {
        return None;
    }
    let kinds = [RecordKind::Started, RecordKind::Healthy, RecordKind::TimedOut, RecordKind::Void];
    let step = carried.step.parse::<usize>().ok();
    Some(CompletionRecord {
        kind: kinds.into_iter().find(|kind| kind_text(*kind) == carried.kind)?,
        target_revisions: carried.target_revisions,
        spec: carried.spec,
        step: step.and_then(|step| step.checked_sub(1)),
        since: carried.at.parse::<Timestamp>().ok()?,
    })
}

/// The annotation's value for the Application of this UID.
pub(crate) fn text(record: &CompletionRecord, uid: &str) -> String {
    let carried = Carried {
        kind: kind_text(record.kind).to_owned(),
        step: step_text(record.step),
        target_revisions: record.target_revisions.clone(),
        spec: record.spec.clone(),
        at: to_rfc3339(record.since),
        uid: uid.to_owned(),
    };
    // A struct of strings can always be serialized.
    serde_json::to_string(&carried).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_is_read_back_by_the_application_it_was_written_for_alone() {
        let record = CompletionRecord {
            kind: RecordKind::TimedOut,
            target_revisions: vec!["abc".to_owned()],
            spec: "0123".to_owned(),
            step: Some(2),
            since: "2026-01-02T03:04:05Z".parse().unwrap(),
        };
        let of = |uid: &str, text: &str| {
            read_record(&json!({"metadata": {"uid": uid, "annotations": {ROLLOUT: text}}}))
        };
        let text = text(&record, "u");
        assert_eq!(of("u", &text), Some(record));
        assert_eq!(of("copy", &text), None);
        assert_eq!(of("u", "{}"), None);
        assert_eq!(read_record(&json!({"metadata": {"uid": "u"}})), None);
    }
}
