//! The objects of one kind, by key and by tracking instance.
//!
//! No I/O: events go in, affected instances come out.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;

use crate::watch::mutation_cache::{Gone, is_older, number};
use wavegate_api::Raw;
use wavegate_api::resource_key::ResourceKey;
use wavegate_api::tracking::TrackingMethod;
use wavegate_api::tracking::instance_of;

/// Which part of an object counts when it changes (SE-178). It is given from outside, since
/// nothing here knows rules.
#[derive(Clone, Default)]
pub struct Relevance(Option<Arc<Digest>>);

/// A digest of what counts in an object that an instance tracks, or none; `None` where everything
/// counts.
type Digest = dyn Fn(&Value, Option<&str>) -> Option<u64> + Send + Sync;

impl Relevance {
    /// By a digest of what counts.
    pub fn new(
        digest: impl Fn(&Value, Option<&str>) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(digest)))
    }
}

impl std::fmt::Debug for Relevance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Relevance").field(&self.0.is_some()).finish()
    }
}

/// How resources are tracked (SE-110), and which of their changes count.
#[derive(Clone, Debug, Default)]
pub struct TrackingMark {
    /// By annotation, label or both.
    pub method: TrackingMethod,
    /// The label, for methods that use one.
    pub label: String,
    /// What counts in an object.
    pub relevance: Relevance,
}

impl TrackingMark {
    /// The instance in the tracking annotation or label of an object.
    pub fn instance_of<'a>(&self, object: &'a Value) -> Option<&'a str> {
        instance_of(self.method, &self.label, object).filter(|instance| !instance.is_empty())
    }

    /// Hash of what counts in an object.
    fn content(&self, object: &Value) -> u64 {
        let by_rules = self.relevance.0.as_ref();
        let by_rules = by_rules.and_then(|digest| digest(object, self.instance_of(object)));
        by_rules.unwrap_or_else(|| content(object))
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
    /// Hash of what counts in it; see [`TrackingMark::content`].
    content: u64,
}

impl Kept {
    fn of(object: &Value, content: u64) -> Self {
        Self { json: object.to_string().into_bytes().into(), content }
    }

    /// Parses the object, each time.
    pub fn parse(&self) -> Arc<Value> {
        // Serialized by this process.
        Arc::new(serde_json::from_slice(&self.json).unwrap_or_default())
    }
}

/// Namespace and name of an object as `namespace/name`: less than half the memory of a key,
/// whose other parts are the same for all objects of a kind.
type Place = Arc<str>;

#[derive(Debug)]
struct Entry {
    /// `None` if the version is not a number: then the latest event is used.
    version: Option<u64>,
    uid: Box<str>,
    instance: Option<Arc<str>>,
    object: Option<Kept>,
    /// The number of the listing in which it was last seen or written.
    listing: u64,
}

/// The objects of one kind.
#[derive(Debug, Default)]
pub(super) struct Objects {
    mark: TrackingMark,
    /// Group and kind.
    kind: ResourceKey,
    entries: HashMap<Place, Entry>,
    /// One set of all, since most instances have one object of a kind.
    by_instance: BTreeSet<(Arc<str>, Place)>,
    /// Objects that the server removed on our request, until the watch reports it: older
    /// events must not restore them.
    removed: HashMap<Place, String>,
    /// Objects whose deletion the watch has reported.
    gone: Gone,
    listing: u64,
}

