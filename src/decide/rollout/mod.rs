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
//! # What the status can hold
//!
//! Entries in flight are always listed in the status, whose size is bounded
//! ([`listed`]). So no more Applications are in flight at once than it can hold
//! ([`Snapshot::capacity`]), whatever `maxUpdate` allows; who waits for that is
//! told so.
//!
//! Nothing here fails, waits, or looks at a clock: `now` is a parameter. The work
//! of one reconcile is one walk over the members for each of the stages above,
//! without a look-up by name.

pub mod budget;
pub mod gate;
pub mod listed;
pub mod phase;
pub mod preview;
pub mod status;
pub mod steps;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use self::gate::{Gate, Lag};
use self::listed::Record;
use self::phase::{Entry, Mark, Observed, Phase, Rules};
use self::steps::{Membership, Problem, ProblemKind, Strategy};

/// While a rollout is under way it is re-evaluated after this time even if no
/// event arrives (AS-390), so that a lost event cannot stop it.
pub const POLL: SignedDuration = SignedDuration::from_secs(30);

/// How many Applications that are waited for a plan names, and how many stalled
/// ones.
pub const WAITING_LIMIT: usize = 10;

/// After this time a wait counts as stalled where there is no timeout (AS-611).
const STALLED: SignedDuration = SignedDuration::from_secs(300);

/// What a rollout needs to know of one Application: generated, existing, or both.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its name.
    pub name: &'a str,
    /// The steps that its generated labels put it into; live labels do not count
    /// (AS-310). `None` when it is not generated.
    pub steps: Option<&'a Membership>,
    /// Why it cannot be written, when validation refused it (AS-180). Its step
    /// stays incomplete (AS-182).
    pub invalid: Option<&'a str>,
    /// Why no sync of it may start now, when sync windows deny it.
    pub denied: Option<&'a Denied>,
    /// What is observed of it, when it exists and the set owns it.
    pub observed: Option<&'a Observed>,
    /// Its entry of the last reconcile, listed in the status or implied by what
    /// is not ([`listed::implied`]).
    pub entry: Option<&'a Entry>,
    /// Whether that entry is listed.
    pub is_listed: bool,
    /// What the Application carries of its rollout.
    pub record: Option<&'a Record>,
    /// The digest of its generated spec.
    pub spec: Option<&'a str>,
}

impl Member<'_> {
    /// The step that counts for it.
    fn step(&self) -> Option<usize> {
        self.steps.and_then(Membership::step)
    }
}

/// A sync window does not let an Application be synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// Which window, and until when, for people.
    pub reason: String,
    /// When to look again, if time changes anything.
    pub until: Option<Timestamp>,
}

/// Everything one reconcile may know.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The strategy and its steps.
    pub strategy: &'a Strategy,
    /// The generated Applications, and the existing ones that the set owns; by
    /// name, each once.
    pub members: &'a [Member<'a>],
    /// How it is set up.
    pub settings: Settings,
    /// Which step was open after the last reconcile, and since when.
    pub opened: Option<(usize, Timestamp)>,
    /// How many bytes of entries in flight the status can hold.
    pub capacity: usize,
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

impl Settings {
    /// After which time a wait counts as stalled.
    pub fn stalled_after(&self) -> SignedDuration {
        self.rules.progressing_timeout.unwrap_or(STALLED)
    }
}

