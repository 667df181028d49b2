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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// AS-360: an operation says for which promotion it was written.
    #[test]
    fn the_promotion_of_an_operation_is_read_as_it_was_written_as_360() {
        let at: Timestamp = "2026-01-02T03:04:05.000000006Z".parse().unwrap();
        assert_eq!(promotion_text(at), "2026-01-02T03:04:05.000000006Z");
        let of = |name: &str, value: &str| {
            json!({"info": [
            {"name": "Reason", "value": "2020-01-01T00:00:00Z"}, {"name": name, "value": value}]})
        };
        assert_eq!(promotion_of(&of(PROMOTION, &promotion_text(at))), Some(at));
        for other in [of("other", &promotion_text(at)), of(PROMOTION, "soon"), json!({}), json!(5)]
        {
            assert_eq!(promotion_of(&other), None, "{other}");
        }
    }
}
