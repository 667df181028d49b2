//! Where Pods run and what they request, and what the Nodes of the cluster have (CA-312).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::parts::Map;
use wavegate_api::Raw;
use wavegate_engine::diff::thousandths;

/// The resources that are counted.
const COUNTED: [&str; 3] = ["cpu", "memory", "storage"];

/// Amounts in thousandths, by resource.
pub(super) type Amounts = BTreeMap<String, i64>;

/// Where a Pod runs, and what it requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodFacts {
    /// `spec.nodeName`.
    pub(super) host: String,
    /// Whether it has ended, and takes nothing any more.
    pub(super) has_ended: bool,
    pub(super) requests: Amounts,
}

impl PodFacts {
    /// The name of the Node that it runs on, once it is scheduled.
    pub fn node(&self) -> Option<&str> {
        Some(&*self.host).filter(|host| !host.is_empty())
    }

    pub(super) fn of(pod: &Value) -> Self {
        Self {
            host: pod.text("/spec/nodeName").to_owned(),
            has_ended: matches!(pod.text("/status/phase"), "Succeeded" | "Failed"),
            requests: requests(pod),
        }
    }
}

/// What the containers of a Pod request.
pub(super) fn requests(pod: &Value) -> Amounts {
    let mut sum = Amounts::new();
    for container in pod.items("/spec/containers") {
        for resource in COUNTED {
            let amount = amount(&container["resources"]["requests"][resource]);
            if amount > 0 {
                let of = sum.entry(resource.to_owned()).or_default();
                *of = of.saturating_add(amount);
            }
        }
    }
    sum
}

fn amount(quantity: &Value) -> i64 {
    match quantity {
        Value::String(text) => thousandths(text).unwrap_or_default(),
        Value::Number(number) => thousandths(&number.to_string()).unwrap_or_default(),
        _ => 0,
    }
}

/// What is shown of a Node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    pub(super) system: BTreeMap<String, String>,
    pub(super) labels: Map,
    pub(super) capacity: Amounts,
}

/// The fields of `status.nodeInfo`, shown even when they are empty.
const SYSTEM: [&str; 10] = [
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
];

impl HostFacts {
    /// Reads a Node, with the labels that may be shown.
    pub(super) fn of(node: &Value, shown: &[String]) -> Self {
        let own = &node["metadata"]["labels"];
        let labels = shown.iter();
        let labels = labels.filter_map(|name| Some((name.clone(), own[name].as_str()?.to_owned())));
        let capacity = &node["status"]["capacity"];
        let of = |resource: &str| match resource {
            "storage" => amount(&capacity["storage"]).max(amount(&capacity["ephemeral-storage"])),
            resource => amount(&capacity[resource]),
        };
        let amounts = COUNTED.iter().map(|resource| ((*resource).to_owned(), of(resource)));
        let info = &node["status"]["nodeInfo"];
        Self {
            system: SYSTEM.map(|field| (field.to_owned(), info.field(field).to_owned())).into(),
            labels: labels.collect(),
            capacity: amounts.filter(|(_, amount)| *amount > 0).collect(),
        }
    }
}
