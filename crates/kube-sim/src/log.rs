//! The latest changes of one resource, from which watches and lists of the past
//! are answered.
//!
//! Bounded in number and in bytes: a request for an older version gets
//! 410 Gone, as the real one answers for what etcd has compacted.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::place::Key;
use super::stored::Stored;

/// Changes kept per resource.
pub(crate) const LOG_LIMIT: usize = 10_000;

/// Bytes of objects kept per resource that are no longer stored.
pub(crate) const LOG_BYTES: usize = 8 << 20;

/// One change. `before` is absent for a creation.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub revision: u64,
    pub key: Key,
    pub before: Option<Arc<Stored>>,
    /// For a removal: the object with the revision of the removal.
    pub after: Arc<Stored>,
    pub removed: bool,
}

impl Change {
    /// Bytes that nothing but the log keeps: the state that was replaced, and
    /// the last one of an object that is gone. A state that is stored, or that
    /// a later change replaced, counts elsewhere.
    fn bytes(&self) -> usize {
        let last = if self.removed { self.after.json.len() } else { 0 };
        self.before.as_ref().map_or(0, |before| before.json.len()) + last
    }
}

/// The changes of one resource, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Log {
    changes: VecDeque<Change>,
    bytes: usize,
    /// Nothing resumes from before this revision.
    compacted: u64,
    /// The last change that is no longer here: a watch that has seen it misses nothing.
    lost: u64,
}

impl Log {
    pub fn push(&mut self, change: Change) {
        self.bytes += change.bytes();
        self.changes.push_back(change);
        while self.changes.len() > LOG_LIMIT || self.bytes > LOG_BYTES {
            let Some(oldest) = self.changes.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.bytes());
            self.compacted = self.compacted.max(oldest.revision);
            self.lost = oldest.revision;
        }
    }

    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Bytes that only the log keeps.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes after a revision, oldest first; `None` when some are forgotten.
    pub fn since(&self, revision: u64) -> Option<impl Iterator<Item = &Change>> {
        if revision < self.compacted { None } else { self.unseen(revision) }
    }

    /// As [`Self::since`], for a watch that was open all the time: compaction
    /// does not trouble it unless it was behind.
    pub fn unseen(&self, revision: u64) -> Option<impl Iterator<Item = &Change>> {
        if revision < self.lost {
            return None;
        }
        let start = self.changes.partition_point(|c| c.revision <= revision);
        Some(self.changes.range(start..))
    }

    /// Changes up to a revision, latest first, as far as they are kept.
    pub fn seen(&self, revision: u64) -> impl Iterator<Item = &Change> {
        let end = self.changes.partition_point(|c| c.revision <= revision);
        self.changes.range(..end).rev()
    }

    /// What has changed since a revision, as it was then: `None` for what was
    /// not there. `None` in all when that is forgotten.
    pub fn past(&self, revision: u64) -> Option<BTreeMap<&Key, Option<&Arc<Stored>>>> {
        let mut past = BTreeMap::new();
        for change in self.since(revision)? {
            // The first change since then replaced what was there then.
            past.entry(&change.key).or_insert(change.before.as_ref());
        }
        Some(past)
    }

    pub fn compact(&mut self, revision: u64) {
        self.lost = self.changes.back().map_or(self.lost, |last| last.revision);
        self.changes = VecDeque::new();
        self.bytes = 0;
        self.compacted = revision;
    }
}
