//! Deployments, ReplicaSets, StatefulSets and DaemonSets.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{condition, digest, present, time};
use crate::workloads::outcome::{Failure, failure};
use crate::workloads::view::{View, WorkloadStage};

/// A Deployment: first its new ReplicaSet comes up beside the old one, if there
/// is an old one, then it has taken over, or has missed the deadline.
pub(in crate::workloads) fn deployment(
    object: &View<'_>,
    stage: WorkloadStage,
    now: Timestamp,
) -> Option<Value> {
    let replicas = object.replicas();
    if object.spec["paused"] == true {
        let mut paused = json!({ "observedGeneration": object.generation() });
        paused["conditions"] = json!([
            deployment_available(object, object.condition("Available")["status"] == "True", now),
            progress(object, "Unknown", "DeploymentPaused", "Deployment is paused", now),
        ]);
        return Some(paused);
    }
    let set = format!("{}-{}", object.name(), digest(&object.spec["template"]));
    // Nothing to start is done at once, whatever shall become of the rest.
    let stage = if replicas == 0 { WorkloadStage::Succeeded } else { stage };
    // A rolling update keeps the old Pods until the new are ready.
    let kept =
        object.condition("Available")["status"] == "True" && stage != WorkloadStage::Succeeded;
    let had = object.status["readyReplicas"].as_i64().unwrap_or(0);
    let before = object.condition("Progressing");
    let complete = before["reason"] == "NewReplicaSetAvailable"
        && before["message"].as_str().is_some_and(|message| message.contains(&set));
    // More of the same Pods: nothing is replaced, and those that are there stay ready.
    let grows = complete && stage == WorkloadStage::Progressing && 0 < had && had < replicas;
    let (count, updated, ready, unavailable) = match (stage, kept) {
        _ if grows => (replicas, replicas, had, replicas - had),
        (WorkloadStage::Succeeded, _) => (replicas, replicas, replicas, 0),
        (WorkloadStage::Progressing | WorkloadStage::Failed, true) => {
            (replicas + 1, 1, replicas, 1)
        }
        (WorkloadStage::Progressing | WorkloadStage::Failed, false) => {
            (replicas, replicas, 0, replicas)
        }
    };
    let progress = match stage {
        WorkloadStage::Progressing if grows => before.clone(),
        WorkloadStage::Progressing => progress(
            object,
            "True",
            "ReplicaSetUpdated",
            &format!("ReplicaSet \"{set}\" is progressing."),
            now,
        ),
        WorkloadStage::Succeeded => {
            let message = format!("ReplicaSet \"{set}\" has successfully progressed.");
            progress(object, "True", "NewReplicaSetAvailable", &message, now)
        }
        WorkloadStage::Failed => {
            let message = format!("ReplicaSet \"{set}\" has timed out progressing.");
            progress(object, "False", "ProgressDeadlineExceeded", &message, now)
        }
    };
    Some(json!({
        "observedGeneration": object.generation(),
        "replicas": present(count), "updatedReplicas": present(updated),
        "readyReplicas": present(ready), "availableReplicas": present(ready),
        "unavailableReplicas": present(unavailable),
        "conditions": [deployment_available(object, stage == WorkloadStage::Succeeded || (kept && !grows), now), progress],
    }))
}

