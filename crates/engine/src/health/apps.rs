//! Deployment, StatefulSet, DaemonSet and ReplicaSet (SE-450 … SE-453).
//!
//! The generation is compared before any counter is read: counters of an older generation
//! describe Pods that will be replaced.

use serde_json::Value;

use super::read::{condition, conditions, count, generation, is_true, number};
use super::status::Health;
use wavegate_api::Raw;

const OBSERVED: &str = "/status/observedGeneration";

/// SE-450. A paused Deployment is Suspended even when it also failed, since it does not
/// change until it is resumed (V-119).
pub(crate) fn deployment(object: &Value) -> Health {
    if is_true(object, "/spec/paused") {
        return Health::suspended("Deployment is paused");
    }
    if generation(object) > count(object, OBSERVED) {
        return Health::progressing(
            "Waiting for rollout to finish: observed deployment generation less than desired generation",
        );
    }
    let late = condition(object, "Progressing")
        .is_some_and(|progress| progress.reason() == "ProgressDeadlineExceeded");
    if late {
        let name = object.name();
        return Health::degraded(format!("Deployment {name:?} exceeded its progress deadline"));
    }
    let updated = count(object, "/status/updatedReplicas");
    let available = count(object, "/status/availableReplicas");
    if let Some(replicas) = number(object, "/spec/replicas")
        && updated < replicas
    {
        return Health::progressing(format!(
            "Waiting for rollout to finish: {updated} out of {replicas} new replicas have been updated..."
        ));
    }
    let old = count(object, "/status/replicas").saturating_sub(updated);
    if old > 0 {
        return Health::progressing(format!(
            "Waiting for rollout to finish: {old} old replicas are pending termination..."
        ));
    }
    if available < updated {
        return Health::progressing(format!(
            "Waiting for rollout to finish: {available} of {updated} updated replicas are available..."
        ));
    }
    Health::healthy("")
}

/// SE-451. Never Degraded: a StatefulSet has no progress deadline (SE-466).
pub fn stateful_set(object: &Value) -> Health {
    let observed = count(object, OBSERVED);
    if observed == 0 || generation(object) > observed {
        return Health::progressing("Waiting for statefulset spec update to be observed...");
    }
    let replicas = number(object, "/spec/replicas");
    let ready = count(object, "/status/readyReplicas");
    let updated = count(object, "/status/updatedReplicas");
    if let Some(replicas) = replicas
        && ready < replicas
    {
        let missing = replicas.saturating_sub(ready);
        return Health::progressing(format!("Waiting for {missing} pods to be ready..."));
    }
    let strategy = object.text("/spec/updateStrategy/type");
    let block = object.pointer("/spec/updateStrategy/rollingUpdate").is_some_and(Value::is_object);
    if strategy == "RollingUpdate" && block {
        let partition = number(object, "/spec/updateStrategy/rollingUpdate/partition");
        if let (Some(partition), Some(replicas)) = (partition, replicas) {
            let wanted = replicas.saturating_sub(partition);
            if updated < wanted {
                return Health::progressing(format!(
                    "Waiting for partitioned roll out to finish: {updated} out of {wanted} new pods have been updated..."
                ));
            }
        }
        return Health::healthy(format!(
            "partitioned roll out complete: {updated} new pods have been updated..."
        ));
    }
    if strategy == "OnDelete" {
        return Health::healthy(format!("statefulset has {ready} ready pods"));
    }
    let update = object.text("/status/updateRevision");
    let current = object.text("/status/currentRevision");
    if update != current {
        return Health::progressing(format!(
            "waiting for statefulset rolling update to complete {updated} pods at revision {update}..."
        ));
    }
    let at_current = count(object, "/status/currentReplicas");
    Health::healthy(format!(
        "statefulset rolling update complete {at_current} pods at revision {current}..."
    ))
}

/// SE-452.
pub fn daemon_set(object: &Value) -> Health {
    if generation(object) > count(object, OBSERVED) {
        return Health::progressing(
            "Waiting for rollout to finish: observed daemon set generation less than desired generation",
        );
    }
    let name = object.name();
    let desired = count(object, "/status/desiredNumberScheduled");
    let updated = count(object, "/status/updatedNumberScheduled");
    let available = count(object, "/status/numberAvailable");
    if object.text("/spec/updateStrategy/type") == "OnDelete" {
        return Health::healthy(format!(
            "daemon set {updated} out of {desired} new pods have been updated"
        ));
    }
    if updated < desired {
        return Health::progressing(format!(
            "Waiting for daemon set {name:?} rollout to finish: {updated} out of {desired} new pods have been updated..."
        ));
    }
    if available < desired {
        return Health::progressing(format!(
            "Waiting for daemon set {name:?} rollout to finish: {available} of {desired} updated pods are available..."
        ));
    }
    Health::healthy("")
}

/// SE-453.
pub fn replica_set(object: &Value) -> Health {
    if generation(object) > count(object, OBSERVED) {
        return Health::progressing(
            "Waiting for rollout to finish: observed replica set generation less than desired generation",
        );
    }
    let failure = conditions(object).find(|c| c.kind() == "ReplicaFailure" && c.is_true());
    if let Some(failure) = failure {
        return Health::degraded(failure.message());
    }
    let available = count(object, "/status/availableReplicas");
    if let Some(replicas) = number(object, "/spec/replicas")
        && available < replicas
    {
        return Health::progressing(format!(
            "Waiting for rollout to finish: {available} out of {replicas} new replicas are available..."
        ));
    }
    Health::healthy("")
}
