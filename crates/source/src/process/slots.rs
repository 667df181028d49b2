//! How many programs run at once, and with how much memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use turns::Turns;

use super::run::{Failure, Output, Run};
use super::tools::Programs;

/// What a program counts as at least, in bytes: what it will need is not known when it starts.
const EXPECTED: u64 = 128 << 20;

/// The slots of programs that render sources. Projects take turns, and the Applications of each.
#[derive(Debug)]
pub(crate) struct ProgramSlots {
    turns: Turns,
    memory: Memory,
}

/// The memory of the programs that run.
#[derive(Debug)]
struct Memory {
    limit: u64,
    running: Mutex<Vec<Arc<AtomicU64>>>,
    /// Notified when a program has ended.
    ended: Notify,
}

/// The memory of one program, until it is dropped.
struct Share<'a> {
    memory: &'a Memory,
    used: Arc<AtomicU64>,
}

impl ProgramSlots {
    pub(crate) fn new(programs: &Programs) -> Self {
        let (running, ended) = Default::default();
        let memory = Memory { limit: programs.memory_together, running, ended };
        Self { turns: Turns::limited_to(programs.parallel), memory }
    }

    /// Runs a program in its turn.
    pub(crate) async fn run(&self, run: Run<'_>) -> Result<Output, Failure> {
        let _turn = self.turns.take_mine().await;
        let share = self.memory.share().await;
        let used = |used| share.used.store(used, Ordering::Relaxed);
        run.watched(Some(&used)).await
    }
}

impl Memory {
    /// Waits until another program may start: one always may.
    async fn share(&self) -> Share<'_> {
        loop {
            let ended = self.ended.notified();
            if let Some(used) = self.begin() {
                return Share { memory: self, used };
            }
            ended.await;
        }
    }

    fn begin(&self) -> Option<Arc<AtomicU64>> {
        let mut running = self.running.lock();
        let used = |one: &Arc<AtomicU64>| one.load(Ordering::Relaxed).max(EXPECTED);
        let together: u64 = running.iter().map(used).sum();
        if !running.is_empty() && together.saturating_add(EXPECTED) > self.limit {
            return None;
        }
        let own = Arc::new(AtomicU64::new(0));
        running.push(Arc::clone(&own));
        Some(own)
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.memory.running.lock().retain(|one| !Arc::ptr_eq(one, &self.used));
        // One that waits is woken; it wakes nobody when there is room for more, so all are.
        self.memory.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn programs_start_while_those_that_run_leave_memory() {
        let (running, ended) = Default::default();
        let memory = Memory { limit: 4 * EXPECTED, running, ended };
        let first = memory.share().now_or_never().expect("one always starts");
        let second = memory.share().now_or_never().unwrap();
        first.used.store(3 * EXPECTED, Ordering::Relaxed);
        let mut third = Box::pin(memory.share());
        assert!((&mut third).now_or_never().is_none());
        drop(second);
        assert!((&mut third).now_or_never().is_some(), "three and one");
        first.used.store(9 * EXPECTED, Ordering::Relaxed);
        let mut alone = Box::pin(memory.share());
        assert!((&mut alone).now_or_never().is_none());
        drop(third);
        drop(first);
        assert!((&mut alone).now_or_never().is_some());
    }
}
