//! Who is next: without a clock and without waiting.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::caller::Caller;

/// How long a caller counts as slow after work that took long.
const SLOW_FOR: Duration = Duration::from_secs(60);

/// Most callers that are known as slow.
const MAX_SLOW: usize = 4096;

/// The kinds of work, by the slots that they leave to others.
const SHORT: usize = 0;
const LONG: usize = 1;
pub(crate) const SLOW: usize = 2;

/// How long work takes by its nature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkLength {
    /// A moment, mostly.
    Short,
    /// It may be long.
    Long,
}

/// The slots that are held, and who waits; `T` is what somebody waits with.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    slots: usize,
    /// Work that runs, by its kind.
    running: [usize; 3],
    flows: HashMap<Arc<str>, Flow<T>>,
    /// Flows in which somebody waits, in the order of their turns; each once.
    order: VecDeque<Arc<str>>,
    /// Callers that count as slow, and until when.
    slow: HashMap<Caller, Instant>,
}

/// A flow in which somebody holds a slot or waits.
#[derive(Debug)]
struct Flow<T> {
    held: usize,
    /// The same by name; none has a zero.
    held_by: HashMap<Arc<str>, usize>,
    /// Names that wait, in the order of their turns; each once.
    order: VecDeque<Arc<str>>,
    waiting: HashMap<Arc<str>, VecDeque<(WorkLength, T)>>,
}

impl<T> Default for Flow<T> {
    fn default() -> Self {
        let (held_by, order, waiting) = Default::default();
        Self { held: 0, held_by, order, waiting }
    }
}

/// The slots that work of a kind and of the slower ones may hold together; those of a flow, and of
/// one caller, are the same.
fn at_most(slots: usize, kind: usize) -> usize {
    slots.saturating_sub(kind).max(1)
}

impl<T> Queue<T> {
    pub(crate) fn new(slots: usize) -> Self {
        let (flows, order, slow) = Default::default();
        Self { slots: slots.max(1), running: [0; 3], flows, order, slow }
    }

    /// Somebody waits for a slot.
    pub(crate) fn push(&mut self, caller: &Caller, length: WorkLength, waits: T) {
        let flow = self.flows.entry(Arc::clone(&caller.flow)).or_default();
        if flow.order.is_empty() {
            self.order.push_back(Arc::clone(&caller.flow));
        }
        let queue = flow.waiting.entry(Arc::clone(&caller.name)).or_default();
        if queue.is_empty() {
            flow.order.push_back(Arc::clone(&caller.name));
        }
        queue.push_back((length, waits));
    }

    /// The next one to get a slot, which it holds from now on, with the kind of its work. Those
    /// who are gone are forgotten.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        is_gone: impl Fn(&T) -> bool,
    ) -> Option<(T, Caller, usize)> {
        let Self { slots, running, flows, order, slow } = self;
        if running.iter().sum::<usize>() >= *slots {
            return None;
        }
        slow.retain(|_, until| now < *until);
        let is_free = |kind: usize| {
            (SHORT..=kind)
                .all(|limit| running[limit..].iter().sum::<usize>() < at_most(*slots, limit))
        };
        // Held slots of the flow, its place, and the place and the kind within.
        let mut best: Option<(usize, usize, usize, usize)> = None;
        let mut at = 0;
        while let Some(name) = order.get(at) {
            let Some(flow) = flows.get_mut(name) else { break };
            let is_fewer = best.is_none_or(|(held, ..)| flow.held < held);
            if is_fewer && flow.held < at_most(*slots, LONG) {
                let kind_of = |caller: &Caller, length: WorkLength| match length {
                    _ if slow.contains_key(caller) => SLOW,
                    WorkLength::Long => LONG,
                    WorkLength::Short => SHORT,
                };
                let most = at_most(*slots, SLOW);
                let found = flow.first(name, &is_gone, |caller, length, held| {
                    Some(kind_of(caller, length)).filter(|kind| held < most && is_free(*kind))
                });
                if let Some((place, kind)) = found {
                    best = Some((flow.held, at, place, kind));
                    if flow.held == 0 {
                        break;
                    }
                }
            }
            if flow.order.is_empty() {
                let is_idle = flow.held == 0;
                if let Some(name) = order.remove(at).filter(|_| is_idle) {
                    flows.remove(&name);
                }
            } else {
                at += 1;
            }
        }
        let (_, at, place, kind) = best?;
        self.begin(at, place, kind)
    }

    /// Gives a slot to the first one of the caller at this place of the flow at this one.
    fn begin(&mut self, at: usize, place: usize, kind: usize) -> Option<(T, Caller, usize)> {
        let flow_name = self.order.remove(at)?;
        let flow = self.flows.get_mut(&flow_name)?;
        let name = flow.order.remove(place)?;
        let queue = flow.waiting.get_mut(&name)?;
        let (_, waits) = queue.pop_front()?;
        if queue.is_empty() {
            flow.waiting.remove(&name);
        } else {
            flow.order.push_back(Arc::clone(&name));
        }
        if !flow.order.is_empty() {
            self.order.push_back(Arc::clone(&flow_name));
        }
        flow.held += 1;
        *flow.held_by.entry(Arc::clone(&name)).or_default() += 1;
        self.running[kind] += 1;
        Some((waits, Caller { flow: flow_name, name }, kind))
    }

    /// A slot is given back.
    pub(crate) fn end(&mut self, caller: &Caller, kind: usize) {
        self.running[kind] = self.running[kind].saturating_sub(1);
        let Some(flow) = self.flows.get_mut(&caller.flow) else { return };
        flow.held = flow.held.saturating_sub(1);
        match flow.held_by.get_mut(&caller.name) {
            Some(held) if *held > 1 => *held -= 1,
            _ => drop(flow.held_by.remove(&caller.name)),
        }
        if flow.held == 0 && flow.order.is_empty() {
            self.flows.remove(&caller.flow);
        }
    }

    /// Work of a caller took long, or did not.
    pub(crate) fn took(&mut self, caller: &Caller, long: bool, now: Instant) {
        if !long {
            self.slow.remove(caller);
        } else if self.slow.len() < MAX_SLOW || self.slow.contains_key(caller) {
            self.slow.insert(caller.clone(), now + SLOW_FOR);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.running == [0; 3] && self.flows.is_empty() && self.order.is_empty()
    }
}

impl<T> Flow<T> {
    /// The place of the first caller that may have a slot, and what `kind` says of it.
    fn first(
        &mut self,
        flow: &Arc<str>,
        is_gone: impl Fn(&T) -> bool,
        kind: impl Fn(&Caller, WorkLength, usize) -> Option<usize>,
    ) -> Option<(usize, usize)> {
        let mut at = 0;
        while let Some(name) = self.order.get(at).cloned() {
            let queue = self.waiting.entry(Arc::clone(&name)).or_default();
            while queue.front().is_some_and(|(_, waits)| is_gone(waits)) {
                queue.pop_front();
            }
            let Some((length, _)) = queue.front() else {
                self.waiting.remove(&name);
                self.order.remove(at);
                continue;
            };
            let held = self.held_by.get(&name).copied().unwrap_or_default();
            let caller = Caller { flow: Arc::clone(flow), name };
            if let Some(kind) = kind(&caller, *length, held) {
                return Some((at, kind));
            }
            at += 1;
        }
        None
    }
}
