//! The tree of all objects of an Application (CA-301 … CA-313), and its shards (CA-210).

use std::collections::BTreeSet;

use serde::Serialize;

use super::hosts::{self, Host};
use super::node::{NodeHealth, ParentRef, TreeEntry, TreeNode, claim_of};
use super::parts::is_default;
use wavegate_api::app_status::ApplicationSummary;
use wavegate_api::{GROUP, ResourceKey};

/// A managed resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeRoot {
    /// Its key.
    pub key: ResourceKey,
    /// Its API version within the group.
    pub version: String,
    /// The UID of the live object; `None` if it does not exist.
    pub uid: Option<String>,
}

/// The objects of a cluster that a tree is made of.
#[derive(Debug)]
pub struct TreeObjects {
    /// The live roots and what belongs to them, each once.
    pub nodes: Vec<TreeEntry>,
    /// Orphaned objects (CA-311), and what belongs to them.
    pub orphans: Vec<TreeEntry>,
    /// The cluster's Nodes that run Pods of the tree, with all Pods on them.
    pub cluster: Vec<TreeEntry>,
}

/// The resource tree of an Application.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceTree {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) nodes: Vec<TreeNode>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) orphaned_nodes: Vec<TreeNode>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) hosts: Vec<Host>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) shards_count: usize,
}

/// Finds live objects of the cluster.
pub trait Find {
    /// The UID of an object.
    fn uid(&self, key: &ResourceKey) -> Option<String>;

    /// The nodes of the objects that claim a name (CA-313).
    fn claiming(&self, name: &ResourceKey) -> Vec<TreeNode>;
}

/// Builds the tree.
pub fn build_tree(roots: &[TreeRoot], seen: &TreeObjects, find: &dyn Find) -> ResourceTree {
    let lists = [&seen.nodes, &seen.orphans].map(|entries| {
        let nodes = entries.iter().map(|entry| with_parents(entry, find));
        nodes.collect::<Vec<TreeNode>>()
    });
    let [mut nodes, mut orphaned_nodes] = lists;
    let live: BTreeSet<ResourceKey> = nodes.iter().map(TreeNode::key).collect();
    let missing = roots.iter().filter(|root| root.uid.is_none() && !live.contains(&root.key));
    nodes.extend(missing.map(|root| {
        let ResourceKey { group, kind, namespace, name } = root.key.clone();
        let health = Some(NodeHealth { status: "Missing".to_owned(), message: String::new() });
        TreeNode {
            group,
            kind,
            namespace,
            name,
            health,
            version: root.version.clone(),
            ..TreeNode::default()
        }
    }));
    nodes.sort_by_cached_key(TreeNode::place);
    orphaned_nodes.sort_by_cached_key(TreeNode::place);
    let own: Vec<&TreeEntry> = seen.nodes.iter().collect();
    let hosts = hosts::hosts(&own, &seen.cluster);
    ResourceTree { nodes, orphaned_nodes, hosts, shards_count: 0 }
}

/// The node, with what its own object lacks about its parents.
fn with_parents(entry: &TreeEntry, find: &dyn Find) -> TreeNode {
    let mut node = entry.node.clone();
    let claim = claim_of(&node.key());
    for owner in claim.iter().flat_map(|name| find.claiming(name)) {
        if node.parent_refs.iter().all(|parent| parent.uid != owner.uid) {
            let TreeNode { group, version, kind, namespace, name, uid, .. } = owner;
            node.parent_refs.push(ParentRef { group, version, kind, namespace, name, uid });
        }
    }
    for parent in &mut node.parent_refs {
        let ParentRef { group, kind, name, .. } = &*parent;
        let beside = ResourceKey::new(group, kind, &entry.node.namespace, name);
        let found = find.uid(&beside);
        if let Some(uid) = found {
            if parent.uid.is_empty() {
                parent.uid = uid;
            }
            parent.namespace.clone_from(&entry.node.namespace);
        }
    }
    node
}

impl ResourceTree {
    /// The parts that are stored under a key of their own, `size` items each; 0 for one part
    /// with everything.
    pub fn shards(self, size: usize) -> Vec<Self> {
        if size == 0 || self.is_empty() {
            return vec![self];
        }
        let Self { nodes, orphaned_nodes, hosts, .. } = self;
        let mut shards = vec![Self::default()];
        let mut room = size;
        let mut place = |shards: &mut Vec<Self>, put: &mut dyn FnMut(&mut Self)| {
            if room == 0 {
                shards.push(Self::default());
                room = size;
            }
            room -= 1;
            if let Some(last) = shards.last_mut() {
                put(last);
            }
        };
        for node in nodes {
            place(&mut shards, &mut |shard| shard.nodes.push(node.clone()));
        }
        for node in orphaned_nodes {
            place(&mut shards, &mut |shard| shard.orphaned_nodes.push(node.clone()));
        }
        for host in hosts {
            place(&mut shards, &mut |shard| shard.hosts.push(host.clone()));
        }
        shards[0].shards_count = shards.len();
        shards
    }

    /// Whether it has no item.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.orphaned_nodes.is_empty() && self.hosts.is_empty()
    }

    /// What the status of the Application says about the nodes (CA-506).
    pub fn summary(&self) -> ApplicationSummary {
        let urls = self.nodes.iter().filter_map(|node| node.networking_info.as_ref());
        let urls: BTreeSet<&String> = urls.flat_map(|network| &network.external_urls).collect();
        let images: BTreeSet<&String> = self.nodes.iter().flat_map(|node| &node.images).collect();
        let is_application = |node: &TreeNode| node.group == GROUP && node.kind == "Application";
        ApplicationSummary {
            images: images.into_iter().cloned().collect(),
            external_urls: urls.into_iter().cloned().collect(),
            is_app_of_apps: self.nodes.iter().any(is_application),
        }
    }

    /// The number of orphaned objects.
    pub fn orphans(&self) -> usize {
        self.orphaned_nodes.len()
    }
}
