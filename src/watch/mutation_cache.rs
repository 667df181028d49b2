//! Which of two versions of an object is the newer one: what makes a cache of
//! watched objects one of our own writes too.
//!
//! The answer to each write is put into the cache at once, and an object in the
//! cache never becomes older: events that were under way when we wrote are
//! older than the answer, and what is gone does not come back by one of them.
//! Kubernetes documents resource versions of one kind as numbers that grow.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// How many objects that are gone are remembered for each kind: more than can
/// be under way between a request of ours and its answer.
const REMEMBERED: usize = 4096;

/// A resource version as a number; `None` for what is none: then the last event
/// counts.
pub fn number(resource_version: &str) -> Option<u64> {
    resource_version.parse().ok()
}

/// Whether a version is older than the one that is known.
pub fn is_older(new: Option<u64>, known: Option<u64>) -> bool {
    matches!((new, known), (Some(new), Some(known)) if new < known)
}

/// UIDs of objects that are gone for good. The answer to a request of ours may
/// come later than the watch's word that the object is gone, and must not bring
/// it back: nothing would ever tell again that it is gone.
#[derive(Debug, Default)]
pub struct Gone {
    uids: HashSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
}

impl Gone {
    /// Whether the object of this UID is gone.
    pub fn contains(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }

    /// Remembers one.
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
    fn those_that_went_last_are_remembered() {
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
