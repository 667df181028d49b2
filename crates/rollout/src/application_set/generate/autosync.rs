//! Automated sync is disabled for Applications of a RollingSync: the rollout
//! starts the syncs (AS-370).

use serde_json::Value;

/// Sets `enabled: false` in an `automated` block and keeps its other fields. An
/// absent block is not added.
pub(crate) fn disable(application: &mut Value) {
    let automated = application.pointer_mut("/spec/syncPolicy/automated");
    if let Some(Value::Object(automated)) = automated {
        automated.insert("enabled".to_owned(), Value::Bool(false));
    }
}
