//! What is stored: objects by resource, one revision, a log of changes, owners.
//!
//! Knows nothing of requests or rules: whoever writes has checked before.
//! Objects are shared, never copied: a read hands out the stored `Arc`.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use hyper::body::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use super::kinds::ResourceKey;

/// Changes kept per resource; a watch that falls further behind gets 410.
const LOG_LIMIT: usize = 10_000;

/// Bytes of changed objects kept per resource, so that few large objects do
/// not hold much memory. Counted as serialised.
const LOG_BYTES: usize = 64 << 20;

/// A stored object. Never changed: a write puts another one in its place.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The object without its managed fields, which as values would take
    /// several times the memory of all the rest.
    pub slim: Value,
    /// The managed fields as JSON.
    managed: Option<Box<str>>,
    /// The whole object as JSON: made once, shared by all who read or watch.
    pub json: Bytes,
}

impl Stored {
    pub fn new(mut value: Value) -> Arc<Self> {
        let json = Bytes::from(to_json(&value));
        let managed = value
            .get_mut("metadata")
            .and_then(Value::as_object_mut)
            .and_then(|meta| meta.remove("managedFields"))
            .map(|fields| fields.to_string().into_boxed_str());
        Arc::new(Self { slim: value, managed, json })
    }

    /// The whole object, as a value of its own.
    pub fn full(&self) -> Value {
        let mut value = self.slim.clone();
        if let Some(managed) = &self.managed {
            // Written by ourselves: it can be read.
            value["metadata"]["managedFields"] = serde_json::from_str(managed).unwrap_or_default();
        }
        value
    }
}

pub(crate) fn to_json(value: &Value) -> Vec<u8> {
    // A `Value` has string keys only, so that serialising cannot fail.
    serde_json::to_vec(value).unwrap_or_default()
}

/// A place in a resource. Cluster-scoped objects have an empty namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// One change. `before` is absent for a creation, `after` is absent for a removal.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub revision: u64,
    pub key: Key,
    pub before: Option<Arc<Stored>>,
    /// For a removal: the object with the revision of the removal.
    pub after: Arc<Stored>,
    pub removed: bool,
}

/// The objects of one resource, and how they came to be.
#[derive(Debug)]
pub(crate) struct Table {
    pub objects: BTreeMap<Key, Arc<Stored>>,
    log: VecDeque<Change>,
    log_bytes: usize,
    /// Nothing resumes from before this revision.
    compacted: u64,
    /// The last change that is no longer in the log: a watch that has seen it misses nothing.
    lost: u64,
    /// Told of each change; the value is its revision.
    changed: watch::Sender<u64>,
}

impl Table {
    fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            log_bytes: 0,
            compacted: 0,
            lost: 0,
            changed: watch::Sender::new(0),
        }
    }

    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Objects in a namespace, or all of them.
    pub fn range(
        &self,
        namespace: Option<&str>,
    ) -> Box<dyn Iterator<Item = (&Key, &Arc<Stored>)> + '_> {
        match namespace {
            None => Box::new(self.objects.iter()),
            Some(ns) => {
                let wanted = ns.to_owned();
                Box::new(
                    self.objects
                        .range(Key::new(ns, "")..)
                        .take_while(move |(k, _)| k.namespace == wanted),
                )
            }
        }
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
        let start = self.log.partition_point(|c| c.revision <= revision);
        Some(self.log.range(start..))
    }

    /// The objects as they were at a revision; `None` when that is forgotten.
    pub fn at(&self, revision: u64) -> Option<BTreeMap<Key, Arc<Stored>>> {
        let mut objects = self.objects.clone();
        let changes: Vec<&Change> = self.since(revision)?.collect();
        for change in changes.into_iter().rev() {
            match &change.before {
                Some(before) => objects.insert(change.key.clone(), before.clone()),
                None => objects.remove(&change.key),
            };
        }
        Some(objects)
    }

    fn record(&mut self, change: Change) {
        let revision = change.revision;
        self.log_bytes += change.after.json.len();
        self.log.push_back(change);
        while self.log.len() > LOG_LIMIT || self.log_bytes > LOG_BYTES {
            let Some(oldest) = self.log.pop_front() else { break };
            self.log_bytes = self.log_bytes.saturating_sub(oldest.after.json.len());
            self.compacted = self.compacted.max(oldest.revision);
            self.lost = oldest.revision;
        }
        self.changed.send_replace(revision);
    }

    fn compact(&mut self, revision: u64) {
        self.lost = self.log.back().map_or(self.lost, |last| last.revision);
        self.log.clear();
        self.log_bytes = 0;
        self.compacted = revision;
    }
}

