//! Metrics (AS-600 to AS-603).
//!
//! What objects show is read from the cache when the metrics are requested. Durations and
//! counts are kept here; those of an ApplicationSet are dropped with it.

mod applications;
mod clusters;
mod encode;
mod git;
mod kept;
mod labels;
mod notifications;
mod operations;
mod runs;
mod sets;
mod work;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::encoding::text;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use serde_json::Value;

use self::kept::{Histograms, Kept};
use self::labels::{Labels, STEPS, of, of_step};
use self::operations::Operations;
use super::runtime::QueueStats;
use crate::settings::{ApplicationSetSettings, ApplicationSettings};
use wavegate_api::listed::ListedSpec;
use wavegate_api::{ApplicationDestination, ObjectKey, Raw, read_leniently};
use wavegate_cluster::act::notify::Notifier;
use wavegate_cluster::act::redis::RedisMetrics;
use wavegate_cluster::act::sync::meter::{Meter, RequestReport};
use wavegate_cluster::watch::absent_settings::AbsentSettings;
use wavegate_cluster::watch::clusters::Clusters;
use wavegate_cluster::watch::control_plane::Cache;
use wavegate_cluster::watch::counted;
use wavegate_cluster::watch::fence::MayWrite;
use wavegate_net::clock::Clock;
use wavegate_rollout::rollout::RolloutPlan;
use wavegate_source::GitRequests;

/// The metrics of the controllers. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    kept: Arc<Kept>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// The buckets of Prometheus' client libraries.
fn seconds() -> Histogram {
    Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0])
}

/// The buckets of Argo CD for the time from a decision to its operations.
fn short_seconds() -> Histogram {
    Histogram::new([0.05, 0.1, 0.15, 0.5, 1.0, 5.0])
}

/// From a second to 18 hours.
fn long_seconds() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 4.0, 9))
}

impl Metrics {
    /// The metrics of the ApplicationSets, RolloutRuns and Applications in these caches; none are
    /// shown before [`Self::show`] and [`Self::show_applications`]. `absent` are sources of settings.
    pub fn new(
        sets: Arc<Cache>,
        runs: Arc<Cache>,
        applications: Arc<Cache>,
        absent: AbsentSettings,
        clock: Clock,
    ) -> Self {
        let kept = Arc::new(Kept {
            sets,
            runs,
            applications,
            absent,
            clock,
            settings: OnceLock::new(),
            application_settings: OnceLock::new(),
            queues: Mutex::default(),
            notifier: OnceLock::new(),
            rollouts: Mutex::default(),
            reconciles: Family::new_with_constructor(seconds),
            steps: Family::new_with_constructor(long_seconds),
            transitions: Family::default(),
            triggered: Family::default(),
            detections: Family::new_with_constructor(short_seconds),
            requests: Family::default(),
            redis: RedisMetrics::default(),
            clusters: OnceLock::new(),
            git: OnceLock::new(),
            leads: OnceLock::new(),
            operations: Operations::default(),
        });
        let mut registry = Registry::default();
        registry.register(
            "argocd_appset_reconcile",
            "Duration of reconciles of an ApplicationSet in seconds",
            kept.reconciles.clone(),
        );
        registry.register(
            "argocd_appset_rollout_step_duration_seconds",
            "Time from the opening of a step until the next one opens or the rollout is complete",
            kept.steps.clone(),
        );
        registry.register(
            "argocd_appset_rollout_transitions",
            "Phase transitions of Applications of all rollouts",
            kept.transitions.clone(),
        );
        registry.register(
            "argocd_appset_progressive_sync_syncs_triggered",
            "Syncs that a rollout has started",
            kept.triggered.clone(),
        );
        registry.register(
            "argocd_appset_progressive_sync_detection_to_trigger_seconds",
            "Time from the begin of a reconcile that starts syncs until they are requested",
            kept.detections.clone(),
        );
        registry.register(
            "rest_client_requests",
            "Requests to the API server of the control plane",
            kept.requests.clone(),
        );
        kept.redis.register(&mut registry);
        registry.register_collector(Box::new(Arc::clone(&kept)));
        Self { registry: Arc::new(registry), kept }
    }

    /// Shows the ApplicationSets in the namespaces of these settings. Later calls have no
    /// effect.
    pub fn show(&self, settings: &ApplicationSetSettings) {
        let _ = self.kept.settings.set(settings.clone());
    }

    /// Shows the Applications in the namespaces of these settings. Later calls have no effect.
    pub fn show_applications(&self, settings: &ApplicationSettings) {
        let _ = self.kept.application_settings.set(settings.clone());
    }

    /// Shows the state of a queue.
    pub fn queue(&self, name: &'static str, queue: Arc<dyn QueueStats>) {
        self.kept.queues.lock().push((name, queue));
    }

    /// Shows what becomes of notifications. Later calls have no effect.
    pub fn notifications(&self, notifier: Notifier) {
        let _ = self.kept.notifier.set(notifier);
    }

    /// Shows these clusters, as long as they exist. Later calls have no effect.
    pub fn show_clusters(&self, clusters: &Arc<Clusters>) {
        let _ = self.kept.clusters.set(Arc::downgrade(clusters));
    }

