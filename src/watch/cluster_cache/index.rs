//! The objects of one kind, by key and by tracking instance.
//!
//! No I/O: events go in, affected instances come out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;

use crate::api::resource_key::ResourceKey;
use crate::api::tracking::TrackingMethod;
use crate::api::tracking::instance_of;
use crate::watch::mutation_cache::{Gone, is_older, number};

/// How resources are tracked (SE-110).
#[derive(Clone, Debug, Default)]
pub struct Mark {
    /// By annotation, label or both.
    pub method: TrackingMethod,
    /// The label, for methods that use one.
    pub label: String,
}

impl Mark {
    /// The instance in the tracking annotation or label of an object.
    pub fn instance_of<'a>(&self, object: &'a Value) -> Option<&'a str> {
        instance_of(self.method, &self.label, object).filter(|instance| !instance.is_empty())
    }
}

/// What the index contains about an object.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// It does not exist.
    Absent,
    /// It exists, without content in the index.
    Exists,
    /// It exists, with this content.
    Whole(Kept),
}

/// The content of an object as JSON, since a tree of values takes several times as much memory.
#[derive(Clone, Debug)]
pub struct Kept {
    json: Arc<[u8]>,
    /// Hash of the content; see [`content`].
    content: u64,
}

impl Kept {
    fn of(object: &Value) -> Self {
        Self { json: object.to_string().into_bytes().into(), content: content(object) }
    }

    /// Parses the object, each time.
    pub fn parse(&self) -> Arc<Value> {
        // Serialized by this process.
        Arc::new(serde_json::from_slice(&self.json).unwrap_or_default())
    }
}

#[derive(Debug)]
struct Entry {
    /// `None` if the version is not a number: then the latest event is used.
    version: Option<u64>,
    uid: Box<str>,
    instance: Option<String>,
    object: Option<Kept>,
    /// The number of the listing in which it was last seen or written.
    listing: u64,
}

/// The objects of one kind.
#[derive(Debug, Default)]
pub(super) struct Objects {
    mark: Mark,
    entries: HashMap<ResourceKey, Entry>,
    by_instance: BTreeMap<String, BTreeSet<ResourceKey>>,
    /// Objects that the server removed on our request, until the watch reports it: older
    /// events must not restore them.
    removed: HashMap<ResourceKey, String>,
    /// Objects whose deletion the watch has reported.
    gone: Gone,
    listing: u64,
}

impl Objects {
    pub fn new(mark: Mark) -> Self {
        Self { mark, ..Self::default() }
    }

    pub fn get(&self, key: &ResourceKey) -> Lookup {
        match self.entries.get(key) {
            None => Lookup::Absent,
            Some(Entry { object: Some(object), .. }) => Lookup::Whole(object.clone()),
            Some(Entry { object: None, .. }) => Lookup::Exists,
        }
    }

    pub fn tracked(&self, instance: &str) -> Vec<(ResourceKey, Kept)> {
        let keys = self.by_instance.get(instance).into_iter().flatten();
        let whole = keys
            .filter_map(|key| Some((key.clone(), self.entries.get(key)?.object.as_ref()?.clone())));
        whole.collect()
    }

    /// Applies an event. Returns the previous and current instances of the object, and
    /// whether the change is relevant; `None` for an outdated event.
    pub fn apply(&mut self, key: ResourceKey, object: Value, whole: bool) -> Option<Change> {
        if self.gone.contains(uid_of(&object)) {
            return None;
        }
        if let Some(uid) = self.removed.get(&key) {
            if *uid == uid_of(&object) {
                return None;
            }
            self.removed.remove(&key);
        }
        let version = version_of(&object);
        let listing = self.listing;
        let before = self.entries.get_mut(&key);
        if let Some(entry) = before {
            entry.listing = listing;
            let older = is_older(version, entry.version);
            let same = entry.version.is_some() && entry.version == version;
            if older || (same && (entry.object.is_some() || !whole)) {
                return None;
            }
        }
        Some(self.insert(key, object, version, whole))
    }

    /// Adds an object from a response, always with content. `None` when it is outdated or
    /// the object was deleted.
    pub fn put(&mut self, key: ResourceKey, object: &Value) -> Option<Change> {
        if self.gone.contains(uid_of(object)) {
            return None;
        }
        let version = version_of(object);
        if let Some(entry) = self.entries.get(&key)
            && is_older(version, entry.version)
        {
            return None;
        }
        if self.removed.get(&key).is_some_and(|uid| *uid != uid_of(object)) {
            self.removed.remove(&key);
        }
        Some(self.insert_whole(key, object, version))
    }

    /// Removes a deleted object at once.
    pub fn remove(&mut self, key: &ResourceKey, uid: &str) -> Option<Change> {
        let entry = self.entries.get(key).filter(|entry| *entry.uid == *uid)?;
        let instances = entry.instance.clone().into_iter().collect();
        self.drop_entry(key);
        self.removed.insert(key.clone(), uid.to_owned());
        Some(Change { instances, counts: true })
    }

