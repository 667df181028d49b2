//! The `operation` that starts a sync: the contract between a rollout and the
//! application controller (AS-360, AS-361).

use serde_json::{Map, Value, json};

use crate::rollout::Start;
use wavegate_api::Raw;
use wavegate_api::live::{LiveSpec, LiveSyncPolicy};
use wavegate_api::sources::InEffect;
use wavegate_engine::promotion::{PROMOTION, USERNAME, promotion_text};

/// The operation for a start.
///
/// `generated` is the Application as generated, before its automated sync is
/// disabled.
pub(crate) fn build(start: &Start, set: &str, generated: &Value) -> Value {
    let spec = LiveSpec::of(generated);
    let prunes = spec.prunes();
    let LiveSyncPolicy { sync_options, retry, .. } = spec.sync_policy;
    let (revision, revisions) = match start.revisions.as_slice() {
        revisions if InEffect::of(generated.spec()).is_list() => {
            (None, Some(revisions).filter(|all| !all.is_empty()))
        }
        revisions => (revisions.first(), None),
    };
    let sync = [
        ("syncOptions", sync_options.map(Value::from)),
        ("prune", prunes.then(|| true.into())),
        ("revision", revision.map(|revision| revision.as_str().into())),
        ("revisions", revisions.map(|revisions| revisions.to_vec().into())),
    ];
    let sync = sync.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?)));
    let sync: Map<String, Value> = sync.collect();
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
        "retry": retry.map_or_else(|| json!({ "limit": 5 }), Value::Object),
    })
}
