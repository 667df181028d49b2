//! The progressive sync: which Applications may start now, and what the others
//! wait for.
//!
//! One reconcile, in this order (AS-305), on one snapshot:
//!
//! 1. each generated Application is assigned to steps by its labels
//!    ([`steps`]);
//! 2. the entry of each existing Application advances by what is observed of it
//!    ([`phase`]);
//! 3. steps open in order: a step is open when every Application of all earlier
//!    steps exists, is valid, and is Healthy *for what is being rolled out*
//!    ([`gate`]);
//! 4. in open steps, Waiting Applications are promoted to Pending, up to
//!    `maxUpdate` ([`budget`]);
//! 5. each Pending Application of an open step gets the operation of its
//!    promotion, unless it has it already.
//!
//! The entries are persisted before the operations are written. A promotion is
//! identified by the time of its entry, which the operation carries. So if a
//! crash happens between two writes, the next reconcile neither repeats nor
//! skips an operation.
//!
//! # What counts as in flight
//!
//! In flight, and so counted against `maxUpdate`, are Pending and Progressing
//! entries and all requested or running operations, no matter who requested
//! them. What else is counted, and what is not:
//!
//! - **It is tried again.** A failed Application keeps its place until it is started again, as
//!   long as its step is open: whatever it waits for, no other one starts
//!   beside it. Other sets do not wait for it.
//! - **A sync window denies the sync.** The Application is not promoted, and a
//!   promotion whose operation is not written yet is reverted. An operation
//!   that is written but has not started is withdrawn
//!   ([`RolloutPlan::withdrawals`]), and is counted until it is gone: otherwise
//!   it would start when the window opens, in addition to those promoted in its
//!   place. A started operation continues and is counted.
//! - **The step closes** before the operation is seen to start, because an
//!   earlier step has something new to roll out. The progressing timeout counts
//!   only while the step is open: the entry is promoted again when the step
//!   opens, and returns to Waiting if the step stays closed for longer than the
//!   timeout. A requested operation is not withdrawn (AS-333).
//! - **`maxUpdate` does not permit it any more**, because it was reduced or users synced
//!   others, and its operation is not written yet. It returns to Waiting.
//!
//! # What a person has synced
//!
//! An Application that a person has synced to other revisions than the target is
//! held until the next target, or until somebody syncs the target ([`manual_override`],
//! ST-065). It is Waiting, and is not promoted.
//!
//! # The size of the status
//!
//! Entries in flight are always listed in the status, whose size is bounded
//! ([`listed`]). So the number of Applications in flight is also limited by the
//! capacity of the status ([`RolloutSnapshot::capacity`]), whatever `maxUpdate`
//! allows. The reason is reported for the Applications that wait for it.
//!
//! Nothing here fails, waits, or reads a clock: `now` is a parameter. A
//! reconcile walks over the members once per stage, without look-ups by name.

pub mod budget;
pub mod counts;
mod cut;
pub mod entry;
pub mod failure_budget;
pub mod gate;
pub mod left_out;
pub mod listed;
pub mod manual_override;
pub mod observed;
pub mod phase;
pub mod policy;
pub mod policy_limits;
pub mod preview;
mod record;
pub mod report;
mod revision_skew;
pub mod run;
pub mod run_input;
pub mod snapshot;
mod start;
pub mod status;
pub mod steps;
#[cfg(test)]
mod tests;
mod transition;
pub mod unknown_fields;
pub mod wait;
mod wait_kind;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use self::counts::StepCounts;
use self::gate::Gate;
use self::left_out::LeftOut;
use self::phase::{Entry, EntryMark, Observed, Phase, Rules};
use self::run::pace::RolloutPace;
use self::run::{RunDecision, RunStepper};
use self::run_input::RowRun;
use self::snapshot::{Lag, Row};
use self::steps::{Labels, Membership, Problem, ProblemKind, StepStrategy};
use self::wait::RolloutWait;

