//! The status of a set from the results of a reconcile: conditions, health,
//! resources and the rollout (AS-183 to AS-191).

pub(super) mod conditions;
pub mod error_status;
pub mod events;
pub mod findings;
pub mod pace;
pub mod report;
pub mod report_input;
pub mod stored;
pub mod write_failures;

use jiff::Timestamp;

use crate::application_set::plan::observe::Existing;
use crate::application_set::status::conditions::{conditions, health, set_condition, sort};
use crate::application_set::status::findings::{Failure, Findings, Rollout, rollout_text, text};
use crate::application_set::status::stored::{
    self as stored_set, Status, StoredApplicationSet, StoredResource,
};
use crate::rollout::StepState;
use crate::rollout::listed::Listed;
use crate::rollout::phase::Entry;
use crate::rollout::status::{self as entries, cut};
use crate::rollout::unknown_fields::keep_unknown;
use crate::rollout::wait::RolloutWait;
use wavegate_api::application_set::{RolloutStatus, StalledWait, WaitingFor};
use wavegate_api::conditions::application_set::{self as condition, reason};
use wavegate_api::time::stored_time;
use wavegate_api::{HealthStatus, Time};

/// The most bytes of the name of a resource.
const RESOURCE_LIMIT: usize = 600;

/// The status of a set in which only the conditions about errors and the
/// health change.
pub fn with_error(
    set: &StoredApplicationSet,
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
    status.health = Some(health(&status.conditions, set.status.health.as_ref(), now));
    Status { exists: true, ..status }
}

/// The status of a set that is being deleted, after an error was fixed.
pub fn without_error(set: &StoredApplicationSet, now: Timestamp) -> Status {
    let mut status = set.status.clone();
    let (kind, reason) = (condition::ERROR_OCCURRED, reason::APPLICATION_SET_UP_TO_DATE);
    let message = "applications are being deleted";
    set_condition(&mut status.conditions, kind, false, reason, message, now);
    sort(&mut status.conditions);
    status.health = Some(health(&status.conditions, set.status.health.as_ref(), now));
    Status { exists: true, ..status }
}

/// Computes the new status; equal to the old one when nothing changed.
///
/// Fields that are unknown after a failed generation are kept (AS-141).
pub(crate) fn compute(findings: &Findings<'_>, now: Timestamp) -> Status {
    let old = &findings.set.status;
    let mut status = Status { exists: true, storage: old.storage.clone(), ..Status::default() };
    resources(findings, &mut status);
    status.conditions = conditions(findings, truncated(&status).as_deref(), now);
    status.health = Some(health(&status.conditions, old.health.as_ref(), now));
    if let Some(rollout) = &findings.rollout {
        unhealthy(&mut status, rollout, findings, now);
    }
    (status.entries, status.rollout) = match &findings.rollout {
        Some(rollout) => {
            let entries = entries_of(rollout.listed, old, findings.redact);
            // Without Applications there is no list, as in Argo CD; one that is cut is one.
            let has_list = !entries.is_empty() || rollout.listed.is_compact;
            (has_list.then_some(entries), Some(summary(rollout, findings, now)))
        }
        // The rollout is kept while its state is unknown.
        None if findings.generated.error.is_some() || !findings.generated.misspelt.is_empty() => {
            (old.entries.clone(), old.rollout.clone())
        }
        None => (None, None),
    };
    status.entries_are_exact = true;
    status.keep_unknown_of_lists(old);
    status
}

