//! From client-side to server-side apply: fields of the former manager, and of
//! our own updates, become ours, or they could never be removed again (SE-346).

use serde_json::{Value, json};

use crate::decide::diff::taken_over;

/// The JSON patch that moves the fields of `from`, and those that `to` itself
/// has updated, to the apply of `to`; `None` when there is nothing to move.
pub(super) fn patch(live: &Value, from: &str, to: &str) -> Option<Value> {
    let entries = taken_over(live, &[from, to], to)?;
    let version = &live["metadata"]["resourceVersion"];
    Some(json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
    ]))
}
