//! Who gets a worker next, so that nobody can hold them all.
//!
//! Callers take turns: of those whose requests wait, the one that waited longest since its
//! last turn is next. Besides, of `n` workers
//!
//! - one caller holds `n - 1` at most;
//! - evaluations that may take long by their nature hold `n - 1` at most, together with those
//!   of the next line;
//! - callers whose last evaluation took long hold `n - 2` at most together, for a minute.
//!
//! So, however many callers write what runs until its limit, a quick evaluation finds a
//! worker that they cannot have, and a long one of somebody else another. Each limit is one
//! worker at least.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::channel::oneshot;
use parking_lot::Mutex;

/// How long a caller counts as slow after an evaluation that took long.
const SLOW_FOR: Duration = Duration::from_secs(60);

/// Most callers that are known as slow.
const MAX_SLOW: usize = 4096;

/// The kinds of evaluations, by the workers that they may hold.
const QUICK: usize = 0;
const LONG: usize = 1;
const SLOW: usize = 2;

/// The turns of a pool. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    workers: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Evaluations that run, by their kind.
    running: [usize; 3],
    /// The same by caller; none has a zero.
    by_caller: HashMap<Arc<str>, usize>,
    /// Callers that wait, in the order of their turns; each once.
    order: VecDeque<Arc<str>>,
    waiting: HashMap<Arc<str>, VecDeque<Waiting>>,
    /// Callers that count as slow, and until when.
    slow: HashMap<Arc<str>, Instant>,
}

#[derive(Debug)]
struct Waiting {
    is_long: bool,
    turn: oneshot::Sender<Turn>,
}

/// The right to use one worker; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Turns,
    caller: Arc<str>,
    kind: usize,
}

impl Turns {
    pub(super) fn new(workers: usize) -> Self {
        Self { workers: workers.max(1), state: Arc::default() }
    }

    /// Waits for a worker; `is_long` when the evaluation may take long by its nature.
    ///
    /// Cancel-safe.
    pub(super) async fn take(&self, caller: &str, is_long: bool) -> Option<Turn> {
        let (turn, given) = oneshot::channel();
        {
            let mut state = self.state.lock();
            let caller: Arc<str> = caller.into();
            let queue = state.waiting.entry(Arc::clone(&caller)).or_default();
            queue.push_back(Waiting { is_long, turn });
            if queue.len() == 1 {
                state.order.push_back(caller);
            }
        }
        self.give();
        given.await.ok()
    }

    /// Gives turns to those who wait, as far as there are workers.
    fn give(&self) {
        loop {
            let next = self.state.lock().next(self.workers);
            let Some((waiting, caller, kind)) = next else { return };
            // Returned when nobody waits any more, and given back.
            drop(waiting.turn.send(Turn { turns: self.clone(), caller, kind }));
        }
    }
}

impl State {
    /// The next one to get a worker, which counts as its holder from now on.
    fn next(&mut self, workers: usize) -> Option<(Waiting, Arc<str>, usize)> {
        let now = Instant::now();
        self.slow.retain(|_, until| now < *until);
        let all: usize = self.running.iter().sum();
        if all >= workers {
            return None;
        }
        let mut at = 0;
        while let Some(caller) = self.order.get(at).cloned() {
            let queue = self.waiting.entry(Arc::clone(&caller)).or_default();
            while queue.front().is_some_and(|first| first.turn.is_canceled()) {
                queue.pop_front();
            }
            let Some(is_long) = queue.front().map(|first| first.is_long) else {
                self.waiting.remove(&caller);
                self.order.remove(at);
                continue;
            };
            let kind = match (self.slow.contains_key(&caller), is_long) {
                (true, _) => SLOW,
                (false, true) => LONG,
                (false, false) => QUICK,
            };
            let held = self.by_caller.get(&caller).copied().unwrap_or_default();
            if held < at_most(workers, LONG) && self.is_free(workers, kind) {
                return self.begin(at, caller, kind);
            }
            at += 1;
        }
        None
    }

    /// Takes the first request of the caller at this place.
    fn begin(
        &mut self,
        at: usize,
        caller: Arc<str>,
        kind: usize,
    ) -> Option<(Waiting, Arc<str>, usize)> {
        let queue = self.waiting.get_mut(&caller)?;
        let waiting = queue.pop_front()?;
        self.order.remove(at);
        if queue.is_empty() {
            self.waiting.remove(&caller);
        } else {
            self.order.push_back(Arc::clone(&caller));
        }
        self.running[kind] += 1;
        *self.by_caller.entry(Arc::clone(&caller)).or_default() += 1;
        Some((waiting, caller, kind))
    }

    /// Whether one more of this kind may run: those that count with it are below its limit.
    fn is_free(&self, workers: usize, kind: usize) -> bool {
        (QUICK..=kind).all(|limit| {
            let together: usize = self.running[limit..].iter().sum();
            together < at_most(workers, limit)
        })
    }
}

