//! What holds a workload: from its ReplicaSets, its Pods and their Events to the object that
//! says why, such as a Pod whose image cannot be pulled.
//!
//! Pure: what could not be read is missing from [`Below`], and the rest is judged.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use wavegate_api::Raw;

/// A workload and what is below it, as read from its cluster.
#[derive(Clone, Debug, Default)]
pub struct Below {
    /// The Deployment, ReplicaSet, StatefulSet, DaemonSet, Job or Pod; null when it could
    /// not be read.
    pub workload: Value,
    /// ReplicaSets that it owns.
    pub replica_sets: Vec<Value>,
    /// Pods that it or one of these owns.
    pub pods: Vec<Value>,
    /// Events of all of them.
    pub events: Vec<Value>,
}

/// The object that keeps a workload from being ready, and what it says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// Kind of the object: `Pod`, or the one whose Pods cannot be created.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The container; empty when it is not about one.
    pub container: String,
    /// A word, such as `ImagePullBackOff`, `CrashLoopBackOff`, `Unschedulable`, `Unhealthy`
    /// or `FailedCreate`.
    pub reason: String,
    /// The message of the cluster, with the exit code and the last lines of the termination
    /// message of a container that has ended; empty when there is none.
    pub message: String,
    /// How many other Pods of the workload have the same reason.
    pub others: usize,
    /// A Pod of an older revision, which its StatefulSet does not replace before it is ready:
    /// a person has to delete it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_to_be_deleted: bool,
}

/// `Pod shop/web-1 (and 2 more): container main: CrashLoopBackOff: …`.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, container, reason, message, others, .. } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        write!(f, "{kind} {namespace}{slash}{name}")?;
        if *others > 0 {
            write!(f, " (and {others} more)")?;
        }
        if self.has_to_be_deleted {
            write!(f, " of an older revision")?;
        }
        if !container.is_empty() {
            write!(f, ": container {container}")?;
        }
        write!(f, ": {reason}")?;
        if message.is_empty() { Ok(()) } else { write!(f, ": {message}") }
    }
}

/// The most lines of a termination message, counted from its end.
const LINES: usize = 5;
/// The most characters of a message; a termination message may have 4096 bytes.
const CHARACTERS: usize = 600;

/// Reasons of containers that start as they should.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// Kinds below which Pods are looked for.
pub fn has_pods(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
            | ("batch", "Job")
            | ("", "Pod" | "ReplicationController")
    )
}

/// The newest ReplicaSet of a Deployment, whose Pods count.
pub fn newest(replica_sets: &[Value]) -> Option<&Value> {
    const REVISION: &str = "/metadata/annotations/deployment.kubernetes.io~1revision";
    let revision = |set: &&Value| set.text(REVISION).parse::<u64>().unwrap_or_default();
    let created = |set: &&Value| set.text("/metadata/creationTimestamp").to_owned();
    replica_sets.iter().max_by_key(|set| (revision(set), created(set)))
}

/// Pods that are not as they should be, and hold the workload, the worst first: those whose
/// Events are worth reading.
pub fn suspects(below: &Below) -> Vec<&Value> {
    let mut pods: Vec<&Value> = present(below).filter(|pod| !is_fine(pod)).collect();
    let rank = |pod: &Value| of_pod(pod, &[]).map_or(u8::MAX, |(rank, _)| rank);
    pods.sort_by_key(|pod| order(rank(pod), is_older(below, pod)));
    pods
}

/// The order of causes: newer Pods first, unless these only start.
fn order(rank: u8, is_older: bool) -> (bool, bool, u8) {
    (rank >= rank::STARTS, is_older, rank)
}

/// Why the workload is not ready; `None` when nothing of what was read says so.
pub fn cause(below: &Below) -> Option<Cause> {
    let of_pod = |pod| {
        let (rank, cause) = of_pod(pod, &below.events)?;
        let is_older = is_older(below, pod);
        let has_to_be_deleted = is_older && waits_for_older(&below.workload);
        Some((order(rank, is_older), rank, Cause { has_to_be_deleted, ..cause }))
    };
    let pods = present(below).filter(|pod| !is_fine(pod));
    let mut found: Vec<((bool, bool, u8), u8, Cause)> = pods.filter_map(of_pod).collect();
    // Stable: of equal ones the first by name.
    found.sort_by(|(a, _, one), (b, _, other)| (a, &one.name).cmp(&(b, &other.name)));
    let others = |cause: &Cause| {
        found.iter().filter(|(.., other)| other.reason == cause.reason).count().saturating_sub(1)
    };
    let worst = found
        .first()
        .map(|(_, rank, cause)| (*rank, Cause { others: others(cause), ..cause.clone() }));
    match (worst, uncreated(below)) {
        // Pods that only start say less than that others cannot be created.
        (Some((rank, _)), Some(uncreated)) if rank >= rank::STARTS => Some(uncreated),
        (Some((_, cause)), _) => Some(cause),
        (None, uncreated) => uncreated,
    }
}

