//! What holds a workload: from its ReplicaSets, its Pods and their Events to the object that
//! says why, such as a Pod whose image cannot be pulled.
//!
//! Pure: what could not be read is missing from [`Below`], and the rest is judged.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use wavegate_api::pod::{
    ContainerStatusView, ContainerTerminated, ContainerWaiting, EventView, PodView, WorkloadView,
    find_condition,
};
use wavegate_api::{Raw, read_leniently};

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
pub struct WorkloadCause {
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
impl fmt::Display for WorkloadCause {
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
pub fn newest_replica_set(replica_sets: &[Value]) -> Option<&Value> {
    const REVISION: &str = "/metadata/annotations/deployment.kubernetes.io~1revision";
    let revision = |set: &&Value| set.text(REVISION).parse::<u64>().unwrap_or_default();
    let created = |set: &&Value| set.text("/metadata/creationTimestamp").to_owned();
    replica_sets.iter().max_by_key(|set| (revision(set), created(set)))
}

/// Pods that are not as they should be, and hold the workload, the worst first: those whose
/// Events are worth reading.
pub fn suspect_pods(below: &Below) -> Vec<&Value> {
    let rank = |pod: &Suspect<'_>| of_pod(pod, &[]).map_or(u8::MAX, |(rank, _)| rank);
    let mut pods: Vec<Suspect<'_>> = unready(below).collect();
    pods.sort_by_key(|pod| order(rank(pod), is_older(below, pod.raw)));
    pods.into_iter().map(|pod| pod.raw).collect()
}

/// A Pod of the workload.
struct Suspect<'a> {
    raw: &'a Value,
    view: PodView,
}

/// The order of causes: newer Pods first, unless these only start.
fn order(rank: u8, is_older: bool) -> (bool, bool, u8) {
    (rank >= rank::STARTS, is_older, rank)
}

/// Why the workload is not ready; `None` when nothing of what was read says so.
pub fn workload_cause(below: &Below) -> Option<WorkloadCause> {
    let events: Vec<EventView> = below.events.iter().map(read_leniently).collect();
    let of_pod = |pod: Suspect<'_>| {
        let (rank, cause) = of_pod(&pod, &events)?;
        let is_older = is_older(below, pod.raw);
        let has_to_be_deleted = is_older && waits_for_older(&below.workload);
        Some((order(rank, is_older), rank, WorkloadCause { has_to_be_deleted, ..cause }))
    };
    let mut found: Vec<((bool, bool, u8), u8, WorkloadCause)> =
        unready(below).filter_map(of_pod).collect();
    // Stable: of equal ones the first by name.
    found.sort_by(|(a, _, one), (b, _, other)| (a, &one.name).cmp(&(b, &other.name)));
    let others = |cause: &WorkloadCause| {
        found.iter().filter(|(.., other)| other.reason == cause.reason).count().saturating_sub(1)
    };
    let worst = found
        .first()
        .map(|(_, rank, cause)| (*rank, WorkloadCause { others: others(cause), ..cause.clone() }));
    match (worst, uncreated(below, &events)) {
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
    let set = newest_replica_set(&below.replica_sets).map(Raw::uid);
    let is_present = move |pod: &&Value| {
        let owned = |uid: &str| pod.owners().any(|owner| owner.uid == uid);
        !pod.is_deleting() && set.is_none_or(owned)
    };
    below.pods.iter().filter(is_present)
}

/// Those of them about which something is to be said: they are not ready, and have not done their
/// work.
fn unready(below: &Below) -> impl Iterator<Item = Suspect<'_>> {
    let pods = present(below).map(|raw| Suspect { raw, view: read_leniently(raw) });
    pods.filter(|Suspect { view: PodView { status, .. }, .. }| {
        let ready = find_condition(&status.conditions, "Ready");
        status.phase != "Succeeded" && ready.is_none_or(|ready| ready.status != "True")
    })
}

/// Whether a Pod of a StatefulSet is of an older revision.
fn is_older(below: &Below, pod: &Value) -> bool {
    let newest = below.workload.text("/status/updateRevision");
    let own = pod.label("controller-revision-hash").unwrap_or_default();
    !newest.is_empty() && !own.is_empty() && own != newest
}

/// Whether a StatefulSet replaces a Pod of an older revision only when it is ready, or never,
/// and would not create it with the same revision again.
fn waits_for_older(workload: &Value) -> bool {
    let spec = read_leniently::<WorkloadView>(workload).spec;
    let is_partitioned = spec.update_strategy.rolling_update.partition > 0;
    let is_parallel = spec.pod_management_policy == "Parallel";
    let is_by_hand = spec.update_strategy.type_ == "OnDelete";
    !is_partitioned && (is_by_hand || !is_parallel)
}

/// A word, or what stands for none.
fn word_or<'a>(word: &'a str, other: &'a str) -> &'a str {
    if word.is_empty() { other } else { word }
}

