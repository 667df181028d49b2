//! Columns of the built-in kinds that people look at with `kubectl get`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::Kind;
use super::table::{created, definition, span};

/// Names of the columns between `Name` and `Age`; a leading `+` marks a wide one,
/// which comes after `Age`.
fn names(kind: &Kind) -> &'static [&'static str] {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => {
            &["Ready", "Status", "Restarts", "+IP", "+Node", "+Nominated Node", "+Readiness Gates"]
        }
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
        ("", "events") | ("events.k8s.io", "events") => &EVENT,
        ("", "resourcequotas") => &["Request", "Limit"],
        ("", "endpoints") => &["Endpoints"],
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => &["Created At"],
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => &["Role"],
        ("storage.k8s.io", "storageclasses") => {
            &["Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion"]
        }
        ("scheduling.k8s.io", "priorityclasses") => &["Value", "Global-Default"],
        ("apps", "controllerrevisions") => &["Controller", "Revision"],
        ("networking.k8s.io", "networkpolicies") => &["Pod-Selector"],
        ("networking.k8s.io", "ingressclasses") => &["Controller", "Parameters"],
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
        ("batch", "cronjobs") => &["Schedule", "Timezone", "Suspend", "Active", "Last Schedule"],
        ("networking.k8s.io", "ingresses") => &["Class", "Hosts", "Address", "Ports"],
        ("autoscaling", "horizontalpodautoscalers") => {
            &["Reference", "Targets", "MinPods", "MaxPods", "Replicas"]
        }
        ("policy", "poddisruptionbudgets") => {
            &["Min available", "Max unavailable", "Allowed disruptions"]
        }
        ("coordination.k8s.io", "leases") => &["Holder"],
        ("apiextensions.k8s.io", "customresourcedefinitions") => &["Created At"],
        _ => &[],
    }
}

/// Columns of Events, which stand in another order: the name comes last.
const EVENT: [&str; 10] = [
    "Last Seen",
    "Type",
    "Reason",
    "Object",
    "+Subobject",
    "+Source",
    "Message",
    "+First Seen",
    "+Count",
    "+Name",
];

/// Whether there is a column for the age.
fn has_age(kind: &Kind) -> bool {
    !names(kind).contains(&"Created At")
}

/// Column descriptions of a built-in kind.
pub(crate) fn definitions(kind: &Kind) -> Vec<Value> {
    if kind.is_event() {
        let column = |name: &&str| match name.strip_prefix('+') {
            Some("Name") => definition("Name", "string", "name", 1, ""),
            Some("Count") => definition("Count", "integer", "", 1, ""),
            Some(name) => definition(name, "string", "", 1, ""),
            None => definition(name, "string", "", 0, ""),
        };
        return EVENT.iter().map(column).collect();
    }
    let mut out =
        vec![definition("Name", "string", "name", 0, "Name must be unique within a namespace.")];
    let column = |name: &str, priority| {
        let number = matches!(
            name,
            "Desired"
                | "Current"
                | "Up-to-date"
                | "Available"
                | "Data"
                | "Secrets"
                | "Active"
                | "Revision"
                | "Value"
        );
        definition(name, if number { "integer" } else { "string" }, "", priority, "")
    };
    out.extend(names(kind).iter().filter(|n| !n.starts_with('+')).map(|n| column(n, 0)));
    if has_age(kind) {
        out.push(definition("Age", "string", "", 0, "Time since the object was created."));
    }
    out.extend(names(kind).iter().filter_map(|n| n.strip_prefix('+')).map(|n| column(n, 1)));
    out
}

