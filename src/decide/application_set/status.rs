//! The status of a set from the results of a reconcile: conditions, health,
//! resources and the rollout (AS-183 to AS-191).

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::emptied::HeldDeletions;
use super::generated::Generated;
use super::observe::Existing;
use super::settings::Settings;
use super::stored::{self, MESSAGE_LIMIT, Resource, Set, Status};
use super::write_plan::Held;
use crate::api::conditions::application_set::{self as condition, reason};
use crate::api::time::to_rfc3339;
use crate::decide::rollout::RolloutPlan;
use crate::decide::rollout::listed::Listed;
use crate::decide::rollout::status::{self as entries, cut};
use crate::decide::rollout::steps::{Problem, Strategy};
use crate::decide::rollout::wait::Wait;

/// The most problems in one message.
const PROBLEMS_LIMIT: usize = 20;
/// The most bytes of the reason of a wait, and of the summary of the rollout.
const REASON_LIMIT: usize = 1024;
/// The most bytes of the reason of the first wait in the summary of the rollout.
const SHORT_REASON_LIMIT: usize = 700;
/// The most bytes of the name of a resource.
const RESOURCE_LIMIT: usize = 600;

/// Messages of the good state, which tools compare (AS-184).
const GENERATED: &str = "All applications have been generated successfully";
const PARAMETERS_GENERATED: &str = "Successfully generated parameters for all Applications";

/// Separates an error from the deletions that wait because of it.
const HELD: &str = "; meanwhile ";
/// The most characters of the error when deletions wait.
const SHORT_LIMIT: usize = 700;

/// The failure of a reconcile: reason and message of the `ErrorOccurred`
/// condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The condition's reason.
    pub reason: &'static str,
    /// The error, its field, and how to fix it.
    pub message: String,
}

/// The results of a reconcile.
#[derive(Clone, Debug)]
pub struct Findings<'a> {
    /// The set, with the status that is updated.
    pub set: &'a Set,
    /// The result of reading its spec.
    pub generated: &'a Generated,
    /// The settings.
    pub settings: &'a Settings,
    /// The existing Applications that the set owns or generates, by name.
    pub existing: &'a [Existing],
    /// The failure, if any.
    pub failure: Option<Failure>,
    /// Every Application is as generated: nothing is to be written.
    pub up_to_date: bool,
    /// Whether everything but deletions is as generated.
    pub is_written: bool,
    /// Whether deletions wait for other sets, so that it is not known yet whether they are
    /// held.
    pub keeps_hold: bool,
    /// The rollout, if there is one.
    pub rollout: Option<Rollout<'a>>,
    /// Deletions that wait.
    pub held: Option<&'a Held>,
    /// Why they wait for a person.
    pub emptied: Option<&'a HeldDeletions>,
    /// Removes credentials from a text.
    pub redact: fn(&str) -> String,
}

/// The results of the rollout.
#[derive(Clone, Copy, Debug)]
pub struct Rollout<'a> {
    /// The decisions.
    pub plan: &'a RolloutPlan,
    /// Which entries are listed.
    pub listed: &'a Listed,
    /// The stalled waits that were reported, and their start.
    pub stalled: &'a [(String, Timestamp)],
}

/// The failure of a set whose strategy is ambiguous; `None` when it is valid.
pub fn held(misspelt: &[Problem]) -> Option<Failure> {
    if misspelt.is_empty() {
        return None;
    }
    let message = format!(
        "{}; no Application is created, updated, synced or deleted until this is fixed",
        texts(misspelt)
    );
    Some(Failure { reason: reason::APPLICATION_SET_ROLLOUT_ERROR, message })
}

/// The status of a set in which only the conditions about errors and the
/// health change.
pub fn with_error(
    set: &Set,
    failure: &Failure,
    redact: fn(&str) -> String,
    now: Timestamp,
) -> Status {
    let mut status = set.status.clone();
    let message = redact(&failure.message);
    let kind = condition::ERROR_OCCURRED;
    set_condition(&mut status.conditions, kind, true, failure.reason, &message, now);
    let (kind, reason) = (condition::RESOURCES_UP_TO_DATE, reason::ERROR_OCCURRED);
    set_condition(&mut status.conditions, kind, false, reason, &message, now);
    sort(&mut status.conditions);
    status.health = health(&status.conditions, &set.status.health, now);
    Status { exists: true, ..status }
}

