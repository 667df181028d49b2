//! Columns of the built-in kinds that people look at with `kubectl get`.

use std::time::Duration;

use gotime::age;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::Kind;
use super::selectors::labels_text;

/// What a column shows of an object. Paths are JSON pointers.
enum Cell {
    /// A value as text, `<none>` without one.
    Text(&'static str),
    /// The first of these texts, nothing without one.
    First(&'static [&'static str]),
    /// A number, 0 without one.
    Number(&'static str),
    /// The first of these numbers, 1 without one.
    Count(&'static [&'static str]),
    /// How many entries these maps and lists have.
    Size(&'static [&'static str]),
    Flag(&'static str),
    /// How long ago the first of these times was.
    Since(&'static [&'static str]),
    /// The value itself.
    Raw(&'static str),
    By(fn(&Value) -> String),
    At(fn(&Value, Timestamp) -> String),
}

use Cell::{At, By, Count, First, Flag, Number, Raw, Since, Size, Text};

/// A name and what is below it; a leading `+` marks a wide column.
type Column = (&'static str, Cell);

static NAME: Column = ("Name", Raw("/metadata/name"));
static AGE: Column = ("Age", Since(&["/metadata/creationTimestamp"]));

/// The columns of a built-in kind besides name and age. Wide ones come after the age.
fn own(kind: &Kind) -> &'static [Column] {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => &[
            ("Ready", By(pod_ready)),
            ("Status", By(pod_status)),
            ("Restarts", By(restarts)),
            ("+IP", Text("/status/podIP")),
            ("+Node", Text("/spec/nodeName")),
            ("+Nominated Node", Text("/status/nominatedNodeName")),
            ("+Readiness Gates", By(none)),
        ],
        ("", "services") => &[
            ("Type", Text("/spec/type")),
            ("Cluster-IP", Text("/spec/clusterIP")),
            ("External-IP", By(external_addresses)),
            ("Port(s)", By(service_ports)),
            ("+Selector", By(selector)),
        ],
        ("", "namespaces") => &[("Status", Text("/status/phase"))],
        ("", "nodes") => &[("Status", By(node_status))],
        ("", "configmaps") => &[("Data", Size(&["/data", "/binaryData"]))],
        ("", "secrets") => &[("Type", Text("/type")), ("Data", Size(&["/data"]))],
        ("", "serviceaccounts") => &[("Secrets", Size(&["/secrets"]))],
        ("", "persistentvolumeclaims") => &[
            ("Status", Text("/status/phase")),
            ("Volume", First(&["/spec/volumeName"])),
            ("Capacity", First(&["/status/capacity/storage"])),
            ("Access Modes", By(access_modes)),
            ("StorageClass", First(&["/spec/storageClassName"])),
        ],
        ("", "persistentvolumes") => &[
            ("Capacity", Text("/spec/capacity/storage")),
            ("Access Modes", By(access_modes)),
            ("Reclaim Policy", Text("/spec/persistentVolumeReclaimPolicy")),
            ("Status", Text("/status/phase")),
            ("Claim", By(claim)),
            ("StorageClass", First(&["/spec/storageClassName"])),
        ],
        (_, "events") if kind.is_event() => EVENT,
        ("", "resourcequotas") => &[
            ("Request", By(|quota| limits(quota, false))),
            ("Limit", By(|quota| limits(quota, true))),
        ],
        ("", "endpoints") => &[("Endpoints", By(endpoints))],
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => CREATED,
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            &[("Role", By(|binding| reference(&binding["roleRef"])))]
        }
        ("storage.k8s.io", "storageclasses") => &[
            ("Provisioner", Text("/provisioner")),
            ("ReclaimPolicy", By(|class| or(&class["reclaimPolicy"], "Delete"))),
            ("VolumeBindingMode", By(|class| or(&class["volumeBindingMode"], "Immediate"))),
            ("AllowVolumeExpansion", Flag("/allowVolumeExpansion")),
        ],
        ("scheduling.k8s.io", "priorityclasses") => {
            &[("Value", Number("/value")), ("Global-Default", Flag("/globalDefault"))]
        }
        ("apps", "controllerrevisions") => {
            &[("Controller", By(owner)), ("Revision", Number("/revision"))]
        }
        ("networking.k8s.io", "networkpolicies") => &[("Pod-Selector", By(pod_selector))],
        ("networking.k8s.io", "ingressclasses") => {
            &[("Controller", Text("/spec/controller")), ("Parameters", By(none))]
        }
        ("apps", "deployments") => &[
            ("Ready", By(replicas_ready)),
            ("Up-to-date", Number("/status/updatedReplicas")),
            ("Available", Number("/status/availableReplicas")),
            ("+Containers", By(containers)),
            ("+Images", By(images)),
            ("+Selector", By(selector)),
        ],
        ("apps", "replicasets") | ("", "replicationcontrollers") => REPLICAS,
        ("apps", "statefulsets") => &[
            ("Ready", By(replicas_ready)),
            ("+Containers", By(containers)),
            ("+Images", By(images)),
        ],
        ("apps", "daemonsets") => &[
            ("Desired", Number("/status/desiredNumberScheduled")),
            ("Current", Number("/status/currentNumberScheduled")),
            ("Ready", Number("/status/numberReady")),
            ("Up-to-date", Number("/status/updatedNumberScheduled")),
            ("Available", Number("/status/numberAvailable")),
            ("+Containers", By(containers)),
            ("+Images", By(images)),
            ("+Selector", By(selector)),
        ],
        ("batch", "jobs") => &[
            ("Status", By(job_status)),
            ("Completions", By(completions)),
            ("Duration", At(duration)),
            ("+Containers", By(containers)),
            ("+Images", By(images)),
        ],
        ("batch", "cronjobs") => &[
            ("Schedule", Text("/spec/schedule")),
            ("Timezone", Text("/spec/timeZone")),
            ("Suspend", By(suspended)),
            ("Active", Size(&["/status/active"])),
            ("Last Schedule", At(last_schedule)),
        ],
        ("networking.k8s.io", "ingresses") => &[
            ("Class", Text("/spec/ingressClassName")),
            ("Hosts", By(|ingress| joined(hosts(ingress), "*"))),
            ("Address", By(|ingress| joined(addresses(ingress), ""))),
            ("Ports", By(ingress_ports)),
        ],
        ("autoscaling", "horizontalpodautoscalers") => &[
            ("Reference", By(|scaler| reference(&scaler["spec"]["scaleTargetRef"]))),
            ("Targets", By(targets)),
            ("MinPods", Text("/spec/minReplicas")),
            ("MaxPods", Text("/spec/maxReplicas")),
            ("Replicas", Number("/status/currentReplicas")),
        ],
        ("policy", "poddisruptionbudgets") => &[
            ("Min available", By(|budget| or_na(&budget["spec"]["minAvailable"]))),
            ("Max unavailable", By(|budget| or_na(&budget["spec"]["maxUnavailable"]))),
            ("Allowed disruptions", Number("/status/disruptionsAllowed")),
        ],
        ("coordination.k8s.io", "leases") => &[("Holder", Text("/spec/holderIdentity"))],
        ("apiextensions.k8s.io", "customresourcedefinitions") => CREATED,
        _ => &[],
    }
}