/// The cells of one row, in the order of [`definitions`].
pub(crate) fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    if kind.is_event() {
        return EVENT.iter().map(|n| event(n.trim_start_matches('+'), object, now)).collect();
    }
    let mut out = vec![object["metadata"]["name"].clone()];
    out.extend(
        names(kind).iter().filter(|n| !n.starts_with('+')).map(|n| cell(kind, n, object, now)),
    );
    if has_age(kind) {
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
    let containers = || list(&spec["template"]["spec"]["containers"]).iter();
    match (kind.plural.as_str(), column) {
        (_, "Containers") => json!(words(containers().map(|c| &c["name"]))),
        (_, "Images") => json!(words(containers().map(|c| &c["image"]))),
        (_, "Selector") => json!(selector(spec)),
        ("pods", _) => pod(column, object),
        ("services", _) => service(column, spec, status),
        ("nodes", _) => json!(if is_true(status, "Ready") { "Ready" } else { "NotReady" }),
        ("namespaces", _) => json!(text(&status["phase"])),
        ("configmaps" | "secrets" | "serviceaccounts", _) => contents(kind, column, object),
        ("persistentvolumeclaims" | "persistentvolumes", _) => volume(kind, column, object),
        (
            "deployments"
            | "statefulsets"
            | "daemonsets"
            | "replicasets"
            | "replicationcontrollers",
            _,
        ) => workload(kind, column, spec, status),
        ("jobs" | "cronjobs", _) => job(kind, column, object, now),
        ("ingresses", _) => ingress(column, spec, status),
        ("horizontalpodautoscalers" | "poddisruptionbudgets", _) => scaling(column, spec, status),
        ("leases", _) => json!(text(&spec["holderIdentity"])),
        (_, "Created At") => object["metadata"]["creationTimestamp"].clone(),
        _ => other(column, object),
    }
}

/// Whether a status condition is `True`.
fn is_true(status: &Value, condition: &str) -> bool {
    list(&status["conditions"]).iter().any(|c| c["type"] == condition && c["status"] == "True")
}

fn pod(column: &str, object: &Value) -> Value {
    let (spec, status) = (&object["spec"], &object["status"]);
    let containers = list(&status["containerStatuses"]);
    match column {
        "Ready" => {
            let ready = containers.iter().filter(|c| c["ready"] == true).count();
            json!(format!("{ready}/{}", list(&spec["containers"]).len()))
        }
        "Status" => json!(pod_status(object)),
        "Restarts" => {
            let restarts: i64 = containers.iter().map(|c| number(&c["restartCount"])).sum();
            json!(restarts.to_string())
        }
        "IP" => json!(text(&status["podIP"])),
        "Node" => json!(text(&spec["nodeName"])),
        "Nominated Node" => json!(text(&status["nominatedNodeName"])),
        _ => json!("<none>"),
    }
}

/// Addresses that a load balancer gave.
fn addresses(status: &Value) -> impl Iterator<Item = &Value> {
    let ingress = list(&status["loadBalancer"]["ingress"]).iter();
    ingress.map(|i| if i["ip"].is_string() { &i["ip"] } else { &i["hostname"] })
}

fn service(column: &str, spec: &Value, status: &Value) -> Value {
    match column {
        "Type" => json!(text(&spec["type"])),
        "Cluster-IP" => json!(text(&spec["clusterIP"])),
        "External-IP" => {
            let pending = spec["type"] == "LoadBalancer" && addresses(status).next().is_none();
            json!(if pending { "<pending>".to_owned() } else { words(addresses(status)) })
        }
        _ => {
            let port = |p: &Value| match p["nodePort"].as_i64() {
                Some(node) => format!("{}:{node}/{}", p["port"], text(&p["protocol"])),
                None => format!("{}/{}", p["port"], text(&p["protocol"])),
            };
            let ports = list(&spec["ports"]).iter().map(port).collect::<Vec<_>>().join(",");
            json!(if ports.is_empty() { "<none>".to_owned() } else { ports })
        }
    }
}

fn contents(kind: &Kind, column: &str, object: &Value) -> Value {
    let count = |part: &str| object[part].as_object().map_or(0, serde_json::Map::len);
    match (kind.plural.as_str(), column) {
        ("configmaps", _) => json!(count("data") + count("binaryData")),
        ("secrets", "Data") => json!(count("data")),
        ("secrets", _) => json!(text(&object["type"])),
        _ => json!(list(&object["secrets"]).len()),
    }
}

fn volume(kind: &Kind, column: &str, object: &Value) -> Value {
    let (spec, status) = (&object["spec"], &object["status"]);
    let optional = |value: &Value| json!(value.as_str().unwrap_or_default());
    match column {
        "Status" => json!(text(&status["phase"])),
        "Volume" => optional(&spec["volumeName"]),
        "Capacity" if kind.is("", "persistentvolumes") => json!(text(&spec["capacity"]["storage"])),
        "Capacity" => optional(&status["capacity"]["storage"]),
        "Access Modes" => json!(words(list(&spec["accessModes"]).iter())),
        "StorageClass" => optional(&spec["storageClassName"]),
        "Reclaim Policy" => json!(text(&spec["persistentVolumeReclaimPolicy"])),
        _ => {
            let claim = &spec["claimRef"];
            let claim =
                claim["name"].as_str().map(|n| format!("{}/{n}", text(&claim["namespace"])));
            json!(claim.unwrap_or_default())
        }
    }
}

