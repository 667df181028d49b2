//! Which object is reconciled next.
//!
//! Each is in here once, however many events ask for it; while it is
//! reconciled, further events make it follow once more. A reconcile that failed
//! is repeated later and later; until then only what is urgent wakes it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::backoff::{Backoff, after_conflict};
use crate::api::ObjectKey;

/// What a reconcile is asked for.
pub trait Request: Copy + Default + Send + Sync + std::fmt::Debug + 'static {
    /// What serves both.
    #[must_use]
    fn and(self, other: Self) -> Self;

    /// Whether somebody waits for it: it does not wait for the pause after a
    /// failure, and comes before what does not.
    fn is_urgent(self) -> bool;
}

/// Why an object is reconciled.
#[derive(Clone, Copy, Debug)]
pub struct Trigger<R> {
    /// What is asked for.
    pub request: R,
    /// When the latest request came in: an answer that is newer will do.
    pub at: Instant,
    /// How many reconciles in a row were decided on something outdated.
    pub conflicts: u32,
}

/// What follows a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileResult {
    /// It went well; look again at this time even if nothing happens.
    Well(Option<Instant>),
    /// What it was decided on has changed meanwhile; look again soon.
    Outdated,
    /// It failed; try again after a pause.
    Failed,
    /// The object is gone.
    Gone,
}

#[derive(Debug)]
struct Entry<R> {
    request: R,
    asked_at: Option<Instant>,
    /// It is reconciled before what is not.
    first: bool,
    queued: bool,
    running: bool,
    due: Option<Instant>,
    not_before: Option<Instant>,
    failures: u32,
    conflicts: u32,
}

impl<R: Request> Default for Entry<R> {
    fn default() -> Self {
        Self {
            request: R::default(),
            asked_at: None,
            first: false,
            queued: false,
            running: false,
            due: None,
            not_before: None,
            failures: 0,
            conflicts: 0,
        }
    }
}

#[derive(Debug)]
struct Inner<R> {
    entries: HashMap<ObjectKey, Entry<R>>,
    /// What somebody waits for.
    first: VecDeque<ObjectKey>,
    ready: VecDeque<ObjectKey>,
    due: BTreeSet<(Instant, ObjectKey)>,
}

impl<R: Request> Inner<R> {
    fn push(&mut self, key: ObjectKey, first: bool) {
        if first { &mut self.first } else { &mut self.ready }.push_back(key);
    }
}

/// The queue of one kind.
#[derive(Debug)]
pub struct Queue<R> {
    inner: Mutex<Inner<R>>,
    changed: Notify,
    backoff: Backoff,
}

impl<R: Request> Queue<R> {
    /// Nothing is asked for yet.
    pub fn new(backoff: Backoff) -> Self {
        let inner = Inner {
            entries: HashMap::new(),
            first: VecDeque::new(),
            ready: VecDeque::new(),
            due: BTreeSet::new(),
        };
        Self { inner: Mutex::new(inner), changed: Notify::new(), backoff }
    }

    /// Asks for a reconcile now.
    pub fn wake(&self, key: &ObjectKey, request: R) {
        self.ask(key, request, request.is_urgent());
    }

    /// The same, before what nobody waits for.
    pub fn wake_first(&self, key: &ObjectKey, request: R) {
        self.ask(key, request, true);
    }

    fn ask(&self, key: &ObjectKey, request: R, first: bool) {
        let now = Instant::now();
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let entry = inner.entries.entry(key.clone()).or_default();
        let overtakes = entry.queued && !entry.running && first && !entry.first;
        entry.request = entry.request.and(request);
        entry.asked_at = Some(now);
        entry.first |= first;
        let pausing = entry.not_before.is_some_and(|until| until > now);
        if pausing && !request.is_urgent() {
            return;
        }
        // What was waiting with the others goes to the front; its old place is
        // skipped.
        if entry.queued && !overtakes {
            return;
        }
        entry.queued = true;
        let first = entry.first;
        if !entry.running {
            inner.push(key.clone(), first);
            self.changed.notify_one();
        }
    }

