//! Health of kinds without a rule of their own, from what well-behaved controllers report.
//!
//! The conventions are those of the Kubernetes API and of kstatus: `observedGeneration`,
//! conditions and their polarity, phases, replica counts. In this order:
//!
//! 1. An object that its spec pauses is Suspended. A status of an older generation is
//!    Progressing, unless a condition says itself that it is of this generation.
//! 2. Conditions that report a fault (`Stalled`, `Degraded`, `Failed`, …) and are True, and
//!    an explicit error field, are Degraded.
//! 3. Conditions that report work (`Reconciling`) and are True are Progressing, and those
//!    that report a pause are Suspended.
//! 4. Conditions that report success (`Ready`, `Available`, `Synced`, …): False is Degraded
//!    when its reason says that something failed, and Progressing otherwise, as is Unknown;
//!    True is Healthy.
//! 5. A condition of unknown meaning that is False with a reason such as `FailedToReconcile`
//!    is Degraded.
//! 6. A phase or state in a known word, `ready: false`, an error.
//!
//! What is Healthy by these is Progressing while replicas are missing. Of kinds that are work
//! that ends, such as Jobs and Backups, running is not yet success.
//!
//! What is not understood holds nothing: a condition of unknown polarity and an unknown word
//! do not count, and an object without a status has no health, as with Argo CD, since nobody
//! can know whether one will come.

use serde_json::Value;

use super::phases::{by_parts, by_phase, is_fault, of_word, reported_error};
use super::read::{HealthCondition, is_stale, is_stale_condition, number, pausing_field};
use super::reported_words::{cut_text, has_part};
use super::status::{Health, Status};
use super::words::{
    BEGUN, BUSY, ENDED, ENDS_BADLY, FAULTS, NEGATIVE, OPTIONAL, PAUSED, POSITIVE, POSITIVE_ENDS,
    RUNS, STILL, WORK,
};
use wavegate_api::Raw;

/// The groups of Kubernetes itself: their kinds have rules where their status reports health.
const KUBERNETES: &[&str] = &[
    "",
    "apps",
    "batch",
    "autoscaling",
    "policy",
    "extensions",
    "events.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
    "metrics.k8s.io",
    "custom.metrics.k8s.io",
    "external.metrics.k8s.io",
];

/// Parts of a status that have conditions of their own.
const PARTS: &[&str] = &[
    "parents",
    "parent",
    "ancestors",
    "listeners",
    "ingress",
    "conditionedStatus",
    "conditionStatus",
];

/// The reason of conditions that hold a value in their message, and no state.
const NO_REASON: &str = "noreason";

/// Whether the assessment is for a kind: all but those of Kubernetes itself and
/// Application, whose health is a choice (SE-468).
pub fn is_for(group: &str, kind: &str) -> bool {
    let is_application = group == "argoproj.io" && kind == "Application";
    !is_application && !KUBERNETES.contains(&group)
}

/// The health of an object by what it reports; `None` when it reports nothing.
pub(crate) fn assess(object: &Value) -> Option<Health> {
    if let Some(field) = pausing_field(object) {
        return Some(Health::suspended(format!("Paused by spec.{field}")));
    }
    let status = object.get("status")?;
    if status.as_object().is_none_or(serde_json::Map::is_empty) {
        return None;
    }
    let ends = ends_by_itself(object.field("kind"));
    let (stale, fresh): (Vec<HealthCondition<'_>>, Vec<HealthCondition<'_>>) =
        conditions(object, status)
            .into_iter()
            .filter(|c| c.reason() != NO_REASON)
            .partition(|c| is_stale_condition(object, *c));
    if is_stale(object) {
        // What counts of it are conditions that say themselves that they are of this generation.
        let found = by_fault(&Value::Null, &fresh)
            .or_else(|| by_activity(&fresh, ends))
            .or_else(|| by_success(&fresh, ends))
            .or_else(|| by_reason(&fresh));
        let waits = || Health::progressing("Waiting for the spec update to be observed");
        return Some(found.unwrap_or_else(waits));
    }
    let by_conditions = by_fault(status, &fresh)
        .or_else(|| by_activity(&fresh, ends))
        .or_else(|| by_success(&fresh, ends))
        .or_else(|| by_outdated(&stale));
    let by_fields = by_phase(status, ends);
    let is_good = |found: &Health| found.status == Status::Healthy;
    let by_conditions = match by_fields.as_ref().is_some_and(is_good) {
        true => by_conditions,
        false => by_conditions.or_else(|| by_reason(&fresh)),
    };
    let found = match (by_conditions, by_fields) {
        // A phase that says more than conditions of a success that is not there yet.
        (Some(one), Some(other)) if other.status == Status::Degraded => {
            Some(if one.status == Status::Degraded { one } else { other })
        }
        (Some(one), Some(other)) if one.status == Status::Healthy => {
            Some(if other.status == Status::Progressing { other } else { one })
        }
        (one, other) => one.or(other),
    };
    let error = || Some(Health::degraded(cut_text(reported_error(status)?)));
    let found = found
        .or_else(error)
        .or_else(|| by_parts(status, ends))
        .unwrap_or_else(|| Health::healthy(""));
    // A success that does not wait for all replicas.
    match found.status {
        Status::Healthy => by_counts(object, status).or(Some(found)),
        _ => Some(found),
    }
}

