//! The `operation` that starts a sync: the contract between a rollout and the
//! application controller (AS-360, AS-361).

use serde_json::{Value, json};

use super::autosync;
use crate::rollout::Start;
use wavegate_api::sources::InEffect;
use wavegate_engine::promotion::{PROMOTION, USERNAME, promotion_text};

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
