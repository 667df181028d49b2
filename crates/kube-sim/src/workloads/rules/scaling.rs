//! PodDisruptionBudgets and HorizontalPodAutoscalers, which judge other objects.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::condition;
use crate::workloads::view::{View, WorkloadStage};

/// A budget over healthy Pods, one more than it needs. Its selector
/// is ignored, since there may be no Pods at all.
pub(in crate::workloads) fn disruption_budget(object: &View<'_>, now: Timestamp) -> Option<Value> {
    let needed = object.spec["minAvailable"].as_i64().unwrap_or(1);
    let mut met = condition(object, "DisruptionAllowed", "True", "SufficientPods", "", now);
    met["observedGeneration"] = json!(object.generation());
    Some(json!({
        "observedGeneration": object.generation(),
        "currentHealthy": needed + 1, "desiredHealthy": needed, "expectedPods": needed + 1,
        "disruptionsAllowed": 1, "conditions": [met],
    }))
}

/// An autoscaler that keeps its lower bound, or cannot read its target.
pub(in crate::workloads) fn autoscaler(
    object: &View<'_>,
    stage: WorkloadStage,
    now: Timestamp,
) -> Option<Value> {
    let replicas = object.spec["minReplicas"].as_i64().unwrap_or(1);
    let conditions = match stage {
        WorkloadStage::Progressing => return None,
        WorkloadStage::Succeeded => vec![
            condition(
                object,
                "AbleToScale",
                "True",
                "ReadyForNewScale",
                "recommended size matches current size",
                now,
            ),
            condition(
                object,
                "ScalingActive",
                "True",
                "ValidMetricFound",
                "the HPA was able to successfully calculate a replica count",
                now,
            ),
            condition(
                object,
                "ScalingLimited",
                "False",
                "DesiredWithinRange",
                "the desired count is within the acceptable range",
                now,
            ),
        ],
        WorkloadStage::Failed => {
            let target = object.spec["scaleTargetRef"]["name"].as_str().unwrap_or_default();
            let message = format!(
                "the HPA controller was unable to get the target's current scale: \"{target}\" not found"
            );
            vec![condition(object, "AbleToScale", "False", "FailedGetScale", &message, now)]
        }
    };
    Some(
        json!({ "currentReplicas": replicas, "desiredReplicas": replicas, "conditions": conditions }),
    )
}
