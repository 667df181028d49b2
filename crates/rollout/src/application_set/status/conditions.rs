//! The conditions of a set, and its health, which follows from them (AS-183, AS-184, AS-190).

use crate::application_set::status::findings::{Findings, rollout_text, texts};
use crate::application_set::status::stored::MESSAGE_LIMIT;
use crate::rollout::left_out::LeftOut;
use crate::rollout::steps::{Problem, StepStrategy};
use crate::rollout::unknown_fields::keep_unknown;
use jiff::Timestamp;
use wavegate_api::application_set::{ApplicationSetCondition, ApplicationSetHealth};
use wavegate_api::conditions::application_set::{self as condition, reason};
use wavegate_api::time::stored_time;
use wavegate_api::{HealthStatus, Time};

/// Messages of the good state, which tools compare (AS-184).
const GENERATED: &str = "All applications have been generated successfully";
const PARAMETERS_GENERATED: &str = "Successfully generated parameters for all Applications";

/// Separates an error from the deletions that wait because of it.
const HELD: &str = "; meanwhile ";
/// The most characters of the error when deletions wait.
const SHORT_LIMIT: usize = 700;

/// The conditions after a reconcile, sorted by type (AS-183, AS-184).
///
/// `truncated` is added to the message that every Application is up to date (AS-191).
pub(in crate::application_set) fn conditions(
    findings: &Findings<'_>,
    truncated: Option<&str>,
    now: Timestamp,
) -> Vec<ApplicationSetCondition> {
    let (generated, settings) = (findings.generated, findings.settings);
    let is_generated = generated.error.is_none();
    let is_disabled = generated.is_disabled(settings);
    let mut wanted: Vec<WantedCondition> = Vec::new();
    match (&findings.failure, findings.held) {
        (Some(failure), held) => {
            let message = &match held {
                Some(held) => format!("{}{HELD}{held}", short(&failure.message)),
                None => failure.message.clone(),
            };
            wanted.push((condition::ERROR_OCCURRED, true, failure.reason, message.clone()));
            let parameters = (!is_generated).then_some(condition::PARAMETERS_GENERATED);
            let kinds = [condition::RESOURCES_UP_TO_DATE].into_iter().chain(parameters);
            let is_false = |kind| (kind, false, reason::ERROR_OCCURRED, message.clone());
            wanted.extend(kinds.map(is_false));
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

    let mut conditions = findings.set.status.conditions.clone();
    let is_selected = matches!(generated.strategy, StepStrategy::RollingSync(_));
    if is_disabled && conditions.iter().any(|old| old.type_ == condition::ROLLOUT_PROGRESSING) {
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
        conditions.retain(|condition| condition.type_ != condition::DELETIONS_HELD);
    }
    match findings.absent_settings {
        [] => conditions.retain(|condition| condition.type_ != condition::SETTINGS_ABSENT),
        names => {
            let message = format!(
                "of the control plane's settings, {} had values and does not exist any more; the \
                 last values stay in force until it exists again: create it again, without data \
                 for the defaults",
                names.join(" and ")
            );
            wanted.push((condition::SETTINGS_ABSENT, true, reason::LAST_SETTINGS_STAY, message));
        }
    }
    let held = !generated.misspelt.is_empty();
    let has_ended = (is_generated || !is_selected) && findings.rollout.is_none();
    if has_ended && !is_disabled && !held {
        conditions.retain(|condition| {
            condition.type_ != condition::ROLLOUT_PROGRESSING
                && (condition.type_ != condition::INVALID_ROLLOUT_CONFIG
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

pub(in crate::application_set) fn sort(conditions: &mut [ApplicationSetCondition]) {
    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
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

/// The type, whether it is True, the reason and the message of a condition.
type WantedCondition = (&'static str, bool, &'static str, String);

fn rollout_conditions(findings: &Findings<'_>) -> Vec<WantedCondition> {
    let generated = findings.generated;
    let invalid = |message: String| {
        let reason = reason::APPLICATION_SET_INVALID_ROLLOUT_CONFIG;
        (condition::INVALID_ROLLOUT_CONFIG, true, reason, message)
    };
    if !generated.misspelt.is_empty() {
        return vec![invalid(texts(&generated.misspelt))];
    }
    if generated.is_disabled(findings.settings) {
        let message = "spec.strategy: progressive syncs are disabled in this controller, and all applications \
                       are updated at once; start it with --enable-progressive-syncs or set \
                       applicationsetcontroller.enable.progressive.syncs: \"true\"";
        return vec![invalid(message.to_owned())];
    }
    let Some(rollout) = &findings.rollout else {
        let misread = Some(misread(findings)).filter(|misread| !misread.is_empty());
        return misread.map(|misread| invalid(texts(misread))).into_iter().collect();
    };
    let (progressing, why, message) = match rollout.plan.open_step {
        Some(_) => (true, reason::APPLICATION_SET_MODIFIED, rollout_text(rollout.plan, findings)),
        None => {
            let is_whole = rollout.plan.left_out == LeftOut::default();
            let has_any = rollout.plan.steps.iter().any(|step| step.total > 0);
            let message = match is_whole && has_any {
                true => "every application of every step is healthy".to_owned(),
                false => rollout_text(rollout.plan, findings),
            };
            (false, reason::APPLICATION_SET_ROLLOUT_COMPLETE, message)
        }
    };
    let mut problems = findings.set.unknown_annotations.clone();
    if !generated.rollout_problems.is_empty() {
        problems.push(texts(&generated.rollout_problems));
    }
    let config = match problems.is_empty() {
        true => {
            let reason = reason::APPLICATION_SET_VALID_ROLLOUT_CONFIG;
            let message = "rollout configuration is valid".to_owned();
            (condition::INVALID_ROLLOUT_CONFIG, false, reason, message)
        }
        false => invalid(problems.join("; ")),
    };
    vec![(condition::ROLLOUT_PROGRESSING, progressing, why, message), config]
}

pub(in crate::application_set) fn set_condition(
    conditions: &mut Vec<ApplicationSetCondition>,
    kind: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let status = if holds { "True" } else { "False" };
    let message: String = message.chars().take(MESSAGE_LIMIT).collect();
    let at = conditions.iter().position(|condition| condition.type_ == kind);
    let at = at.unwrap_or_else(|| {
        conditions.push(ApplicationSetCondition::default());
        conditions.len() - 1
    });
    let old = &mut conditions[at];
    if old.type_ == kind && old.status == status && old.reason == reason && old.message == message {
        return;
    }
    *old = ApplicationSetCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: Some(Time(stored_time(now))),
        extra: std::mem::take(&mut old.extra),
    };
}

/// `status.health` from the conditions (AS-190).
pub(in crate::application_set) fn health(
    conditions: &[ApplicationSetCondition],
    old: Option<&ApplicationSetHealth>,
    now: Timestamp,
) -> ApplicationSetHealth {
    let holds =
        |kind: &str| conditions.iter().find(|one| one.type_ == kind && one.status == "True");
    let found = [
        (condition::ERROR_OCCURRED, HealthStatus::Degraded),
        (condition::ROLLOUT_PROGRESSING, HealthStatus::Progressing),
        (condition::RESOURCES_UP_TO_DATE, HealthStatus::Healthy),
    ];
    let found = found.into_iter().find_map(|(kind, status)| Some((status, holds(kind)?)));
    let status = found.map_or(HealthStatus::Unknown, |(status, _)| status);
    let message = found.map(|(_, condition)| condition.message.clone()).unwrap_or_default();
    let began = found.and_then(|(_, condition)| condition.last_transition_time.clone());
    let known = old.and_then(|old| old.last_transition_time.clone());
    let since = match (known, began) {
        (Some(since), _) if old.is_some_and(|old| old.status == status) => since,
        // So that a definition without this field does not lead to another one each time.
        (None, Some(began)) => began,
        _ => Time(stored_time(now)),
    };
    let mut health = ApplicationSetHealth {
        status,
        message,
        last_transition_time: Some(since),
        ..ApplicationSetHealth::default()
    };
    keep_unknown(
        old.map(std::slice::from_ref).unwrap_or_default(),
        std::slice::from_mut(&mut health),
        |_, _| true,
    );
    health
}
