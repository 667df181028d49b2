//! Which kinds' schemas are known here, and where they hold a Pod.

use serde_json::Value;

/// Group, version and kind of an object, as far as it says them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind<'a> {
    /// API group, empty for core.
    pub group: &'a str,
    /// API version within the group.
    pub version: &'a str,
    /// Kind.
    pub kind: &'a str,
}

/// The groups whose kinds are part of Kubernetes itself.
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

impl<'a> Kind<'a> {
    /// Reads `apiVersion` and `kind`; what is absent is empty.
    pub fn of(object: &'a Value) -> Self {
        let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let api_version = text("apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self { group, version, kind: text("kind") }
    }

    /// Whether Kubernetes itself has the kind, so that its merge keys and
    /// defaults are known (SE-153). Others are custom resources.
    pub fn is_built_in(self) -> bool {
        BUILT_IN_GROUPS.contains(&self.group)
    }

    /// Whether it is a `CustomResourceDefinition`.
    pub fn is_crd(self) -> bool {
        self.group == "apiextensions.k8s.io" && self.kind == "CustomResourceDefinition"
    }

    /// Where the kind holds a Pod's spec, as field names from the root; `None`
    /// for a kind without one, or a custom resource.
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
