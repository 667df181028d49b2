//! What a pass may use, and what is remembered from one pass to the next.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::credentials::RepositorySecrets;
use super::events;
use super::projects::Projects;
use super::queue::Queue;
use super::revisions::Revisions;
use crate::act::application_status;
use crate::act::events::Events;
use crate::api::ObjectKey;
use crate::api::kind::{GroupVersionKind, Served};
use crate::api::tracking::Tracking;
use crate::api::tracking::instance_name;
use crate::api::{ApplicationSource, ResourceKey};
use crate::controller::error::Error;
use crate::controller::runtime::{Slots, spread};
use crate::decide::app_state::refresh::Request;
use crate::decide::app_state::{DiffCache, Placed};
use crate::decide::merge_patch::merge_patch;
use crate::redact;
use crate::settings::ApplicationSettings;
use crate::source::Repositories;
use crate::watch::cluster_cache::Cluster;
use crate::watch::clusters::Clusters;
use crate::watch::control_plane::{ControlPlane, Origin};

/// How many renderings of one Application are kept: what is compared, and what
/// an operation syncs.
const KEPT: usize = 3;

/// Longer than any process runs: thirty years.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// Does work whose length users decide (ignore rules over all their objects)
/// aside: others are served by another thread meanwhile. Only for tasks of their
/// own, such as passes are.
pub fn off_worker<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
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
    /// Kubernetes Events; absent when switched off.
    pub events: Option<Events>,
    /// Who may work: a pass holds one while it runs.
    pub slots: Slots,
    /// Something has changed that a project which is being deleted may wait for.
    pub leaving: Notify,
    memories: Mutex<HashMap<ObjectKey, Arc<tokio::sync::Mutex<Memory>>>>,
    kept: Mutex<Kept>,
}

/// How much the kept renderings take, by Application.
#[derive(Debug, Default)]
struct Kept {
    /// Bytes, and when they were last used.
    by: HashMap<ObjectKey, (u64, u64)>,
    clock: u64,
}

/// One rendered set of sources.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// What it was made from.
    pub from: String,
    /// The objects, in source order.
    pub manifests: Arc<Vec<Arc<Value>>>,
    /// `status.sourceType`, by source.
    pub types: Vec<String>,
    /// What the user may want to correct, with file and line.
    pub warnings: Arc<Vec<String>>,
    /// Bytes of memory that the objects take.
    pub weight: u64,
    /// The manifests placed in a cluster, and the kinds they were placed by.
    pub placed: Option<(std::collections::BTreeMap<GroupVersionKind, Served>, String, Arc<Placed>)>,
}

/// What is remembered of one Application. Losing it costs work, never truth.
#[derive(Debug, Default)]
pub struct Memory {
    /// When its revision was last looked up.
    pub checked_at: Option<Instant>,
    /// When it was last rendered in spite of an unchanged revision.
    pub rendered_at: Option<Instant>,
    /// Renderings, the latest last.
    pub rendered: Vec<Rendered>,
    /// Differences of unchanged objects.
    pub diffs: DiffCache,
    /// The rules that they were made by.
    pub rules: Value,
    /// The spec that was last looked at.
    pub spec: Value,
    /// Since when its repository cannot be read.
    pub failing_since: Option<Instant>,
    /// How often in a row its operation could not read what it needs.
    pub unreadable: u32,
    /// The failed comparison that the log was told of last; none after one that
    /// worked.
    pub told_failure: Option<String>,
    /// The start of an operation, and its warnings that the log was told of.
    pub told_warnings: (String, BTreeSet<String>),
    /// The cluster whose objects it wants.
    pub cluster: Option<Arc<Cluster>>,
    /// The sources that it waits for.
    pub sources: Vec<ApplicationSource>,
    /// The comparison that failed last and has to be made up for.
    pub owed: Request,
    /// When its last operation started; two never start in the same second.
    pub last_started: Option<Timestamp>,
    /// What the log was told last of a dry run.
    pub would: BTreeSet<String>,
    /// Hooks of its deletion that failed, and their next attempt.
    pub delete_tries: BTreeMap<ResourceKey, u64>,
    /// When hooks of its deletion were created: one that vanishes before its
    /// result is seen is not created again at once.
    pub delete_made: BTreeMap<ResourceKey, Timestamp>,
    /// The last patch that was sent, and the version that came of it. A server
    /// that drops a field must not be sent it for ever.
    last_patch: Option<(String, Value)>,
}

impl Memory {
    /// A rendering of these inputs, if it is kept.
    pub fn rendering(&mut self, from: &str) -> Option<&mut Rendered> {
        self.rendered.iter_mut().find(|rendered| rendered.from == from)
    }

    /// Bytes that its renderings take, as they are and as they are placed.
    fn weight(&self) -> u64 {
        self.rendered.iter().map(|rendered| 2 * rendered.weight).sum()
    }

