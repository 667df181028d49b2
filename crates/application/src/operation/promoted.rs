//! The start of an operation that a rollout requests, in the patch with its request (SE-370).

use jiff::Timestamp;
use serde_json::Value;

use super::{
    OperationStage, begin_operation, is_complete, operation_stage, pin, requested_revisions,
};
use crate::app::App;

/// The message until a worker observes what is to be synced.
const BEGINS: &str = "it begins once a worker is free";

/// An Application whose requested operation has begun, so that the patch with the request has what
/// must be stored before anything is applied. `None` where that depends on more: on commits that are
/// not requested, or because another operation runs.
pub fn begun_operation(requested: Value, now: Timestamp) -> Option<Value> {
    let mut app = App::of(requested);
    if operation_stage(&app) != OperationStage::Requested {
        return None;
    }
    begin_operation(&mut app, now);
    if !is_complete(&app) {
        return None;
    }
    let given = requested_revisions(&app.status.operation_state);
    pin(&mut app, &given);
    BEGINS.clone_into(&mut app.status.operation_state.message);
    app.written()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn application(revision: &str, state: Value) -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "argocd"},
            "spec": {"source": {"repoURL": "https://git.example.com/a", "path": "web"}},
            "operation": {"sync": {"revision": revision}},
            "status": {"operationState": state},
        })
    }

    #[test]
    fn what_is_stored_before_anything_is_applied_comes_with_the_request_se_370() {
        let commit = "a".repeat(40);
        let before = json!({
            "phase": "Failed", "startedAt": "2026-01-02T03:04:05Z", "finishedAt": "2026-01-02T03:04:06Z",
            "message": "failed", "retryCount": 2,
            "operation": {"sync": {"revision": "b"}},
            "syncResult": {"revision": "b", "resources": [{"kind": "ConfigMap", "name": "a"}]},
        });
        let now = "2026-01-02T03:04:05.5Z".parse().unwrap();
        let begun = begun_operation(application(&commit, before), now).unwrap();
        assert_eq!(
            begun["status"]["operationState"],
            json!({
                // No two begin in the same second.
                "phase": "Running", "startedAt": "2026-01-02T03:04:06Z",
                "message": BEGINS,
                "operation": {"sync": {"revision": commit}},
                "syncResult": {
                    "revision": commit,
                    "source": {"repoURL": "https://git.example.com/a", "path": "web"},
                },
            })
        );
        assert_eq!(begun["operation"], json!({"sync": {"revision": commit}}));
    }

    #[test]
    fn what_depends_on_more_only_is_requested() {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let commit = "a".repeat(40);
        let running = json!({"phase": "Running", "startedAt": "2026-01-02T03:04:05Z"});
        for (revision, state) in [("", json!({})), ("main", json!({})), (&*commit, running)] {
            assert_eq!(
                begun_operation(application(revision, state.clone()), now),
                None,
                "{revision} {state}"
            );
        }
        let mut idle = application(&commit, json!({}));
        idle.as_object_mut().unwrap().remove("operation");
        assert_eq!(begun_operation(idle, now), None);
    }
}
