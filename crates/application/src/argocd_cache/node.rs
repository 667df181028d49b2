//! One object of the resource tree (CA-303 … CA-330).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::facts::{HostFacts, PodFacts};
use super::network::{self, Networking};
use super::parts::Info;
use super::pod;
use wavegate_api::annotations::MANAGED_BY_URL;
use wavegate_api::kind::KindRef;
use wavegate_api::pod::PodView;
use wavegate_api::raw::OwnerReference;
use wavegate_api::resource_key::split_api_version;
use wavegate_api::{GROUP, Raw, ResourceKey, read_leniently};
use wavegate_engine::health::{Checks, Health};

/// An item of the resource tree, as Argo CD's readers expect it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TreeNode {
    /// API group, empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// A version that the API server serves.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Namespace; empty for a cluster-scoped object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// UID; empty for an object that is not in the cluster (CA-304).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// What it belongs to (CA-305).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parent_refs: Vec<ParentRef>,
    /// What is shown beside its name (CA-320 … CA-323).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub info: Vec<Info>,
    /// How it is reached (CA-330 … CA-334).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networking_info: Option<Networking>,
    /// Resource version of the live object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Images of a Pod, sorted (CA-307).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Health; absent for kinds without a check (CA-308).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<NodeHealth>,
    /// When it was created.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub created_at: String,
}

impl TreeNode {
    /// Its key.
    pub fn key(&self) -> ResourceKey {
        ResourceKey::new(&self.group, &self.kind, &self.namespace, &self.name)
    }

    /// The order of lists of nodes (CA-302).
    pub(super) fn place(&self) -> String {
        place(&self.key())
    }
}

/// The order of objects in all lists of these values.
pub(super) fn place(key: &ResourceKey) -> String {
    let ResourceKey { group, kind, namespace, name } = key;
    format!("{group}/{kind}/{namespace}/{name}")
}

/// An object that another one belongs to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ParentRef {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
}

/// The health of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeHealth {
    /// The status in Argo CD's spelling.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// Its message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl From<Health> for NodeHealth {
    fn from(health: Health) -> Self {
        Self { status: health.status.as_str().to_owned(), message: health.message }
    }
}

/// What is kept of a live object for the trees that it is in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TreeEntry {
    /// Its node.
    pub node: TreeNode,
    /// Of a Pod: where it runs and what it requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodFacts>,
    /// Of a Node of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostFacts>,
    /// The object itself where a script says its health, which is evaluated later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Value>,
}

/// An object that another one belongs to, by its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parent {
    /// By its UID.
    Uid(String),
    /// By its key, where no UID is known (CA-313).
    Key(ResourceKey),
    /// By the name that a StatefulSet gives its claims, without the number.
    Claim(ResourceKey),
}

/// What an object has to do with others, by its manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relations {
    /// What it belongs to.
    pub parents: Vec<Parent>,
    /// The names of volume claims that belong to it, without their numbers (CA-313).
    pub claims: Vec<ResourceKey>,
}

/// The labels of `argocd-cm` that are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownLabels {
    /// `resource.customLabels`, of any object (CA-321).
    pub custom: Vec<String>,
    /// `application.allowedNodeLabels`, of Nodes (CA-312).
    pub of_nodes: Vec<String>,
}

impl TreeEntry {
    /// Reads a live object, and what it has to do with others.
    pub fn of(object: &Value, labels: &ShownLabels, checks: &Checks) -> (Self, Relations) {
        let KindRef { group, version, kind } = KindRef::of(object);
        let pod = (group.is_empty() && kind == "Pod").then(|| read_leniently::<PodView>(object));
        let references = references(object);
        let health = checks.known(object);
        let node = TreeNode {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            info: info(object, pod.as_ref(), &labels.custom),
            networking_info: network::of(object),
            resource_version: object.text("/metadata/resourceVersion").to_owned(),
            images: pod.as_ref().map(pod::images).unwrap_or_default(),
            health: health.map(NodeHealth::from),
            created_at: object.text("/metadata/creationTimestamp").to_owned(),
            parent_refs: references.clone(),
        };
        let relations = related(&node.key(), references, object);
        let has_script = checks.scripts.of_object(object).is_some();
        let object_of_script = has_script.then(|| object.clone());
        let host =
            (group.is_empty() && kind == "Node").then(|| HostFacts::of(object, &labels.of_nodes));
        let pod = pod.as_ref().map(PodFacts::of);
        (Self { node, pod, host, object: object_of_script }, relations)
    }
}

