//! Slots that callers take in turns, so that who asks for little waits little.
//!
//! A [`Caller`] belongs to a flow: an Application to its project. A free slot goes to the flow
//! that holds the fewest; of those that hold as many, to the one whose last turn is the longest
//! ago; within a flow, to the caller whose last turn is the longest ago. Besides, of `n` slots
//!
//! - a flow holds `n - 1` at most, and one caller of it `n - 2`;
//! - work that may take long by its nature holds `n - 1` at most, together with that of the
//!   next line;
//! - callers whose last work took long hold `n - 2` at most together, for a minute.
//!
//! So, whatever one flow holds and for however long, another one finds a slot that it cannot
//! have. Each limit is one slot at least. The API server's priority and fairness is the model.

mod caller;
mod queue;

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::oneshot;

pub use caller::{Caller, current_caller, on_behalf_of};
use queue::Queue;
pub use queue::WorkLength;

/// Some slots, and who waits for them. Clones share them.
#[derive(Clone, Debug)]
pub struct Turns(Arc<Mutex<Queue<oneshot::Sender<Turn>>>>);

/// The right to use one slot; given back when it is dropped.
#[derive(Debug)]
pub struct Turn {
    turns: Turns,
    caller: Caller,
    kind: usize,
}

impl Turns {
    /// This number of slots, at least one.
    pub fn new(slots: usize) -> Self {
        Self(Arc::new(Mutex::new(Queue::new(slots))))
    }

    /// At most so many slots, as a user sets it; 0 is no limit.
    pub fn limited_to(limit: usize) -> Self {
        Self::new(if limit == 0 { usize::MAX } else { limit })
    }

    /// Waits for the next slot of this caller. Cancel-safe.
    pub async fn take(&self, caller: &Caller, length: WorkLength) -> Turn {
        loop {
            let (turn, given) = oneshot::channel();
            self.0.lock().push(caller, length, turn);
            self.give();
            // Not given only if its sender was lost, which does not happen.
            if let Ok(turn) = given.await {
                return turn;
            }
        }
    }

    /// Waits for the next slot of the caller of this task ([`current_caller`]). Cancel-safe.
    pub async fn take_mine(&self) -> Turn {
        self.take(&current_caller(), WorkLength::Short).await
    }

    /// Gives free slots to those who wait.
    fn give(&self) {
        loop {
            let next = self.0.lock().next(Instant::now(), |turn| turn.is_closed());
            let Some((turn, caller, kind)) = next else { return };
            // Given back when nobody waits any more.
            drop(turn.send(Turn { turns: self.clone(), caller, kind }));
        }
    }
}

impl Turn {
    /// Whether the last work of the caller took long.
    pub fn is_of_slow(&self) -> bool {
        self.kind == queue::SLOW
    }

    /// Records that the work took long, or did not.
    pub fn took(&self, long: bool) {
        self.turns.0.lock().took(&self.caller, long, Instant::now());
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.0.lock().end(&self.caller, self.kind);
        self.turns.give();
    }
}

#[cfg(test)]
mod tests;
