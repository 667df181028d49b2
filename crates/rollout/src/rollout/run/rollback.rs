//! Going back (ST-061, ST-062): which Applications, in which order, and where they stand.

use jiff::{SignedDuration, Timestamp};

use super::started::Started;
use crate::rollout::phase::{Observed, ObservedOperation};
use crate::rollout::run_input::{Hold, RunInput};
use crate::rollout::snapshot::Row;
use crate::rollout::wait_kind::WaitKind;
use wavegate_api::HealthStatus;

/// An Application that stays OutOfSync with its last good revisions is synced to them again after
/// this time, at the earliest.
const HEALED_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// Where an Application stands that a run has started and that goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollbackState {
    /// It is Healthy at its last good revisions.
    Back,
    /// It has to be synced to them.
    Due,
    /// Its sync to them is requested or runs.
    Running,
    /// That sync has failed, or it is not Healthy after it.
    Failed,
    /// It cannot go back by itself: its last good revisions are not known, or its generated spec
    /// has changed.
    Cannot,
}

/// Where it stands.
pub(crate) fn standing(started: &Started, seen: &Observed, retries: bool) -> RollbackState {
    if started.good.is_empty() {
        return RollbackState::Cannot;
    }
    if seen.has_operation_in_flight() {
        return match started.goes_back {
            true => RollbackState::Running,
            false => RollbackState::Due,
        };
    }
    let last = seen.operation.as_ref();
    let own = last.filter(|last| {
        started.goes_back && last.promotion.is_some_and(|promotion| promotion >= started.at)
    });
    match own {
        None => RollbackState::Due,
        Some(_) if retries => RollbackState::Due,
        Some(last) if last.has_failed() => RollbackState::Failed,
        Some(last) if !last.has_synced() => RollbackState::Running,
        Some(_) if seen.health == HealthStatus::Healthy && seen.is_judged() => RollbackState::Back,
        Some(_) if seen.health == HealthStatus::Degraded && seen.is_judged() => {
            RollbackState::Failed
        }
        Some(_) => RollbackState::Running,
    }
}

/// Where one stands that a person has synced: it is waited for while that sync goes on.
fn standing_of_held(started: &Started, seen: &Observed) -> RollbackState {
    let is_at_good = !started.good.is_empty() && seen.deployed_revisions() == started.good;
    match seen.health {
        _ if seen.has_operation_in_flight() => RollbackState::Running,
        HealthStatus::Healthy if is_at_good && seen.is_judged() => RollbackState::Back,
        HealthStatus::Healthy | HealthStatus::Progressing if is_at_good => RollbackState::Running,
        _ => RollbackState::Cannot,
    }
}

/// Whether one that is held at its last good revisions has to be synced to them again: its
/// resources differ, after a sync to them that succeeded. One that fails holds, until a person
/// retries it (ST-062).
pub fn is_to_be_healed(started: &Started, seen: &Observed, now: Timestamp) -> bool {
    let is_own = |last: &&ObservedOperation| {
        last.promotion.is_some_and(|promotion| promotion >= started.at) && last.has_synced()
    };
    let may_repeat = started.at.checked_add(HEALED_EVERY).is_ok_and(|at| at <= now);
    started.goes_back
        && !started.good.is_empty()
        && seen.has_left_its_hold
        && may_repeat
        && seen.is_judged()
        && seen.operation.as_ref().filter(is_own).is_some()
}

/// How far a rollback is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many go back or are back.
    pub total: u64,
    /// How many are back.
    pub back: u64,
    /// The names of those that cannot go back by themselves.
    pub cannot: Vec<String>,
    /// The names of those that a person has synced to something else.
    pub held: Vec<String>,
    /// The names of those whose way back has failed.
    pub failed: Vec<String>,
}

impl Progress {
    /// Whether all are back that can be.
    pub fn is_complete(&self) -> bool {
        self.back == self.total
    }
}

