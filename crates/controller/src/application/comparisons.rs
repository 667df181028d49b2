//! Which Applications are still to be compared with what their repositories have now.
//!
//! A commit may move an object from one Application to another, and the first one must not delete
//! it before it is known that the other one has it. So a deletion waits for the comparisons of those
//! that share a repository. One that takes long holds the others for a limited time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::queue::Queue;
use wavegate_api::ObjectKey;
use wavegate_api::repository::RepositoryUrl;
use wavegate_application::request::ComparisonRequest;
use wavegate_net::clock::Clock;

/// For how long others wait for one comparison. A repository that does not answer ends it with an
/// error much earlier; a start with thousands of Applications takes minutes.
const AWAITED_FOR: SignedDuration = SignedDuration::from_mins(5);

/// A repository, however its URL is written.
pub fn repository_place(url: &str) -> String {
    RepositoryUrl::of(url).place()
}

/// How a comparison has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonEnd {
    /// It is known what the Application has in its source.
    Known,
    /// It is not, and a retry does not help: what it had last counts.
    Unknown,
}

/// The Applications that are still to be compared.
#[derive(Debug)]
pub struct Comparisons {
    queue: Arc<Queue>,
    clock: Clock,
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    /// How often one was expected.
    count: u64,
    expected: BTreeMap<ObjectKey, Expected>,
    by_repository: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// Who waits for those of a repository, and what is asked for then.
    waiting: BTreeMap<String, BTreeMap<ObjectKey, ComparisonRequest>>,
}

#[derive(Debug)]
struct Expected {
    since: Timestamp,
    /// The count when it was expected last.
    last: u64,
    repositories: BTreeSet<String>,
    /// Whether it has ended, without being known.
    has_failed: bool,
}

impl Expected {
    fn is_awaited(&self, now: Timestamp) -> bool {
        !self.has_failed && now.duration_since(self.since) < AWAITED_FOR
    }
}

impl Pending {
    fn expect(&mut self, key: &ObjectKey, last: u64, now: Timestamp) {
        let new =
            || Expected { since: now, last, repositories: BTreeSet::new(), has_failed: false };
        let expected = self.expected.entry(key.clone()).or_insert_with(new);
        expected.last = expected.last.max(last);
        if std::mem::take(&mut expected.has_failed) {
            expected.since = now;
        }
    }

    fn add(&mut self, key: &ObjectKey, place: &str) {
        self.by_repository.entry(place.to_owned()).or_default().insert(key.clone());
        if let Some(expected) = self.expected.get_mut(key) {
            expected.repositories.insert(place.to_owned());
        }
    }
}