pub use self::gate::StepState;
pub use self::snapshot::{Denied, Member, RolloutSettings, RolloutSnapshot};
pub use self::start::Start;
pub use self::transition::{EntryBefore, Transition};
pub use self::wait::WAITING_LIMIT;
use wavegate_api::time::stored_time;

/// A running rollout is re-evaluated after this time even without an event
/// (AS-390), so that a lost event cannot stop it.
pub const POLL: SignedDuration = SignedDuration::from_secs(30);

/// The decisions, and what is reported.
#[derive(Clone, Debug, PartialEq)]
pub struct RolloutPlan {
    /// The entries of all existing Applications, by name. [`listed`] decides
    /// which of them are persisted in the status.
    pub entries: Vec<Entry>,
    /// The syncs to start once the entries are persisted, by name.
    pub starts: Vec<Start>,
    /// Applications whose operation must be withdrawn because a sync window
    /// denies it, so that it does not start when the window opens; by name.
    pub withdrawals: Vec<String>,
    /// Applications that must be refreshed because another Application has seen
    /// a newer revision: in the order of steps, then by name.
    pub refreshes: Vec<String>,
    /// Phase transitions in this reconcile, by name.
    pub transitions: Vec<Transition>,
    /// Each step's count, in order.
    pub steps: Vec<StepState>,
    /// Counts for metrics.
    pub counts: StepCounts,
    /// The Applications that the open step is waiting for; by name, the first
    /// [`WAITING_LIMIT`].
    pub waiting: Vec<RolloutWait>,
    /// How many Applications the open step is waiting for.
    pub waiting_count: usize,
    /// Applications that have been waited for longer than the timeout, and
    /// since when (AS-611); by name, the first [`WAITING_LIMIT`]. An
    /// Application that was not started is not stalled while others of its step
    /// are in flight, and no wait begins before the step opened.
    pub stalled: Vec<RolloutWait>,
    /// The first incomplete step, counted from 0; `None` when the rollout is
    /// complete.
    pub open_step: Option<usize>,
    /// What the steps are complete without.
    pub left_out: LeftOut,
    /// When that step opened.
    pub opened_at: Option<Timestamp>,
    /// When to re-evaluate without an event; `None` when the rollout is
    /// complete.
    pub wake_at: Option<Timestamp>,
    /// What is to be recorded of runs.
    pub run: Option<RunDecision>,
    /// How many are in flight in all steps, for limits that sets share.
    pub in_flight: u64,
    /// The policies whose limit it waits for, by name.
    pub waits_for_pools: Vec<String>,
}

