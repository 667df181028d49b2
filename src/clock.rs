//! The one place where the time comes from.
//!
//! Shells read the clock once per pass and hand the time down, so that a
//! decision sees one moment. Tests move a clock by hand.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// A source of time. Cheap to clone; clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// `None`: the system's clock.
    moved: Option<Arc<Mutex<Timestamp>>>,
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::default()
    }

    /// A clock that stands still until it is moved.
    pub fn standing_at(at: Timestamp) -> Self {
        Self { moved: Some(Arc::new(Mutex::new(at))) }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        match &self.moved {
            Some(at) => *at.lock(),
            None => Timestamp::now(),
        }
    }

    /// Moves a standing clock; the system's stays as it is.
    pub fn advance(&self, by: SignedDuration) {
        if let Some(at) = &self.moved {
            let mut at = at.lock();
            *at = at.saturating_add(by).unwrap_or(*at);
        }
    }
}

/// How much time of the processor this thread has used: a measure of work that
/// does not depend on what else the machine does.
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_clock_moves_only_by_hand() {
        let clock = Clock::standing_at(Timestamp::UNIX_EPOCH);
        let clone = clock.clone();
        clock.advance(SignedDuration::from_secs(5));
        assert_eq!(clone.now().as_second(), 5);
        assert!(Clock::system().now() > Timestamp::UNIX_EPOCH);
    }
}
