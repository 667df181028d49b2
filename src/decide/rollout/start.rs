//! Which Applications start: up to `maxUpdate`, within their sync windows, and never twice.

use jiff::{SignedDuration, Timestamp};

use super::gate::Gate;
use super::listed;
use super::phase::{Entry, Observed, Phase};
use super::snapshot::{InFlight, Member, RolloutSnapshot, Row};
use crate::api::time;

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
}

/// Returns promoted Applications to Waiting whose operation has not started and
/// is denied by a sync window.
pub(super) fn revert_denied(rows: &mut [Row<'_>], now: Timestamp) {
    for row in rows.iter_mut().filter(|row| row.member.denied.is_some()) {
        let (Some(seen), Some(entry)) = (row.member.observed, row.entry.as_mut()) else { continue };
        if !entry.phase.is_in_flight() {
            continue;
        }
        if seen.has_idle_promotion() || entry.phase == Phase::Pending && !is_written(seen, entry) {
            entry.deny(now);
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
    let entries = rows.iter_mut().filter_map(|row| row.entry.as_mut());
    for entry in entries.filter(|entry| entry.phase == Phase::Pending) {
        if entry.step.is_some_and(|step| gate.is_open(step)) {
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
pub(super) fn revert_excess(gate: &Gate, rows: &mut [Row<'_>], now: Timestamp) -> Vec<u64> {
    let is_unwritten = |row: &Row<'_>| {
        let (Some(seen), Some(entry)) = (row.member.observed, &row.entry) else { return false };
        let is_open = entry.step.is_some_and(|step| gate.is_open(step));
        is_open && entry.phase == Phase::Pending && !is_written(seen, entry)
    };
    let mut in_flight = vec![0; gate.step_count()];
    for row in rows.iter().filter(|row| !is_unwritten(row)) {
        let Some(entry) = &row.entry else { continue };
        if entry.is_in_flight(row.member.observed)
            && let Some(count) = entry.step.and_then(|step| in_flight.get_mut(step))
        {
            *count += 1;
        }
    }
    for row in rows.iter_mut().filter(|row| is_unwritten(row)) {
        let Some(entry) = row.entry.as_mut() else { continue };
        let Some(step) = entry.step.filter(|step| *step < in_flight.len()) else { continue };
        if gate.limit(step).permits_more(in_flight[step]) {
            in_flight[step] += 1;
        } else {
            entry.revert(now);
        }
    }
    in_flight
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
/// (AS-341). Returns what is in flight: `in_flight` of each step, and the promotions.
pub(super) fn promote(
    snapshot: &RolloutSnapshot<'_>,
    gate: &Gate,
    rows: &mut [Row<'_>],
    in_flight: Vec<u64>,
    now: Timestamp,
) -> InFlight {
    let reserved = |row: &Row<'_>| Some(listed::reserved(row.member, row.entry.as_ref()?));
    let mut in_flight = InFlight {
        per_step: in_flight,
        bytes: rows.iter().filter_map(reserved).sum(),
        is_full: false,
    };
    for row in rows.iter_mut() {
        let (Some(seen), Some(entry)) = (row.member.observed, row.entry.as_mut()) else { continue };
        let is_waiting = entry.phase == Phase::Waiting
            && row.member.invalid.is_none()
            // ST-065: a person's sync is never synced over.
            && !entry.is_held();
        let Some(step) = entry.step.filter(|step| is_waiting && gate.is_open(*step)) else {
            continue;
        };
        let promotion = || promotion_time(row.member.entry, seen, now);
        if entry.waits_for_its_request(seen) {
            // The operation that was requested before is counted already.
            entry.promote_requested(promotion());
            continue;
        }
        let is_ready = seen.is_ready_to_start()
            && seen.may_be_started()
            && row.behind.is_none()
            && row.member.denied.is_none();
        if !is_ready || !gate.limit(step).permits_more(in_flight.per_step[step]) {
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

/// The time of a promotion is its identity, so it must be later than any stored
/// time of the entry and than any promotion that the Application still names:
/// the entry may be lost, and another replica's clock may differ. So it may be
/// slightly ahead of the clock.
fn promotion_time(stored: Option<&Entry>, seen: &Observed, now: Timestamp) -> Timestamp {
    let before = stored.map(|entry| entry.since).into_iter().chain(promotions(seen));
    let after = before
        .filter_map(|time| time.checked_add(SignedDuration::from_secs(1)).ok())
        .map(time::stored);
    after.chain([time::stored(now)]).max().unwrap_or(now)
}

/// The operations to write: for Pending entries of open steps whose Application
/// neither has the operation of this promotion (AS-361) nor another one that is
/// requested or running, or has just succeeded: it may have taken the place of the
/// promotion's.
pub(super) fn starts(snapshot: &RolloutSnapshot<'_>, gate: &Gate, rows: &[Row<'_>]) -> Vec<Start> {
    let mut starts = Vec::new();
    for row in rows {
        let (Some(seen), Some(entry)) = (row.member.observed, &row.entry) else { continue };
        if entry.phase != Phase::Pending
            || seen.has_operation_in_flight()
            || has_promotion(seen, entry)
            || seen.result_is_unknown()
            || row.member.invalid.is_some()
        {
            continue;
        }
        let Some(step) = entry.step.filter(|step| gate.is_open(*step)) else { continue };
        // A comparison that failed or used another spec does not give the
        // revisions that this spec resolves to.
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

/// Whether the operation of this promotion was written, or another one is in its place.
fn is_written(seen: &Observed, entry: &Entry) -> bool {
    seen.has_operation_in_flight() || has_promotion(seen, entry)
}

/// Whether the Application has, or had, the operation of this promotion or of a
/// later one.
fn has_promotion(seen: &Observed, entry: &Entry) -> bool {
    promotions(seen).any(|promotion| promotion >= entry.since)
        || seen.operation.as_ref().is_some_and(|operation| entry.owns(operation))
}

/// The promotions of the current and the last operation of the Application.
fn promotions(seen: &Observed) -> impl Iterator<Item = Timestamp> + use<> {
    let requested = seen.requested.as_ref().and_then(|operation| operation.promotion);
    let state = seen.operation.as_ref().and_then(|operation| operation.promotion);
    [requested, state].into_iter().flatten()
}
