//! The state that all reconciles of ApplicationSets share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::in_flight::Ledger;
use super::memory::SetMemory;
use super::namespaces::Namespaces;
use super::policies::Reports;
use super::repositories::ReadRepositories;
use crate::context::Core;
use crate::runtime::{self, Queue, Slots};
use crate::settings::ApplicationSetSettings;
use wavegate_api::cluster::ClusterSecret;
use wavegate_api::{ObjectKey, Raw};
use wavegate_cluster::act::events::Events;
use wavegate_cluster::act::notify::Notifier;
use wavegate_providers::Providers;
use wavegate_rollout::application_set::generate::generated::Generated;
use wavegate_rollout::application_set::plan::ownership_transfer::Other;
use wavegate_rollout::application_set::status::stored;
use wavegate_source::Repositories;

/// The component in Events and in requested operations.
pub const COMPONENT: &str = "applicationset-controller";

/// The request of a reconcile. A rollout may wait for any event, so all events are
/// urgent; due times are not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Request(pub(super) bool);

impl runtime::QueueRequest for Request {
    fn and(self, other: Self) -> Self {
        Self(self.0 || other.0)
    }

    fn is_urgent(self) -> bool {
        self.0
    }
}

/// What an ApplicationSet generates.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its UID.
    pub uid: String,
    /// The result of reading its spec.
    pub generated: Arc<Generated>,
    /// Whether it waits for others: one of its Applications is owned by another object, or is
    /// to be deleted unless another set generates it.
    pub waits: bool,
    /// What it was generated from, besides the spec.
    pub read: Read,
}

/// What a set was generated from, besides its spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// The cluster Secrets; `None` when they were not used.
    pub clusters: Option<Arc<[ClusterSecret]>>,
    /// The repositories; `None` when none was read.
    pub repositories: Option<ReadRepositories>,
}

impl Read {
    /// Whether the clusters are those that another set sees now.
    fn has_clusters_of(&self, current: &Self) -> bool {
        self.clusters.is_none() || self.clusters == current.clusters
    }

    /// Whether no repository of another set was read before what that one read last changed.
    fn has_repositories_of(&self, current: &Self) -> bool {
        let (Some(own), Some(other)) = (&self.repositories, &current.repositories) else {
            return true;
        };
        own.read_at >= other.changed_at || own.places.is_disjoint(&other.places)
    }
}

/// What changed since the last reconcile of an ApplicationSet.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The names of Applications.
    names: BTreeSet<String>,
    /// What other clients changed: the names of Applications again, `None` for something else.
    news: BTreeSet<Option<String>>,
}

/// The state that all reconciles share.
pub struct Context {
    /// What both controllers share.
    pub core: Core,
    /// Settings of the controller.
    pub settings: ApplicationSetSettings,
    /// Events about ApplicationSets.
    pub events: Events,
    /// Cached state of each ApplicationSet between reconciles: everything can be computed
    /// again.
    pub memory: Mutex<HashMap<ObjectKey, SetMemory>>,
    /// What changed since the last reconcile of each ApplicationSet.
    pub(super) changed: Mutex<HashMap<ObjectKey, Changes>>,
    /// What each ApplicationSet generates: an Application of one may become that of another.
    pub claims: Mutex<BTreeMap<ObjectKey, Claim>>,
    /// The ApplicationSets whose repositories are read again, for others that wait.
    pub asked_to_read: Mutex<BTreeSet<ObjectKey>>,
    /// What each set takes of limits that sets share.
    pub(super) in_flight: Ledger,
    /// What is reported of policies.
    pub(super) policies: Reports,
    /// Sends notifications.
    pub(super) notifier: Notifier,
    /// The queue of reconciles.
    pub(super) queue: Arc<Queue<Request>>,
    /// The namespaces of sets whose policy forbids deletion.
    pub namespaces: Namespaces,
    /// Repositories of git generators.
    pub sources: Arc<Repositories>,
    /// Services of other generators.
    pub providers: Providers,
    /// Worker slots: a reconcile holds one while it runs.
    pub slots: Slots,
}

impl Context {
    /// Whether the controller watches a namespace.
    pub fn is_watched(&self, namespace: &str) -> bool {
        self.settings.covers(namespace)
    }

    /// Takes the cached state of an ApplicationSet; it is returned after the reconcile.
    pub fn take_memory(&self, key: &ObjectKey, uid: &str) -> SetMemory {
        let memory = self.memory.lock().remove(key).filter(|memory| memory.uid == uid);
        memory.unwrap_or_else(|| SetMemory::of(uid))
    }

    /// Until when a reconcile of this ApplicationSet waits for more events; `None` at the first.
    pub fn gathers_until(&self, key: &ObjectKey) -> Option<Instant> {
        let pace = self.memory.lock().get(key)?.pace?;
        Some(pace.not_before.max(Instant::now() + pace.lead))
    }

    /// Returns the cached state of an ApplicationSet.
    pub fn return_memory(&self, key: &ObjectKey, memory: SetMemory) {
        self.memory.lock().insert(key.clone(), memory);
    }

    /// Drops the cached state of a deleted ApplicationSet.
    pub fn forget(&self, key: &ObjectKey) {
        self.core.metrics.forget(key);
        self.memory.lock().remove(key);
        self.changed.lock().remove(key);
        self.asked_to_read.lock().remove(key);
        self.in_flight.forget(key);
        self.policies.forget(key);
        self.disclaim(key);
    }

    /// Records what an ApplicationSet generates, and reconciles those that wait for an
    /// Application of another one if that has changed.
    pub fn claim(&self, key: &ObjectKey, claim: Claim) {
        let mut claims = self.claims.lock();
        let old = claims.insert(key.clone(), claim.clone());
        let is_same =
            |old: Claim| Arc::ptr_eq(&old.generated, &claim.generated) && old.read == claim.read;
        if !old.is_some_and(is_same) {
            self.wake_waiting(&claims, key);
        }
    }

