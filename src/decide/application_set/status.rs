//! The status of a set, from what a pass found: conditions, health, resources
//! and where the rollout stands (AS-183 to AS-191).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Held, is_owned};
use crate::api::conditions::application_set::{self as condition, reason};
use crate::api::time::to_rfc3339;
use crate::decide::rollout::steps::{Problem, Strategy};
use crate::decide::rollout::{self, RolloutPlan, status as entries};

/// How many waits the status lists.
const WAITING_LIMIT: usize = 10;
/// How many problems one message names.
const PROBLEMS_LIMIT: usize = 20;
/// The most characters of a condition's message.
const MESSAGE_LIMIT: usize = 1024;

/// Between what went wrong and which deletions wait for that reason.
pub const HELD: &str = "; meanwhile ";
/// The most characters that are told of what went wrong when deletions wait.
const SHORT_LIMIT: usize = 700;

/// What went wrong in a pass: a reason of the `ErrorOccurred` condition and a
/// message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The condition's reason.
    pub reason: &'static str,
    /// What, where, and what to do.
    pub message: String,
}

/// What a pass found.
#[derive(Clone, Debug)]
pub struct Findings<'a> {
    /// The set, raw.
    pub set: &'a Value,
    /// All existing Applications of the namespace.
    pub existing: &'a BTreeMap<String, Arc<Value>>,
    /// Whether generating succeeded.
    pub generated: bool,
    /// What went wrong, if anything.
    pub failure: Option<Failure>,
    /// Every Application is as generated: nothing is left to write.
    pub up_to_date: bool,
    /// The rollout, when the strategy is a RollingSync with steps that runs.
    pub rollout: Option<Rollout<'a>>,
    /// What is wrong with `spec.strategy` when no rollout comes of it: a
    /// misspelt type, say (AS-007).
    pub misread: &'a [Problem],
    /// What nobody understands of the gate: the set is held, and a rollout under
    /// way stays where it is.
    pub misspelt: &'a [Problem],
    /// RollingSync is selected but the feature is switched off (AS-301).
    pub disabled: bool,
    /// Deletions that wait.
    pub held: Option<&'a Held>,
    /// The most resources to list; 0 means all (AS-191).
    pub max_resources: usize,
}

/// The rollout's part of the findings.
#[derive(Clone, Copy, Debug)]
pub struct Rollout<'a> {
    /// What was decided.
    pub plan: &'a RolloutPlan,
    /// All configuration problems.
    pub problems: &'a [Problem],
}

/// The failure of a set whose gate nobody understands; `None` when all of it is
/// understood.
pub fn held(misspelt: &[Problem]) -> Option<Failure> {
    if misspelt.is_empty() {
        return None;
    }
    let message = format!(
        "{}; nothing is created, updated, synced or deleted until this is mended",
        texts(misspelt)
    );
    Some(Failure { reason: reason::APPLICATION_SET_ROLLOUT_ERROR, message })
}

/// The status of a set that is being deleted and held: only its conditions
/// change.
pub fn held_deletion(set: &Value, failure: &Failure, now: Timestamp) -> Value {
    let old = &set["status"];
    let mut status = old.as_object().cloned().unwrap_or_default();
    let mut conditions: Vec<Value> = old["conditions"].as_array().cloned().unwrap_or_default();
    let kind = condition::ERROR_OCCURRED;
    set_condition(&mut conditions, kind, true, failure.reason, &failure.message, now);
    conditions.sort_by_key(|condition| condition["type"].as_str().unwrap_or_default().to_owned());
    status.insert("health".to_owned(), health(&conditions, &old["health"], now));
    status.insert("conditions".to_owned(), conditions.into());
    Value::Object(status)
}

/// Computes the whole new status; equal to the old one when nothing changed.
///
/// What a failed generation leaves unknown is kept as it was (AS-141).
pub fn compute(findings: &Findings<'_>, now: Timestamp) -> Value {
    let old = &findings.set["status"];
    let mut status = old.as_object().cloned().unwrap_or_default();
    let conditions = conditions(findings, &old["conditions"], now);
    status.insert("health".to_owned(), health(&conditions, &old["health"], now));
    status.insert("conditions".to_owned(), conditions.into());
    if findings.generated && findings.misspelt.is_empty() {
        applications(findings, &mut status, now);
    }
    resources(findings, &mut status);
    Value::Object(status)
}