/// Instead of the age.
static CREATED: &[Column] = &[("Created At", Raw("/metadata/creationTimestamp"))];

static REPLICAS: &[Column] = &[
    ("Desired", Number("/spec/replicas")),
    ("Current", Number("/status/replicas")),
    ("Ready", Number("/status/readyReplicas")),
    ("+Containers", By(containers)),
    ("+Images", By(images)),
    ("+Selector", By(selector)),
];

/// All columns of Events, in an order of their own.
static EVENT: &[Column] = &[
    (
        "Last Seen",
        Since(&[
            "/series/lastObservedTime",
            "/lastTimestamp",
            "/deprecatedLastTimestamp",
            "/eventTime",
        ]),
    ),
    ("Type", Text("/type")),
    ("Reason", Text("/reason")),
    ("Object", By(about)),
    ("+Subobject", First(&["/involvedObject/fieldPath", "/regarding/fieldPath"])),
    ("+Source", By(source)),
    ("Message", First(&["/message", "/note"])),
    ("+First Seen", Since(&["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"])),
    ("+Count", Count(&["/series/count", "/count", "/deprecatedCount"])),
    ("+Name", Raw("/metadata/name")),
];

impl Cell {
    fn of(&self, object: &Value, now: Timestamp) -> Value {
        let at = |path: &str| object.pointer(path).unwrap_or(&Value::Null);
        let first = |paths: &[&str]| paths.iter().find_map(|path| at(path).as_str());
        match self {
            Text(path) => json!(text(at(path))),
            First(paths) => json!(first(paths).unwrap_or_default()),
            Number(path) => json!(number(at(path))),
            Count(paths) => json!(paths.iter().find_map(|path| at(path).as_i64()).unwrap_or(1)),
            Size(paths) => json!(paths.iter().map(|path| len(at(path))).sum::<usize>()),
            Flag(path) => json!(*at(path) == true),
            Since(paths) => {
                let time = first(paths);
                json!(time.map_or_else(|| "<unknown>".to_owned(), |time| age::age_since(time, now)))
            }
            Raw(path) => at(path).clone(),
            By(show) => json!(show(object)),
            At(show) => json!(show(object, now)),
        }
    }
}

