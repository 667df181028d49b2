//! Watches the objects of all kinds, for those who read resource trees, or look for objects that
//! no Application manages.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::cache::ClusterCache;
use super::feed::LIST_TIMEOUT;
use super::owner_graph::{IsOrphan, OwnerGraph};
use super::survey::ALIASES;
use super::surveyed::gvk;
use crate::watch::failure::error_reason;
use wavegate_api::kind::GroupVersionKind;

/// Interval between looks for new kinds without a trigger.
const AGAIN: Duration = Duration::from_secs(600);

/// The same after discovery has failed.
const AGAIN_AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Kinds that belong to no Application and are too many.
const IGNORED: [(&str, &str); 2] = [("", "Event"), ("events.k8s.io", "Event")];

impl ClusterCache {
    /// All objects with what they belong to, if they are kept.
    pub fn graph(&self) -> Option<&OwnerGraph> {
        self.graph.as_deref().filter(|graph| graph.is_active())
    }

    /// Triggers an instance from now on whenever an object of this namespace becomes one that
    /// no Application manages, or is none any more. Returns whether all kinds were listed within a time;
    /// when they are later, the instance is triggered.
    pub async fn watch_orphans(
        self: &Arc<Self>,
        instance: &str,
        namespace: &str,
        is_orphan: IsOrphan,
        limit: Duration,
    ) -> bool {
        let Some(graph) = &self.graph else { return false };
        graph.watch_orphans(instance, namespace, is_orphan);
        graph.activate();
        self.begin_trees();
        tokio::time::timeout(limit, graph.completed()).await.is_ok()
    }

    /// Triggers an instance by its own objects only.
    pub fn forget_orphans(&self, instance: &str) {
        if let Some(graph) = &self.graph {
            graph.forget_watcher(instance);
        }
    }

    /// The number of kinds that are watched.
    pub fn watched_kinds(&self) -> usize {
        self.feeds.lock().len()
    }

    /// Why a kind that is watched cannot be read, if there is one.
    pub fn unreadable(&self) -> Option<String> {
        let feeds: Vec<_> = self.feeds.lock().values().cloned().collect();
        feeds.iter().find_map(|feed| feed.check().err()).map(|error| error.to_string())
    }

    /// Watches all kinds from now on, once, if they are kept.
    pub(super) fn begin_trees(self: &Arc<Self>) {
        if self.graph().is_none() || self.trees.begun.swap(true, Ordering::Relaxed) {
            return;
        }
        let (cluster, stop) = (Arc::clone(self), self.stop.clone());
        tokio::spawn(async move { stop.run_until_cancelled(cluster.watch_all()).await });
    }

    async fn watch_all(self: Arc<Self>) {
        // Those that were watched before have to be listed again.
        let feeds: Vec<_> = self.feeds.lock().values().cloned().collect();
        feeds.iter().for_each(|feed| feed.fill_graph());
        loop {
            let kinds = self.known.lock().await.listable(&self.client.0).await;
            let pause = match kinds {
                Ok((kinds, _)) => {
                    for (resource, namespaced) in kinds {
                        let kind = gvk(&resource);
                        if self.is_of_trees(&kind, namespaced) {
                            self.start(&resource, namespaced);
                        }
                    }
                    self.complete().await;
                    AGAIN
                }
                Err(error) => {
                    let error = error_reason(&error);
                    tracing::debug!(server = self.server, error, "cannot read the kinds");
                    AGAIN_AFTER_FAILURE
                }
            };
            tokio::select! {
                () = self.trees.again.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Waits until all kinds are listed that can be.
    async fn complete(&self) {
        let Some(graph) = self.graph() else { return };
        let until = Instant::now() + LIST_TIMEOUT;
        let feeds: Vec<_> = self.feeds.lock().values().cloned().collect();
        for feed in feeds {
            feed.in_graph(until.saturating_duration_since(Instant::now())).await;
        }
        graph.complete();
    }

    /// Whether objects of a kind are in trees and not watched in any version.
    fn is_of_trees(&self, kind: &GroupVersionKind, namespaced: bool) -> bool {
        let (group, name) = (kind.group.as_str(), kind.kind.as_str());
        let is_watched = || {
            let feeds = self.feeds.lock();
            feeds.keys().any(|(other, _)| other.group == *group && other.kind == *name)
        };
        let is_needed =
            || namespaced || self.graph.as_ref().is_some_and(|graph| !graph.is_namespaced_only());
        self.reach.surveys(namespaced)
            && is_needed()
            && !self.reach.filter.excludes(group, name)
            && !ALIASES.contains(&group)
            && !IGNORED.contains(&(group, name))
            && !is_watched()
    }

    /// Removes the objects of a kind that does not exist any more from the trees.
    pub(super) fn forget_all(&self, group: &str, kind: &str) {
        if let Some(graph) = &self.graph {
            graph.of_kind(group, kind).iter().for_each(|member| graph.remove(&member.key, None));
        }
    }
}
