//! Cache of the objects of one kind of the control plane: from the watch and from own writes.
//!
//! No I/O: events and responses go in, changes come out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use parking_lot::{Mutex, RwLock};
use serde::Deserialize;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::kind::Kind;
use crate::watch::mutation_cache::{Gone, is_older, number};
use crate::watch::object::StoredObject;
use crate::watch::watched::Watched;
use wavegate_api::ObjectKey;
use wavegate_api::run::RolloutRunSpec;

/// How long a change that the watch brings waits for the answer to an own write: longer than a busy
/// API server takes, as it may be of another client.
const HELD_AT_MOST: Duration = Duration::from_secs(1);

/// The source of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The watch.
    Watch,
    /// A write of the ApplicationSet controller.
    ApplicationSets,
    /// A write of the Application controller.
    Applications,
}

/// A changed object.
#[derive(Clone, Debug)]
pub struct ObjectChange {
    /// Its kind.
    pub kind: Kind,
    /// Its key.
    pub key: ObjectKey,
    /// The previous version.
    pub old: Option<StoredObject>,
    /// The new version; `None` when it was deleted.
    pub new: Option<StoredObject>,
    /// The source of the change.
    pub origin: Origin,
}

#[derive(Debug)]
struct Entry {
    object: StoredObject,
    /// The UID of the ApplicationSet that controls it; of a run without one, the set that it names.
    owner: Option<Arc<str>>,
    /// The number of the listing in which it was last seen or written.
    listing: u64,
}

#[derive(Debug, Default)]
struct Inner {
    objects: BTreeMap<ObjectKey, Entry>,
    /// By the UID of the controlling ApplicationSet.
    owned: HashMap<Arc<str>, BTreeSet<ObjectKey>>,
    gone: Gone,
    listing: u64,
    /// Objects with own writes on their way.
    writing: HashMap<ObjectKey, Writing>,
}

/// Own writes of an object on their way.
#[derive(Debug, Default)]
struct Writing {
    count: usize,
    held: Option<Held>,
}

/// What the watch has brought meanwhile: one of the writes, before its answer, or a change of
/// another client.
#[derive(Debug)]
struct Held {
    /// The version before.
    old: Option<StoredObject>,
    /// Whether it has brought several versions.
    is_mixed: bool,
}

/// An own write of an object on its way, until it is dropped: what the watch brings of it before
/// the answer is no change of another client, and causes no second decision.
#[derive(Debug)]
pub struct OwnWrite<'a> {
    cache: &'a Cache,
    key: ObjectKey,
    is_held: AtomicBool,
}

impl OwnWrite<'_> {
    /// The answer to the write. When it takes long, changes are not held any more.
    pub async fn answer<T>(&self, write: impl Future<Output = T>) -> T {
        let mut write = pin!(write);
        match tokio::time::timeout(HELD_AT_MOST, &mut write).await {
            Ok(answer) => answer,
            Err(_) => {
                self.release();
                write.await
            }
        }
    }

    fn release(&self) {
        if self.is_held.swap(false, Ordering::Relaxed) {
            self.cache.release(&self.key);
        }
    }
}

impl Drop for OwnWrite<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

/// The objects of one kind.
#[derive(Debug)]
pub struct Cache {
    kind: Kind,
    inner: RwLock<Inner>,
    listed: Watched<bool>,
    /// The kind is taken not to exist.
    is_absent: AtomicBool,
    /// That is not certain: it may exist, and cannot be read.
    is_hidden: AtomicBool,
    subscribers: Mutex<Vec<UnboundedSender<ObjectChange>>>,
}

impl Cache {
    /// An empty cache.
    pub fn new(kind: Kind) -> Self {
        let (inner, subscribers) = (RwLock::default(), Mutex::default());
        let (listed, is_absent) = (Watched::new(false), AtomicBool::new(false));
        let is_hidden = AtomicBool::new(false);
        Self { kind, inner, listed, is_absent, is_hidden, subscribers }
    }

    /// The kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The latest known version of an object.
    pub fn get(&self, key: &ObjectKey) -> Option<StoredObject> {
        self.inner.read().objects.get(key).map(|entry| entry.object.clone())
    }

    /// All objects of a namespace, by name.
    pub fn in_namespace(&self, namespace: &str) -> BTreeMap<String, StoredObject> {
        let from = ObjectKey::new(namespace, "");
        let inner = self.inner.read();
        let entries = inner.objects.range(from..).take_while(|(key, _)| key.namespace == namespace);
        entries.map(|(key, entry)| (key.name.clone(), entry.object.clone())).collect()
    }

    /// The objects that an ApplicationSet controls, by its UID.
    pub fn owned_by(&self, uid: &str) -> Vec<StoredObject> {
        let inner = self.inner.read();
        let keys = inner.owned.get(uid).into_iter().flatten();
        keys.filter_map(|key| Some(inner.objects.get(key)?.object.clone())).collect()
    }

