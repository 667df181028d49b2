//! The objects of one kind, by key and by the instance they belong to.
//!
//! Plain data: events go in, and those who are concerned come out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;

use crate::api::resource_key::ResourceKey;
use crate::api::tracking::TrackingMethod;
use crate::api::tracking::instance_of;
use crate::watch::mutation_cache::{Gone, is_older, number};

/// How instances mark what is theirs (SE-110).
#[derive(Clone, Debug, Default)]
pub struct Mark {
    /// By annotation, label or both.
    pub method: TrackingMethod,
    /// The label, for methods that use one.
    pub label: String,
}

impl Mark {
    /// The instance that an object says it belongs to.
    pub fn instance_of<'a>(&self, object: &'a Value) -> Option<&'a str> {
        instance_of(self.method, &self.label, object).filter(|instance| !instance.is_empty())
    }
}

/// What is known of one object.
#[derive(Clone, Debug)]
pub enum Seen {
    /// It does not exist.
    Absent,
    /// It exists, and was not kept.
    Exists,
    /// It exists, and this is it.
    Whole(Kept),
}

/// An object as it is kept: its JSON, since a tree of values takes several times
/// as much memory.
#[derive(Clone, Debug)]
pub struct Kept {
    json: Arc<[u8]>,
    /// Tells its content from others; see [`content`].
    content: u64,
}

impl Kept {
    fn of(object: &Value) -> Self {
        Self { json: object.to_string().into_bytes().into(), content: content(object) }
    }

    /// The object. Made anew by each call.
    pub fn parse(&self) -> Arc<Value> {
        // It was written here.
        Arc::new(serde_json::from_slice(&self.json).unwrap_or_default())
    }
}

#[derive(Debug)]
struct Entry {
    /// Absent for what is no number: then the newest event counts.
    version: Option<u64>,
    uid: Box<str>,
    instance: Option<String>,
    object: Option<Kept>,
    /// In which listing it was last seen or written.
    listing: u64,
}

/// The objects of one kind.
#[derive(Debug, Default)]
pub(super) struct Objects {
    mark: Mark,
    entries: HashMap<ResourceKey, Entry>,
    by_instance: BTreeMap<String, BTreeSet<ResourceKey>>,
    /// Objects that the server has removed at our request, until the watch
    /// says so too: events that are still under way must not bring them back.
    removed: HashMap<ResourceKey, String>,
    /// Objects that the watch has said are gone.
    gone: Gone,
    listing: u64,
}

impl Objects {
    pub fn new(mark: Mark) -> Self {
        Self { mark, ..Self::default() }
    }

    pub fn get(&self, key: &ResourceKey) -> Seen {
        match self.entries.get(key) {
            None => Seen::Absent,
            Some(Entry { object: Some(object), .. }) => Seen::Whole(object.clone()),
            Some(Entry { object: None, .. }) => Seen::Exists,
        }
    }

    pub fn tracked(&self, instance: &str) -> Vec<(ResourceKey, Kept)> {
        let keys = self.by_instance.get(instance).into_iter().flatten();
        let whole = keys
            .filter_map(|key| Some((key.clone(), self.entries.get(key)?.object.as_ref()?.clone())));
        whole.collect()
    }

    /// An event about an object. Returns the instances it belonged and now
    /// belongs to, and whether it differs from before in anything that counts;
    /// `None` for an event that is older than what is known.
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

    /// An object as the server gave it to us, always kept whole. `None` when
    /// it is older than what is known, or of an object that is gone.
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

    /// Forgets an object that is gone at once.
    pub fn remove(&mut self, key: &ResourceKey, uid: &str) -> Option<Change> {
        let entry = self.entries.get(key).filter(|entry| *entry.uid == *uid)?;
        let instances = entry.instance.clone().into_iter().collect();
        self.drop_entry(key);
        self.removed.insert(key.clone(), uid.to_owned());
        Some(Change { instances, counts: true })
    }

    /// An event that an object is gone.
    pub fn delete(&mut self, key: &ResourceKey, object: &Value) -> Option<Change> {
        self.gone.remember(uid_of(object));
        if self.removed.get(key).is_some_and(|uid| *uid == uid_of(object)) {
            self.removed.remove(key);
            // Whoever had it removed has been told by the server.
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

    /// A new listing begins.
    pub fn begin(&mut self) {
        self.listing += 1;
    }

    /// The listing is complete: what it did not have is gone, unless we have
    /// written it ourselves since it began.
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

    /// Everything that belongs to somebody, as if all of it had changed.
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

/// Whom an event concerns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Instances that the object belonged or belongs to.
    pub instances: BTreeSet<String>,
    /// Whether anything but version, generation and managers is different
    /// (SE-178).
    pub counts: bool,
}

fn version_of(object: &Value) -> Option<u64> {
    number(object["metadata"]["resourceVersion"].as_str()?)
}

fn uid_of(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// Two versions of an object of which this is the same are the same to everybody
/// (SE-178).
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
