//! The Nodes of the cluster that run the Pods of an Application (CA-312).

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::node::TreeEntry;
use super::parts::{Map, is_default};

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
    #[serde(skip_serializing_if = "is_default")]
    requested_by_app: i64,
    #[serde(skip_serializing_if = "is_default")]
    requested_by_neighbors: i64,
    capacity: i64,
}

/// The Nodes that run Pods of the tree. `cluster` has these Nodes and all Pods on them.
pub(super) fn hosts(own: &[&TreeEntry], cluster: &[TreeEntry]) -> Vec<Host> {
    let pods = |entry: &&TreeEntry| entry.pod.clone().filter(|pod| !pod.host.is_empty());
    let names: BTreeSet<String> = own.iter().filter_map(pods).map(|pod| pod.host).collect();
    let uids: BTreeSet<&str> = own.iter().map(|entry| entry.node.uid.as_str()).collect();
    let sum = |host: &str, resource: &str, is_own: bool| {
        let pods = cluster.iter().filter(|entry| uids.contains(&*entry.node.uid) == is_own);
        let pods = pods.filter_map(|entry| entry.pod.as_ref());
        let pods = pods.filter(|pod| pod.host == host && (is_own || !pod.has_ended));
        pods.filter_map(|pod| pod.requests.get(resource)).sum()
    };
    let known = cluster.iter().filter(|entry| names.contains(&entry.node.name));
    let mut hosts: Vec<Host> = known
        .filter_map(|entry| {
            let facts = entry.host.as_ref()?;
            let name = entry.node.name.clone();
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
