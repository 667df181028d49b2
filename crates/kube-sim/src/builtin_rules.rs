//! Rules of built-in kinds that a controller can run into: names, required
//! fields, selectors that must match, fields that may not change.
//!
//! Only what is cheap and likely; the real one checks far more.

use std::collections::BTreeMap;

use serde_json::Value;

use super::errors::{Cause, Causes};
use super::kinds::Kind;
use super::selectors::label_selector_matches;
use super::validate::{is_dns_label, is_dns_subdomain};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
     and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SERVICE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
     alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
     validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// Checks `metadata.name` of any kind.
pub(crate) fn name(kind: &Kind, object: &Value) -> Option<Cause> {
    let value = &object["metadata"]["name"];
    let name = value.as_str().unwrap_or_default();
    if kind.group == "rbac.authorization.k8s.io" {
        let fine = !matches!(name, "." | "..") && !name.contains(['/', '%']);
        return (!fine)
            .then(|| Cause::invalid("metadata.name", value, "may not contain '/' or '%'"));
    }
    let (fine, detail) = match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "namespaces") => (is_dns_label(name), LABEL),
        ("", "services") => {
            (is_dns_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase()), SERVICE)
        }
        _ => (is_dns_subdomain(name), SUBDOMAIN),
    };
    (!fine).then(|| Cause::invalid("metadata.name", value, detail))
}

/// Checks an object of a built-in kind; `old` is absent for a creation.
pub(crate) fn check(kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Causes::default();
    let spec = &object["spec"];
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => {
            pod(spec, "spec", &mut causes);
            if let Some(old) = old {
                pod_change(&old["spec"], spec, &mut causes);
            }
        }
        ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets") => {
            workload(object, &mut causes);
            if old.is_some_and(|old| old["spec"]["selector"] != spec["selector"]) {
                causes.invalid("spec.selector", &spec["selector"], "field is immutable");
            }
            if kind.plural == "statefulsets"
                && let Some(old) = old
            {
                stateful_set_change(&old["spec"], spec, &mut causes);
            }
        }
        ("batch", "jobs") => {
            pod(&spec["template"]["spec"], "spec.template.spec", &mut causes);
            let policy = &spec["template"]["spec"]["restartPolicy"];
            if !matches!(policy.as_str(), Some("OnFailure" | "Never")) {
                let supported = ["OnFailure", "Never"];
                causes.unsupported("spec.template.spec.restartPolicy", policy, &supported);
            }
            if let Some(old) = old {
                for field in ["selector", "template", "completions"] {
                    if old["spec"][field] != spec[field] {
                        causes.invalid(format!("spec.{field}"), &spec[field], "field is immutable");
                    }
                }
            }
        }
        ("batch", "cronjobs") if is_empty(&spec["schedule"]) => {
            causes.required("spec.schedule", "")
        }
        ("", "services") => service(spec, old.map(|o| &o["spec"]), &mut causes),
        ("", "configmaps" | "secrets") => {
            keys(object, &mut causes);
            if let Some(old) = old {
                immutable_data(old, object, &mut causes);
                if kind.plural == "secrets" && old["type"] != object["type"] {
                    causes.invalid("type", &object["type"], "field is immutable");
                }
            }
        }
        ("", "persistentvolumeclaims") => claim(spec, old.map(|o| &o["spec"]), &mut causes),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            if object["roleRef"]["name"].as_str().unwrap_or_default().is_empty() {
                causes.required("roleRef.name", "");
            }
            if old.is_some_and(|old| old["roleRef"] != object["roleRef"]) {
                causes.invalid("roleRef", &object["roleRef"], "cannot change roleRef");
            }
        }
        ("storage.k8s.io", "storageclasses") if is_empty(&object["provisioner"]) => {
            causes.required("provisioner", "");
        }
        _ => {}
    }
    causes.0
}

fn is_empty(text: &Value) -> bool {
    text.as_str().unwrap_or_default().is_empty()
}

fn pod(spec: &Value, path: &str, causes: &mut Causes) {
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        causes.required(format!("{path}.containers"), "");
    }
    for list in ["initContainers", "containers"] {
        let mut seen: Vec<&str> = Vec::new();
        for (i, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            let at = format!("{path}.{list}[{i}]");
            let name = container["name"].as_str().unwrap_or_default();
            if name.is_empty() {
                causes.required(format!("{at}.name"), "");
            } else if !is_dns_label(name) {
                causes.invalid(format!("{at}.name"), &container["name"], LABEL);
            } else if seen.contains(&name) {
                let message = format!("Duplicate value: {name:?}");
                causes.add("FieldValueDuplicate", format!("{at}.name"), message);
            }
            seen.push(name);
            if container["image"].as_str().unwrap_or_default().is_empty() {
                causes.required(format!("{at}.image"), "");
            }
        }
    }
}

