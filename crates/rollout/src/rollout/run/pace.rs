//! Limits besides `maxUpdate` (ST-030): the ramp of a step, a limit for each value of a label,
//! and limits that sets share.

use std::collections::{BTreeMap, BTreeSet};

use crate::rollout::gate::Gate;
use crate::rollout::policy::Rules;
use crate::rollout::run_input::{Pool, RunInput};
use crate::rollout::snapshot::{RolloutSnapshot, Row, SlotCount};
use crate::rollout::wait_kind::WaitKind;
use wavegate_api::run::{RolloutRunStatus, RunStep};

/// How many may still be promoted in this reconcile.
#[derive(Clone, Debug, Default)]
pub struct RolloutPace {
    ramps: Vec<Option<Ramp>>,
    /// The batch of each step, to be stored.
    pub batches: Vec<Option<Batch>>,
    spreads: Vec<Spread>,
    pools: Vec<Pool>,
    /// The places in this set that are taken.
    places: SlotCount,
    /// The policies for whose places it waits, by name.
    waited: BTreeSet<String>,
    /// Whether one was promoted in this reconcile.
    has_promoted: bool,
    /// The name of this set, for messages.
    set: String,
}

/// The batch of a step.
#[derive(Clone, Debug)]
struct Ramp {
    size: u64,
    /// How many of it may still start.
    left: u64,
}

#[derive(Clone, Debug)]
struct Spread {
    label: String,
    policy: String,
    max: u64,
    places: BTreeMap<String, SlotCount>,
    /// The value of each row of the set, by name.
    values: BTreeMap<String, String>,
}

