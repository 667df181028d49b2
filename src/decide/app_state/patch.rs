//! The smallest JSON merge patch between two objects.

use serde_json::{Map, Value};

/// What to send so that `from` becomes `to`; `None` when they are the same.
///
/// Lists are replaced as a whole, as merge patches do.
pub fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return Some(to.clone());
    };
    let mut patch = Map::new();
    for (key, old) in from {
        match to.get(key) {
            // A null in a merge patch removes; a null in the object reads as absent.
            None | Some(Value::Null) if !old.is_null() => {
                patch.insert(key.clone(), Value::Null);
            }
            None | Some(Value::Null) => {}
            Some(new) => {
                if let Some(change) = merge_patch(old, new) {
                    patch.insert(key.clone(), change);
                }
            }
        }
    }
    for (key, new) in to {
        if !from.contains_key(key) && !new.is_null() {
            patch.insert(key.clone(), new.clone());
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}
