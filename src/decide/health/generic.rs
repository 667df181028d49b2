//! Health of kinds without a rule of their own, from what well-behaved controllers report.
//!
//! The conventions are those of the Kubernetes API and of kstatus: `observedGeneration`,
//! conditions and their polarity, phases, replica counts. In this order:
//!
//! 1. A status of an older generation is Progressing.
//! 2. Conditions that report a fault (`Stalled`, `Degraded`, `Failed`, …) and are True, and
//!    an explicit error field, are Degraded.
//! 3. Conditions that report work (`Reconciling`) and are True are Progressing, and those
//!    that report a pause are Suspended.
//! 4. Conditions that report success (`Ready`, `Available`, `Synced`, …): False is Degraded
//!    when its reason says that something failed, and Progressing otherwise, as is Unknown;
//!    True is Healthy.
//! 5. A phase or state in a known word, `ready: false`, missing replicas.
//!
//! What is not understood holds nothing: a condition of unknown polarity and an unknown word
//! do not count, and an object without a status has no health, as with Argo CD, since nobody
//! can know whether one will come.

use serde_json::Value;

use super::read::{Condition, is_stale, is_stale_condition, number};
use super::words::{
    BAD, BUSY, BUSY_WORDS, FAULTS, GOOD, NEGATIVE, OPTIONAL, PAUSED, PAUSED_WORDS, PHASES,
    POSITIVE, WORK,
};
use super::{Health, Status};
use crate::api::Raw;

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

/// Most characters of a message that is taken from an object.
const MESSAGE_LENGTH: usize = 1024;

/// Whether the assessment is for a kind: all but those of Kubernetes itself and
/// Application, whose health is a choice (SE-468).
pub fn is_for(group: &str, kind: &str) -> bool {
    let is_application = group == "argoproj.io" && kind == "Application";
    !is_application && !KUBERNETES.contains(&group)
}

/// The health of an object by what it reports; `None` when it reports nothing.
pub fn assess(object: &Value) -> Option<Health> {
    let status = object.get("status")?;
    if status.as_object().is_none_or(serde_json::Map::is_empty) {
        return None;
    }
    if is_stale(object) {
        return Some(Health::progressing("Waiting for the spec update to be observed"));
    }
    let all = conditions(object, status);
    let stale = |c: &Condition<'_>| is_stale_condition(object, *c);
    let fresh: Vec<Condition<'_>> = all.iter().copied().filter(|c| !stale(c)).collect();
    let by_conditions = by_fault(status, &fresh)
        .or_else(|| by_activity(&fresh))
        .or_else(|| by_success(&fresh))
        .or_else(|| by_outdated(&all));
    let by_fields = by_phase(status);
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
    found.or_else(|| by_counts(object, status)).or(Some(Health::healthy("")))
}