/// The status of a set that is being deleted, after an error was fixed.
pub fn without_error(set: &Set, now: Timestamp) -> Status {
    let mut status = set.status.clone();
    let (kind, reason) = (condition::ERROR_OCCURRED, reason::APPLICATION_SET_UP_TO_DATE);
    let message = "applications are being deleted";
    set_condition(&mut status.conditions, kind, false, reason, message, now);
    sort(&mut status.conditions);
    status.health = health(&status.conditions, &set.status.health, now);
    Status { exists: true, ..status }
}

/// Computes the new status; equal to the old one when nothing changed.
///
/// Fields that are unknown after a failed generation are kept (AS-141).
pub fn compute(findings: &Findings<'_>, now: Timestamp) -> Status {
    let old = &findings.set.status;
    let mut status = Status { exists: true, storage: old.storage.clone(), ..Status::default() };
    resources(findings, &mut status);
    status.conditions = conditions(findings, truncated(&status).as_deref(), now);
    status.health = health(&status.conditions, &old.health, now);
    (status.entries, status.rollout) = match &findings.rollout {
        Some(rollout) => (
            Some(entries_of(rollout.listed, old, findings.redact)),
            summary(rollout, findings, now),
        ),
        // The rollout is kept while its state is unknown.
        None if findings.generated.error.is_some() || !findings.generated.misspelt.is_empty() => {
            (old.entries.clone(), old.rollout.clone())
        }
        None => (None, Value::Null),
    };
    status.entries_are_exact = true;
    status
}

/// The entries without credentials; stored entries contain none.
fn entries_of(
    listed: &Listed,
    old: &Status,
    redact: fn(&str) -> String,
) -> Vec<crate::decide::rollout::phase::Entry> {
    let mut stored = old.entries.iter().flatten().peekable();
    let entry = |entry: &crate::decide::rollout::phase::Entry| {
        while stored.next_if(|one| one.application < entry.application).is_some() {}
        let same = stored.peek().filter(|one| one.application == entry.application);
        if let Some(same) = same.filter(|same| entries::is_stored(entry, same)) {
            return (*same).clone();
        }
        let mut entry = entry.clone();
        entry.message = entries::stored_message(&redact(&entry.message)).to_owned();
        entry
    };
    listed.entries.iter().map(entry).collect()
}

/// `status.rollout`, an extension: a summary of the rollout.
fn summary(rollout: &Rollout<'_>, findings: &Findings<'_>, now: Timestamp) -> Value {
    let (plan, old) = (rollout.plan, &findings.set.status);
    let total: u64 = plan.steps.iter().map(|step| step.total).sum();
    let complete: u64 = plan.steps.iter().map(|step| step.complete).sum();
    let waiting: Vec<Value> =
        plan.waiting.iter().map(|wait| waiting_json(wait, findings)).collect();
    let steps = plan.steps.len();
    // A rollout begins when a step opens after all were complete.
    let restarted = old.has(condition::ROLLOUT_PROGRESSING, "False") && plan.open_step.is_some();
    let started_at = old.started_at().filter(|_| !restarted).unwrap_or(now);
    let mut summary = json!({
        "step": plan.open_step.map_or(steps, |step| step + 1),
        "steps": steps,
        "progress": format!("{complete}/{total}"),
        "message": rollout_text(plan, findings),
        "waitingFor": waiting,
        "startedAt": to_rfc3339(started_at),
    });
    if let Some(at) = plan.opened_at {
        summary["stepOpenedAt"] = to_rfc3339(at).into();
    }
    if let Some(count) = rollout.listed.count {
        summary["listed"] = count.into();
    }
    let stalled = rollout.stalled.iter().map(
        |(application, since)| json!({ "application": application, "since": to_rfc3339(*since) }),
    );
    let stalled: Vec<Value> = stalled.collect();
    if !stalled.is_empty() {
        summary["stalled"] = stalled.into();
    }
    summary
}

fn text(text: &str, findings: &Findings<'_>) -> String {
    cut(&(findings.redact)(text), REASON_LIMIT).to_owned()
}

