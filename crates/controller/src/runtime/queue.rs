//! The queue of objects to reconcile.
//!
//! Each object is in the queue at most once. Events during its reconcile enqueue it
//! again. A failed reconcile is retried with increasing delays; until then only urgent
//! triggers start it. Projects take turns, so that a commit for thousands of objects of one has
//! those of the others wait for one at a time.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::backoff::{FailureBackoff, after_conflict};
use super::flows::Flows;
use super::result::{ReconcileResult, Wake};
use super::work::{Running, Work};
use wavegate_api::ObjectKey;

/// The request of a reconcile.
pub trait QueueRequest: Copy + Default + Send + Sync + std::fmt::Debug + 'static {
    /// The request that includes both.
    #[must_use]
    fn and(self, other: Self) -> Self;

    /// Whether it is urgent: it ignores the pause after a failure and comes before other
    /// requests.
    fn is_urgent(self) -> bool;
}

/// Why an object is reconciled.
#[derive(Clone, Copy, Debug)]
pub struct Trigger<R> {
    /// The combined request.
    pub request: R,
    /// When the latest request arrived: data that is newer is fresh enough.
    pub at: Instant,
    /// How many reconciles in a row were based on outdated objects.
    pub conflicts: u32,
}

#[derive(Debug, Default)]
struct Entry<R> {
    request: R,
    asked_at: Option<Instant>,
    /// Reconciled before others.
    first: bool,
    queued: bool,
    /// When it was enqueued, for metrics.
    queued_at: Option<Instant>,
    running: bool,
    /// When its reconcile began, for metrics.
    running_since: Option<Instant>,
    due: Option<Instant>,
    /// Due after the running reconcile, if that succeeds; otherwise it is repeated anyway.
    due_next: Option<Instant>,
    not_before: Option<Instant>,
    failures: u32,
    conflicts: u32,
    /// With whom it shares its turns; those of its namespace when that is not known.
    flow: Option<Arc<str>>,
}

#[derive(Debug, Default)]
struct Inner<R> {
    entries: HashMap<ObjectKey, Entry<R>>,
    /// Urgent keys.
    first: Flows,
    ready: Flows,
    due: BTreeSet<(Instant, ObjectKey)>,
    retries: u64,
}

impl<R: QueueRequest> Inner<R> {
    fn push(&mut self, key: ObjectKey, first: bool) {
        let flow = self.entries.get(&key).and_then(|entry| entry.flow.clone());
        let flow = flow.unwrap_or_else(|| key.namespace.as_str().into());
        if first { &mut self.first } else { &mut self.ready }.push(flow, key);
    }
}

/// The queue of one kind.
#[derive(Debug)]
pub struct Queue<R> {
    inner: Mutex<Inner<R>>,
    changed: Notify,
    backoff: FailureBackoff,
    work: Work,
}

impl<R: QueueRequest> Entry<R> {
    fn is_enqueued(&mut self, work: &Work, now: Instant) {
        if !self.queued {
            work.adds.inc();
            self.queued_at = Some(now);
        }
        self.queued = true;
    }
}

impl<R: QueueRequest> Queue<R> {
    /// An empty queue.
    pub fn new(backoff: FailureBackoff) -> Self {
        let (changed, work) = (Notify::new(), Work::default());
        Self { inner: Mutex::default(), changed, backoff, work }
    }

    /// Records with whom an object shares its turns from now on, such as its project.
    pub fn belongs_to(&self, key: &ObjectKey, flow: &str) {
        let mut inner = self.inner.lock();
        let entry = inner.entries.entry(key.clone()).or_default();
        if entry.flow.as_deref() != Some(flow) {
            entry.flow = Some(flow.into());
        }
    }

    /// Enqueues a reconcile.
    pub fn enqueue(&self, key: &ObjectKey, request: R) {
        self.add(key, request, request.is_urgent());
    }

    /// Enqueues a reconcile before others.
    pub fn enqueue_first(&self, key: &ObjectKey, request: R) {
        self.add(key, request, true);
    }

    /// Has an object reconciled after this time at the latest, for what is not urgent: many
    /// such events cause one reconcile.
    pub fn enqueue_within(&self, key: &ObjectKey, time: Duration) {
        let due = Instant::now() + time;
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let entry = inner.entries.entry(key.clone()).or_default();
        if entry.queued {
            return;
        }
        if entry.running {
            entry.due_next.get_or_insert(due);
            return;
        }
        // It does not end a pause after a failure.
        let due = entry.not_before.map_or(due, |until| due.max(until));
        if let Some(known) = entry.due {
            if known <= due {
                return;
            }
            inner.due.remove(&(known, key.clone()));
        }
        entry.due = Some(due);
        inner.due.insert((due, key.clone()));
        self.changed.notify_one();
    }

