//! Merges a generator's own template into the set's template (AS-142).

use serde_json::Value;

/// The field of a Helm source that holds free-form JSON.
const VALUES_OBJECT: &str = "valuesObject";

/// Sets every empty field of `own` from `base`, recursively.
///
/// Empty are null, `false`, 0, `""` and empty lists and objects: such a value
/// in a generator's template cannot override anything. Lists and `valuesObject` are not
/// merged: that of the generator is taken whole.
pub(crate) fn merge(own: &Value, base: &Value) -> Value {
    match (own, base) {
        (Value::Object(own), Value::Object(base)) => {
            let mut merged = base.clone();
            for (key, value) in own {
                let value = match base.get(key) {
                    // Free-form JSON is one value.
                    Some(_) if key == VALUES_OBJECT && !value.is_null() => value.clone(),
                    base => merge(value, base.unwrap_or(&Value::Null)),
                };
                merged.insert(key.clone(), value);
            }
            Value::Object(merged)
        }
        (own, base) if is_empty(own) && !base.is_null() => base.clone(),
        (own, _) => own.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::merge;
    use serde_json::json;

    #[test]
    fn a_generators_template_goes_first_field_by_field_as_142() {
        let cases = [
            (
                220,
                json!({"path": "P"}),
                json!({"path": "Q", "name": "N"}),
                json!({"path": "P", "name": "N"}),
            ),
            (
                283,
                json!({"labels": {"a": "1"}}),
                json!({"labels": {"a": "2", "b": "3"}}),
                json!({"labels": {"a": "1", "b": "3"}}),
            ),
            (284, json!({"prune": false}), json!({"prune": true}), json!({"prune": true})),
            (
                285,
                json!({"valueFiles": ["x"]}),
                json!({"valueFiles": ["y", "z"]}),
                json!({"valueFiles": ["x"]}),
            ),
            (0, json!({"limit": 0}), json!({"limit": 3}), json!({"limit": 3})),
            (0, json!({"limit": 1}), json!({"limit": 3}), json!({"limit": 1})),
            (286, json!({"project": ""}), json!({"project": "p"}), json!({"project": "p"})),
            (
                0,
                json!({"source": {}}),
                json!({"sources": [1]}),
                json!({"source": {}, "sources": [1]}),
            ),
            (
                0,
                json!({"helm": {"valuesObject": {"a": {"x": 1}}}}),
                json!({"helm": {"valuesObject": {"a": {"y": 2}, "b": 3}, "values": "v"}}),
                json!({"helm": {"valuesObject": {"a": {"x": 1}}, "values": "v"}}),
            ),
            (
                0,
                json!({"helm": {"valuesObject": {}}}),
                json!({"helm": {"valuesObject": {"b": 3}}}),
                json!({"helm": {"valuesObject": {}}}),
            ),
            (
                0,
                json!({"helm": {"valuesObject": null}}),
                json!({"helm": {"valuesObject": {"b": 3}}}),
                json!({"helm": {"valuesObject": {"b": 3}}}),
            ),
            (0, json!(null), json!({"a": 1}), json!({"a": 1})),
            (0, json!({"a": 1}), json!(null), json!({"a": 1})),
        ];
        for (row, own, base, want) in cases {
            assert_eq!(merge(&own, &base), want, "row {row}");
        }
    }
}
