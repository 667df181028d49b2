//! Automated sync is disabled for Applications of a RollingSync: the rollout
//! starts the syncs (AS-370).

use serde_json::Value;

/// Whether automated sync is enabled: the block exists and `enabled` is not
/// false.
pub fn is_enabled(application: &Value) -> bool {
    let automated = &application["spec"]["syncPolicy"]["automated"];
    automated.is_object() && automated["enabled"] != Value::Bool(false)
}

/// Whether an automated sync would prune.
pub fn prunes(application: &Value) -> bool {
    is_enabled(application)
        && application["spec"]["syncPolicy"]["automated"]["prune"] == Value::Bool(true)
}

/// Sets `enabled: false` in an `automated` block and keeps its other fields. An
/// absent block is not added.
pub fn disable(application: &mut Value) {
    let automated = application.pointer_mut("/spec/syncPolicy/automated");
    if let Some(Value::Object(automated)) = automated {
        automated.insert("enabled".to_owned(), Value::Bool(false));
    }
}
