//! What we wrote ourselves and the watch has not shown yet.
//!
//! A pass that looks at a cache older than its own last write would decide on
//! yesterday's truth. So the answer to each write is kept until the watch shows
//! anything other than what the write replaced.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::object::Object;
use parking_lot::Mutex;

/// How long an answer is believed at most: a watch that is this far behind will
/// be caught by the resource version that every critical write carries.
pub const LIFETIME: Duration = Duration::from_secs(30);

/// Answers to our own writes, by namespace and name.
#[derive(Debug, Default)]
pub struct MutationCache {
    written: Mutex<HashMap<(String, String), Written>>,
}

#[derive(Debug)]
struct Written {
    /// The resource version that the write replaced; empty for a creation.
    replaced: String,
    object: Object,
    at: Instant,
}

impl MutationCache {
    /// Remembers the answer to a write over `replaced` (a resource version,
    /// empty for a creation).
    pub fn wrote(&self, replaced: &str, object: Object) {
        let key = (object.namespace().to_owned(), object.name().to_owned());
        let mut written = self.written.lock();
        // A second write goes on where the first began: the watch may still
        // show what the first replaced.
        let replaced = match written.get(&key) {
            Some(earlier) if earlier.object.resource_version() == replaced => {
                earlier.replaced.clone()
            }
            _ => replaced.to_owned(),
        };
        written.insert(key, Written { replaced, object, at: Instant::now() });
    }

    /// The newer of the watched object and what we wrote.
    pub fn newest(&self, watched: Object) -> Object {
        let key = (watched.namespace().to_owned(), watched.name().to_owned());
        let mut written = self.written.lock();
        match written.get(&key) {
            Some(ours)
                if ours.replaced == watched.resource_version() && ours.at.elapsed() < LIFETIME =>
            {
                ours.object.clone()
            }
            Some(_) => {
                written.remove(&key);
                watched
            }
            None => watched,
        }
    }

    /// Objects of a namespace that we created and the watch does not show yet,
    /// given whether it shows a name.
    pub fn created(&self, namespace: &str, shown: impl Fn(&str) -> bool) -> Vec<Object> {
        let mut written = self.written.lock();
        written.retain(|_, ours| ours.at.elapsed() < LIFETIME);
        let created = written.iter().filter(|((of, name), ours)| {
            of == namespace && ours.replaced.is_empty() && !shown(name)
        });
        created.map(|(_, ours)| ours.object.clone()).collect()
    }

    /// Whether there are objects of a namespace that we created and no pass has
    /// seen in the watch yet.
    pub fn has_creations(&self, namespace: &str) -> bool {
        let written = self.written.lock();
        written.iter().any(|((of, _), ours)| {
            of == namespace && ours.replaced.is_empty() && ours.at.elapsed() < LIFETIME
        })
    }

    /// Forgets what was written: the watch told that this very object is gone.
    pub fn forget(&self, gone: &Object) {
        let key = (gone.namespace().to_owned(), gone.name().to_owned());
        let uid = |object: &Object| object.value()["metadata"]["uid"].clone();
        let mut written = self.written.lock();
        if written.get(&key).is_some_and(|ours| uid(&ours.object) == uid(gone)) {
            written.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(version: &str, mark: &str) -> Object {
        json!({"metadata": {"namespace": "ns", "name": "a", "resourceVersion": version}, "mark": mark}).into()
    }

    fn mark(object: &Object) -> String {
        object.value()["mark"].as_str().unwrap().to_owned()
    }

    #[test]
    fn our_own_write_counts_until_the_watch_shows_something_else() {
        let overlay = MutationCache::default();
        assert_eq!(mark(&overlay.newest(object("1", "watched"))), "watched");
        overlay.wrote("1", object("2", "ours"));
        overlay.wrote("2", object("3", "ours again"));
        assert_eq!(mark(&overlay.newest(object("1", "watched"))), "ours again");
        assert_eq!(mark(&overlay.newest(object("4", "theirs"))), "theirs");
        assert_eq!(mark(&overlay.newest(object("1", "watched"))), "watched", "forgotten for good");
    }

    #[test]
    fn a_creation_is_known_before_the_watch_shows_it() {
        let overlay = MutationCache::default();
        overlay.wrote("", object("5", "created"));
        assert_eq!(overlay.created("ns", |_| false).len(), 1);
        assert_eq!(overlay.created("ns", |_| true).len(), 0);
        assert_eq!(overlay.created("other", |_| false).len(), 0);
        assert!(overlay.has_creations("ns") && !overlay.has_creations("other"));
        let another = json!({"metadata": {"namespace": "ns", "name": "a", "uid": "another"}});
        overlay.forget(&another.into());
        assert_eq!(overlay.created("ns", |_| false).len(), 1, "one before of the same name went");
        overlay.forget(&object("6", "deleted"));
        assert_eq!(overlay.created("ns", |_| false).len(), 0);
        assert!(!overlay.has_creations("ns"));
    }
}