impl Comparisons {
    /// None is expected.
    pub fn new(queue: Arc<Queue>, clock: Clock) -> Self {
        Self { queue, clock, pending: Mutex::default() }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// An Application has to be compared, since it or one of these repositories has changed.
    pub fn expect(&self, key: &ObjectKey, repositories: impl IntoIterator<Item = String>) {
        let now = self.now();
        let mut pending = self.pending.lock();
        pending.count += 1;
        let last = pending.count;
        pending.expect(key, last, now);
        for place in repositories {
            pending.add(key, &place);
        }
    }

    /// These Applications have to be compared with a new commit, which `first` has found: what it
    /// reads now is the newest.
    pub fn moved(&self, first: &ObjectKey, all: &BTreeSet<ObjectKey>, place: &str) {
        let mut pending = self.pending.lock();
        let now = self.now();
        pending.count += 1;
        for key in all {
            let last = if key == first { 0 } else { pending.count };
            pending.expect(key, last, now);
            pending.add(key, place);
        }
    }

    /// Whether an Application is still to be compared.
    pub fn is_expected(&self, key: &ObjectKey) -> bool {
        self.pending.lock().expected.contains_key(key)
    }

    /// A mark for [`Self::ended`]: what is expected later is not met by what was read before.
    pub fn mark(&self) -> u64 {
        self.pending.lock().count
    }

    /// An Application was compared that was read at this mark.
    pub fn ended(&self, key: &ObjectKey, mark: u64, end: ComparisonEnd) {
        let mut pending = self.pending.lock();
        let Some(expected) = pending.expected.get_mut(key).filter(|one| one.last <= mark) else {
            return;
        };
        match end {
            ComparisonEnd::Known => return self.remove(&mut pending, key),
            ComparisonEnd::Unknown => expected.has_failed = true,
        }
        let repositories = expected.repositories.clone();
        self.wake(&mut pending, &repositories);
    }

    /// An Application is gone, or goes.
    pub fn forget(&self, key: &ObjectKey) {
        self.remove(&mut self.pending.lock(), key);
    }

    fn remove(&self, pending: &mut Pending, key: &ObjectKey) {
        let Some(Expected { repositories, .. }) = pending.expected.remove(key) else { return };
        for place in &repositories {
            if let Some(keys) = pending.by_repository.get_mut(place) {
                keys.remove(key);
                if keys.is_empty() {
                    pending.by_repository.remove(place);
                }
            }
        }
        self.wake(pending, &repositories);
    }

    /// Reconciles those who wait for nobody else any more. One of them may be the last itself.
    fn wake(&self, pending: &mut Pending, repositories: &BTreeSet<String>) {
        let now = self.now();
        for place in repositories {
            // Mostly none waits, and those that are expected may be thousands.
            if !pending.waiting.contains_key(place) {
                continue;
            }
            let left = pending.by_repository.get(place).into_iter().flatten();
            let is_awaited = |key: &&ObjectKey| {
                pending.expected.get(*key).is_some_and(|one| one.is_awaited(now))
            };
            if left.filter(is_awaited).nth(1).is_some() {
                continue;
            }
            for (waiting, request) in pending.waiting.remove(place).unwrap_or_default() {
                self.queue.enqueue(&waiting, request);
            }
        }
    }

    /// The other Applications of these repositories that are still to be compared, and whether they
    /// are awaited.
    pub fn others(
        &self,
        key: &ObjectKey,
        repositories: &BTreeSet<String>,
    ) -> Vec<(ObjectKey, bool)> {
        let (now, pending) = (self.now(), self.pending.lock());
        let sharing = repositories.iter().filter_map(|place| pending.by_repository.get(place));
        let keys: BTreeSet<&ObjectKey> = sharing.flatten().filter(|other| *other != key).collect();
        let found = keys.into_iter().filter_map(|key| Some((key, pending.expected.get(key)?)));
        found.map(|(key, one)| (key.clone(), one.is_awaited(now))).collect()
    }

    /// Reconciles an Application when nobody else of these repositories is awaited any more.
    pub fn wait(
        &self,
        key: &ObjectKey,
        repositories: &BTreeSet<String>,
        request: ComparisonRequest,
    ) {
        let mut pending = self.pending.lock();
        for place in repositories {
            let waiting = pending.waiting.entry(place.clone()).or_default();
            let known = waiting.entry(key.clone()).or_default();
            *known = known.and(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparisons() -> (Comparisons, Clock) {
        let clock = Clock::standing_at("2026-01-01T00:00:00Z".parse().unwrap());
        let queue = Arc::new(Queue::new(super::super::BACKOFF));
        (Comparisons::new(queue, clock.clone()), clock)
    }

    #[test]
    fn one_is_awaited_until_it_is_known_or_takes_too_long() {
        let (comparisons, clock) = comparisons();
        let [a, b, c] = ["a", "b", "c"].map(|name| ObjectKey::new("argocd", name));
        let repository = || [repository_place("https://example.com/x.git")];
        let all = BTreeSet::from(repository());
        let others = |of: &ObjectKey| comparisons.others(of, &all);
        for key in [&a, &b, &c] {
            comparisons.expect(key, repository());
        }
        let other = BTreeSet::from([repository_place("https://example.com/y")]);
        assert_eq!(comparisons.others(&a, &other), []);
        assert_eq!(others(&a), [(b.clone(), true), (c.clone(), true)]);
        let read = comparisons.mark();
        comparisons.expect(&b, repository());
        comparisons.ended(&b, read, ComparisonEnd::Known);
        assert_eq!(others(&a).len(), 2, "it was read before it changed");
        comparisons.ended(&b, comparisons.mark(), ComparisonEnd::Known);
        assert_eq!(others(&a), [(c.clone(), true)]);
        comparisons.ended(&c, comparisons.mark(), ComparisonEnd::Unknown);
        assert_eq!(others(&a), [(c.clone(), false)]);
        comparisons.expect(&c, repository());
        assert_eq!(others(&a), [(c.clone(), true)], "there is another commit");
        clock.advance(AWAITED_FOR);
        assert_eq!(others(&a), [(c.clone(), false)]);
        comparisons.expect(&c, repository());
        assert_eq!(others(&a), [(c.clone(), false)], "it does not hold others again and again");
        comparisons.forget(&c);
        assert_eq!(others(&a), []);
    }
}
