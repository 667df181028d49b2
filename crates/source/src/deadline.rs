//! The time limit of work on a thread that may block. Nothing stops such a thread from outside,
//! so the work asks, wherever it begins with the next file, entry or part.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Longest work with the files of one source, as one run of `helm` or `kustomize` may take.
pub(crate) const MAX_WORK: Duration = Duration::from_secs(90);

thread_local! {
    static END: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Does work that asks [`is_over`]. Within other limited work, the earlier end holds.
pub(crate) fn limited<T>(limit: Duration, work: impl FnOnce() -> T) -> T {
    /// Sets the former end again, after a panic too: threads are used again.
    struct Former(Option<Instant>);
    impl Drop for Former {
        fn drop(&mut self) {
            END.set(self.0);
        }
    }
    let outer = Former(END.get());
    let own = Instant::now() + limit;
    END.set(Some(outer.0.map_or(own, |end| end.min(own))));
    work()
}

/// Does what waits for others, which does not count.
pub(crate) fn paused<T>(work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    END.set(END.get().map(|end| end + began.elapsed()));
    done
}

/// Whether the work on this thread has taken too long; never without a limit.
pub(crate) fn is_over() -> bool {
    END.get().is_some_and(|end| Instant::now() >= end)
}

/// Does work on a thread that may block, which asks [`check`].
///
/// # Errors
///
/// Only while the runtime shuts down.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, tokio::task::JoinError> {
    tokio::task::spawn_blocking(|| limited(MAX_WORK, work)).await
}

/// That the work has time left.
///
/// # Errors
///
/// [`std::io::ErrorKind::TimedOut`].
pub(crate) fn check() -> std::io::Result<()> {
    if !is_over() {
        return Ok(());
    }
    let limit = MAX_WORK.as_secs();
    let text = format!("it takes more than {limit} s; split the repository");
    Err(std::io::Error::new(std::io::ErrorKind::TimedOut, text))
}