/// Decides which Applications of a run that goes back may be synced to their last good
/// revisions now: those of the last step that is not back. All others are held. `healed_at` is the
/// time if one that has drifted since is synced to them again.
pub fn decide(
    input: &RunInput<'_>,
    rows: &mut [Row<'_>],
    healed_at: Option<Timestamp>,
) -> Progress {
    let mut progress = Progress::default();
    let mut last_step = None;
    let standing_of = |row: &Row<'_>| {
        let (started, seen) = (row.member.started?, row.member.observed?);
        let has_drifted = healed_at.is_some_and(|now| is_to_be_healed(started, seen, now));
        let retries = row.run.retries() || has_drifted;
        // A sync of a person is not synced over (ST-065).
        let is_held = row.is_held() && !row.run.retries();
        // One of no step gets no operation (AS-316), nor one that is being deleted.
        let can_start = row.member.step().is_some() && !row.member.is_going;
        row.run.is_started.then(|| match can_start {
            true if is_held => standing_of_held(started, seen),
            true => standing(started, seen, retries),
            false => RollbackState::Cannot,
        })
    };
    for row in rows.iter() {
        let Some(standing) = standing_of(row) else { continue };
        match standing {
            RollbackState::Cannot => {
                let names = match row.is_held() {
                    true => &mut progress.held,
                    false => &mut progress.cannot,
                };
                names.push(row.member.name.to_owned());
                continue;
            }
            RollbackState::Back => progress.back += 1,
            RollbackState::Failed => progress.failed.push(row.member.name.to_owned()),
            RollbackState::Due | RollbackState::Running => {}
        }
        progress.total += 1;
        if standing != RollbackState::Back {
            last_step = last_step.max(row.member.step());
        }
    }
    // What is in flight goes back first, in its own place: with another one beside it, there would
    // be more in flight than the limit of the step.
    let is_under_way = |row: &Row<'_>| {
        let is_in_flight = row.entry.as_ref().is_some_and(|entry| entry.phase.is_in_flight());
        let is_busy = row.member.observed.is_some_and(Observed::has_operation_in_flight);
        is_in_flight && !is_busy
    };
    let is_next = |row: &Row<'_>| {
        row.member.step() == last_step && standing_of(row) == Some(RollbackState::Due)
    };
    let under_way_first = rows.iter().any(|row| is_next(row) && is_under_way(row));
    for row in rows.iter_mut() {
        let standing = standing_of(row);
        let has_its_turn = !under_way_first || is_under_way(row);
        row.run.is_over = standing != Some(RollbackState::Running);
        let good = row.member.started.map(|started| started.good.clone()).unwrap_or_default();
        let is_in_turn = row.member.step() == last_step;
        row.run.is_due_back = matches!(
            standing,
            Some(RollbackState::Due | RollbackState::Running | RollbackState::Failed)
        );
        let hold =
            |message: String| Some(Hold { kind: WaitKind::RollingBack, message, until: None });
        row.run.hold = match standing {
            Some(RollbackState::Due) if is_in_turn && has_its_turn => {
                row.run.back = Some(good);
                None
            }
            // Its sync is not repeated while it becomes Healthy.
            Some(RollbackState::Running) if is_in_turn => {
                let message = format!("it goes back to {}", good.join(", "));
                row.run.back = Some(good);
                hold(message)
            }
            Some(RollbackState::Failed) if is_in_turn => Some(Hold {
                kind: WaitKind::RollbackFailed,
                message: format!(
                    "its way back to {} has failed; the rollback holds here: {}",
                    good.join(", "),
                    input.command("retry")
                ),
                until: None,
            }),
            Some(RollbackState::Due) if is_in_turn => {
                hold("it goes back after those that are in flight".to_owned())
            }
            Some(RollbackState::Due | RollbackState::Running | RollbackState::Failed) => {
                hold("it goes back after the Applications of the later steps".to_owned())
            }
            Some(RollbackState::Cannot) if row.is_held() => {
                let retry = input.command_for("retry", row.member.name);
                hold(format!("a person has synced it, and it does not go back: {retry}"))
            }
            Some(RollbackState::Cannot) => hold(
                "it cannot go back by itself: revert the ApplicationSet, or sync it by hand"
                    .to_owned(),
            ),
            Some(RollbackState::Back) => hold(format!("it is back at {}", good.join(", "))),
            None => hold("the run goes back, and promotes nothing".to_owned()),
        };
    }
    progress
}
