//! What identifies the operation of a rollout: who wrote it, and for which promotion
//! (AS-360, AS-361). Windows, comparisons and rollouts read it.

use jiff::Timestamp;
use serde_json::Value;

use wavegate_api::source::NameValue;
use wavegate_api::{Raw, read_leniently};

/// The `initiatedBy.username` of operations of a rollout.
pub const USERNAME: &str = "applicationset-controller";
/// The info item with the time of the promotion.
pub const PROMOTION: &str = "RollingSync";

/// The time of a promotion in the info item: RFC 3339 with nanoseconds.
pub fn promotion_text(promotion: Timestamp) -> String {
    format!("{promotion:.9}")
}

/// The promotion that an operation was written for; `None` if no rollout wrote
/// it. Takes `operation` or `status.operationState.operation`.
pub fn promotion_of(operation: &Value) -> Option<Timestamp> {
    let info = operation.items("/info").iter();
    let item = info.map(read_leniently::<NameValue>).find(|item| item.name == PROMOTION)?;
    item.value.parse().ok()
}