    /// The next object to reconcile; [`Self::done`] has to follow.
    pub async fn next(&self) -> (ObjectKey, Trigger<R>) {
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

    fn take(&self) -> Result<(ObjectKey, Trigger<R>), Option<Instant>> {
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
                    let first = entry.first;
                    if !entry.running {
                        inner.push(key, first);
                    }
                }
            }
        }
        while let Some(key) = inner.first.pop_front().or_else(|| inner.ready.pop_front()) {
            let Some(entry) = inner.entries.get_mut(&key) else { continue };
            // It was taken from another place already.
            if !entry.queued || entry.running {
                continue;
            }
            entry.queued = false;
            entry.running = true;
            entry.not_before = None;
            entry.first = false;
            let request = std::mem::take(&mut entry.request);
            let at = entry.asked_at.take().unwrap_or(now);
            return Ok((key, Trigger { request, at, conflicts: entry.conflicts }));
        }
        Err(inner.due.first().map(|(due, _)| *due))
    }

    /// A reconcile has ended. What it was asked for is asked for again if it did
    /// not succeed. Gives back the pause before it is repeated.
    pub fn done(
        &self,
        key: &ObjectKey,
        trigger: Trigger<R>,
        ended: ReconcileResult,
    ) -> Option<Duration> {
        let now = Instant::now();
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let entry = inner.entries.get_mut(key)?;
        entry.running = false;
        if let Some(due) = entry.due.take() {
            inner.due.remove(&(due, key.clone()));
        }
        if matches!(ended, ReconcileResult::Failed | ReconcileResult::Outdated) {
            entry.request = entry.request.and(trigger.request);
            entry.asked_at = Some(entry.asked_at.unwrap_or(trigger.at));
        }
        let mut pause = None;
        let due = match ended {
            ReconcileResult::Well(due) => {
                (entry.failures, entry.conflicts) = (0, 0);
                due
            }
            ReconcileResult::Outdated => {
                entry.failures = 0;
                entry.conflicts = entry.conflicts.saturating_add(1);
                pause = Some(after_conflict(entry.conflicts));
                pause.map(|pause| now + pause)
            }
            ReconcileResult::Failed => {
                entry.conflicts = 0;
                let length = self.backoff.pause(entry.failures, key);
                entry.failures = entry.failures.saturating_add(1);
                pause = Some(length);
                entry.not_before = Some(now + length);
                // What came in meanwhile waits as well, or failing in the
                // course of events would never pause.
                entry.queued &= entry.request.is_urgent() && entry.failures < 3;
                entry.not_before
            }
            ReconcileResult::Gone => {
                if !entry.queued {
                    inner.entries.remove(key);
                    return None;
                }
                None
            }
        };
        entry.due = due;
        let queued = entry.queued.then_some(entry.first);
        if let Some(first) = queued {
            inner.push(key.clone(), first);
            self.changed.notify_one();
        }
        if let Some(due) = due {
            inner.due.insert((due, key.clone()));
            self.changed.notify_one();
        }
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    struct Urgent(bool);

    impl Request for Urgent {
        fn and(self, other: Self) -> Self {
            Self(self.0 || other.0)
        }

        fn is_urgent(self) -> bool {
            self.0
        }
    }

    fn queue() -> Queue<Urgent> {
        Queue::new(Backoff { longest: Duration::from_secs(120) })
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("ns", name)
    }

    async fn next(queue: &Queue<Urgent>) -> (String, Trigger<Urgent>) {
        let (key, trigger) = queue.next().await;
        (key.name, trigger)
    }

    fn is_idle(queue: &Queue<Urgent>) -> bool {
        queue.take().is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn what_somebody_waits_for_comes_first_and_each_comes_once() {
        let queue = queue();
        for name in ["a", "b", "c", "a"] {
            queue.wake(&key(name), Urgent(false));
        }
        queue.wake(&key("b"), Urgent(true));
        queue.wake_first(&key("c"), Urgent(false));
        let mut names = Vec::new();
        for _ in 0..3 {
            let (name, trigger) = next(&queue).await;
            queue.done(&key(&name), trigger, ReconcileResult::Well(None));
            names.push(name);
        }
        assert_eq!(names, ["b", "c", "a"]);
        assert!(is_idle(&queue));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_asked_for_meanwhile_follows_once_more() {
        let queue = queue();
        queue.wake(&key("a"), Urgent(false));
        let (_, trigger) = next(&queue).await;
        queue.wake(&key("a"), Urgent(true));
        assert!(is_idle(&queue), "never two of one object");
        queue.done(&key("a"), trigger, ReconcileResult::Gone);
        let (_, trigger) = next(&queue).await;
        assert!(trigger.request.0);
        queue.done(&key("a"), trigger, ReconcileResult::Gone);
        assert!(queue.inner.lock().entries.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_pauses_until_something_urgent_and_keeps_what_was_asked() {
        let queue = queue();
        queue.wake(&key("a"), Urgent(true));
        let (_, trigger) = next(&queue).await;
        let pause = queue.done(&key("a"), trigger, ReconcileResult::Failed).unwrap();
        queue.wake(&key("a"), Urgent(false));
        assert!(is_idle(&queue));
        let began = Instant::now();
        let (_, trigger) = next(&queue).await;
        assert!(began.elapsed() >= pause && trigger.request.0);
        queue.done(&key("a"), trigger, ReconcileResult::Failed);
        queue.wake(&key("a"), Urgent(true));
        let (_, mut trigger) = next(&queue).await;
        // Urgent requests that come while it fails and fails do not make it run
        // on and on.
        for _ in 0..3 {
            queue.wake(&key("a"), Urgent(true));
            queue.done(&key("a"), trigger, ReconcileResult::Failed);
            trigger = next(&queue).await.1;
        }
        assert!(began.elapsed() > Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_outdated_decision_is_made_again_later_and_later_or_at_the_next_event() {
        let queue = queue();
        queue.wake(&key("a"), Urgent(false));
        for conflicts in 0..3 {
            let (_, trigger) = next(&queue).await;
            assert_eq!(trigger.conflicts, conflicts);
            let pause = queue.done(&key("a"), trigger, ReconcileResult::Outdated);
            assert_eq!(pause, Some(after_conflict(conflicts + 1)));
        }
        queue.wake(&key("a"), Urgent(false));
        let (_, trigger) = queue.take().unwrap();
        queue.done(&key("a"), trigger, ReconcileResult::Well(None));
        queue.wake(&key("a"), Urgent(false));
        assert_eq!(next(&queue).await.1.conflicts, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_due_when_it_said_so() {
        let queue = queue();
        queue.wake(&key("a"), Urgent(false));
        let (_, trigger) = next(&queue).await;
        let due = Instant::now() + Duration::from_secs(60);
        queue.done(&key("a"), trigger, ReconcileResult::Well(Some(due)));
        next(&queue).await;
        assert_eq!(Instant::now(), due);
    }
}
