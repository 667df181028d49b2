//! How long a reconcile that did not succeed waits before it is repeated.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::api::ObjectKey;

/// The pause after the first failure; it doubles with each that follows.
const FIRST: Duration = Duration::from_millis(200);

/// The pauses after failures in a row.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// No pause is longer, but for the spread.
    pub longest: Duration,
}

impl Backoff {
    /// The pause after as many failures before this one: up to a quarter shorter
    /// or longer, by the name and the number, so that what failed together does
    /// not come back together.
    pub fn pause(self, failures: u32, key: &ObjectKey) -> Duration {
        let pause = FIRST.saturating_mul(1 << failures.min(16)).min(self.longest);
        pause.mul_f64(0.75 + 0.5 * spread(&(key, failures)))
    }
}

/// The pause after as many reconciles in a row that were decided on something
/// outdated: the watch shows the change soon, and when it does not, asking
/// faster does not help. Doubles to 25.6 s.
pub fn after_conflict(conflicts: u32) -> Duration {
    match conflicts {
        // Mostly the newer object is known by now.
        0 | 1 => Duration::from_millis(20),
        _ => Duration::from_millis(100 << (conflicts - 2).min(8)),
    }
}

/// A number from 0 to 1 that belongs to something, such as a name.
pub fn spread(of: &impl Hash) -> f64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    (hasher.finish() % 1000) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_with_a_watch_that_lags_do_not_become_a_hot_loop() {
        let waits = [0, 1, 2, 3, 1000].map(|count| after_conflict(count).as_millis());
        assert_eq!(waits, [20, 20, 100, 200, 25_600]);
    }

    #[test]
    fn pauses_grow_are_bounded_and_differ() {
        let backoff = Backoff { longest: Duration::from_secs(300) };
        let seconds = |failures, name: &str| {
            backoff.pause(failures, &ObjectKey::new("ns", name)).as_secs_f64()
        };
        for (failures, least, most) in
            [(0, 0.15, 0.25), (1, 0.3, 0.5), (5, 4.8, 8.0), (1000, 225.0, 375.0)]
        {
            let pauses: Vec<f64> = (0..50).map(|n| seconds(failures, &n.to_string())).collect();
            assert!(pauses.iter().all(|pause| (least..=most).contains(pause)), "{pauses:?}");
            assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{failures}");
        }
    }
}