/// Only conditions of older generations report success or not.
fn by_outdated(conditions: &[Condition<'_>]) -> Option<Health> {
    let outdated = conditions.iter().find(|c| POSITIVE.contains(&c.kind()))?;
    let kind = outdated.kind();
    Some(Health::progressing(format!("Waiting for condition {kind} of this generation")))
}

/// The conditions of the status and of its parts: of each parent of a route, of each
/// ingress.
fn conditions<'a>(object: &'a Value, status: &'a Value) -> Vec<Condition<'a>> {
    let own = object.items("/status/conditions").iter().map(Condition);
    let parts = ["parents", "ancestors", "listeners", "ingress", "conditionedStatus"].iter();
    let parts = parts.filter_map(|part| status.get(*part));
    let parts = parts.flat_map(|part| match part {
        Value::Array(items) => items.iter().collect(),
        one => vec![one],
    });
    own.chain(parts.flat_map(|part| part.items("/conditions")).map(Condition)).collect()
}

fn cut(text: &str) -> String {
    text.chars().take(MESSAGE_LENGTH).collect()
}

/// What a condition says.
fn said(condition: Condition<'_>) -> String {
    match (condition.message(), condition.reason()) {
        ("", "") => condition.kind().to_owned(),
        ("", reason) => format!("{}: {}", condition.kind(), cut(reason)),
        (message, _) => cut(message),
    }
}

fn names(word: &str, parts: &[&str]) -> bool {
    let word = plain(word);
    parts.iter().any(|part| word.contains(part))
}

/// In lower case, with letters and digits only.
fn plain(word: &str) -> String {
    let kept = word.chars().filter(|c| c.is_alphanumeric()).take(MESSAGE_LENGTH);
    kept.flat_map(char::to_lowercase).collect()
}

fn by_fault(status: &Value, conditions: &[Condition<'_>]) -> Option<Health> {
    let negative = |c: &&Condition<'_>| {
        let parts = ["Error", "Failed", "Failure"];
        c.is_true()
            && (NEGATIVE.contains(&c.kind()) || parts.iter().any(|end| c.kind().ends_with(end)))
    };
    if let Some(fault) = conditions.iter().find(negative) {
        // A controller that has begun says NotReady first.
        return Some(match fault.kind() == "NotReady" && names(fault.reason(), WORK) {
            true => Health::progressing(said(*fault)),
            false => Health::degraded(said(*fault)),
        });
    }
    // Cluster API says how bad a condition is that is not True.
    let severe = |c: &&Condition<'_>| c.is_false() && c.0.field("severity") == "Error";
    let late = |c: &&Condition<'_>| c.is_false() && c.reason() == "ProgressDeadlineExceeded";
    if let Some(fault) = conditions.iter().find(|c| severe(c) || late(c)) {
        return Some(Health::degraded(said(*fault)));
    }
    let fields = ["failureMessage", "errorMessage", "errMsg"];
    let error = fields.iter().map(|field| status.field(field)).find(|text| !text.is_empty());
    error.map(|text| Health::degraded(cut(text)))
}

fn by_activity(conditions: &[Condition<'_>]) -> Option<Health> {
    let is = |list: &'static [&'static str]| {
        conditions.iter().find(move |c| c.is_true() && list.contains(&c.kind()))
    };
    let by_reason = |c: &&Condition<'_>| {
        c.is_false() && ["ReconcilePaused", "Paused", "Suspended"].contains(&c.reason())
    };
    if let Some(paused) = is(PAUSED).or_else(|| conditions.iter().find(by_reason)) {
        return Some(Health::suspended(said(*paused)));
    }
    let failed = |c: &Condition<'_>| {
        c.kind() == "Ready" && c.is_false() && names(c.reason(), FAULTS) && !names(c.reason(), WORK)
    };
    let busy = is(BUSY)?;
    // Retrying what failed.
    match conditions.iter().find(|c| failed(c)) {
        Some(fault) => Some(Health::degraded(said(*fault))),
        None => Some(Health::progressing(said(*busy))),
    }
}

fn by_success(conditions: &[Condition<'_>]) -> Option<Health> {
    let of = |kinds: &'static [&'static str]| -> Vec<Condition<'_>> {
        kinds
            .iter()
            .flat_map(|kind| conditions.iter().filter(move |c| c.kind() == *kind))
            .copied()
            .collect()
    };
    let mut known = of(POSITIVE);
    let mut required: Vec<Condition<'_>> =
        known.iter().copied().filter(|c| !OPTIONAL.contains(&c.kind())).collect();
    if required.is_empty() {
        // Without one that sums up, the parts count: `ControlPlaneReady`, `RemoteSynced`.
        let ends = ["Ready", "Available", "Healthy", "Synced", "Succeeded", "Accepted", "Valid"];
        let part = |c: &&Condition<'_>| ends.iter().any(|end| c.kind().ends_with(end));
        required = conditions.iter().filter(part).copied().collect();
        known.extend(required.iter().copied());
    }
    let fails = |c: &&Condition<'_>| {
        let by_reason = names(c.reason(), FAULTS) && !names(c.reason(), WORK);
        let by_message = !names(c.reason(), WORK) && is_fault(c.message());
        c.is_false() && (by_reason || by_message)
    };
    if let Some(fault) = required.iter().find(fails) {
        return Some(Health::degraded(said(*fault)));
    }
    if let Some(waiting) = required.iter().find(|c| !c.is_true()) {
        return Some(Health::progressing(said(*waiting)));
    }
    // Operators of OpenShift report Progressing beside Available.
    let is_rolling =
        |c: &&Condition<'_>| c.kind() == "Progressing" && c.is_true() && names(c.reason(), WORK);
    if let Some(rolling) = conditions.iter().find(is_rolling) {
        return Some(Health::progressing(said(*rolling)));
    }
    let good = known.iter().find(|c| c.is_true())?;
    Some(Health::healthy(cut(good.message())))
}

