//! Follows the watch of one kind, and tells the cluster what has changed.

use std::sync::{Arc, Weak};

use futures::StreamExt;
use kube::api::Api;
use kube::runtime::watcher;

use super::cache::ClusterCache;
use super::feed::{Failures, Feed, PAGE, State, definitions};
use super::raw_object::RawObject;
use crate::watch::follow::follow_listings;

impl Feed {
    /// Runs the watch of all objects of `api` until dropped.
    pub async fn run(self: Arc<Self>, cluster: Weak<ClusterCache>, api: Api<RawObject>) {
        let follow = || {
            let config = watcher::Config::default().page_size(PAGE);
            // Own writes after this point may be missing in the listing.
            let feed = Arc::clone(&self);
            follow_listings(api.clone(), config, move || feed.objects.lock().begin())
        };
        let mut events = follow();
        let defines =
            self.resource.kind == definitions().kind && self.resource.group == definitions().group;
        loop {
            let event = tokio::select! {
                biased;
                event = events.next() => event,
                () = self.again.notified() => {
                    events = follow();
                    continue;
                }
            };
            let Some(event) = event else { return };
            // The first listing contains only definitions that discovery already knows.
            let listed = matches!(self.state.get(), State::Ready);
            let changes = match event {
                Ok(event) => {
                    *self.failures.lock() = Failures::default();
                    self.take(event)
                }
                Err(error) => {
                    self.fail(&error);
                    // Instances that use this kind must report that it cannot be read.
                    self.all_instances()
                }
            };
            let Some(cluster) = cluster.upgrade() else { return };
            let counts = changes.iter().any(|(_, change)| change.counts);
            for (key, change) in &changes {
                cluster.trigger_affected(key, change, "");
            }
            let ready = matches!(self.state.get(), State::Ready);
            if !listed && ready {
                cluster.survey.was_listed(&self.resource);
            }
            if defines && (listed && counts || !listed && ready) {
                cluster.definitions_changed(listed).await;
            }
        }
    }
}
