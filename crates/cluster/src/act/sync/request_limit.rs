//! One limit for the writes to clusters of the whole process, which slows down when a server
//! is overloaded (SE-297, SE-566).

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// The pause after a response with code 429 that names none.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause, whatever the server asks for.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// How many writes are in flight, and when the next one may start.
#[derive(Debug)]
pub struct RequestLimit {
    slots: Semaphore,
    /// No request starts before this time.
    paused_until: Mutex<Option<Instant>>,
}

impl RequestLimit {
    /// At most `parallel` requests at once, and at least one.
    pub fn new(parallel: usize) -> Self {
        let slots = parallel.clamp(1, Semaphore::MAX_PERMITS);
        Self { slots: Semaphore::new(slots), paused_until: Mutex::new(None) }
    }

    /// Waits until a request may be sent. It is sent while the permit is held.
    pub async fn acquire(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        let permit = self.slots.acquire().await.ok();
        loop {
            let until = *self.paused_until.lock();
            match until.filter(|until| *until > Instant::now()) {
                Some(until) => tokio::time::sleep_until(until).await,
                None => return permit,
            }
        }
    }

    /// Follows the answer to a request: after code 429, nothing is sent for the time that the
    /// server asks for.
    pub fn follow<T>(&self, answer: &Result<T, kube::Error>) {
        let Err(kube::Error::Api(status)) = answer else { return };
        if status.code != 429 {
            return;
        }
        let asked = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        let pause = match asked {
            0 => DEFAULT_PAUSE,
            seconds => Duration::from_secs(seconds.into()).min(MAX_PAUSE),
        };
        let until = Instant::now() + pause;
        let mut paused = self.paused_until.lock();
        *paused = Some(paused.map_or(until, |earlier| earlier.max(until)));
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use kube::core::response::StatusDetails;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_429_delays_the_requests_of_everybody_as_se_566() {
        let limit = RequestLimit::new(2);
        let answer = |code, seconds| -> Result<(), kube::Error> {
            let details = StatusDetails {
                name: String::new(),
                group: String::new(),
                kind: String::new(),
                uid: String::new(),
                causes: Vec::new(),
                retry_after_seconds: seconds,
            };
            let status = Status { code, details: Some(details), ..Status::default() };
            Err(kube::Error::Api(Box::new(status)))
        };
        let waited = async || {
            let start = Instant::now();
            drop(limit.acquire().await);
            start.elapsed()
        };
        limit.follow(&answer(500, 7));
        assert_eq!(waited().await, Duration::ZERO);
        limit.follow(&answer(429, 7));
        limit.follow(&answer(429, 0));
        assert_eq!(waited().await.as_secs(), 7);
        limit.follow(&answer(429, 86_400));
        assert_eq!(waited().await.as_secs(), MAX_PAUSE.as_secs());
        assert_eq!(waited().await, Duration::ZERO);
    }
}
