//! Which Applications start: up to `maxUpdate`, within their sync windows, and never twice.

use jiff::{SignedDuration, Timestamp};

use super::entry::Earlier;
use super::gate::Gate;
use super::listed;
use super::phase::{Compared, Entry, Observed, Phase};
use super::run::RunStepper;
use super::run::pace::RolloutPace;
use super::run::started::Started;
use super::run_input::Hold;
use super::snapshot::{InFlight, Member, RolloutSnapshot, Row, SlotCount};
use super::wait_kind::WaitKind;
use wavegate_api::time;

/// One sync to start: an `operation` to write (AS-360).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The Application.
    pub application: String,
    /// The identity of the promotion, which the operation carries (AS-361).
    pub promotion: Timestamp,
    /// The revisions to sync, one per source; if empty, the application
    /// controller resolves them.
    pub revisions: Vec<String>,
    /// The step, counted from 0.
    pub step: usize,
    /// What the Application records of the run that starts it.
    pub started: Option<Started>,
    /// Whether an application controller takes it up.
    pub is_taken_up: bool,
}

/// Returns promoted Applications to Waiting whose operation has not started and
/// is denied by a sync window.
pub(super) fn revert_denied(rows: &mut [Row<'_>], now: Timestamp) {
    for row in rows.iter_mut().filter(|row| row.member.denied.is_some()) {
        let is_denied = row.denied().is_some();
        let (Some(seen), Some(entry)) = (row.member.observed, row.entry.as_mut()) else { continue };
        if !entry.phase.is_in_flight() {
            continue;
        }
        let is_unwritten = entry.phase == Phase::Pending && !entry.is_written(seen);
        if seen.has_idle_promotion() || is_denied && is_unwritten {
            entry.deny(now);
        }
    }
}

/// Holds those that are being deleted: their operation would not be written, so that they took a
/// place for ever.
pub(super) fn hold_going(rows: &mut [Row<'_>]) {
    for row in rows.iter_mut().filter(|row| row.member.is_going) {
        let message = "it is being deleted".to_owned();
        row.run.hold = Some(Hold { kind: WaitKind::Deletion, message, until: None });
    }
}

/// Returns promoted Applications to Waiting whose operation is not written, and that a person
/// or a policy holds (ST-020, ST-060).
pub(super) fn revert_held(rows: &mut [Row<'_>], now: Timestamp) {
    for row in rows.iter_mut().filter(|row| row.run.hold.is_some()) {
        let (Some(seen), Some(entry)) = (row.member.observed, row.entry.as_mut()) else { continue };
        if entry.phase == Phase::Pending && !entry.is_written(seen) {
            entry.hold_back(now);
        }
    }
}

/// Says of what stays where it went back to that it does, and not that it waits to be Synced.
pub(super) fn describe_resting(rows: &mut [Row<'_>]) {
    for row in rows.iter_mut() {
        let hold = row.run.hold.as_ref().filter(|hold| hold.kind.is_at_rest());
        let (Some(hold), Some(seen), Some(entry)) = (hold, row.member.observed, &mut row.entry)
        else {
            continue;
        };
        let is_idle = entry.phase == Phase::Progressing && !seen.has_operation_in_flight();
        if is_idle && entry.mark.is_none() {
            entry.message.clone_from(&hold.message);
        }
    }
}

/// Stops the timeout of promoted Applications whose operation has not started
/// and whose step has closed; promotes them again when the step opens.
pub(super) fn close_and_reopen(
    snapshot: &RolloutSnapshot<'_>,
    gate: &Gate,
    rows: &mut [Row<'_>],
    now: Timestamp,
) {
    for row in rows.iter_mut() {
        let is_open = gate.admits(row);
        let Some(entry) = row.entry.as_mut().filter(|entry| entry.phase == Phase::Pending) else {
            continue;
        };
        if is_open {
            entry.reopen();
        } else {
            entry.close(&snapshot.settings.rules, now);
        }
    }
}

/// Returns promoted Applications to Waiting whose operation was not written and that
/// `maxUpdate` does not permit any more: it was reduced, or users synced others. Returns
/// how many are in flight in each step. A sync started by others counts, too: the limit
/// applies to all running operations.
pub(super) fn revert_excess(
    gate: &Gate,
    pace: &mut RolloutPace,
    rows: &mut [Row<'_>],
    now: Timestamp,
) -> Vec<SlotCount> {
    let mut places = vec![SlotCount::default(); gate.step_count()];
    for row in rows.iter().filter(|row| !gate.has_unwritten(row)) {
        let Some(entry) = &row.entry else { continue };
        if let Some(of_step) = entry.step.and_then(|step| places.get_mut(step)) {
            *of_step += gate.places_of(row);
        }
    }
    for row in rows.iter_mut().filter(|row| gate.has_unwritten(row)) {
        let Some(entry) = row.entry.as_mut() else { continue };
        let Some(step) = entry.step.filter(|step| *step < places.len()) else { continue };
        // It has taken the place that was kept for it.
        let has_kept = row.run.keeps_place;
        let is_permitted = gate.limit(step).permits_more(places[step].taken(has_kept))
            && pace.keeps(row.member.name, step, has_kept);
        if is_permitted {
            places[step].take(false);
            pace.take(row.member.name, step, false);
        } else {
            entry.revert(now);
        }
    }
    places
}

/// The Applications whose operation must be withdrawn. This does not depend on
/// the entry, which may be of a reconcile that did not write the withdrawal.
pub(super) fn withdrawals(snapshot: &RolloutSnapshot<'_>) -> Vec<String> {
    let is_denied = |member: &&Member<'_>| {
        member.denied.is_some() && member.observed.is_some_and(Observed::has_idle_promotion)
    };
    snapshot.members.iter().filter(is_denied).map(|member| member.name.to_owned()).collect()
}

/// Promotes Waiting entries of open steps in name order up to the limit
/// (AS-341). Returns what is in flight: the `places` of each step, and the promotions, of which
/// none is earlier than `from`.
pub(super) fn promote(
    snapshot: &RolloutSnapshot<'_>,
    gate: &Gate,
    pace: &mut RolloutPace,
    rows: &mut [Row<'_>],
    places: Vec<SlotCount>,
    from: Timestamp,
) -> InFlight {
    let reserved = |row: &Row<'_>| Some(listed::reserved(row.member, row.entry.as_ref()?));
    let mut in_flight = InFlight {
        per_step: places,
        bytes: rows.iter().filter_map(reserved).sum(),
        is_full: false,
    };
    for row in rows.iter_mut() {
        let (is_open, was_in_flight) = (gate.admits(row), row.is_in_flight());
        let keeps_place = gate.keeps_place(row);
        let is_denied = row.denied().is_some();
        let (Some(seen), Some(entry)) = (row.member.observed, row.entry.as_mut()) else { continue };
        let run = &row.run;
        // A retry, and the way back, start one in any state.
        let is_forced = entry.phase != Phase::Pending
            && (run.retries() || run.back.is_some())
            && !seen.has_operation_in_flight();
        let is_waiting = (entry.phase == Phase::Waiting || is_forced)
            && row.member.invalid.is_none()
            && run.hold.is_none()
            // ST-065: a person's sync is never synced over.
            && (!entry.is_held() || run.retries());
        let Some(step) =
            entry.step.filter(|step| is_waiting && is_open && *step < gate.step_count())
        else {
            continue;
        };
        let promotion = || promotion_time(row.member.entry, seen, from);
        if entry.waits_for_its_request(seen) {
            // The operation that was requested before is counted already.
            entry.promote_requested(promotion());
            continue;
        }
        // What goes back has its revisions; a comparison with the target adds nothing.
        let is_ready = match run.back.is_some() {
            true => !seen.spec_differs,
            false => {
                seen.is_ready_to_start()
                    && (seen.may_be_started() || is_forced)
                    && row.behind.is_none()
            }
        };
        let is_ready = is_ready && !is_denied;
        if !is_ready {
            continue;
        }
        // One that failed is counted already.
        if !was_in_flight {
            if !gate.limit(step).permits_more(in_flight.per_step[step].taken(keeps_place)) {
                continue;
            }
            if let Some((kind, message)) = pace.denies(row.member.name, step, keeps_place) {
                row.run.hold = Some(Hold { kind, message, until: None });
                continue;
            }
        }
        let takes = listed::in_flight(entry).saturating_sub(listed::reserved(row.member, entry));
        if takes > 0 && in_flight.bytes + takes > snapshot.capacity {
            in_flight.is_full = true;
            continue;
        }
        if !was_in_flight {
            in_flight.per_step[step].take(keeps_place);
            pace.promote(row.member.name, step, keeps_place);
        }
        in_flight.bytes += takes;
        let promotion = promotion();
        entry.promote(promotion);
        if run.retries()
            && let Some(sync) = seen.person.as_deref()
        {
            // Taken back: it is older than the target from now on.
            entry.earlier = Earlier::Sync(sync.started_at);
        }
    }
    in_flight
}

/// The time of a promotion is its identity, so it must be later than any stored
/// time of the entry and than any promotion that the Application still names:
/// the entry may be lost, and another replica's clock may differ. So it may be
/// slightly ahead of the clock.
fn promotion_time(stored: Option<&Entry>, seen: &Observed, now: Timestamp) -> Timestamp {
    let before = stored.map(|entry| entry.since).into_iter().chain(seen.promotions());
    let after = before
        .filter_map(|time| time.checked_add(SignedDuration::from_secs(1)).ok())
        .map(time::stored_time);
    after.chain([time::stored_time(now)]).max().unwrap_or(now)
}

/// The operations to write: for Pending entries of open steps whose Application
/// neither has the operation of this promotion (AS-361) nor another one that is
/// requested or running, or has just succeeded: it may have taken the place of the
/// promotion's.
pub(super) fn starts(
    snapshot: &RolloutSnapshot<'_>,
    gate: &Gate,
    stepper: Option<&RunStepper<'_>>,
    rows: &[Row<'_>],
) -> Vec<Start> {
    let mut starts = Vec::new();
    for row in rows {
        let (Some(seen), Some(entry)) = (row.member.observed, &row.entry) else { continue };
        if entry.phase != Phase::Pending
            || seen.has_operation_in_flight()
            || entry.has_promotion(seen)
            || seen.result_is_unknown()
            || row.member.invalid.is_some()
            || row.run.hold.is_some()
        {
            continue;
        }
        let Some(step) = entry.step.filter(|_| gate.admits(row)) else { continue };
        let revisions = match &row.run.back {
            Some(good) => good.clone(),
            None if !snapshot.settings.pin_revisions => Vec::new(),
            // What the promotion was decided on, also if a later comparison failed: without a
            // revision the sync would deploy what is new when it begins.
            None if seen.compared == Compared::Current => entry.target_revisions.clone(),
            // They are not what this spec resolves to.
            None => continue,
        };
        starts.push(Start {
            application: entry.application.clone(),
            promotion: entry.since,
            revisions,
            step,
            started: stepper.and_then(|stepper| stepper.started(row, entry.since)),
            is_taken_up: row.member.excluded.is_none() && row.member.denied.is_none(),
        });
    }
    starts
}