/// The message of the rollout, and of its condition.
fn rollout_text(plan: &RolloutPlan, findings: &Findings<'_>) -> String {
    text(&rollout_message(plan), findings)
}

fn waiting_json(wait: &Wait, findings: &Findings<'_>) -> Value {
    let mut json = json!({
        "application": wait.application,
        "kind": wait.kind.name(),
        "reason": text(&wait.message, findings),
    });
    if let Some(resource) = &wait.resource {
        json["resource"] = cut(resource, RESOURCE_LIMIT).into();
    }
    for (field, time) in [("since", wait.since), ("until", wait.until)] {
        if let Some(time) = time {
            json[field] = to_rfc3339(time).into();
        }
    }
    json
}

/// One line: the step, the progress, and the Applications it is waiting for.
pub fn rollout_message(plan: &RolloutPlan) -> String {
    let steps = plan.steps.len();
    let Some(open) = plan.open_step else {
        return format!("all {steps} steps are complete");
    };
    let state = &plan.steps[open];
    let mut message = format!(
        "step {} of {steps}: {} of {} applications are done",
        open + 1,
        state.complete,
        state.total
    );
    if let Some(wait) = plan.waiting.first() {
        let reason = shortened(&wait.message);
        message.push_str(&format!("; {} waits: {reason}", wait.application));
        if plan.waiting_count > 1 {
            message.push_str(&format!(" (and {} more)", plan.waiting_count - 1));
        }
    }
    message
}

/// A reason, cut to its part of a message.
fn shortened(reason: &str) -> Cow<'_, str> {
    match cut(reason, SHORT_REASON_LIMIT) {
        all if all.len() == reason.len() => Cow::Borrowed(reason),
        part => Cow::Owned(format!("{part}…")),
    }
}

/// The conditions after a reconcile, sorted by type (AS-183, AS-184).
///
/// `truncated` is added to the message that every Application is up to date (AS-191).
fn conditions(findings: &Findings<'_>, truncated: Option<&str>, now: Timestamp) -> Vec<Value> {
    let (generated, settings) = (findings.generated, findings.settings);
    let is_generated = generated.error.is_none();
    let is_disabled = generated.is_disabled(settings);
    let mut wanted: Vec<(&str, bool, &str, String)> = Vec::new();
    match (&findings.failure, findings.held) {
        (Some(failure), held) => {
            let message = &match held {
                Some(held) => format!("{}{HELD}{held}", short(&failure.message)),
                None => failure.message.clone(),
            };
            wanted.push((condition::ERROR_OCCURRED, true, failure.reason, message.clone()));
            wanted.push((
                condition::RESOURCES_UP_TO_DATE,
                false,
                reason::ERROR_OCCURRED,
                message.clone(),
            ));
            if !is_generated {
                wanted.push((
                    condition::PARAMETERS_GENERATED,
                    false,
                    reason::ERROR_OCCURRED,
                    message.clone(),
                ));
            }
        }
        (None, Some(held)) => {
            if findings.is_written {
                let up_to_date = reason::APPLICATION_SET_UP_TO_DATE;
                wanted.push((condition::ERROR_OCCURRED, false, up_to_date, GENERATED.to_owned()));
            }
            let reason = reason::DELETIONS_WAIT;
            wanted.push((condition::RESOURCES_UP_TO_DATE, false, reason, held.to_string()));
        }
        (None, None) if findings.up_to_date => {
            let up_to_date = reason::APPLICATION_SET_UP_TO_DATE;
            let message = if is_disabled {
                "all applications are up to date, updated all at once: spec.strategy requests a RollingSync, \
                 but progressive syncs are disabled; start with --enable-progressive-syncs to enable them"
            } else {
                GENERATED
            };
            wanted.push((condition::ERROR_OCCURRED, false, up_to_date, message.to_owned()));
            let message = match truncated {
                Some(truncated) => format!("{message}; {truncated}"),
                None => message.to_owned(),
            };
            wanted.push((condition::RESOURCES_UP_TO_DATE, true, up_to_date, message));
        }
        (None, None) => {}
    }
    if is_generated {
        let message = PARAMETERS_GENERATED.to_owned();
        wanted.push((condition::PARAMETERS_GENERATED, true, reason::PARAMETERS_GENERATED, message));
        wanted.extend(rollout_conditions(findings));
    }

    let mut conditions: Vec<Value> = findings.set.status.conditions.clone();
    let is_selected = matches!(generated.strategy, Strategy::RollingSync(_));
    if is_disabled && conditions.iter().any(|old| old["type"] == condition::ROLLOUT_PROGRESSING) {
        // Clients that wait for its end must not wait forever.
        let message = "the rollout was stopped: progressive syncs are disabled in this controller, and all \
                       applications are updated at once";
        let reason = reason::APPLICATION_SET_ROLLOUT_DISABLED;
        wanted.push((condition::ROLLOUT_PROGRESSING, false, reason, message.to_owned()));
    }
    if let Some(emptied) = findings.emptied {
        let message = emptied.message.clone();
        wanted.push((condition::DELETIONS_HELD, true, emptied.reason, message));
    } else if is_generated && !findings.keeps_hold {
        conditions.retain(|condition| condition["type"] != condition::DELETIONS_HELD);
    }
    let held = !generated.misspelt.is_empty();
    let has_ended = (is_generated || !is_selected) && findings.rollout.is_none();
    if has_ended && !is_disabled && !held {
        conditions.retain(|condition| {
            condition["type"] != condition::ROLLOUT_PROGRESSING
                && (condition["type"] != condition::INVALID_ROLLOUT_CONFIG
                    || !misread(findings).is_empty())
        });
    }
    for (kind, holds, reason, message) in wanted {
        let message = (findings.redact)(&message);
        set_condition(&mut conditions, kind, holds, reason, &message, now);
    }
    sort(&mut conditions);
    conditions
}