    /// Applies a deletion event.
    pub fn delete(&mut self, key: &ResourceKey, object: &Value) -> Option<Change> {
        self.gone.remember(uid_of(object));
        if self.removed.get(key).is_some_and(|uid| *uid == uid_of(object)) {
            self.removed.remove(key);
            // The instance that deleted it has the response of the server.
            return None;
        }
        let entry = self.entries.get(key)?;
        if *entry.uid != *uid_of(object) {
            return None;
        }
        let was = entry.instance.clone();
        self.drop_entry(key);
        Some(Change { instances: was.into_iter().collect(), counts: true })
    }

    /// Starts a new listing.
    pub fn begin(&mut self) {
        self.listing += 1;
    }

    /// Ends a listing: objects that it does not contain are deleted, unless they were
    /// written since it started.
    pub fn end(&mut self) -> Vec<(ResourceKey, Change)> {
        let listing = self.listing;
        let gone = self.entries.iter().filter(|(_, entry)| entry.listing < listing);
        let gone: Vec<ResourceKey> = gone.map(|(key, _)| key.clone()).collect();
        self.removed.clear();
        gone.into_iter()
            .map(|key| {
                let uid = self.entries.get(&key).map(|entry| entry.uid.clone());
                self.gone.remember(&uid.unwrap_or_default());
                let was = self.entries.get(&key).and_then(|entry| entry.instance.clone());
                self.drop_entry(&key);
                (key, Change { instances: was.into_iter().collect(), counts: true })
            })
            .collect()
    }

    /// All tracked objects, as relevant changes.
    pub fn all(&self) -> Vec<(ResourceKey, Change)> {
        let owned = self.entries.iter().filter_map(|(key, entry)| {
            let instances = BTreeSet::from([entry.instance.clone()?]);
            Some((key.clone(), Change { instances, counts: true }))
        });
        owned.collect()
    }

    fn drop_entry(&mut self, key: &ResourceKey) {
        if let Some(Entry { instance: Some(instance), .. }) = self.entries.remove(key)
            && let Some(keys) = self.by_instance.get_mut(&instance)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.by_instance.remove(&instance);
            }
        }
    }

    fn insert(
        &mut self,
        key: ResourceKey,
        object: Value,
        version: Option<u64>,
        whole: bool,
    ) -> Change {
        let instance = self.instance(&object);
        if whole || instance.is_some() {
            return self.insert_whole(key, &object, version);
        }
        let was = self.entries.get(&key).and_then(|entry| entry.instance.clone());
        self.drop_entry(&key);
        let uid = uid_of(&object).into();
        let listing = self.listing;
        self.entries.insert(key, Entry { version, uid, instance: None, object: None, listing });
        Change { counts: was.is_some(), instances: was.into_iter().collect() }
    }

    fn insert_whole(&mut self, key: ResourceKey, object: &Value, version: Option<u64>) -> Change {
        let instance = self.instance(object);
        let kept = Kept::of(object);
        let old = self.entries.get(&key);
        let was = old.and_then(|entry| entry.instance.clone());
        let before = old.and_then(|entry| entry.object.as_ref());
        let counts = before.is_none_or(|before| before.content != kept.content);
        self.drop_entry(&key);
        if let Some(instance) = &instance {
            self.by_instance.entry(instance.clone()).or_default().insert(key.clone());
        }
        let uid = uid_of(object).into();
        let instances = was.into_iter().chain(instance.clone()).collect();
        let listing = self.listing;
        self.entries.insert(key, Entry { version, uid, instance, object: Some(kept), listing });
        Change { instances, counts }
    }

    fn instance(&self, object: &Value) -> Option<String> {
        self.mark.instance_of(object).map(str::to_owned)
    }
}

/// The instances that an event affects.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Previous and current instances of the object.
    pub instances: BTreeSet<String>,
    /// Whether anything except version, generation and managed fields changed (SE-178).
    pub counts: bool,
}

fn version_of(object: &Value) -> Option<u64> {
    number(object["metadata"]["resourceVersion"].as_str()?)
}

fn uid_of(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// Hash of the relevant content (SE-178).
fn content(object: &Value) -> u64 {
    let ignored = ["resourceVersion", "generation", "managedFields"];
    let mut hasher = DefaultHasher::new();
    for (field, value) in object.as_object().into_iter().flatten() {
        field.hash(&mut hasher);
        match value.as_object().filter(|_| field == "metadata") {
            Some(metadata) => {
                let said = metadata.iter().filter(|(field, _)| !ignored.contains(&field.as_str()));
                said.for_each(|pair| pair.hash(&mut hasher));
            }
            None => value.hash(&mut hasher),
        }
    }
    hasher.finish()
}