/// How much a state says: the lowest first.
mod rank {
    pub const CONTAINER: u8 = 0;
    pub const ENDED: u8 = 1;
    pub const UNSCHEDULABLE: u8 = 2;
    pub const UNHEALTHY: u8 = 3;
    pub const STARTS: u8 = 4;
}

/// The Pods that are not being deleted: of a Deployment those of its newest version, of a
/// StatefulSet those of all revisions, since it waits for older ones, too.
fn present(below: &Below) -> impl Iterator<Item = &Value> {
    let set = newest(&below.replica_sets).map(|set| set.text("/metadata/uid"));
    let is_present = move |pod: &&Value| {
        let owned =
            |uid: &str| pod.items("/metadata/ownerReferences").iter().any(|o| o["uid"] == uid);
        pod["metadata"]["deletionTimestamp"].is_null() && set.is_none_or(owned)
    };
    below.pods.iter().filter(is_present)
}

/// Whether a Pod of a StatefulSet is of an older revision.
fn is_older(below: &Below, pod: &Value) -> bool {
    let newest = below.workload.text("/status/updateRevision");
    let own = pod.text("/metadata/labels/controller-revision-hash");
    !newest.is_empty() && !own.is_empty() && own != newest
}

/// Whether a StatefulSet replaces a Pod of an older revision only when it is ready, or never,
/// and would not create it with the same revision again.
fn waits_for_older(workload: &Value) -> bool {
    let is_partitioned = workload["spec"]["updateStrategy"]["rollingUpdate"]["partition"]
        .as_u64()
        .is_some_and(|partition| partition > 0);
    let is_parallel = workload.text("/spec/podManagementPolicy") == "Parallel";
    let is_by_hand = workload.text("/spec/updateStrategy/type") == "OnDelete";
    !is_partitioned && (is_by_hand || !is_parallel)
}

/// Whether nothing is to be said about a Pod: it is ready, or has done its work.
fn is_fine(pod: &Value) -> bool {
    pod.text("/status/phase") == "Succeeded" || condition(pod, "Ready")["status"] == "True"
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    static ABSENT: Value = Value::Null;
    object.items("/status/conditions").iter().find(|found| found["type"] == kind).unwrap_or(&ABSENT)
}

/// What a Pod waits for, or what it failed on.
fn of_pod(pod: &Value, events: &[Value]) -> Option<(u8, Cause)> {
    let cause = |container: &str, reason: &str, message: String| Cause {
        kind: "Pod".to_owned(),
        namespace: pod.text("/metadata/namespace").to_owned(),
        name: pod.text("/metadata/name").to_owned(),
        container: container.to_owned(),
        reason: reason.to_owned(),
        message: cut(&message),
        ..Cause::default()
    };
    // Init containers come first, in time as well.
    let statuses = || {
        let fields = ["/status/initContainerStatuses", "/status/containerStatuses"];
        fields.into_iter().flat_map(|field| pod.items(field))
    };
    for status in statuses() {
        let waiting = &status["state"]["waiting"];
        let reason = waiting.field("reason");
        if reason.is_empty() || STARTING.contains(&reason) {
            continue;
        }
        let ended = exit(&status["lastState"]["terminated"]);
        let parts = [waiting.field("message").to_owned(), ended.unwrap_or_default()];
        return Some((rank::CONTAINER, cause(status.field("name"), reason, joined(&parts))));
    }
    for status in statuses() {
        let terminated = &status["state"]["terminated"];
        if let Some(ended) = exit(terminated) {
            let reason = match terminated.field("reason") {
                "" => "Error",
                reason => reason,
            };
            return Some((rank::ENDED, cause(status.field("name"), reason, ended)));
        }
    }
    if pod.text("/status/phase") == "Failed" {
        let reason = match pod.text("/status/reason") {
            "" => "Failed",
            reason => reason,
        };
        return Some((rank::ENDED, cause("", reason, pod.text("/status/message").to_owned())));
    }
    let scheduled = condition(pod, "PodScheduled");
    if scheduled["status"] == "False" {
        let reason = match scheduled.field("reason") {
            "" => "Unschedulable",
            reason => reason,
        };
        let message = scheduled.field("message").to_owned();
        return Some((rank::UNSCHEDULABLE, cause("", reason, message)));
    }
    if let Some(warning) = latest(events, pod, |reason| reason != "BackOff") {
        let rank =
            if warning.field("reason") == "Unhealthy" { rank::UNHEALTHY } else { rank::ENDED };
        return Some((
            rank,
            cause("", warning.field("reason"), warning.field("message").to_owned()),
        ));
    }
    let unready = pod
        .items("/status/containerStatuses")
        .iter()
        .find(|status| !status["state"]["running"].is_null() && status["ready"] != true);
    if let Some(status) = unready {
        let name = status.field("name");
        let spec = pod.items("/spec/containers").iter().find(|one| one.field("name") == name);
        let probe = ["startupProbe", "readinessProbe"].into_iter().find(|probe| {
            let is_done = *probe == "startupProbe" && status["started"] == true;
            !is_done && spec.is_some_and(|spec| spec[*probe].is_object())
        });
        let message = match probe {
            Some("startupProbe") => "it runs, and its startup probe has not succeeded yet",
            Some(_) => "it runs, and its readiness probe does not succeed",
            None => "it runs and is not ready",
        };
        return Some((rank::UNHEALTHY, cause(name, "Unhealthy", message.to_owned())));
    }
    // A readiness gate, whose condition another controller writes.
    let ready = condition(pod, "Ready");
    if ready.field("reason") == "ReadinessGatesNotReady" {
        let message = ready.field("message").to_owned();
        return Some((rank::UNHEALTHY, cause("", "ReadinessGatesNotReady", message)));
    }
    let starting = statuses().find(|status| !status["state"]["waiting"].is_null());
    let reason = starting.map_or("Pending", |status| status["state"]["waiting"].field("reason"));
    let container = starting.map_or("", |status| status.field("name"));
    Some((rank::STARTS, cause(container, reason, String::new())))
}

