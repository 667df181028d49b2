//! Removes credentials from the messages of a status.

use std::borrow::Cow;

use serde_json::Value;

use wavegate_api::Raw;
use wavegate_net::redact;

/// When a condition has changed.
const TIME: &str = "lastTransitionTime";

/// A status to be written without credentials, given the stored one.
///
/// The decision compared the unredacted status with the stored, redacted one. So a
/// condition that is unchanged after redaction keeps its time; otherwise each decision
/// would cause a write.
pub(crate) fn status<'a>(stored: &Value, wanted: &'a Value) -> Cow<'a, Value> {
    let mut redacted = wanted.clone();
    redact::redact_messages(&mut redacted);
    if redacted == *wanted {
        return Cow::Borrowed(wanted);
    }
    let before = stored.items("/conditions");
    let conditions = redacted.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let same = |old: &&Value| {
            ["type", "status", "reason", "message"].iter().all(|f| old[f] == condition[f])
        };
        let time = before.iter().find(same).and_then(|old| old.get(TIME)).cloned();
        let time = time.filter(|time| !time.is_null());
        if let (Some(time), Some(fields)) = (time, condition.as_object_mut()) {
            fields.insert(TIME.to_owned(), time);
        }
    }
    Cow::Owned(redacted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_that_says_the_same_without_its_credentials_keeps_its_time() {
        let condition = |message: &str, time: &str| json!({"conditions": [{"type": "ComparisonError", "message": message, "lastTransitionTime": time}]});
        let stored = condition("https://***@h/r", "old");
        let wanted = condition("https://u:p@h/r", "new");
        assert_eq!(*status(&stored, &wanted), stored);
        let other = condition("https://u:p@h/other", "new");
        assert_eq!(*status(&stored, &other), condition("https://***@h/other", "new"));
        let plain = condition("plain", "new");
        assert!(matches!(status(&stored, &plain), Cow::Borrowed(_)));
    }
}
