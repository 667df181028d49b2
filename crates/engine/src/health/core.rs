//! Service, PersistentVolumeClaim, PodDisruptionBudget and APIService
//! (SE-456, SE-457, SE-459, SE-473).

use serde_json::Value;

use super::read::{condition, conditions, is_stale};
use super::status::Health;
use wavegate_api::Raw;

/// SE-456. Only a load balancer has an address to wait for.
pub(crate) fn service(object: &Value) -> Health {
    let balancer = object.text("/spec/type") == "LoadBalancer";
    if balancer && object.items("/status/loadBalancer/ingress").is_empty() {
        Health::progressing("")
    } else {
        Health::healthy("")
    }
}

/// SE-457.
pub fn persistent_volume_claim(object: &Value) -> Health {
    match object.text("/status/phase") {
        "Lost" => Health::degraded(""),
        "Pending" => Health::progressing(""),
        "Bound" => Health::healthy(""),
        _ => Health::unknown(""),
    }
}

/// SE-459.
pub fn api_service(object: &Value) -> Health {
    let Some(available) = condition(object, "Available") else {
        return Health::progressing("Waiting to be processed");
    };
    let message = format!("{}: {}", available.reason(), available.message());
    if available.is_true() { Health::healthy(message) } else { Health::progressing(message) }
}

/// SE-473. Too few Pods are what a budget reports, and not an error of the budget.
pub fn pod_disruption_budget(object: &Value) -> Health {
    if is_stale(object) {
        return Health::progressing("Waiting for the spec update to be observed");
    }
    let says = |reason: &str| format!("PodDisruptionBudget has {reason}");
    let fault = conditions(object).find(|c| c.is_false() && c.reason() != "InsufficientPods");
    if let Some(fault) = fault {
        return Health::degraded(says(fault.reason()));
    }
    match conditions(object).next() {
        Some(condition) => Health::healthy(says(condition.reason())),
        None => Health::progressing("Waiting for status"),
    }
}
