//! Secret values are compared, and never shown (SE-164).

use std::collections::BTreeMap;

use serde_json::Value;

/// The mask of the first distinct value of a key; each further one is longer.
const FIRST: usize = 8;
const LONGER: usize = 4;

/// The objects inside a Secret that hold its values.
const HOLDERS: [&str; 2] = ["data", "stringData"];

/// Replaces the values of one Secret in several states by runs of `+`, which
/// are equal exactly where the values are.
pub fn mask(states: &mut [&mut Value]) {
    let mut seen: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for state in states {
        for holder in HOLDERS {
            match state.get_mut(holder) {
                Some(Value::Object(map)) => {
                    for (key, value) in map.iter_mut() {
                        cover(seen.entry(key.clone()).or_default(), value);
                    }
                }
                // Not an object: whatever it is, somebody may have meant it to
                // be secret.
                Some(other) if !other.is_null() => {
                    cover(seen.entry(String::new()).or_default(), other)
                }
                _ => {}
            }
        }
    }
}

fn cover(known: &mut Vec<Value>, value: &mut Value) {
    let at = known.iter().position(|one| one == value).unwrap_or_else(|| {
        known.push(value.clone());
        known.len() - 1
    });
    *value = Value::String("+".repeat(FIRST + LONGER * at));
}
