//! Reads the last sync of an Application that a person requested (ST-065): from
//! `status.operationState`, or from `status.history` when a dry run, a sync of some
//! resources or a request that applied nothing has taken its place there.
//!
//! A person's is every operation that is neither automated nor a rollout's: those
//! of the command lines and of the web page name a user, one that is written with
//! `kubectl` may name nobody.

use jiff::Timestamp;

use crate::rollout::observed::{OperationEnd, PersonSync};
use wavegate_api::OperationPhase;
use wavegate_api::app_status::RevisionHistory;
use wavegate_api::live::{LiveApplication, LiveOperation, LiveOperationState, LiveSync};
use wavegate_api::sources::InEffect;
use wavegate_application::normalize;
use wavegate_engine::promotion::{PROMOTION, USERNAME};

/// The sync, if the last one is by a person. `target` is the observed revisions.
pub(in crate::application_set) fn sync(
    app: &LiveApplication,
    in_effect: &InEffect<'_>,
    target: &[String],
) -> Option<PersonSync> {
    let state = app.state()?;
    let phase = OperationPhase::from_word(state.phase.as_deref()?);
    let dry_run = state.operation.sync.as_ref().is_some_and(|sync| sync.dry_run);
    let is_full = state.operation.is_full();
    let of_history = || of_history(app, in_effect, target).filter(|before| before.is_after_target);
    if !dry_run && is_by_person(&state.operation) {
        let found = of_state(app, state, phase, in_effect, target);
        let is_other = found.is_other(target);
        if found.end == OperationEnd::Nothing && is_other && (found.is_explicit || !is_full) {
            // What was synced before is still there.
            return of_history().or(Some(found));
        }
        // Of some resources to the target: what was synced before is still there. All of it to
        // the target takes the Application back, even if nothing was applied yet.
        if is_full || is_other {
            return Some(found);
        }
    }
    // Only if nothing else explains its place in the history.
    if is_full { None } else { of_history() }
}

fn is_by_person(operation: &LiveOperation) -> bool {
    let who = &operation.initiated_by;
    operation.sync.is_some()
        && !who.automated
        && who.username != USERNAME
        && operation.time_in(PROMOTION).is_none()
}

fn of_state(
    app: &LiveApplication,
    state: &LiveOperationState,
    phase: OperationPhase,
    in_effect: &InEffect<'_>,
    target: &[String],
) -> PersonSync {
    let end = match phase {
        OperationPhase::Succeeded => OperationEnd::Succeeded,
        OperationPhase::Running | OperationPhase::Terminating => OperationEnd::Running,
        // Such as with a revision that does not exist.
        _ if state.sync_result.resources.is_empty() => OperationEnd::Nothing,
        OperationPhase::Failed | OperationPhase::Error | OperationPhase::Unknown => {
            OperationEnd::Failed
        }
    };
    let sync = state.operation.sync.as_ref();
    let (resolved, named) =
        (state.sync_result.revisions(), sync.map(LiveSync::revisions).unwrap_or_default());
    let is_local = sync.is_some_and(|sync| !sync.manifests.is_empty());
    let started_at = state.started_at.as_ref().map_or(Timestamp::UNIX_EPOCH, |at| at.0);
    PersonSync {
        is_explicit: !named.is_empty() || is_local,
        revisions: if resolved.is_empty() { named } else { resolved },
        is_local,
        by: state.operation.initiated_by.username.clone(),
        started_at,
        end,
        is_after_target: was_deployed_before(app, in_effect, target, started_at),
    }
}

/// The last deployment, if a person requested it. One that names nobody is a person's, too:
/// those of rollouts and automated syncs say so.
fn of_history(
    app: &LiveApplication,
    in_effect: &InEffect<'_>,
    target: &[String],
) -> Option<PersonSync> {
    let history = &app.status.history;
    let last = history.last()?;
    let who = last.initiated_by.as_ref();
    let by = who.map(|who| who.username.as_str()).unwrap_or_default();
    if who.is_some_and(|who| who.automated) || by == USERNAME {
        return None;
    }
    // Controllers of older Argo CDs record nobody.
    if by.is_empty() && history.iter().all(|entry| entry.initiated_by.is_none()) {
        return None;
    }
    let started_at = last.deploy_started_at.as_ref()?.0;
    Some(PersonSync {
        revisions: last.revisions(),
        is_local: false,
        is_explicit: true,
        by: by.to_owned(),
        started_at,
        end: OperationEnd::Succeeded,
        is_after_target: was_deployed_before(app, in_effect, target, started_at),
    })
}

/// Whether these revisions of the sources of the spec were deployed before the sync that
/// started at this time, by the same clock.
fn was_deployed_before(
    app: &LiveApplication,
    in_effect: &InEffect<'_>,
    target: &[String],
    start: Timestamp,
) -> bool {
    let is_target =
        |entry: &RevisionHistory| entry.revisions() == target && is_of_sources(entry, in_effect);
    let is_before =
        |entry: &&RevisionHistory| entry.deployed_at.as_ref().is_some_and(|at| at.0 <= start);
    !target.is_empty() && app.status.history.iter().filter(is_before).any(is_target)
}

/// Whether a past sync was one of these sources, as far as it records them.
pub(in crate::application_set) fn is_of_sources(
    entry: &RevisionHistory,
    in_effect: &InEffect<'_>,
) -> bool {
    let recorded = entry.sources_like(in_effect);
    recorded.is_none_or(|recorded| normalize::equal_parts(&in_effect.value(), &recorded))
}