fn applications(findings: &Findings<'_>, status: &mut Map<String, Value>, now: Timestamp) {
    let Some(rollout) = &findings.rollout else {
        status.remove("applicationStatus");
        status.remove("rollout");
        return;
    };
    let old = status.get("rollout").cloned().unwrap_or_default();
    // A rollout begins when a step opens again after all were complete.
    let was_complete = old["progress"]
        .as_str()
        .and_then(|progress| progress.split_once('/'))
        .is_some_and(|(done, total)| done == total);
    let goes_on = !was_complete || rollout.plan.open_step.is_none();
    let started_at = match &old["startedAt"] {
        Value::String(since) if goes_on => since.clone(),
        _ => to_rfc3339(now),
    };
    status.insert("applicationStatus".to_owned(), entries::to_json(&rollout.plan.entries));
    status.insert("rollout".to_owned(), summary(rollout.plan, &started_at, findings));
}

/// Our own extra: `status.rollout`, in a few words where the rollout stands.
fn summary(plan: &RolloutPlan, started_at: &str, findings: &Findings<'_>) -> Value {
    let total: u64 = plan.steps.iter().map(|step| step.total).sum();
    let complete: u64 = plan.steps.iter().map(|step| step.complete).sum();
    let waiting: Vec<Value> =
        plan.waiting.iter().take(WAITING_LIMIT).map(|wait| waiting_json(wait, findings)).collect();
    let steps = plan.steps.len();
    json!({
        "step": plan.open_step.map_or(steps, |step| step + 1),
        "steps": steps,
        "progress": format!("{complete}/{total}"),
        "message": rollout_message(plan),
        "waitingFor": waiting,
        "startedAt": started_at,
    })
}

fn waiting_json(wait: &rollout::Waiting, findings: &Findings<'_>) -> Value {
    let live = findings.existing.get(&wait.application);
    let mut json = json!({ "application": wait.application, "reason": wait.reason });
    if let Some(resource) = live.and_then(|live| resource_at_fault(live)) {
        json["resource"] = resource.into();
    }
    for (field, time) in [("since", wait.since), ("until", wait.until)] {
        if let Some(time) = time {
            json[field] = to_rfc3339(time).into();
        }
    }
    json
}

/// The first resource of an Application that is not healthy, as
/// `group/Kind:namespace/name`.
fn resource_at_fault(live: &Value) -> Option<String> {
    let resources = live["status"]["resources"].as_array()?;
    let resource = resources.iter().find(|resource| {
        !matches!(resource["health"]["status"].as_str(), None | Some("Healthy"))
    })?;
    let text = |field: &str| resource[field].as_str().unwrap_or_default();
    Some(format!("{}/{}:{}/{}", text("group"), text("kind"), text("namespace"), text("name")))
}

/// One line: which step, how far, who is waited for.
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
        message.push_str(&format!("; {} waits: {}", wait.application, wait.reason));
        if plan.waiting.len() > 1 {
            message.push_str(&format!(" (and {} more)", plan.waiting.len() - 1));
        }
    }
    message
}

/// The conditions after a pass, sorted by type (AS-183, AS-184).
fn conditions(findings: &Findings<'_>, old: &Value, now: Timestamp) -> Vec<Value> {
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
            if !findings.generated {
                wanted.push((
                    condition::PARAMETERS_GENERATED,
                    false,
                    reason::ERROR_OCCURRED,
                    message.clone(),
                ));
            }
        }
        (None, Some(held)) => {
            let reason = reason::DELETIONS_WAIT;
            wanted.push((condition::RESOURCES_UP_TO_DATE, false, reason, held.to_string()));
        }
        (None, None) if findings.up_to_date => {
            let up_to_date = reason::APPLICATION_SET_UP_TO_DATE;
            let message = if findings.disabled {
                "all applications are up to date, all at once: spec.strategy asks for a RollingSync, \
                 which is switched off; start with --enable-progressive-syncs to use it"
            } else {
                "all applications have been generated and written"
            };
            wanted.push((condition::ERROR_OCCURRED, false, up_to_date, message.to_owned()));
            wanted.push((condition::RESOURCES_UP_TO_DATE, true, up_to_date, message.to_owned()));
        }
        (None, None) => {}
    }
    if findings.generated {
        let message = "parameters and applications have been generated".to_owned();
        wanted.push((condition::PARAMETERS_GENERATED, true, reason::PARAMETERS_GENERATED, message));
        wanted.extend(rollout_conditions(findings));
    }

    let mut conditions: Vec<Value> = old.as_array().cloned().unwrap_or_default();
    let (strategy, _) = Strategy::read(findings.set["spec"].get("strategy"));
    let is_selected = matches!(strategy, Strategy::RollingSync(_));
    if findings.disabled
        && conditions.iter().any(|old| old["type"] == condition::ROLLOUT_PROGRESSING)
    {
        // Whoever waits for its end must not wait for ever.
        let message = "the rollout was left where it stood: it is switched off in this controller, and all \
                       applications are updated at once";
        let reason = reason::APPLICATION_SET_ROLLOUT_DISABLED;
        wanted.push((condition::ROLLOUT_PROGRESSING, false, reason, message.to_owned()));
    }
    let held = !findings.misspelt.is_empty();
    let has_ended = (findings.generated || !is_selected) && findings.rollout.is_none();
    if has_ended && !findings.disabled && !held {
        conditions.retain(|condition| {
            condition["type"] != condition::ROLLOUT_PROGRESSING
                && (condition["type"] != condition::INVALID_ROLLOUT_CONFIG
                    || !findings.misread.is_empty())
        });
    }
    for (kind, holds, reason, message) in wanted {
        set_condition(&mut conditions, kind, holds, reason, &message, now);
    }
    conditions.sort_by_key(|condition| condition["type"].as_str().unwrap_or_default().to_owned());
    conditions
}

