//! Why a pass of the ApplicationSet controller stopped, and what that leads to.

use std::time::Duration;

/// Why a pass stopped before its plan was carried out. Errors of what users
/// wrote are none of these: they are told by the status.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The status could not be written.
    #[error("cannot write the status of ApplicationSet {name}: {reason}")]
    Status {
        /// The set, as `namespace/name`.
        name: String,
        /// The server's words.
        reason: String,
    },
    /// The set itself could not be patched.
    #[error("cannot patch ApplicationSet {name}: {reason}")]
    Patch {
        /// The set, as `namespace/name`.
        name: String,
        /// The server's words.
        reason: String,
    },
    /// The pass panicked: a bug, which must not take the other sets along
    /// (AS-149).
    #[error("the pass over ApplicationSet {name} panicked: {message}")]
    Panic {
        /// The set, as `namespace/name`.
        name: String,
        /// What the panic said.
        message: String,
    },
    /// Applications could not be written; the status names the first.
    #[error(
        "cannot write {count} of the applications of ApplicationSet {name}; the first is {first}"
    )]
    Applications {
        /// The set, as `namespace/name`.
        name: String,
        /// How many failed.
        count: usize,
        /// The first one by name, with the reason.
        first: String,
    },
}

/// The wait before a failed pass is tried again: it doubles from 0.2 s to
/// 5 minutes, with up to a quarter more by chance, so that what failed together
/// does not come back together.
pub fn backoff(failures: u32, chance: f64) -> Duration {
    let base = 0.2 * f64::from(2_u32.saturating_pow(failures.saturating_sub(1).min(16)));
    Duration::from_secs_f64(base.min(300.0) * (1.0 + 0.25 * chance.clamp(0.0, 1.0)))
}

/// The wait before a pass whose decision was outdated is made again, by how many
/// were in a row: the watch shows the change soon, and when it does not, asking
/// faster does not help. Doubles from 0.1 s to 25.6 s.
pub fn after_conflict(conflicts: u32) -> Duration {
    Duration::from_millis(100 << conflicts.saturating_sub(1).min(8))
}

#[cfg(test)]
mod tests {
    use super::{after_conflict, backoff};

    #[test]
    fn conflicts_with_a_watch_that_lags_do_not_become_a_hot_loop() {
        let waits = [0, 1, 2, 3, 1000].map(|count| after_conflict(count).as_millis());
        assert_eq!(waits, [100, 100, 200, 400, 25_600]);
    }

    #[test]
    fn waits_grow_and_are_bounded() {
        let seconds = |failures| backoff(failures, 0.0).as_secs_f64();
        assert_eq!([seconds(0), seconds(1), seconds(2), seconds(5)], [0.2, 0.2, 0.4, 3.2]);
        assert_eq!(seconds(1000), 300.0);
        assert!(backoff(1, 1.0) > backoff(1, 0.0));
    }
}
