//! How soon an ApplicationSet is reconciled again: events that arrive together are handled
//! together, and a large set takes a bounded share of the time.

use std::time::Duration;

use tokio::time::Instant;

/// The minimum interval between two reconciles of an ApplicationSet, as a multiple of the
/// decision time, so that events which arrive together are handled together; and its maximum.
const PACE: (u32, Duration) = (3, Duration::from_millis(50));
/// The interval is at least a millisecond for so many Applications: about the decision time, also
/// where that is not measured, since time stands still. An event waits as long for others that
/// come together with it, up to the maximum of [`PACE`]: of a batch, all Applications become
/// Healthy in a moment, and the first one would cause a reconcile and a status of its own.
const PER_MILLISECOND: usize = 50;
/// The same while more Applications than [`BUSY`] are in flight: the next ones would have to
/// wait anyway, and a status of this size costs the API server more than a sync.
const BUSY_PACE: (u32, Duration) = (10, Duration::from_secs(1));
/// More than are synced at the same time.
const BUSY: u64 = 100;
/// The same while more Applications than [`HUGE`] are in flight. A decision goes over all of them:
/// its share of the time must not grow with their number.
const HUGE_PACE: (u32, Duration) = (25, Duration::from_secs(2));
const HUGE: u64 = 1000;
/// The least that an event waits for others.
const SHORTEST: Duration = Duration::from_millis(1);

/// When the next reconcile begins.
#[derive(Clone, Copy, Debug)]
pub struct ReconcilePace {
    /// Not before this time.
    pub not_before: Instant,
    /// And so long after the event that triggers it.
    pub lead: Duration,
    /// From when on writes that nothing waits for give way to it: they have taken as long as the
    /// decision, which would be made for each of them otherwise.
    pub writes_until: Instant,
}

impl ReconcilePace {
    /// The pace after a decision, with so many Applications in flight and in the set.
    pub fn after(began: Instant, ended: Instant, in_flight: u64, applications: usize) -> Self {
        let (times, longest) = if in_flight > HUGE {
            HUGE_PACE
        } else if in_flight > BUSY {
            BUSY_PACE
        } else {
            PACE
        };
        let least = Duration::from_millis((applications / PER_MILLISECOND) as u64);
        let took = (ended - began).max(least);
        let not_before = ended + ((ended - began) * times).max(least).min(longest);
        let lead = least.clamp(SHORTEST, PACE.1);
        Self { not_before, lead, writes_until: not_before.max(ended + took) }
    }
}
