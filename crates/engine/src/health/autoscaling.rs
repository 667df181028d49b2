//! HorizontalPodAutoscaler (SE-460).

use serde_json::Value;

use super::read::{HealthCondition, is_stale};
use super::status::Health;
use wavegate_api::Raw;

/// Annotation of `autoscaling/v1` with the conditions of later versions.
const V1_CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

const WAITING: &str = "Waiting to Autoscale";

/// SE-460: a reason of a failed read or write is an error whatever the status of its
/// condition; otherwise, being able to scale or at a limit is healthy.
pub fn horizontal_pod_autoscaler(object: &Value) -> Health {
    if is_stale(object) {
        return Health::progressing(WAITING);
    }
    if object.text("/apiVersion") != "autoscaling/v1" {
        return by_conditions(object.items("/status/conditions"));
    }
    let raw = object.annotation(V1_CONDITIONS).unwrap_or_default();
    if raw.is_empty() {
        return Health::progressing(WAITING);
    }
    match serde_json::from_str::<Option<Vec<Value>>>(raw) {
        Ok(conditions) => by_conditions(&conditions.unwrap_or_default()),
        Err(error) => {
            Health::unknown(format!("annotation {V1_CONDITIONS} is not valid JSON: {error}"))
        }
    }
}

fn by_conditions(conditions: &[Value]) -> Health {
    let conditions = || conditions.iter().map(HealthCondition);
    if let Some(fault) = conditions().find(|c| is_fault(*c)) {
        return Health::degraded(fault.message());
    }
    let settled = |c: &HealthCondition<'_>| matches!(c.kind(), "AbleToScale" | "ScalingLimited");
    match conditions().filter(settled).find(|c| c.is_true()) {
        Some(settled) => Health::healthy(settled.message()),
        None => Health::progressing(WAITING),
    }
}

fn is_fault(condition: HealthCondition<'_>) -> bool {
    matches!(
        (condition.kind(), condition.reason()),
        ("AbleToScale", "FailedGetScale" | "FailedUpdateScale")
            | (
                "ScalingActive",
                "FailedGetResourceMetric"
                    | "FailedGetObjectMetric"
                    | "FailedGetPodsMetric"
                    | "FailedGetExternalMetric"
                    | "FailedComputeMetricsReplicas"
                    | "InvalidSelector"
            )
    )
}
