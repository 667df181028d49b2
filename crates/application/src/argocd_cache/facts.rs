//! Where Pods run and what they request, and what the Nodes of the cluster have (CA-312).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::parts::Map;
use wavegate_api::pod::PodView;
use wavegate_api::{Raw, read_leniently};
use wavegate_engine::diff::in_thousandths;

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

    pub(super) fn of(pod: &PodView) -> Self {
        Self {
            host: pod.spec.node_name.clone(),
            has_ended: pod.status.has_ended(),
            requests: requests(pod),
        }
    }
}

/// What the containers of a Pod request.
pub(super) fn requests(pod: &PodView) -> Amounts {
    let mut sum = Amounts::new();
    for container in &pod.spec.containers {
        for resource in COUNTED {
            let amount = amount_of(&container.resources.requests, resource);
            if amount > 0 {
                let of = sum.entry(resource.to_owned()).or_default();
                *of = of.saturating_add(amount);
            }
        }
    }
    sum
}

fn amount_of(quantities: &BTreeMap<String, Value>, resource: &str) -> i64 {
    match quantities.get(resource) {
        Some(Value::String(text)) => in_thousandths(text).unwrap_or_default(),
        Some(Value::Number(number)) => in_thousandths(&number.to_string()).unwrap_or_default(),
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

/// What is read of a Node.
#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeView {
    status: NodeStatusView,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeStatusView {
    capacity: BTreeMap<String, Value>,
    node_info: BTreeMap<String, Value>,
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
        let label = |name: &String| Some((name.clone(), node.label(name)?.to_owned()));
        let NodeStatusView { capacity, node_info } = read_leniently::<NodeView>(node).status;
        let of = |resource: &str| match resource {
            "storage" => {
                amount_of(&capacity, resource).max(amount_of(&capacity, "ephemeral-storage"))
            }
            resource => amount_of(&capacity, resource),
        };
        let amounts = COUNTED.iter().map(|resource| ((*resource).to_owned(), of(resource)));
        let info = |field: &str| node_info.get(field).and_then(Value::as_str).unwrap_or_default();
        Self {
            system: SYSTEM.map(|field| (field.to_owned(), info(field).to_owned())).into(),
            labels: shown.iter().filter_map(label).collect(),
            capacity: amounts.filter(|(_, amount)| *amount > 0).collect(),
        }
    }
}