/// The columns of a built-in kind in their order.
fn layout(kind: &Kind) -> impl Iterator<Item = &'static Column> {
    let own = own(kind);
    let is_event = kind.is_event();
    let wide = move |column: &&Column| !is_event && column.0.starts_with('+');
    let name = (!is_event).then_some(&NAME);
    let age = (!is_event && !own.iter().any(|column| column.0 == "Created At")).then_some(&AGE);
    let narrow = own.iter().filter(move |column| !wide(column));
    name.into_iter().chain(narrow).chain(age).chain(own.iter().filter(wide))
}

/// Describes a column.
pub(crate) fn definition(
    name: &str,
    kind: &str,
    format: &str,
    priority: i64,
    description: &str,
) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}

/// Column descriptions of a built-in kind.
pub(crate) fn definitions(kind: &Kind) -> Vec<Value> {
    let describe = |(name, cell): &Column| {
        let (name, priority) = name.strip_prefix('+').map_or((*name, 0), |name| (name, 1));
        let (format, description) = match (name, priority) {
            ("Name", 0) => ("name", "Name must be unique within a namespace."),
            ("Name", _) => ("name", ""),
            ("Age", _) => ("", "Time since the object was created."),
            _ => ("", ""),
        };
        let is_number = matches!(cell, Number(_) | Count(_) | Size(_));
        let kind = if is_number { "integer" } else { "string" };
        definition(name, kind, format, priority, description)
    };
    layout(kind).map(describe).collect()
}

/// The cells of one row, in the order of [`definitions`].
pub(crate) fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    layout(kind).map(|(_, cell)| cell.of(object, now)).collect()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn len(value: &Value) -> usize {
    value.as_object().map_or_else(|| list(value).len(), serde_json::Map::len)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "<none>".to_owned(),
        Value::String(text) => shown(text.clone()),
        other => other.to_string(),
    }
}

fn shown(text: String) -> String {
    if text.is_empty() { none(&Value::Null) } else { text }
}

fn none(_: &Value) -> String {
    "<none>".to_owned()
}

fn or(value: &Value, default: &str) -> String {
    value.as_str().unwrap_or(default).to_owned()
}

fn or_na(value: &Value) -> String {
    if value.is_null() { "N/A".to_owned() } else { text(value) }
}

