//! Values that wait to be written.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

/// Bytes of values that wait while Redis is away.
const LIMIT: usize = 128 << 20;

/// A value with its time to live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// How long it stays.
    pub expiration: Duration,
}

/// What is written together for one owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingValues {
    /// Values by key.
    pub(super) sets: BTreeMap<String, Value>,
    /// Keys to delete.
    pub(super) deletes: BTreeSet<String>,
    /// The channel on which the write is announced.
    pub(super) channel: Option<String>,
}

impl PendingValues {
    /// Sets a key.
    pub fn set(&mut self, key: String, bytes: Vec<u8>, expiration: Duration) {
        self.deletes.remove(&key);
        self.sets.insert(key, Value { bytes, expiration });
    }

    /// Deletes a key.
    pub fn delete(&mut self, key: String) {
        self.sets.remove(&key);
        self.deletes.insert(key);
    }

    /// Announces the write on a channel.
    pub fn announce(&mut self, channel: String) {
        self.channel = Some(channel);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sets.is_empty() && self.deletes.is_empty() && self.channel.is_none()
    }

    /// Adds newer values.
    fn extend(&mut self, newer: Self) {
        for (key, value) in newer.sets {
            self.set(key, value.bytes, value.expiration);
        }
        for key in newer.deletes {
            self.delete(key);
        }
        self.channel = newer.channel.or(self.channel.take());
    }

    fn bytes(&self) -> usize {
        self.sets.values().map(|value| value.bytes.len()).sum()
    }
}

/// A value that Redis has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    digest: u64,
    renewed: Instant,
}

impl Written {
    pub fn now(value: &Value) -> Self {
        Self { digest: digest(&value.bytes), renewed: renewal(value.expiration) }
    }

    /// Whether Redis has this value for long enough.
    pub fn still_has(&self, value: &Value) -> bool {
        self.digest == digest(&value.bytes) && Instant::now() < self.renewed
    }
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// The newest values of an owner, and who waits for them.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub values: PendingValues,
    waiting: Vec<oneshot::Sender<()>>,
    /// How often Redis did not take them.
    pub failures: u32,
}

impl Batch {
    /// Ends the waits for it: it is written.
    fn done(self) {
        for waiting in self.waiting {
            // The receiver may have given up.
            let _ = waiting.send(());
        }
    }
}

/// The newest values of each owner that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Pending {
    by_owner: BTreeMap<String, Batch>,
    /// In the order in which they came.
    order: VecDeque<String>,
    /// Those that Redis did not take, and when they are tried again.
    again: BTreeSet<(Instant, String)>,
    /// Owners whose values are being written: newer ones wait for the outcome.
    busy: BTreeSet<String>,
    bytes: usize,
}

impl Pending {
    /// Adds values. Returns false when too many wait already: then the values are left out, and
    /// the waits for them end with an error, as they do without `done`.
    pub fn add(
        &mut self,
        owner: &str,
        values: PendingValues,
        done: Option<oneshot::Sender<()>>,
    ) -> bool {
        if self.bytes.saturating_add(values.bytes()) > LIMIT {
            return false;
        }
        if !self.by_owner.contains_key(owner) && !self.busy.contains(owner) {
            self.order.push_back(owner.to_owned());
        }
        let batch = self.by_owner.entry(owner.to_owned()).or_default();
        let before = batch.values.bytes();
        batch.values.extend(values);
        // What Redis did not take once may fail for long.
        batch.waiting.extend(done.filter(|_| batch.failures == 0));
        let after = batch.values.bytes();
        self.bytes = self.bytes - before + after;
        true
    }

    /// Takes the batch that has waited for the longest time, of those that are not tried again.
    /// Its outcome must be recorded by [`Self::written`], [`Self::put_back`] or [`Self::refused`].
    pub fn take(&mut self) -> Option<(String, Batch)> {
        let owner = self.order.pop_front()?;
        self.begin(owner)
    }

    /// Takes a batch that is due to be tried again; else when the next one is, if there is one.
    pub fn take_again(&mut self, now: Instant) -> Result<(String, Batch), Option<Instant>> {
        match self.again.first().map(|(due, _)| *due) {
            Some(due) if due <= now => {}
            due => return Err(due),
        }
        let first = self.again.pop_first();
        first.and_then(|(_, owner)| self.begin(owner)).ok_or(None)
    }

    fn begin(&mut self, owner: String) -> Option<(String, Batch)> {
        let batch = self.by_owner.remove(&owner)?;
        self.bytes -= batch.values.bytes();
        self.busy.insert(owner.clone());
        Some((owner, batch))
    }

    /// A batch is written; what came meanwhile is next in its turn.
    pub fn written(&mut self, owner: &str, batch: Batch) {
        self.busy.remove(owner);
        if self.by_owner.contains_key(owner) {
            self.order.push_back(owner.to_owned());
        }
        batch.done();
    }

    /// Puts back a batch that could not be written since Redis is away, below what came since.
    pub fn put_back(&mut self, owner: &str, batch: Batch) {
        self.merge(owner, batch);
        self.order.push_front(owner.to_owned());
    }

