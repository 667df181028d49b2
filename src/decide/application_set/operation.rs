//! The `operation` that starts a sync: the contract between a rollout and the
//! application controller (AS-360, AS-361).

use jiff::Timestamp;
use serde_json::{Value, json};

use super::autosync;
use crate::api::sources::InEffect;
use crate::decide::rollout::Start;

/// The `initiatedBy.username` of operations of a rollout.
pub const USERNAME: &str = "applicationset-controller";
/// The info item with the time of the promotion.
pub const PROMOTION: &str = "RollingSync";

/// The operation for a start.
///
/// `generated` is the Application as generated, before its automated sync is
/// disabled.
pub fn build(start: &Start, set: &str, generated: &Value) -> Value {
    let policy = &generated["spec"]["syncPolicy"];
    let mut sync = json!({});
    if let Some(options) = policy["syncOptions"].as_array() {
        sync["syncOptions"] = options.clone().into();
    }
    if autosync::prunes(generated) {
        sync["prune"] = true.into();
    }
    let multiple = InEffect::of(&generated["spec"]).is_list();
    match start.revisions.as_slice() {
        [] => {}
        revisions if multiple => sync["revisions"] = revisions.to_vec().into(),
        [revision, ..] => sync["revision"] = revision.as_str().into(),
    }
    let step = start.step + 1;
    let reason = match &start.started {
        Some(started) if started.goes_back => {
            format!("step {step} of run {} of ApplicationSet {set} goes back", started.run)
        }
        _ => format!("step {step} of the RollingSync of ApplicationSet {set}"),
    };
    json!({
        "initiatedBy": { "username": USERNAME, "automated": true },
        "info": [
            { "name": "Reason", "value": reason },
            { "name": PROMOTION, "value": promotion_text(start.promotion) },
        ],
        "sync": sync,
        "retry": match &policy["retry"] {
            Value::Object(retry) => retry.clone().into(),
            _ => json!({ "limit": 5 }),
        },
    })
}

/// The time of a promotion in the info item: RFC 3339 with nanoseconds.
pub fn promotion_text(promotion: Timestamp) -> String {
    format!("{promotion:.9}")
}

/// The promotion that an operation was written for; `None` if no rollout wrote
/// it. Takes `operation` or `status.operationState.operation`.
pub fn promotion_of(operation: &Value) -> Option<Timestamp> {
    let info = operation["info"].as_array()?;
    let item = info.iter().find(|item| item["name"] == PROMOTION)?;
    item["value"].as_str()?.parse().ok()
}