/// The texts of a list, or what is shown instead of none.
fn joined<'a>(items: impl Iterator<Item = &'a Value>, none: &str) -> String {
    let list = items.filter_map(Value::as_str).collect::<Vec<_>>().join(",");
    if list.is_empty() { none.to_owned() } else { list }
}

fn words<'a>(items: impl Iterator<Item = &'a Value>) -> String {
    joined(items, "<none>")
}

fn reference(reference: &Value) -> String {
    format!("{}/{}", text(&reference["kind"]), text(&reference["name"]))
}

/// Whether a status condition is `True`.
fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = list(&object["status"]["conditions"]);
    conditions.iter().any(|c| c["type"] == condition && c["status"] == "True")
}

fn template_containers(object: &Value) -> impl Iterator<Item = &Value> {
    list(&object["spec"]["template"]["spec"]["containers"]).iter()
}

fn containers(object: &Value) -> String {
    words(template_containers(object).map(|container| &container["name"]))
}

fn images(object: &Value) -> String {
    words(template_containers(object).map(|container| &container["image"]))
}

fn selector(object: &Value) -> String {
    shown(labels_text(&object["spec"]["selector"]))
}

fn pod_selector(policy: &Value) -> String {
    shown(labels_text(&policy["spec"]["podSelector"]))
}

fn replicas_ready(object: &Value) -> String {
    let (spec, status) = (&object["spec"], &object["status"]);
    format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"]))
}

fn pod_ready(pod: &Value) -> String {
    let containers = list(&pod["status"]["containerStatuses"]).iter();
    let ready = containers.filter(|container| container["ready"] == true).count();
    format!("{ready}/{}", list(&pod["spec"]["containers"]).len())
}

fn pod_status(pod: &Value) -> String {
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return "Terminating".to_owned();
    }
    let status = &pod["status"];
    for container in list(&status["containerStatuses"]) {
        for state in ["waiting", "terminated"] {
            let reason = container["state"][state]["reason"].as_str();
            if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
                return reason.to_owned();
            }
        }
    }
    status["reason"].as_str().map_or_else(|| text(&status["phase"]), str::to_owned)
}

fn restarts(pod: &Value) -> String {
    let containers = list(&pod["status"]["containerStatuses"]).iter();
    containers.map(|container| number(&container["restartCount"])).sum::<i64>().to_string()
}

fn node_status(node: &Value) -> String {
    if is_true(node, "Ready") { "Ready" } else { "NotReady" }.to_owned()
}

/// Addresses that a load balancer gave.
fn addresses(object: &Value) -> impl Iterator<Item = &Value> {
    let ingress = list(&object["status"]["loadBalancer"]["ingress"]).iter();
    ingress.map(|i| if i["ip"].is_string() { &i["ip"] } else { &i["hostname"] })
}

fn external_addresses(service: &Value) -> String {
    let pending = service["spec"]["type"] == "LoadBalancer";
    joined(addresses(service), if pending { "<pending>" } else { "<none>" })
}

fn service_ports(service: &Value) -> String {
    let port = |p: &Value| match p["nodePort"].as_i64() {
        Some(node) => format!("{}:{node}/{}", p["port"], text(&p["protocol"])),
        None => format!("{}/{}", p["port"], text(&p["protocol"])),
    };
    shown(list(&service["spec"]["ports"]).iter().map(port).collect::<Vec<_>>().join(","))
}

fn hosts(ingress: &Value) -> impl Iterator<Item = &Value> {
    list(&ingress["spec"]["rules"]).iter().map(|rule| &rule["host"])
}

fn ingress_ports(ingress: &Value) -> String {
    if list(&ingress["spec"]["tls"]).is_empty() { "80" } else { "80, 443" }.to_owned()
}

fn access_modes(volume: &Value) -> String {
    words(list(&volume["spec"]["accessModes"]).iter())
}

