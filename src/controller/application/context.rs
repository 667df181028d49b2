//! What a pass may use, and what is remembered from one pass to the next.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::error::Error;
use super::notes;
use super::queue::{Key, Queue};
use super::revisions::Revisions;
use super::settings::Settings;
use super::store::Store;
use crate::act::application_status;
use crate::act::events::Events;
use crate::api::ApplicationSource;
use crate::api::tracking::instance_name;
use crate::decide::compare::patch::merge_patch;
use crate::decide::compare::refresh::Request;
use crate::decide::compare::{DiffCache, Placed, Tracking};
use crate::decide::sync::{GroupVersionKind, Kind};
use crate::source::Repositories;
use crate::watch::clusters::Clusters;
use crate::watch::live::Cluster;

/// How many renderings of one Application are kept: what is compared, and what
/// an operation syncs.
const KEPT: usize = 3;

/// What all passes share.
#[derive(Debug)]
pub struct Context {
    /// The control plane.
    pub client: crate::watch::live::Client,
    /// Settings.
    pub settings: Settings,
    /// Repositories.
    pub sources: Arc<Repositories>,
    /// Their revisions.
    pub revisions: Revisions,
    /// What is watched in the control plane.
    pub store: Arc<Store>,
    /// Destinations.
    pub clusters: Clusters,
    /// Who is next.
    pub queue: Arc<Queue>,
    /// Kubernetes Events; absent when switched off.
    pub events: Option<Events>,
    memories: Mutex<HashMap<Key, Arc<tokio::sync::Mutex<Memory>>>>,
}

/// One rendered set of sources.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// What it was made from.
    pub from: String,
    /// The objects, in source order.
    pub manifests: Arc<Vec<Arc<Value>>>,
    /// `status.sourceType`, by source.
    pub types: Vec<String>,
    /// The manifests placed in a cluster, and the kinds they were placed by.
    pub placed: Option<(std::collections::BTreeMap<GroupVersionKind, Kind>, String, Arc<Placed>)>,
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
    /// The last patch that was sent, and the version that came of it. A server
    /// that drops a field must not be sent it for ever.
    last_patch: Option<(String, Value)>,
}

impl Memory {
    /// A rendering of these inputs, if it is kept.
    pub fn rendering(&mut self, from: &str) -> Option<&mut Rendered> {
        self.rendered.iter_mut().find(|rendered| rendered.from == from)
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
        settings: Settings,
        sources: Arc<Repositories>,
        store: Arc<Store>,
        clusters: Clusters,
        queue: Arc<Queue>,
    ) -> Self {
        let resource = application_status::resource();
        let component = "argocd-application-controller";
        let events =
            settings.events.then(|| Events::new(client.clone(), component, resource, false));
        Self {
            revisions: Revisions::new(sources.clone(), queue.clone()),
            client: crate::watch::live::Client(client),
            settings,
            sources,
            store,
            clusters,
            queue,
            events,
            memories: Mutex::default(),
        }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    /// What is remembered of an Application.
    pub fn memory(&self, key: &Key) -> Arc<tokio::sync::Mutex<Memory>> {
        self.memories.lock().entry(key.clone()).or_default().clone()
    }

    /// Forgets an Application that is gone.
    pub async fn forget(&self, key: &Key) {
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
    pub fn instance(&self, key: &Key) -> String {
        instance_name(&key.namespace, &key.name, &self.settings.control_plane_namespace)
    }

    /// How an Application marks what is its own.
    pub fn tracking(&self, key: &Key) -> Tracking {
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
        key: &Key,
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
                    self.store.put(key, Arc::new(newest.as_ref().clone()));
                }
                return Err(error.into());
            }
        };
        self.store.put(key, written.clone());
        memory.last_patch = Some((patch, written["metadata"]["resourceVersion"].clone()));
        notes::tell(self, &draft.base, &written).await;
        *draft = Draft::new(written);
        Ok(())
    }

    /// When to look up the revision of an Application again; `None` for never.
    pub fn expires(&self, key: &Key, memory: &Memory) -> Option<Instant> {
        let timeout = self.settings.reconciliation_timeout;
        let jitter = self.settings.reconciliation_jitter.mul_f64(super::queue::spread(key));
        let soft = (!timeout.is_zero()).then(|| memory.checked_at.map(|at| at + timeout + jitter));
        let hard = self.settings.hard_reconciliation_timeout;
        let hard = (!hard.is_zero()).then(|| memory.rendered_at.map(|at| at + hard));
        [soft.flatten(), hard.flatten()].into_iter().flatten().min()
    }

    /// When a time is, on the clock that timers use.
    pub fn instant(&self, at: Timestamp) -> Instant {
        let until = at.duration_since(self.now());
        Instant::now() + Duration::try_from(until).unwrap_or_default()
    }
}
