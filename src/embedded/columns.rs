//! Columns of the built-in kinds that people look at with `kubectl get`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::Kind;
use super::table::{created, definition, span};

/// Names of the columns between `Name` and `Age`; a leading `+` marks a wide one,
/// which comes after `Age`.
fn names(kind: &Kind) -> &'static [&'static str] {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => &["Ready", "Status", "Restarts", "+IP", "+Node"],
        ("", "services") => &["Type", "Cluster-IP", "External-IP", "Port(s)", "+Selector"],
        ("", "namespaces") => &["Status"],
        ("", "nodes") => &["Status"],
        ("", "configmaps") => &["Data"],
        ("", "secrets") => &["Type", "Data"],
        ("", "serviceaccounts") => &["Secrets"],
        ("", "persistentvolumeclaims") => {
            &["Status", "Volume", "Capacity", "Access Modes", "StorageClass"]
        }
        ("", "persistentvolumes") => {
            &["Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass"]
        }
        ("", "events") => &["Type", "Reason", "Object", "Message"],
        ("apps", "deployments") => {
            &["Ready", "Up-to-date", "Available", "+Containers", "+Images", "+Selector"]
        }
        ("apps", "replicasets") | ("", "replicationcontrollers") => {
            &["Desired", "Current", "Ready", "+Containers", "+Images", "+Selector"]
        }
        ("apps", "statefulsets") => &["Ready", "+Containers", "+Images"],
        ("apps", "daemonsets") => &[
            "Desired",
            "Current",
            "Ready",
            "Up-to-date",
            "Available",
            "+Containers",
            "+Images",
            "+Selector",
        ],
        ("batch", "jobs") => &["Status", "Completions", "Duration", "+Containers", "+Images"],
        ("batch", "cronjobs") => &["Schedule", "Suspend", "Active", "Last Schedule"],
        ("networking.k8s.io", "ingresses") => &["Class", "Hosts", "Address", "Ports"],
        ("autoscaling", "horizontalpodautoscalers") => {
            &["Reference", "MinPods", "MaxPods", "Replicas"]
        }
        ("policy", "poddisruptionbudgets") => {
            &["Min available", "Max unavailable", "Allowed disruptions"]
        }
        ("coordination.k8s.io", "leases") => &["Holder"],
        ("apiextensions.k8s.io", "customresourcedefinitions") => &["Created At"],
        _ => &[],
    }
}

/// Column descriptions of a built-in kind.
pub(crate) fn definitions(kind: &Kind) -> Vec<Value> {
    let mut out =
        vec![definition("Name", "string", "name", 0, "Name must be unique within a namespace.")];
    let column = |name: &str, priority| {
        let number = matches!(
            name,
            "Desired" | "Current" | "Up-to-date" | "Available" | "Data" | "Secrets" | "Active"
        );
        definition(name, if number { "integer" } else { "string" }, "", priority, "")
    };
    out.extend(names(kind).iter().filter(|n| !n.starts_with('+')).map(|n| column(n, 0)));
    if !kind.is_crd() {
        out.push(definition("Age", "string", "", 0, "Time since the object was created."));
    }
    out.extend(names(kind).iter().filter_map(|n| n.strip_prefix('+')).map(|n| column(n, 1)));
    out
}