/// Decides one reconcile of a RollingSync.
///
/// Call it only for a strategy with steps; without steps it plans nothing and
/// drops all entries (AS-303).
pub fn step(snapshot: &RolloutSnapshot<'_>, now: Timestamp) -> RolloutPlan {
    let snapshot = &snapshot.with_deadline();
    let mut rows = advance_all(snapshot, now);
    let mut stepper = RunStepper::begin(snapshot, &mut rows, now);
    let withdrawals = start::withdrawals(snapshot);
    start::revert_denied(&mut rows, now);
    let gate = time_out(snapshot, &mut rows, now);
    if let Some(stepper) = &mut stepper {
        stepper.hold(snapshot, &gate, &mut rows, now);
    }
    start::hold_going(&mut rows);
    start::revert_held(&mut rows, now);
    start::describe_resting(&mut rows);
    // Now it is known what goes back.
    start::revert_denied(&mut rows, now);
    start::close_and_reopen(snapshot, &gate, &mut rows, now);
    let promotes_from = stepper.as_ref().and_then(RunStepper::promotes_from);
    let mut unlimited = RolloutPace::default();
    let pace = stepper.as_mut().map_or(&mut unlimited, RunStepper::pace);
    let places = start::revert_excess(&gate, pace, &mut rows, now);
    let from = promotes_from.map_or(now, |from| from.max(now));
    let in_flight = start::promote(snapshot, &gate, pace, &mut rows, places, from);
    let waits_for_pools = pace.waits_for();
    let starts = start::starts(snapshot, &gate, stepper.as_ref(), &rows);

    let open_step = gate.first_incomplete();
    let opened_at = open_step.map(|step| match snapshot.opened {
        Some((opened, at)) if opened == step => at,
        Some(_) | None => stored_time(now),
    });
    let waits = gate.waiting(snapshot, &rows, &in_flight, opened_at.unwrap_or(now), now);
    let steps = gate.step_states(&in_flight.per_step);
    let facts = run::Facts {
        rows: &rows,
        steps: &steps,
        open_step,
        waiting: &waits.first,
        kinds: &waits.kinds,
    };
    let is_live = stepper.as_ref().is_some_and(RunStepper::is_live);
    let soon = stepper.as_ref().filter(|stepper| stepper.is_followed(&rows)).and_then(|_| {
        // Whole seconds are what tells two runs apart.
        now.checked_add(SignedDuration::from_secs(1)).ok()
    });
    let timer = stepper.as_ref().and_then(|stepper| stepper.next_timer(&rows, now));
    let run = stepper.and_then(|stepper| stepper.finish(&facts, now));
    RolloutPlan {
        starts,
        withdrawals,
        refreshes: refreshes(&rows),
        transitions: transition::transitions(&rows),
        in_flight: rows.iter().filter(|row| row.is_in_flight()).count() as u64,
        waits_for_pools,
        counts: StepCounts {
            waits: waits.kinds,
            ..StepCounts::of(rows.iter().filter_map(|row| row.entry.as_ref()))
        },
        steps,
        waiting: waits.first,
        waiting_count: waits.count,
        stalled: waits.stalled,
        left_out: LeftOut::of(&rows),
        open_step,
        opened_at,
        wake_at: wake_at(snapshot, &rows, &gate, is_live, now)
            .into_iter()
            .chain(soon)
            .chain(timer)
            .min(),
        run,
        entries: match snapshot.strategy.steps() {
            [] => Vec::new(),
            _ => rows.into_iter().filter_map(|row| row.entry).collect(),
        },
    }
}

/// Earlier steps first, since the rollout waits for them.
fn refreshes(rows: &[Row<'_>]) -> Vec<String> {
    let asks = |row: &&Row<'_>| row.behind.as_ref().is_some_and(|lag| lag.refresh);
    let mut behind: Vec<&Row<'_>> = rows.iter().filter(asks).collect();
    // The sort is stable, so by name within a step; no step is last.
    behind.sort_by_key(|row| row.member.step().unwrap_or(usize::MAX));
    behind.into_iter().map(|row| row.member.name.to_owned()).collect()
}

fn advance_all<'a>(snapshot: &RolloutSnapshot<'a>, now: Timestamp) -> Vec<Row<'a>> {
    // Time counts only while the step is open, which is not known yet.
    let rules = Rules { progressing_timeout: None, ..snapshot.settings.rules };
    let behind = revision_skew::behind(snapshot.members);
    let row = |(member, behind): (&'a Member<'a>, Option<Lag>)| {
        let advance = |seen: &Observed| {
            phase::advance(member.name, member.entry, member.step(), seen, &rules, now)
        };
        Row {
            member,
            entry: member.observed.map(advance),
            behind,
            is_beyond_capacity: false,
            run: RowRun::default(),
        }
    };
    let mut rows: Vec<Row<'a>> = snapshot.members.iter().zip(behind).map(row).collect();
    leave_waiting_beyond(snapshot.capacity, &mut rows, now);
    rows
}

