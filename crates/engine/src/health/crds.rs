//! CustomResourceDefinition, and kinds of common operators (SE-472, SE-474, SE-475).

use serde_json::Value;

use super::read::{condition, conditions, is_stale, is_stale_condition};
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

/// SE-474, Certificate: a renewal in progress takes precedence over the existing certificate.
pub(crate) fn certificate(object: &Value) -> Health {
    let issuing =
        condition(object, "Issuing").filter(|c| c.is_true() && !is_stale_condition(object, *c));
    match issuing {
        Some(issuing) => Health::progressing(issuing.message()),
        None => by_condition(object, "Ready", "Waiting for certificate"),
    }
}

/// SE-474, Issuer.
pub(crate) fn issuer(object: &Value) -> Health {
    by_condition(object, "Ready", "Initializing issuer")
}

/// SE-475, ExternalSecret.
pub fn external_secret(object: &Value) -> Health {
    by_condition(object, "Ready", "Waiting for ExternalSecret")
}

/// SE-475, SealedSecret.
pub fn sealed_secret(object: &Value) -> Health {
    by_condition(object, "Synced", "Waiting for Sealed Secret to be decrypted")
}

/// Health by one condition: False is Degraded, True is Healthy; otherwise, and for an
/// older generation, Progressing with the message `waiting`.
fn by_condition(object: &Value, kind: &str, waiting: &str) -> Health {
    let fresh =
        condition(object, kind).filter(|c| !is_stale(object) && !is_stale_condition(object, *c));
    match fresh {
        Some(c) if c.is_false() => Health::degraded(c.message()),
        Some(c) if c.is_true() => Health::healthy(c.message()),
        _ => Health::progressing(waiting),
    }
}
