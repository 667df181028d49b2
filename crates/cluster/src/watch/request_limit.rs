//! The limit of the writes to one cluster, which slows down when its server is overloaded
//! (SE-297, SE-566). A cluster that hangs, or asks to wait, holds up no other one; and those who
//! write to one take turns.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use turns::{Turn, Turns};

/// The pause after a response with code 429 that names none.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause, whatever the server asks for.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// How many writes are in flight, and when the next one may start.
#[derive(Debug)]
pub struct RequestLimit {
    turns: Turns,
    /// No request starts before this time.
    paused_until: Mutex<Option<Instant>>,
}

impl RequestLimit {
    /// At most `parallel` requests at once; 0 is no limit.
    pub fn new(parallel: usize) -> Self {
        Self { turns: Turns::limited_to(parallel), paused_until: Mutex::new(None) }
    }

    /// Sends a request when it is the turn of who asks, and follows its answer: after code 429,
    /// nothing is sent to this cluster for the time that the server asks for.
    pub async fn send<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, kube::Error> {
        let _turn = self.acquire().await;
        let answer = request.await;
        self.follow(&answer);
        answer
    }

    /// Waits until a request may be sent. It is sent while the turn is held.
    async fn acquire(&self) -> Turn {
        loop {
            // Those who wait hold nothing, so that the first ones to go on are of all callers.
            let until = *self.paused_until.lock();
            if let Some(until) = until.filter(|until| *until > Instant::now()) {
                tokio::time::sleep_until(until).await;
                continue;
            }
            let turn = self.turns.take_mine().await;
            if self.paused_until.lock().is_none_or(|until| until <= Instant::now()) {
                return turn;
            }
        }
    }

    fn follow<T>(&self, answer: &Result<T, kube::Error>) {
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
