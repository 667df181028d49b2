//! What a reconcile comes to: how the queue continues.

use std::time::Duration;

use tokio::time::Instant;

use wavegate_engine::wait::WakeEvent;

/// What ends the wait for the next reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// This time, unless an event comes first.
    At(Instant),
    /// One of these events.
    On(&'static [WakeEvent]),
}

/// Thirty years: effectively never.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

impl Wake {
    /// After this time, unless an event comes first.
    pub fn after(time: Duration) -> Self {
        let now = Instant::now();
        Self::At(now.checked_add(time).unwrap_or(now + FAR))
    }
}

/// How the queue continues after a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileResult {
    /// Success; reconcile again then.
    Success(Wake),
    /// The observed object has changed in the meantime; reconcile again soon.
    Outdated,
    /// Failure; retry after a pause.
    Failed,
    /// The object was deleted.
    Gone,
}