/// Of a pod's spec only a few fields may change.
fn pod_change(old: &Value, new: &Value, causes: &mut Causes) {
    let fixed = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(map) = spec.as_object_mut() {
            for field in [
                "activeDeadlineSeconds",
                "tolerations",
                "terminationGracePeriodSeconds",
                "nodeName",
            ] {
                map.remove(field);
            }
            for list in ["initContainers", "containers"] {
                for container in
                    map.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
                {
                    if let Some(container) = container.as_object_mut() {
                        container.remove("image");
                    }
                }
            }
        }
        spec
    };
    if fixed(old) != fixed(new) {
        causes.forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`, \
             `spec.initContainers[*].image`, `spec.activeDeadlineSeconds` or `spec.tolerations` \
             (only additions to existing tolerations)",
        );
    }
}

fn workload(object: &Value, causes: &mut Causes) {
    let spec = &object["spec"];
    let selector = &spec["selector"];
    let empty = ["matchLabels", "matchExpressions"].iter().all(|f| {
        selector[f].as_object().is_none_or(|m| m.is_empty())
            && selector[f].as_array().is_none_or(Vec::is_empty)
    });
    if !selector.is_object() || empty {
        causes.required("spec.selector", "");
    } else {
        let labels: BTreeMap<String, String> = spec["template"]["metadata"]["labels"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned()))
            .collect();
        if !label_selector_matches(selector, &labels) {
            let shown = &spec["template"]["metadata"]["labels"];
            causes.invalid(
                "spec.template.metadata.labels",
                shown,
                "`selector` does not match template `labels`",
            );
        }
    }
    if spec["replicas"].as_i64().is_some_and(|n| n < 0) {
        causes.invalid("spec.replicas", &spec["replicas"], "must be greater than or equal to 0");
    }
    pod(&spec["template"]["spec"], "spec.template.spec", causes);
    let policy = &spec["template"]["spec"]["restartPolicy"];
    if policy != "Always" {
        causes.unsupported("spec.template.spec.restartPolicy", policy, &["Always"]);
    }
}

fn stateful_set_change(old: &Value, new: &Value, causes: &mut Causes) {
    let free = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
        "selector",
    ];
    let fixed = |spec: &Value| {
        let mut map = spec.as_object().cloned().unwrap_or_default();
        map.retain(|k, _| !free.contains(&k.as_str()));
        map
    };
    if fixed(old) != fixed(new) {
        causes.forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
             'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
             'minReadySeconds' are forbidden",
        );
    }
}

fn service(spec: &Value, old: Option<&Value>, causes: &mut Causes) {
    let ports = spec["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let headless = spec["clusterIP"] == "None";
    if ports.is_empty() && !headless && spec["type"] != "ExternalName" {
        causes.required("spec.ports", "");
    }
    for (i, port) in ports.iter().enumerate() {
        if !port["port"].as_i64().is_some_and(|p| (1..=65_535).contains(&p)) {
            causes.invalid(
                format!("spec.ports[{i}].port"),
                &port["port"],
                "must be between 1 and 65535, inclusive",
            );
        }
        if ports.len() > 1 && port["name"].as_str().unwrap_or_default().is_empty() {
            causes.required(format!("spec.ports[{i}].name"), "");
        }
    }
    let supported = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !spec["type"].as_str().is_some_and(|t| supported.contains(&t)) {
        causes.unsupported("spec.type", &spec["type"], &supported);
    }
    if let Some(old) = old
        && old["type"] != "ExternalName"
        && spec["type"] != "ExternalName"
        && old["clusterIP"].as_str().is_some_and(|ip| !ip.is_empty())
        && old["clusterIP"] != spec["clusterIP"]
    {
        causes.invalid("spec.clusterIPs[0]", &spec["clusterIP"], "may not change once set");
    }
}

fn keys(object: &Value, causes: &mut Causes) {
    for part in ["data", "binaryData"] {
        for key in object[part].as_object().into_iter().flatten().map(|(k, _)| k) {
            let fine = !key.is_empty()
                && key.len() <= 253
                && !matches!(key.as_str(), "." | "..")
                && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
            if !fine {
                let shown = Value::String(key.clone());
                causes.invalid(
                    format!("{part}[{key}]"),
                    &shown,
                    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
                );
            }
        }
    }
}

fn immutable_data(old: &Value, new: &Value, causes: &mut Causes) {
    if old["immutable"] != true {
        return;
    }
    for field in ["immutable", "data", "binaryData"] {
        if old[field] != new[field] {
            causes.forbidden(field, "field is immutable when `immutable` is set");
        }
    }
}

fn claim(spec: &Value, old: Option<&Value>, causes: &mut Causes) {
    if spec["accessModes"].as_array().is_none_or(Vec::is_empty) {
        causes.required("spec.accessModes", "at least 1 access mode is required");
    }
    if spec["resources"]["requests"]["storage"].is_null() {
        causes.required("spec.resources[storage]", "");
    }
    let Some(old) = old else { return };
    let fixed = |spec: &Value| {
        let mut map = spec.as_object().cloned().unwrap_or_default();
        map.remove("resources");
        map.remove("volumeAttributesClassName");
        if map.get("volumeName").is_none_or(|v| v == "") {
            map.remove("volumeName");
        }
        map
    };
    let (mut before, after) = (fixed(old), fixed(spec));
    // Binding sets the volume once.
    if !before.contains_key("volumeName")
        && let Some(volume) = after.get("volumeName")
    {
        before.insert("volumeName".to_owned(), volume.clone());
    }
    if before != after {
        causes.forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        );
    }
}
