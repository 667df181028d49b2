//! Values that wait to be written.

use std::collections::{BTreeMap, BTreeSet};
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
}

impl Batch {
    /// Ends the waits for it: it is written.
    pub fn done(self) {
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
    order: std::collections::VecDeque<String>,
    bytes: usize,
}

impl Pending {
    /// Adds values. Returns false when too many wait already: then the values are left out, and
    /// the waits for them end with an error.
    pub fn add(&mut self, owner: &str, values: PendingValues, done: oneshot::Sender<()>) -> bool {
        if self.bytes.saturating_add(values.bytes()) > LIMIT {
            return false;
        }
        let batch = self.enter(owner);
        let before = batch.values.bytes();
        batch.values.extend(values);
        batch.waiting.push(done);
        let after = batch.values.bytes();
        self.bytes = self.bytes - before + after;
        true
    }

    /// The batch of an owner, at the end of the order if it is new.
    fn enter(&mut self, owner: &str) -> &mut Batch {
        if !self.by_owner.contains_key(owner) {
            self.order.push_back(owner.to_owned());
        }
        self.by_owner.entry(owner.to_owned()).or_default()
    }

    /// Takes the batch that has waited for the longest time.
    pub fn take(&mut self) -> Option<(String, Batch)> {
        let owner = self.order.pop_front()?;
        let batch = self.by_owner.remove(&owner)?;
        self.bytes -= batch.values.bytes();
        Some((owner, batch))
    }

    /// Puts back a batch that could not be written, below what came since.
    pub fn put_back(&mut self, owner: &str, batch: Batch) {
        let newer = self.by_owner.remove(owner);
        let Batch { mut values, mut waiting } = batch;
        if let Some(newer) = newer {
            self.bytes -= newer.values.bytes();
            values.extend(newer.values);
            waiting.extend(newer.waiting);
        } else {
            self.order.push_front(owner.to_owned());
        }
        self.bytes += values.bytes();
        self.by_owner.insert(owner.to_owned(), Batch { values, waiting });
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
        assert!(pending.add("shop", set("tree", "old"), one));
        let (owner, batch) = pending.take().unwrap();
        let mut newer = set("tree", "new");
        newer.delete("rows".to_owned());
        assert!(pending.add("shop", newer, two));
        pending.put_back(&owner, batch);
        let (_, batch) = pending.take().unwrap();
        assert_eq!(texts(&batch.values), [("tree", &b"new"[..])]);
        assert!(batch.values.deletes.contains("rows"));
        assert!(first.try_recv().is_err() && second.try_recv().is_err());
        batch.done();
        assert!(first.try_recv().is_ok() && second.try_recv().is_ok());
        assert_eq!((pending.bytes, pending.take().is_none()), (0, true));
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
        assert!(pending.add("a", big("a"), done));
        let (done, mut left) = oneshot::channel();
        assert!(!pending.add("b", big("b"), done));
        assert_eq!(left.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}
