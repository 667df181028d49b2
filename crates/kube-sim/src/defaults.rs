//! Defaults of built-in kinds, as far as controllers and diffs notice them.

use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::state::State;

/// Sets a field unless it has a value; empty text is none.
fn or(object: &mut Value, field: &str, value: Value) {
    if object[field].is_null() || object[field] == "" {
        object[field] = value;
    }
}

/// Sets the fields that have no value; where both have an object, its fields.
fn fill(object: &mut Value, defaults: Value) {
    let Value::Object(defaults) = defaults else { return };
    for (field, value) in defaults {
        if value.is_object() && object[&field].is_object() {
            fill(&mut object[&field], value);
        } else {
            or(object, &field, value);
        }
    }
}

/// The label of a namespace by which selectors find it.
fn name_label(object: &mut Value) {
    let name = object["metadata"]["name"].clone();
    or(&mut object["metadata"], "labels", json!({}));
    object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
}

/// Defaults of a new object, and the status that it starts with.
pub(crate) fn on_create(kind: &Kind, object: &mut Value, state: &mut State) {
    match kind.plural.as_str() {
        "namespaces" => {
            name_label(object);
            object["spec"]["finalizers"] = json!(["kubernetes"]);
            object["status"] = json!({"phase": "Active"});
        }
        "pods" => object["status"] = json!({"phase": "Pending", "qosClass": qos(&object["spec"])}),
        "persistentvolumeclaims" | "persistentvolumes" => {
            object["status"] = json!({"phase": "Pending"})
        }
        "services" => {
            service_address(object, state);
            object["status"] = json!({"loadBalancer": {}});
        }
        "ingresses" => object["status"] = json!({"loadBalancer": {}}),
        "deployments" | "replicationcontrollers" | "jobs" | "cronjobs" => {
            object["status"] = json!({})
        }
        "replicasets" | "statefulsets" => object["status"] = json!({"replicas": 0}),
        "daemonsets" => {
            object["status"] = json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0,
                "numberMisscheduled": 0, "numberReady": 0});
        }
        "poddisruptionbudgets" => {
            object["status"] = json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
        }
        "horizontalpodautoscalers" => {
            object["status"] = json!({"desiredReplicas": 0});
        }
        _ => {}
    }
    if kind.plural == "jobs" {
        job_identity(object);
    }
    on_any(kind, object);
}

/// Writes what the real one's types cannot leave out: the creation time of
/// templates, which is null. Belongs to no manager, so it comes last.
pub(crate) fn finish(kind: &Kind, object: &mut Value) {
    let null_time = |template: &mut Value| {
        if let Some(template) = template.as_object_mut() {
            let meta = template.entry("metadata").or_insert_with(|| json!({}));
            if let Some(meta) = meta.as_object_mut() {
                meta.insert("creationTimestamp".to_owned(), Value::Null);
            }
        }
    };
    match kind.plural.as_str() {
        "podtemplates" => object.get_mut("template").into_iter().for_each(null_time),
        "deployments"
        | "replicasets"
        | "statefulsets"
        | "daemonsets"
        | "jobs"
        | "replicationcontrollers" => {
            let Some(spec) = object.get_mut("spec") else { return };
            spec.get_mut("template").into_iter().for_each(null_time);
            let claims = spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut);
            claims.into_iter().flatten().for_each(null_time);
        }
        "cronjobs" => {
            let Some(job) = object.get_mut("spec").and_then(|s| s.get_mut("jobTemplate")) else {
                return;
            };
            null_time(job);
            job.get_mut("spec").and_then(|s| s.get_mut("template")).into_iter().for_each(null_time);
        }
        _ => {}
    }
}

/// Defaults of a changed object.
pub(crate) fn on_update(kind: &Kind, old: &Value, object: &mut Value) {
    match kind.plural.as_str() {
        // Addresses stay when a replacement leaves them out.
        "services" if object["spec"].is_object() && object["spec"]["type"] != "ExternalName" => {
            for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let was = old["spec"][field].clone();
                if !was.is_null() {
                    or(&mut object["spec"], field, was);
                }
            }
        }
        "namespaces" => {
            name_label(object);
            if object["spec"]["finalizers"].is_null() && old["spec"]["finalizers"].is_array() {
                object["spec"]["finalizers"] = old["spec"]["finalizers"].clone();
            }
        }
        "jobs" => {
            let was = old["spec"]["selector"].clone();
            if object["spec"].is_object() && !was.is_null() {
                or(&mut object["spec"], "selector", was);
            }
            if object["spec"]["manualSelector"] != true
                && let Some(uid) = old["metadata"]["uid"].as_str()
            {
                job_labels(object, uid);
            }
        }
        _ => {}
    }
    beside_spec(kind, object);
    // A specification that is stored has its defaults.
    if object.get("spec") != old.get("spec") {
        on_spec(kind, object);
    }
}

