//! Reads the last sync of an Application that a person requested (ST-065): from
//! `status.operationState`, or from `status.history` when a dry run, a sync of some
//! resources or a request that applied nothing has taken its place there.
//!
//! A person's is every operation that is neither automated nor a rollout's: those
//! of the command lines and of the web page name a user, one that is written with
//! `kubectl` may name nobody.

use jiff::Timestamp;
use serde_json::Value;

use crate::rollout::observed::{End, PersonSync};
use wavegate_api::OperationPhase;
use wavegate_api::sources::{InEffect, revisions};
use wavegate_api::time::of_field as time;
use wavegate_application::normalize;
use wavegate_application::operation::is_full;
use wavegate_engine::promotion::{USERNAME, promotion_of};

/// The sync, if the last one is by a person. `target` is the observed revisions.
pub(super) fn sync(live: &Value, target: &[String]) -> Option<PersonSync> {
    let state = &live["status"]["operationState"];
    let phase = OperationPhase::from_word(state["phase"].as_str()?);
    let operation = &state["operation"];
    let is_full = is_full(operation);
    if operation["sync"]["dryRun"] != true && is_by_person(operation) {
        let found = of_state(live, phase, target);
        let is_other = found.is_other(target);
        if found.end == End::Nothing && is_other && (found.is_explicit || !is_full) {
            // What was synced before is still there.
            let before = of_history(live, target).filter(|before| before.is_after_target);
            return before.or(Some(found));
        }
        // Of some resources to the target: what was synced before is still there. All of it to
        // the target takes the Application back, even if nothing was applied yet.
        if is_full || is_other {
            return Some(found);
        }
    }
    if is_full {
        return None;
    }
    // Only if nothing else explains its place in the history.
    of_history(live, target).filter(|found| found.is_after_target)
}

fn is_by_person(operation: &Value) -> bool {
    let who = &operation["initiatedBy"];
    operation["sync"].is_object()
        && who["automated"] != true
        && who["username"] != USERNAME
        && promotion_of(operation).is_none()
}

fn of_state(live: &Value, phase: OperationPhase, target: &[String]) -> PersonSync {
    let state = &live["status"]["operationState"];
    let (sync, result) = (&state["operation"]["sync"], &state["syncResult"]);
    let end = match phase {
        OperationPhase::Succeeded => End::Succeeded,
        OperationPhase::Running | OperationPhase::Terminating => End::Running,
        // Such as with a revision that does not exist.
        _ if result["resources"].as_array().is_none_or(Vec::is_empty) => End::Nothing,
        OperationPhase::Failed | OperationPhase::Error | OperationPhase::Unknown => End::Failed,
    };
    let (resolved, named) = (revisions(result), revisions(sync));
    let is_local = sync["manifests"].as_array().is_some_and(|list| !list.is_empty());
    let started_at = time(&state["startedAt"]).unwrap_or(Timestamp::UNIX_EPOCH);
    PersonSync {
        is_explicit: !named.is_empty() || is_local,
        revisions: if resolved.is_empty() { named } else { resolved },
        is_local,
        by: state["operation"]["initiatedBy"]["username"].as_str().unwrap_or_default().to_owned(),
        started_at,
        end,
        is_after_target: was_deployed_before(live, target, started_at),
    }
}

/// The last deployment, if a person requested it. One that names nobody is a person's, too:
/// those of rollouts and automated syncs say so.
fn of_history(live: &Value, target: &[String]) -> Option<PersonSync> {
    let history = live["status"]["history"].as_array()?;
    let last = history.last()?;
    let who = &last["initiatedBy"];
    let by = who["username"].as_str().unwrap_or_default();
    if who["automated"] == true || by == USERNAME {
        return None;
    }
    // Controllers of older Argo CDs record nobody.
    let names_users = || history.iter().any(|entry| entry["initiatedBy"].is_object());
    if by.is_empty() && !names_users() {
        return None;
    }
    let started_at = time(&last["deployStartedAt"])?;
    Some(PersonSync {
        revisions: revisions(last),
        is_local: false,
        is_explicit: true,
        by: by.to_owned(),
        started_at,
        end: End::Succeeded,
        is_after_target: was_deployed_before(live, target, started_at),
    })
}

/// Whether these revisions of the sources of the spec were deployed before the sync that
/// started at this time, by the same clock.
fn was_deployed_before(live: &Value, target: &[String], start: Timestamp) -> bool {
    let in_effect = InEffect::of(&live["spec"]);
    let (field, sources) = (in_effect.field, in_effect.value());
    let is_target = |entry: &&Value| {
        revisions(entry) == target
            && (entry[field].is_null() || normalize::equal_parts(&sources, &entry[field]))
    };
    let history = live["status"]["history"].as_array().into_iter().flatten();
    let is_before = |entry: &&Value| time(&entry["deployedAt"]).is_some_and(|at| at <= start);
    !target.is_empty() && history.filter(is_before).any(|entry| is_target(&entry))
}
