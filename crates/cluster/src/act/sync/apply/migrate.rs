//! Migration from client-side to server-side apply: the fields of the former manager and
//! of our own updates are moved to our apply; otherwise they could never be removed
//! (SE-346).

use serde_json::{Value, json};

use wavegate_api::Raw;
use wavegate_engine::diff::taken_over;

/// The JSON patch that moves the fields of `from`, and those that `to` has updated, to
/// the apply of `to`; `None` when there are none.
pub(super) fn patch(live: &Value, from: &str, to: &str) -> Option<Value> {
    let entries = taken_over(live, &[from, to], to)?;
    let version = live.resource_version();
    Some(json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
    ]))
}
