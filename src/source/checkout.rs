//! One revision of a repository as files, and the store that keeps the
//! lately used ones.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::cache::Removed;

/// The files of one revision, for reading only and shared by all who ask.
///
/// The directory is removed when the last holder lets go of it.
#[derive(Debug)]
pub struct Checkout {
    root: Removed,
    repo: String,
    revision: String,
    bytes: u64,
    submodules: Vec<String>,
}

impl Checkout {
    pub(super) fn new(root: Removed, repo: String, revision: String, bytes: u64) -> Self {
        Self { root, repo, revision, bytes, submodules: Vec::new() }
    }

    /// With these submodules, whose files are not there.
    pub(super) fn with_submodules(self, submodules: Vec<String>) -> Self {
        Self { submodules, ..self }
    }

    /// Directories, from the root of the repository, whose files are in another
    /// repository and not here.
    pub fn submodules(&self) -> &[String] {
        &self.submodules
    }

    /// The directory that stands for the root of the repository. Holds no
    /// `.git`. Never show it to a user: it is a path of this machine.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The redacted URL of the repository, for messages.
    pub fn repo(&self) -> &str {
        &self.repo
    }

    /// The full commit hash, or content hash for a directory.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The size of all files in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Repository (by its place in the cache) and revision.
pub(super) type CheckoutKey = (String, String);

/// The lately used checkouts, bounded by count and bytes.
#[derive(Debug)]
pub(super) struct Kept {
    count: usize,
    bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<CheckoutKey, Entry>,
    /// Grows with each use; the smallest is the least recently used.
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    /// Absent once evicted. Others may still hold the checkout, and then it
    /// is shared again instead of being made twice.
    strong: Option<Arc<Checkout>>,
    weak: Weak<Checkout>,
    used: u64,
}

impl Kept {
    pub(super) fn new(count: usize, bytes: u64) -> Self {
        Self { count, bytes, state: Mutex::default() }
    }

    pub(super) fn get(&self, key: &CheckoutKey) -> Option<Arc<Checkout>> {
        let mut state = self.state.lock();
        let found = state.entries.get(key)?.weak.upgrade()?;
        self.put(&mut state, key.clone(), &found);
        Some(found)
    }

    pub(super) fn insert(&self, key: CheckoutKey, checkout: &Arc<Checkout>) {
        self.put(&mut self.state.lock(), key, checkout);
    }

    fn put(&self, state: &mut State, key: CheckoutKey, checkout: &Arc<Checkout>) {
        state.clock += 1;
        let entry = Entry {
            strong: Some(Arc::clone(checkout)),
            weak: Arc::downgrade(checkout),
            used: state.clock,
        };
        state.entries.insert(key, entry);
        loop {
            let held = || state.entries.values().filter_map(|entry| entry.strong.as_ref());
            let bytes: u64 = held().map(|checkout| checkout.bytes).sum();
            if held().count() <= self.count && bytes <= self.bytes {
                break;
            }
            let oldest = state.entries.values_mut().filter(|entry| entry.strong.is_some());
            match oldest.min_by_key(|entry| entry.used) {
                Some(entry) => entry.strong = None,
                None => break,
            }
        }
        state.entries.retain(|_, entry| entry.weak.strong_count() > 0);
    }
}