    /// Removes what an ApplicationSet generates, as it takes nothing over any more.
    pub fn disclaim(&self, key: &ObjectKey) {
        let mut claims = self.claims.lock();
        if claims.remove(key).is_some() {
            self.wake_waiting(&claims, key);
        }
    }

    fn wake_waiting(&self, claims: &BTreeMap<ObjectKey, Claim>, key: &ObjectKey) {
        let waiting = in_namespace(claims, key).filter(|(_, other)| other.waits);
        waiting.for_each(|(other, _)| self.queue.enqueue(other, Request(true)));
    }

    /// Whether another ApplicationSet needs to know what this one generates from its
    /// repositories now; asked once.
    pub fn is_asked_to_read(&self, key: &ObjectKey) -> bool {
        self.asked_to_read.lock().remove(key)
    }

    /// The ApplicationSets that generate an Application, besides its owner.
    pub fn claimants(&self, application: &ObjectKey, owner: &str) -> Vec<ObjectKey> {
        let claims = self.claims.lock();
        let wants = |(key, claim): &(&ObjectKey, &Claim)| {
            key.name != owner && claim.generated.get(&application.name).is_some()
        };
        let from = ObjectKey::new(&application.namespace, "");
        in_namespace(&claims, &from).filter(wants).map(|(key, _)| key.clone()).collect()
    }

    /// The other ApplicationSets of the namespace, apart from those that are being deleted.
    /// `current` is what the one that waits has read: what was generated from older inputs
    /// is not known, and its repositories are read again.
    pub fn others(&self, key: &ObjectKey, current: Option<&Read>) -> Vec<Other> {
        let sets = self.core.control_plane.sets.in_namespace(&key.namespace);
        let claims = self.claims.lock();
        let other = |(name, object): (String, wavegate_cluster::watch::object::StoredObject)| {
            let set = object.parse_status();
            if name == key.name || set.is_deleting() {
                return None;
            }
            let other = ObjectKey::new(&key.namespace, &name);
            let claim = claims.get(&other).filter(|claim| claim.uid == object.uid());
            let is_of_spec = |claim: &&Claim| set.generation() == claim.generated.generation;
            let is_read = |claim: &&Claim| {
                let Some(current) = current else { return true };
                let has_repositories = claim.read.has_repositories_of(current);
                if !has_repositories && self.asked_to_read.lock().insert(other.clone()) {
                    self.queue.enqueue(&other, Request(true));
                }
                has_repositories && claim.read.has_clusters_of(current)
            };
            Some(Other {
                name: name.into(),
                uid: object.uid().into(),
                generated: claim.map(|claim| Arc::clone(&claim.generated)),
                is_current: claim.filter(is_of_spec).filter(is_read).is_some(),
                failing_since: stored::failing_since(&set),
            })
        };
        sets.into_iter().filter_map(other).collect()
    }

    /// Records that Applications of an ApplicationSet have changed.
    pub fn changed<'a>(&self, key: &ObjectKey, names: impl IntoIterator<Item = &'a str>) {
        let mut changed = self.changed.lock();
        let known = changed.entry(key.clone()).or_default();
        known.names.extend(names.into_iter().map(str::to_owned));
    }

    /// Records that another client has changed an Application of an ApplicationSet; without a name,
    /// something else that it depends on.
    pub fn has_news(&self, key: &ObjectKey, name: Option<&str>) {
        let mut changed = self.changed.lock();
        let known = changed.entry(key.clone()).or_default();
        known.names.extend(name.map(str::to_owned));
        known.news.insert(name.map(str::to_owned));
    }

    /// Takes the news since the last time, or the last reconcile.
    pub fn take_news(&self, key: &ObjectKey) -> BTreeSet<Option<String>> {
        let mut changed = self.changed.lock();
        changed.get_mut(key).map_or_else(BTreeSet::new, |changes| std::mem::take(&mut changes.news))
    }

    /// Takes the names of the changed Applications.
    pub fn take_changed(&self, key: &ObjectKey) -> BTreeSet<String> {
        self.changed.lock().remove(key).unwrap_or_default().names
    }
}

/// The other claims of a namespace.
fn in_namespace<'a>(
    claims: &'a BTreeMap<ObjectKey, Claim>,
    key: &'a ObjectKey,
) -> impl Iterator<Item = (&'a ObjectKey, &'a Claim)> {
    let from = ObjectKey::new(&key.namespace, "");
    let is_near = move |(other, _): &(&ObjectKey, &Claim)| other.namespace == key.namespace;
    let all = claims.range(from..).take_while(is_near);
    all.filter(move |(other, _)| *other != key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(read_at: i64, changed_at: i64, place: &str) -> Read {
        let at = |second| jiff::Timestamp::from_second(second).unwrap();
        let places = Arc::new(BTreeSet::from([place.to_owned()]));
        let repositories =
            ReadRepositories { places, read_at: at(read_at), changed_at: at(changed_at) };
        Read { clusters: None, repositories: Some(repositories) }
    }

    /// What was read again without a change makes nothing outdated: two sets would ask each
    /// other for ever.
    #[test]
    fn a_set_is_outdated_by_a_change_only() {
        let (one, other) = (read(20, 10, "a"), read(10, 5, "a"));
        assert!(other.has_repositories_of(&one));
        assert!(one.has_repositories_of(&other));
        assert!(!read(9, 5, "a").has_repositories_of(&one));
        assert!(read(9, 5, "b").has_repositories_of(&one), "another repository");
        assert!(Read::default().has_repositories_of(&one), "none");
    }
}