/// Whether a kind is of work that ends, so that running is not yet success.
fn ends_by_itself(kind: &str) -> bool {
    let starts = ["Cron", "Scheduled", "Recurring", "Scaled"];
    RUNS.iter().any(|end| kind.ends_with(end))
        && !starts.iter().any(|start| kind.starts_with(start))
}

/// Only conditions of older generations report success or not.
fn by_outdated(stale: &[HealthCondition<'_>]) -> Option<Health> {
    let outdated = stale.iter().find(|c| is_one_of(POSITIVE, c.name()))?;
    let kind = outdated.kind();
    Some(Health::progressing(format!("Waiting for condition {kind} of this generation")))
}

/// The conditions of the status and of its parts: of each parent of a route, of each
/// ingress.
fn conditions<'a>(object: &'a Value, status: &'a Value) -> Vec<HealthCondition<'a>> {
    let own = object.items("/status/conditions").iter().map(HealthCondition);
    let parts = PARTS.iter().filter_map(|part| status.get(*part));
    let parts = parts.flat_map(|part| match part {
        Value::Array(items) => items.iter().collect(),
        one => vec![one],
    });
    own.chain(parts.flat_map(|part| part.items("/conditions")).map(HealthCondition)).collect()
}

/// What a condition says.
fn said(condition: HealthCondition<'_>) -> String {
    match (condition.message(), condition.reason()) {
        ("", "") => condition.kind().to_owned(),
        ("", reason) => format!("{}: {}", condition.kind(), cut_text(reason)),
        (message, _) => cut_text(message),
    }
}

/// Whether the type of a condition is in a list: some controllers begin them in lower case.
fn is_one_of(list: &[&str], kind: &str) -> bool {
    list.iter().any(|one| one.eq_ignore_ascii_case(kind))
}

/// Whether the type of a condition ends with a word, after others that do not negate it.
fn ends_with(kind: &str, words: &[&str]) -> bool {
    let is_negative = kind.starts_with("Not") || kind.starts_with("Un");
    !is_negative && words.iter().any(|word| kind.len() > word.len() && kind.ends_with(word))
}

fn by_fault(status: &Value, conditions: &[HealthCondition<'_>]) -> Option<Health> {
    let negative = |c: &&HealthCondition<'_>| {
        let parts =
            ["Error", "Failed", "Failure", "Conflict", "Misconfigured", "Unhealthy", "Degraded"];
        let starts = ["Missing", "Conflicting"].iter().any(|start| c.name().starts_with(start));
        // The end of work may be its failure.
        let has_failed = is_one_of(ENDED, c.name()) && is_failure(c.reason());
        c.is_true()
            && (has_failed
                || starts
                || is_one_of(NEGATIVE, c.name())
                || parts.iter().any(|end| c.name().ends_with(end)))
    };
    if let Some(fault) = conditions.iter().find(negative) {
        // A controller that has begun says NotReady first.
        let starts = match fault.name() {
            "NotReady" | "Unavailable" => has_part(fault.reason(), WORK),
            "Error" => has_part(fault.reason(), &["notready"]),
            _ => false,
        };
        return Some(match starts {
            true => Health::progressing(said(*fault)),
            false => Health::degraded(said(*fault)),
        });
    }
    // Cluster API says how bad a condition is that is not True.
    let severe = |c: &&HealthCondition<'_>| c.is_false() && c.0.field("severity") == "Error";
    let late = |c: &&HealthCondition<'_>| c.is_false() && c.reason() == "ProgressDeadlineExceeded";
    if let Some(fault) = conditions.iter().find(|c| severe(c) || late(c)) {
        return Some(Health::degraded(said(*fault)));
    }
    let fields = ["failureMessage", "errorMessage", "errMsg"];
    let error = fields.iter().map(|field| status.field(field)).find(|text| !text.is_empty());
    error.map(|text| Health::degraded(cut_text(text)))
}

fn by_activity(conditions: &[HealthCondition<'_>], ends: bool) -> Option<Health> {
    let is = |list: &'static [&'static str]| {
        conditions.iter().find(move |c| c.is_true() && is_one_of(list, c.name()))
    };
    let by_reason = |c: &&HealthCondition<'_>| {
        c.is_false() && ["ReconcilePaused", "Paused", "Suspended", "Stopped"].contains(&c.reason())
    };
    let of_part = |c: &&HealthCondition<'_>| c.is_true() && ends_with(c.name(), &["Suspended"]);
    let paused = is(PAUSED).or_else(|| conditions.iter().find(by_reason));
    if let Some(paused) = paused.or_else(|| conditions.iter().find(of_part)) {
        return Some(Health::suspended(said(*paused)));
    }
    let failed = |c: &HealthCondition<'_>| {
        c.kind() == "Ready"
            && c.is_false()
            && has_part(c.reason(), FAULTS)
            && !has_part(c.reason(), WORK)
    };
    // `UpgradeInProgress`, `CoreNodesProgressing`; `Progressing` alone may stay True.
    let moves = |c: &&HealthCondition<'_>| {
        c.is_true()
            && ends_with(c.name(), &["InProgress", "Progressing"])
            && !has_part(c.reason(), STILL)
    };
    let runs = || is(&["Running", "Active", "Progressing"]).filter(|_| ends && is(ENDED).is_none());
    // Rancher keeps the state before beside the one after.
    let is_over = |c: &&HealthCondition<'_>| c.kind() == "Pending" && is(&["Ready"]).is_some();
    let busy =
        is(BUSY).filter(|c| !is_over(c)).or_else(|| conditions.iter().find(moves)).or_else(runs)?;
    // Retrying what failed.
    match conditions.iter().find(|c| failed(c)) {
        Some(fault) => Some(Health::degraded(said(*fault))),
        None => Some(Health::progressing(said(*busy))),
    }
}