/// What to do, and what to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutPlan {
    /// The entries of all existing Applications, by name. Which of them are
    /// persisted one by one is decided by [`listed`].
    pub entries: Vec<Entry>,
    /// The syncs to start once the entries are persisted, by name.
    pub starts: Vec<Start>,
    /// Applications whose operation a sync window keeps from beginning: it is to
    /// be withdrawn, so that it does not begin by itself; by name.
    pub withdrawals: Vec<String>,
    /// Applications whose comparison is older than a revision that was seen
    /// elsewhere, to be compared again: in the order of steps, then by name.
    pub refreshes: Vec<String>,
    /// What changed in this reconcile, by name.
    pub transitions: Vec<Transition>,
    /// Each step's count, in order.
    pub steps: Vec<StepState>,
    /// Who waits in the open step, for what, until when; by name, the first
    /// [`WAITING_LIMIT`].
    pub waiting: Vec<Waiting>,
    /// How many wait in the open step.
    pub waiting_count: usize,
    /// Who waits for something to happen to itself for longer than the timeout,
    /// and since when (AS-611); by name, the first [`WAITING_LIMIT`]. An
    /// Application that has not been started is not among them while others of
    /// its step are in flight, and no wait begins before the step was open.
    pub stalled: Vec<Waiting>,
    /// The first step that is not complete, counted from 0; `None` when the
    /// rollout is.
    pub open_step: Option<usize>,
    /// Since when that step has been the open one.
    pub opened_at: Option<Timestamp>,
    /// When to look again if nothing happens; `None` when nothing is under way.
    pub wake_at: Option<Timestamp>,
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

/// A member on its way through one reconcile.
#[derive(Debug)]
struct Row<'a> {
    member: &'a Member<'a>,
    /// Its new entry, when it exists.
    entry: Option<Entry>,
    /// What it has not been compared with.
    behind: Option<Lag>,
}

impl Row<'_> {
    fn phase(&self) -> Option<Phase> {
        self.entry.as_ref().map(|entry| entry.phase)
    }
}

/// How many are in flight, by step and by what they take in the status.
#[derive(Debug)]
struct InFlight {
    per_step: Vec<u64>,
    bytes: usize,
    /// Somebody was not promoted since the status has no room.
    is_full: bool,
}

/// Decides one reconcile of a RollingSync.
///
/// Call it only for a strategy with steps; with none it plans nothing and
/// drops all entries (AS-303).
pub fn step(snapshot: &Snapshot<'_>, now: Timestamp) -> RolloutPlan {
    let mut rows = advance_all(snapshot, now);
    let withdrawals = withdrawals(snapshot);
    put_back_denied(&mut rows, now);
    let gate = time_out(snapshot, &mut rows, now);
    close_and_reopen(snapshot, &gate, &mut rows, now);
    let in_flight = promote(snapshot, &gate, &mut rows, now);
    let starts = starts(snapshot, &gate, &rows);

    let open_step = gate.first_incomplete();
    let opened_at = open_step.map(|step| match snapshot.opened {
        Some((opened, at)) if opened == step => at,
        Some(_) | None => phase::whole_seconds(now),
    });
    let waits = gate.waiting(snapshot, &rows, &in_flight, opened_at.unwrap_or(now), now);
    RolloutPlan {
        starts,
        withdrawals,
        refreshes: refreshes(&rows),
        transitions: transitions(&rows),
        steps: gate.step_states(&in_flight.per_step),
        waiting: waits.first,
        waiting_count: waits.count,
        stalled: waits.stalled,
        open_step,
        opened_at,
        wake_at: wake_at(snapshot, &rows, &gate, now),
        entries: match snapshot.strategy.steps() {
            [] => Vec::new(),
            _ => rows.into_iter().filter_map(|row| row.entry).collect(),
        },
    }
}

/// Earlier steps first: they are the ones that are waited for.
fn refreshes(rows: &[Row<'_>]) -> Vec<String> {
    let asks = |row: &&Row<'_>| row.behind.as_ref().is_some_and(|lag| lag.refresh);
    let mut behind: Vec<&Row<'_>> = rows.iter().filter(asks).collect();
    // Stable, so by name within a step; none comes last.
    behind.sort_by_key(|row| row.member.step().unwrap_or(usize::MAX));
    behind.into_iter().map(|row| row.member.name.to_owned()).collect()
}

fn advance_all<'a>(snapshot: &Snapshot<'a>, now: Timestamp) -> Vec<Row<'a>> {
    // The time runs while the step is open, which is not known yet.
    let rules = Rules { progressing_timeout: None, ..snapshot.settings.rules };
    let behind = gate::behind(snapshot.members);
    let row = |(member, behind): (&'a Member<'a>, Option<Lag>)| {
        let advance = |seen: &Observed| {
            phase::advance(member.name, member.entry, member.step(), seen, &rules, now)
        };
        Row { member, entry: member.observed.map(advance), behind }
    };
    let mut rows: Vec<Row<'a>> = snapshot.members.iter().zip(behind).map(row).collect();
    leave_waiting_beyond(snapshot.capacity, &mut rows, now);
    rows
}

