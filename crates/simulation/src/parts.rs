//! The parts of watched objects that a simulation reads. There is an event for each change of an
//! object, and most of its text is of no interest here.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

/// What is read of the metadata of an object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Value,
    #[serde(default)]
    namespace: Value,
    #[serde(default)]
    uid: Value,
    #[serde(default)]
    annotations: Value,
    #[serde(default)]
    owner_references: Value,
}

impl Metadata {
    fn into_value(self) -> Value {
        let Self { name, namespace, uid, annotations, owner_references } = self;
        json!({
            "name": name, "namespace": namespace, "uid": uid,
            "annotations": annotations, "ownerReferences": owner_references,
        })
    }
}

/// All of an object, as the server has written it.
pub(super) fn whole(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap_or_default()
}

/// An Application: its metadata, the phases, and whether an operation is requested.
pub(super) fn of_application(json: &[u8]) -> Value {
    #[derive(Deserialize)]
    struct Application {
        metadata: Metadata,
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
    let Ok(Application { metadata, operation, status }) = serde_json::from_slice(json) else {
        return whole(json);
    };
    let Status { sync, health, operation_state } = status;
    json!({
        "metadata": metadata.into_value(),
        "operation": operation.map(|_| json!({})),
        "status": {
            "sync": {"status": sync.status},
            "health": {"status": health.status},
            "operationState": {"phase": operation_state.phase},
        },
    })
}

/// A set: its metadata, its conditions, and what its status says of the rollout.
pub(super) fn of_set(json: &[u8]) -> Value {
    #[derive(Deserialize)]
    struct Set {
        metadata: Metadata,
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
    let Ok(Set { metadata, status }) = serde_json::from_slice(json) else { return whole(json) };
    let Status { conditions, rollout, application_status } = status;
    let entry = |Entry { application, status, step }: Entry| json!({"application": application, "status": status, "step": step});
    let entries: Value = application_status.into_iter().map(entry).collect();
    json!({
        "metadata": metadata.into_value(),
        "status": {"conditions": conditions, "rollout": rollout, "applicationStatus": entries},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_read_is_left_out() {
        let stored = json!({
            "name": "a", "namespace": "ns", "uid": "u", "annotations": {"a": "b"},
            "labels": {"a": "b"}, "managedFields": [{}],
        });
        let metadata = json!({
            "name": "a", "namespace": "ns", "uid": "u", "annotations": {"a": "b"},
            "ownerReferences": null,
        });
        let read = |of: fn(&[u8]) -> Value, object: &Value| of(object.to_string().as_bytes());
        let application = json!({
            "metadata": stored, "spec": {"project": "p"}, "operation": {"sync": {}},
            "status": {
                "sync": {"status": "Synced", "revision": "r"}, "resources": [{}],
                "health": {"status": "Healthy"}, "operationState": {"phase": "Running", "message": "m"},
            },
        });
        let got = read(of_application, &application);
        let want = json!({
            "metadata": metadata, "operation": {},
            "status": {
                "sync": {"status": "Synced"}, "health": {"status": "Healthy"},
                "operationState": {"phase": "Running"},
            },
        });
        assert_eq!(got, want);
        let bare = read(of_application, &json!({"metadata": stored, "operation": null}));
        assert!(bare["operation"].is_null() && bare["status"]["sync"]["status"].is_null());
        let odd = json!({"metadata": stored, "status": 7});
        assert_eq!(read(of_application, &odd), odd);
        assert_eq!(read(of_set, &odd), odd);

        let entry = json!({"application": "a", "status": "Healthy", "step": "1"});
        let mut listed = entry.clone();
        listed["message"] = "m".into();
        let set = json!({
            "metadata": stored, "spec": {},
            "status": {
                "conditions": [{"type": "T"}], "resources": [{}], "rollout": {"step": 1},
                "applicationStatus": [listed],
            },
        });
        let want = json!({
            "metadata": metadata,
            "status": {
                "conditions": [{"type": "T"}], "rollout": {"step": 1}, "applicationStatus": [entry],
            },
        });
        assert_eq!(read(of_set, &set), want);
    }
}
