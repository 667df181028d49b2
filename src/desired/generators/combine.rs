//! Combines parameter sets.

use serde_json::{Map, Value};

use crate::desired::flatten::text;

/// Merges `over` into `base`: objects recursively, everything else is replaced, except that
/// an empty list replaces nothing.
pub fn merge_over(base: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(base)), Value::Object(over)) => merge_over(base, over),
            (Some(Value::Array(_)), Value::Array(over)) if over.is_empty() => {}
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// The union of two flat sets, as text (AS-072).
///
/// # Errors
///
/// A key that has different values in both.
pub fn union(
    first: &Map<String, Value>,
    second: &Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    let mut union = Map::new();
    for (key, value) in first.iter().chain(second) {
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
