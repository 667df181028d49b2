//! The progressive sync: which Applications may start now, and what everybody
//! else waits for.
//!
//! One pass, in this order (AS-305), all on one snapshot:
//!
//! 1. each generated Application is put into its steps by its labels
//!    ([`steps`]);
//! 2. each existing Application's entry is moved forward by what is observed
//!    of it ([`phase`]);
//! 3. steps open one after another: a step is open when every Application of
//!    every step before it is there, valid, and Healthy *for what is being
//!    rolled out* ([`gate`]);
//! 4. in open steps, Waiting Applications are promoted to Pending while
//!    `maxUpdate` has room ([`budget`]);
//! 5. each Pending Application of an open step that does not carry the
//!    operation of this promotion yet gets it.
//!
//! The plan's entries are persisted before its operations are written. A
//! promotion is identified by the entry's time, which the operation carries;
//! so whichever write a crash falls between, the next pass neither repeats an
//! operation nor leaves one out.
//!
//! # Who holds a place
//!
//! A place of `maxUpdate` is held by what is at work or will be without being
//! asked again: by a Pending or Progressing entry, and by any operation that is
//! requested or under way, whoever asked for it. What does not run and cannot
//! run holds none, and is asked again later, when it counts again:
//!
//! - **A sync window denies it.** It is not promoted, and a promotion whose
//!   operation is not written yet is taken back. An operation that is written
//!   and has not begun is withdrawn ([`RolloutPlan::withdrawals`]), and holds its place
//!   until it is gone: else it would begin by itself when the window opens, on
//!   top of those that took its place. One that has begun goes on, and keeps
//!   its place.
//! - **Its step closes** before its operation is seen to start: an earlier step
//!   has something new to roll out. The progressing timeout counts while a step
//!   is open only: the entry is promoted anew when the step opens again, and
//!   goes back to Waiting when that takes longer than the timeout. An operation
//!   that is requested already is left to run (AS-333).
//!
//! Nothing here fails, waits, or looks at a clock: `now` is a parameter.

pub mod budget;
pub mod gate;
pub mod phase;
pub mod preview;
pub mod status;
pub mod steps;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use self::gate::Gate;
use self::phase::{Entry, Observed, Phase, Rules};
use self::steps::{Labels, Membership, Problem, ProblemKind, Step, Strategy};

/// While a rollout is under way it is looked at again after this time even if
/// no event arrives (AS-390), so that a lost event cannot stop it.
pub const POLL: SignedDuration = SignedDuration::from_secs(30);

/// What a rollout needs to know of one generated Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Its generated labels; live labels do not count (AS-310).
    pub labels: Labels,
    /// Why it cannot be written, when validation refused it (AS-180). Its step
    /// stays incomplete (AS-182).
    pub invalid: Option<String>,
    /// Why no sync of it may start now, when sync windows deny it.
    pub denied: Option<Denied>,
}

/// A sync window does not let an Application be synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// Which window, and until when, for people.
    pub reason: String,
    /// When to look again, if time changes anything.
    pub until: Option<Timestamp>,
}

/// Everything one pass may know.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The strategy and its steps.
    pub strategy: &'a Strategy,
    /// The generated Applications by name.
    pub generated: &'a BTreeMap<String, Generated>,
    /// The existing Applications that the set owns, by name.
    pub current: &'a BTreeMap<String, Observed>,
    /// The entries of the last pass, as persisted, by Application name.
    pub entries: &'a BTreeMap<String, Entry>,
    /// How it is set up.
    pub settings: Settings,
}

/// How rollouts are set up, by flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The state machine's settings.
    pub rules: Rules,
    /// Whether a step also needs its Applications to be Healthy right now,
    /// not only to have become so (AS-331).
    pub require_live_health: bool,
    /// Whether an operation names the revision it was decided on (AS-365), so
    /// that a commit in the meantime cannot be deployed ahead of its step.
    pub pin_revisions: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rules: Rules {
                progressing_timeout: Some(SignedDuration::from_secs(300)),
                capture_drift: true,
            },
            require_live_health: false,
            pin_revisions: true,
        }
    }
}

