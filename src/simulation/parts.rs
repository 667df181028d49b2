//! The parts of watched objects that a simulation reads. There is an event for each change of an
//! object, and most of its text is of no interest here.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::watch::object::Object;

/// An Application: its metadata, the phases, and whether an operation is requested.
pub(super) fn of_application(object: &Object) -> Value {
    #[derive(Deserialize)]
    struct Application {
        metadata: Value,
        #[serde(default)]
        operation: Option<IgnoredAny>,
        #[serde(default)]
        status: Status,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Status {
        sync: Part,
        health: Part,
        operation_state: Part,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Part {
        status: Value,
        phase: Value,
    }
    let Ok(Application { metadata, operation, status }) = object.read() else {
        return object.parse();
    };
    let Status { sync, health, operation_state } = status;
    json!({
        "metadata": metadata,
        "operation": operation.map(|_| json!({})),
        "status": {
            "sync": {"status": sync.status},
            "health": {"status": health.status},
            "operationState": {"phase": operation_state.phase},
        },
    })
}

/// A set: its metadata, its conditions, and what its status says of the rollout.
pub(super) fn of_set(object: &Object) -> Value {
    #[derive(Deserialize)]
    struct Set {
        metadata: Value,
        #[serde(default)]
        status: Status,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Status {
        conditions: Value,
        rollout: Value,
        application_status: Vec<Entry>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Entry {
        application: Value,
        status: Value,
        step: Value,
    }
    let Ok(Set { metadata, status }) = object.read() else { return object.parse() };
    let Status { conditions, rollout, application_status } = status;
    let entry = |Entry { application, status, step }: Entry| json!({"application": application, "status": status, "step": step});
    let entries: Value = application_status.into_iter().map(entry).collect();
    json!({
        "metadata": metadata,
        "status": {"conditions": conditions, "rollout": rollout, "applicationStatus": entries},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_read_is_left_out() {
        let metadata =
            json!({"name": "a", "namespace": "ns", "uid": "u", "annotations": {"a": "b"}});
        let application = json!({
            "metadata": metadata, "spec": {"project": "p"}, "operation": {"sync": {}},
            "status": {
                "sync": {"status": "Synced", "revision": "r"}, "resources": [{}],
                "health": {"status": "Healthy"}, "operationState": {"phase": "Running", "message": "m"},
            },
        });
        let got = of_application(&application.clone().into());
        let want = json!({
            "metadata": metadata, "operation": {},
            "status": {
                "sync": {"status": "Synced"}, "health": {"status": "Healthy"},
                "operationState": {"phase": "Running"},
            },
        });
        assert_eq!(got, want);
        let bare = of_application(&json!({"metadata": metadata, "operation": null}).into());
        assert!(bare["operation"].is_null() && bare["status"]["sync"]["status"].is_null());
        let odd = json!({"metadata": metadata, "status": 7});
        assert_eq!(of_application(&odd.clone().into()), odd);
        assert_eq!(of_set(&odd.clone().into()), odd);

        let entry = json!({"application": "a", "status": "Healthy", "step": "1"});
        let mut stored = entry.clone();
        stored["message"] = "m".into();
        let set = json!({
            "metadata": metadata, "spec": {},
            "status": {
                "conditions": [{"type": "T"}], "resources": [{}], "rollout": {"step": 1},
                "applicationStatus": [stored],
            },
        });
        let want = json!({
            "metadata": metadata,
            "status": {
                "conditions": [{"type": "T"}], "rollout": {"step": 1}, "applicationStatus": [entry],
            },
        });
        assert_eq!(of_set(&set.into()), want);
    }
}