/// What a live object has to do with others.
pub fn object_relations(object: &Value) -> Relations {
    let KindRef { group, kind, .. } = KindRef::of(object);
    let key = ResourceKey::new(group, kind, object.namespace(), object.name());
    related(&key, references(object), object)
}

fn related(key: &ResourceKey, references: Vec<ParentRef>, object: &Value) -> Relations {
    let by = references.into_iter().map(|reference| match reference.uid.is_empty() {
        false => Parent::Uid(reference.uid),
        true => {
            let ParentRef { group, kind, name, .. } = &reference;
            Parent::Key(ResourceKey::new(group, kind, object.namespace(), name))
        }
    });
    let claim = claim_of(key).map(Parent::Claim);
    Relations { parents: by.chain(claim).collect(), claims: claims(object) }
}

/// The name of a volume claim without the number of its Pod: a StatefulSet may claim it.
pub(super) fn claim_of(key: &ResourceKey) -> Option<ResourceKey> {
    if !key.group.is_empty() || key.kind != "PersistentVolumeClaim" {
        return None;
    }
    let name = key.name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_numbered = name.len() < key.name.len() && name.ends_with('-');
    is_numbered.then(|| ResourceKey { name: name.to_owned(), ..key.clone() })
}

/// The claims of a StatefulSet: `<template>-<name>-`.
fn claims(object: &Value) -> Vec<ResourceKey> {
    let KindRef { group, kind, .. } = KindRef::of(object);
    if group != "apps" || kind != "StatefulSet" {
        return Vec::new();
    }
    let names = object.items("/spec/volumeClaimTemplates").iter().map(Raw::name);
    let key = |name: &str| {
        let name = format!("{name}-{}-", object.name());
        ResourceKey::new("", "PersistentVolumeClaim", object.namespace(), &name)
    };
    names.filter(|name| !name.is_empty()).map(key).collect()
}

/// The owner references in order, and inferred ones (CA-305, CA-313). The namespace is filled
/// in with the tree, where it is known whether the owner has one.
fn references(object: &Value) -> Vec<ParentRef> {
    let reference = |group: &str, version: &str, kind: &str, name: &str, uid: &str| {
        let [group, version, kind, name, uid] =
            [group, version, kind, name, uid].map(str::to_owned);
        ParentRef { group, version, kind, name, uid, ..ParentRef::default() }
    };
    let owners = object.owners().map(|OwnerReference { api_version, kind, name, uid, .. }| {
        let (group, version) = split_api_version(api_version);
        reference(group, version, kind, name, uid)
    });
    let mut all: Vec<ParentRef> = owners.collect();
    let KindRef { group, kind, .. } = KindRef::of(object);
    match (group, kind) {
        ("", "Endpoints") if all.is_empty() => {
            all.push(reference("", "v1", "Service", object.name(), ""));
        }
        ("", "Secret") if object.field("type") == "kubernetes.io/service-account-token" => {
            if let Some(name) = object.annotation("kubernetes.io/service-account.name") {
                let uid = object.annotation("kubernetes.io/service-account.uid");
                let uid = uid.unwrap_or_default();
                all.push(reference("", "v1", "ServiceAccount", name, uid));
            }
        }
        ("operators.coreos.com", "ClusterServiceVersion") => {
            if let Some(name) = object.annotation("olm.operatorGroup") {
                all.push(reference("operators.coreos.com", "v1", "OperatorGroup", name, ""));
            }
        }
        _ => {}
    }
    all
}

