//! What is stored: objects by resource, one revision, a log of changes, owners.
//!
//! Knows nothing of requests or rules: callers validate before they write.
//! Objects are shared, never copied: a read hands out the stored `Arc`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::listeners::{Listener, Listeners};
use super::log::{Change, Log};
use super::place::{Key, Place, ResourceKey};
use super::record::Recorder;
use super::stored::{Object, Stored, Text};

/// The objects of one resource, and how they came to be.
#[derive(Debug)]
pub(crate) struct Table {
    pub objects: BTreeMap<Key, Arc<Stored>>,
    pub log: Log,
    /// Told of each change.
    pub listeners: Listeners,
}

impl Table {
    fn new() -> Self {
        Self { objects: BTreeMap::new(), log: Log::default(), listeners: Listeners::default() }
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
                        .take_while(move |(k, _)| *k.namespace == *wanted),
                )
            }
        }
    }

    fn record(&mut self, change: Change) {
        self.log.push(change);
        self.listeners.wake();
    }
}

/// What a server keeps: see [`Server::memory`](super::Server::memory).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStore {
    /// Objects that are stored.
    pub objects: usize,
    /// Bytes of them, as JSON.
    pub object_bytes: usize,
    /// Past changes, from which watches are answered.
    pub changes: usize,
    /// Bytes of objects that only these keep.
    pub change_bytes: usize,
}

/// Everything stored.
#[derive(Debug)]
pub(crate) struct Store {
    revision: u64,
    tables: BTreeMap<ResourceKey, Table>,
    /// Who names an owner of this UID.
    dependents: HashMap<Box<str>, BTreeSet<Place>>,
    /// Where the object of this UID is.
    places: HashMap<Box<str>, Place>,
    recorder: Arc<Recorder>,
    /// The number of the request that changes are made for.
    pub cause: u64,
}

impl Store {
    pub fn new(recorder: Arc<Recorder>) -> Self {
        Self {
            revision: 1,
            tables: BTreeMap::new(),
            dependents: HashMap::new(),
            places: HashMap::new(),
            recorder,
            cause: 0,
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

    /// What is kept, in objects and bytes.
    pub fn memory(&self) -> MemoryStore {
        let mut memory = MemoryStore::default();
        for table in self.tables.values() {
            memory.objects += table.objects.len();
            memory.object_bytes += table.objects.values().map(|o| o.json.len()).sum::<usize>();
            memory.changes += table.log.len();
            memory.change_bytes += table.log.bytes();
        }
        memory
    }

    pub fn get(&self, resource: &ResourceKey, key: &Key) -> Option<&Arc<Stored>> {
        self.tables.get(resource)?.objects.get(key)
    }

    pub fn place(&self, uid: &str) -> Option<&Place> {
        self.places.get(uid)
    }

    /// Who names this owner.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &Place> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// Whether nothing is left in a namespace.
    pub fn is_empty(&self, namespace: &str) -> bool {
        self.tables.values().all(|table| table.range(Some(namespace)).next().is_none())
    }

    /// Everything in a namespace.
    pub fn places_in(&self, namespace: &str) -> Vec<Place> {
        self.tables
            .iter()
            .flat_map(|(resource, table)| {
                table.range(Some(namespace)).map(|(key, _)| (resource.clone(), key.clone()))
            })
            .collect()
    }

    /// Stores an object under a new revision, which is written into it.
    pub fn put(&mut self, resource: &ResourceKey, key: Key, mut object: Object) -> Arc<Stored> {
        let text = self.write(&mut object);
        self.commit(resource, key, &object.value, text)
    }

    /// An object as it will be stored next: under the revision that comes.
    pub fn write(&self, object: &mut Object) -> Text {
        self.number(object);
        Text::write(object)
    }

    /// Writes the revision that comes into an object.
    pub fn number(&self, object: &mut Object) {
        let revision = self.revision + 1;
        object.value["metadata"]["resourceVersion"] = Value::String(revision.to_string());
    }

    /// Stores what [`Self::write`] has just written.
    pub fn commit(
        &mut self,
        resource: &ResourceKey,
        key: Key,
        value: &Value,
        text: Text,
    ) -> Arc<Stored> {
        self.revision += 1;
        let after = Stored::from_text(text, value);
        let table = self.tables.entry(resource.clone()).or_insert_with(Table::new);
        let before = table.objects.insert(key.clone(), after.clone());
        let change = Change {
            revision: self.revision,
            key: key.clone(),
            before: before.clone(),
            after: after.clone(),
            removed: false,
        };
        self.recorder.change(self.cause, resource, &change);
        table.record(change);
        if before.as_ref().is_none_or(|before| before.owners != after.owners) {
            if let Some(before) = &before {
                self.unlink(before, resource, &key);
            }
            self.link(&after, resource, &key);
        }
        if before.is_none() && !after.uid.is_empty() {
            self.places.insert(after.uid.clone(), (resource.clone(), key));
        }
        after
    }

    /// Removes an object and gives back its last state, with the revision of the removal.
    pub fn remove(&mut self, resource: &ResourceKey, key: &Key) -> Option<Arc<Stored>> {
        let before = self.tables.get_mut(resource)?.objects.remove(key)?;
        self.unlink(&before, resource, key);
        self.places.remove(&before.uid);
        let mut last = before.object();
        let text = self.write(&mut last);
        self.revision += 1;
        let after = Stored::from_text(text, &last.value);
        let change = Change {
            revision: self.revision,
            key: key.clone(),
            before: Some(before),
            after: after.clone(),
            removed: true,
        };
        self.recorder.change(self.cause, resource, &change);
        self.table_mut(resource).record(change);
        Some(after)
    }

    /// Puts an object back under the revision that it has. No change is recorded: the past
    /// must be forgotten afterwards.
    pub fn restore(&mut self, resource: &ResourceKey, key: Key, object: &Object) -> Arc<Stored> {
        let stored = Stored::new(object);
        let former = self.table_mut(resource).objects.insert(key.clone(), stored.clone());
        if let Some(former) = former {
            self.unlink(&former, resource, &key);
            self.places.remove(&former.uid);
        }
        self.link(&stored, resource, &key);
        self.places.insert(stored.uid.clone(), (resource.clone(), key));
        self.revision = self.revision.max(stored.revision);
        stored
    }

    /// Forgets all past changes: lists and watches from before now get 410.
    pub fn compact(&mut self) {
        // A revision of its own: otherwise "now" would still be a place to resume from.
        self.revision += 1;
        let revision = self.revision;
        for table in self.tables.values_mut() {
            table.log.compact(revision);
        }
    }

    /// All open watches.
    pub fn listeners(&self) -> Vec<Arc<Listener>> {
        self.tables.values().flat_map(|table| table.listeners.iter()).collect()
    }

    fn link(&mut self, stored: &Stored, resource: &ResourceKey, key: &Key) {
        for owner in &stored.owners {
            self.dependents
                .entry(owner.uid.clone())
                .or_default()
                .insert((resource.clone(), key.clone()));
        }
    }

    fn unlink(&mut self, stored: &Stored, resource: &ResourceKey, key: &Key) {
        for owner in &stored.owners {
            if let Some(set) = self.dependents.get_mut(&owner.uid) {
                set.remove(&(resource.clone(), key.clone()));
                if set.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }
}
