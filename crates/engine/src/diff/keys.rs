//! How lists and maps of built-in kinds merge (Appendix B.1).
//!
//! Lists that are not listed here are atomic.

use serde_json::Value;
use wavegate_api::kind::KindRef;

/// How a list merges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// Elements are identified by these fields together.
    Keyed(Vec<String>),
    /// Elements are unique scalar values.
    Set,
    /// The list is atomic.
    Atomic,
}

/// Keyed lists of a Pod's spec: path in the spec, and key fields. If server-side apply
/// uses more fields than strategic merge, all are listed: two ports with one number, TCP
/// and UDP, are two.
const POD_LISTS: &[(&[&str], &[&str])] = &[
    (&["containers"], &["name"]),
    (&["initContainers"], &["name"]),
    (&["ephemeralContainers"], &["name"]),
    (&["containers", "ports"], &["containerPort", "protocol"]),
    (&["containers", "env"], &["name"]),
    (&["containers", "volumeMounts"], &["mountPath"]),
    (&["containers", "volumeDevices"], &["devicePath"]),
    (&["volumes"], &["name"]),
    (&["imagePullSecrets"], &["name"]),
    (&["hostAliases"], &["ip"]),
    (&["topologySpreadConstraints"], &["topologyKey", "whenUnsatisfiable"]),
    (&["resourceClaims"], &["name"]),
    (&["schedulingGates"], &["name"]),
];

/// How the list at `path` (field names from the root, without list elements) merges in a
/// built-in kind.
pub fn list_kind(kind: KindRef<'_>, path: &[&str]) -> ListKind {
    let keyed = |keys: &[&str]| ListKind::Keyed(keys.iter().map(|key| (*key).to_owned()).collect());
    if let Some(inside) = kind.pod_spec().and_then(|spec| path.strip_prefix(spec)) {
        return match pod_list(inside) {
            Some(keys) => keyed(keys),
            None => ListKind::Atomic,
        };
    }
    match (kind.group, kind.kind, path) {
        (_, _, [.., "metadata", "finalizers"]) | ("", "Node", ["spec", "podCIDRs"]) => {
            ListKind::Set
        }
        (_, _, [.., "metadata", "ownerReferences"]) => keyed(&["uid"]),
        ("", "Service", ["spec", "ports"]) => keyed(&["port", "protocol"]),
        // Not its imagePullSecrets, which servers treat as atomic.
        ("", "ServiceAccount", ["secrets"]) => keyed(&["name"]),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
            ["webhooks"],
        ) => keyed(&["name"]),
        (_, _, ["status", "conditions"]) => keyed(&["type"]),
        _ => ListKind::Atomic,
    }
}

/// The keys of a list inside a Pod's spec. The three lists of containers hold
/// the same lists.
fn pod_list(path: &[&str]) -> Option<&'static [&'static str]> {
    let same = |known: &[&str]| match (known, path) {
        (["containers", inner], ["containers" | "initContainers" | "ephemeralContainers", at]) => {
            inner == at
        }
        (known, path) => known == path,
    };
    POD_LISTS.iter().find(|(known, _)| same(known)).map(|(_, keys)| *keys)
}

/// The default value of a key field.
pub fn key_default(key: &str) -> Option<&'static str> {
    (key == "protocol").then_some("TCP")
}

/// Whether two elements of a list have the same keys; an absent key has its default.
pub fn are_same(keys: &[String], one: &Value, other: &Value) -> bool {
    let part = |element: &Value, key: &str| {
        element.get(key).cloned().or_else(|| key_default(key).map(Value::from))
    };
    keys.iter().all(|key| part(one, key) == part(other, key))
}

/// Whether the order of a keyed list is significant: init containers run in order.
/// Servers differ in the order of other keyed lists after server-side apply.
pub fn order_counts(kind: KindRef<'_>, path: &[&str]) -> bool {
    let inside = kind.pod_spec().and_then(|spec| path.strip_prefix(spec));
    inside == Some(&["initContainers"])
}

/// Whether an object at `path` keeps only the keys of the target: the previous one of
/// several alternatives must be removed.
pub fn retains_keys(kind: KindRef<'_>, path: &[&str]) -> bool {
    let inside = kind.pod_spec().and_then(|spec| path.strip_prefix(spec));
    inside == Some(&["volumes"])
        || (kind.kind == "Deployment" && kind.is_built_in() && path == ["spec", "strategy"])
}

/// Whether an object at `path` is replaced as a whole.
pub fn is_atomic_map(kind: KindRef<'_>, path: &[&str]) -> bool {
    kind.group == "policy" && kind.kind == "PodDisruptionBudget" && path == ["spec", "selector"]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_appendix_b1() {
        let deployment = KindRef { group: "apps", version: "v1", kind: "Deployment" };
        let cron_job = KindRef { group: "batch", version: "v1", kind: "CronJob" };
        let service = KindRef { group: "", version: "v1", kind: "Service" };
        let policy = KindRef { group: "networking.k8s.io", version: "v1", kind: "NetworkPolicy" };
        let rows: [(KindRef<'_>, &str, &str); 14] = [
            (deployment, "spec.template.spec.containers", "name"),
            (deployment, "spec.template.spec.initContainers.env", "name"),
            (deployment, "spec.template.spec.containers.ports", "containerPort,protocol"),
            (deployment, "spec.template.spec.ephemeralContainers.volumeMounts", "mountPath"),
            (deployment, "spec.template.spec.volumes", "name"),
            (deployment, "spec.template.spec.tolerations", ""),
            (deployment, "spec.template.spec.containers.args", ""),
            (deployment, "spec.template.spec.volumes.projected.sources", ""),
            (cron_job, "spec.jobTemplate.spec.template.spec.hostAliases", "ip"),
            (service, "spec.ports", "port,protocol"),
            (service, "metadata.ownerReferences", "uid"),
            (service, "status.conditions", "type"),
            (policy, "spec.ingress.ports", ""),
            (policy, "metadata.finalizers", "{}"),
        ];
        for (kind, path, want) in rows {
            let path: Vec<&str> = path.split('.').collect();
            let found = match list_kind(kind, &path) {
                ListKind::Keyed(keys) => keys.join(","),
                ListKind::Set => "{}".to_owned(),
                ListKind::Atomic => String::new(),
            };
            assert_eq!(found, want, "{} {path:?}", kind.kind);
        }
        assert!(retains_keys(deployment, &["spec", "strategy"]));
        assert!(retains_keys(deployment, &["spec", "template", "spec", "volumes"]));
        assert!(!retains_keys(service, &["spec", "strategy"]));
        let budget = KindRef { group: "policy", version: "v1", kind: "PodDisruptionBudget" };
        let other = KindRef { kind: "PodSecurityPolicy", ..budget };
        for (kind, path, want) in [
            (budget, ["spec", "selector"], true),
            (budget, ["spec", "other"], false),
            (other, ["spec", "selector"], false),
            (KindRef { group: "apps", ..budget }, ["spec", "selector"], false),
        ] {
            assert_eq!(is_atomic_map(kind, &path), want, "{} {path:?}", kind.kind);
        }
    }
}