/// What to do, and what to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutPlan {
    /// All entries to persist, by Application name.
    pub entries: Vec<Entry>,
    /// The syncs to start once the entries are persisted, by name.
    pub starts: Vec<Start>,
    /// Applications whose operation a sync window keeps from beginning: it is to
    /// be withdrawn, so that it does not begin by itself; by name.
    pub withdrawals: Vec<String>,
    /// Applications whose comparison is older than a revision that was seen
    /// elsewhere, to be compared again: in the order of steps, then by name.
    pub refreshes: Vec<String>,
    /// What changed in this pass, by name.
    pub transitions: Vec<Transition>,
    /// Each step's count, in order.
    pub steps: Vec<StepState>,
    /// Who waits in the open step, for what, until when; by name.
    pub waiting: Vec<Waiting>,
    /// The first step that is not complete, counted from 0; `None` when the
    /// rollout is.
    pub open_step: Option<usize>,
    /// Mistakes in the configuration, most serious first.
    pub problems: Vec<Problem>,
    /// When to look again if nothing happens; `None` when nothing is under way.
    pub wake_at: Option<Timestamp>,
}

impl RolloutPlan {
    /// Who waits for something to happen to itself, and since when, given when
    /// the open step was opened (AS-611). An Application whose turn has not
    /// come is not stuck while others of its step are at work, and nobody
    /// waited for it before that step was open.
    pub fn stuck(&self, opened: Timestamp) -> Vec<(&Waiting, Timestamp)> {
        let has_turn = |wait: &Waiting| {
            let entry = self.entries.iter().find(|entry| entry.application == wait.application);
            entry.is_some_and(|entry| entry.phase != Phase::Waiting)
        };
        let moves =
            |wait: &Waiting| self.steps.get(wait.step).is_some_and(|step| step.in_flight > 0);
        let stuck = self.waiting.iter().filter(|wait| has_turn(wait) || !moves(wait));
        stuck.filter_map(|wait| Some((wait, wait.since?.max(opened)))).collect()
    }
}

/// One sync to start: an `operation` to write (AS-360).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The Application.
    pub application: String,
    /// What identifies the promotion; goes into the operation (AS-361).
    pub promotion: Timestamp,
    /// The revisions to sync, one per source; empty leaves it to the
    /// application controller.
    pub revisions: Vec<String>,
    /// The step, counted from 0.
    pub step: usize,
}

/// An entry that changed its phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The Application.
    pub application: String,
    /// Its step, counted from 0.
    pub step: Option<usize>,
    /// The phase before; `None` for a new entry.
    pub from: Option<Phase>,
    /// The phase after.
    pub to: Phase,
    /// The entry's message.
    pub message: String,
    /// Whether it is the progressing timeout's doing (AS-612).
    pub timed_out: bool,
}

/// The count of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepState {
    /// Applications that the step selects.
    pub total: u64,
    /// Of these, complete.
    pub complete: u64,
    /// Pending, Progressing, or with an operation under way.
    pub in_flight: u64,
    /// How many may be in flight.
    pub limit: budget::Limit,
    /// Whether its Applications may start.
    pub open: bool,
}

/// Somebody waits: who, for what, since when, and until when at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The Application.
    pub application: String,
    /// The step, counted from 0.
    pub step: usize,
    /// What for, naming the resource where one is known.
    pub reason: String,
    /// Since when, where known.
    pub since: Option<Timestamp>,
    /// When the wait ends by itself, if it does.
    pub until: Option<Timestamp>,
}

