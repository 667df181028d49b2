//! How long a watch that failed waits before it is tried again.

use std::time::Duration;

use kube::runtime::utils::Backoff;

const FIRST: Duration = Duration::from_millis(800);
const LONGEST: Duration = Duration::from_secs(30);

/// Twice as long each time. Unlike kube's default nothing is left to chance, so
/// that a run can be repeated.
#[derive(Debug)]
pub(super) struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let next = (self.0 * 2).min(LONGEST);
        Some(std::mem::replace(&mut self.0, next))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.0 = FIRST;
    }
}
