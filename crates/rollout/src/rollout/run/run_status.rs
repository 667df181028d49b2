//! What a run records of its steps, failures and waits (ST-005).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::pace::Batch;
use super::{failures, health_before};
use crate::rollout::cut::cut;
use crate::rollout::gate::StepState;
use crate::rollout::observed::Deployed;
use crate::rollout::phase::Phase;
use crate::rollout::run_input::{Excuse, RunInput};
use crate::rollout::snapshot::Row;
use crate::rollout::wait::{KindCount, RolloutWait};
use crate::rollout::wait_kind::WaitKind;
use wavegate_api::Time;
use wavegate_api::run::{RevisionCount, RolloutRunStatus, RunPhase, RunStep, RunWait};
use wavegate_api::time::stored_time;

/// The most names in a list of a status.
pub(super) const NAMES: usize = 50;
/// The most revisions in a list of the status of a run.
pub const REVISIONS: usize = 10;

/// What a run records of a reconcile.
#[derive(Debug)]
pub(in crate::rollout) struct Facts<'a, 'r> {
    pub rows: &'a [Row<'r>],
    pub steps: &'a [StepState],
    pub open_step: Option<usize>,
    pub waiting: &'a [RolloutWait],
    /// All waits, by kind.
    pub kinds: &'a BTreeMap<WaitKind, KindCount>,
}

/// The status of a run that begins.
pub(super) fn beginning(rows: &[Row<'_>], now: Timestamp) -> RolloutRunStatus {
    let from = revisions(rows.iter().filter_map(|row| match &row.member.observed?.deployed {
        Deployed::At(_, revisions) => Some(revisions.as_slice()),
        Deployed::Never | Deployed::NotKept => None,
    }));
    RolloutRunStatus {
        started_at: Some(Time(stored_time(now))),
        from,
        health_before: health_before::health_text(rows),
        ..RolloutRunStatus::default()
    }
}

/// Describes a run after a reconcile, but for its phase and message. `before` is its status as it
/// is stored.
pub(super) fn describe(
    status: &mut RolloutRunStatus,
    before: &RolloutRunStatus,
    input: &RunInput<'_>,
    batches: &[Option<Batch>],
    facts: &Facts<'_, '_>,
    now: Timestamp,
) {
    let rows = facts.rows;
    let count = |is: &dyn Fn(&&Row<'_>) -> bool| {
        i64::try_from(rows.iter().filter(is).count()).unwrap_or(i64::MAX)
    };
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let known = std::mem::take(&mut status.steps);
    let at = Some(Time(stored_time(now)));
    // Its Applications leave the targets of the run; what was completed before stays recorded.
    let goes_back = status.phase == RunPhase::RollingBack;
    status.steps = facts
        .steps
        .iter()
        .enumerate()
        .map(|(index, step)| {
            let known = known.get(index);
            let is_reached = step.open || known.is_some_and(|step| step.opened_at.is_some());
            let is_complete = step.open && step.complete >= step.total;
            let batch = batches.get(index).copied().flatten();
            let of_gates: BTreeSet<&str> = rows
                .iter()
                .filter(|row| row.member.step() == Some(index))
                .flat_map(|row| input.rules.gates_of(row.member.name))
                .map(|gate| input.rules.gates[*gate].name.as_str())
                .collect();
            let failed =
                |row: &&Row<'_>| row.member.step() == Some(index) && row.run.failure.is_some();
            let first = |known: Option<&Time>| known.cloned().or_else(|| at.clone());
            let completed_at = known.and_then(|step| step.completed_at.as_ref());
            RunStep {
                opened_at: is_reached
                    .then(|| first(known.and_then(|step| step.opened_at.as_ref())))
                    .flatten(),
                completed_at: match goes_back {
                    true => completed_at.cloned(),
                    false => is_complete.then(|| first(completed_at)).flatten(),
                },
                batch: batch.map(|batch| number(batch.size)),
                before_batch: batch.map(|batch| number(batch.before)),
                failed_before_batch: batch.map(|batch| number(batch.failed_before)),
                gates: of_gates.into_iter().map(str::to_owned).collect(),
                total: number(step.total),
                done: number(step.done()),
                in_flight: number(step.in_flight),
                failed: count(&failed),
                ..RunStep::default()
            }
        })
        .collect();
    status.total = status.steps.iter().map(|step| step.total).sum();
    status.done = status.steps.iter().map(|step| step.done).sum();
    status.failed = count(&|row| row.run.failure.is_some());
    status.progress = format!("{}/{}", status.done, status.total);
    status.step = facts.open_step.and_then(|step| i64::try_from(step + 1).ok());
    status.to = revisions(rows.iter().filter_map(|row| {
        let entry = row.entry.as_ref()?;
        let is_of_run = row.run.is_started || entry.phase != Phase::Healthy;
        (is_of_run && row.member.step().is_some()).then_some(entry.target_revisions.as_slice())
    }))
    .into_iter()
    .filter(|found| !found.revision.is_empty())
    .collect();
    if status.to.is_empty() {
        status.to.clone_from(&before.to);
    }
    // What goes back is well again, and the run failed by it all the same.
    if !goes_back || before.failures.is_empty() {
        status.failures = failures::by_signature(rows);
    }
    let excused = |excuse: Excuse| -> Vec<String> {
        let is = |row: &&Row<'_>| row.run.excuse == Some(excuse);
        rows.iter().filter(is).map(|row| row.member.name.to_owned()).take(NAMES).collect()
    };
    status.skipped = excused(Excuse::Skipped);
    if goes_back {
        // A skip keeps nothing from its way back.
        status.skipped.retain(|name| before.skipped.contains(name));
    }
    status.unhealthy_before = excused(Excuse::UnhealthyBefore);
    status.waiting_for = facts.waiting.iter().map(run_wait).collect();
}

/// Whether nothing differs but the words of waits for a limit that other sets share, and the
/// estimate.
pub(super) fn differs_in_shares(old: &RolloutRunStatus, new: &RolloutRunStatus) -> bool {
    let is_of_shares = |wait: &RunWait| wait.kind == WaitKind::MaxInFlight.name();
    let same = |(old, new): (&RunWait, &RunWait)| {
        old == new
            || is_of_shares(old) && RunWait { message: old.message.clone(), ..new.clone() } == *old
    };
    let (before, after) = (&old.waiting_for, &new.waiting_for);
    // The message is that of the first one.
    before.first().is_some_and(is_of_shares)
        && before.len() == after.len()
        && before.iter().zip(after).all(same)
        && RolloutRunStatus {
            message: new.message.clone(),
            waiting_for: after.clone(),
            estimate: new.estimate.clone(),
            ..old.clone()
        } == *new
}

fn run_wait(wait: &RolloutWait) -> RunWait {
    RunWait {
        application: wait.application.clone(),
        kind: wait.kind.name().to_owned(),
        resource: wait.resource.clone().unwrap_or_default(),
        message: cut(&wait.message),
        ..RunWait::default()
    }
}

/// Counts revisions, the most frequent ones first.
fn revisions<'a>(all: impl Iterator<Item = &'a [String]>) -> Vec<RevisionCount> {
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for revisions in all {
        *counts.entry(revisions.join(",")).or_default() += 1;
    }
    let mut counts: Vec<RevisionCount> = counts
        .into_iter()
        .map(|(revision, applications)| RevisionCount {
            revision,
            applications,
            ..RevisionCount::default()
        })
        .collect();
    counts.sort_by_key(|count| std::cmp::Reverse(count.applications));
    counts.truncate(REVISIONS);
    counts
}