fn claim(volume: &Value) -> String {
    let claim = &volume["spec"]["claimRef"];
    let name = claim["name"].as_str();
    name.map(|name| format!("{}/{name}", text(&claim["namespace"]))).unwrap_or_default()
}

/// What is used of each resource of a quota: of limits, or of all else.
fn limits(quota: &Value, limits: bool) -> String {
    let hard = quota["status"]["hard"].as_object().or(quota["spec"]["hard"].as_object());
    let of = |name: &String| name.starts_with("limits.") == limits;
    let shown = hard.into_iter().flatten().filter(|(name, _)| of(name)).map(|(name, hard)| {
        let used = quota["status"]["used"][name].as_str().unwrap_or("0");
        format!("{name}: {used}/{}", text(hard))
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn endpoints(endpoints: &Value) -> String {
    let subsets = list(&endpoints["subsets"]).iter();
    words(subsets.flat_map(|subset| list(&subset["addresses"])).map(|address| &address["ip"]))
}

fn owner(revision: &Value) -> String {
    let Some(owner) = list(&revision["metadata"]["ownerReferences"]).first() else {
        return none(revision);
    };
    let group = owner["apiVersion"].as_str().and_then(|version| version.split_once('/'));
    let suffix = group.map_or_else(String::new, |(group, _)| format!(".{group}"));
    format!("{}{suffix}/{}", text(&owner["kind"]).to_lowercase(), text(&owner["name"]))
}

fn job_status(job: &Value) -> String {
    let end = ["Complete", "Failed", "Suspended"].into_iter().find(|end| is_true(job, end));
    end.unwrap_or("Running").to_owned()
}

fn completions(job: &Value) -> String {
    let wanted = job["spec"]["completions"].as_i64().unwrap_or(1);
    format!("{}/{wanted}", number(&job["status"]["succeeded"]))
}

/// How long a Job has run, up to now while it runs.
fn duration(job: &Value, now: Timestamp) -> String {
    let time = |field: &str| job["status"][field].as_str()?.parse::<Timestamp>().ok();
    let Some(from) = time("startTime") else { return String::new() };
    let to = time("completionTime").unwrap_or(now);
    let seconds = u64::try_from(to.as_second() - from.as_second()).unwrap_or(0);
    age::human_duration(Duration::from_secs(seconds))
}

fn suspended(job: &Value) -> String {
    if job["spec"]["suspend"] == true { "True" } else { "False" }.to_owned()
}

fn last_schedule(job: &Value, now: Timestamp) -> String {
    let last = job["status"]["lastScheduleTime"].as_str();
    last.map_or_else(|| none(job), |time| age::age_since(time, now))
}

fn targets(scaler: &Value) -> String {
    let targets = list(&scaler["spec"]["metrics"]).iter().filter_map(|metric| {
        let name = metric["resource"]["name"].as_str()?;
        let goal = &metric["resource"]["target"];
        let goal = match goal["averageUtilization"].as_i64() {
            Some(percent) => format!("{percent}%"),
            None => text(&goal["averageValue"]),
        };
        Some(format!("{name}: <unknown>/{goal}"))
    });
    shown(targets.collect::<Vec<_>>().join(", "))
}

/// The first of these fields that is an object.
fn either<'a>(event: &'a Value, field: &str, other: &str) -> &'a Value {
    if event[field].is_object() { &event[field] } else { &event[other] }
}

fn about(event: &Value) -> String {
    let about = either(event, "involvedObject", "regarding");
    format!("{}/{}", text(&about["kind"]).to_lowercase(), text(&about["name"]))
}

fn source(event: &Value) -> String {
    let source = either(event, "source", "deprecatedSource");
    let controllers =
        [&source["component"], &event["reportingComponent"], &event["reportingController"]];
    let component = controllers.into_iter().find_map(Value::as_str).unwrap_or_default();
    let host = source["host"].as_str().map_or_else(String::new, |host| format!(", {host}"));
    format!("{component}{host}")
}
