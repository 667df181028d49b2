//! What metrics show that is not in the cache, and where the rest is.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::labels::Labels;
use super::operations::Operations;
use crate::runtime::QueueStats;
use crate::settings::{ApplicationSetSettings, ApplicationSettings};
use wavegate_api::ObjectKey;
use wavegate_cluster::act::notify::Notifier;
use wavegate_cluster::act::redis::RedisMetrics;
use wavegate_cluster::watch::absent_settings::AbsentSettings;
use wavegate_cluster::watch::clusters::Clusters;
use wavegate_cluster::watch::control_plane::Cache;
use wavegate_cluster::watch::fence::MayWrite;
use wavegate_net::clock::Clock;
use wavegate_rollout::rollout::counts::StepCounts;
use wavegate_source::GitRequests;

/// Histograms by labels.
pub(super) type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// What is not in the cache.
pub(super) struct Kept {
    pub(super) sets: Arc<Cache>,
    pub(super) runs: Arc<Cache>,
    pub(super) applications: Arc<Cache>,
    pub(super) absent: AbsentSettings,
    pub(super) clock: Clock,
    pub(super) settings: OnceLock<ApplicationSetSettings>,
    pub(super) application_settings: OnceLock<ApplicationSettings>,
    pub(super) queues: Mutex<Vec<(&'static str, Arc<dyn QueueStats>)>>,
    pub(super) notifier: OnceLock<Notifier>,
    pub(super) rollouts: Mutex<HashMap<ObjectKey, StepCounts>>,
    pub(super) reconciles: Histograms,
    pub(super) steps: Histograms,
    pub(super) transitions: Family<Labels, Counter>,
    pub(super) triggered: Family<Labels, Counter>,
    pub(super) detections: Histograms,
    pub(super) requests: Family<Labels, Counter>,
    pub(super) redis: RedisMetrics,
    pub(super) clusters: OnceLock<Weak<Clusters>>,
    pub(super) git: OnceLock<GitRequests>,
    /// Whether this replica holds the Lease; nothing where there is none.
    pub(super) leads: OnceLock<MayWrite>,
    pub(super) operations: Operations,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}
