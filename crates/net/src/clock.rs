//! The clock, injected wherever the time is needed.
//!
//! Controllers read it once per reconcile and pass the time on, so that a decision uses
//! one point in time. Tests advance a clock manually.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// A source of time. Cheap to clone; clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    System,
    /// Advanced manually.
    Manual(Arc<Mutex<Timestamp>>),
    /// Another clock, such as that of a simulation.
    Other(Other),
}

#[derive(Clone)]
struct Other(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl fmt::Debug for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Other")
    }
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

    /// A clock that shows what another one does.
    pub fn of(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Source::Other(Other(Arc::new(now))))
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => Timestamp::now(),
            Source::Manual(at) => *at.lock(),
            Source::Other(Other(now)) => now(),
        }
    }

    /// Advances a manual clock; has no effect on another one.
    pub fn advance(&self, by: SignedDuration) {
        if let Source::Manual(at) = &self.0 {
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

    #[tokio::test(start_paused = true)]
    async fn the_clock_of_a_simulation_follows_tokio_and_can_be_set_back() {
        let simulated = kube_sim::ServerClock::starting_at(Timestamp::UNIX_EPOCH);
        let clock = {
            let simulated = simulated.clone();
            Clock::of(move || simulated.now())
        };
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().as_second(), 3600);
        simulated.shift(SignedDuration::from_secs(-60));
        assert_eq!(clock.now().as_second(), 3540);
    }
}