    /// Shows whether this replica holds the Lease. Later calls have no effect.
    pub fn show_leadership(&self, leads: MayWrite) {
        let _ = self.kept.leads.set(leads);
    }

    /// Shows what is asked of Git servers. Later calls have no effect.
    pub fn show_git(&self, requests: GitRequests) {
        let _ = self.kept.git.set(requests);
    }

    /// Counts the requests of syncs of an Application of a project to a cluster.
    pub fn meter<'a>(
        &'a self,
        application: &'a ObjectKey,
        project: &'a str,
        server: &'a str,
    ) -> Meter<'a> {
        let report: &dyn RequestReport = &self.kept.operations;
        Meter::new(report, (application, project), server)
    }

    /// An Application was stored; counts the end of its sync.
    pub fn stored(&self, key: &ObjectKey, before: &Value, after: &Value) {
        let server = self.kept.server_of(&destination_of(after));
        self.kept.operations.stored(key, &server, before, after);
    }

    /// An Application was compared with its cluster.
    pub fn compared(&self, key: &ObjectKey, application: &Value, took: Duration) {
        let server = self.kept.server_of(&destination_of(application));
        self.kept.operations.compared(&key.namespace, &server, took);
    }

    /// The number of orphaned objects in the namespace of an Application.
    pub fn orphaned(&self, key: &ObjectKey, count: usize) {
        self.kept.operations.orphaned(key, count);
    }

    /// Drops the series of a deleted Application.
    pub fn forget_application(&self, key: &ObjectKey) {
        self.kept.operations.forget(key);
    }

    /// Counts the requests to Redis.
    pub fn redis(&self) -> RedisMetrics {
        self.kept.redis.clone()
    }

    /// Counts the requests of a client.
    pub fn requests(&self) -> counted::Observe {
        let requests = self.kept.requests.clone();
        Arc::new(move |method, code| {
            let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
            requests.get_or_create(&vec![("method", method.to_string()), ("code", code)]).inc();
        })
    }

    /// Measures a reconcile until the result is dropped, also by a panic or a timeout.
    pub fn reconcile(&self, key: &ObjectKey) -> impl Drop + Send + use<> {
        Timer { began: Instant::now(), labels: of(key), reconciles: self.kept.reconciles.clone() }
    }

    /// Records the rollout of an ApplicationSet, as decided; `None` when it has none.
    pub fn rollout(&self, key: &ObjectKey, plan: Option<&RolloutPlan>) {
        let mut rollouts = self.kept.rollouts.lock();
        match plan {
            Some(plan) => rollouts.insert(key.clone(), plan.counts.clone()),
            None => rollouts.remove(key),
        };
    }

    /// Records the transitions of a rollout, once they are stored. `opened` is the step that
    /// was open before, counted from 0, and since when.
    pub fn transitions(
        &self,
        key: &ObjectKey,
        plan: &RolloutPlan,
        opened: Option<(usize, Timestamp)>,
        now: Timestamp,
    ) {
        for transition in &plan.transitions {
            let labels = vec![
                ("from", transition.from.map_or_else(String::new, |from| from.name().to_owned())),
                ("to", transition.to.name().to_owned()),
                ("cause", transition.cause.to_owned()),
            ];
            self.kept.transitions.get_or_create(&labels).inc();
        }
        if let Some((step, at)) = opened
            && plan.open_step != Some(step)
        {
            let took = now.duration_since(at).as_secs_f64().max(0.0);
            self.kept.steps.get_or_create(&of_step(key, Some(step))).observe(took);
        }
    }

    /// Records syncs that were requested, each with its step counted from 0, and how long after the
    /// begin of the reconcile. Names and labels are those of Argo CD (AS-600).
    pub fn triggered(&self, key: &ObjectKey, steps: &[Option<usize>], took: Duration) {
        for step in steps {
            self.kept.triggered.get_or_create(&of_step(key, *step)).inc();
        }
        if !steps.is_empty() {
            self.kept.detections.get_or_create(&of(key)).observe(took.as_secs_f64());
        }
    }

    /// Drops the series of a deleted ApplicationSet (AS-601).
    pub fn forget(&self, key: &ObjectKey) {
        self.kept.reconciles.remove(&of(key));
        self.kept.detections.remove(&of(key));
        for step in (0..=STEPS).map(Some).chain([None]) {
            self.kept.steps.remove(&of_step(key, step));
            self.kept.triggered.remove(&of_step(key, step));
        }
        self.kept.rollouts.lock().remove(key);
    }

    /// All metrics, in the text format of OpenMetrics.
    ///
    /// # Errors
    ///
    /// None in practice: the text is written to memory.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut out = String::new();
        text::encode(&mut out, &self.registry)?;
        Ok(out)
    }
}

fn destination_of(application: &Value) -> ApplicationDestination {
    read_leniently::<ListedSpec>(application.spec()).destination
}

struct Timer {
    began: Instant,
    labels: Labels,
    reconciles: Histograms,
}

impl Drop for Timer {
    fn drop(&mut self) {
        let took = self.began.elapsed().as_secs_f64();
        self.reconciles.get_or_create(&self.labels).observe(took);
    }
}
