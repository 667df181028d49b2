//! Defaults of the API server for built-in kinds (Appendix B.2).
//!
//! Set on both sides before they are compared, so that a default that is set on one side
//! only is not a difference. Existing values and custom resources are not changed.

mod fields;
mod pod;

use serde_json::{Value, json};

use self::fields::{Object, each, fill, is, object, object_or_new, set, set_count, walk};
use wavegate_api::kind::{GroupVersionKind, KindRef};

/// Fills in the defaults of the object's kind.
pub fn apply(object: &mut Value) {
    let kind = GroupVersionKind::of(object);
    let kind = kind.borrowed();
    if !kind.is_built_in() {
        return;
    }
    if let Some(spec) = kind.pod_spec().and_then(|path| walk(object, path)) {
        pod::default_pod_spec(spec, kind.group.is_empty() && kind.kind == "Pod");
    }
    if kind.group.is_empty() && kind.kind == "ReplicationController" {
        let labels = object.pointer("/spec/template/metadata/labels").cloned();
        if let (Some(spec), Some(labels)) = (walk(object, &["spec"]), labels) {
            set(spec, "selector", labels);
        }
    }
    let Some(root) = object.as_object_mut() else { return };
    match (kind.group, kind.kind) {
        ("", "Secret") => set(root, "type", "Opaque"),
        ("storage.k8s.io", "StorageClass") => {
            set(root, "reclaimPolicy", "Delete");
            set(root, "volumeBindingMode", "Immediate");
        }
        ("discovery.k8s.io", "EndpointSlice") => {
            for port in each(root, "ports") {
                set(port, "protocol", "TCP");
            }
        }
        ("rbac.authorization.k8s.io", _) => binding(root),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => webhooks(root, kind.kind),
        _ => {
            if let Some(spec) = root.get_mut("spec").and_then(Value::as_object_mut) {
                spec_of(kind, spec);
            }
        }
    }
}

fn spec_of(kind: KindRef<'_>, spec: &mut Object) {
    match (kind.group, kind.kind) {
        ("apps", "Deployment") => deployment(spec),
        ("apps", "StatefulSet") => stateful_set(spec),
        ("apps", "DaemonSet") => daemon_set(spec),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => set(spec, "replicas", 1),
        ("batch", "Job") => job(spec),
        ("batch", "CronJob") => cron_job(spec),
        ("", "Service") => service(spec),
        ("", "PersistentVolumeClaim") => set(spec, "volumeMode", "Filesystem"),
        ("", "PersistentVolume") => {
            set(spec, "persistentVolumeReclaimPolicy", "Retain");
            set(spec, "volumeMode", "Filesystem");
        }
        ("", "LimitRange") => limit_range(spec),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(kind.version, spec),
        ("networking.k8s.io", "NetworkPolicy") => network_policy(spec),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(spec),
        ("admissionregistration.k8s.io", _) => admission_policy(kind.kind, spec),
        ("", "Namespace") => set(spec, "finalizers", json!(["kubernetes"])),
        ("storage.k8s.io", "CSIDriver") => csi_driver(spec),
        ("networking.k8s.io", "IngressClass") => {
            if let Some(parameters) = object(spec, "parameters") {
                set(parameters, "scope", "Cluster");
            }
        }
        ("flowcontrol.apiserver.k8s.io", _) => flow_control(kind.kind, spec),
        ("resource.k8s.io", "ResourceClaim") => resource_claim(spec),
        ("resource.k8s.io", "ResourceClaimTemplate") => {
            object(spec, "spec").into_iter().for_each(resource_claim);
        }
        _ => {}
    }
}

/// The strategy of an update, and the limits of a rolling one.
fn strategy(spec: &mut Object, field: &str, rolling: Value) {
    let Some(strategy) = object_or_new(spec, field) else { return };
    set(strategy, "type", "RollingUpdate");
    if is(strategy, "type", "RollingUpdate") {
        fill(strategy, json!({ "rollingUpdate": rolling }));
    }
}

