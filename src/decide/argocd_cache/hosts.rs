//! The Nodes of the cluster that run the Pods of an Application (CA-312).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::node::{Map, Sight};
use crate::api::Raw;
use crate::decide::diff::thousandths;

/// The resources that are counted.
const COUNTED: [&str; 3] = ["cpu", "memory", "storage"];

/// Amounts in thousandths, by resource.
pub(super) type Amounts = BTreeMap<String, i64>;

/// Where a Pod runs, and what it requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodFacts {
    /// `spec.nodeName`.
    host: String,
    /// Whether it has ended, and takes nothing any more.
    has_ended: bool,
    requests: Amounts,
}

impl PodFacts {
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
    system: BTreeMap<String, String>,
    labels: Map,
    capacity: Amounts,
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

/// A Node as readers expect it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    pub(super) name: String,
    resources_info: Vec<HostResource>,
    system_info: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    labels: Map,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct HostResource {
    resource_name: String,
    #[serde(skip_serializing_if = "is_zero")]
    requested_by_app: i64,
    #[serde(skip_serializing_if = "is_zero")]
    requested_by_neighbors: i64,
    capacity: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_zero(amount: &i64) -> bool {
    *amount == 0
}

/// The Nodes that run Pods of the tree. `cluster` has all Nodes and Pods.
pub(super) fn hosts(own: &[&Sight], cluster: &[Sight]) -> Vec<Host> {
    let pods = |sight: &&Sight| sight.pod.clone().filter(|pod| !pod.host.is_empty());
    let names: BTreeSet<String> = own.iter().filter_map(pods).map(|pod| pod.host).collect();
    let uids: BTreeSet<&str> = own.iter().map(|sight| sight.node.uid.as_str()).collect();
    let sum = |host: &str, resource: &str, is_own: bool| {
        let pods = cluster.iter().filter(|sight| uids.contains(&*sight.node.uid) == is_own);
        let pods = pods.filter_map(|sight| sight.pod.as_ref());
        let pods = pods.filter(|pod| pod.host == host && (is_own || !pod.has_ended));
        pods.filter_map(|pod| pod.requests.get(resource)).sum()
    };
    let known = cluster.iter().filter(|sight| names.contains(&sight.node.name));
    let mut hosts: Vec<Host> = known
        .filter_map(|sight| {
            let facts = sight.host.as_ref()?;
            let name = sight.node.name.clone();
            let resources = facts.capacity.iter().map(|(resource, capacity)| HostResource {
                resource_name: resource.clone(),
                requested_by_app: sum(&name, resource, true),
                requested_by_neighbors: sum(&name, resource, false),
                capacity: *capacity,
            });
            Some(Host {
                resources_info: resources.collect(),
                system_info: facts.system.clone(),
                labels: facts.labels.clone(),
                name,
            })
        })
        .collect();
    hosts.sort_by(|one, other| one.name.cmp(&other.name));
    hosts
}
