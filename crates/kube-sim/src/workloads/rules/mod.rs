//! The statuses that real controllers write, one file per family of kinds.
//!
//! Plain functions: an object and a stage in, a merge patch for its status out.

pub(super) mod apps;
pub(super) mod batch;
pub(super) mod infrastructure;
pub(super) mod pod;
pub(super) mod scaling;

use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::view::View;

/// A time as Kubernetes writes it: whole seconds, UTC.
fn time(now: Timestamp) -> Value {
    json!(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// A count as API servers keep it: nothing when it is zero.
fn present(count: i64) -> Value {
    if count == 0 { Value::Null } else { json!(count) }
}

/// The condition of type `kind`. Keeps the time of the last transition while the
/// condition's status stays the same.
fn condition(
    object: &View<'_>,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Value {
    let before = object.condition(kind);
    let since =
        if before["status"] == status { before["lastTransitionTime"].clone() } else { Value::Null };
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": if since.is_null() { time(now) } else { since },
    })
}

/// A short name for a value that stays the same as long as the value does,
/// as controllers name revisions of a Pod template.
pub(super) fn digest(value: &Value) -> String {
    // Maps of serde_json are sorted, so equal values have equal text.
    let hash = Sha256::digest(value.to_string());
    hash.iter().take(5).map(|byte| format!("{byte:02x}")).collect()
}