    fn add(&self, key: &ObjectKey, request: R, first: bool) {
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
        // Moved to the front; its previous position is skipped.
        if entry.queued && !overtakes {
            return;
        }
        entry.is_enqueued(&self.work, now);
        let first = entry.first;
        if !entry.running {
            inner.push(key.clone(), first);
            self.changed.notify_one();
        }
    }

    /// Waits for the next object to reconcile; [`Self::done`] must follow.
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
                        biased;
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
                    entry.is_enqueued(&self.work, now);
                    let first = entry.first;
                    if !entry.running {
                        inner.push(key, first);
                    }
                }
            }
        }
        while let Some(key) = inner.first.pop().or_else(|| inner.ready.pop()) {
            let Some(entry) = inner.entries.get_mut(&key) else { continue };
            // Already taken from another position.
            if !entry.queued || entry.running {
                continue;
            }
            entry.queued = false;
            if let Some(queued_at) = entry.queued_at.take() {
                let waited = now.saturating_duration_since(queued_at);
                self.work.waited.observe(waited.as_secs_f64());
            }
            entry.running = true;
            entry.running_since = Some(now);
            entry.not_before = None;
            entry.first = false;
            let request = std::mem::take(&mut entry.request);
            let at = entry.asked_at.take().unwrap_or(now);
            return Ok((key, Trigger { request, at, conflicts: entry.conflicts }));
        }
        Err(inner.due.first().map(|(due, _)| *due))
    }

    /// Adds what was requested since the object was taken, while its reconcile waited for a
    /// slot and for more events. The reconcile observes that as well, so data from before is
    /// not fresh enough.
    pub fn catch_up(&self, key: &ObjectKey, trigger: Trigger<R>) -> Trigger<R> {
        let mut inner = self.inner.lock();
        let entry = inner.entries.get_mut(key).filter(|entry| entry.running);
        let Some(entry) = entry else { return trigger };
        entry.due_next = None;
        // Also what was only due.
        (entry.queued, entry.first) = (false, false);
        let Some(at) = entry.asked_at.take() else { return trigger };
        let request = trigger.request.and(std::mem::take(&mut entry.request));
        Trigger { request, at, ..trigger }
    }

    /// Ends a reconcile. Its request is kept if it did not succeed. Returns the pause
    /// before the retry.
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
        let due_next = entry.due_next.take();
        if let Some(since) = entry.running_since.take() {
            self.work.ended(now.saturating_duration_since(since), ended);
        }
        if let Some(due) = entry.due.take() {
            inner.due.remove(&(due, key.clone()));
        }
        if matches!(ended, ReconcileResult::Failed | ReconcileResult::Outdated) {
            inner.retries += 1;
            entry.request = entry.request.and(trigger.request);
            // What has made it outdated may be a request that the watch has not reported.
            let at = if ended == ReconcileResult::Outdated { now } else { trigger.at };
            entry.asked_at = Some(entry.asked_at.unwrap_or(at));
        }
        let mut pause = None;
        let due = match ended {
            ReconcileResult::Success(wake) => {
                (entry.failures, entry.conflicts) = (0, 0);
                let due = match wake {
                    Wake::At(due) => Some(due),
                    Wake::On(_) => None,
                };
                due.into_iter().chain(due_next).min()
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
                // Events during the reconcile wait as well; otherwise frequent events
                // would prevent the pause.
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

/// The state of a queue, for metrics.
pub trait QueueStats: Send + Sync {
    /// How many objects wait for a reconcile.
    fn depth(&self) -> usize;

    /// How often a reconcile was repeated after a failure or a conflict.
    fn retries(&self) -> u64;

    /// The durations and results so far.
    fn work(&self) -> &Work;

    /// The reconciles that are running.
    fn running(&self) -> Running;
}

impl<R: QueueRequest> QueueStats for Queue<R> {
    fn depth(&self) -> usize {
        self.inner.lock().entries.values().filter(|entry| entry.queued).count()
    }

    fn retries(&self) -> u64 {
        self.inner.lock().retries
    }

    fn work(&self) -> &Work {
        &self.work
    }

    fn running(&self) -> Running {
        let now = Instant::now();
        let inner = self.inner.lock();
        let since = inner.entries.values().filter_map(|entry| entry.running_since);
        let running = since.map(|since| now.saturating_duration_since(since));
        running.fold(Running::default(), |all, one| Running {
            count: all.count + 1,
            total: all.total + one,
            longest: all.longest.max(one),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wavegate_engine::wait::WakeEvent;

    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    struct Urgent(bool);

    impl QueueRequest for Urgent {
        fn and(self, other: Self) -> Self {
            Self(self.0 || other.0)
        }

        fn is_urgent(self) -> bool {
            self.0
        }
    }

    fn queue() -> Queue<Urgent> {
        Queue::new(FailureBackoff { longest: Duration::from_secs(120) })
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
    async fn projects_take_turns_whatever_the_number_of_their_objects() {
        let queue = queue();
        for name in ["a0", "a1", "a2", "b0", "c0", "c1"] {
            queue.belongs_to(&key(name), &name[..1]);
            queue.enqueue(&key(name), Urgent(false));
        }
        let mut order = Vec::new();
        for _ in 0..6 {
            order.push(next(&queue).await.0);
        }
        assert_eq!(order, ["a0", "b0", "c0", "a1", "c1", "a2"]);
    }

    #[tokio::test(start_paused = true)]
    async fn urgent_keys_come_first_and_each_key_once() {
        let queue = queue();
        for name in ["a", "b", "c", "a"] {
            queue.enqueue(&key(name), Urgent(false));
        }
        queue.enqueue(&key("b"), Urgent(true));
        queue.enqueue_first(&key("c"), Urgent(false));
        let mut names = Vec::new();
        for _ in 0..3 {
            let (name, trigger) = next(&queue).await;
            queue.done(
                &key(&name),
                trigger,
                ReconcileResult::Success(Wake::On(&[WakeEvent::Application])),
            );
            names.push(name);
        }
        assert_eq!(names, ["b", "c", "a"]);
        assert!(is_idle(&queue));
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_during_a_reconcile_enqueues_the_key_again() {
        let queue = queue();
        queue.enqueue(&key("a"), Urgent(false));
        let (_, trigger) = next(&queue).await;
        queue.enqueue(&key("a"), Urgent(true));
        assert!(is_idle(&queue), "never two of one object");
        queue.done(&key("a"), trigger, ReconcileResult::Gone);
        let (_, trigger) = next(&queue).await;
        assert!(trigger.request.0);
        queue.done(&key("a"), trigger, ReconcileResult::Gone);
        assert!(queue.inner.lock().entries.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn data_from_before_the_latest_request_is_not_fresh_enough() {
        let queue = queue();
        let second = Duration::from_secs(1);
        queue.enqueue(&key("a"), Urgent(false));
        let (_, trigger) = next(&queue).await;
        // It waits for a slot.
        tokio::time::advance(second).await;
        queue.enqueue(&key("a"), Urgent(true));
        let latest = Instant::now();
        tokio::time::advance(second).await;
        let trigger = queue.catch_up(&key("a"), trigger);
        assert_eq!((trigger.at, trigger.request), (latest, Urgent(true)));
        assert_eq!(queue.catch_up(&key("a"), trigger).at, latest);
        queue.done(&key("a"), trigger, ReconcileResult::Outdated);
        let outdated = Instant::now();
        assert_eq!(next(&queue).await.1.at, outdated, "one reconcile, based on a newer object");
        queue.done(
            &key("a"),
            trigger,
            ReconcileResult::Success(Wake::On(&[WakeEvent::Application])),
        );
        assert!(is_idle(&queue), "nothing is left of the request");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_pauses_until_an_urgent_trigger_and_keeps_the_request() {
        let queue = queue();
        queue.enqueue(&key("a"), Urgent(true));
        let (_, trigger) = next(&queue).await;
        let pause = queue.done(&key("a"), trigger, ReconcileResult::Failed).unwrap();
        queue.enqueue(&key("a"), Urgent(false));
        assert!(is_idle(&queue));
        let began = Instant::now();
        let (_, trigger) = next(&queue).await;
        assert!(began.elapsed() >= pause && trigger.request.0);
        queue.done(&key("a"), trigger, ReconcileResult::Failed);
        queue.enqueue(&key("a"), Urgent(true));
        let (_, mut trigger) = next(&queue).await;
        // Urgent requests during repeated failures do not cause a hot loop.
        for _ in 0..3 {
            queue.enqueue(&key("a"), Urgent(true));
            queue.done(&key("a"), trigger, ReconcileResult::Failed);
            trigger = next(&queue).await.1;
        }
        assert!(began.elapsed() > Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_outdated_decision_is_retried_with_increasing_delays_or_at_the_next_event() {
        let queue = queue();
        queue.enqueue(&key("a"), Urgent(false));
        for conflicts in 0..3 {
            let (_, trigger) = next(&queue).await;
            assert_eq!(trigger.conflicts, conflicts);
            let pause = queue.done(&key("a"), trigger, ReconcileResult::Outdated);
            assert_eq!(pause, Some(after_conflict(conflicts + 1)));
        }
        queue.enqueue(&key("a"), Urgent(false));
        let (_, trigger) = queue.take().unwrap();
        queue.done(
            &key("a"),
            trigger,
            ReconcileResult::Success(Wake::On(&[WakeEvent::Application])),
        );
        queue.enqueue(&key("a"), Urgent(false));
        assert_eq!(next(&queue).await.1.conflicts, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_measured_se_554() {
        let queue = queue();
        let second = Duration::from_secs(1);
        queue.enqueue(&key("a"), Urgent(false));
        queue.enqueue(&key("a"), Urgent(true));
        assert_eq!((queue.work().adds.get(), queue.depth()), (1, 1), "once in the queue");
        tokio::time::advance(second).await;
        let (_, trigger) = next(&queue).await;
        tokio::time::advance(2 * second).await;
        let running = queue.running();
        assert_eq!((running.count, running.total, running.longest), (1, 2 * second, 2 * second));
        let due = Wake::At(Instant::now() + second);
        queue.done(&key("a"), trigger, ReconcileResult::Success(due));
        assert_eq!((queue.running(), queue.work().requeue_after.get()), (Running::default(), 1));
        for (ended, success, requeue, error) in [
            (ReconcileResult::Outdated, 0, 1, 0),
            (ReconcileResult::Failed, 0, 1, 1),
            (ReconcileResult::Gone, 1, 1, 1),
        ] {
            let (_, trigger) = next(&queue).await;
            queue.done(&key("a"), trigger, ended);
            let work = queue.work();
            let counts = (work.success.get(), work.requeue.get(), work.error.get());
            assert_eq!(counts, (success, requeue, error), "{ended:?}");
        }
        assert_eq!(queue.work().adds.get(), 4);
        assert_eq!(queue.retries(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_enqueued_at_its_due_time() {
        let queue = queue();
        queue.enqueue(&key("a"), Urgent(false));
        let (_, trigger) = next(&queue).await;
        let due = Instant::now() + Duration::from_secs(60);
        queue.done(&key("a"), trigger, ReconcileResult::Success(Wake::At(due)));
        next(&queue).await;
        assert_eq!(Instant::now(), due);
    }

    #[tokio::test(start_paused = true)]
    async fn events_that_are_not_urgent_share_a_reconcile() {
        let queue = queue();
        let [second, minute] = [1, 60].map(Duration::from_secs);
        let wake = |after: Duration| ReconcileResult::Success(Wake::At(Instant::now() + after));
        let start = Instant::now();
        for _ in 0..3 {
            queue.enqueue_within(&key("a"), 5 * second);
            assert!(is_idle(&queue));
            tokio::time::advance(second).await;
        }
        let (_, trigger) = next(&queue).await;
        assert_eq!((start.elapsed(), trigger.request), (5 * second, Urgent(false)));
        // It comes while one is running, and again.
        queue.enqueue_within(&key("a"), 5 * second);
        tokio::time::advance(second).await;
        queue.enqueue_within(&key("a"), 5 * second);
        queue.done(&key("a"), trigger, wake(minute));
        let (_, trigger) = next(&queue).await;
        assert_eq!(start.elapsed(), 10 * second, "after the first of them");
        queue.enqueue_within(&key("a"), minute);
        queue.catch_up(&key("a"), trigger);
        queue.done(&key("a"), trigger, wake(2 * minute));
        // What is due earlier stays so, and what is urgent does not wait for it.
        queue.enqueue_within(&key("a"), 3 * minute);
        queue.enqueue_within(&key("a"), minute);
        queue.enqueue(&key("a"), Urgent(true));
        let (_, trigger) = next(&queue).await;
        assert_eq!(start.elapsed(), 10 * second, "nothing was left of what it has caught up with");
        queue.enqueue_within(&key("a"), second);
        let pause = queue.done(&key("a"), trigger, ReconcileResult::Failed).unwrap();
        queue.enqueue_within(&key("a"), pause / 2);
        let before = Instant::now();
        next(&queue).await;
        assert_eq!(before.elapsed(), pause, "a pause after a failure is as long as it is");
    }
}
