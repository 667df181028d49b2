//! Pauses before a failed reconcile is retried.

use std::time::Duration;

use wavegate_api::ObjectKey;
use wavegate_cluster::act::sync::retry::jitter_of;

/// The pause after the first failure; it doubles with each further one.
const FIRST: Duration = Duration::from_millis(200);

/// Exponential back-off after consecutive failures.
#[derive(Clone, Copy, Debug)]
pub struct FailureBackoff {
    /// Maximum pause, without jitter.
    pub longest: Duration,
}

impl FailureBackoff {
    /// The pause after a number of previous failures, with a jitter of 25 % that depends on
    /// key and number, so that objects which failed together are not retried together.
    pub fn pause(self, failures: u32, key: &ObjectKey) -> Duration {
        let pause = FIRST.saturating_mul(1 << failures.min(16)).min(self.longest);
        pause.mul_f64(0.75 + 0.5 * jitter_of(&(key, failures)))
    }
}

/// The pause after consecutive reconciles that were based on outdated objects: usually the
/// watch reports the change soon; if not, a faster retry does not help. Doubles to 25.6 s.
pub fn after_conflict(conflicts: u32) -> Duration {
    match conflicts {
        // Usually the newer object is in the cache by now.
        0 | 1 => Duration::from_millis(20),
        _ => Duration::from_millis(100 << (conflicts - 2).min(8)),
    }
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
        let backoff = FailureBackoff { longest: Duration::from_secs(300) };
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
