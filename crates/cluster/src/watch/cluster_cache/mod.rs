//! The live state of a cluster: one watch for each kind that an Application uses or has
//! objects of.
//!
//! ```text
//! API server ── discovery ──> kinds
//!            ── one watch per kind ──> index ──> affected instances ──> trigger
//! own writes ──────────────────────────^ (mutation cache, until the watch has caught up)
//! ```
//!
//! Only the content of objects that are tracked by an Application or named by its targets
//! is kept. Of all others, only the existence is known; an object to be adopted is read
//! on demand.
//!
//! An object never becomes older: the response to an own write stays until the watch has
//! that version or a later one. A kind that cannot be listed is an [`Error`], never an
//! absence.
//!
//! This module only reads; it does not decide or write.

mod cache;
mod claims;
mod discovery;
mod error;
mod facts;
mod feed;
mod feeding;
mod index;
pub mod once;
mod owner_graph;
mod raw_object;
mod reach;
mod schemas;
mod structure;
mod survey;
mod surveyed;
mod trees;
mod wanted;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::api::{Api, DynamicObject};
use kube::core::discovery::ApiResource;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use crate::watch::failure::{checked, error_reason};
use crate::watch::object::object_api;
use crate::watch::request_limit::RequestLimit;
use wavegate_api::kind::{Capabilities, GroupVersionKind, Served};
use wavegate_api::resource_key::ResourceKey;

pub use cache::ClusterCache;
use cache::{Client, Trees};
use discovery::KnownKinds;
pub use error::Error;
pub use facts::ClusterFacts;
use feed::{Feed, LIST_TIMEOUT, definitions};
use index::IndexChange;
pub use index::{Kept, Lookup, Relevance, TrackingMark};
pub use owner_graph::{
    ChangedTree, Excerpt, GraphMember, IsOrphan, OwnerGraph, OwnerLink, TreeReaders,
};
pub use reach::{ClusterReach, SurveyMode};
use surveyed::{Survey, gvk};
pub use wanted::WantedKinds;

/// Version and kinds of a cluster that is not cached, for charts.
///
/// # Errors
///
/// When the discovery fails.
pub async fn capabilities_of(client: &kube::Client) -> Result<Capabilities, kube::Error> {
    KnownKinds::default().capabilities(client).await
}

/// Kinds with whether they are namespaced, and API groups that failed with the reason.
pub type Listable = (Vec<(ApiResource, bool)>, BTreeMap<String, String>);

