//! What is known of a cluster without a request, for metrics.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::cache::ClusterCache;

/// What is known of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterFacts {
    /// The version of Kubernetes, such as `1.36`; `None` before it was read.
    pub version: Option<String>,
    /// The number of kinds that are watched.
    pub kinds: usize,
    /// The number of objects of these kinds.
    pub objects: usize,
    /// When all kinds were listed for the last time; `None` if never.
    pub listed_at: Option<Instant>,
    /// Whether all kinds that are watched can be read.
    pub is_readable: bool,
    /// The events of objects, by group and kind.
    pub events: BTreeMap<(String, String), u64>,
}

impl ClusterCache {
    /// What is known now.
    pub fn facts(&self) -> ClusterFacts {
        let feeds: Vec<_> = self.feeds.lock().values().cloned().collect();
        let mut facts = ClusterFacts {
            version: self.version.lock().clone(),
            kinds: feeds.len(),
            listed_at: *self.listed_at.lock(),
            is_readable: self.unreadable().is_none(),
            ..ClusterFacts::default()
        };
        for feed in feeds {
            facts.objects += feed.objects.lock().count();
            let kind = (feed.resource.group.clone(), feed.resource.kind.clone());
            *facts.events.entry(kind).or_default() += feed.events.load(Ordering::Relaxed);
        }
        facts
    }
}
