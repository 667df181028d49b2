//! What all reconciles share.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::COMPONENT;
use super::credentials::RepositorySecrets;
use super::memory::{Memory, Shared};
use super::projects::Projects;
use super::queue::Queue;
use super::revisions::Revisions;
use crate::act::application_status;
use crate::act::events::{Events, Recorder};
use crate::api::ObjectKey;
use crate::api::tracking::{Tracking, instance_name};
use crate::clock::Clock;
use crate::controller::runtime::{Slots, spread};
use crate::redact;
use crate::settings::ApplicationSettings;
use crate::source::Repositories;
use crate::watch::clusters::Clusters;
use crate::watch::control_plane::{ControlPlane, Origin};

/// Longer than any process runs: thirty years.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// Does work whose length users decide (ignore rules over all their objects)
/// aside: others are served by another thread meanwhile. Only for tasks of their
/// own, such as reconciles are. What is `short` is done at once, for handing
/// over costs more.
pub fn off_worker<T>(short: bool, work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    if short {
        return work();
    }
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // A test's runtime of one thread has nobody else to serve.
        _ => work(),
    }
}

/// What all passes share.
#[derive(Debug)]
pub struct Context {
    /// The control plane.
    pub client: crate::watch::cluster_cache::Client,
    /// Where the time comes from.
    pub clock: Clock,
    /// Settings.
    pub settings: ApplicationSettings,
    /// Repositories.
    pub sources: Arc<Repositories>,
    /// Their revisions.
    pub revisions: Revisions,
    /// What is watched in the control plane.
    pub control_plane: Arc<ControlPlane>,
    /// Projects, as they are used.
    pub projects: Projects,
    /// Credentials of repositories.
    pub credentials: RepositorySecrets,
    /// Destinations.
    pub clusters: Clusters,
    /// Who is next.
    pub queue: Arc<Queue>,
    /// What writes Kubernetes Events.
    pub recorder: Recorder,
    /// Events about Applications.
    pub events: Events,
    /// Who may work: a pass holds one while it runs.
    pub slots: Slots,
    /// Something has changed that a project which is being deleted may wait for.
    pub leaving: Notify,
    /// Manifests that several Applications have.
    pub shared: Shared,
    memories: Mutex<HashMap<ObjectKey, Arc<tokio::sync::Mutex<Memory>>>>,
    kept: Mutex<Kept>,
}

/// How much the kept renderings take, by Application.
#[derive(Debug, Default)]
struct Kept {
    /// Bytes, and when they were last used.
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

impl Context {
    /// A context with empty caches.
    #[expect(clippy::too_many_arguments, reason = "each part is given once, at start")]
    pub fn new(
        client: kube::Client,
        settings: ApplicationSettings,
        sources: Arc<Repositories>,
        control_plane: Arc<ControlPlane>,
        clusters: Clusters,
        queue: Arc<Queue>,
        recorder: Recorder,
        clock: Clock,
    ) -> Self {
        let slots = Slots::new(settings.parallel);
        let enabled = settings.events && !settings.dry_run;
        let events = recorder.events(COMPONENT, application_status::resource(), enabled);
        let namespace = settings.control_plane_namespace.clone();
        let projects = Projects::new(control_plane.projects.clone(), namespace);
        Self {
            revisions: Revisions::new(sources.clone(), queue.clone()),
            client: crate::watch::cluster_cache::Client(client),
            settings,
            sources,
            projects,
            credentials: RepositorySecrets::default(),
            control_plane,
            clusters,
            queue,
            clock,
            recorder,
            events,
            slots,
            leaving: Notify::new(),
            shared: Shared::default(),
            memories: Mutex::default(),
            kept: Mutex::default(),
        }
    }

    /// Waits for a repository without keeping others from their turn.
    pub async fn aside<T>(&self, work: impl Future<Output = T>) -> T {
        self.slots.aside(work).await
    }