    /// Redis is there and did not take a batch: it is tried again apart from the others.
    pub fn refused(&mut self, owner: &str, mut batch: Batch, due: Instant) {
        batch.failures = batch.failures.saturating_add(1);
        self.merge(owner, batch);
        self.again.insert((due, owner.to_owned()));
    }

    /// Nobody waits longer for values that were not written at once.
    fn merge(&mut self, owner: &str, batch: Batch) {
        self.busy.remove(owner);
        let Batch { mut values, failures, .. } = batch;
        if let Some(newer) = self.by_owner.remove(owner) {
            self.bytes -= newer.values.bytes();
            values.extend(newer.values);
        }
        self.bytes += values.bytes();
        let batch = Batch { values, waiting: Vec::new(), failures };
        self.by_owner.insert(owner.to_owned(), batch);
    }
}

/// Until when a value counts as written.
pub(super) fn renewal(expiration: Duration) -> Instant {
    Instant::now() + expiration / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(key: &str, text: &str) -> PendingValues {
        let mut values = PendingValues::default();
        values.set(key.to_owned(), text.as_bytes().to_vec(), Duration::from_secs(60));
        values
    }

    fn texts(values: &PendingValues) -> Vec<(&str, &[u8])> {
        values.sets.iter().map(|(key, value)| (key.as_str(), &*value.bytes)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_newest_value_of_a_key_is_written_and_all_who_wait_are_told() {
        let mut pending = Pending::default();
        let (one, mut first) = oneshot::channel();
        let (two, mut second) = oneshot::channel();
        assert!(pending.add("shop", set("tree", "old"), Some(one)));
        let mut newer = set("tree", "new");
        newer.delete("rows".to_owned());
        assert!(pending.add("shop", newer, Some(two)));
        let (owner, batch) = pending.take().unwrap();
        assert_eq!(texts(&batch.values), [("tree", &b"new"[..])]);
        assert!(batch.values.deletes.contains("rows"));
        assert!(first.try_recv().is_err() && second.try_recv().is_err());
        pending.written(&owner, batch);
        assert!(first.try_recv().is_ok() && second.try_recv().is_ok());
        assert_eq!((pending.bytes, pending.take().is_none()), (0, true));
    }

    /// Values of one owner are written in their order, also when Redis was away meanwhile, and
    /// nobody waits for an outage.
    #[tokio::test(start_paused = true)]
    async fn newer_values_wait_for_the_outcome_of_older_ones() {
        let mut pending = Pending::default();
        let (one, mut waits) = oneshot::channel();
        assert!(pending.add("shop", set("tree", "old"), Some(one)));
        assert!(pending.add("cart", set("rows", "1"), None));
        let (owner, batch) = pending.take().unwrap();
        assert!(pending.add("shop", set("tree", "new"), None));
        assert_eq!(pending.take().unwrap().0, "cart", "not the newer ones of the same owner");
        pending.put_back(&owner, batch);
        assert_eq!(waits.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        let (owner, batch) = pending.take().unwrap();
        assert_eq!(texts(&batch.values), [("tree", &b"new"[..])]);
        assert!(pending.add("shop", set("tree", "newest"), None));
        pending.written(&owner, batch);
        assert_eq!(texts(&pending.take().unwrap().1.values), [("tree", &b"newest"[..])]);
    }

    /// One value that Redis refuses was tried for ever before all others.
    #[tokio::test(start_paused = true)]
    async fn a_refused_batch_is_tried_again_apart_from_the_others() {
        let mut pending = Pending::default();
        assert!(pending.add("big", set("tree", "1"), None));
        let (owner, batch) = pending.take().unwrap();
        let now = Instant::now();
        let due = now + Duration::from_secs(1);
        pending.refused(&owner, batch, due);
        // Newer values of the same owner are not tried before, and nobody waits for them.
        let (wait, mut waits) = oneshot::channel();
        assert!(pending.add("big", set("tree", "2"), Some(wait)));
        assert_eq!(waits.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert!(pending.take().is_none());
        assert_eq!(pending.take_again(now).unwrap_err(), Some(due));
        let (owner, batch) = pending.take_again(due).unwrap();
        assert_eq!((texts(&batch.values), batch.failures), (vec![("tree", &b"2"[..])], 1));
        pending.written(&owner, batch);
        assert!(pending.add("big", set("tree", "3"), None));
        assert_eq!(pending.take().unwrap().1.failures, 0, "Redis takes them again");
        assert_eq!((pending.bytes, pending.take_again(due).unwrap_err()), (0, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_counts_as_written_for_half_of_its_time() {
        let values = set("tree", "same");
        let (value, other) = (&values.sets["tree"], &set("tree", "other").sets["tree"]);
        let written = Written::now(value);
        assert!(written.still_has(value) && !written.still_has(other));
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(!written.still_has(value));
    }

    #[test]
    fn what_is_over_the_limit_is_left_out() {
        let mut pending = Pending::default();
        let big = |key: &str| {
            let mut values = PendingValues::default();
            values.set(key.to_owned(), vec![0; LIMIT / 2 + 1], Duration::from_secs(60));
            values
        };
        let (done, _kept) = oneshot::channel();
        assert!(pending.add("a", big("a"), Some(done)));
        let (done, mut left) = oneshot::channel();
        assert!(!pending.add("b", big("b"), Some(done)));
        assert_eq!(left.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}
