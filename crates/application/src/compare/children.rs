//! Objects without an owner that controllers make with the labels of another object: they
//! are nobody's resources, and neither pruned nor deleted (SE-115).
//!
//! With tracking by label they look like resources that have left the source. A claim of a
//! StatefulSet holds its data; it keeps the labels of its selector when the StatefulSet is
//! gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use wavegate_api::Raw;
use wavegate_api::resource_key::ResourceKey;
use wavegate_api::tracking::{Tracking, TrackingMethod};

/// What `kubectl apply` and client-side applies of this controller leave on an object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Labels that controllers give to what they make.
const MADE_BY_LABELS: [(&str, &str); 7] = [
    ("Pod", "pod-template-hash"),
    ("Pod", "controller-revision-hash"),
    ("Pod", "statefulset.kubernetes.io/pod-name"),
    ("Pod", "batch.kubernetes.io/job-name"),
    ("Pod", "job-name"),
    ("ReplicaSet", "pod-template-hash"),
    ("Endpoints", "endpoints.kubernetes.io/managed-by"),
];

/// Annotations that controllers give to what they make.
const MADE_BY_ANNOTATIONS: [(&str, &str); 4] = [
    ("Endpoints", "endpoints.kubernetes.io/last-change-trigger-time"),
    ("Endpoints", "control-plane.alpha.kubernetes.io/leader"),
    ("Job", "batch.kubernetes.io/cronjob-scheduled-timestamp"),
    ("Secret", "cert-manager.io/certificate-name"),
];

/// Whether a controller made the object from another one. `live` are the known live
/// objects, `targets` those of the source.
pub(crate) fn is_made<'a>(
    tracking: &Tracking,
    key: &ResourceKey,
    object: &Value,
    live: &'a BTreeMap<ResourceKey, Arc<Value>>,
    targets: impl IntoIterator<Item = (&'a ResourceKey, &'a Value)>,
) -> bool {
    let ResourceKey { group, kind, namespace, name } = key;
    if group.is_empty()
        && kind == "Endpoints"
        && live.contains_key(&ResourceKey::new("", "Service", namespace, name))
    {
        return true;
    }
    if tracking.method != TrackingMethod::Label {
        return false;
    }
    match (group.as_str(), kind.as_str()) {
        ("", "PersistentVolumeClaim") => {
            let all = live.iter().map(|(key, object)| (key, &**object));
            all.chain(targets).any(|(owner, object)| claims(owner, object, key))
                || (!was_applied(object) && ordinal(name).is_some())
        }
        ("apps", "ControllerRevision") => true,
        ("discovery.k8s.io", "EndpointSlice") => {
            let by = object.label("endpointslice.kubernetes.io/managed-by");
            by.is_some_and(|by| by.ends_with(".k8s.io"))
        }
        ("", "Endpoints" | "Pod" | "Secret") | ("apps", "ReplicaSet") | ("batch", "Job") => {
            let has = |all: Option<&Map<String, Value>>, marks: &[(&str, &str)]| {
                let has = |mark: &str| all.is_some_and(|all| all.contains_key(mark));
                marks.iter().any(|(of, mark)| of == kind && has(mark))
            };
            !was_applied(object)
                && (has(object.labels(), &MADE_BY_LABELS)
                    || has(object.annotations(), &MADE_BY_ANNOTATIONS))
        }
        _ => false,
    }
}

/// Whether an object is a StatefulSet that makes this claim, by its name:
/// `<template>-<StatefulSet>-<ordinal>`.
fn claims(owner: &ResourceKey, object: &Value, claim: &ResourceKey) -> bool {
    if owner.group != "apps" || owner.kind != "StatefulSet" || owner.namespace != claim.namespace {
        return false;
    }
    let front = ordinal(&claim.name).and_then(|(front, _)| front.strip_suffix(owner.name.as_str()));
    let template = front.and_then(|front| front.strip_suffix('-'));
    object.items("/spec/volumeClaimTemplates").iter().any(|own| Some(own.name()) == template)
}

/// A name without its ordinal, and the ordinal.
fn ordinal(name: &str) -> Option<(&str, &str)> {
    let (front, number) = name.rsplit_once('-')?;
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    is_number.then_some((front, number))
}