/// What a Pod waits for, or what it failed on.
fn of_pod(pod: &Suspect<'_>, events: &[EventView]) -> Option<(u8, WorkloadCause)> {
    let Suspect { raw, view: PodView { spec, status } } = pod;
    let cause = |container: &str, reason: &str, message: &str| WorkloadCause {
        kind: "Pod".to_owned(),
        namespace: raw.namespace().to_owned(),
        name: raw.name().to_owned(),
        container: container.to_owned(),
        reason: reason.to_owned(),
        message: cut(message),
        ..WorkloadCause::default()
    };
    // Init containers come first, in time as well.
    let statuses = || status.init_container_statuses.iter().chain(&status.container_statuses);
    for ContainerStatusView { name, state, last_state, .. } in statuses() {
        let Some(ContainerWaiting { reason, message }) = &state.waiting else { continue };
        if reason.is_empty() || STARTING.contains(&reason.as_str()) {
            continue;
        }
        let ended = last_state.terminated.as_ref().and_then(exit);
        let parts = [message.clone(), ended.unwrap_or_default()];
        return Some((rank::CONTAINER, cause(name, reason, &joined(&parts))));
    }
    for ContainerStatusView { name, state, .. } in statuses() {
        let terminated = state.terminated.as_ref();
        if let Some((terminated, ended)) = terminated.and_then(|one| Some((one, exit(one)?))) {
            return Some((rank::ENDED, cause(name, word_or(&terminated.reason, "Error"), &ended)));
        }
    }
    if status.phase == "Failed" {
        let reason = word_or(&status.reason, "Failed");
        return Some((rank::ENDED, cause("", reason, &status.message)));
    }
    let scheduled = find_condition(&status.conditions, "PodScheduled");
    if let Some(scheduled) = scheduled.filter(|scheduled| scheduled.status == "False") {
        let reason = word_or(&scheduled.reason, "Unschedulable");
        return Some((rank::UNSCHEDULABLE, cause("", reason, &scheduled.message)));
    }
    if let Some(EventView { reason, message, .. }) =
        latest(events, raw.uid(), |reason| reason != "BackOff")
    {
        let rank = if reason == "Unhealthy" { rank::UNHEALTHY } else { rank::ENDED };
        return Some((rank, cause("", reason, message)));
    }
    let unready = status.container_statuses.iter();
    let mut unready = unready.filter(|one| one.state.running.is_some() && !one.ready);
    if let Some(ContainerStatusView { name, started, .. }) = unready.next() {
        let container = spec.containers.iter().find(|one| one.name == *name);
        let message = match container {
            Some(one) if one.startup_probe.is_some() && !started => {
                "it runs, and its startup probe has not succeeded yet"
            }
            Some(one) if one.readiness_probe.is_some() => {
                "it runs, and its readiness probe does not succeed"
            }
            _ => "it runs and is not ready",
        };
        return Some((rank::UNHEALTHY, cause(name, "Unhealthy", message)));
    }
    // A readiness gate, whose condition another controller writes.
    let ready = find_condition(&status.conditions, "Ready");
    if let Some(ready) = ready.filter(|ready| ready.reason == "ReadinessGatesNotReady") {
        return Some((rank::UNHEALTHY, cause("", &ready.reason, &ready.message)));
    }
    let starting =
        statuses().find_map(|one| Some((&one.name, &one.state.waiting.as_ref()?.reason)));
    let (container, reason) = starting.map_or(("", "Pending"), |(name, reason)| (name, reason));
    Some((rank::STARTS, cause(container, reason, "")))
}

/// How a container has ended, unless it succeeded: exit code, and the last lines of its
/// termination message.
fn exit(terminated: &ContainerTerminated) -> Option<String> {
    let code = terminated.exit_code.filter(|code| *code != 0)?;
    let why = match (terminated.reason.as_str(), terminated.signal) {
        ("" | "Error", 0) => String::new(),
        (reason, 0) => format!(" ({reason})"),
        (_, signal) => format!(" (signal {signal})"),
    };
    let lines = last_lines(&terminated.message);
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
    events: &'a [EventView],
    uid: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> Option<&'a EventView> {
    let about = |event: &&EventView| {
        event.type_ == "Warning" && event.involved_object.uid == uid && is_wanted(&event.reason)
    };
    let at = |event: &&EventView| {
        let times = [&event.series.last_observed_time, &event.last_timestamp, &event.event_time];
        let last = times.into_iter().find(|time| !time.is_empty())?;
        last.parse::<jiff::Timestamp>().ok()
    };
    events.iter().filter(about).max_by_key(at)
}

/// Why Pods of a workload are not created, such as a quota: a condition of its ReplicaSet,
/// or an Event of a controller whose kind has no such condition.
fn uncreated(below: &Below, events: &[EventView]) -> Option<WorkloadCause> {
    let of = |object: &Value, kind: &str, message: &str| WorkloadCause {
        kind: kind.to_owned(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        reason: "FailedCreate".to_owned(),
        message: cut(message),
        ..WorkloadCause::default()
    };
    let replica_set = newest_replica_set(&below.replica_sets).map(|set| (set, "ReplicaSet"));
    let objects = [replica_set, Some((&below.workload, below.workload.kind()))];
    for (object, kind) in objects.into_iter().flatten() {
        let view: WorkloadView = read_leniently(object);
        let failure = find_condition(&view.status.conditions, "ReplicaFailure");
        if let Some(failure) = failure.filter(|failure| failure.status == "True") {
            return Some(of(object, kind, &failure.message));
        }
        // An Event stays for an hour after its cause: only where Pods are missing.
        let event = latest(events, object.uid(), |reason| reason == "FailedCreate");
        if let Some(event) = event.filter(|_| lacks_pods(below, &view, kind)) {
            return Some(of(object, kind, &event.message));
        }
    }
    None
}

/// Whether an object has fewer Pods than it wants.
fn lacks_pods(below: &Below, WorkloadView { spec, status }: &WorkloadView, kind: &str) -> bool {
    let wanted = match kind {
        "DaemonSet" => status.desired_number_scheduled,
        "Job" => spec.parallelism,
        _ => spec.replicas,
    };
    (present(below).count() as u64) < wanted.unwrap_or(1)
}

#[cfg(test)]
mod tests;
