//! A status of a run is at most 64 KiB (ST-005): what decides is stored in few bytes, and when it
//! does not fit with the rest, words go first, and then what only saves an approval.

use std::collections::BTreeSet;

use super::admitted;
use super::target_set::Short;
use wavegate_api::run::{RolloutRunStatus, RunGate, TimelineEntry};

/// The most bytes of a status.
const MOST: usize = 64 << 10;
/// The last transitions that are not shortened.
const LAST: usize = 10;
/// The length of a message that is shortened, in characters.
const SHORT: usize = 100;
/// The most transitions, and signatures of failures, of a status with no room for more.
const FEW: usize = 20;

/// Shortens a status that would be too large. What was shortened stays so.
pub(super) fn bound_size(status: &mut RolloutRunStatus, revisions: &BTreeSet<Short>) {
    let fits = |status: &RolloutRunStatus| {
        length(status) <= MOST || {
            let mut packed = status.clone();
            admitted::pack(&mut packed, revisions);
            length(&packed) <= MOST
        }
    };
    let reductions: [fn(&mut RolloutRunStatus) -> bool; 3] =
        [shorten_words, forget_words, forget_gate];
    for reduce in reductions {
        while !fits(status) {
            if !reduce(status) {
                break;
            }
        }
    }
}

/// The bytes that it takes as JSON.
fn length(status: &RolloutRunStatus) -> usize {
    // A status can always be serialized.
    serde_json::to_vec(status).map_or(usize::MAX, |bytes| bytes.len())
}

/// Messages of earlier transitions and of failures; whether something was shortened.
fn shorten_words(status: &mut RolloutRunStatus) -> bool {
    let earlier = status.timeline.len().saturating_sub(LAST);
    let of_timeline = status.timeline[..earlier].iter_mut().map(|entry| &mut entry.message);
    let of_failures = status.failures.iter_mut().map(|failure| &mut failure.message);
    let mut is_shortened = false;
    for message in of_timeline.chain(of_failures) {
        if let Some((end, _)) = message.char_indices().nth(SHORT) {
            message.truncate(end);
            is_shortened = true;
        }
    }
    is_shortened
}

/// The earliest transitions, and the rarest failures.
fn forget_words(status: &mut RolloutRunStatus) -> bool {
    let RolloutRunStatus { timeline, failures, .. } = status;
    let is_more = timeline.len() > FEW || failures.len() > FEW / 2;
    let last: Vec<TimelineEntry> = timeline.split_off(timeline.len().saturating_sub(FEW));
    *timeline = last;
    failures.truncate(FEW / 2);
    is_more
}

/// What the gate with most targets has let through: any new target behind it needs another approval
/// of all (ST-011).
fn forget_gate(status: &mut RolloutRunStatus) -> bool {
    let largest = status.gates.iter_mut().max_by_key(|gate| gate.admits.len());
    let Some(RunGate { admits, .. }) = largest.filter(|gate| !gate.admits.is_empty()) else {
        return false;
    };
    admits.clear();
    true
}