/// Defaults that a body gets when it is read, whatever is done with it.
pub(crate) fn on_any(kind: &Kind, object: &mut Value) {
    beside_spec(kind, object);
    on_spec(kind, object);
}

fn beside_spec(kind: &Kind, object: &mut Value) {
    match kind.plural.as_str() {
        "customresourcedefinitions" => super::crd::default(object),
        "secrets" => {
            let plain = object["stringData"].take();
            if let Some(map) = object.as_object_mut() {
                map.remove("stringData");
            }
            if let Some(plain) = plain.as_object() {
                use base64::Engine as _;
                or(object, "data", json!({}));
                for (key, value) in plain {
                    let text = value.as_str().unwrap_or_default();
                    object["data"][key] =
                        json!(base64::engine::general_purpose::STANDARD.encode(text));
                }
            }
            or(object, "type", json!("Opaque"));
        }
        "rolebindings" | "clusterrolebindings" => {
            const GROUP: &str = "rbac.authorization.k8s.io";
            or(&mut object["roleRef"], "apiGroup", json!(GROUP));
            if let Some(subjects) = object.get_mut("subjects").and_then(Value::as_array_mut) {
                for subject in subjects
                    .iter_mut()
                    .filter(|s| matches!(s["kind"].as_str(), Some("User" | "Group")))
                {
                    or(subject, "apiGroup", json!(GROUP));
                }
            }
        }
        "jobs" | "replicationcontrollers" if object["metadata"]["labels"].is_null() => {
            let labels = object["spec"]["template"]["metadata"]["labels"].clone();
            if labels.as_object().is_some_and(|l| !l.is_empty()) {
                object["metadata"]["labels"] = labels;
            }
        }
        _ => {}
    }
    if kind.plural == "podtemplates" && object["template"]["spec"].is_object() {
        pod_spec(&mut object["template"]["spec"]);
        strip_nulls(&mut object["template"]);
    }
}

fn on_spec(kind: &Kind, object: &mut Value) {
    if !object["spec"].is_object() {
        return;
    }
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    let spec = &mut object["spec"];
    match kind.plural.as_str() {
        "pods" => pod_spec(spec),
        "services" => service(spec),
        "deployments" => {
            fill(
                spec,
                json!({"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                    "strategy": {"type": "RollingUpdate"}}),
            );
            rolling(&mut spec["strategy"], &json!({"maxSurge": "25%", "maxUnavailable": "25%"}));
        }
        "replicasets" | "replicationcontrollers" => or(spec, "replicas", json!(1)),
        "statefulsets" => stateful_set(spec),
        "daemonsets" => {
            fill(
                spec,
                json!({"revisionHistoryLimit": 10, "updateStrategy": {"type": "RollingUpdate"}}),
            );
            rolling(&mut spec["updateStrategy"], &json!({"maxSurge": 0, "maxUnavailable": 1}));
        }
        "jobs" => job_spec(spec),
        "cronjobs" => {
            fill(
                spec,
                json!({"concurrencyPolicy": "Allow", "suspend": false,
                    "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}),
            );
            // The Job's own defaults are set when it is made from the template.
            pod_spec(&mut spec["jobTemplate"]["spec"]["template"]["spec"]);
        }
        "persistentvolumeclaims" => or(spec, "volumeMode", json!("Filesystem")),
        "persistentvolumes" => {
            fill(
                spec,
                json!({"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"}),
            );
        }
        "networkpolicies" => {
            let egress = spec["egress"].is_array();
            or(
                spec,
                "policyTypes",
                if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) },
            );
        }
        "horizontalpodautoscalers" => or(spec, "minReplicas", json!(1)),
        _ => {}
    }
    if kind.plural == "replicationcontrollers" {
        or(spec, "selector", labels);
    }
    if spec["template"]["spec"].is_object() {
        pod_spec(&mut spec["template"]["spec"]);
    }
    if !kind.is_crd() {
        strip_nulls(spec);
    }
}

fn rolling(strategy: &mut Value, fields: &Value) {
    if strategy["type"] == "RollingUpdate" {
        fill(strategy, json!({"rollingUpdate": fields}));
    }
}

fn stateful_set(spec: &mut Value) {
    fill(
        spec,
        json!({"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate"}}),
    );
    rolling(&mut spec["updateStrategy"], &json!({"partition": 0}));
    for claim in spec["volumeClaimTemplates"].as_array_mut().into_iter().flatten() {
        fill(
            claim,
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"}}),
        );
    }
}

fn job_spec(spec: &mut Value) {
    fill(
        spec,
        json!({"backoffLimit": 6, "suspend": false, "completionMode": "NonIndexed",
            "podReplacementPolicy": "TerminatingOrFailed"}),
    );
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        spec["completions"] = json!(1);
    }
    or(spec, "parallelism", json!(1));
}

/// Gives a Job the selector and labels that tie its pods to it.
fn job_identity(object: &mut Value) {
    if object["spec"]["manualSelector"] == true || !object["spec"].is_object() {
        return;
    }
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    or(
        &mut object["spec"],
        "selector",
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}),
    );
    job_labels(object, &uid);
}

