//! Combines parameter sets.

use serde_json::{Map, Value};

use crate::desired::flatten::text;

/// Merges `over` into `base`: objects recursively, everything else is replaced, also by an
/// empty or null value.
pub fn merge_over(base: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(base)), Value::Object(over)) => merge_over(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// A flat set with all values as text (AS-111).
pub fn as_text(set: Map<String, Value>) -> Map<String, Value> {
    set.into_iter().map(|(key, value)| (key, text_of(value))).collect()
}

fn text_of(value: Value) -> Value {
    match value {
        Value::String(text) => text.into(),
        other => text(&other).into(),
    }
}

/// The union of two flat sets, as text (AS-072).
///
/// # Errors
///
/// A key that has different values in both.
pub(crate) fn union(
    first: &Map<String, Value>,
    second: &Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    let mut union = as_text(first.clone());
    for (key, value) in second {
        let value = text(value);
        match union.get(key) {
            Some(Value::String(known)) if *known != value => {
                return Err(format!(
                    "parameter {key} is {known:?} in the first generator and {value:?} in the \
                     second; rename one, or set goTemplate: true"
                ));
            }
            Some(_) => {}
            None => {
                union.insert(key.clone(), value.into());
            }
        }
    }
    Ok(union)
}