fn by_success(conditions: &[HealthCondition<'_>], ends: bool) -> Option<Health> {
    let of = |kinds: &'static [&'static str]| -> Vec<HealthCondition<'_>> {
        kinds
            .iter()
            .flat_map(|kind| conditions.iter().filter(move |c| c.name().eq_ignore_ascii_case(kind)))
            .copied()
            .collect()
    };
    let mut known = of(POSITIVE);
    // Of work that ends, that it has not ended is evidence.
    let is_optional = |c: &HealthCondition<'_>| {
        is_one_of(OPTIONAL, c.name()) && !(ends && is_one_of(ENDED, c.name()))
    };
    let mut required: Vec<HealthCondition<'_>> =
        known.iter().copied().filter(|c| !is_optional(c)).collect();
    // A part is unhealthy by design never.
    let unhealthy = |c: &&HealthCondition<'_>| c.is_false() && ends_with(c.name(), &["Healthy"]);
    required.extend(conditions.iter().filter(unhealthy).copied());
    if required.is_empty() {
        // Without one that sums up, the parts count: `ControlPlaneReady`, `RemoteSynced`.
        let is_part = |c: &&HealthCondition<'_>| ends_with(c.name(), POSITIVE_ENDS);
        required = conditions.iter().filter(is_part).copied().collect();
        known.extend(required.iter().copied());
    }
    let fault = |c: &&HealthCondition<'_>| {
        c.is_false() && has_part(c.reason(), FAULTS) && !has_part(c.reason(), WORK)
    };
    let fails = |c: &&HealthCondition<'_>| {
        let is_over = c.kind() == "Succeeded" && is_end(c.reason());
        let by_message = c.is_false() && !has_part(c.reason(), WORK);
        fault(c) || (by_message && (is_over || is_fault(c.message())))
    };
    if let Some(fault) = required.iter().find(fails) {
        return Some(Health::degraded(said(*fault)));
    }
    if let Some(waiting) = required.iter().find(|c| !c.is_true()) {
        return Some(Health::progressing(said(*waiting)));
    }
    // False by design has another reason.
    if let Some(fault) = known.iter().filter(|_| required.is_empty()).find(fault) {
        return Some(Health::degraded(said(*fault)));
    }
    // Operators of OpenShift report Progressing beside Available.
    let is_rolling = |c: &&HealthCondition<'_>| {
        c.kind() == "Progressing" && c.is_true() && has_part(c.reason(), WORK)
    };
    if let Some(rolling) = conditions.iter().find(is_rolling) {
        return Some(Health::progressing(said(*rolling)));
    }
    if known.is_empty() {
        return by_name(conditions);
    }
    let good = known.iter().find(|c| c.is_true())?;
    if ends && is_optional(good) {
        return Some(Health::progressing(said(*good)));
    }
    Some(Health::healthy(cut_text(good.message())))
}