/// The details of any kind, then those of Pods (CA-320 … CA-323).
fn info(object: &Value, pod: Option<&PodView>, custom: &[String]) -> Vec<Info> {
    let KindRef { group, kind, .. } = KindRef::of(object);
    let mut all = Vec::new();
    if let Some(revision) = revision(object) {
        all.push(Info::new("Revision", format!("Rev:{revision}")));
    }
    all.extend(pod.into_iter().flat_map(|pod| pod::info(pod, object.is_deleting())));
    if group == GROUP && kind == "Application" {
        let url = object.annotation(MANAGED_BY_URL);
        all.extend(url.map(|url| Info::new("managed-by-url", url)));
    }
    let shown = custom.iter().filter_map(|label| Some(Info::new(label, object.label(label)?)));
    all.extend(shown);
    all
}

/// The number of a revision of a workload (CA-320).
fn revision(object: &Value) -> Option<i64> {
    let names = ["deployment.kubernetes.io/revision", "rollout.argoproj.io/revision"];
    let number = match names.iter().find_map(|name| object.annotation(name)) {
        Some(text) => text.parse().ok(),
        None => object.get("revision").and_then(Value::as_i64),
    };
    number.filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(api_version: &str, kind: &str, name: &str) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "n"}})
    }

    fn with(mut object: Value, changes: &Value) -> Value {
        json_patch::merge(&mut object, changes);
        object
    }

    /// What an object belongs to, and the claims that belong to it (CA-305, CA-313).
    #[test]
    fn relations_are_read_from_manifests_ca_313() {
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}]);
        let owned = json!({"metadata": {"ownerReferences": owner}});
        let annotated = |annotations: Value| json!({"metadata": {"annotations": annotations}});
        let account = json!({"kubernetes.io/service-account.name": "a"});
        let with_uid = json!({"kubernetes.io/service-account.name": "a",
            "kubernetes.io/service-account.uid": "x"});
        let token = json!({"type": "kubernetes.io/service-account-token"});
        let group = json!({"olm.operatorGroup": "g"});
        let templates = json!({"spec": {"volumeClaimTemplates": [
            {"metadata": {"name": "data"}}, {"metadata": {}}]}});
        let key = |group: &str, kind: &str, name: &str| {
            Parent::Key(ResourceKey::new(group, kind, "n", name))
        };
        let claim = |name: &str| ResourceKey::new("", "PersistentVolumeClaim", "n", name);
        let csv = |annotations: &Value| {
            with(object("operators.coreos.com/v1", "ClusterServiceVersion", "c"), annotations)
        };
        let service_account = key("", "ServiceAccount", "a");
        for (object, parents, claims) in [
            (object("v1", "Pod", "p"), vec![], vec![]),
            (with(object("v1", "Pod", "p"), &owned), vec![Parent::Uid("u".into())], vec![]),
            (object("v1", "Endpoints", "e"), vec![key("", "Service", "e")], vec![]),
            (with(object("v1", "Endpoints", "e"), &owned), vec![Parent::Uid("u".into())], vec![]),
            (object("x.io/v1", "Endpoints", "e"), vec![], vec![]),
            (
                with(with(object("v1", "Secret", "s"), &token), &annotated(account.clone())),
                vec![service_account],
                vec![],
            ),
            (
                with(with(object("v1", "Secret", "s"), &token), &annotated(with_uid)),
                vec![Parent::Uid("x".into())],
                vec![],
            ),
            (with(object("v1", "Secret", "s"), &token), vec![], vec![]),
            (with(object("v1", "Secret", "s"), &annotated(account)), vec![], vec![]),
            (
                csv(&annotated(group)),
                vec![key("operators.coreos.com", "OperatorGroup", "g")],
                vec![],
            ),
            (csv(&json!({})), vec![], vec![]),
            (
                object("v1", "PersistentVolumeClaim", "data-s-12"),
                vec![Parent::Claim(claim("data-s-"))],
                vec![],
            ),
            (object("v1", "PersistentVolumeClaim", "data-s-"), vec![], vec![]),
            (object("v1", "PersistentVolumeClaim", "data12"), vec![], vec![]),
            (object("x.io/v1", "PersistentVolumeClaim", "data-s-1"), vec![], vec![]),
            (object("v1", "Pod", "data-s-1"), vec![], vec![]),
            (
                with(object("apps/v1", "StatefulSet", "s"), &templates),
                vec![],
                vec![claim("data-s-")],
            ),
            (with(object("apps/v1", "Deployment", "s"), &templates), vec![], vec![]),
            (with(object("x.io/v1", "StatefulSet", "s"), &templates), vec![], vec![]),
        ] {
            assert_eq!(object_relations(&object), Relations { parents, claims }, "{object}");
        }
        let node = TreeEntry::of(
            &with(object("v1", "Pod", "p"), &owned),
            &ShownLabels::default(),
            &Checks::default(),
        );
        let references = json!([{"group": "apps", "version": "v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}]);
        assert_eq!(serde_json::to_value(node.0.node.parent_refs).unwrap(), references);
    }

    /// Details of any kind; those of Pods and Nodes by group and kind (CA-312, CA-320 … CA-323).
    #[test]
    fn details_depend_on_group_and_kind_ca_320() {
        let annotated = |key: &str, text: &str| json!({"metadata": {"annotations": {key: text}}});
        let workload = "deployment.kubernetes.io/revision";
        let rollout = "rollout.argoproj.io/revision";
        let deployment = || object("apps/v1", "Deployment", "d");
        let application =
            |api: &str, kind: &str| with(object(api, kind, "a"), &annotated(MANAGED_BY_URL, "u"));
        let labelled = json!({"metadata": {"labels": {"l": "1", "m": "2"}}});
        for (object, want) in [
            (with(deployment(), &annotated(workload, "3")), vec!["Revision=Rev:3"]),
            (with(deployment(), &annotated(rollout, "4")), vec!["Revision=Rev:4"]),
            (with(deployment(), &annotated(workload, "0")), vec![]),
            (with(deployment(), &annotated(workload, "-1")), vec![]),
            (with(deployment(), &annotated(workload, "x")), vec![]),
            (
                with(object("apps/v1", "ControllerRevision", "c"), &json!({"revision": 1})),
                vec!["Revision=Rev:1"],
            ),
            (application("argoproj.io/v1alpha1", "Application"), vec!["managed-by-url=u"]),
            (application("argoproj.io/v1alpha1", "Rollout"), vec![]),
            (application("x.io/v1", "Application"), vec![]),
            (with(deployment(), &labelled), vec!["l=1"]),
        ] {
            let labels = ShownLabels { custom: vec!["l".into(), "k".into()], of_nodes: Vec::new() };
            let (entry, _) = TreeEntry::of(&object, &labels, &Checks::default());
            let shown = serde_json::to_value(&entry.node.info).unwrap();
            let text = |one: &Value| {
                format!("{}={}", one["name"].as_str().unwrap(), one["value"].as_str().unwrap())
            };
            let shown: Vec<String> = shown.as_array().unwrap().iter().map(text).collect();
            assert_eq!(shown, want, "{object}");
        }
        for (api, kind, pod, host) in [
            ("v1", "Pod", true, false),
            ("x.io/v1", "Pod", false, false),
            ("v1", "Node", false, true),
            ("x.io/v1", "Node", false, false),
            ("v1", "Service", false, false),
        ] {
            let object = object(api, kind, "o");
            let (entry, _) = TreeEntry::of(&object, &ShownLabels::default(), &Checks::default());
            assert_eq!((entry.pod.is_some(), entry.host.is_some()), (pod, host), "{api} {kind}");
            assert_eq!(entry.node.info.is_empty(), !pod, "{api} {kind}");
            assert_eq!(entry.object, None);
        }
    }
}
