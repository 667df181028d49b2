//! Version comparison for caches that also contain own writes, as client-go's mutation cache.
//!
//! The response to each write is added to the cache at once, and an object in the cache
//! never becomes older: watch events from before the write are older than the response,
//! and cannot restore a deleted object. Kubernetes documents that resource versions of
//! one kind are increasing numbers.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// How many deleted objects are remembered per kind: more than can be deleted between a
/// request and its response.
const REMEMBERED: usize = 4096;

/// A resource version as a number; `None` if it is not a number: then the last event is used.
pub(crate) fn number(resource_version: &str) -> Option<u64> {
    resource_version.parse().ok()
}

/// Whether a version is older than the known one.
pub fn is_older(new: Option<u64>, known: Option<u64>) -> bool {
    matches!((new, known), (Some(new), Some(known)) if new < known)
}

/// UIDs of deleted objects. The response to an own request may arrive after the watch
/// event of the deletion, and must not restore the object.
#[derive(Debug, Default)]
pub struct Gone {
    uids: HashSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
}

impl Gone {
    /// Whether the object with this UID was deleted.
    pub fn contains(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }

    /// Adds a UID.
    pub fn remember(&mut self, uid: &str) {
        let uid: Arc<str> = uid.into();
        if uid.is_empty() || !self.uids.insert(Arc::clone(&uid)) {
            return;
        }
        self.order.push_back(uid);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_where_both_are() {
        for (new, known, older) in
            [("9", "10", true), ("10", "9", false), ("9", "9", false), ("a", "10", false)]
        {
            assert_eq!(is_older(number(new), number(known)), older, "{new} and {known}");
        }
    }

    #[test]
    fn the_last_deletions_are_remembered() {
        let mut gone = Gone::default();
        gone.remember("");
        assert!(!gone.contains(""));
        for uid in 0..=REMEMBERED {
            gone.remember(&uid.to_string());
            gone.remember(&uid.to_string());
        }
        assert!(!gone.contains("0") && gone.contains("1"));
        assert!(gone.contains(&REMEMBERED.to_string()));
    }
}
