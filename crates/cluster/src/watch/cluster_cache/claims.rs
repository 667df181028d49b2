//! Who needs which objects, and who claims them: nobody else deletes these.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::cache::ClusterCache;
use super::feed::Feed;
use wavegate_api::resource_key::ResourceKey;

impl ClusterCache {
    /// Sets the objects that the targets of an instance name: their content is kept, and
    /// their changes trigger the instance.
    pub fn want<'a>(&self, instance: &str, keys: impl IntoIterator<Item = &'a ResourceKey>) {
        let mut keys = keys.into_iter().peekable();
        if let Some(graph) = self.graph.as_ref().filter(|_| keys.peek().is_none()) {
            graph.forget_watcher(instance);
        }
        self.wanted.lock().set(instance, keys);
    }

    /// The same for none, when the instance wants them of another connection.
    pub fn leave(&self, instance: &str, other: &Self) {
        if let Some(graph) = &self.graph {
            graph.forget_watcher(instance);
        }
        if !Arc::ptr_eq(&self.wanted, &other.wanted) {
            self.forget(instance);
        }
    }

    /// Forgets an instance.
    pub fn forget(&self, instance: &str) {
        self.want(instance, []);
        self.follow(instance, []);
        self.claim(instance, [], &[]);
    }

    /// Sets the objects that an instance claims by these revisions, whoever tracks them: nobody
    /// else deletes them. Triggers those who follow one.
    pub fn claim<'a>(
        &self,
        instance: &str,
        keys: impl IntoIterator<Item = &'a ResourceKey>,
        revisions: &[String],
    ) {
        let concerned = self.wanted.lock().claim(instance, keys, revisions);
        for other in concerned {
            self.notify(&other);
        }
    }

    /// Sets the objects of which an instance is triggered when others begin or cease to claim
    /// them.
    pub fn follow<'a>(&self, instance: &str, keys: impl IntoIterator<Item = &'a ResourceKey>) {
        self.wanted.lock().follow(instance, keys);
    }

    /// The instances that claim an object.
    pub fn claiming(&self, key: &ResourceKey) -> Vec<String> {
        self.wanted.lock().claiming(key).map(str::to_owned).collect()
    }

    /// The instances that claimed an object when they had one of these revisions, which are not the
    /// newest.
    pub fn claiming_at(&self, key: &ResourceKey, revisions: &[String]) -> Vec<String> {
        self.wanted.lock().claiming_at(key, revisions).map(str::to_owned).collect()
    }

    /// The instances that track objects of a namespace.
    pub fn tracking_in(&self, namespace: &str) -> BTreeSet<String> {
        let feeds: Vec<Arc<Feed>> = self.feeds.lock().values().cloned().collect();
        feeds.iter().flat_map(|feed| feed.objects.lock().instances_in(Some(namespace))).collect()
    }

    /// The instances that track objects of a kind, in any version.
    pub fn tracking_of(&self, group: &str, kind: &str) -> BTreeSet<String> {
        let feeds: Vec<Arc<Feed>> = self.feeds.lock().values().cloned().collect();
        let is_it = |feed: &&Arc<Feed>| feed.resource.group == group && feed.resource.kind == kind;
        let of = feeds.iter().filter(is_it);
        of.flat_map(|feed| feed.objects.lock().instances_in(None)).collect()
    }
}
