//! Pods, as the kubelet reports them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{condition, infrastructure::address, time};
use crate::workloads::outcome::{Failure, failure, message};
use crate::workloads::view::{View, WorkloadStage};

/// Where the containers of a Pod are, all of them alike.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Containers {
    /// No node was found, so that there are none yet.
    Unscheduled,
    Creating,
    Unpulled,
    Running,
    /// Running, and not ready.
    Unready,
    Crashing,
    Exited(i64),
}

impl Containers {
    fn exist(self) -> bool {
        !matches!(self, Self::Unscheduled | Self::Creating | Self::Unpulled)
    }
}

/// A Pod. One that restarts always becomes ready, or crashes again and again; one
/// that runs to its end runs at once, then has succeeded or failed. Either way
/// an ended Pod never changes again.
pub(in crate::workloads) fn pod(
    object: &View<'_>,
    stage: WorkloadStage,
    now: Timestamp,
) -> Option<Value> {
    if matches!(object.status["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return None;
    }
    let long_running = object.spec["restartPolicy"].as_str().unwrap_or("Always") == "Always";
    let (phase, containers) = match (stage, long_running) {
        (WorkloadStage::Progressing, true) => ("Pending", Containers::Creating),
        (WorkloadStage::Progressing, false) | (WorkloadStage::Succeeded, true) => {
            ("Running", Containers::Running)
        }
        (WorkloadStage::Succeeded, false) => ("Succeeded", Containers::Exited(0)),
        (WorkloadStage::Failed, _) => match (failure(object), long_running) {
            (Failure::ImagePullBackOff, _) => ("Pending", Containers::Unpulled),
            (Failure::Unschedulable, _) => ("Pending", Containers::Unscheduled),
            (Failure::Unhealthy, true) => ("Running", Containers::Unready),
            (_, true) => ("Running", Containers::Crashing),
            (_, false) => ("Failed", Containers::Exited(1)),
        },
    };
    let has_address = containers.exist();
    let address = if has_address { json!(address(object)) } else { Value::Null };
    let started = match &object.status["startTime"] {
        Value::Null => time(now),
        started => started.clone(),
    };
    Some(json!({
        "phase": phase,
        "startTime": started,
        "podIP": address,
        "podIPs": if has_address { json!([{ "ip": address }]) } else { Value::Null },
        "conditions": conditions(object, containers, now),
        "initContainerStatuses": container_statuses(object, "initContainers", match containers {
            Containers::Unscheduled | Containers::Creating | Containers::Unpulled => containers,
            Containers::Running
            | Containers::Unready
            | Containers::Crashing
            | Containers::Exited(_) => Containers::Exited(0),
        }, now),
        "containerStatuses": container_statuses(object, "containers", containers, now),
    }))
}

fn conditions(object: &View<'_>, containers: Containers, now: Timestamp) -> Value {
    let (ready, reason, message) = match containers {
        Containers::Running => ("True", "", ""),
        Containers::Exited(0) => ("False", "PodCompleted", ""),
        Containers::Exited(_) => ("False", "PodFailed", ""),
        Containers::Unscheduled
        | Containers::Creating
        | Containers::Unpulled
        | Containers::Unready
        | Containers::Crashing => ("False", "ContainersNotReady", "containers with unready status"),
    };
    let unscheduled = [(
        "PodScheduled",
        "False",
        "Unschedulable",
        "0/1 nodes are available: 1 Insufficient cpu.",
    )];
    let all = [
        ("Initialized", "True", "", ""),
        ("Ready", ready, reason, message),
        ("ContainersReady", ready, reason, message),
        ("PodScheduled", "True", "", ""),
    ];
    let all = if containers == Containers::Unscheduled { &unscheduled[..] } else { &all[..] };
    all.iter()
        .map(|&(kind, status, reason, message)| {
            let mut condition = condition(object, kind, status, reason, message, now);
            if reason.is_empty() {
                condition["reason"] = Value::Null;
                condition["message"] = Value::Null;
            } else if message.is_empty() {
                condition["message"] = Value::Null;
            }
            without_nulls(condition)
        })
        .collect()
}

/// The statuses of the containers in `spec[field]`, in order of their names;
/// null when there are none.
fn container_statuses(
    object: &View<'_>,
    field: &str,
    containers: Containers,
    now: Timestamp,
) -> Value {
    if containers == Containers::Unscheduled {
        return Value::Null;
    }
    let Some(wanted) = object.spec[field].as_array() else { return Value::Null };
    let reported =
        if field == "containers" { "containerStatuses" } else { "initContainerStatuses" };
    wanted
        .iter()
        .map(|container| {
            let before = object.status[reported]
                .as_array()
                .and_then(|all| all.iter().find(|status| status["name"] == container["name"]))
                .map_or(&Value::Null, |status| status);
            container_status(object, container, before, containers, now)
        })
        .collect()
}

fn container_status(
    object: &View<'_>,
    container: &Value,
    before: &Value,
    containers: Containers,
    now: Timestamp,
) -> Value {
    let since = |kept: &Value| if kept.is_null() { time(now) } else { kept.clone() };
    let name = container["name"].as_str().unwrap_or_default();
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    let running_since = since(&before["state"]["running"]["startedAt"]);
    let terminated = |code: i64, kept: &Value| {
        let started = if kept["startedAt"].is_null() { &running_since } else { &kept["startedAt"] };
        let mut terminated = json!({
            "exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" },
            "startedAt": started, "finishedAt": since(&kept["finishedAt"]),
        });
        let said = message(object);
        if code != 0 && !said.is_empty() {
            terminated["message"] = said.into();
        }
        json!({ "terminated": terminated })
    };
    let (state, last, restarts) = match containers {
        Containers::Unscheduled | Containers::Creating => {
            (json!({ "waiting": { "reason": "ContainerCreating" } }), json!({}), 0)
        }
        Containers::Unpulled => {
            let image = container["image"].as_str().unwrap_or_default();
            let message = format!("Back-off pulling image \"{image}\"");
            let waiting =
                json!({ "waiting": { "reason": "ImagePullBackOff", "message": message } });
            (waiting, json!({}), 0)
        }
        Containers::Running | Containers::Unready => {
            (json!({ "running": { "startedAt": running_since } }), json!({}), 0)
        }
        Containers::Exited(code) => {
            (terminated(code, &before["state"]["terminated"]), json!({}), 0)
        }
        Containers::Crashing => {
            let message = format!("back-off 10s restarting failed container={name}");
            let waiting =
                json!({ "waiting": { "reason": "CrashLoopBackOff", "message": message } });
            (waiting, terminated(1, &before["lastState"]["terminated"]), 1)
        }
    };
    let created = containers.exist();
    without_nulls(json!({
        "name": name, "image": container["image"],
        "imageID": if created { container["image"].clone() } else { json!("") },
        "containerID": if created { json!(format!("simulated://{uid}-{name}")) } else { Value::Null },
        "ready": containers == Containers::Running, "started": matches!(containers, Containers::Running | Containers::Unready),
        "restartCount": restarts, "state": state, "lastState": last,
    }))
}

/// Nulls inside a list are values to a merge patch, not absences.
fn without_nulls(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    value
}