impl Objects {
    pub fn new(mark: TrackingMark, group: &str, kind: &str) -> Self {
        Self { mark, kind: ResourceKey::new(group, kind, "", ""), ..Self::default() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    pub fn get(&self, key: &ResourceKey) -> Lookup {
        match self.entries.get(&*place(key)) {
            None => Lookup::Absent,
            Some(Entry { object: Some(object), .. }) => Lookup::Whole(object.clone()),
            Some(Entry { object: None, .. }) => Lookup::Exists,
        }
    }

    pub fn tracked(&self, instance: &str) -> Vec<(ResourceKey, Kept)> {
        let from = self.by_instance.range((Arc::from(instance), Arc::from(""))..);
        let places = from.take_while(|(other, _)| **other == *instance).map(|(_, place)| place);
        let whole = places.filter_map(|place| {
            Some((self.key(place), self.entries.get(place)?.object.as_ref()?.clone()))
        });
        whole.collect()
    }

    /// The instances that track objects; of a namespace, or all of them.
    pub fn instances_in(&self, namespace: Option<&str>) -> BTreeSet<String> {
        let is_in = |place: &str| {
            let own = place.split_once('/').map(|(own, _)| own);
            namespace.is_none() || own == namespace
        };
        let there = self.by_instance.iter().filter(|(_, place)| is_in(place));
        there.map(|(instance, _)| instance.to_string()).collect()
    }

    fn key(&self, place: &str) -> ResourceKey {
        let (namespace, name) = place.split_once('/').unwrap_or(("", place));
        ResourceKey::new(&self.kind.group, &self.kind.kind, namespace, name)
    }

    /// Applies an event. Returns the previous and current instances of the object, and
    /// whether the change is relevant; `None` for an outdated event. The whole object is
    /// only asked for if it is kept; `head` are its metadata.
    pub fn apply(
        &mut self,
        key: &ResourceKey,
        head: &Value,
        whole: bool,
        object: impl FnOnce() -> Value,
    ) -> Option<IndexChange> {
        if self.gone.contains(head.uid()) {
            return None;
        }
        let place = place(key);
        if let Some(uid) = self.removed.get(&*place) {
            if *uid == head.uid() {
                return None;
            }
            self.removed.remove(&*place);
        }
        let version = version_of(head);
        let listing = self.listing;
        let before = self.entries.get_mut(&*place);
        if let Some(entry) = before {
            entry.listing = listing;
            let older = is_older(version, entry.version);
            let same = entry.version.is_some() && entry.version == version;
            if older || (same && (entry.object.is_some() || !whole)) {
                return None;
            }
        }
        if whole || self.mark.instance_of(head).is_some() {
            return Some(self.insert_whole(&place, &object(), version));
        }
        Some(self.insert(&place, head, version))
    }

    /// Adds an object from a response, always with content. `None` when it is outdated or
    /// the object was deleted.
    pub fn put(&mut self, key: &ResourceKey, object: &Value) -> Option<IndexChange> {
        if self.gone.contains(object.uid()) {
            return None;
        }
        let place = place(key);
        let version = version_of(object);
        if let Some(entry) = self.entries.get(&*place)
            && is_older(version, entry.version)
        {
            return None;
        }
        if self.removed.get(&*place).is_some_and(|uid| *uid != object.uid()) {
            self.removed.remove(&*place);
        }
        Some(self.insert_whole(&place, object, version))
    }

    /// Removes a deleted object at once.
    pub fn remove(&mut self, key: &ResourceKey, uid: &str) -> Option<IndexChange> {
        let place = place(key);
        let entry = self.entries.get(&*place).filter(|entry| *entry.uid == *uid)?;
        let change = IndexChange::counting(entry.instances());
        self.drop_entry(&place);
        self.removed.insert(place.into(), uid.to_owned());
        Some(change)
    }

    /// Applies a deletion event.
    pub fn delete(&mut self, key: &ResourceKey, head: &Value) -> Option<IndexChange> {
        self.gone.remember(head.uid());
        let place = place(key);
        if self.removed.get(&*place).is_some_and(|uid| *uid == head.uid()) {
            self.removed.remove(&*place);
            // The instance that deleted it has the response of the server.
            return None;
        }
        let entry = self.entries.get(&*place).filter(|entry| *entry.uid == *head.uid())?;
        let change = IndexChange::counting(entry.instances());
        self.drop_entry(&place);
        Some(change)
    }

    /// Starts a new listing.
    pub fn begin(&mut self) {
        self.listing += 1;
    }

    /// Ends a listing: objects that it does not contain are deleted, unless they were
    /// written since it started.
    pub fn end(&mut self) -> Vec<(ResourceKey, IndexChange)> {
        let listing = self.listing;
        let gone = self.entries.iter().filter(|(_, entry)| entry.listing < listing);
        let mut gone: Vec<Place> = gone.map(|(place, _)| place.clone()).collect();
        gone.sort_unstable();
        self.removed.clear();
        gone.into_iter()
            .filter_map(|place| {
                let entry = self.drop_entry(&place)?;
                self.gone.remember(&entry.uid);
                Some((self.key(&place), IndexChange::counting(entry.instances())))
            })
            .collect()
    }

    /// All tracked objects, as relevant changes.
    pub fn all(&self) -> Vec<(ResourceKey, IndexChange)> {
        let owned = self.entries.iter().filter(|(_, entry)| entry.instance.is_some());
        let mut owned: Vec<(&Place, &Entry)> = owned.collect();
        owned.sort_unstable_by_key(|(place, _)| *place);
        owned
            .into_iter()
            .map(|(place, entry)| (self.key(place), IndexChange::counting(entry.instances())))
            .collect()
    }

    fn drop_entry(&mut self, place: &str) -> Option<Entry> {
        let (place, entry) = self.entries.remove_entry(place)?;
        if let Some(instance) = &entry.instance {
            self.by_instance.remove(&(Arc::clone(instance), place));
        }
        Some(entry)
    }

    /// Without content.
    fn insert(&mut self, place: &str, head: &Value, version: Option<u64>) -> IndexChange {
        let old = self.drop_entry(place);
        let instances = old.iter().flat_map(Entry::instances).collect::<BTreeSet<_>>();
        let (uid, listing) = (head.uid().into(), self.listing);
        let entry = Entry { version, uid, instance: None, object: None, listing };
        self.entries.insert(place.into(), entry);
        IndexChange { counts: !instances.is_empty(), instances }
    }

    fn insert_whole(&mut self, place: &str, object: &Value, version: Option<u64>) -> IndexChange {
        let kept = Kept::of(object, self.mark.content(object));
        let old = self.drop_entry(place);
        let before = old.as_ref().and_then(|entry| entry.object.as_ref());
        let counts = before.is_none_or(|before| before.content != kept.content);
        let (uid, place, listing) = (object.uid().into(), Place::from(place), self.listing);
        let instance = self.mark.instance_of(object).map(Arc::from);
        if let Some(instance) = &instance {
            self.by_instance.insert((Arc::clone(instance), Arc::clone(&place)));
        }
        let entry = Entry { version, uid, instance, object: Some(kept), listing };
        let instances = old.iter().flat_map(Entry::instances).chain(entry.instances()).collect();
        self.entries.insert(place, entry);
        IndexChange { instances, counts }
    }
}

impl Entry {
    fn instances(&self) -> impl Iterator<Item = String> + use<'_> {
        self.instance.iter().map(|instance| instance.to_string())
    }
}

/// Names and namespaces of objects contain no slash.
fn place(key: &ResourceKey) -> String {
    format!("{}/{}", key.namespace, key.name)
}

/// The instances that an event affects.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct IndexChange {
    /// Previous and current instances of the object.
    pub instances: BTreeSet<String>,
    /// Whether anything that counts has changed: not version, generation and managed fields, nor
    /// what the settings ignore (SE-178).
    pub counts: bool,
}

impl IndexChange {
    fn counting(instances: impl Iterator<Item = String>) -> Self {
        Self { instances: instances.collect(), counts: true }
    }
}

fn version_of(object: &Value) -> Option<u64> {
    number(object.resource_version())
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