/// Whether a message reports a fault.
fn is_fault(message: &str) -> bool {
    let words = [
        "fail",
        "error",
        "invalid",
        "notfound",
        "cannot",
        "unable",
        "doesnotexist",
        "notaccepted",
        "notbeenaccepted",
    ];
    names(message, &words)
}

/// The worst of the phases that are understood.
fn by_phase(status: &Value) -> Option<Health> {
    let fields = status.as_object()?.iter().filter(|(field, _)| {
        let field = plain(field);
        PHASES.iter().any(|end| field.ends_with(end))
    });
    let judged = fields.filter_map(|(_, value)| {
        let text = word_in(value)?;
        Some((of_word(&plain(text))?, text))
    });
    let rank = |status: &Status| match status {
        Status::Degraded => 3,
        Status::Suspended => 2,
        Status::Progressing => 1,
        _ => 0,
    };
    let Some((worst, text)) = judged.max_by_key(|(status, _)| rank(status)) else {
        return by_ready(status);
    };
    if worst == Status::Healthy && by_ready(status).is_some_and(|h| h.status != Status::Healthy) {
        return by_ready(status);
    }
    let messages = ["message", "reason", "phaseReason", "error", "errorDescription"];
    let message = messages.iter().map(|field| status.field(field)).find(|text| !text.is_empty());
    Some(Health::new(worst, cut(message.unwrap_or(text))))
}

/// What a word of a phase says.
fn of_word(word: &str) -> Option<Status> {
    if GOOD.contains(&word) {
        return Some(Status::Healthy);
    }
    if BAD.iter().any(|end| word.ends_with(end)) {
        return Some(Status::Degraded);
    }
    if PAUSED_WORDS.contains(&word) {
        return Some(Status::Suspended);
    }
    let busy = BUSY_WORDS.contains(&word)
        || ["waiting", "creating", "updating", "applying", "deploying"]
            .iter()
            .any(|start| word.starts_with(start))
        || word.ends_with("notready")
        || word.ends_with("pending")
        || word.ends_with("inprogress");
    busy.then_some(Status::Progressing)
}

/// A word, also of a map that has it in `state`, `status` or `phase`.
fn word_in(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text),
        Value::Object(map) => {
            let inner = ["state", "status", "phase"].iter().find_map(|field| map.get(*field));
            inner.and_then(Value::as_str).filter(|text| !text.is_empty())
        }
        _ => None,
    }
}

fn by_ready(status: &Value) -> Option<Health> {
    for field in ["ready", "healthy", "readyToUse"] {
        match status.get(field) {
            Some(Value::Bool(false)) => {
                return Some(Health::progressing(format!("Waiting for status.{field}")));
            }
            Some(Value::Bool(true)) => return Some(Health::healthy("")),
            _ => {}
        }
    }
    None
}

fn by_counts(object: &Value, status: &Value) -> Option<Health> {
    let wanted = number(object, "/spec/replicas").or_else(|| number(status, "/replicas"))?;
    let fields = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    let reported =
        fields.iter().filter_map(|field| Some((field, number(status, &format!("/{field}"))?)));
    let short = reported.into_iter().find(|(_, count)| *count < wanted)?;
    let (field, count) = short;
    Some(Health::progressing(format!("Waiting for replicas: {field} is {count} of {wanted}")))
}