    /// The runs that name an ApplicationSet and that no set controls: somebody has removed their
    /// owner reference.
    pub fn without_owner(&self, set: &ObjectKey) -> Vec<StoredObject> {
        self.owned_by(&set.to_string())
    }

    /// All objects.
    pub fn all(&self) -> Vec<StoredObject> {
        self.inner.read().objects.values().map(|entry| entry.object.clone()).collect()
    }

    /// All keys.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.inner.read().objects.keys().cloned().collect()
    }

    /// Waits until the first listing is complete, or the kind is known not to exist. Before
    /// that, an absent object may exist, so nothing may be decided.
    pub async fn listed(&self) {
        self.listed.wait_for(|listed| *listed).await;
    }

    /// Whether the first listing is complete.
    pub fn is_listed(&self) -> bool {
        self.listed.get()
    }

    /// Whether the kind exists, as far as is known. False before the first listing.
    pub fn is_available(&self) -> bool {
        self.is_listed() && !self.is_absent.load(Ordering::Acquire)
    }

    /// Whether there may be objects of the kind although none can be read. False before the
    /// first listing.
    pub fn is_hidden(&self) -> bool {
        self.is_listed() && self.is_hidden.load(Ordering::Acquire)
    }

    /// Subscribes to changes; objects that are already in the cache come first, as new.
    pub fn subscribe(&self) -> UnboundedReceiver<ObjectChange> {
        let (send, receive) = unbounded_channel();
        let inner = self.inner.write();
        for (key, entry) in &inner.objects {
            let (kind, key, new) = (self.kind, key.clone(), Some(entry.object.clone()));
            let _ = send.send(ObjectChange { kind, key, old: None, new, origin: Origin::Watch });
        }
        self.subscribers.lock().push(send);
        receive
    }

    /// Says that an own write of an object is on its way.
    pub fn begin_write(&self, key: ObjectKey) -> OwnWrite<'_> {
        self.inner.write().writing.entry(key.clone()).or_default().count += 1;
        OwnWrite { cache: self, key, is_held: AtomicBool::new(true) }
    }

    /// Ends an own write. What is still held was a change of another client, or had no answer.
    fn release(&self, key: &ObjectKey) {
        let mut inner = self.inner.write();
        let Some(writing) = inner.writing.get_mut(key) else { return };
        writing.count -= 1;
        if writing.count > 0 {
            return;
        }
        let held = inner.writing.remove(key).and_then(|writing| writing.held);
        let Some(held) = held else { return };
        let Some(new) = inner.objects.get(key).map(|entry| entry.object.clone()) else { return };
        self.publish_of(key.clone(), held.old, new, Origin::Watch);
    }

    /// Adds the response to an own write.
    pub fn wrote(&self, object: StoredObject, by: Origin) {
        self.put(object, by);
    }

    /// Records that the server has removed an object on our request.
    pub fn gone(&self, key: &ObjectKey, uid: &str, by: Origin) {
        let mut inner = self.inner.write();
        inner.gone.remember(uid);
        if inner.objects.get(key).is_some_and(|entry| entry.object.uid() == uid) {
            self.drop_entry(&mut inner, key, by);
        }
    }

    pub(super) fn put(&self, object: StoredObject, origin: Origin) {
        let key = object.key();
        let mut inner = self.inner.write();
        if inner.gone.contains(object.uid()) {
            return;
        }
        let listing = inner.listing;
        if let Some(entry) = inner.objects.get_mut(&key) {
            entry.listing = listing;
            let (known, new) = (entry.object.resource_version(), object.resource_version());
            let is_known = known == new && !new.is_empty();
            if is_known || is_older(number(new), number(known)) {
                if is_known
                    && origin != Origin::Watch
                    && let Some(held) = inner.take_held(&key)
                {
                    // The watch was faster than the answer.
                    let origin = if held.is_mixed { Origin::Watch } else { origin };
                    self.publish_of(key, held.old, object, origin);
                }
                return;
            }
        }
        let old = inner.take(&key);
        let owner = match self.kind {
            Kind::Application => set_owner(&object).map(|owner| inner.own(&owner.uid, &key)),
            Kind::Run => Some(inner.own(&run_owner(&object), &key)),
            Kind::ApplicationSet | Kind::Project | Kind::Secret | Kind::Policy => None,
        };
        inner.objects.insert(key.clone(), Entry { object: object.clone(), owner, listing });
        if origin == Origin::Watch
            && let Some(writing) = inner.writing.get_mut(&key)
        {
            writing.held = Some(match writing.held.take() {
                Some(before) => Held { is_mixed: true, ..before },
                None => Held { old, is_mixed: false },
            });
            return;
        }
        match inner.take_held(&key) {
            // Another client was faster than this write.
            Some(held) => self.publish_of(key, held.old, object, Origin::Watch),
            None => self.publish_of(key, old, object, origin),
        }
    }

    /// Applies a deletion event of the watch.
    pub(super) fn deleted(&self, object: &StoredObject) {
        self.gone(&object.key(), object.uid(), Origin::Watch);
    }

    /// Starts a listing: later own writes may be missing in it.
    pub(super) fn begin(&self) {
        self.inner.write().listing += 1;
    }

    /// Ends a listing: objects that it does not contain are deleted. Returns the objects
    /// that were written since it started and that it does not contain: they must be
    /// read, as the watch does not report their deletion if it has already happened.
    pub(super) fn end(&self, seen: &BTreeSet<ObjectKey>) -> Vec<StoredObject> {
        let mut inner = self.inner.write();
        let listing = inner.listing;
        let unseen = inner.objects.iter().filter(|(key, _)| !seen.contains(*key));
        let (gone, unsure): (Vec<_>, Vec<_>) =
            unseen.partition(|(_, entry)| entry.listing < listing);
        let gone: Vec<ObjectKey> = gone.into_iter().map(|(key, _)| key.clone()).collect();
        let unsure = unsure.into_iter().map(|(_, entry)| entry.object.clone()).collect();
        for key in gone {
            let uid = inner.objects.get(&key).map(|entry| entry.object.uid().to_owned());
            inner.gone.remember(&uid.unwrap_or_default());
            self.drop_entry(&mut inner, &key, Origin::Watch);
        }
        self.is_absent.store(false, Ordering::Release);
        self.is_hidden.store(false, Ordering::Release);
        self.listed.set(true);
        unsure
    }

    /// Records that the kind does not exist, or that it may exist and is hidden: none of its
    /// objects can be read.
    pub(super) fn absent(&self, is_hidden: bool) {
        self.is_hidden.store(is_hidden, Ordering::Release);
        self.is_absent.store(true, Ordering::Release);
        let mut inner = self.inner.write();
        let keys: Vec<ObjectKey> = inner.objects.keys().cloned().collect();
        for key in keys {
            self.drop_entry(&mut inner, &key, Origin::Watch);
        }
        drop(inner);
        self.listed.set(true);
    }

    fn drop_entry(&self, inner: &mut Inner, key: &ObjectKey, origin: Origin) {
        let Some(old) = inner.take(key) else { return };
        inner.take_held(key);
        let (kind, key) = (self.kind, key.clone());
        self.publish(ObjectChange { kind, key, old: Some(old), new: None, origin });
    }

    fn publish_of(
        &self,
        key: ObjectKey,
        old: Option<StoredObject>,
        new: StoredObject,
        origin: Origin,
    ) {
        self.publish(ObjectChange { kind: self.kind, key, old, new: Some(new), origin });
    }

    /// Called with the lock held, so that changes arrive in order.
    fn publish(&self, change: ObjectChange) {
        self.subscribers.lock().retain(|subscriber| subscriber.send(change.clone()).is_ok());
    }
}

