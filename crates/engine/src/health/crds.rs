//! CustomResourceDefinition (SE-472).

use serde_json::Value;

use super::read::{condition, conditions};
use super::status::Health;
use wavegate_api::Raw;

/// SE-472. Without a status, the API server has not processed it yet.
pub(crate) fn crd(object: &Value) -> Health {
    if object.is_deleting() {
        return Health::progressing("CRD is terminating");
    }
    if conditions(object).next().is_none() {
        return Health::progressing("Status conditions not found");
    }
    if let Some(c) = condition(object, "Terminating").filter(|c| c.is_true()) {
        return Health::progressing(format!("CRD is terminating: {}", c.message()));
    }
    if let Some(c) = condition(object, "NamesAccepted").filter(|c| c.is_false()) {
        return Health::degraded(format!("CRD names have not been accepted: {}", c.message()));
    }
    if let Some(c) = condition(object, "NonStructuralSchema").filter(|c| c.is_true()) {
        return Health::degraded(format!("Schema violations found: {}", c.message()));
    }
    match condition(object, "Established") {
        Some(c) if c.is_true() => Health::healthy("CRD is healthy"),
        Some(c) if c.reason() == "Installing" => Health::progressing("CRD is being installed"),
        _ => Health::degraded("CRD is not established"),
    }
}
