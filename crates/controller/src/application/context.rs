//! The state that all reconciles share.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use turns::{Turn, Turns};

use super::cached_state::{CachedState, Shared};
use super::comparisons::Comparisons;
use super::projects::CachedProjects;
use super::queue::Queue;
use super::revisions::Revisions;
use crate::argocd_cache::Publisher;
use crate::context::Core;
use crate::credentials::RepositorySecrets;
use crate::health_scripts::HealthScripts;
use crate::orphans::Instances;
use crate::runtime::{Lent, Slots, Wake};
use crate::settings::ApplicationSettings;
use wavegate_api::tracking::{Tracking, instance_name};
use wavegate_api::{ObjectKey, Raw};
use wavegate_application::owner::DeletionOwner;
use wavegate_application::refresh::Intervals;
use wavegate_cluster::act::control_plane::application_status;
use wavegate_cluster::act::events::Events;
use wavegate_cluster::act::sync::apply::Applier;
use wavegate_cluster::act::sync::execute::Executor;
use wavegate_cluster::act::sync::meter::Meter;
use wavegate_cluster::act::sync::retry::jitter_of;
use wavegate_cluster::watch::cluster_cache::ClusterCache;
use wavegate_cluster::watch::clusters::Clusters;
use wavegate_cluster::watch::control_plane::Origin;
use wavegate_cluster::watch::object::StoredObject;
use wavegate_engine::diff::Jq;
use wavegate_engine::wait::{Ends, Wait};
use wavegate_net::redact;
use wavegate_source::Repositories;

/// How long the writes of a step of a sync take where a cluster is only busy.
const SYNCING: Duration = Duration::from_millis(500);

/// Most decisions at a time that may wait for workers; each of them keeps a thread meanwhile.
const EVALUATIONS: usize = 64;

/// The component in its Events.
pub(super) const COMPONENT: &str = "argocd-application-controller";

/// Runs work of unbounded duration, such as ignore rules of users over all objects,
/// without blocking the other reconciles of this thread. Only for tasks of their own,
/// such as reconciles. `short` work runs directly, since the handover costs more.
pub fn off_worker<T>(short: bool, work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    if short {
        return work();
    }
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // A single-threaded runtime, as in tests, has no other worker.
        _ => work(),
    }
}

/// A decision that may wait for workers, on its thread.
#[derive(Debug)]
pub struct Evaluating {
    lent: Lent,
    _turn: Turn,
}

impl Evaluating {
    /// Waits for the worker slot of this reconcile, if it was lent.
    pub async fn end(evaluating: Option<Self>) {
        if let Some(evaluating) = evaluating {
            evaluating.lent.take_back().await;
        }
    }
}

/// The state that all reconciles share.
#[derive(Debug)]
pub struct Context {
    /// What both controllers share.
    pub core: Core,
    /// Settings.
    pub settings: ApplicationSettings,
    /// Evaluates jq expressions of ignore rules.
    pub jq: Jq,
    /// Repositories.
    pub sources: Arc<Repositories>,
    /// Revisions of the repositories.
    pub revisions: Revisions,
    /// Applications that are still to be compared.
    pub comparisons: Arc<Comparisons>,
    /// Parsed projects.
    pub projects: CachedProjects,
    /// Repository credentials.
    pub credentials: Arc<RepositorySecrets>,
    /// Destination clusters.
    pub clusters: Arc<Clusters>,
    /// Applications to be reconciled.
    pub queue: Arc<Queue>,
    /// Events about Applications.
    pub events: Events,
    /// Worker slots: a reconcile holds one while it runs.
    pub slots: Slots,
    /// Decisions that may wait for workers, each on a thread.
    evaluations: Turns,
    /// Notified about changes that may unblock the deletion of a project.
    pub terminating: Notify,
    /// Runs health scripts.
    pub health_scripts: HealthScripts,
    /// Manifests, shared by Applications.
    pub shared: Shared,
    /// Writes what Argo CD's API server reads, if there is a Redis.
    pub publisher: Option<Arc<Publisher>>,
    cached_states: Mutex<HashMap<ObjectKey, Arc<tokio::sync::Mutex<CachedState>>>>,
    kept: Mutex<Kept>,
}

/// Size of the cached renderings, by Application.
#[derive(Debug, Default)]
struct Kept {
    /// Bytes, and the time of the last use.
    by: HashMap<ObjectKey, (u64, u64)>,
    total: u64,
    clock: u64,
}