    /// Keeps a rendering.
    pub fn keep(&mut self, rendered: Rendered) {
        self.rendered.retain(|old| old.from != rendered.from);
        self.rendered.push(rendered);
        let surplus = self.rendered.len().saturating_sub(KEPT);
        self.rendered.drain(..surplus);
    }
}

/// An Application, and what it shall become.
#[derive(Clone, Debug)]
pub struct Draft {
    /// As it was read or last written.
    pub base: Arc<Value>,
    /// With this pass's changes.
    pub wanted: Value,
}

impl Draft {
    /// Nothing is changed yet.
    pub fn new(base: Arc<Value>) -> Self {
        Self { wanted: base.as_ref().clone(), base }
    }
}

impl Context {
    /// A context that remembers nothing.
    pub fn new(
        client: kube::Client,
        settings: ApplicationSettings,
        sources: Arc<Repositories>,
        control_plane: Arc<ControlPlane>,
        clusters: Clusters,
        queue: Arc<Queue>,
    ) -> Self {
        let resource = application_status::resource();
        let component = "argocd-application-controller";
        let slots = Slots::new(settings.parallel);
        let events = settings
            .events
            .then(|| Events::new(client.clone(), component, resource, settings.dry_run));
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
            events,
            slots,
            leaving: Notify::new(),
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
        let now = kept.clock;
        kept.by.insert(key.clone(), (memory.weight(), now));
        let total = |kept: &Kept| kept.by.values().map(|(weight, _)| weight).sum::<u64>();
        let mut busy = BTreeSet::new();
        while total(&kept) > limit {
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
                    kept.by.remove(&oldest);
                }
                None => drop(kept.by.remove(&oldest)),
            }
        }
        while total(&kept) > limit && memory.rendered.len() > 1 {
            memory.rendered.remove(0);
            kept.by.insert(key.clone(), (memory.weight(), now));
        }
        if total(&kept) > limit {
            let mib = limit >> 20;
            tracing::debug!(application = %key, "manifests in use take more than {mib} MiB");
        }
    }

    /// An Application, the newest that is known.
    pub fn application(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        Some(Arc::new(self.control_plane.applications.get(key)?.parse()))
    }

    /// Takes over an Application as the server has just given it to us.
    pub fn wrote(&self, application: &Value) {
        redact::know_urls_of(&application["spec"]);
        self.control_plane.applications.wrote(application.clone().into(), Origin::Applications);
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    /// What is remembered of an Application.
    pub fn memory(&self, key: &ObjectKey) -> Arc<tokio::sync::Mutex<Memory>> {
        self.memories.lock().entry(key.clone()).or_default().clone()
    }

    /// Forgets an Application that is gone.
    pub async fn forget(&self, key: &ObjectKey) {
        self.kept.lock().by.remove(key);
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

    /// Writes what a draft changes, if anything, and goes on from there.
    ///
    /// # Errors
    ///
    /// [`Error::Status`]; what is stored is taken over also when somebody else
    /// has changed it.
    pub async fn save(
        &self,
        _key: &ObjectKey,
        memory: &mut Memory,
        draft: &mut Draft,
    ) -> Result<(), Error> {
        let Some(patch) = merge_patch(&draft.base, &draft.wanted) else { return Ok(()) };
        let patch = patch.to_string();
        let version = &draft.base["metadata"]["resourceVersion"];
        if memory.last_patch.as_ref().is_some_and(|(last, then)| *last == patch && then == version)
        {
            return Ok(());
        }
        let written =
            application_status::write(&self.client.0, &draft.base, &draft.wanted, self.now()).await;
        let written = match written {
            Ok(Some(written)) => Arc::new(written),
            Ok(None) => return Ok(()),
            Err(error) => {
                if let application_status::Error::Stale { newest, .. } = &error {
                    self.wrote(newest);
                }
                return Err(error.into());
            }
        };
        self.wrote(&written);
        memory.last_patch = Some((patch, written["metadata"]["resourceVersion"].clone()));
        events::publish(self, &draft.base, &written).await;
        *draft = Draft::new(written);
        Ok(())
    }

    /// When to look up the revision of an Application again; `None` for never.
    pub fn expires(&self, key: &ObjectKey, memory: &Memory) -> Option<Instant> {
        let timeout = self.settings.reconciliation_timeout;
        let jitter = self.settings.reconciliation_jitter.mul_f64(spread(key));
        // What is too far away for a clock is never.
        let after = |since: Option<Instant>, time: Duration| {
            since.filter(|_| !time.is_zero()).and_then(|since| since.checked_add(time))
        };
        let soft = after(memory.checked_at, timeout).and_then(|at| at.checked_add(jitter));
        let hard = after(memory.rendered_at, self.settings.hard_reconciliation_timeout);
        [soft, hard].into_iter().flatten().min()
    }

    /// When a time is, on the clock that timers use.
    pub fn instant(&self, at: Timestamp) -> Instant {
        let until = at.duration_since(self.now());
        let now = Instant::now();
        now.checked_add(Duration::try_from(until).unwrap_or_default()).unwrap_or(now + FAR)
    }
}