/// Keeps Applications Waiting that are Synced but do not fit in the status as
/// Progressing. They count as in flight all the same: it may be the rollout that started
/// them, and their entries that were lost. They become Healthy as soon as they are
/// observed to be Healthy.
fn leave_waiting_beyond(capacity: usize, rows: &mut [Row<'_>], now: Timestamp) {
    let is_new = |row: &Row<'_>| {
        let was = row.member.entry.map(|entry| entry.phase);
        let mark = row.entry.as_ref().and_then(|entry| entry.mark);
        mark == Some(EntryMark::FoundSynced) && was != Some(Phase::Progressing)
    };
    let mut bytes: usize = rows
        .iter()
        .filter(|row| !is_new(row))
        .filter_map(|row| Some(listed::reserved(row.member, row.entry.as_ref()?)))
        .sum();
    for row in rows.iter_mut().filter(|row| is_new(row)) {
        let Some(entry) = &mut row.entry else { continue };
        let takes = listed::in_flight(entry);
        if bytes + takes <= capacity {
            bytes += takes;
            continue;
        }
        let since = row.member.entry.map_or(stored_time(now), |entry| entry.since);
        entry.leave_waiting(since);
        row.is_beyond_capacity = true;
    }
}

/// Moves Applications on that have been Pending for too long in an open step;
/// returns which steps are open then.
fn time_out(snapshot: &RolloutSnapshot<'_>, rows: &mut [Row<'_>], now: Timestamp) -> Gate {
    loop {
        let gate = Gate::new(snapshot, rows);
        let mut changed = false;
        for row in rows.iter_mut() {
            let Some(entry) = row.entry.as_mut() else { continue };
            if entry.phase != Phase::Pending || !entry.step.is_some_and(|step| gate.is_open(step)) {
                continue;
            }
            // Nobody was asked for anything yet, for example since the process ended before.
            if row.member.observed.is_some_and(|seen| !entry.is_written(seen)) {
                entry.promote_again(&snapshot.settings.rules, now);
            } else {
                changed |= entry.time_out(&snapshot.settings.rules, now);
            }
        }
        // Each iteration completes an Application, so the loop ends.
        if !changed {
            return gate;
        }
    }
}

/// All configuration errors for these Applications, most serious first: those
/// of [`StepStrategy::read`], and those that depend on the Applications, whose
/// labels are asked for only when a step selects none of them.
pub fn all_problems(
    read: &[Problem],
    strategy: &StepStrategy,
    memberships: &BTreeMap<String, Membership>,
    labels: &dyn Fn() -> Vec<Labels>,
) -> Vec<Problem> {
    let unknown = read.iter().filter(|problem| problem.kind == ProblemKind::UnknownStrategy);
    let mut all: Vec<Problem> = unknown.cloned().collect();
    all.extend(strategy.step_problems());
    all.extend(steps::problems_of_memberships(strategy.steps(), memberships, labels));
    all.sort();
    all
}

fn wake_at(
    snapshot: &RolloutSnapshot<'_>,
    rows: &[Row<'_>],
    gate: &Gate,
    is_live: bool,
    now: Timestamp,
) -> Option<Timestamp> {
    let timeout = snapshot.settings.rules.progressing_timeout;
    let deadlines = rows.iter().filter_map(|row| match (row.phase(), timeout) {
        (Some(Phase::Pending), Some(timeout)) => {
            row.entry.as_ref()?.since.checked_add(timeout).ok()
        }
        _ => None,
    });
    let under_way = rows.iter().any(|row| row.phase().is_some_and(|phase| phase != Phase::Healthy));
    let poll = (under_way || is_live || gate.first_incomplete().is_some())
        .then(|| now.checked_add(POLL).ok())
        .flatten();
    let windows = rows.iter().filter_map(|row| {
        let denied = row.denied()?;
        let is_forced = row.run.retries() || row.run.back.is_some();
        let is_waiting = row.phase() == Some(Phase::Waiting) || is_forced;
        denied.until.filter(|_| is_waiting && gate.admits(row))
    });
    let holds = rows.iter().filter_map(|row| row.run.hold.as_ref()?.until);
    deadlines.chain(poll).chain(windows).chain(holds).min()
}