/// Leaves those Waiting that were found Synced and that the status cannot hold
/// as Progressing. They take no place, and are Healthy as soon as they are seen
/// to be.
fn leave_waiting_beyond(capacity: usize, rows: &mut [Row<'_>], now: Timestamp) {
    let is_new = |row: &Row<'_>| {
        let was = row.member.entry.map(|entry| entry.phase);
        let mark = row.entry.as_ref().and_then(|entry| entry.mark);
        mark == Some(Mark::FoundSynced) && was != Some(Phase::Progressing)
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
        let since = row.member.entry.map_or(phase::whole_seconds(now), |entry| entry.since);
        entry.leave_waiting(since);
    }
}

/// Moves on who has been Pending for too long in a step that is open; returns
/// which steps are open then.
fn time_out(snapshot: &Snapshot<'_>, rows: &mut [Row<'_>], now: Timestamp) -> Gate {
    loop {
        let gate = Gate::new(snapshot, rows);
        let mut changed = false;
        for entry in rows.iter_mut().filter_map(|row| row.entry.as_mut()) {
            if entry.phase == Phase::Pending && entry.step.is_some_and(|step| gate.is_open(step)) {
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
fn put_back_denied(rows: &mut [Row<'_>], now: Timestamp) {
    for row in rows.iter_mut().filter(|row| row.member.denied.is_some()) {
        let (Some(seen), Some(entry)) = (row.member.observed, row.entry.as_mut()) else { continue };
        if !entry.phase.is_in_flight() {
            continue;
        }
        let is_written = seen.has_operation_in_flight() || has_promotion(seen, entry.since);
        if seen.has_idle_promotion() || entry.phase == Phase::Pending && !is_written {
            entry.deny(now);
        }
    }
}

/// Stops the time of who was promoted, has not begun, and whose step is not
/// open any more; has those promoted anew whose step opens again.
fn close_and_reopen(snapshot: &Snapshot<'_>, gate: &Gate, rows: &mut [Row<'_>], now: Timestamp) {
    let entries = rows.iter_mut().filter_map(|row| row.entry.as_mut());
    for entry in entries.filter(|entry| entry.phase == Phase::Pending) {
        if entry.step.is_some_and(|step| gate.is_open(step)) {
            entry.reopen();
        } else {
            entry.close(&snapshot.settings.rules, now);
        }
    }
}

/// Whose operation is to be withdrawn: whatever the entry says, which may be
/// that of a reconcile that did not come to it.
fn withdrawals(snapshot: &Snapshot<'_>) -> Vec<String> {
    let is_denied = |member: &&Member<'_>| {
        member.denied.is_some() && member.observed.is_some_and(Observed::has_idle_promotion)
    };
    snapshot.members.iter().filter(is_denied).map(|member| member.name.to_owned()).collect()
}

/// Promotes Waiting entries of open steps in name order while there is room
/// (AS-341). Returns how many are in flight, promotions included.
fn promote(snapshot: &Snapshot<'_>, gate: &Gate, rows: &mut [Row<'_>], now: Timestamp) -> InFlight {
    let mut in_flight = InFlight { per_step: vec![0; gate.step_count()], bytes: 0, is_full: false };
    for row in rows.iter() {
        let Some(entry) = &row.entry else { continue };
        in_flight.bytes += listed::reserved(row.member, entry);
        let Some(count) = entry.step.and_then(|step| in_flight.per_step.get_mut(step)) else {
            continue;
        };
        // A sync that somebody else started takes a place too: the ceiling is
        // on what runs, whoever asked for it.
        let runs = row.member.observed.is_some_and(Observed::has_operation_in_flight);
        if entry.phase.is_in_flight() || runs {
            *count += 1;
        }
    }
    for row in rows.iter_mut() {
        let (Some(seen), Some(entry)) = (row.member.observed, row.entry.as_mut()) else { continue };
        let is_waiting = entry.phase == Phase::Waiting && row.member.invalid.is_none();
        let Some(step) = entry.step.filter(|step| is_waiting && gate.is_open(*step)) else {
            continue;
        };
        let promotion = || promotion_time(row.member.entry, seen, now);
        if entry.waits_for_its_request(seen) {
            // The place is held by the operation that was requested before.
            entry.promote(promotion());
            continue;
        }
        let is_ready = seen.is_ready_to_start()
            && seen.may_be_started()
            && row.behind.is_none()
            && row.member.denied.is_none();
        if !is_ready || !gate.limit(step).has_room(in_flight.per_step[step]) {
            continue;
        }
        let takes = listed::in_flight(entry) - listed::reserved(row.member, entry);
        if takes > 0 && in_flight.bytes + takes > snapshot.capacity {
            in_flight.is_full = true;
            continue;
        }
        in_flight.per_step[step] += 1;
        in_flight.bytes += takes;
        entry.promote(promotion());
    }
    in_flight
}

/// A promotion's time is its identity, so it is later than any stored time of
/// the entry and than any promotion that the Application still names: the entry
/// may have been lost, and the clock may be another one. It may be ahead of the
/// clock by that.
fn promotion_time(stored: Option<&Entry>, seen: &Observed, now: Timestamp) -> Timestamp {
    let before = stored.map(|entry| entry.since).into_iter().chain(promotions(seen));
    let after = before
        .filter_map(|time| time.checked_add(SignedDuration::from_secs(1)).ok())
        .map(phase::whole_seconds);
    after.chain([phase::whole_seconds(now)]).max().unwrap_or(now)
}

/// The operations still to be written: for Pending entries of open steps whose
/// Application does not carry this promotion's operation (AS-361), and carries
/// no other that is under way.
fn starts(snapshot: &Snapshot<'_>, gate: &Gate, rows: &[Row<'_>]) -> Vec<Start> {
    let mut starts = Vec::new();
    for row in rows {
        let (Some(seen), Some(entry)) = (row.member.observed, &row.entry) else { continue };
        if entry.phase != Phase::Pending
            || seen.has_operation_in_flight()
            || has_promotion(seen, entry.since)
            || row.member.invalid.is_some()
        {
            continue;
        }
        let Some(step) = entry.step.filter(|step| gate.is_open(*step)) else { continue };
        // What a comparison of another spec, or a failed one, still names is not
        // what this spec resolves to.
        let pinned = snapshot.settings.pin_revisions && seen.knows_its_revisions();
        starts.push(Start {
            application: entry.application.clone(),
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

fn transitions(rows: &[Row<'_>]) -> Vec<Transition> {
    let changed = rows.iter().filter_map(|row| {
        let entry = row.entry.as_ref()?;
        let from = row.member.entry.map(|entry| entry.phase);
        let since = row.member.entry.map(|entry| entry.since);
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

/// All problems of a strategy for these Applications, most serious first: those
/// that [`Strategy::read`] found, and those that show with the Applications.
pub fn all_problems(
    read: &[Problem],
    strategy: &Strategy,
    memberships: &BTreeMap<String, Membership>,
) -> Vec<Problem> {
    let unknown = read.iter().filter(|problem| problem.kind == ProblemKind::UnknownStrategy);
    let mut all: Vec<Problem> = unknown.cloned().collect();
    all.extend(problems(strategy, memberships));
    all.sort();
    all
}

fn wake_at(
    snapshot: &Snapshot<'_>,
    rows: &[Row<'_>],
    gate: &Gate,
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
    let poll = (under_way || gate.first_incomplete().is_some())
        .then(|| now.checked_add(POLL).ok())
        .flatten();
    let windows = rows.iter().filter_map(|row| {
        let denied = row.member.denied?;
        let entry = row.entry.as_ref()?;
        let is_open = entry.step.is_some_and(|step| gate.is_open(step));
        denied.until.filter(|_| entry.phase == Phase::Waiting && is_open)
    });
    deadlines.chain(poll).chain(windows).min()
}