/// The entries without credentials; stored entries contain none.
fn entries_of(listed: &Listed, old: &Status, redact: fn(&str) -> String) -> Vec<Entry> {
    let mut stored = old.entries.iter().flatten().peekable();
    let entry = |entry: &Entry| {
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

/// A set whose rollout is complete without Applications that are not Healthy is not so itself.
fn unhealthy(status: &mut Status, rollout: &Rollout<'_>, findings: &Findings<'_>, now: Timestamp) {
    let is_left_out = rollout.plan.open_step.is_none() && rollout.plan.left_out.is_unhealthy;
    let Some(health) = status.health.as_mut().filter(|one| one.status == HealthStatus::Healthy)
    else {
        return;
    };
    if is_left_out {
        let old = findings.set.status.health.as_ref();
        let known = old.filter(|old| old.status == HealthStatus::Degraded);
        health.status = HealthStatus::Degraded;
        health.message = rollout_text(rollout.plan, findings);
        let known = known.and_then(|known| known.last_transition_time.clone());
        // So that a definition without this field does not lead to another one each time.
        let mut conditions = status.conditions.iter();
        let ended = conditions.find(|one| one.type_ == condition::ROLLOUT_PROGRESSING);
        let ended = ended.and_then(|ended| ended.last_transition_time.clone());
        health.last_transition_time = known.or(ended).or(Some(Time(stored_time(now))));
    }
}

/// `status.rollout`, an extension: a summary of the rollout.
fn summary(rollout: &Rollout<'_>, findings: &Findings<'_>, now: Timestamp) -> RolloutStatus {
    let (plan, old) = (rollout.plan, &findings.set.status);
    let total: u64 = plan.steps.iter().map(|step| step.total).sum();
    let complete: u64 = plan.steps.iter().map(StepState::done).sum();
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let steps = plan.steps.len();
    // A rollout begins when a step opens after all were complete.
    let restarted = old.has(condition::ROLLOUT_PROGRESSING, "False") && plan.open_step.is_some();
    let started_at = old.started_at().filter(|_| !restarted).unwrap_or(now);
    let stalled = rollout.stalled.iter().map(|(application, since)| StalledWait {
        application: application.clone(),
        since: Some(Time(stored_time(*since))),
        ..StalledWait::default()
    });
    let mut summary = RolloutStatus {
        step: number(plan.open_step.map_or(steps, |step| step + 1)),
        steps: number(steps),
        progress: format!("{complete}/{total}"),
        message: rollout_text(plan, findings),
        waiting_for: plan.waiting.iter().map(|wait| waiting_for(wait, findings)).collect(),
        started_at: Some(Time(stored_time(started_at))),
        step_opened_at: plan.opened_at.map(|at| Time(stored_time(at))),
        listed: rollout.listed.count.map(number),
        stalled: stalled.collect(),
        ..RolloutStatus::default()
    };
    if let Some(old) = &old.rollout {
        keep_unknown(std::slice::from_ref(old), std::slice::from_mut(&mut summary), |_, _| true);
        keep_unknown(&old.waiting_for, &mut summary.waiting_for, |a, b| {
            (&a.application, &a.kind) == (&b.application, &b.kind)
        });
        keep_unknown(&old.stalled, &mut summary.stalled, |a, b| a.application == b.application);
    }
    summary
}

fn waiting_for(wait: &RolloutWait, findings: &Findings<'_>) -> WaitingFor {
    let resource = wait.resource.as_deref().unwrap_or_default();
    WaitingFor {
        application: wait.application.clone(),
        kind: wait.kind.name().to_owned(),
        reason: text(&wait.message, findings),
        resource: cut(resource, RESOURCE_LIMIT).to_owned(),
        since: wait.since.map(|at| Time(stored_time(at))),
        until: wait.until.map(|at| Time(stored_time(at))),
        ..WaitingFor::default()
    }
}

/// `status.resources` and `resourcesCount` (AS-191): the first ones by name, up
/// to the limit.
fn resources(findings: &Findings<'_>, status: &mut Status) {
    let old = &findings.set.status;
    let limit = match findings.settings.max_resources {
        0 => usize::MAX,
        limit => limit,
    };
    let mut listed = old.resources.iter().peekable();
    let mut bytes_left = findings.settings.size_limits.resources;
    let mut count = 0;
    let mut is_full = false;
    for existing in findings.existing.iter().filter(|existing| existing.is_owned()) {
        count += 1;
        is_full |= status.resources.len() >= limit;
        if is_full {
            continue;
        }
        while listed.next_if(|one| one.name < existing.name).is_some() {}
        let same = listed.next_if(|one| one.name == existing.name);
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
    status.resources_count = Some(count);
}

/// That `status.resources` does not list every Application; `None` when it does.
fn truncated(status: &Status) -> Option<String> {
    stored_set::truncated_note(status.resources.len(), status.resources_count?)
}

fn resource(
    existing: &Existing,
    stored: Option<&StoredResource>,
    findings: &Findings<'_>,
) -> StoredResource {
    let message = |text: &str| -> Box<str> {
        let known = stored.and_then(|stored| stored.health.as_ref()?.1.as_deref());
        match known.filter(|known| *known == text) {
            Some(known) => known.into(),
            None => StoredResource::message(&(findings.redact)(text)).into(),
        }
    };
    let health = existing.health.as_ref();
    StoredResource {
        namespace: findings.set.id.namespace.as_str().into(),
        name: existing.name.clone(),
        sync: existing.sync.clone(),
        health: health.map(|(health, text)| (health.clone(), text.as_deref().map(message))),
    }
}