fn deployment_available(object: &View<'_>, available: bool, now: Timestamp) -> Value {
    let (status, reason, message) = if available {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    updated(object, condition(object, "Available", status, reason, message, now), now)
}

fn progress(object: &View<'_>, status: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    updated(object, condition(object, "Progressing", status, reason, message, now), now)
}

/// Adds `lastUpdateTime`, which conditions of Deployments have: the time of the
/// last change of reason or message.
fn updated(object: &View<'_>, mut condition: Value, now: Timestamp) -> Value {
    let before = object.condition(condition["type"].as_str().unwrap_or_default());
    let same =
        ["status", "reason", "message"].iter().all(|field| before[field] == condition[field]);
    let at = if same { before["lastUpdateTime"].clone() } else { Value::Null };
    condition["lastUpdateTime"] = if at.is_null() { time(now) } else { at };
    condition
}

/// A ReplicaSet. Its only failures are that it never becomes ready, and that a quota forbids
/// its Pods.
pub(in crate::workloads) fn replica_set(
    object: &View<'_>,
    stage: WorkloadStage,
    now: Timestamp,
) -> Option<Value> {
    let replicas = object.replicas();
    let is_forbidden = failure(object) == Failure::FailedCreate && replicas > 0;
    if stage == WorkloadStage::Failed && is_forbidden {
        let message =
            format!("pods \"{}-\" is forbidden: exceeded quota: simulated", object.name());
        let failed = condition(object, "ReplicaFailure", "True", "FailedCreate", &message, now);
        return Some(json!({
            "observedGeneration": object.generation(), "replicas": 0, "fullyLabeledReplicas": null,
            "readyReplicas": null, "availableReplicas": null, "conditions": [failed],
        }));
    }
    let ready = match stage {
        WorkloadStage::Succeeded => replicas,
        // When there shall be more, those that are there stay ready.
        WorkloadStage::Progressing => {
            let had = object.status["readyReplicas"].as_i64().unwrap_or(0);
            if had < replicas { had } else { 0 }
        }
        WorkloadStage::Failed => 0,
    };
    Some(json!({
        "observedGeneration": object.generation(),
        // Never left out: zero replicas is a statement.
        "replicas": replicas, "fullyLabeledReplicas": present(replicas),
        "readyReplicas": present(ready), "availableReplicas": present(ready),
    }))
}

/// A StatefulSet: Pods are replaced one by one, those below a partition stay.
pub(in crate::workloads) fn stateful_set(object: &View<'_>, stage: WorkloadStage) -> Option<Value> {
    let replicas = object.replicas();
    let strategy = &object.spec["updateStrategy"];
    let partition = strategy["rollingUpdate"]["partition"].as_i64().unwrap_or(0).clamp(0, replicas);
    let new = format!("{}-{}", object.name(), digest(&object.spec["template"]));
    let old = object.status["currentRevision"].as_str().unwrap_or(&new).to_owned();
    let updates = old != new;
    let was_ready = object.status["observedGeneration"].as_i64().is_some();
    let (current, ready, current_count, updated_count) = match stage {
        // Only who deletes the Pods brings the new revision on.
        _ if updates && strategy["type"] == "OnDelete" => (old, replicas, replicas, 0),
        WorkloadStage::Succeeded if updates && partition > 0 => {
            (old, replicas, partition, replicas - partition)
        }
        WorkloadStage::Succeeded => (new.clone(), replicas, replicas, replicas),
        WorkloadStage::Progressing | WorkloadStage::Failed if updates => {
            (old, (replicas - 1).max(0), replicas, 0)
        }
        // Started again for another reason than its Pods, say a new scale.
        WorkloadStage::Progressing | WorkloadStage::Failed if was_ready => {
            let had =
                object.status["readyReplicas"].as_i64().unwrap_or(0).min((replicas - 1).max(0));
            (old, had, replicas, replicas)
        }
        WorkloadStage::Progressing | WorkloadStage::Failed => (old, 0, replicas, replicas),
    };
    Some(json!({
        "observedGeneration": object.generation(),
        "replicas": replicas, "readyReplicas": present(ready), "availableReplicas": ready,
        "currentReplicas": present(current_count), "updatedReplicas": present(updated_count),
        "currentRevision": current, "updateRevision": new, "collisionCount": 0,
    }))
}

/// A DaemonSet on `nodes` nodes.
pub(in crate::workloads) fn daemon_set(
    object: &View<'_>,
    stage: WorkloadStage,
    nodes: u32,
) -> Option<Value> {
    let nodes = i64::from(nodes);
    let on_delete = object.spec["updateStrategy"]["type"] == "OnDelete";
    let ran_before = object.status["numberReady"].as_i64().unwrap_or(0) > 0;
    let (updated, ready) = match stage {
        WorkloadStage::Succeeded => (nodes, nodes),
        WorkloadStage::Progressing | WorkloadStage::Failed if ran_before && on_delete => (0, nodes),
        // One node at a time: the first is down for its new Pod.
        WorkloadStage::Progressing | WorkloadStage::Failed if ran_before => {
            (1.min(nodes), (nodes - 1).max(0))
        }
        WorkloadStage::Progressing | WorkloadStage::Failed => (nodes, 0),
    };
    Some(json!({
        "observedGeneration": object.generation(),
        // Never left out, as the real one does.
        "desiredNumberScheduled": nodes, "currentNumberScheduled": nodes, "numberMisscheduled": 0,
        "numberReady": ready, "numberAvailable": present(ready),
        "numberUnavailable": present(nodes - ready), "updatedNumberScheduled": present(updated),
    }))
}
