//! Ingress and Gateway (SE-458, SE-477).

use serde_json::Value;

use super::read::{HealthCondition, condition, is_stale_condition};
use super::status::Health;
use wavegate_api::Raw;

/// SE-458. An entry without an address counts: some controllers write `{}`.
pub(crate) fn ingress(object: &Value) -> Health {
    if object.items("/status/loadBalancer/ingress").is_empty() {
        Health::progressing("")
    } else {
        Health::healthy("")
    }
}

/// SE-477. Conditions of an older generation are ignored (see `read`).
pub(crate) fn gateway(object: &Value) -> Health {
    const FAULTS: [&str; 2] = ["ResolvedRefs", "Accepted"];
    let fresh = |c: &HealthCondition<'_>| !is_stale_condition(object, *c);
    for kind in FAULTS {
        if let Some(fault) = condition(object, kind).filter(|c| c.is_false()) {
            return Health::degraded(fault.message());
        }
    }
    for listener in object.items("/status/listeners") {
        let conditions = || listener.items("/conditions").iter().map(HealthCondition);
        for kind in FAULTS {
            let fault = conditions().filter(fresh).find(|c| c.kind() == kind && c.is_false());
            if let Some(fault) = fault {
                return Health::degraded(format!("Listener: {}", fault.message()));
            }
        }
    }
    match condition(object, "Programmed") {
        Some(programmed) if programmed.is_true() => Health::healthy("Gateway is healthy"),
        Some(programmed) => Health::progressing(programmed.message()),
        None => Health::progressing("Waiting for the gateway to be programmed"),
    }
}
