//! The table of built-in kinds.
//!
//! A row names a kind once; versions that share storage are listed together,
//! the first one being the one that objects are kept in.

use super::event_expiry;
use super::kinds::{Generation, Kind, Registry, ResourceKey, Scale};

/// A built-in kind: group, versions, kind, plural, short names, and flags:
/// `n` namespaced, `s` status, `g` generation, `r` scale, `a` category `all`.
type Row = (
    &'static str,
    &'static [&'static str],
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static str,
);

const ROWS: &[Row] = &[
    ("", &["v1"], "Namespace", "namespaces", &["ns"], "s"),
    ("", &["v1"], "Node", "nodes", &["no"], "s"),
    ("", &["v1"], "Pod", "pods", &["po"], "nsa"),
    ("", &["v1"], "Service", "services", &["svc"], "nsa"),
    ("", &["v1"], "Endpoints", "endpoints", &["ep"], "n"),
    ("", &["v1"], "ConfigMap", "configmaps", &["cm"], "n"),
    ("", &["v1"], "Secret", "secrets", &[], "n"),
    ("", &["v1"], "ServiceAccount", "serviceaccounts", &["sa"], "n"),
    ("", &["v1"], "PersistentVolume", "persistentvolumes", &["pv"], "s"),
    ("", &["v1"], "PersistentVolumeClaim", "persistentvolumeclaims", &["pvc"], "ns"),
    ("", &["v1"], "Event", "events", &["ev"], "n"),
    ("", &["v1"], "LimitRange", "limitranges", &["limits"], "n"),
    ("", &["v1"], "ResourceQuota", "resourcequotas", &["quota"], "ns"),
    ("", &["v1"], "ReplicationController", "replicationcontrollers", &["rc"], "nsgra"),
    ("", &["v1"], "PodTemplate", "podtemplates", &[], "n"),
    ("apps", &["v1"], "Deployment", "deployments", &["deploy"], "nsgra"),
    ("apps", &["v1"], "ReplicaSet", "replicasets", &["rs"], "nsgra"),
    ("apps", &["v1"], "StatefulSet", "statefulsets", &["sts"], "nsgra"),
    ("apps", &["v1"], "DaemonSet", "daemonsets", &["ds"], "nsga"),
    ("apps", &["v1"], "ControllerRevision", "controllerrevisions", &[], "n"),
    ("batch", &["v1"], "Job", "jobs", &[], "nsga"),
    ("batch", &["v1"], "CronJob", "cronjobs", &["cj"], "nsga"),
    (
        "autoscaling",
        &["v2", "v1"],
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        &["hpa"],
        "nsa",
    ),
    ("networking.k8s.io", &["v1"], "Ingress", "ingresses", &["ing"], "nsg"),
    ("networking.k8s.io", &["v1"], "NetworkPolicy", "networkpolicies", &["netpol"], "ng"),
    ("networking.k8s.io", &["v1"], "IngressClass", "ingressclasses", &[], "g"),
    ("rbac.authorization.k8s.io", &["v1"], "Role", "roles", &[], "n"),
    ("rbac.authorization.k8s.io", &["v1"], "RoleBinding", "rolebindings", &[], "n"),
    ("rbac.authorization.k8s.io", &["v1"], "ClusterRole", "clusterroles", &[], ""),
    ("rbac.authorization.k8s.io", &["v1"], "ClusterRoleBinding", "clusterrolebindings", &[], ""),
    ("policy", &["v1"], "PodDisruptionBudget", "poddisruptionbudgets", &["pdb"], "nsg"),
    ("storage.k8s.io", &["v1"], "StorageClass", "storageclasses", &["sc"], ""),
    ("storage.k8s.io", &["v1"], "VolumeAttachment", "volumeattachments", &[], "s"),
    ("storage.k8s.io", &["v1"], "CSIDriver", "csidrivers", &[], ""),
    ("storage.k8s.io", &["v1"], "CSINode", "csinodes", &[], ""),
    ("coordination.k8s.io", &["v1"], "Lease", "leases", &[], "n"),
    ("discovery.k8s.io", &["v1"], "EndpointSlice", "endpointslices", &[], "ng"),
    ("events.k8s.io", &["v1"], "Event", "events", &["ev"], "n"),
    ("scheduling.k8s.io", &["v1"], "PriorityClass", "priorityclasses", &["pc"], "g"),
    (
        "apiextensions.k8s.io",
        &["v1"],
        "CustomResourceDefinition",
        "customresourcedefinitions",
        &["crd", "crds"],
        "sg",
    ),
    ("apiregistration.k8s.io", &["v1"], "APIService", "apiservices", &[], "s"),
    (
        "admissionregistration.k8s.io",
        &["v1"],
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        &[],
        "g",
    ),
    (
        "admissionregistration.k8s.io",
        &["v1"],
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        &[],
        "g",
    ),
];

/// Registers every built-in kind.
pub(crate) fn register(registry: &mut Registry) {
    for &(group, versions, kind, plural, short, flags) in ROWS {
        let has = |flag: char| flags.contains(flag);
        // Events are one storage under two groups.
        let storage = if plural == "events" {
            event_expiry::events()
        } else {
            ResourceKey::new(group, plural)
        };
        let stored_as = match (plural, group) {
            ("events", _) => "v1".to_owned(),
            (_, "") => versions[0].to_owned(),
            _ => format!("{group}/{}", versions[0]),
        };
        let steps = |path: &[&str]| path.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        for version in versions {
            registry.insert(Kind {
                group: group.to_owned(),
                version: (*version).to_owned(),
                kind: kind.to_owned(),
                list_kind: format!("{kind}List"),
                plural: plural.to_owned(),
                singular: kind.to_lowercase(),
                short_names: short.iter().map(|s| (*s).to_owned()).collect(),
                categories: if has('a') {
                    vec!["all".to_owned()]
                } else if group == "apiextensions.k8s.io" {
                    vec!["api-extensions".to_owned()]
                } else {
                    Vec::new()
                },
                namespaced: has('n'),
                status: has('s'),
                scale: has('r').then(|| Scale {
                    spec: steps(&["spec", "replicas"]),
                    status: steps(&["status", "replicas"]),
                    selector: Some(steps(&["spec", "selector"])),
                }),
                generation: if has('g') { Generation::Spec } else { Generation::None },
                storage: storage.clone(),
                stored_as: stored_as.clone(),
                custom: None,
            });
        }
    }
}