/// Decides one pass of a RollingSync.
///
/// Call it only for a strategy with steps; with none it plans nothing and
/// drops all entries (AS-303).
pub fn step(snapshot: &Snapshot<'_>, now: Timestamp) -> RolloutPlan {
    let steps = snapshot.strategy.steps();
    let labels = snapshot.generated.iter().map(|(name, app)| (name.as_str(), &app.labels));
    let memberships = steps::memberships(steps, labels);

    let mut entries = advance_all(snapshot, &memberships, now);
    let behind = gate::behind(snapshot.current, snapshot.entries);
    let withdrawals = withdrawals(snapshot);
    put_back_denied(snapshot, &mut entries, now);
    let gate = time_out(snapshot, &memberships, &behind, &mut entries, now);
    close_and_reopen(snapshot, &gate, &mut entries, now);
    let in_flight = promote(snapshot, &gate, &behind, &mut entries, now);
    let starts = starts(snapshot, &gate, &entries);
    let waiting = gate.waiting(snapshot, &entries, &in_flight);
    let transitions = transitions(snapshot.entries, &entries);
    let problems = problems(snapshot.strategy, &memberships);
    let refreshes = refreshes(behind, &memberships);
    let wake_at = wake_at(snapshot, &entries, &gate, now);

    RolloutPlan {
        starts,
        withdrawals,
        refreshes,
        transitions,
        steps: gate.step_states(&in_flight),
        waiting,
        open_step: gate.first_incomplete(),
        problems,
        wake_at,
        entries: if steps.is_empty() { Vec::new() } else { entries.into_values().collect() },
    }
}

/// Earlier steps first: they are the ones that are waited for.
fn refreshes(behind: gate::Behind, memberships: &BTreeMap<String, Membership>) -> Vec<String> {
    let mut names: Vec<String> =
        behind.into_iter().filter_map(|(name, lag)| lag.refresh.then_some(name)).collect();
    let step = |name: &String| memberships.get(name).and_then(Membership::step);
    // Stable, so by name within a step; none comes last.
    names.sort_by_key(|name| step(name).unwrap_or(usize::MAX));
    names
}

fn advance_all(
    snapshot: &Snapshot<'_>,
    memberships: &BTreeMap<String, Membership>,
    now: Timestamp,
) -> BTreeMap<String, Entry> {
    let advance = |(name, seen): (&String, &Observed)| {
        let step = memberships.get(name).and_then(Membership::step);
        let stored = snapshot.entries.get(name);
        // The time runs while the step is open, which is not known yet.
        let rules = Rules { progressing_timeout: None, ..snapshot.settings.rules };
        let entry = phase::advance(name, stored, step, seen, &rules, now);
        (name.clone(), entry)
    };
    snapshot.current.iter().map(advance).collect()
}

/// Moves on who has been Pending for too long in a step that is open; returns
/// which steps are open then.
fn time_out<'a>(
    snapshot: &Snapshot<'a>,
    memberships: &BTreeMap<String, Membership>,
    behind: &gate::Behind,
    entries: &mut BTreeMap<String, Entry>,
    now: Timestamp,
) -> Gate<'a> {
    loop {
        let gate = Gate::new(snapshot, memberships, entries, behind);
        let mut changed = false;
        for entry in entries.values_mut() {
            if entry.step.is_some_and(|step| gate.is_open(step)) {
                changed |= entry.time_out(&snapshot.settings.rules, now);
            }
        }
        // Each turn has completed something, so this ends.
        if !changed {
            return gate;
        }
    }
}

/// Puts back to Waiting who was promoted, has not begun, and is denied.
fn put_back_denied(snapshot: &Snapshot<'_>, entries: &mut BTreeMap<String, Entry>, now: Timestamp) {
    for (name, entry) in entries.iter_mut().filter(|(_, entry)| entry.phase.is_in_flight()) {
        let Some(seen) = snapshot.current.get(name) else { continue };
        let is_written = seen.has_operation_in_flight() || has_promotion(seen, entry.since);
        let is_idle = seen.has_idle_promotion() || entry.phase == Phase::Pending && !is_written;
        if is_idle && denied(snapshot, name).is_some() {
            entry.deny(now);
        }
    }
}