/// The workers that evaluations of a kind and those of the slower ones may hold together.
fn at_most(workers: usize, kind: usize) -> usize {
    workers.saturating_sub(kind).max(1)
}

impl Turn {
    /// Notes that the evaluation took long, or did not.
    pub(super) fn took(&self, long: bool) {
        let mut state = self.turns.state.lock();
        if !long {
            state.slow.remove(&self.caller);
        } else if state.slow.len() < MAX_SLOW || state.slow.contains_key(&self.caller) {
            state.slow.insert(Arc::clone(&self.caller), Instant::now() + SLOW_FOR);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        {
            let mut state = self.turns.state.lock();
            state.running[self.kind] = state.running[self.kind].saturating_sub(1);
            let held = state.by_caller.get(&self.caller).copied().unwrap_or_default();
            match held {
                0 | 1 => drop(state.by_caller.remove(&self.caller)),
                held => drop(state.by_caller.insert(Arc::clone(&self.caller), held - 1)),
            }
        }
        self.turns.give();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    type Asked = futures::future::BoxFuture<'static, Option<Turn>>;

    fn ask(turns: &Turns, caller: &'static str, is_long: bool) -> Asked {
        let turns = turns.clone();
        let mut asked = async move { turns.take(caller, is_long).await }.boxed();
        // Its place is that of its first poll.
        match (&mut asked).now_or_never() {
            Some(turn) => std::future::ready(turn).fuse().boxed(),
            None => asked.fuse().boxed(),
        }
    }

    fn turn(asked: &mut Asked) -> Option<Turn> {
        asked.now_or_never().flatten()
    }

    #[test]
    fn callers_take_turns_whatever_the_number_of_their_requests() {
        let turns = Turns::new(1);
        let held = turn(&mut ask(&turns, "first", false)).unwrap();
        let mut many: Vec<Asked> = (0..5).map(|_| ask(&turns, "many", false)).collect();
        let mut one = ask(&turns, "one", false);
        drop(held);
        let held = turn(&mut many[0]).unwrap();
        assert!(turn(&mut one).is_none());
        drop(held);
        drop(turn(&mut one).expect("it comes before the second one of many"));
        for asked in &mut many[1..] {
            drop(turn(asked).unwrap());
        }
    }

    #[test]
    fn nobody_holds_all_workers() {
        let turns = Turns::new(3);
        let mut asked: Vec<Asked> = (0..3).map(|_| ask(&turns, "a", false)).collect();
        let mut held: Vec<Turn> = asked.iter_mut().filter_map(turn).collect();
        assert_eq!(held.len(), 2);
        let other = turn(&mut ask(&turns, "b", false));
        assert!(other.is_some(), "the third one is left to others");
        held.pop();
        assert!(turn(&mut asked[2]).is_some());
    }

    #[test]
    fn long_evaluations_leave_one_worker_and_slow_callers_two() {
        let turns = Turns::new(3);
        let mut jsonnet: Vec<Asked> =
            ["a", "b", "c"].into_iter().map(|caller| ask(&turns, caller, true)).collect();
        let held: Vec<Turn> = jsonnet.iter_mut().filter_map(turn).collect();
        assert_eq!(held.len(), 2);
        for one in &held {
            one.took(true);
        }
        // A quick one has a worker while they run.
        drop(turn(&mut ask(&turns, "quick", false)).unwrap());
        drop(held);
        // Of those who are slow now, quick ones included, only one runs at once.
        let third = turn(&mut jsonnet[2]).unwrap();
        let mut slow: Vec<Asked> =
            ["a", "b"].into_iter().map(|caller| ask(&turns, caller, false)).collect();
        let first: Vec<Turn> = slow.iter_mut().filter_map(turn).collect();
        assert_eq!(first.len(), 1);
        let quick = turn(&mut ask(&turns, "quick", false));
        assert!(quick.is_some(), "a, c and quick");
        drop((third, quick));
        assert!(slow.iter_mut().filter_map(turn).next().is_none());
        // One that was quick again is slow no more.
        first[0].took(false);
        drop(first);
        let mut second: Vec<Turn> = slow.iter_mut().filter_map(turn).collect();
        assert_eq!(second.len(), 1);
        assert!(turn(&mut ask(&turns, "a", true)).is_some());
        second.clear();
        let state = turns.state.lock();
        assert_eq!((state.running, state.by_caller.len(), state.waiting.len()), ([0; 3], 0, 0));
    }

    #[test]
    fn one_that_does_not_wait_any_more_takes_no_turn() {
        let turns = Turns::new(1);
        let held = turn(&mut ask(&turns, "a", false)).unwrap();
        let gone: Vec<Asked> = (0..10_000).map(|_| ask(&turns, "b", false)).collect();
        let mut stays = ask(&turns, "c", false);
        drop(gone);
        drop(held);
        assert!(turn(&mut stays).is_some());
        assert!(turns.state.lock().order.is_empty());
    }
}
