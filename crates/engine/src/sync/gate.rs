//! The gate after each wave: whether a task is complete, and what is awaited.
//!
//! A stale status is never used: the live object counts only if it is at least
//! as new as what was applied, and a hook only if this task has created it.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::hooks;
use super::plan::{WaitReason, Waiting};
use super::snapshot::SyncSettings;
use super::task::Task;
use crate::health::Status;
use wavegate_api::Raw;
use wavegate_api::annotations::is_held_as_hook;
use wavegate_api::operation::OperationPhase;
use wavegate_api::operation::ResourceResult;

/// How long the cache may lag behind before a missing object is read directly
/// (SE-258).
pub(super) const READ_AFTER: SignedDuration = SignedDuration::from_secs(3);

/// The new state of a running task, and its message; `None` when it is still
/// running and has no new message (SE-255, SE-256).
pub(super) fn evaluate(
    task: &Task<'_>,
    result: &ResourceResult,
    settings: &SyncSettings,
    now: Timestamp,
) -> Option<(OperationPhase, String)> {
    // Another client has replaced the hook with another object.
    if let Some(objection) = task.objection() {
        return Some((OperationPhase::Failed, objection.to_owned()));
    }
    let running = match completion(task, result) {
        Some((OperationPhase::Running, message)) => Some(message),
        Some(complete) => return Some(complete),
        None => None,
    };
    if deadline(task, result.since, settings).is_some_and(|deadline| deadline <= now) {
        let what = if task.hook { "complete" } else { "become healthy" };
        let message = format!("{} did not {what} in time", task.key.resource.name);
        return Some((OperationPhase::Failed, message));
    }
    running.map(|message| (OperationPhase::Running, message))
}

fn completion(task: &Task<'_>, result: &ResourceResult) -> Option<(OperationPhase, String)> {
    use OperationPhase::{Error, Failed, Running, Succeeded};
    let live = task.live.filter(|_| is_fresh(task, result))?;
    let health = match &live.health {
        None if task.hook => {
            return Some((Succeeded, format!("{} created", task.key.resource.name)));
        }
        None => return Some((Succeeded, result.message.clone())),
        Some(Err(error)) if task.hook => {
            return Some((Error, format!("failed to get resource health: {error}")));
        }
        Some(Err(_)) => return None,
        Some(Ok(health)) => health,
    };
    let message = match health.message.is_empty() {
        true => result.message.clone(),
        false => health.message.clone(),
    };
    match (health.status, task.hook) {
        (Status::Healthy, _) | (Status::Missing, true) => Some((Succeeded, message)),
        (Status::Degraded, _) | (Status::Unknown, true) => Some((Failed, message)),
        (Status::Progressing | Status::Suspended, true) => Some((Running, message)),
        (Status::Progressing | Status::Suspended | Status::Missing | Status::Unknown, false) => {
            None
        }
    }
}

/// Whether the live object is the applied version, or a later one.
///
/// Resource versions are compared if both are numbers, as those of all API
/// servers are; otherwise the object is accepted.
fn is_fresh(task: &Task<'_>, result: &ResourceResult) -> bool {
    let Some(view) = task.live_view() else { return false };
    if task.needs_stamp() && !task.is_created() && hooks::stamp_of(view).is_some() {
        return false;
    }
    let number = |text: &str| text.parse::<u128>().ok();
    match (number(&result.resource_version), number(view.resource_version())) {
        (Some(applied), Some(seen)) => seen >= applied,
        _ => true,
    }
}

/// When a running task counts as failed; `None` without a limit.
fn deadline(
    task: &Task<'_>,
    since: Option<Timestamp>,
    settings: &SyncSettings,
) -> Option<Timestamp> {
    let limit = if task.hook { settings.hook_timeout } else { settings.wave_timeout };
    since?.checked_add(limit?).ok()
}

/// Describes the wait for one task.
pub(super) fn waiting(
    task: &Task<'_>,
    reason: WaitReason,
    since: Option<Timestamp>,
    settings: &SyncSettings,
    operation_deadline: Option<Timestamp>,
) -> Waiting {
    let view = task.live_view();
    let own = match reason {
        WaitReason::HookCompletion | WaitReason::Health => deadline(task, since, settings),
        _ => None,
    };
    let (detail, since) = match reason {
        WaitReason::HookCompletion | WaitReason::Health => (condition(task), since),
        WaitReason::Deletion | WaitReason::HookDeletion => {
            (finalizers(view), view.and_then(Raw::deletion_timestamp).or(since))
        }
        _ => (String::new(), since),
    };
    let until = own.into_iter().chain(operation_deadline).min();
    Waiting { key: task.key.resource.clone(), reason, detail, since, until }
}

fn condition(task: &Task<'_>) -> String {
    let state = state(task);
    let goes = task.live_view().is_some_and(|live| live.is_deleting() && is_held_as_hook(live));
    match goes && task.hook {
        true => format!(
            "{state}, being deleted; it is held until it completes, or the operation is terminated"
        ),
        false => state,
    }
}

fn state(task: &Task<'_>) -> String {
    match task.live.map(|live| &live.health) {
        None => "not seen yet".to_owned(),
        Some(None) => String::new(),
        Some(Some(Err(error))) => format!("health cannot be determined: {error}"),
        Some(Some(Ok(health))) if health.message.is_empty() => format!("{:?}", health.status),
        Some(Some(Ok(health))) => format!("{:?}: {}", health.status, health.message),
    }
}

/// Names the finalizers that block a terminating object (SE-600).
fn finalizers(view: Option<&Value>) -> String {
    let held: Vec<&str> = view.into_iter().flat_map(Raw::finalizers).collect();
    match held.is_empty() {
        true => String::new(),
        false => format!("held by {}", held.join(", ")),
    }
}
