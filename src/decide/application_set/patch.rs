//! The JSON merge patch between two values.

use serde_json::{Map, Value};

use crate::api::annotations::REFRESH;

/// What to merge into `from` to get `to` (RFC 7396): null for what goes, lists
/// whole.
pub fn between(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return to.clone() };
    let mut patch = Map::new();
    for key in from.keys() {
        if !to.contains_key(key) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    for (key, value) in to {
        match from.get(key) {
            Some(old) if old == value => {}
            Some(old) => {
                patch.insert(key.clone(), between(old, value));
            }
            None if value.is_null() => {}
            None => {
                patch.insert(key.clone(), without_nulls(value));
            }
        }
    }
    Value::Object(patch)
}

/// The fields that the merge patch of an Application changes, as paths such as
/// `spec.source.path`: neither the operation that it starts nor the comparison
/// that it asks for.
pub fn fields(body: &Value) -> Vec<String> {
    let mut fields = Vec::new();
    leaves(body, &mut String::new(), &mut fields);
    let is_own = |path: &str| {
        path.starts_with("operation")
            || path == "metadata.resourceVersion"
            || path == format!("metadata.annotations.{REFRESH}")
    };
    fields.retain(|path| !is_own(path));
    fields
}

fn leaves(value: &Value, path: &mut String, fields: &mut Vec<String>) {
    let Value::Object(object) = value else { return fields.push(path.clone()) };
    if object.is_empty() && !path.is_empty() {
        return fields.push(path.clone());
    }
    for (key, value) in object {
        let end = path.len();
        if end > 0 {
            path.push('.');
        }
        path.push_str(key);
        leaves(value, path, fields);
        path.truncate(end);
    }
}

/// In a merge patch null means removal, so a new object must not carry any.
fn without_nulls(value: &Value) -> Value {
    let Value::Object(object) = value else { return value.clone() };
    let kept = object.iter().filter(|(_, value)| !value.is_null());
    kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::between;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn tree() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(json!(1)), Just(json!("x")), Just(json!([1, 2])), Just(json!({}))];
        leaf.prop_recursive(3, 12, 3, |inner| {
            proptest::collection::btree_map("[ab]", inner, 0..3)
                .prop_map(|map| map.into_iter().collect::<Value>())
        })
    }

    proptest! {
        #[test]
        fn a_patch_leads_from_one_to_the_other(from in tree(), to in tree()) {
            let mut got = from.clone();
            json_patch::merge(&mut got, &between(&from, &to));
            prop_assert_eq!(got, to);
        }
    }
}