/// How a container has ended, unless it succeeded: exit code, and the last lines of its
/// termination message.
fn exit(terminated: &Value) -> Option<String> {
    let code = terminated["exitCode"].as_i64().filter(|code| *code != 0)?;
    let why = match (terminated.field("reason"), terminated["signal"].as_i64()) {
        (_, Some(signal)) if signal != 0 => format!(" (signal {signal})"),
        ("" | "Error", _) => String::new(),
        (reason, _) => format!(" ({reason})"),
    };
    let lines = last_lines(terminated.field("message"));
    let colon = if lines.is_empty() { "" } else { ": " };
    Some(format!("it exited with code {code}{why}{colon}{lines}"))
}

/// The last lines of a text in one line.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> =
        text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join("; ")
}

fn joined(parts: &[String]) -> String {
    let parts: Vec<&str> =
        parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join("; ")
}

/// The end of a long text: what a program says last is why it ended.
fn cut(text: &str) -> String {
    let count = text.chars().count();
    match count.checked_sub(CHARACTERS) {
        None | Some(0) => text.to_owned(),
        Some(surplus) => format!("…{}", text.chars().skip(surplus).collect::<String>()),
    }
}

/// The latest Warning about an object, by the words of its reason.
fn latest<'a>(
    events: &'a [Value],
    object: &Value,
    is_wanted: impl Fn(&str) -> bool,
) -> Option<&'a Value> {
    let uid = object.text("/metadata/uid");
    let about = |event: &&Value| {
        event["type"] == "Warning"
            && event["involvedObject"]["uid"] == uid
            && is_wanted(event.field("reason"))
    };
    let at = |event: &&'a Value| {
        let series = event.text("/series/lastObservedTime");
        let times = [series, event.field("lastTimestamp"), event.field("eventTime")];
        let last = times.into_iter().find(|time| !time.is_empty()).unwrap_or_default();
        last.parse::<jiff::Timestamp>().ok()
    };
    events.iter().filter(about).max_by_key(at)
}

/// Why Pods of a workload are not created, such as a quota: a condition of its ReplicaSet,
/// or an Event of a controller whose kind has no such condition.
fn uncreated(below: &Below) -> Option<Cause> {
    let of = |object: &Value, kind: &str, message: &str| Cause {
        kind: kind.to_owned(),
        namespace: object.text("/metadata/namespace").to_owned(),
        name: object.text("/metadata/name").to_owned(),
        reason: "FailedCreate".to_owned(),
        message: cut(message),
        ..Cause::default()
    };
    let kind = below.workload.text("/kind");
    let newest = newest(&below.replica_sets);
    let replica_set = newest.map(|set| (set, "ReplicaSet"));
    let objects = [replica_set, Some((&below.workload, kind))];
    for (object, kind) in objects.into_iter().flatten() {
        let failure = condition(object, "ReplicaFailure");
        if failure["status"] == "True" {
            return Some(of(object, kind, failure.field("message")));
        }
        // An Event stays for an hour after its cause: only where Pods are missing.
        let event = latest(&below.events, object, |reason| reason == "FailedCreate");
        if let Some(event) = event.filter(|_| lacks_pods(below, object, kind)) {
            return Some(of(object, kind, event.field("message")));
        }
    }
    None
}

/// Whether an object has fewer Pods than it wants.
fn lacks_pods(below: &Below, object: &Value, kind: &str) -> bool {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_u64);
    let wanted = match kind {
        "DaemonSet" => number("/status/desiredNumberScheduled").unwrap_or(1),
        "Job" => number("/spec/parallelism").unwrap_or(1),
        _ => number("/spec/replicas").unwrap_or(1),
    };
    (present(below).count() as u64) < wanted
}

#[cfg(test)]
mod tests;
