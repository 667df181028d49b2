//! Which kind of object is meant: group, version and kind, and what is known
//! of it.

use std::sync::Arc;

use serde_json::Value;

use super::resource_key::split_api_version;

/// Group, version and kind; the core group is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    /// API group.
    pub group: String,
    /// Version within the group.
    pub version: String,
    /// Kind.
    pub kind: String,
}

impl GroupVersionKind {
    /// The kind of these parts.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        let [group, version, kind] = [group, version, kind].map(str::to_owned);
        Self { group, version, kind }
    }

    /// The kind of a raw object; what is absent is empty.
    pub fn of(object: &Value) -> Self {
        let KindRef { group, version, kind } = KindRef::of(object);
        Self::new(group, version, kind)
    }

    /// The same, borrowed.
    pub fn borrowed(&self) -> KindRef<'_> {
        KindRef { group: &self.group, version: &self.version, kind: &self.kind }
    }
}

/// Version and kinds of a cluster, as charts see them. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Version of Kubernetes without a suffix, such as `1.33.2`.
    pub version: String,
    /// Each `group/version` and `group/version/Kind`, sorted; the core group as `v1`.
    pub api_versions: Arc<[String]>,
}

/// What the API server says about a kind (SE-205).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// It exists, in namespaces.
    Namespaced,
    /// It exists, outside of namespaces.
    ClusterScoped,
    /// It does not exist in this version.
    Missing {
        /// A kind of this name that does exist, as group and preferred version: of the same
        /// group if there is one.
        installed: Option<(String, String)>,
    },
    /// The question was not answered; the text says why.
    Failed(String),
}

/// A [`GroupVersionKind`] that is borrowed, such as from the object that says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindRef<'a> {
    /// API group, empty for core.
    pub group: &'a str,
    /// API version within the group.
    pub version: &'a str,
    /// Kind.
    pub kind: &'a str,
}

/// Kinds of Kubernetes outside of namespaces.
const CLUSTER_SCOPED: [(&str, &str); 25] = [
    ("", "Namespace"),
    ("", "Node"),
    ("", "PersistentVolume"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
    ("certificates.k8s.io", "CertificateSigningRequest"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
    ("networking.k8s.io", "IngressClass"),
    ("node.k8s.io", "RuntimeClass"),
    ("policy", "PodSecurityPolicy"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "VolumeAttachment"),
    ("storage.k8s.io", "VolumeAttributesClass"),
];

/// API groups that are part of Kubernetes.
const BUILT_IN_GROUPS: [&str; 22] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

impl<'a> KindRef<'a> {
    /// Reads `apiVersion` and `kind`; absent fields are empty.
    pub fn of(object: &'a Value) -> Self {
        let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = split_api_version(text("apiVersion"));
        Self { group, version, kind: text("kind") }
    }

    /// Whether the kind is one of Kubernetes that has no namespace, as far as this is known
    /// without a cluster; false for custom resources.
    pub fn is_cluster_scoped(self) -> bool {
        CLUSTER_SCOPED.contains(&(self.group, self.kind))
    }

    /// Whether the kind is part of Kubernetes, so that its merge keys and defaults are
    /// known (SE-153). Others are custom resources.
    pub fn is_built_in(self) -> bool {
        BUILT_IN_GROUPS.contains(&self.group)
    }

    /// Whether it is a `CustomResourceDefinition`.
    pub fn is_crd(self) -> bool {
        self.group == "apiextensions.k8s.io" && self.kind == "CustomResourceDefinition"
    }

    /// The path of the Pod's spec in the kind, as field names from the root; `None` for a
    /// kind without one, or a custom resource.
    pub fn pod_spec(self) -> Option<&'static [&'static str]> {
        match (self.group, self.kind) {
            ("", "Pod") => Some(&["spec"]),
            ("", "PodTemplate") => Some(&["template", "spec"]),
            ("", "ReplicationController")
            | ("apps" | "extensions", "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet")
            | ("batch", "Job") => Some(&["spec", "template", "spec"]),
            ("batch", "CronJob") => Some(&["spec", "jobTemplate", "spec", "template", "spec"]),
            _ => None,
        }
    }
}

/// Kinds that no Application manages (SE-132): what the cluster writes for
/// itself, in great numbers.
pub fn is_excluded(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        ("events.k8s.io" | "metrics.k8s.io", _) | ("", "Event") | ("coordination.k8s.io", "Lease")
    )
}
