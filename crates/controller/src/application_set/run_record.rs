//! Records the run of a decision, before anything that follows from it (ST-002).

use jiff::Timestamp;

use super::context::Context;
use super::notify::{self, marked};
use super::run_observation::{Run, RunObservation, runs_of};
use crate::error::ReconcileError;
use wavegate_api::ObjectKey;
use wavegate_api::run::{RolloutRunSpec, RolloutRunStatus, RunPhase};
use wavegate_cluster::act::control_plane::rollout_run::{self, NewRun, Written};
use wavegate_cluster::watch::control_plane::set_owner;
use wavegate_cluster::watch::failure::error_reason;
use wavegate_rollout::application_set::status::stored::StoredApplicationSet;
use wavegate_rollout::rollout::run::{RunDecision, number_of};

/// What the reconcile does after the run was recorded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    /// It goes on.
    Done,
    /// It goes on, although nothing was recorded: the API server refuses it.
    Unwritten,
    /// It goes on, and tries again after a moment: no request reaches a run that does not exist.
    Later,
    /// The run has changed in the meantime, or its name is taken: it decides again.
    Outdated,
}

/// Gives runs whose owner reference somebody has removed back to the set.
pub(super) async fn restore_owners(
    set: &StoredApplicationSet,
    observation: &mut RunObservation,
    context: &Context,
) {
    let (client, plane) = (&context.core.client, &context.core.control_plane);
    let runs = observation.runs.iter().map(|run| &run.object);
    let lost: Vec<_> = runs.filter(|run| set_owner(run).is_none()).cloned().collect();
    if lost.is_empty() {
        return;
    }
    for run in &lost {
        let (name, uid) = (&set.id.name, &set.id.uid);
        let failure = match rollout_run::restore_owner(client, &plane.runs, run, name, uid).await {
            Ok(Written::Done(_)) => {
                tracing::warn!(run = %run.key(), "the run had lost its owner reference, which is restored");
                continue;
            }
            // Its next event, or the next reconcile, asks for it again.
            Ok(Written::Unchanged | Written::Outdated | Written::Absent | Written::Taken) => {
                continue;
            }
            Ok(Written::Refused(reason)) => reason,
            Err(error) => error_reason(&error),
        };
        tracing::warn!(
            run = %run.key(),
            error = failure,
            "cannot restore the owner reference of the run"
        );
    }
    observation.observe_runs(runs_of(plane, &set.id));
}

/// Records the run of a decision, before anything that follows from it.
///
/// # Errors
///
/// When something that people or the next decision depend on cannot be stored. What only
/// reports is tried again by the next reconcile.
pub(super) async fn record(
    set: &StoredApplicationSet,
    observation: &mut RunObservation,
    decision: &RunDecision,
    context: &Context,
    now: Timestamp,
) -> Result<Recorded, ReconcileError> {
    let write = write(set, observation, decision, context).await;
    let is_refused = write.is_ok();
    let failure = match write {
        Ok(Written::Done(_) | Written::Unchanged) => {
            observation.written_at = Some(now);
            observation.observe_runs(runs_of(&context.core.control_plane, &set.id));
            log(decision);
            notify::check_mark(set, &decision.name, observation, context);
            delete_old(observation, context).await;
            return Ok(Recorded::Done);
        }
        Ok(Written::Outdated) => return Ok(Recorded::Outdated),
        Ok(Written::Taken) => {
            let name = ObjectKey::new(&set.id.namespace, &decision.name);
            tracing::warn!(run = %name, "another object has this name: the run gets the next number");
            observation.taken = number_of(&decision.name).unwrap_or_default();
            return Ok(Recorded::Outdated);
        }
        Ok(Written::Absent) => "its definition is not installed: wavegate crds".to_owned(),
        Ok(Written::Refused(reason)) => reason,
        Err(error) => error_reason(&error),
    };
    // A gate or a budget is evaluated for a stored run only, so nothing behind it would start.
    let stored = observation.run(&decision.name).and_then(|run| run.status.started_at.as_ref());
    let begins = decision.status.started_at.as_ref() != stored;
    let rules = observation.rules();
    let needs_run = !rules.gates.is_empty() || rules.failures.is_some();
    if decision.must_be_stored || begins && needs_run {
        let name = ObjectKey::new(&set.id.namespace, &decision.name).to_string();
        return Err(ReconcileError::Run { name, reason: failure });
    }
    tracing::warn!(run = decision.name, error = failure, "cannot record the RolloutRun");
    Ok(if is_refused { Recorded::Unwritten } else { Recorded::Later })
}