impl Kept {
    fn set(&mut self, key: &ObjectKey, weight: u64) {
        self.remove(key);
        self.total += weight;
        self.by.insert(key.clone(), (weight, self.clock));
    }

    fn remove(&mut self, key: &ObjectKey) {
        if let Some((weight, _)) = self.by.remove(key) {
            self.total -= weight;
        }
    }
}

/// The Applications, by their instance names.
pub(crate) fn instances(core: &Core, settings: &ApplicationSettings) -> Instances {
    Instances {
        applications: Arc::clone(&core.control_plane.applications),
        control_plane_namespace: settings.control_plane_namespace.clone(),
    }
}

impl Context {
    /// A context with empty caches.
    pub fn new(
        core: Core,
        settings: ApplicationSettings,
        sources: Arc<Repositories>,
        clusters: Clusters,
        queue: Arc<Queue>,
    ) -> Self {
        let slots = Slots::new(settings.parallel);
        let enabled = settings.events && !settings.dry_run;
        let events =
            core.recorder.events(COMPONENT, application_status::application_resource(), enabled);
        let events = events.limited_to(settings.event_reasons.as_ref());
        let namespace = settings.control_plane_namespace.clone();
        let trust = Arc::clone(&core.control_plane.trust);
        let global = Arc::clone(&settings.global_projects);
        let clusters = Arc::new(clusters);
        let credentials = Arc::new(RepositorySecrets::default().trusting(trust));
        let projects = CachedProjects::new(
            core.control_plane.projects.clone(),
            namespace,
            global,
            (credentials.clone(), clusters.clone()),
        );
        core.metrics.show_clusters(&clusters);
        core.metrics.show_git(sources.git_requests());
        let comparisons = Arc::new(Comparisons::new(queue.clone(), core.clock.clone()));
        Self {
            revisions: Revisions::new(sources.clone(), queue.clone(), comparisons.clone()),
            comparisons,
            core,
            jq: crate::evaluator::limited_jq(settings.jq_timeout),
            settings,
            sources,
            projects,
            credentials,
            clusters,
            queue,
            events,
            slots,
            evaluations: Turns::new(EVALUATIONS),
            terminating: Notify::new(),
            health_scripts: HealthScripts::default(),
            shared: Shared::default(),
            publisher: None,
            cached_states: Mutex::default(),
            kept: Mutex::default(),
        }
    }

    /// The same with what is written for Argo CD's API server.
    pub fn with_readers(self, publisher: Option<Arc<Publisher>>) -> Self {
        Self { publisher, ..self }
    }

    /// Waits for a repository; the worker slot is available to others in the meantime.
    pub fn lend_slot<T>(&self, work: impl Future<Output = T>) -> impl Future<Output = T> {
        self.slots.lend_slot(work)
    }

    /// The same for the writes of a sync: a cluster that answers holds no more reconciles in memory
    /// than there are slots, and one that does not, or waits for an object to go, holds no slot.
    pub fn lend_slot_of_sync<T>(&self, work: impl Future<Output = T>) -> impl Future<Output = T> {
        // On the heap: it would make the future of each reconcile larger.
        let work = Box::pin(work);
        self.slots.lend_slot_after(SYNCING, work)
    }

    /// Waits until something may be decided that evaluates expressions of users. The worker slot
    /// is available to others until [`Evaluating::end`].
    pub async fn evaluating(&self) -> Evaluating {
        let turn = self.lend_slot(self.evaluations.take_mine()).await;
        Evaluating { lent: self.slots.lent(), _turn: turn }
    }

    /// Drops cached renderings, least recently used first, until their total size is
    /// within the limit. Renderings in use are kept.
    pub fn bound_renderings(&self, key: &ObjectKey, cached: &mut CachedState) {
        let limit = self.settings.kept_manifest_memory;
        let mut kept = self.kept.lock();
        kept.clock += 1;
        kept.set(key, cached.weight());
        let mut busy = BTreeSet::new();
        while kept.total > limit {
            let others = kept.by.iter().filter(|(other, (weight, _))| {
                *other != key && *weight > 0 && !busy.contains(*other)
            });
            let Some(oldest) = others.min_by_key(|(_, (_, used))| *used).map(|(o, _)| o.clone())
            else {
                break;
            };
            let other = self.cached_states.lock().get(&oldest).cloned();
            match other.as_ref().map(|other| other.try_lock()) {
                // A reconcile of it is running and checks the limit at its end.
                Some(Err(_)) => drop(busy.insert(oldest)),
                Some(Ok(mut other)) => {
                    other.rendered.clear();
                    kept.remove(&oldest);
                }
                None => kept.remove(&oldest),
            }
        }
        while kept.total > limit && cached.rendered.len() > 1 {
            cached.rendered.remove(0);
            kept.set(key, cached.weight());
        }
        if kept.total > limit {
            let mib = limit >> 20;
            tracing::debug!(application = %key, "manifests in use take more than {mib} MiB");
        }
    }