    /// Drops renderings, the longest unused first, until those of all
    /// Applications take no more than is allowed. Those in use stay.
    pub fn bound_renderings(&self, key: &ObjectKey, memory: &mut Memory) {
        let limit = self.settings.kept_manifest_memory;
        let mut kept = self.kept.lock();
        kept.clock += 1;
        kept.set(key, memory.weight());
        let mut busy = BTreeSet::new();
        while kept.total > limit {
            let others = kept.by.iter().filter(|(other, (weight, _))| {
                *other != key && *weight > 0 && !busy.contains(*other)
            });
            let Some(oldest) = others.min_by_key(|(_, (_, used))| *used).map(|(o, _)| o.clone())
            else {
                break;
            };
            let other = self.memories.lock().get(&oldest).cloned();
            match other.as_ref().map(|other| other.try_lock()) {
                // It is at work, and sees to its own when it is done.
                Some(Err(_)) => drop(busy.insert(oldest)),
                Some(Ok(mut other)) => {
                    other.rendered.clear();
                    kept.remove(&oldest);
                }
                None => kept.remove(&oldest),
            }
        }
        while kept.total > limit && memory.rendered.len() > 1 {
            memory.rendered.remove(0);
            kept.set(key, memory.weight());
        }
        if kept.total > limit {
            let mib = limit >> 20;
            tracing::debug!(application = %key, "manifests in use take more than {mib} MiB");
        }
    }

    /// An Application, the newest that is known.
    pub fn application(&self, key: &ObjectKey) -> Option<Value> {
        Some(self.control_plane.applications.get(key)?.parse())
    }

    /// Takes over an Application as the server has just given it to us.
    pub fn wrote(&self, application: &Value) {
        redact::know_urls_of(&application["spec"]);
        self.control_plane.applications.wrote(application.clone().into(), Origin::Applications);
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// What is remembered of an Application.
    pub fn memory(&self, key: &ObjectKey) -> Arc<tokio::sync::Mutex<Memory>> {
        self.memories.lock().entry(key.clone()).or_default().clone()
    }

    /// Forgets an Application that is gone.
    pub async fn forget(&self, key: &ObjectKey) {
        self.kept.lock().remove(key);
        let memory = self.memories.lock().remove(key);
        let Some(memory) = memory else { return };
        let memory = memory.lock().await;
        if let Some(cluster) = &memory.cluster {
            cluster.want(&self.instance(key), Default::default());
        }
        for source in &memory.sources {
            self.revisions.release(key, source);
        }
    }

    /// The instance name of an Application (SE-005).
    pub fn instance(&self, key: &ObjectKey) -> String {
        instance_name(&key.namespace, &key.name, &self.settings.control_plane_namespace)
    }

    /// How an Application marks what is its own.
    pub fn tracking(&self, key: &ObjectKey) -> Tracking {
        Tracking {
            method: self.settings.tracking_method,
            label: self.settings.instance_label.clone(),
            instance: self.instance(key),
            installation: self.settings.installation_id.clone(),
        }
    }

    /// When to render an Application anew; `None` for never.
    pub fn hard_at(&self, memory: &Memory) -> Option<Timestamp> {
        after(memory.rendered_at, self.settings.hard_reconciliation_timeout)
    }

    /// When to look up the revision of an Application again; `None` for never.
    pub fn expires(&self, key: &ObjectKey, memory: &Memory) -> Option<Timestamp> {
        let jitter = self.settings.reconciliation_jitter.mul_f64(spread(key));
        let soft = after(memory.checked_at, self.settings.reconciliation_timeout);
        let soft = soft.and_then(|at| at.checked_add(jitter).ok());
        [soft, self.hard_at(memory)].into_iter().flatten().min()
    }

    /// When a time is, on the clock that timers use.
    pub fn instant(&self, at: Timestamp) -> Instant {
        let until = at.duration_since(self.now());
        let now = Instant::now();
        now.checked_add(Duration::try_from(until).unwrap_or_default()).unwrap_or(now + FAR)
    }
}

/// What is too far away for a clock is never, and so is what takes no time.
fn after(since: Option<Timestamp>, time: Duration) -> Option<Timestamp> {
    since.filter(|_| !time.is_zero()).and_then(|since| since.checked_add(time).ok())
}
