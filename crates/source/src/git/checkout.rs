//! A checkout: the files of one revision of a repository, and a cache of recently used
//! checkouts.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::cache::OwnedDirectory;
use crate::error::SourceError;
use crate::git::gitmodules::Submodule;
use crate::in_memory::InMemory;
use crate::links::can_be_followed;

/// The files of one revision, read-only and shared by all users.
///
/// The directory is removed when the last reference is dropped.
#[derive(Debug)]
pub struct Checkout {
    content: Content,
    repo: String,
    revision: String,
    bytes: u64,
    submodules: Vec<String>,
    modules: Vec<Submodule>,
    key: String,
}

#[derive(Debug)]
enum Content {
    Directory(OwnedDirectory),
    Memory(Arc<dyn InMemory>),
}

impl Checkout {
    pub(crate) fn new(root: OwnedDirectory, repo: String, revision: String, bytes: u64) -> Self {
        let content = Content::Directory(root);
        Self::of(content, repo, revision, bytes)
    }

    fn of(content: Content, repo: String, revision: String, bytes: u64) -> Self {
        let (submodules, modules, key) = (Vec::new(), Vec::new(), String::new());
        Self { content, repo, revision, bytes, submodules, modules, key }
    }

    /// One without files.
    pub(crate) fn in_memory(memory: Arc<dyn InMemory>, repo: String, revision: String) -> Self {
        let content = Content::Memory(memory);
        Self::of(content, repo, revision, 0)
    }

    /// Where its objects come from, if it has no files.
    pub(crate) fn memory(&self) -> Option<&dyn InMemory> {
        match &self.content {
            Content::Directory(_) => None,
            Content::Memory(memory) => Some(&**memory),
        }
    }

    /// Sets the submodules, whose files are not part of the checkout: their paths, and more of
    /// those that can be fetched.
    pub(crate) fn with_submodules(self, submodules: Vec<String>, modules: Vec<Submodule>) -> Self {
        Self { submodules, modules, ..self }
    }

    /// The same, when its links can be followed in time, by whoever reads it.
    pub(crate) async fn with_links_checked(self) -> Result<Self, SourceError> {
        let root = self.root().to_owned();
        let checked = tokio::task::spawn_blocking(move || can_be_followed(&root)).await;
        let repo = || self.repo.clone();
        checked
            .map_err(|error| SourceError::cache(repo(), "check the links", error))?
            .map_err(|limit| SourceError::too_large(repo(), "the checkout", limit))?;
        Ok(self)
    }

    /// Sets what identifies its content.
    pub(crate) fn with_key(self, (repository, revision): &CheckoutKey) -> Self {
        Self { key: format!("{repository}{revision}"), ..self }
    }

    /// What identifies its content, and the credentials that it was read with.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The submodules that can be fetched.
    pub(crate) fn modules(&self) -> &[Submodule] {
        &self.modules
    }

    /// Submodule directories, relative to the repository root. Their files are not part
    /// of the checkout.
    pub fn submodules(&self) -> &[String] {
        &self.submodules
    }

    /// The directory with the files of the repository root, without `.git`. A path of the
    /// local machine: not for messages.
    pub fn root(&self) -> &Path {
        match &self.content {
            Content::Directory(root) => root.path(),
            // No file is below it.
            Content::Memory(_) => Path::new("/dev/null"),
        }
    }

    /// The directory for private files of those who read the checkout.
    pub(crate) fn temporary(&self) -> std::path::PathBuf {
        match &self.content {
            Content::Directory(root) => root.cache().to_owned(),
            Content::Memory(_) => std::env::temp_dir(),
        }
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

/// Key of the repository in the cache, and revision.
pub(crate) type CheckoutKey = (String, String);

/// Recently used checkouts, bounded by number and bytes.
#[derive(Debug)]
pub(crate) struct CheckoutCache {
    count: usize,
    bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<CheckoutKey, CachedCheckout>,
    /// Increases with each use; the smallest value is the least recently used.
    clock: u64,
}

#[derive(Debug)]
struct CachedCheckout {
    /// Empty after eviction. While the checkout is still in use, it is shared again
    /// instead of being created twice.
    strong: Option<Arc<Checkout>>,
    weak: Weak<Checkout>,
    used: u64,
}

impl CheckoutCache {
    pub(crate) fn new(count: usize, bytes: u64) -> Self {
        Self { count, bytes, state: Mutex::default() }
    }

    pub(crate) fn get(&self, key: &CheckoutKey) -> Option<Arc<Checkout>> {
        let mut state = self.state.lock();
        let found = state.entries.get(key)?.weak.upgrade()?;
        self.put(&mut state, key.clone(), &found);
        Some(found)
    }

    pub(crate) fn insert(&self, key: CheckoutKey, checkout: &Arc<Checkout>) {
        self.put(&mut self.state.lock(), key, checkout);
    }

    fn put(&self, state: &mut State, key: CheckoutKey, checkout: &Arc<Checkout>) {
        state.clock += 1;
        let entry = CachedCheckout {
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