/// The cells of one row, in the order of [`definitions`].
pub(crate) fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    let mut out = vec![object["metadata"]["name"].clone()];
    out.extend(
        names(kind).iter().filter(|n| !n.starts_with('+')).map(|n| cell(kind, n, object, now)),
    );
    if !kind.is_crd() {
        out.push(json!(created(object, now)));
    }
    out.extend(
        names(kind).iter().filter_map(|n| n.strip_prefix('+')).map(|n| cell(kind, n, object, now)),
    );
    out
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "<none>".to_owned(),
        Value::String(text) if text.is_empty() => "<none>".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn words<'a>(items: impl Iterator<Item = &'a Value>) -> String {
    let list = items.filter_map(Value::as_str).collect::<Vec<_>>().join(",");
    if list.is_empty() { "<none>".to_owned() } else { list }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn cell(kind: &Kind, column: &str, object: &Value, now: Timestamp) -> Value {
    let (spec, status) = (&object["spec"], &object["status"]);
    match (kind.plural.as_str(), column) {
        (_, "Containers") => {
            json!(words(list(&spec["template"]["spec"]["containers"]).iter().map(|c| &c["name"])))
        }
        (_, "Images") => {
            json!(words(list(&spec["template"]["spec"]["containers"]).iter().map(|c| &c["image"])))
        }
        (_, "Selector") => json!(selector(spec)),
        ("pods", "Ready") => {
            let ready =
                list(&status["containerStatuses"]).iter().filter(|c| c["ready"] == true).count();
            json!(format!("{ready}/{}", list(&spec["containers"]).len()))
        }
        ("pods", "Status") => json!(pod_status(object)),
        ("pods", "Restarts") => {
            json!(
                list(&status["containerStatuses"])
                    .iter()
                    .map(|c| number(&c["restartCount"]))
                    .sum::<i64>()
                    .to_string()
            )
        }
        ("pods", "IP") => json!(text(&status["podIP"])),
        ("pods", "Node") => json!(text(&spec["nodeName"])),
        ("services", "Type") => json!(text(&spec["type"])),
        ("services", "Cluster-IP") => json!(text(&spec["clusterIP"])),
        ("services", "External-IP") => {
            let ingress = list(&status["loadBalancer"]["ingress"]);
            let addresses =
                ingress.iter().map(|i| if i["ip"].is_string() { &i["ip"] } else { &i["hostname"] });
            let pending = spec["type"] == "LoadBalancer" && ingress.is_empty();
            json!(if pending { "<pending>".to_owned() } else { words(addresses) })
        }
        ("services", _) => {
            let port = |p: &Value| match p["nodePort"].as_i64() {
                Some(node) => format!("{}:{node}/{}", p["port"], text(&p["protocol"])),
                None => format!("{}/{}", p["port"], text(&p["protocol"])),
            };
            let ports = list(&spec["ports"]).iter().map(port).collect::<Vec<_>>().join(",");
            json!(if ports.is_empty() { "<none>".to_owned() } else { ports })
        }
        ("nodes", _) => {
            let ready = list(&status["conditions"])
                .iter()
                .any(|c| c["type"] == "Ready" && c["status"] == "True");
            json!(if ready { "Ready" } else { "NotReady" })
        }
        ("namespaces" | "persistentvolumeclaims" | "persistentvolumes", "Status") => {
            json!(text(&status["phase"]))
        }
        ("configmaps", _) => {
            let count = |part: &str| object[part].as_object().map_or(0, serde_json::Map::len);
            json!(count("data") + count("binaryData"))
        }
        ("secrets", "Data") => json!(object["data"].as_object().map_or(0, serde_json::Map::len)),
        ("secrets", _) => json!(text(&object["type"])),
        ("serviceaccounts", _) => json!(list(&object["secrets"]).len()),
        ("persistentvolumeclaims", "Volume") => {
            json!(spec["volumeName"].as_str().unwrap_or_default())
        }
        ("persistentvolumeclaims", "Capacity") => {
            json!(status["capacity"]["storage"].as_str().unwrap_or_default())
        }
        ("persistentvolumes", "Capacity") => json!(text(&spec["capacity"]["storage"])),
        (_, "Access Modes") => json!(words(list(&spec["accessModes"]).iter())),
        (_, "StorageClass") => json!(spec["storageClassName"].as_str().unwrap_or_default()),
        ("persistentvolumes", "Reclaim Policy") => {
            json!(text(&spec["persistentVolumeReclaimPolicy"]))
        }
        ("persistentvolumes", "Claim") => {
            let claim = &spec["claimRef"];
            json!(
                claim["name"]
                    .as_str()
                    .map(|n| format!("{}/{n}", text(&claim["namespace"])))
                    .unwrap_or_default()
            )
        }
        ("events", "Object") => {
            let about = if object["involvedObject"].is_object() {
                &object["involvedObject"]
            } else {
                &object["regarding"]
            };
            json!(format!("{}/{}", text(&about["kind"]).to_lowercase(), text(&about["name"])))
        }
        ("events", "Message") => {
            json!(object["message"].as_str().or(object["note"].as_str()).unwrap_or_default())
        }
        ("events", "Type") => json!(text(&object["type"])),
        ("events", _) => json!(text(&object["reason"])),
        ("deployments" | "statefulsets", "Ready") => {
            json!(format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"])))
        }
        ("deployments", "Up-to-date") => json!(number(&status["updatedReplicas"])),
        ("deployments", _) => json!(number(&status["availableReplicas"])),
        ("daemonsets", "Desired") => json!(number(&status["desiredNumberScheduled"])),
        ("daemonsets", "Current") => json!(number(&status["currentNumberScheduled"])),
        ("daemonsets", "Ready") => json!(number(&status["numberReady"])),
        ("daemonsets", "Up-to-date") => json!(number(&status["updatedNumberScheduled"])),
        ("daemonsets", _) => json!(number(&status["numberAvailable"])),
        ("replicasets" | "replicationcontrollers", "Desired") => json!(number(&spec["replicas"])),
        ("replicasets" | "replicationcontrollers", "Current") => json!(number(&status["replicas"])),
        ("replicasets" | "replicationcontrollers", _) => json!(number(&status["readyReplicas"])),
        ("jobs", "Status") => {
            let is = |t: &str| {
                list(&status["conditions"]).iter().any(|c| c["type"] == t && c["status"] == "True")
            };
            let word = [("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")]
                .into_iter()
                .find(|(condition, _)| is(condition))
                .map_or("Running", |(_, word)| word);
            json!(word)
        }
        ("jobs", "Completions") => {
            let wanted = spec["completions"].as_i64().unwrap_or(1);
            json!(format!("{}/{wanted}", number(&status["succeeded"])))
        }
        ("jobs", _) => json!(span(&status["startTime"], &status["completionTime"], now)),
        ("cronjobs", "Schedule") => json!(text(&spec["schedule"])),
        ("cronjobs", "Suspend") => json!(if spec["suspend"] == true { "True" } else { "False" }),
        ("cronjobs", "Active") => json!(list(&status["active"]).len()),
        ("cronjobs", _) => json!(
            status["lastScheduleTime"]
                .as_str()
                .map_or("<none>".to_owned(), |t| super::clock::age(t, now))
        ),
        ("ingresses", "Class") => json!(text(&spec["ingressClassName"])),
        ("ingresses", "Hosts") => {
            let hosts = words(list(&spec["rules"]).iter().map(|r| &r["host"]));
            json!(if hosts == "<none>" { "*".to_owned() } else { hosts })
        }
        ("ingresses", "Address") => {
            let ingress = list(&status["loadBalancer"]["ingress"]);
            let shown = words(
                ingress.iter().map(|i| if i["ip"].is_string() { &i["ip"] } else { &i["hostname"] }),
            );
            json!(if shown == "<none>" { String::new() } else { shown })
        }
        ("ingresses", _) => json!(if list(&spec["tls"]).is_empty() { "80" } else { "80, 443" }),
        ("horizontalpodautoscalers", "Reference") => {
            json!(format!(
                "{}/{}",
                text(&spec["scaleTargetRef"]["kind"]),
                text(&spec["scaleTargetRef"]["name"])
            ))
        }
        ("horizontalpodautoscalers", "MinPods") => json!(text(&spec["minReplicas"])),
        ("horizontalpodautoscalers", "MaxPods") => json!(text(&spec["maxReplicas"])),
        ("horizontalpodautoscalers", _) => json!(number(&status["currentReplicas"])),
        ("poddisruptionbudgets", "Min available") => json!(or_na(&spec["minAvailable"])),
        ("poddisruptionbudgets", "Max unavailable") => json!(or_na(&spec["maxUnavailable"])),
        ("poddisruptionbudgets", _) => json!(number(&status["disruptionsAllowed"])),
        ("leases", _) => json!(text(&spec["holderIdentity"])),
        ("customresourcedefinitions", _) => object["metadata"]["creationTimestamp"].clone(),
        _ => Value::Null,
    }
}

fn or_na(value: &Value) -> String {
    if value.is_null() { "N/A".to_owned() } else { text(value) }
}

fn selector(spec: &Value) -> String {
    let selector = &spec["selector"];
    let labels = selector["matchLabels"].as_object().or(selector.as_object());
    let list = labels
        .into_iter()
        .flatten()
        .filter_map(|(k, v)| v.as_str().map(|v| format!("{k}={v}")))
        .collect::<Vec<_>>()
        .join(",");
    if list.is_empty() { "<none>".to_owned() } else { list }
}

fn pod_status(object: &Value) -> String {
    if object["metadata"]["deletionTimestamp"].is_string() {
        return "Terminating".to_owned();
    }
    let status = &object["status"];
    for container in list(&status["containerStatuses"]) {
        for state in ["waiting", "terminated"] {
            if let Some(reason) =
                container["state"][state]["reason"].as_str().filter(|r| !r.is_empty())
            {
                return reason.to_owned();
            }
        }
    }
    status["reason"].as_str().map_or_else(|| text(&status["phase"]), str::to_owned)
}