impl RolloutPace {
    /// The limits after what is in flight already.
    pub fn new(
        input: &RunInput<'_>,
        run: &RolloutRunStatus,
        snapshot: &RolloutSnapshot<'_>,
        gate: &Gate,
        rows: &[Row<'_>],
    ) -> Self {
        let rules = input.rules;
        if rules.ramp.is_none() && rules.spreads.is_empty() && input.pools.is_empty() {
            return Self::default();
        }
        let steps = snapshot.strategy.steps().len();
        let batches: Vec<Option<Batch>> =
            (0..steps).map(|step| batch(rules, run.steps.get(step), rows, step)).collect();
        let ramp = |(step, batch): (usize, &Option<Batch>)| {
            let batch = batch.as_ref()?;
            // One that is tried again was started before this batch.
            let is_running = |row: &&Row<'_>| is_running(row, step) && !gate.has_unwritten(row);
            let running = rows.iter().filter(is_running).count() as u64;
            let done = started(rows, step).saturating_sub(batch.before).max(running);
            Some(Ramp { size: batch.size, left: batch.size.saturating_sub(done) })
        };
        let ramps = batches.iter().enumerate().map(ramp).collect();
        let in_places: Vec<(&Row<'_>, SlotCount)> = rows
            .iter()
            .filter(|row| !gate.has_unwritten(row))
            .map(|row| (row, gate.places_of(row)))
            .filter(|(_, places)| *places != SlotCount::default())
            .collect();
        let spread = |(index, rule): (usize, &crate::rollout::policy::SpreadRule)| {
            let mut spread = Spread {
                label: rule.label.clone(),
                policy: rule.policy.clone(),
                max: rule.max,
                places: BTreeMap::new(),
                values: BTreeMap::new(),
            };
            for row in rows {
                let value = rules.value_of(row.member.name, index).to_owned();
                spread.values.insert(row.member.name.to_owned(), value);
            }
            for (row, places) in &in_places {
                let value = rules.value_of(row.member.name, index).to_owned();
                *spread.places.entry(value).or_default() += *places;
            }
            spread
        };
        let mut places = SlotCount::default();
        in_places.iter().for_each(|(_, of_row)| places += *of_row);
        Self {
            ramps,
            batches,
            spreads: rules.spreads.iter().enumerate().map(spread).collect(),
            pools: input.pools.to_vec(),
            places,
            waited: BTreeSet::new(),
            has_promoted: false,
            set: input.set.to_owned(),
        }
    }

    /// Why one more Application must not be promoted; `None` when it may. One that keeps its place
    /// takes none from the other sets, however long they have waited.
    pub fn denies(
        &mut self,
        application: &str,
        step: usize,
        keeps_place: bool,
    ) -> Option<(WaitKind, String)> {
        let reserved = |pool: &Pool| self.reserved(pool, keeps_place);
        let denied = self.exceeds(application, step, keeps_place, reserved);
        if denied.as_ref().is_some_and(|(kind, _)| *kind == WaitKind::MaxInFlight) {
            // Other sets cannot give the places that this one keeps for itself.
            let own = self.places.taken(keeps_place);
            let is_for_others = |max: u64| self.places.kept == 0 || own < max;
            let full = self.pools.iter().filter(|pool| {
                self.is_full(pool, keeps_place, reserved(pool)) && is_for_others(pool.max)
            });
            let waited: Vec<String> = full.map(|pool| pool.policy.clone()).collect();
            self.waited.extend(waited);
        }
        denied
    }

    /// Whether one that is promoted keeps its place until its operation is written. Another set
    /// that waits for longer does not get this place: the operation may be under way to the API
    /// server already, sent by a controller that was killed, and then both would be in flight.
    pub fn keeps(&self, application: &str, step: usize, keeps_place: bool) -> bool {
        self.exceeds(application, step, keeps_place, |_| 0).is_none()
    }

    /// Which limit is reached, when these places of other sets must stay free.
    fn exceeds(
        &self,
        application: &str,
        step: usize,
        keeps_place: bool,
        reserved: impl Fn(&Pool) -> u64,
    ) -> Option<(WaitKind, String)> {
        if let Some(Some(ramp)) = self.ramps.get(step)
            && ramp.left == 0
        {
            let message = format!("a batch of {} has to end first (ramp)", ramp.size);
            return Some((WaitKind::Pace, message));
        }
        for spread in &self.spreads {
            let value = spread.values.get(application).map_or("", String::as_str);
            let places = spread.places.get(value).copied().unwrap_or_default();
            if places.taken(keeps_place) >= spread.max {
                let what = match value {
                    "" => format!(" without label {}", spread.label),
                    value => format!(" of {}={value}", spread.label),
                };
                let shown = places.shown(keeps_place, spread.max, &what);
                let message = format!("{shown} (policy {})", spread.policy);
                return Some((WaitKind::Pace, message));
            }
        }
        for pool in &self.pools {
            if self.is_full(pool, keeps_place, reserved(pool)) {
                return Some((WaitKind::MaxInFlight, self.message(pool, keeps_place)));
            }
        }
        None
    }

    /// The policies that deny one, but for those places that this set keeps for itself; by name.
    pub fn waits_for(&self) -> Vec<String> {
        self.waited.iter().cloned().collect()
    }

    fn is_full(&self, pool: &Pool, keeps_place: bool, reserved: u64) -> bool {
        pool.elsewhere + self.places.taken(keeps_place) + reserved >= pool.max
    }

    fn message(&self, pool: &Pool, keeps_place: bool) -> String {
        let own = Some((&self.set, self.places.in_flight)).filter(|(_, count)| *count > 0);
        let others = pool.users.iter().take(3).map(|(set, count)| (set, *count));
        let users = own.into_iter().chain(others);
        let users: Vec<String> = users.map(|(set, count)| format!("{count} of {set}")).collect();
        let users = match users.as_slice() {
            [] => String::new(),
            users => format!(": {}", users.join(", ")),
        };
        let turn = match self.reserved(pool, keeps_place) {
            0 => String::new(),
            1 => "; it is the turn of another set".to_owned(),
            count => format!("; it is the turn of {count} other sets"),
        };
        let places =
            SlotCount { in_flight: pool.elsewhere + self.places.in_flight, kept: self.places.kept };
        let shown = places.shown(keeps_place, pool.max, "");
        format!("{shown} in all sets of policy {}{users}{turn}", pool.policy)
    }

    /// The places of other sets that must stay free for one that starts.
    fn reserved(&self, pool: &Pool, keeps_place: bool) -> u64 {
        match keeps_place {
            true => 0,
            false if self.has_promoted => pool.waiting,
            false => pool.reserved,
        }
    }

    /// Counts one that is promoted now: it is the turn of the sets that wait.
    pub fn promote(&mut self, application: &str, step: usize, keeps_place: bool) {
        self.take(application, step, keeps_place);
        self.has_promoted = true;
    }

    /// Counts one that is promoted, or stays so.
    pub fn take(&mut self, application: &str, step: usize, keeps_place: bool) {
        self.places.take(keeps_place);
        if let Some(Some(ramp)) = self.ramps.get_mut(step) {
            ramp.left = ramp.left.saturating_sub(1);
        }
        for spread in &mut self.spreads {
            let value = spread.values.get(application).cloned().unwrap_or_default();
            spread.places.entry(value).or_default().take(keeps_place);
        }
    }
}

/// How many of a step are started in the run, written or about to be.
fn started(rows: &[Row<'_>], step: usize) -> u64 {
    let is_started = |row: &&Row<'_>| row.member.step() == Some(step) && row.run.is_started;
    rows.iter().filter(is_started).count() as u64
}

fn failed(rows: &[Row<'_>], step: usize) -> u64 {
    let has_failed = |row: &&Row<'_>| row.member.step() == Some(step) && row.run.failure.is_some();
    rows.iter().filter(has_failed).count() as u64
}

/// Whether one of a step keeps its batch from ending. One that failed stays in flight as long as
/// no budget excuses it.
fn is_running(row: &Row<'_>, step: usize) -> bool {
    row.member.step() == Some(step) && row.is_in_flight() && row.run.failure.is_none()
}

/// The batch of a ramp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its size.
    pub size: u64,
    /// How many were started before it.
    pub before: u64,
    /// How many had failed before it.
    pub failed_before: u64,
}

/// The current batch of a step, after the end of the last one; `None` without a ramp.
fn batch(rules: &Rules, known: Option<&RunStep>, rows: &[Row<'_>], step: usize) -> Option<Batch> {
    let (start, factor) = rules.ramp?;
    let of = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
    let first = Batch { size: start, before: 0, failed_before: 0 };
    let batch = known.and_then(|known| {
        Some(Batch {
            size: of(known.batch)?,
            before: of(known.before_batch)?,
            failed_before: of(known.failed_before_batch)?,
        })
    });
    let batch = batch.unwrap_or(first);
    let (started, failed) = (started(rows, step), failed(rows, step));
    let is_full = started >= batch.before + batch.size;
    let has_ended = is_full && !rows.iter().any(|row| is_running(row, step));
    if !has_ended {
        return Some(batch);
    }
    let size = match failed > batch.failed_before {
        true => start,
        false => batch.size.saturating_mul(factor),
    };
    Some(Batch { size, before: started, failed_before: failed })
}