impl Inner {
    fn take_held(&mut self, key: &ObjectKey) -> Option<Held> {
        self.writing.get_mut(key)?.held.take()
    }

    fn own(&mut self, uid: &str, key: &ObjectKey) -> Arc<str> {
        let known = self.owned.get_key_value(uid).map(|(uid, _)| Arc::clone(uid));
        let uid = known.unwrap_or_else(|| uid.into());
        self.owned.entry(Arc::clone(&uid)).or_default().insert(key.clone());
        uid
    }

    fn take(&mut self, key: &ObjectKey) -> Option<StoredObject> {
        let Entry { object, owner, .. } = self.objects.remove(key)?;
        if let Some(uid) = owner
            && let Some(keys) = self.owned.get_mut(&uid)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.owned.remove(&uid);
            }
        }
        Some(object)
    }
}

/// The ApplicationSet that controls an Application or a RolloutRun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetOwner {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// The ApplicationSet that controls an object, if any.
pub fn set_owner(object: &StoredObject) -> Option<SetOwner> {
    let is_set =
        |owner: &&OwnerReference| owner.kind == "ApplicationSet" && owner.controller == Some(true);
    let owner = object.owners().iter().find(is_set)?;
    Some(SetOwner { name: owner.name.clone(), uid: owner.uid.clone() })
}

/// The UID of the ApplicationSet that controls a run; without one, the namespace and name of the
/// set that the run names, which no UID equals.
fn run_owner(run: &StoredObject) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Fields {
        spec: RolloutRunSpec,
    }
    set_owner(run).map(|owner| owner.uid).unwrap_or_else(|| {
        let set = run.read_leniently::<Fields>().spec.application_set;
        ObjectKey::new(run.namespace(), &set).to_string()
    })
}