fn deployment(spec: &mut Object) {
    fill(spec, json!({"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}));
    strategy(spec, "strategy", json!({"maxSurge": "25%", "maxUnavailable": "25%"}));
}

fn stateful_set(spec: &mut Object) {
    let retention = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    fill(
        spec,
        json!({
            "replicas": 1,
            "podManagementPolicy": "OrderedReady",
            "revisionHistoryLimit": 10,
            "persistentVolumeClaimRetentionPolicy": retention,
        }),
    );
    strategy(spec, "updateStrategy", json!({"partition": 0}));
    for claim in each(spec, "volumeClaimTemplates") {
        fill(claim, json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim"}));
        if let Some(claim) = object(claim, "spec") {
            set(claim, "volumeMode", "Filesystem");
        }
    }
}

fn daemon_set(spec: &mut Object) {
    set(spec, "revisionHistoryLimit", 10);
    strategy(spec, "updateStrategy", json!({"maxUnavailable": 1, "maxSurge": 0}));
}

fn job(spec: &mut Object) {
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        set(spec, "completions", 1);
    }
    set(spec, "parallelism", 1);
    let limit = if spec.contains_key("backoffLimitPerIndex") { i32::MAX } else { 6 };
    set(spec, "backoffLimit", limit);
    set(spec, "completionMode", "NonIndexed");
    set(spec, "suspend", false);
    let policy =
        if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    set(spec, "podReplacementPolicy", policy);
    if let Some(policy) = object(spec, "podFailurePolicy") {
        for rule in each(policy, "rules") {
            for condition in each(rule, "onPodConditions") {
                set(condition, "status", "True");
            }
        }
    }
}

fn cron_job(spec: &mut Object) {
    set(spec, "concurrencyPolicy", "Allow");
    set(spec, "suspend", false);
    set(spec, "successfulJobsHistoryLimit", 3);
    set(spec, "failedJobsHistoryLimit", 1);
}

fn service(spec: &mut Object) {
    set(spec, "type", "ClusterIP");
    set(spec, "sessionAffinity", "None");
    if is(spec, "sessionAffinity", "ClientIP") {
        fill(spec, json!({"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}));
    }
    let external = is(spec, "type", "ExternalName");
    if is(spec, "type", "NodePort") || is(spec, "type", "LoadBalancer") {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
    if !external {
        set(spec, "internalTrafficPolicy", "Cluster");
    }
    for port in each(spec, "ports") {
        set(port, "protocol", "TCP");
        if let Some(number) = port.get("port").and_then(Value::as_i64) {
            set_count(port, "targetPort", number);
        }
    }
}

fn limit_range(spec: &mut Object) {
    for limit in each(spec, "limits").filter(|limit| is(limit, "type", "Container")) {
        copy_missing(limit, "max", "default");
        copy_missing(limit, "default", "defaultRequest");
        copy_missing(limit, "min", "defaultRequest");
    }
}

/// Copies missing entries from the map in one field to the map in another.
fn copy_missing(parent: &mut Object, from: &str, to: &str) {
    let Some(Value::Object(entries)) = parent.get(from).cloned() else { return };
    if entries.is_empty() {
        return;
    }
    if let Some(map) = object_or_new(parent, to) {
        for (key, value) in entries {
            set(map, &key, value);
        }
    }
}

fn autoscaler(version: &str, spec: &mut Object) {
    set(spec, "minReplicas", 1);
    if version == "v2" {
        let metric = json!({"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}});
        set(spec, "metrics", json!([metric]));
    }
}

fn network_policy(spec: &mut Object) {
    set(spec, "podSelector", json!({}));
    let egress = spec.get("egress").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    set(spec, "policyTypes", types);
    for direction in ["ingress", "egress"] {
        for rule in each(spec, direction) {
            for port in each(rule, "ports") {
                set(port, "protocol", "TCP");
            }
        }
    }
}

fn definition(spec: &mut Object) {
    if let Some(conversion) = object_or_new(spec, "conversion") {
        set(conversion, "strategy", "None");
        if let Some(webhook) = object(conversion, "webhook")
            && let Some(client) = object(webhook, "clientConfig")
        {
            service_port(client);
        }
    }
    if let Some(names) = object(spec, "names")
        && let Some(kind) = names.get("kind").and_then(Value::as_str).map(str::to_owned)
    {
        set(names, "singular", kind.to_lowercase());
        set(names, "listKind", format!("{kind}List"));
    }
}

fn service_port(client_config: &mut Object) {
    if let Some(service) = object(client_config, "service") {
        set(service, "port", 443);
    }
}

fn binding(root: &mut Object) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if let Some(role) = object(root, "roleRef") {
        set(role, "apiGroup", GROUP);
    }
    // The empty group of a ServiceAccount is omitted.
    for subject in each(root, "subjects").filter(|subject| !is(subject, "kind", "ServiceAccount")) {
        set(subject, "apiGroup", GROUP);
    }
}

fn webhooks(root: &mut Object, kind: &str) {
    for webhook in each(root, "webhooks") {
        set(webhook, "failurePolicy", "Fail");
        set(webhook, "matchPolicy", "Equivalent");
        set(webhook, "timeoutSeconds", 10);
        set(webhook, "namespaceSelector", json!({}));
        set(webhook, "objectSelector", json!({}));
        if kind == "MutatingWebhookConfiguration" {
            set(webhook, "reinvocationPolicy", "Never");
        }
        if let Some(client) = object(webhook, "clientConfig") {
            service_port(client);
        }
        for rule in each(webhook, "rules") {
            set(rule, "scope", "*");
        }
    }
}

/// Policies, and their bindings, of both kinds of admission.
fn admission_policy(kind: &str, spec: &mut Object) {
    if matches!(kind, "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy") {
        set(spec, "failurePolicy", "Fail");
    }
    for field in ["matchConstraints", "matchResources"] {
        let Some(matched) = object(spec, field) else { continue };
        set(matched, "matchPolicy", "Equivalent");
        set(matched, "namespaceSelector", json!({}));
        set(matched, "objectSelector", json!({}));
        for list in ["resourceRules", "excludeResourceRules"] {
            for rule in each(matched, list) {
                set(rule, "scope", "*");
            }
        }
    }
}

/// How many devices a claim asks for: of all versions, which have it in other places.
fn resource_claim(spec: &mut Object) {
    let Some(devices) = object(spec, "devices") else { return };
    for request in each(devices, "requests") {
        each(request, "firstAvailable").for_each(device_count);
        if let Some(exactly) = object(request, "exactly") {
            device_count(exactly);
        }
        // v1beta1: without a class it only has alternatives.
        if request.contains_key("deviceClassName") {
            device_count(request);
        }
    }
}

fn device_count(request: &mut Object) {
    set(request, "allocationMode", "ExactCount");
    if is(request, "allocationMode", "ExactCount") {
        set_count(request, "count", 1);
    }
}

fn csi_driver(spec: &mut Object) {
    fill(
        spec,
        json!({
            "attachRequired": true,
            "podInfoOnMount": false,
            "storageCapacity": false,
            "requiresRepublish": false,
            "fsGroupPolicy": "ReadWriteOnceWithFSType",
            "volumeLifecycleModes": ["Persistent"],
        }),
    );
}

fn flow_control(kind: &str, spec: &mut Object) {
    if kind == "FlowSchema" {
        set_count(spec, "matchingPrecedence", 1000);
    }
    if let Some(limited) = object(spec, "limited")
        && let Some(response) = object(limited, "limitResponse")
        && let Some(queuing) = object(response, "queuing")
    {
        set_count(queuing, "handSize", 8);
        set_count(queuing, "queues", 64);
        set_count(queuing, "queueLengthLimit", 50);
    }
}