    /// The latest known version of an Application.
    pub fn application(&self, key: &ObjectKey) -> Option<Value> {
        Some(self.core.control_plane.applications.get(key)?.parse())
    }

    /// Adds an Application as returned by the API server to the cache.
    pub fn wrote(&self, application: &Value) {
        self.stored(application.clone().into(), application);
    }

    /// The same with its text.
    pub fn stored(&self, object: StoredObject, application: &Value) {
        redact::know_urls_of(application.spec());
        self.core.control_plane.applications.wrote(object, Origin::Applications);
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        self.core.clock.now()
    }

    /// The cached state of an Application.
    pub fn cached_state(&self, key: &ObjectKey) -> Arc<tokio::sync::Mutex<CachedState>> {
        self.cached_states.lock().entry(key.clone()).or_default().clone()
    }

    /// Drops the cached state of a deleted Application.
    pub async fn forget(&self, key: &ObjectKey) {
        self.kept.lock().remove(key);
        self.comparisons.forget(key);
        self.core.metrics.forget_application(key);
        if let Some(publisher) = &self.publisher {
            publisher.forget(&self.instance(key));
        }
        let cached = self.cached_states.lock().remove(key);
        let Some(cached) = cached else { return };
        let cached = cached.lock().await;
        if let Some(cluster) = &cached.cluster {
            cluster.forget(&self.instance(key));
        }
        for source in &cached.sources {
            self.revisions.release(key, source);
        }
    }

    /// The Applications, by their instance names.
    pub fn instances(&self) -> Instances {
        instances(&self.core, &self.settings)
    }

    /// The instance name of an Application (SE-005).
    pub fn instance(&self, key: &ObjectKey) -> String {
        instance_name(&key.namespace, &key.name, &self.settings.control_plane_namespace)
    }

    /// The resource tracking of an Application.
    pub fn tracking(&self, key: &ObjectKey) -> Tracking {
        Tracking {
            method: self.settings.tracking_method,
            label: self.settings.instance_label.clone(),
            instance: self.instance(key),
            installation: self.settings.installation_id.clone(),
        }
    }

    /// The Application with this tracking and UID, as the owner of live objects.
    pub fn owner<'a>(&'a self, tracking: &'a Tracking, uid: &'a str) -> DeletionOwner<'a> {
        let control_plane_namespace = &self.settings.control_plane_namespace;
        DeletionOwner { tracking, control_plane_namespace, uid }
    }

    /// Applies what was decided for an Application.
    pub fn executor<'a>(
        &'a self,
        cluster: &'a Arc<ClusterCache>,
        client: &'a kube::Client,
        owner: DeletionOwner<'a>,
        meter: Meter<'a>,
    ) -> Executor<'a> {
        let settings = &self.settings;
        let applier = Applier {
            cluster,
            client,
            manager: &settings.field_manager,
            former_manager: "",
            owner,
            meter,
            established_within: settings.definition_timeout,
        };
        let (parallel, server_dry_run) = (settings.parallel_applies, settings.server_dry_run);
        Executor { applier, parallel, server_dry_run }
    }

    /// When an Application is compared although nothing has changed.
    pub fn intervals(&self, key: &ObjectKey) -> Intervals {
        let ApplicationSettings { reconciliation_timeout, reconciliation_jitter, .. } =
            self.settings;
        Intervals {
            revision: reconciliation_timeout,
            delay: reconciliation_jitter.mul_f64(jitter_of(key)),
            manifests: self.settings.hard_reconciliation_timeout,
        }
    }

    /// What ends a wait, for the queue.
    pub fn wake(&self, wait: Wait) -> Wake {
        match wait.ends {
            Ends::At(at) => {
                let time = at.duration_since(self.now());
                Wake::after(Duration::try_from(time).unwrap_or_default())
            }
            Ends::On(events) => Wake::On(events),
        }
    }
}
