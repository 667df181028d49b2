//! Which steps are open, and what the first incomplete step is waiting for.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::budget::Limit;
use super::entry::Phase;
use super::left_out::is_left_out;
use super::observed::Observed;
use super::run_input::Excuse;
use super::snapshot::{InFlight, RolloutSnapshot, Row, SlotCount};
use super::wait::{
    self, KindCount, RolloutWait, StepCapacity, Unfinished, WAITING_LIMIT, WaitKind,
};

/// The counts of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepState {
    /// Applications that the step selects.
    pub total: u64,
    /// Of these, those that it does not wait for: the complete ones, and those that it goes on
    /// without.
    pub complete: u64,
    /// Of the complete ones, those that it goes on without.
    pub left_out: u64,
    /// Pending, Progressing, or with a requested or running operation.
    pub in_flight: u64,
    /// How many may be in flight.
    pub limit: Limit,
    /// Whether its Applications may start.
    pub open: bool,
}

impl StepState {
    /// How many are Healthy for what is rolled out.
    pub fn done(&self) -> u64 {
        self.complete.saturating_sub(self.left_out)
    }
}

/// The state of all steps in one reconcile (AS-330).
#[derive(Debug)]
pub(super) struct Gate {
    steps: Vec<StepGate>,
    /// This step and all before it are open.
    last_open: usize,
}

#[derive(Clone, Copy, Debug)]
struct StepGate {
    total: u64,
    complete: u64,
    left_out: u64,
    limit: Limit,
}

/// The Applications that the rollout is waiting for.
pub(super) struct Waits {
    /// The first ones by name.
    pub first: Vec<RolloutWait>,
    /// How many there are.
    pub count: usize,
    /// Those that have been waited for too long, the first ones by name.
    pub stalled: Vec<RolloutWait>,
    /// All, by the kind of the wait.
    pub kinds: BTreeMap<WaitKind, KindCount>,
}

