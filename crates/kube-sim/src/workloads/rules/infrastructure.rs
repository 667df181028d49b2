//! What a cloud and a storage provisioner do: claims, load balancers, ingresses.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::workloads::view::{View, WorkloadStage};

/// A claim, bound to what it asked for. No PersistentVolume is made.
pub(in crate::workloads) fn claim(object: &View<'_>, stage: WorkloadStage) -> Option<Value> {
    Some(match stage {
        WorkloadStage::Progressing => json!({ "phase": "Pending" }),
        WorkloadStage::Succeeded => json!({
            "phase": "Bound", "accessModes": object.spec["accessModes"],
            "capacity": { "storage": object.spec["resources"]["requests"]["storage"] },
        }),
        WorkloadStage::Failed => json!({ "phase": "Lost" }),
    })
}

/// A Service of type LoadBalancer gets an address; others are not changed.
pub(in crate::workloads) fn service(object: &View<'_>, stage: WorkloadStage) -> Option<Value> {
    if object.spec["type"] == "LoadBalancer" { load_balancer(object, stage) } else { None }
}

/// An Ingress gets the address of its load balancer.
pub(in crate::workloads) fn ingress(object: &View<'_>, stage: WorkloadStage) -> Option<Value> {
    load_balancer(object, stage)
}

/// One that never gets an address stays as the API server made it.
fn load_balancer(object: &View<'_>, stage: WorkloadStage) -> Option<Value> {
    match stage {
        WorkloadStage::Succeeded => {
            Some(json!({ "loadBalancer": { "ingress": [{ "ip": address(object) }] } }))
        }
        WorkloadStage::Progressing | WorkloadStage::Failed => None,
    }
}

/// An address in the range for benchmarks (198.18.0.0/15), which no real
/// network has. The same object always gets the same.
pub(super) fn address(object: &View<'_>) -> String {
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    let hash = Sha256::digest(uid);
    format!("198.{}.{}.{}", 18 + (hash[0] & 1), hash[1], hash[2])
}
