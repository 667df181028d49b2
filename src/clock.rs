//! The clock, injected wherever the time is needed.
//!
//! Controllers read it once per reconcile and pass the time on, so that a decision uses
//! one point in time. Tests advance a clock manually.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// A source of time. Cheap to clone; clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// `None` is the system clock.
    moved: Option<Arc<Mutex<Timestamp>>>,
}

impl Clock {
    /// The system clock.
    pub fn system() -> Self {
        Self::default()
    }

    /// A clock that is advanced manually.
    pub fn standing_at(at: Timestamp) -> Self {
        Self { moved: Some(Arc::new(Mutex::new(at))) }
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        match &self.moved {
            Some(at) => *at.lock(),
            None => Timestamp::now(),
        }
    }

    /// Advances a manual clock; has no effect on the system clock.
    pub fn advance(&self, by: SignedDuration) {
        if let Some(at) = &self.moved {
            let mut at = at.lock();
            *at = at.saturating_add(by).unwrap_or(*at);
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
}