impl Gate {
    /// Computes which steps are open.
    pub fn new(snapshot: &RolloutSnapshot<'_>, rows: &[Row<'_>]) -> Self {
        let steps = snapshot.strategy.steps();
        let none = StepGate { total: 0, complete: 0, left_out: 0, limit: Limit::AtMost(0) };
        let mut gates = vec![none; steps.len()];
        let mut sizes = vec![0_u64; steps.len()];
        for row in rows {
            let Some(membership) = row.member.steps else { continue };
            let is_complete = wait::is_complete(row, snapshot.settings.require_live_health);
            for step in &membership.steps {
                let Some(gate) = gates.get_mut(*step) else { continue };
                gate.total += 1;
                gate.complete += u64::from(is_complete);
                gate.left_out += u64::from(is_complete && is_left_out(row));
            }
            // An Application of several steps counts in its first step only.
            if let Some(size) = membership.step().and_then(|step| sizes.get_mut(step)) {
                *size += 1;
            }
        }
        for ((gate, step), size) in gates.iter_mut().zip(steps).zip(sizes) {
            gate.limit = step.max_update.limit(size);
        }
        let is_incomplete = |gate: &StepGate| gate.complete < gate.total;
        let last_open = gates.iter().position(is_incomplete).unwrap_or(gates.len());
        Self { steps: gates, last_open }
    }

    /// Whether Applications of this step may start.
    pub fn is_open(&self, step: usize) -> bool {
        step <= self.last_open
    }

    /// Whether an Application may start as far as its step is concerned. What goes back may be of
    /// a step that has closed again.
    pub fn admits(&self, row: &Row<'_>) -> bool {
        let step = row.entry.as_ref().and_then(|entry| entry.step);
        row.run.back.is_some() || step.is_some_and(|step| self.is_open(step))
    }

    /// Whether an Application keeps its place until it is started again.
    pub fn keeps_place(&self, row: &Row<'_>) -> bool {
        row.keeps_place() && self.admits(row)
    }

    /// The places of one Application. In a step that is closed it cannot start, and an earlier one
    /// must not wait for it.
    pub fn places_of(&self, row: &Row<'_>) -> SlotCount {
        SlotCount {
            in_flight: u64::from(row.is_in_flight()),
            kept: u64::from(self.keeps_place(row)),
        }
    }

    /// Whether an Application is promoted, and its operation is not written.
    pub fn has_unwritten(&self, row: &Row<'_>) -> bool {
        let (Some(seen), Some(entry)) = (row.member.observed, &row.entry) else { return false };
        self.admits(row) && entry.phase == Phase::Pending && !entry.is_written(seen)
    }

    /// How many of the step may be in flight.
    pub fn limit(&self, step: usize) -> Limit {
        self.steps.get(step).map_or(Limit::AtMost(0), |gate| gate.limit)
    }

    /// The number of steps.
    pub fn step_count(&self) -> usize {
        self.steps.len()
    }

    /// The first step that is not complete.
    pub fn first_incomplete(&self) -> Option<usize> {
        (self.last_open < self.steps.len()).then_some(self.last_open)
    }

    /// Each step's count, given the places that are taken.
    pub fn step_states(&self, places: &[SlotCount]) -> Vec<StepState> {
        let state = |(index, gate): (usize, &StepGate)| StepState {
            total: gate.total,
            complete: gate.complete,
            left_out: gate.left_out,
            in_flight: places.get(index).map(SlotCount::all).unwrap_or_default(),
            limit: gate.limit,
            open: self.is_open(index),
        };
        self.steps.iter().enumerate().map(state).collect()
    }

    /// The Applications that keep the first incomplete step from being
    /// complete, with reasons; `opened` is when the step opened. While a run goes back, those that
    /// are not back, the last step first.
    pub fn waiting(
        &self,
        snapshot: &RolloutSnapshot<'_>,
        rows: &[Row<'_>],
        in_flight: &InFlight,
        opened: Timestamp,
        now: Timestamp,
    ) -> Waits {
        let mut waits =
            Waits { first: Vec::new(), count: 0, stalled: Vec::new(), kinds: BTreeMap::new() };
        let mut awaited: Vec<(usize, &Row<'_>)> = rows
            .iter()
            .filter(|row| row.run.is_due_back)
            .filter_map(|row| Some((row.member.step()?, row)))
            .collect();
        awaited.sort_by_key(|(step, _)| std::cmp::Reverse(*step));
        if awaited.is_empty() {
            let Some(step) = self.first_incomplete() else {
                left_out(snapshot, rows, &mut waits);
                return waits;
            };
            let in_step = |row: &&Row<'_>| {
                row.member.steps.is_some_and(|membership| membership.steps.contains(&step))
            };
            awaited = rows.iter().filter(in_step).map(|row| (step, row)).collect();
        }
        let limit = snapshot.settings.stalled_after();
        let timeout = snapshot.settings.rules.progressing_timeout;
        for (step, row) in awaited {
            let places = in_flight.per_step.get(step).copied().unwrap_or_default();
            let keeps_place = self.keeps_place(row);
            let moves = places.taken(keeps_place) > 0;
            let turn = StepCapacity {
                limit: self.limit(step),
                places,
                keeps_place,
                is_full: in_flight.is_full,
            };
            let live_health = snapshot.settings.require_live_health;
            let Some(unfinished) = Unfinished::of(row, turn, live_health) else { continue };
            waits.count += 1;
            let since = row.entry.as_ref().map(|entry| entry.since);
            wait::add(&mut waits.kinds, unfinished.kind, since);
            if waits.first.len() < WAITING_LIMIT {
                waits.first.push(unfinished.wait(step, timeout));
            }
            let Some(entry) = &row.entry else { continue };
            let run = &row.run;
            let since = entry.since.max(opened).max(run.retried_at.unwrap_or(entry.since));
            let is_started = match entry.phase {
                Phase::Waiting => false,
                // Its operation cannot be written.
                Phase::Pending => true,
                Phase::Progressing | Phase::Healthy => !run.retries(),
            };
            let has_turn = is_started || !moves;
            let is_stalled =
                has_turn && !unfinished.kind.is_wanted() && now.duration_since(since) >= limit;
            if is_stalled && waits.stalled.len() < WAITING_LIMIT {
                let wait = unfinished.wait(step, timeout);
                waits.stalled.push(RolloutWait { since: Some(since), ..wait });
            }
        }
        waits
    }
}

/// Adds the Applications that a complete rollout does not start, since a person skips them: one
/// that drifted, or was not Healthy when it was skipped, waits for the next run. Nothing waits for it, so it never stalls.
fn left_out(snapshot: &RolloutSnapshot<'_>, rows: &[Row<'_>], waits: &mut Waits) {
    let is_left_out = |row: &&Row<'_>| {
        let is_busy = row.member.observed.is_some_and(Observed::has_operation_in_flight);
        row.run.excuse == Some(Excuse::Skipped)
            && row.phase().is_some_and(|phase| phase != Phase::Healthy)
            && !is_busy
    };
    let timeout = snapshot.settings.rules.progressing_timeout;
    for row in rows.iter().filter(is_left_out) {
        let Some(step) = row.member.step() else { continue };
        let Some(unfinished) = Unfinished::of_skipped(row) else { continue };
        waits.count += 1;
        wait::add(&mut waits.kinds, unfinished.kind, row.entry.as_ref().map(|entry| entry.since));
        if waits.first.len() < WAITING_LIMIT {
            waits.first.push(unfinished.wait(step, timeout));
        }
    }
}