/// An object's place in the store.
pub(crate) type Place = (ResourceKey, Key);

/// Everything stored.
#[derive(Debug)]
pub(crate) struct Store {
    revision: u64,
    tables: BTreeMap<ResourceKey, Table>,
    /// Who names an owner of this UID.
    dependents: HashMap<String, BTreeSet<Place>>,
    /// Where the object of this UID is.
    places: HashMap<String, Place>,
}

impl Store {
    pub fn new() -> Self {
        Self {
            revision: 1,
            tables: BTreeMap::new(),
            dependents: HashMap::new(),
            places: HashMap::new(),
        }
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn table(&self, resource: &ResourceKey) -> Option<&Table> {
        self.tables.get(resource)
    }

    pub fn table_mut(&mut self, resource: &ResourceKey) -> &mut Table {
        self.tables.entry(resource.clone()).or_insert_with(Table::new)
    }

    pub fn tables(&self) -> impl Iterator<Item = (&ResourceKey, &Table)> {
        self.tables.iter()
    }

    pub fn get(&self, resource: &ResourceKey, key: &Key) -> Option<&Arc<Stored>> {
        self.tables.get(resource)?.objects.get(key)
    }

    pub fn place(&self, uid: &str) -> Option<&Place> {
        self.places.get(uid)
    }

    pub fn dependents(&self, uid: &str) -> Vec<Place> {
        self.dependents.get(uid).map(|d| d.iter().cloned().collect()).unwrap_or_default()
    }

    /// Stores an object under a new revision, which is written into it.
    pub fn put(&mut self, resource: &ResourceKey, key: Key, mut value: Value) -> Arc<Stored> {
        self.revision += 1;
        let revision = self.revision;
        value["metadata"]["resourceVersion"] = Value::String(revision.to_string());
        let after = Stored::new(value);
        let table = self.tables.entry(resource.clone()).or_insert_with(Table::new);
        let before = table.objects.insert(key.clone(), after.clone());
        if before.as_ref().is_none_or(|b| owners(&b.slim) != owners(&after.slim)) {
            if let Some(before) = &before {
                self.unlink(&before.slim, resource, &key);
            }
            self.link(&after.slim, resource, &key);
        }
        if before.is_none()
            && let Some(uid) = after.slim["metadata"]["uid"].as_str()
        {
            self.places.insert(uid.to_owned(), (resource.clone(), key.clone()));
        }
        let change = Change { revision, key, before, after: after.clone(), removed: false };
        self.table_mut(resource).record(change);
        after
    }

    /// Removes an object and gives back its last state, with the revision of the removal.
    pub fn remove(&mut self, resource: &ResourceKey, key: &Key) -> Option<Arc<Stored>> {
        let before = self.tables.get_mut(resource)?.objects.remove(key)?;
        self.revision += 1;
        let revision = self.revision;
        self.unlink(&before.slim, resource, key);
        if let Some(uid) = before.slim["metadata"]["uid"].as_str() {
            self.places.remove(uid);
        }
        let mut last = before.full();
        last["metadata"]["resourceVersion"] = Value::String(revision.to_string());
        let after = Stored::new(last);
        let change = Change {
            revision,
            key: key.clone(),
            before: Some(before),
            after: after.clone(),
            removed: true,
        };
        self.table_mut(resource).record(change);
        Some(after)
    }

    /// Forgets all past changes: lists and watches from before now get 410.
    pub fn compact(&mut self) {
        // A revision of its own: otherwise "now" would still be a place to resume from.
        self.revision += 1;
        let revision = self.revision;
        for table in self.tables.values_mut() {
            table.compact(revision);
        }
    }

    fn link(&mut self, value: &Value, resource: &ResourceKey, key: &Key) {
        for uid in owners(value) {
            self.dependents
                .entry(uid.to_owned())
                .or_default()
                .insert((resource.clone(), key.clone()));
        }
    }

    fn unlink(&mut self, value: &Value, resource: &ResourceKey, key: &Key) {
        for uid in owners(value) {
            if let Some(set) = self.dependents.get_mut(uid) {
                set.remove(&(resource.clone(), key.clone()));
                if set.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
    }
}

/// UIDs of the owners of an object, in their order.
pub(crate) fn owners(value: &Value) -> Vec<&str> {
    value["metadata"]["ownerReferences"]
        .as_array()
        .map(|refs| refs.iter().filter_map(|r| r["uid"].as_str()).collect())
        .unwrap_or_default()
}