fn short(message: &str) -> String {
    message.chars().take(SHORT_LIMIT).collect()
}

fn rollout_conditions(findings: &Findings<'_>) -> Vec<(&'static str, bool, &'static str, String)> {
    if !findings.misspelt.is_empty() {
        let reason = reason::APPLICATION_SET_INVALID_ROLLOUT_CONFIG;
        let message = texts(findings.misspelt);
        return vec![(condition::INVALID_ROLLOUT_CONFIG, true, reason, message)];
    }
    if findings.disabled {
        let message = "spec.strategy: RollingSync is switched off in this controller, all applications \
                       are updated at once; start it with --enable-progressive-syncs or set \
                       applicationsetcontroller.enable.progressive.syncs: \"true\"";
        let reason = reason::APPLICATION_SET_INVALID_ROLLOUT_CONFIG;
        return vec![(condition::INVALID_ROLLOUT_CONFIG, true, reason, message.to_owned())];
    }
    let Some(rollout) = &findings.rollout else {
        if findings.misread.is_empty() {
            return Vec::new();
        }
        let reason = reason::APPLICATION_SET_INVALID_ROLLOUT_CONFIG;
        let message = texts(findings.misread);
        return vec![(condition::INVALID_ROLLOUT_CONFIG, true, reason, message)];
    };
    let (progressing, why) = match rollout.plan.open_step {
        Some(_) => (true, reason::APPLICATION_SET_MODIFIED),
        None => (false, reason::APPLICATION_SET_ROLLOUT_COMPLETE),
    };
    // The waits change often and are told by status.rollout; the condition
    // names the step only.
    let message = match rollout.plan.open_step {
        Some(step) => format!("step {} of {} is not complete", step + 1, rollout.plan.steps.len()),
        None => "every application of every step is healthy".to_owned(),
    };
    let problems = rollout.problems;
    let (invalid, config_reason, config_message) = if problems.is_empty() {
        (
            false,
            reason::APPLICATION_SET_VALID_ROLLOUT_CONFIG,
            "the rollout is configured well".to_owned(),
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
    let (status, message) = match found {
        Some((status, condition)) => (status, condition["message"].clone()),
        None => ("Unknown", "".into()),
    };
    let since = match old["lastTransitionTime"].as_str() {
        Some(since) if old["status"] == status => since.to_owned(),
        _ => to_rfc3339(now),
    };
    json!({ "status": status, "message": message, "lastTransitionTime": since })
}

/// `status.resources` and `resourcesCount` (AS-191).
fn resources(findings: &Findings<'_>, status: &mut Map<String, Value>) {
    let owned: Vec<(&String, &Arc<Value>)> =
        findings.existing.iter().filter(|(_, live)| is_owned(live, findings.set)).collect();
    let limit = match findings.max_resources {
        0 => usize::MAX,
        limit => limit,
    };
    let resource = |(name, live): &(&String, &Arc<Value>)| {
        let mut resource = json!({
            "group": crate::api::GROUP,
            "version": crate::api::VERSION,
            "kind": "Application",
            "namespace": live["metadata"]["namespace"],
            "name": name,
        });
        let sync = &live["status"]["sync"]["status"];
        if sync.is_string() {
            resource["status"] = sync.clone();
        }
        let health = &live["status"]["health"];
        if health["status"].is_string() {
            resource["health"] = json!({ "status": health["status"] });
            if health["message"].is_string() {
                resource["health"]["message"] = health["message"].clone();
            }
        }
        resource
    };
    let count = owned.len();
    let listed: Vec<Value> = owned.iter().take(limit).map(resource).collect();
    status.insert("resources".to_owned(), listed.into());
    status.insert("resourcesCount".to_owned(), count.into());
}