/// Stops the time of who was promoted, has not begun, and whose step is not
/// open any more; has those promoted anew whose step opens again.
fn close_and_reopen(
    snapshot: &Snapshot<'_>,
    gate: &Gate<'_>,
    entries: &mut BTreeMap<String, Entry>,
    now: Timestamp,
) {
    for entry in entries.values_mut().filter(|entry| entry.phase == Phase::Pending) {
        if entry.step.is_some_and(|step| gate.is_open(step)) {
            entry.reopen();
        } else {
            entry.close(&snapshot.settings.rules, now);
        }
    }
}

/// Whose operation is to be withdrawn: whatever the entry says, which may be
/// that of a pass that did not come to it.
fn withdrawals(snapshot: &Snapshot<'_>) -> Vec<String> {
    let is_denied = |(name, seen): &(&String, &Observed)| {
        seen.has_idle_promotion() && denied(snapshot, name).is_some()
    };
    snapshot.current.iter().filter(is_denied).map(|(name, _)| name.clone()).collect()
}

fn denied<'a>(snapshot: &Snapshot<'a>, name: &str) -> Option<&'a Denied> {
    snapshot.generated.get(name)?.denied.as_ref()
}

/// Promotes Waiting entries of open steps in name order while there is room
/// (AS-341). Returns how many are in flight per step, promotions included.
fn promote(
    snapshot: &Snapshot<'_>,
    gate: &Gate<'_>,
    behind: &gate::Behind,
    entries: &mut BTreeMap<String, Entry>,
    now: Timestamp,
) -> Vec<u64> {
    let mut in_flight = vec![0; gate.step_count()];
    for (name, entry) in entries.iter() {
        let Some(count) = entry.step.and_then(|step| in_flight.get_mut(step)) else { continue };
        // A sync that somebody else started takes a place too: the ceiling is
        // on what runs, whoever asked for it.
        let runs = snapshot.current.get(name).is_some_and(Observed::has_operation_in_flight);
        if entry.phase.is_in_flight() || runs {
            *count += 1;
        }
    }
    for (name, entry) in entries.iter_mut() {
        let Some(step) = entry.step.filter(|step| gate.is_open(*step)) else { continue };
        let seen = snapshot.current.get(name);
        if seen.is_some_and(|seen| entry.waits_for_its_request(seen)) && gate.is_valid(name) {
            // The place is held by the operation that was requested before.
            entry.promote(promotion_time(snapshot.entries.get(name), seen, now));
            continue;
        }
        let ready = snapshot.current.get(name).is_some_and(Observed::is_ready_to_start)
            && !behind.contains_key(name)
            && gate.is_valid(name)
            && denied(snapshot, name).is_none();
        if entry.phase != Phase::Waiting || !ready || !gate.limit(step).has_room(in_flight[step]) {
            continue;
        }
        in_flight[step] += 1;
        entry.promote(promotion_time(snapshot.entries.get(name), seen, now));
    }
    in_flight
}

/// A promotion's time is its identity, so it is later than any stored time of
/// the entry and than any promotion that the Application still tells of: the
/// entry may have been lost, and the clock may be another one. It may be ahead
/// of the clock by that.
fn promotion_time(stored: Option<&Entry>, seen: Option<&Observed>, now: Timestamp) -> Timestamp {
    let told = seen.into_iter().flat_map(promotions);
    let before = stored.map(|entry| entry.since).into_iter().chain(told);
    let after = before
        .filter_map(|time| time.checked_add(SignedDuration::from_secs(1)).ok())
        .map(phase::whole_seconds);
    after.chain([phase::whole_seconds(now)]).max().unwrap_or(now)
}

