//! What an Application says of itself.

use serde_json::Value;

/// Initiator of the operations of a rollout.
const ROLLOUT: &str = "applicationset-controller";

/// Whether an operation is requested or runs.
pub fn is_busy(app: &Value) -> bool {
    app["operation"].is_object() || matches!(phase(app), "Running" | "Terminating")
}

/// The phase of the last operation.
pub fn phase(app: &Value) -> &str {
    app["status"]["operationState"]["phase"].as_str().unwrap_or_default()
}

/// The requested operation, or the last one.
pub fn operation(app: &Value) -> &Value {
    match &app["operation"] {
        Value::Null => &app["status"]["operationState"]["operation"],
        operation => operation,
    }
}

/// Whether the rollout asked for it.
pub fn is_by_rollout(app: &Value) -> bool {
    operation(app)["initiatedBy"]["username"] == ROLLOUT
}

/// The number of the commit in an operation, a result or a sync status.
pub fn commit(of: &Value) -> Option<u64> {
    let one = of["revision"].as_str().filter(|revision| !revision.is_empty());
    let hash = one.or_else(|| of["revisions"][0].as_str())?;
    u64::from_str_radix(hash.get(..8)?, 16).ok()
}

/// The commit that it was compared with last.
pub fn compared(app: &Value) -> Option<u64> {
    commit(&app["status"]["sync"])
}

/// The commit of its operation: the one that it names, or the one it was compared with.
pub fn target(app: &Value) -> Option<u64> {
    commit(&operation(app)["sync"]).or_else(|| compared(app))
}

/// Its health.
pub fn health(app: &Value) -> &str {
    app["status"]["health"]["status"].as_str().unwrap_or_default()
}

/// Whether its last operation has failed, or what that deployed.
pub fn has_failed(app: &Value) -> bool {
    !is_busy(app) && (matches!(phase(app), "Failed" | "Error") || health(app) == "Degraded")
}

/// The commit with which it is Synced and Healthy after a successful sync, if it is.
pub fn done(app: &Value) -> Option<u64> {
    let status = &app["status"];
    let is_done = !is_busy(app)
        && status["sync"]["status"] == "Synced"
        && health(app) == "Healthy"
        && phase(app) == "Succeeded";
    let commit = compared(app).filter(|_| is_done)?;
    (self::commit(&status["operationState"]["syncResult"]) == Some(commit)).then_some(commit)
}

/// What it carries of the run that started it.
pub fn start(app: &Value) -> Option<Value> {
    serde_json::from_str(app["metadata"]["annotations"]["wavegate.dev/run"].as_str()?).ok()
}