fn sort(conditions: &mut [Value]) {
    conditions.sort_by_key(|condition| condition["type"].as_str().unwrap_or_default().to_owned());
}

/// The errors of `spec.strategy` when it results in no rollout: such as a
/// misspelt type (AS-007).
fn misread<'a>(findings: &Findings<'a>) -> &'a [Problem] {
    match findings.settings.progressive_syncs {
        true => &findings.generated.strategy_problems,
        false => &[],
    }
}

fn short(message: &str) -> String {
    message.chars().take(SHORT_LIMIT).collect()
}

fn rollout_conditions(findings: &Findings<'_>) -> Vec<(&'static str, bool, &'static str, String)> {
    let generated = findings.generated;
    if !generated.misspelt.is_empty() {
        let reason = reason::APPLICATION_SET_INVALID_ROLLOUT_CONFIG;
        let message = texts(&generated.misspelt);
        return vec![(condition::INVALID_ROLLOUT_CONFIG, true, reason, message)];
    }
    if generated.is_disabled(findings.settings) {
        let message = "spec.strategy: progressive syncs are disabled in this controller, and all applications \
                       are updated at once; start it with --enable-progressive-syncs or set \
                       applicationsetcontroller.enable.progressive.syncs: \"true\"";
        let reason = reason::APPLICATION_SET_INVALID_ROLLOUT_CONFIG;
        return vec![(condition::INVALID_ROLLOUT_CONFIG, true, reason, message.to_owned())];
    }
    let Some(rollout) = &findings.rollout else {
        let misread = misread(findings);
        if misread.is_empty() {
            return Vec::new();
        }
        let reason = reason::APPLICATION_SET_INVALID_ROLLOUT_CONFIG;
        let message = texts(misread);
        return vec![(condition::INVALID_ROLLOUT_CONFIG, true, reason, message)];
    };
    let (progressing, why) = match rollout.plan.open_step {
        Some(_) => (true, reason::APPLICATION_SET_MODIFIED),
        None => (false, reason::APPLICATION_SET_ROLLOUT_COMPLETE),
    };
    let message = match rollout.plan.open_step {
        Some(_) => rollout_text(rollout.plan, findings),
        None => "every application of every step is healthy".to_owned(),
    };
    let problems = &generated.rollout_problems;
    let (invalid, config_reason, config_message) = if problems.is_empty() {
        (
            false,
            reason::APPLICATION_SET_VALID_ROLLOUT_CONFIG,
            "rollout configuration is valid".to_owned(),
        )
    } else {
        (true, reason::APPLICATION_SET_INVALID_ROLLOUT_CONFIG, texts(problems))
    };
    vec![
        (condition::ROLLOUT_PROGRESSING, progressing, why, message),
        (condition::INVALID_ROLLOUT_CONFIG, invalid, config_reason, config_message),
    ]
}