/// Conditions that no list has, and whose names are what an object has become or can do, such as
/// `Advertised` or `Discoverable`: it is not there as long as none of them is True.
fn by_name(conditions: &[HealthCondition<'_>]) -> Option<Health> {
    let is_success = |c: &&HealthCondition<'_>| {
        ends_with(c.name(), &["ed", "able"])
            && !is_one_of(NEGATIVE, c.name())
            && !has_part(c.name(), FAULTS)
            && !has_part(c.name(), ENDS_BADLY)
    };
    let mut named = conditions.iter().filter(is_success).peekable();
    let first = **named.peek()?;
    if named.any(|c| c.is_true()) {
        return None;
    }
    Some(match has_part(first.reason(), FAULTS) && !has_part(first.reason(), WORK) {
        true => Health::degraded(said(first)),
        false => Health::progressing(said(first)),
    })
}

/// Whether the reason of a `Succeeded` that is False says that nothing follows.
fn is_end(reason: &str) -> bool {
    let goes_on = |word| word != Status::Degraded;
    !reason.is_empty()
        && !of_word(reason, true).is_some_and(goes_on)
        && !has_part(reason, BEGUN)
        && !has_part(reason, &["suspend", "pause"])
}

/// Whether a reason is the name of a failure.
fn is_failure(reason: &str) -> bool {
    let ends = ["Failed", "Failure", "Error"].iter().any(|end| reason.ends_with(end));
    (reason.starts_with("Failed") || ends) && !reason.starts_with("No")
}

/// A condition of unknown meaning that is False, whose reason reports a failure.
fn by_reason(conditions: &[HealthCondition<'_>]) -> Option<Health> {
    let failed = |c: &&HealthCondition<'_>| {
        c.is_false() && is_failure(c.reason()) && !has_part(c.kind(), FAULTS)
    };
    conditions.iter().find(failed).map(|fault| Health::degraded(said(*fault)))
}

fn by_counts(object: &Value, status: &Value) -> Option<Health> {
    let wanted = number(object, "/spec/replicas").or_else(|| number(status, "/replicas"))?;
    let of = |field: &str| number(status, &format!("/{field}"));
    // What is in use is ready, and not counted as such.
    let in_use =
        of("allocatedReplicas").unwrap_or(0).saturating_add(of("reservedReplicas").unwrap_or(0));
    let reported = [
        ("updatedReplicas", of("updatedReplicas")),
        ("readyReplicas", of("readyReplicas").map(|ready| ready.saturating_add(in_use))),
        ("availableReplicas", of("availableReplicas")),
    ];
    let short = reported.into_iter().filter_map(|(field, count)| Some((field, count?)));
    let (field, count) = short.into_iter().find(|(_, count)| *count < wanted)?;
    Some(Health::progressing(format!("Waiting for replicas: {field} is {count} of {wanted}")))
}
