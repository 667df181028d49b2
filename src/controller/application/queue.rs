//! Which Application is worked on next.
//!
//! Each is in here once, however many events ask for it; while it is worked
//! on, further events make it follow once more. A failed pass is repeated
//! later and later; until then only what its user asks for wakes it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::api::ObjectKey;
use crate::decide::app_state::refresh::{Level, Request};

/// First pause after a failure, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(120));

/// What a reconcile was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Trigger {
    /// How thoroughly to compare.
    pub request: Request,
    /// When the latest request came in: an answer that is newer will do.
    pub at: Instant,
}

/// How a pass ended.
#[derive(Clone, Copy, Debug)]
pub enum ReconcileResult {
    /// Well; look again at this time even if nothing happens.
    Well(Option<Instant>),
    /// Not well; try again after a pause.
    Failed,
    /// The Application is gone.
    Gone,
}

#[derive(Debug, Default)]
struct Entry {
    request: Request,
    asked_at: Option<Instant>,
    queued: bool,
    running: bool,
    due: Option<Instant>,
    not_before: Option<Instant>,
    failures: u32,
}

#[derive(Debug, Default)]
struct Inner {
    entries: HashMap<ObjectKey, Entry>,
    ready: VecDeque<ObjectKey>,
    due: BTreeSet<(Instant, ObjectKey)>,
}

/// The queue.
#[derive(Debug, Default)]
pub struct Queue {
    inner: Mutex<Inner>,
    changed: Notify,
}

impl Queue {
    /// Asks for a pass now.
    pub fn wake(&self, key: &ObjectKey, request: Request) {
        let now = Instant::now();
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let entry = inner.entries.entry(key.clone()).or_default();
        entry.request = entry.request.and(request);
        entry.asked_at = Some(now);
        let pausing = entry.not_before.is_some_and(|until| until > now);
        if entry.queued || (pausing && request.level < Level::Newest) {
            return;
        }
        entry.queued = true;
        if !entry.running {
            inner.ready.push_back(key.clone());
            self.changed.notify_one();
        }
    }

    /// The next Application to work on; [`Self::done`] has to follow.
    pub async fn next(&self) -> (ObjectKey, Trigger) {
        loop {
            let changed = self.changed.notified();
            let due = match self.take() {
                Ok(found) => return found,
                Err(due) => due,
            };
            match due {
                Some(due) => {
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    fn take(&self) -> Result<(ObjectKey, Trigger), Option<Instant>> {
        let now = Instant::now();
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        while let Some((due, _)) = inner.due.first()
            && *due <= now
        {
            let Some((_, key)) = inner.due.pop_first() else { break };
            if let Some(entry) = inner.entries.get_mut(&key) {
                entry.due = None;
                if !entry.queued {
                    entry.queued = true;
                    if !entry.running {
                        inner.ready.push_back(key);
                    }
                }
            }
        }
        while let Some(key) = inner.ready.pop_front() {
            let Some(entry) = inner.entries.get_mut(&key) else { continue };
            entry.queued = false;
            entry.running = true;
            entry.not_before = None;
            let request = std::mem::take(&mut entry.request);
            let at = entry.asked_at.take().unwrap_or(now);
            return Ok((key, Trigger { request, at }));
        }
        Err(inner.due.first().map(|(due, _)| *due))
    }

    /// A pass has ended. What it was trigger for is trigger again if it failed.
    pub fn done(&self, key: &ObjectKey, trigger: Trigger, ended: ReconcileResult) {
        let now = Instant::now();
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let Some(entry) = inner.entries.get_mut(key) else { return };
        entry.running = false;
        if let Some(due) = entry.due.take() {
            inner.due.remove(&(due, key.clone()));
        }
        let due = match ended {
            ReconcileResult::Well(due) => {
                entry.failures = 0;
                due
            }
            ReconcileResult::Failed => {
                entry.request = entry.request.and(trigger.request);
                entry.asked_at = Some(entry.asked_at.unwrap_or(trigger.at));
                let pause = pause(entry.failures, key);
                entry.failures = entry.failures.saturating_add(1);
                entry.not_before = Some(now + pause);
                // What came in meanwhile waits as well, or failing in the
                // course of events would never pause.
                entry.queued &= entry.request.level >= Level::Newest && entry.failures < 3;
                Some(now + pause)
            }
            ReconcileResult::Gone => {
                if !entry.queued {
                    inner.entries.remove(key);
                    return;
                }
                None
            }
        };
        if entry.queued {
            inner.ready.push_back(key.clone());
            self.changed.notify_one();
        }
        if let Some(due) = due {
            entry.due = Some(due);
            inner.due.insert((due, key.clone()));
            self.changed.notify_one();
        }
    }
}

/// Doubles from failure to failure, spread by the name so that a fleet does
/// not come back at the same instant.
fn pause(failures: u32, key: &ObjectKey) -> Duration {
    let (first, longest) = BACKOFF;
    let pause = first.saturating_mul(1 << failures.min(16)).min(longest);
    pause.mul_f64(0.75 + 0.5 * spread(key))
}

/// A number from 0 to 1 that belongs to a name.
pub fn spread(key: &ObjectKey) -> f64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    (hasher.finish() % 1000) as f64 / 1000.0
}