async fn write(
    set: &StoredApplicationSet,
    observation: &RunObservation,
    decision: &RunDecision,
    context: &Context,
) -> Result<Written, kube::Error> {
    let (client, cache) = (&context.core.client, &*context.core.control_plane.runs);
    if let Some((name, status)) = &decision.superseded
        && let Some(old) = observation.run(name)
    {
        let status = marked(status, Some(old), observation, context);
        match rollout_run::write_status(client, cache, &old.object, &status).await? {
            Written::Done(_) | Written::Unchanged => {}
            other => return Ok(other),
        }
    }
    for late in &decision.late {
        let Some(old) = observation.run(&late.name) else { continue };
        let status = marked(&late.status, Some(old), observation, context);
        match rollout_run::write_status(client, cache, &old.object, &status).await? {
            Written::Outdated => return Ok(Written::Outdated),
            // Nothing depends on it.
            Written::Refused(reason) => {
                tracing::warn!(run = late.name, error = reason, "cannot record the RolloutRun");
            }
            Written::Done(_) | Written::Unchanged | Written::Absent | Written::Taken => {}
        }
    }
    let stored = observation.run(&decision.name);
    let object = match &decision.new {
        Some(new) => {
            let run = NewRun {
                key: ObjectKey::new(&set.id.namespace, &decision.name),
                set_uid: set.id.uid.clone(),
                spec: RolloutRunSpec {
                    application_set: new.application_set.clone(),
                    ..RolloutRunSpec::default()
                },
            };
            match rollout_run::create_run(client, cache, &run).await? {
                Written::Done(object) => object,
                other => return Ok(other),
            }
        }
        None => match stored {
            Some(run) => run.object.clone(),
            None => return Ok(Written::Outdated),
        },
    };
    let status = marked(&decision.status, stored, observation, context);
    rollout_run::write_status(client, cache, &object, &status).await
}

/// Deletes the runs beyond the limit, but not the latest and the last complete one (ST-005).
async fn delete_old(observation: &mut RunObservation, context: &Context) {
    let limit =
        usize::try_from(context.settings.rollout_history_limit).unwrap_or(usize::MAX).max(1);
    let surplus = observation.runs.len().saturating_sub(limit);
    let is_complete =
        |run: &Run| matches!(run.status.phase, RunPhase::Complete | RunPhase::CompleteWithFailures);
    let last_complete = observation.runs.iter().rposition(is_complete);
    for (index, run) in observation.runs.iter().enumerate().take(surplus) {
        let is_needed = !run.status.phase.has_ended() || notify::is_owed(run, observation);
        if Some(index) == last_complete || is_needed {
            continue;
        }
        let (client, cache) = (&context.core.client, &*context.core.control_plane.runs);
        if let Err(error) = rollout_run::delete_run(client, cache, &run.object).await {
            tracing::debug!(
                run = run.object.name(),
                error = error_reason(&error),
                "cannot delete it"
            );
        }
    }
}

fn log(decision: &RunDecision) {
    if decision.new.is_some() {
        tracing::info!(run = decision.name, "the run begins");
    }
    if decision.is_urgent {
        let RolloutRunStatus { phase, progress, message, .. } = &decision.status;
        tracing::info!(run = decision.name, %phase, progress, result = message, "run");
    }
}
