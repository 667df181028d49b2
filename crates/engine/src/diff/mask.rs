//! Masks values of Secrets: they are compared, but never shown (SE-164).
//!
//! Every field that is not known to be harmless is masked: a misspelled field such as
//! `dta` or `stringdata` contains a value, too.

use std::collections::BTreeMap;

use serde_json::Value;

/// The mask of the first distinct value at a path; each further one is longer.
const FIRST: usize = 8;
const LONGER: usize = 4;

type Fits = fn(&Value) -> bool;

/// Fields of a Secret without values, if they have the expected type.
const PLAIN: [(&str, Fits); 4] = [
    ("apiVersion", Value::is_string),
    ("kind", Value::is_string),
    ("type", Value::is_string),
    ("immutable", Value::is_boolean),
];

/// Fields of `metadata` without values, except some annotations.
const METADATA: [&str; 14] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "uid",
];

/// Distinct values by path.
type Seen = BTreeMap<String, Vec<Value>>;

/// Whether an object is a Secret, whatever its API version.
pub fn is_secret(object: &Value) -> bool {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    kind.eq_ignore_ascii_case("Secret")
}

/// Replaces the values of a Secret in several states by runs of `+`, which are equal
/// exactly where the values are.
pub fn mask_secrets(states: &mut [&mut Value]) {
    let mut seen = Seen::new();
    for state in states {
        let Some(fields) = state.as_object_mut() else { continue };
        for (field, value) in fields.iter_mut() {
            if field == "metadata" && value.is_object() {
                metadata(value, &mut seen);
            } else if !PLAIN.iter().any(|(plain, fits)| plain == field && fits(value)) {
                cover(field, value, &mut seen);
            }
        }
    }
}

/// The message of a rule that failed on a Secret, without quoted values.
pub(crate) fn rule(words: &str) -> String {
    let mut escaped = false;
    let end = words.char_indices().skip(1).find(|(_, c)| {
        let closes = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        closes
    });
    let expression = end.map_or("an expression", |(end, _)| &words[..=end]);
    format!("{expression}: failed on a Secret, whose values are not shown")
}

fn metadata(metadata: &mut Value, seen: &mut Seen) {
    for (field, value) in metadata.as_object_mut().into_iter().flatten() {
        if field == "annotations" {
            for (key, value) in value.as_object_mut().into_iter().flatten() {
                // Last-applied configurations of kubectl and similar tools.
                let applied = key.contains("applied") || key.contains("original");
                if applied || !value.is_string() {
                    cover(&format!("metadata.annotations.{key}"), value, seen);
                }
            }
        }
        let known = METADATA.contains(&field.as_str());
        let map = !matches!(field.as_str(), "annotations" | "labels") || value.is_object();
        if !known || !map {
            cover(&format!("metadata.{field}"), value, seen);
        }
    }
}

fn cover(place: &str, value: &mut Value, seen: &mut Seen) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (field, value) in fields.iter_mut() {
                cover(&format!("{place}.{field}"), value, seen);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter_mut().enumerate() {
                cover(&format!("{place}.{index}"), value, seen);
            }
        }
        value => {
            let known = seen.entry(place.to_owned()).or_default();
            let at = known.iter().position(|one| one == value).unwrap_or_else(|| {
                known.push(value.clone());
                known.len() - 1
            });
            *value = Value::String("+".repeat(FIRST + LONGER * at));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{is_secret, mask_secrets, rule};

    /// All but what is known to be harmless, each value by one mask (SE-164).
    #[test]
    fn values_of_secrets_are_masked_wherever_they_are_se_164() {
        let secret = |value: &str| {
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": true,
                "data": {"a": value, "b": "same", "none": null}, "stringdata": [value, 1],
                "metadata": {
                    "name": "s", "labels": {"l": "v"}, "uid": "u", "other": value,
                    "annotations": {"note": "plain", "number": 1,
                        "kubectl.kubernetes.io/last-applied-configuration": value,
                        "original": value},
                },
            })
        };
        let (first, second) = ("+".repeat(8), "+".repeat(12));
        let masked = |mask: &str| {
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": true,
                "data": {"a": mask, "b": first, "none": null}, "stringdata": [mask, first],
                "metadata": {
                    "name": "s", "labels": {"l": "v"}, "uid": "u", "other": mask,
                    "annotations": {"note": "plain", "number": first,
                        "kubectl.kubernetes.io/last-applied-configuration": mask,
                        "original": mask},
                },
            })
        };
        let (mut live, mut target) = (secret("x"), secret("y"));
        mask_secrets(&mut [&mut live, &mut target]);
        assert_eq!((live, target), (masked(&first), masked(&second)));

        // Fields of another type than theirs are not known to be harmless.
        let mut odd = json!({"kind": 1, "type": {"a": "v"}, "immutable": "v", "metadata": "v"});
        mask_secrets(&mut [&mut odd]);
        let all =
            json!({"kind": first, "type": {"a": first}, "immutable": first, "metadata": first});
        assert_eq!(odd, all);
        let mut odd = json!({"metadata": {"labels": "v", "annotations": "v", "name": "n"}});
        mask_secrets(&mut [&mut odd]);
        let all = json!({"metadata": {"labels": first, "annotations": first, "name": "n"}});
        assert_eq!(odd, all);
        let mut none = Value::Null;
        mask_secrets(&mut [&mut none]);
        assert_eq!(none, Value::Null);

        for (kind, want) in [("Secret", true), ("secret", true), ("ConfigMap", false)] {
            assert_eq!(is_secret(&json!({"kind": kind})), want, "{kind}");
        }
    }

    /// The message of jq quotes the value after the expression.
    #[test]
    fn a_failed_rule_on_a_secret_shows_its_expression_alone_se_164() {
        let rest = "failed on a Secret, whose values are not shown";
        for (words, want) in [
            (r#"".data": cannot index "secret""#, r#"".data""#),
            (r#"".a[\"b\"]": "secret""#, r#"".a[\"b\"]""#),
            (r#"".a\\": "secret""#, r#"".a\\""#),
            ("no expression", "an expression"),
            ("", "an expression"),
        ] {
            assert_eq!(rule(words), format!("{want}: {rest}"), "{words}");
        }
    }
}
