//! How many simulations are done, on standard error while that is a terminal.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::cli::rollout_view::terminal;

/// The time between two lines.
const OFTEN: Duration = Duration::from_millis(200);
/// Back to the beginning of the line, without its text.
const CLEAR: &str = "\r\u{1b}[K";

/// Counts what is done; the line is gone with it.
pub(super) struct Progress {
    total: u32,
    shows: bool,
    /// How many are done, and when that was shown last.
    done: Mutex<(u32, Instant)>,
}

impl Progress {
    /// Of so many.
    pub fn of(total: u32) -> Self {
        let shows = total > 1 && stderr().is_terminal() && terminal::can_draw();
        Self { total, shows, done: Mutex::new((0, Instant::now())) }
    }

    /// One more is done.
    pub fn add(&self) {
        let mut done = self.done.lock();
        done.0 += 1;
        if self.shows && done.1.elapsed() >= OFTEN {
            done.1 = Instant::now();
            let _ = write!(stderr(), "{CLEAR}{} of {} simulations", done.0, self.total);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shows {
            let _ = write!(stderr(), "{CLEAR}");
        }
    }
}