fn was_applied(object: &Value) -> bool {
    object.annotations().is_some_and(|own| own.contains_key(LAST_APPLIED))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(name: &str, annotations: Value) -> (ResourceKey, Value) {
        let key = ResourceKey::new("", "PersistentVolumeClaim", "ns", name);
        let metadata = json!({
            "name": name, "namespace": "ns", "annotations": annotations,
            "labels": {"app.kubernetes.io/instance": "app"},
        });
        (key, json!({"metadata": metadata}))
    }

    fn stateful_set(namespace: &str) -> (ResourceKey, Arc<Value>) {
        let spec = json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}}]});
        (ResourceKey::new("apps", "StatefulSet", namespace, "db"), Arc::new(json!({"spec": spec})))
    }

    fn by(method: TrackingMethod) -> Tracking {
        Tracking { method, instance: "app".to_owned(), ..Tracking::default() }
    }

    /// SE-115: also when the StatefulSet is gone, as after its deletion and a restart.
    #[test]
    fn claims_of_stateful_sets_are_never_resources_under_label_tracking() {
        let applied = json!({LAST_APPLIED: "{}"});
        let cases = [
            // Name of the claim, its annotations, namespace of the StatefulSet, is it made.
            ("data-db-0", json!({}), Some("ns"), true),
            ("data-db-12", json!({}), Some("ns"), true),
            ("data-db-0", applied.clone(), Some("ns"), true),
            ("data-db-0", json!({}), None, true),
            ("data-db-0", applied.clone(), Some("other"), false),
            ("data-db-x", json!({}), Some("ns"), false),
            ("data-dbx-0", applied.clone(), Some("ns"), false),
            ("uploads", json!({}), Some("ns"), false),
            ("uploads-1", applied, None, false),
        ];
        for (name, annotations, namespace, want) in cases {
            let (key, object) = claim(name, annotations);
            let live = namespace.map(stateful_set).into_iter().collect();
            let made = is_made(&by(TrackingMethod::Label), &key, &object, &live, []);
            assert_eq!(made, want, "{name} {namespace:?}");
            // An annotation names the object that it was written for.
            let made = is_made(&by(TrackingMethod::Annotation), &key, &object, &live, []);
            assert!(!made, "{name}");
        }
        // A StatefulSet that is to be created again.
        let (key, object) = claim("data-db-0", json!({LAST_APPLIED: "{}"}));
        let (owner, target) = stateful_set("ns");
        let tracking = by(TrackingMethod::Label);
        assert!(is_made(&tracking, &key, &object, &BTreeMap::new(), [(&owner, &*target)]));
    }

    #[test]
    fn orphans_of_controllers_are_no_resources_under_label_tracking() {
        let cases = [
            ("apps", "ControllerRevision", json!({}), json!({}), true),
            ("apps", "ReplicaSet", json!({"pod-template-hash": "x"}), json!({}), true),
            ("apps", "ReplicaSet", json!({}), json!({}), false),
            ("", "Pod", json!({"controller-revision-hash": "x"}), json!({}), true),
            ("", "Pod", json!({"pod-template-hash": "x"}), json!({LAST_APPLIED: "{}"}), false),
            ("", "Pod", json!({}), json!({}), false),
            (
                "batch",
                "Job",
                json!({}),
                json!({"batch.kubernetes.io/cronjob-scheduled-timestamp": "x"}),
                true,
            ),
            ("batch", "Job", json!({}), json!({}), false),
            ("", "Secret", json!({}), json!({"cert-manager.io/certificate-name": "x"}), true),
            ("", "Secret", json!({}), json!({}), false),
            (
                "",
                "Endpoints",
                json!({}),
                json!({"endpoints.kubernetes.io/last-change-trigger-time": "x"}),
                true,
            ),
            (
                "discovery.k8s.io",
                "EndpointSlice",
                json!({"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}),
                json!({}),
                true,
            ),
            (
                "discovery.k8s.io",
                "EndpointSlice",
                json!({"endpointslice.kubernetes.io/managed-by": "me"}),
                json!({}),
                false,
            ),
            ("example.com", "Pod", json!({"job-name": "x"}), json!({}), false),
        ];
        for (group, kind, labels, annotations, want) in cases {
            let key = ResourceKey::new(group, kind, "ns", "x");
            let object = json!({"metadata": {"labels": labels, "annotations": annotations}});
            let tracking = by(TrackingMethod::Label);
            let made = is_made(&tracking, &key, &object, &BTreeMap::new(), []);
            assert_eq!(made, want, "{group}/{kind} {object}");
        }
    }
}