/// The operations still to be written: for Pending entries of open steps whose
/// Application does not carry this promotion's operation (AS-361), and carries
/// no other that is under way.
fn starts(
    snapshot: &Snapshot<'_>,
    gate: &Gate<'_>,
    entries: &BTreeMap<String, Entry>,
) -> Vec<Start> {
    let mut starts = Vec::new();
    for (name, entry) in entries {
        let Some(step) = entry.step.filter(|step| gate.is_open(*step)) else { continue };
        let Some(seen) = snapshot.current.get(name) else { continue };
        if entry.phase != Phase::Pending
            || seen.has_operation_in_flight()
            || has_promotion(seen, entry.since)
            || !gate.is_valid(name)
        {
            continue;
        }
        // What a comparison of another spec, or a failed one, still names is not
        // what this spec resolves to.
        let pinned = snapshot.settings.pin_revisions && seen.knows_its_revisions();
        starts.push(Start {
            application: name.clone(),
            promotion: entry.since,
            revisions: if pinned { entry.target_revisions.clone() } else { Vec::new() },
            step,
        });
    }
    starts
}

/// Whether the Application has, or had, the operation of this promotion or of
/// a later one.
fn has_promotion(seen: &Observed, promotion: Timestamp) -> bool {
    promotions(seen).any(|seen| seen >= promotion)
}

/// The promotions whose operations the Application has or had last.
fn promotions(seen: &Observed) -> impl Iterator<Item = Timestamp> + use<> {
    let requested = seen.requested.as_ref().and_then(|operation| operation.promotion);
    let state = seen.operation.as_ref().and_then(|operation| operation.promotion);
    [requested, state].into_iter().flatten()
}

fn transitions(
    stored: &BTreeMap<String, Entry>,
    entries: &BTreeMap<String, Entry>,
) -> Vec<Transition> {
    let changed = entries.values().filter_map(|entry| {
        let from = stored.get(&entry.application).map(|entry| entry.phase);
        let since = stored.get(&entry.application).map(|entry| entry.since);
        if from == Some(entry.phase) && since == Some(entry.since) {
            return None;
        }
        Some(Transition {
            application: entry.application.clone(),
            step: entry.step,
            from,
            to: entry.phase,
            message: entry.message.clone(),
            timed_out: entry.timed_out(),
        })
    });
    changed.collect()
}

fn problems(strategy: &Strategy, memberships: &BTreeMap<String, Membership>) -> Vec<Problem> {
    let mut problems = strategy.step_problems();
    problems.extend(steps::problems_of_memberships(strategy.steps(), memberships));
    problems.sort();
    problems
}

/// All problems of a strategy for these Applications, most serious first:
/// also those that [`Strategy::read`] found.
pub fn all_problems(read: Vec<Problem>, plan: Vec<Problem>) -> Vec<Problem> {
    let mut problems: Vec<Problem> =
        read.into_iter().filter(|problem| problem.kind == ProblemKind::UnknownStrategy).collect();
    problems.extend(plan);
    problems.sort();
    problems
}

fn wake_at(
    snapshot: &Snapshot<'_>,
    entries: &BTreeMap<String, Entry>,
    gate: &Gate<'_>,
    now: Timestamp,
) -> Option<Timestamp> {
    let timeout = snapshot.settings.rules.progressing_timeout;
    let deadlines = entries.values().filter_map(|entry| match (entry.phase, timeout) {
        (Phase::Pending, Some(timeout)) => entry.since.checked_add(timeout).ok(),
        _ => None,
    });
    let under_way = entries.values().any(|entry| entry.phase != Phase::Healthy);
    let poll = (under_way || gate.first_incomplete().is_some())
        .then(|| now.checked_add(POLL).ok())
        .flatten();
    let windows = entries.values().filter_map(|entry| {
        let is_open = entry.step.is_some_and(|step| gate.is_open(step));
        let waits = entry.phase == Phase::Waiting && is_open;
        denied(snapshot, &entry.application).filter(|_| waits)?.until
    });
    deadlines.chain(poll).chain(windows).min()
}

/// The limit of a step of `size` Applications.
fn limit_of(step: &Step, size: u64) -> budget::Limit {
    step.max_update.limit(size)
}