/// Kinds with columns that say what a field says.
fn other(column: &str, object: &Value) -> Value {
    let quota = |rest: bool| {
        let hard = object["status"]["hard"].as_object().or(object["spec"]["hard"].as_object());
        let of = |name: &String| name.starts_with("limits.") != rest;
        let shown = hard.into_iter().flatten().filter(|(name, _)| of(name)).map(|(name, hard)| {
            let used = object["status"]["used"][name].as_str().unwrap_or("0");
            format!("{name}: {used}/{}", text(hard))
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    let name_of = |reference: &Value| {
        json!(format!("{}/{}", text(&reference["kind"]), text(&reference["name"])))
    };
    match column {
        "Request" => json!(quota(true)),
        "Limit" => json!(quota(false)),
        "Role" => name_of(&object["roleRef"]),
        "Provisioner" => json!(text(&object["provisioner"])),
        "ReclaimPolicy" => json!(object["reclaimPolicy"].as_str().unwrap_or("Delete")),
        "VolumeBindingMode" => json!(object["volumeBindingMode"].as_str().unwrap_or("Immediate")),
        "AllowVolumeExpansion" => json!(object["allowVolumeExpansion"] == true),
        "Value" => object["value"].clone(),
        "Global-Default" => json!(object["globalDefault"] == true),
        "Revision" => object["revision"].clone(),
        "Controller" if object["revision"].is_number() => {
            let owner = list(&object["metadata"]["ownerReferences"]).first();
            owner.map_or_else(
                || json!("<none>"),
                |owner| {
                    let group = owner["apiVersion"].as_str().and_then(|v| v.split_once('/'));
                    let kind = text(&owner["kind"]).to_lowercase();
                    let suffix = group.map_or_else(String::new, |(group, _)| format!(".{group}"));
                    json!(format!("{kind}{suffix}/{}", text(&owner["name"])))
                },
            )
        }
        "Controller" => json!(text(&object["spec"]["controller"])),
        "Pod-Selector" => {
            json!(selector(&json!({"selector": object["spec"]["podSelector"].clone()})))
        }
        "Endpoints" => {
            let subsets = list(&object["subsets"]).iter();
            json!(words(subsets.flat_map(|s| list(&s["addresses"])).map(|a| &a["ip"])))
        }
        _ => json!("<none>"),
    }
}

fn event(column: &str, object: &Value, now: Timestamp) -> Value {
    let since = |times: [&Value; 3]| {
        let time = times.into_iter().find_map(|time| time.as_str());
        json!(time.map_or_else(|| "<unknown>".to_owned(), |time| gotime::age::since(time, now)))
    };
    match column {
        "Name" => object["metadata"]["name"].clone(),
        "Last Seen" => since([
            &object["series"]["lastObservedTime"],
            if object["lastTimestamp"].is_string() {
                &object["lastTimestamp"]
            } else {
                &object["deprecatedLastTimestamp"]
            },
            &object["eventTime"],
        ]),
        "First Seen" => since([
            &object["firstTimestamp"],
            &object["deprecatedFirstTimestamp"],
            &object["eventTime"],
        ]),
        "Count" => {
            let counts = [&object["series"]["count"], &object["count"], &object["deprecatedCount"]];
            json!(counts.into_iter().find_map(Value::as_i64).unwrap_or(1))
        }
        "Source" => {
            let source = if object["source"].is_object() {
                &object["source"]
            } else {
                &object["deprecatedSource"]
            };
            let controllers = [
                &source["component"],
                &object["reportingComponent"],
                &object["reportingController"],
            ];
            let component = controllers.into_iter().find_map(|name| name.as_str());
            let host = source["host"].as_str().map_or_else(String::new, |host| format!(", {host}"));
            json!(format!("{}{host}", component.unwrap_or_default()))
        }
        "Subobject" => {
            let path = object["involvedObject"]["fieldPath"].as_str();
            json!(path.or(object["regarding"]["fieldPath"].as_str()).unwrap_or_default())
        }
        "Object" => {
            let about = if object["involvedObject"].is_object() {
                &object["involvedObject"]
            } else {
                &object["regarding"]
            };
            json!(format!("{}/{}", text(&about["kind"]).to_lowercase(), text(&about["name"])))
        }
        "Message" => {
            json!(object["message"].as_str().or(object["note"].as_str()).unwrap_or_default())
        }
        "Type" => json!(text(&object["type"])),
        _ => json!(text(&object["reason"])),
    }
}

fn workload(kind: &Kind, column: &str, spec: &Value, status: &Value) -> Value {
    json!(match (kind.plural.as_str(), column) {
        ("deployments" | "statefulsets", "Ready") => {
            let ready = number(&status["readyReplicas"]);
            return json!(format!("{ready}/{}", number(&spec["replicas"])));
        }
        ("deployments", "Up-to-date") => number(&status["updatedReplicas"]),
        ("deployments", _) => number(&status["availableReplicas"]),
        ("daemonsets", "Desired") => number(&status["desiredNumberScheduled"]),
        ("daemonsets", "Current") => number(&status["currentNumberScheduled"]),
        ("daemonsets", "Ready") => number(&status["numberReady"]),
        ("daemonsets", "Up-to-date") => number(&status["updatedNumberScheduled"]),
        ("daemonsets", _) => number(&status["numberAvailable"]),
        (_, "Desired") => number(&spec["replicas"]),
        (_, "Current") => number(&status["replicas"]),
        _ => number(&status["readyReplicas"]),
    })
}

fn job(kind: &Kind, column: &str, object: &Value, now: Timestamp) -> Value {
    let (spec, status) = (&object["spec"], &object["status"]);
    match (kind.plural.as_str(), column) {
        ("jobs", "Status") => {
            let end = ["Complete", "Failed", "Suspended"].into_iter().find(|c| is_true(status, c));
            json!(end.unwrap_or("Running"))
        }
        ("jobs", "Completions") => {
            let wanted = spec["completions"].as_i64().unwrap_or(1);
            json!(format!("{}/{wanted}", number(&status["succeeded"])))
        }
        ("jobs", _) => json!(span(&status["startTime"], &status["completionTime"], now)),
        (_, "Schedule") => json!(text(&spec["schedule"])),
        (_, "Timezone") => json!(text(&spec["timeZone"])),
        (_, "Suspend") => json!(if spec["suspend"] == true { "True" } else { "False" }),
        (_, "Active") => json!(list(&status["active"]).len()),
        _ => {
            let last = status["lastScheduleTime"].as_str();
            json!(last.map_or("<none>".to_owned(), |t| gotime::age::since(t, now)))
        }
    }
}

fn ingress(column: &str, spec: &Value, status: &Value) -> Value {
    let or = |shown: String, none: &str| if shown == "<none>" { none.to_owned() } else { shown };
    match column {
        "Class" => json!(text(&spec["ingressClassName"])),
        "Hosts" => json!(or(words(list(&spec["rules"]).iter().map(|r| &r["host"])), "*")),
        "Address" => json!(or(words(addresses(status)), "")),
        _ => json!(if list(&spec["tls"]).is_empty() { "80" } else { "80, 443" }),
    }
}

fn scaling(column: &str, spec: &Value, status: &Value) -> Value {
    match column {
        "Reference" => {
            let target = &spec["scaleTargetRef"];
            json!(format!("{}/{}", text(&target["kind"]), text(&target["name"])))
        }
        "Targets" => {
            let targets = list(&spec["metrics"]).iter().filter_map(|metric| {
                let name = metric["resource"]["name"].as_str()?;
                let goal = &metric["resource"]["target"];
                let goal = match goal["averageUtilization"].as_i64() {
                    Some(percent) => format!("{percent}%"),
                    None => text(&goal["averageValue"]),
                };
                Some(format!("{name}: <unknown>/{goal}"))
            });
            let shown = targets.collect::<Vec<_>>().join(", ");
            json!(if shown.is_empty() { "<none>".to_owned() } else { shown })
        }
        "MinPods" => json!(text(&spec["minReplicas"])),
        "MaxPods" => json!(text(&spec["maxReplicas"])),
        "Replicas" => json!(number(&status["currentReplicas"])),
        "Min available" => json!(or_na(&spec["minAvailable"])),
        "Max unavailable" => json!(or_na(&spec["maxUnavailable"])),
        _ => json!(number(&status["disruptionsAllowed"])),
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