fn job_labels(object: &mut Value, uid: &str) {
    let name = object["metadata"]["name"].clone();
    let template = &mut object["spec"]["template"];
    or(template, "metadata", json!({}));
    or(&mut template["metadata"], "labels", json!({}));
    let labels = &mut template["metadata"]["labels"];
    for prefix in ["", "batch.kubernetes.io/"] {
        labels[format!("{prefix}controller-uid")] = json!(uid);
        labels[format!("{prefix}job-name")] = name.clone();
    }
}

fn service(spec: &mut Value) {
    or(spec, "type", json!("ClusterIP"));
    or(spec, "sessionAffinity", json!("None"));
    if spec["type"] != "ExternalName" {
        or(spec, "internalTrafficPolicy", json!("Cluster"));
    }
    if matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer")) {
        or(spec, "externalTrafficPolicy", json!("Cluster"));
    }
    if spec["type"] == "LoadBalancer" {
        or(spec, "allocateLoadBalancerNodePorts", json!(true));
    }
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        or(port, "protocol", json!("TCP"));
        let number = port["port"].clone();
        or(port, "targetPort", number);
    }
}

fn service_address(object: &mut Value, state: &mut State) {
    let spec = &mut object["spec"];
    if !spec.is_object() || spec["type"] == "ExternalName" {
        return;
    }
    if spec["clusterIP"].as_str().is_none_or(str::is_empty) {
        state.cluster_ip += 1;
        let n = state.cluster_ip;
        spec["clusterIP"] =
            json!(format!("10.{}.{}.{}", 96 + ((n >> 16) & 0xf), (n >> 8) & 0xff, n & 0xff));
    }
    let address = spec["clusterIP"].clone();
    or(spec, "clusterIPs", json!([address]));
    or(spec, "ipFamilies", json!(["IPv4"]));
    or(spec, "ipFamilyPolicy", json!("SingleStack"));
    if matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer")) {
        let base = state.cluster_ip;
        for (i, port) in spec["ports"].as_array_mut().into_iter().flatten().enumerate() {
            let offset = base.wrapping_mul(7) + u32::try_from(i).unwrap_or(0);
            or(port, "nodePort", json!(30_000 + offset % 2768));
        }
    }
}

/// Defaults of a pod, also inside of templates.
pub(crate) fn pod_spec(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    fill(
        spec,
        json!({"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "securityContext": {},
            "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30}),
    );
    let account = spec["serviceAccountName"].clone();
    if account.is_string() {
        or(spec, "serviceAccount", account);
    }
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            self::container(container);
        }
    }
    for volume in spec["volumes"].as_array_mut().into_iter().flatten() {
        for source in ["configMap", "secret", "projected", "downwardAPI"] {
            if volume[source].is_object() {
                or(&mut volume[source], "defaultMode", json!(420));
            }
        }
        if volume["hostPath"].is_object() {
            or(&mut volume["hostPath"], "type", json!(""));
        }
    }
}

fn container(container: &mut Value) {
    if !container.is_object() {
        return;
    }
    let image = container["image"].as_str().unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    let latest = !image.contains('@') && (!name.contains(':') || name.ends_with(":latest"));
    fill(
        container,
        json!({"imagePullPolicy": if latest { "Always" } else { "IfNotPresent" }, "resources": {},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}),
    );
    for port in container["ports"].as_array_mut().into_iter().flatten() {
        or(port, "protocol", json!("TCP"));
    }
    for entry in container["env"].as_array_mut().into_iter().flatten() {
        if entry["valueFrom"]["fieldRef"].is_object() {
            or(&mut entry["valueFrom"]["fieldRef"], "apiVersion", json!("v1"));
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe_value = &mut container[probe];
        if !probe_value.is_object() {
            continue;
        }
        fill(
            probe_value,
            json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1,
                "failureThreshold": 3}),
        );
        if probe_value["httpGet"].is_object() {
            fill(&mut probe_value["httpGet"], json!({"scheme": "HTTP", "path": "/"}));
        }
    }
}

/// Indexing a missing field for writing leaves a null behind; this takes them away.
fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, v| !v.is_null());
            map.values_mut().for_each(strip_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(strip_nulls),
        _ => {}
    }
}

/// Quality of service class by requests and limits.
fn qos(spec: &Value) -> &'static str {
    let empty = Map::new();
    let mut any = false;
    let mut guaranteed = true;
    for container in spec["containers"].as_array().into_iter().flatten() {
        let part = |name: &str| container["resources"][name].as_object().unwrap_or(&empty).clone();
        let (limits, requests) = (part("limits"), part("requests"));
        any |= !limits.is_empty() || !requests.is_empty();
        for resource in ["cpu", "memory"] {
            let limit = limits.get(resource);
            guaranteed &=
                limit.is_some() && requests.get(resource).is_none_or(|r| Some(r) == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
