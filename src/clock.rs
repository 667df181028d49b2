//! The clock, injected wherever the time is needed.
//!
//! Controllers read it once per reconcile and pass the time on, so that a decision uses
//! one point in time. Tests advance a clock manually.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::Instant;

/// A source of time. Cheap to clone; clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    System,
    /// Advanced manually.
    Manual(Arc<Mutex<Timestamp>>),
    /// That of tokio, which a simulation lets jump: the time at `at`, and how far it was set
    /// forward since.
    Tokio { start: Timestamp, at: Instant, shift: Arc<Mutex<SignedDuration>> },
}

impl Clock {
    /// The system clock.
    pub fn system() -> Self {
        Self::default()
    }

    /// A clock that is advanced manually.
    pub fn standing_at(at: Timestamp) -> Self {
        Self(Source::Manual(Arc::new(Mutex::new(at))))
    }

    /// A clock that begins at `start` now, and follows tokio's clock.
    pub fn of_tokio(start: Timestamp) -> Self {
        Self(Source::Tokio { start, at: Instant::now(), shift: Arc::default() })
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => Timestamp::now(),
            Source::Manual(at) => *at.lock(),
            Source::Tokio { start, at, shift } => {
                let passed = SignedDuration::try_from(at.elapsed()).unwrap_or(SignedDuration::MAX);
                let passed = passed.saturating_add(*shift.lock());
                start.saturating_add(passed).unwrap_or(*start)
            }
        }
    }

    /// Advances a manual clock, or sets that of a simulation forward, or back by a negative
    /// time; has no effect on the system clock.
    pub fn advance(&self, by: SignedDuration) {
        match &self.0 {
            Source::System => {}
            Source::Manual(at) => {
                let mut at = at.lock();
                *at = at.saturating_add(by).unwrap_or(*at);
            }
            Source::Tokio { shift, .. } => {
                let mut shift = shift.lock();
                *shift = shift.saturating_add(by);
            }
        }
    }
}

/// CPU time of this thread: a measure of work that does not depend on the load of the machine.
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_clock_moves_only_when_set() {
        let clock = Clock::standing_at(Timestamp::UNIX_EPOCH);
        let clone = clock.clone();
        clock.advance(SignedDuration::from_secs(5));
        assert_eq!(clone.now().as_second(), 5);
        assert!(Clock::system().now() > Timestamp::UNIX_EPOCH);
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_of_a_simulation_follows_tokio_and_can_be_set_back() {
        let clock = Clock::of_tokio(Timestamp::UNIX_EPOCH);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().as_second(), 3600);
        clock.clone().advance(SignedDuration::from_secs(-60));
        assert_eq!(clock.now().as_second(), 3540);
    }
}