fn texts(problems: &[Problem]) -> String {
    let texts: Vec<&str> =
        problems.iter().take(PROBLEMS_LIMIT).map(|problem| problem.message.as_str()).collect();
    let more = match problems.len() - texts.len() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    texts.join("; ") + &more
}

fn set_condition(
    conditions: &mut Vec<Value>,
    kind: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let status = if holds { "True" } else { "False" };
    let message: String = message.chars().take(MESSAGE_LIMIT).collect();
    let old = conditions.iter_mut().find(|condition| condition["type"] == kind);
    let same = |old: &Value| {
        old["status"] == status && old["reason"] == reason && old["message"] == message.as_str()
    };
    match old {
        Some(old) if same(old) => {}
        old => {
            let condition = json!({
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastTransitionTime": to_rfc3339(now),
            });
            match old {
                Some(old) => *old = condition,
                None => conditions.push(condition),
            }
        }
    }
}

/// `status.health` from the conditions (AS-190).
fn health(conditions: &[Value], old: &Value, now: Timestamp) -> Value {
    let holds = |kind: &str| {
        conditions
            .iter()
            .find(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    let found = [
        (condition::ERROR_OCCURRED, "Degraded"),
        (condition::ROLLOUT_PROGRESSING, "Progressing"),
        (condition::RESOURCES_UP_TO_DATE, "Healthy"),
    ];
    let found = found.into_iter().find_map(|(kind, status)| Some((status, holds(kind)?)));
    let (status, message, began) = match found {
        Some((status, condition)) => {
            (status, condition["message"].clone(), condition["lastTransitionTime"].as_str())
        }
        None => ("Unknown", "".into(), None),
    };
    let since = match (old["lastTransitionTime"].as_str(), began) {
        (Some(since), _) if old["status"] == status => since.to_owned(),
        // So that a definition without this field does not lead to another one each time.
        (None, Some(began)) => began.to_owned(),
        _ => to_rfc3339(now),
    };
    json!({ "status": status, "message": message, "lastTransitionTime": since })
}

/// `status.resources` and `resourcesCount` (AS-191): the first ones by name, up
/// to the limit.
fn resources(findings: &Findings<'_>, status: &mut Status) {
    let old = &findings.set.status;
    let limit = match findings.settings.max_resources {
        0 => usize::MAX,
        limit => limit,
    };
    let mut stored = old.resources.iter().peekable();
    let mut bytes_left = findings.settings.size_limits.resources;
    let mut count = 0;
    let mut is_full = false;
    for existing in findings.existing.iter().filter(|existing| existing.is_owned()) {
        count += 1;
        is_full |= status.resources.len() >= limit;
        if is_full {
            continue;
        }
        while stored.next_if(|one| one.name < existing.name).is_some() {}
        let same = stored.next_if(|one| one.name == existing.name);
        let resource = resource(existing, same, findings);
        match bytes_left.checked_sub(resource.bytes()) {
            Some(rest) => {
                bytes_left = rest;
                status.resources.push(resource);
            }
            None => is_full = true,
        }
    }
    status.resources_are_exact = true;
    status.resources_count = count.into();
}

/// That `status.resources` does not list every Application; `None` when it does.
fn truncated(status: &Status) -> Option<String> {
    let count = status.resources_count.as_u64()?;
    stored::truncated(status.resources.len(), count)
}

fn resource(existing: &Existing, stored: Option<&Resource>, findings: &Findings<'_>) -> Resource {
    let message = |text: &str| -> Box<str> {
        let known = stored.and_then(|stored| stored.health.as_ref()?.1.as_deref());
        match known.filter(|known| *known == text) {
            Some(known) => known.into(),
            None => Resource::message(&(findings.redact)(text)).into(),
        }
    };
    let health = existing.health.as_ref();
    Resource {
        namespace: findings.set.id.namespace.as_str().into(),
        name: existing.name.clone(),
        sync: existing.sync.clone(),
        health: health.map(|(health, text)| (health.clone(), text.as_deref().map(message))),
    }
}