impl ClusterCache {
    /// A cluster without watches. Instances affected by a change are sent to `trigger`;
    /// `stop` ends all watches. With `readers`, it has the objects of all kinds, for those who
    /// read resource trees. All connections to one server have the same `wanted`, so that nothing
    /// of it is lost with one of them.
    pub fn new(
        server: &str,
        client: kube::Client,
        (mark, reach, wanted): (TrackingMark, ClusterReach, Arc<Mutex<WantedKinds>>),
        trigger: UnboundedSender<String>,
        readers: Option<TreeReaders>,
        stop: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            graph: readers.map(|readers| Arc::new(OwnerGraph::new(readers, trigger.clone()))),
            trees: Trees::default(),
            server: server.to_owned(),
            client: Client(client),
            mark,
            requests: RequestLimit::new(reach.writes),
            reach,
            known: tokio::sync::Mutex::default(),
            schemas: tokio::sync::Mutex::default(),
            survey: Survey::default(),
            feeds: Mutex::default(),
            wanted,
            missing_kinds: Mutex::default(),
            version: Mutex::default(),
            listed_at: Mutex::default(),
            trigger,
            stop,
            ended: CancellationToken::new(),
        })
    }

    /// Ends all watches, and whatever waits for them in [`Self::while_connected`]: the Secret
    /// of the cluster has changed.
    pub fn end(&self) {
        self.ended.cancel();
        self.stop.cancel();
    }

    /// Runs something that reads the cluster, until [`Self::end`]: then there is no result,
    /// since nothing would be listed any more.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`].
    pub async fn while_connected<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        let done = self.ended.run_until_cancelled(work).await;
        done.ok_or_else(|| Error::Ended { server: self.server.clone() })
    }

    /// The part of the cluster that is read.
    pub fn reach(&self) -> &ClusterReach {
        &self.reach
    }

    /// The client of the cluster.
    pub fn client(&self) -> &kube::Client {
        &self.client.0
    }

    /// URL of its API server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Resolves kinds with discovery; `instance` is triggered when a kind that does not
    /// exist is installed.
    ///
    /// # Errors
    ///
    /// [`Error::Discovery`].
    pub async fn kinds(
        &self,
        instance: &str,
        wanted: impl IntoIterator<Item = GroupVersionKind>,
    ) -> Result<BTreeMap<GroupVersionKind, Served>, Error> {
        let mut known = self.discovery().await?;
        let mut kinds = BTreeMap::new();
        let mut is_missing = false;
        for kind in wanted {
            let found = known.resolve(&self.client.0, &kind).await;
            let found = found.map_err(|error| self.discovery_failed(&mut known, &error))?;
            is_missing |= matches!(found, Served::Missing { .. });
            kinds.insert(kind, found);
        }
        let mut all = self.missing_kinds.lock();
        if is_missing {
            all.insert(instance.to_owned());
        } else {
            all.remove(instance);
        }
        Ok(kinds)
    }

    /// Version and kinds of the cluster, for charts.
    ///
    /// # Errors
    ///
    /// [`Error::Discovery`].
    pub async fn capabilities(&self) -> Result<Capabilities, Error> {
        let mut known = self.discovery().await?;
        let found = known.capabilities(&self.client.0).await;
        let found = found.map_err(|error| self.discovery_failed(&mut known, &error))?;
        *self.version.lock() = Some(found.version.clone());
        Ok(found)
    }

    /// Invalidates the discovery, for example after a definition was applied. Kinds that
    /// were not served are listed again: their definition may have returned.
    pub async fn forget_kinds(&self) {
        self.known.lock().await.forget();
        self.schemas.lock().await.forget_custom();
        for feed in self.feeds.lock().values() {
            feed.list_again();
        }
    }

    /// Validates the fields of an object with the schema that the cluster publishes, with
    /// messages as in kubectl. Returns nothing without a schema: the server validates in
    /// any case.
    pub async fn mistakes(&self, resource: &ApiResource, object: &Value) -> Vec<String> {
        self.schemas.lock().await.mistakes(&self.client.0, resource, object).await
    }

    /// The structure of custom kinds, as their definitions say: fields, defaults, and how lists and
    /// maps merge. Of a kind whose definition cannot be read there is none.
    pub async fn structures(
        &self,
        kinds: impl IntoIterator<Item = GroupVersionKind>,
    ) -> BTreeMap<GroupVersionKind, Arc<Value>> {
        let mut found = BTreeMap::new();
        // Users of some namespaces may not read definitions.
        if self.reach.namespaces.is_some() {
            return found;
        }
        for kind in kinds {
            let Ok(Some((resource, _))) = self.resource(&kind, false).await else { continue };
            let structure = self.schemas.lock().await.structure(&self.client.0, &resource).await;
            found.extend(structure.map(|structure| (kind, structure)));
        }
        found
    }

    /// The request path of a kind; `None` when it does not exist. With `any_version`, a
    /// version that does not exist is replaced by the preferred one.
    ///
    /// # Errors
    ///
    /// [`Error::Discovery`].
    pub async fn resource(
        &self,
        kind: &GroupVersionKind,
        any_version: bool,
    ) -> Result<Option<(ApiResource, bool)>, Error> {
        let mut known = self.discovery().await?;
        let found = known.resource(&self.client.0, kind, any_version).await;
        found.map_err(|error| self.discovery_failed(&mut known, &error))
    }

    /// All kinds that can be listed, each in its preferred version and with whether it is
    /// namespaced, and the groups that failed.
    ///
    /// # Errors
    ///
    /// [`Error::Discovery`].
    pub async fn listable(&self) -> Result<Listable, Error> {
        let mut known = self.discovery().await?;
        match known.listable(&self.client.0).await {
            Ok((kinds, silent)) => {
                let silent = silent.into_iter().map(|(group, why)| (survey::of_group(&group), why));
                Ok((kinds, silent.collect()))
            }
            Err(error) => Err(self.discovery_failed(&mut known, &error)),
        }
    }

    /// The last discovery, unless it has just failed.
    async fn discovery(&self) -> Result<tokio::sync::MutexGuard<'_, KnownKinds>, Error> {
        let known = self.known.lock().await;
        match known.recent_failure() {
            Some(reason) => Err(Error::Discovery { server: self.server.clone(), reason }),
            None => Ok(known),
        }
    }

    fn discovery_failed(&self, known: &mut KnownKinds, error: &kube::Error) -> Error {
        let reason = error_reason(error);
        known.fail(&reason);
        Error::Discovery { server: self.server.clone(), reason }
    }

    /// An API for one object; cluster-scoped when the namespace is empty.
    pub fn api(&self, resource: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        object_api(&self.client.0, resource, namespace)
    }

    /// Starts watches of these kinds and waits until all are listed. Kinds that do not
    /// exist are skipped: they have no objects.
    ///
    /// # Errors
    ///
    /// All of [`Error`]; the kinds that could be listed stay watched.
    pub async fn watch(
        self: &Arc<Self>,
        kinds: impl IntoIterator<Item = GroupVersionKind>,
    ) -> Result<(), Error> {
        let mut all: BTreeSet<GroupVersionKind> = kinds.into_iter().collect();
        self.begin_survey();
        self.begin_trees();
        let definitions = definitions();
        if self.reach.namespaces.is_none() {
            all.insert(definitions.clone());
        }
        // The status of an Application may name kinds that were excluded since.
        all.retain(|kind| !self.reach.filter.excludes(&kind.group, &kind.kind));
        let mut watched = Vec::new();
        for kind in all {
            let mut found = self.feeds_of(&kind);
            if found.is_empty() || found.iter().any(|feed| feed.is_missing()) {
                found = match self.resource(&kind, true).await? {
                    Some((resource, namespaced)) => self.start(&resource, namespaced),
                    None => {
                        self.drop_feeds(&kind);
                        continue;
                    }
                };
            }
            // Triggers only instances that need the kind, which may be forbidden.
            if kind != definitions {
                watched.push((kind, found));
            }
        }
        for (kind, feeds) in watched {
            for feed in feeds {
                let Err(error) = feed.ready(LIST_TIMEOUT).await else { continue };
                // Discovery may be from before the definition was deleted.
                if !feed.is_missing() {
                    return Err(error);
                }
                self.known.lock().await.forget();
                if self.resource(&kind, true).await?.is_some() {
                    return Err(error);
                }
                self.drop_feeds(&kind);
                break;
            }
        }
        Ok(())
    }

    /// Ends the watches of a kind that does not exist any more, and so has no objects.
    fn drop_feeds(&self, kind: &GroupVersionKind) {
        let places = self.reach.places();
        let mut feeds = self.feeds.lock();
        let gone: Vec<_> =
            places.filter_map(|place| feeds.remove(&(kind.clone(), place))).collect();
        drop(feeds);
        for feed in gone {
            feed.stop.cancel();
            self.forget_all(&kind.group, &kind.kind);
            for (key, change) in feed.objects.lock().all() {
                self.trigger_affected(&key, &change, "");
            }
        }
    }

    /// Starts the watches of a kind.
    fn start(self: &Arc<Self>, resource: &ApiResource, namespaced: bool) -> Vec<Arc<Feed>> {
        let kind = gvk(resource);
        let mut feeds = self.feeds.lock();
        let start = |namespace: Option<String>| {
            let feed = feeds.entry((kind.clone(), namespace.clone())).or_insert_with(|| {
                let (mark, wanted) = (self.mark.clone(), self.wanted.clone());
                let stop = self.stop.child_token();
                let graph = self.graph.clone();
                let feed = Feed::new(resource.clone(), mark, wanted, graph, stop.clone());
                let feed = Arc::new(feed);
                let api = match &namespace {
                    None => Api::all_with(self.client.0.clone(), resource),
                    Some(name) => Api::namespaced_with(self.client.0.clone(), name, resource),
                };
                let work = feed.clone().run(Arc::downgrade(self), api);
                tokio::spawn(async move { stop.run_until_cancelled(work).await });
                feed
            });
            feed.clone()
        };
        self.reach.of(namespaced).into_iter().map(start).collect()
    }

    /// The watches of a kind.
    fn feeds_of(&self, kind: &GroupVersionKind) -> Vec<Arc<Feed>> {
        let feeds = self.feeds.lock();
        let places = self.reach.places();
        places.filter_map(|place| feeds.get(&(kind.clone(), place)).cloned()).collect()
    }

    /// The watch that an object of a namespace is in.
    fn feed(&self, kind: &GroupVersionKind, namespace: &str) -> Option<Arc<Feed>> {
        let feeds = self.feeds.lock();
        let whole = feeds.get(&(kind.clone(), None));
        let part = || feeds.get(&(kind.clone(), Some(namespace.to_owned())));
        whole.or_else(part).cloned()
    }

    /// All objects that are tracked by an instance.
    pub fn tracked(&self, instance: &str) -> BTreeMap<ResourceKey, Arc<Value>> {
        let feeds: Vec<Arc<Feed>> = self.feeds.lock().values().cloned().collect();
        let kept = feeds.iter().flat_map(|feed| feed.objects.lock().tracked(instance));
        kept.map(|(key, kept)| (key, kept.parse())).collect()
    }

    /// Whether the watch of a kind works.
    ///
    /// # Errors
    ///
    /// [`Error::List`] if it does not.
    pub fn check(&self, kind: &GroupVersionKind) -> Result<(), Error> {
        self.feeds_of(kind).iter().try_for_each(|feed| feed.check())
    }

    /// One object with content; `None` when it does not exist. Its kind must be watched.
    /// Read from the server when its content is not in the cache.
    ///
    /// # Errors
    ///
    /// [`Error::Read`].
    pub async fn get(
        &self,
        kind: &GroupVersionKind,
        key: &ResourceKey,
    ) -> Result<Option<Arc<Value>>, Error> {
        let Some(feed) = self.feed(kind, &key.namespace) else { return Ok(None) };
        let seen = feed.objects.lock().get(key);
        match seen {
            Lookup::Absent => Ok(None),
            Lookup::Whole(kept) => Ok(Some(kept.parse())),
            Lookup::Exists => self.read(&feed.resource, key).await,
        }
    }

    /// Whether an object exists. Its kind must be watched.
    pub fn exists(&self, kind: &GroupVersionKind, key: &ResourceKey) -> bool {
        let feed = self.feed(kind, &key.namespace);
        feed.is_some_and(|feed| !matches!(feed.objects.lock().get(key), Lookup::Absent))
    }

    /// Reads one object from the server, not from the cache.
    ///
    /// # Errors
    ///
    /// [`Error::Read`].
    pub async fn read(
        &self,
        resource: &ApiResource,
        key: &ResourceKey,
    ) -> Result<Option<Arc<Value>>, Error> {
        let read = match checked(key) {
            Ok(()) => self.api(resource, &key.namespace).get_opt(&key.name).await,
            Err(error) => Err(error),
        };
        let read =
            read.map_err(|error| Error::Read { key: key.clone(), reason: error_reason(&error) })?;
        Ok(read.map(|object| {
            let object = Arc::new(raw_object(object, resource));
            self.keep(&object);
            object
        }))
    }

    /// Adds the response to an own write. Triggers all affected instances except the
    /// writer, since the watch will not report a change.
    pub fn put(&self, object: &Arc<Value>) {
        let Some((key, change)) = self.keep(object) else { return };
        let own = self.mark.instance_of(object).unwrap_or_default();
        self.trigger_affected(&key, &change, own);
    }

    /// Adds an object as returned by the server.
    fn keep(&self, object: &Arc<Value>) -> Option<(ResourceKey, IndexChange)> {
        let key = ResourceKey::from_object(object)?;
        let feed = self.feed(&GroupVersionKind::of(object), &key.namespace)?;
        let change = feed.objects.lock().put(&key, object)?;
        if let Some(graph) = &self.graph {
            graph.put(&key, object, self.mark.instance_of(object));
        }
        Some((key, change))
    }

    /// Records that the server has removed an object at once.
    pub fn remove(&self, key: &ResourceKey, uid: &str) {
        let feeds: Vec<Arc<Feed>> = self.feeds.lock().values().cloned().collect();
        for feed in feeds {
            if feed.resource.group == key.group && feed.resource.kind == key.kind {
                let change = feed.objects.lock().remove(key, uid);
                if let Some(graph) = &self.graph {
                    graph.remove(key, Some(uid));
                }
                if let Some(change) = change {
                    self.trigger_affected(key, &change, "");
                }
            }
        }
    }

    /// Triggers the instances affected by a change, except the writer.
    fn trigger_affected(&self, key: &ResourceKey, change: &IndexChange, except: &str) {
        if !change.counts {
            return;
        }
        let mut concerned = change.instances.clone();
        concerned.extend(self.wanted.lock().by(key).map(str::to_owned));
        for instance in concerned.iter().filter(|instance| *instance != except) {
            self.notify(instance);
        }
    }

    /// Triggers an instance.
    fn notify(&self, instance: &str) {
        // The receiver is closed only when the controller has stopped.
        let _ = self.trigger.send(instance.to_owned());
    }

    /// Handles changed or initially listed definitions: kinds may have been added or
    /// removed. Before the first listing is complete, only kinds that an instance needs
    /// are considered.
    async fn definitions_changed(&self, listed: bool) {
        let missing = std::mem::take(&mut *self.missing_kinds.lock());
        if listed || !missing.is_empty() {
            self.forget_kinds().await;
        }
        if listed {
            self.survey.again();
            self.trees.again();
        }
        for instance in missing {
            self.notify(&instance);
        }
    }
}

/// A dynamic object as raw JSON; list items have no type.
pub fn raw_object(object: DynamicObject, resource: &ApiResource) -> Value {
    let mut data = match object.data {
        Value::Object(map) => map,
        _ => serde_json::Map::new(),
    };
    let types = object.types;
    let (api_version, kind) = match types {
        Some(types) if !types.kind.is_empty() => (types.api_version, types.kind),
        _ => (resource.api_version.clone(), resource.kind.clone()),
    };
    data.insert("apiVersion".to_owned(), api_version.into());
    data.insert("kind".to_owned(), kind.into());
    let metadata = serde_json::to_value(object.metadata).unwrap_or_default();
    data.insert("metadata".to_owned(), metadata);
    Value::Object(data)
}
