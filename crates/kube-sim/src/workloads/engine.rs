//! Watches one kind and writes the status that its rules ask for.
//!
//! Events, timers and finished writes are the only things that cause work, and
//! they all lead to the same step: compare the status with what the rules want
//! at this stage, and write the difference. A step may be repeated at any time.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    kind::WorkloadKind,
    options::{OptionError, WorkloadOptions},
    outcome::{self, Outcome},
    pauses::Pauses,
    view::{View, WorkloadStage},
};
use crate::clock::ServerClock;
use crate::watch::until;

/// Writes in flight per kind, so that a real API server is not flooded.
const MAX_WRITES: usize = 64;

/// Pause before a write is tried again that failed for no known reason.
const RETRY: Duration = Duration::from_millis(200);

type Uid = String;

/// The simulation of one kind.
pub(super) struct Engine {
    kind: WorkloadKind,
    resource: ApiResource,
    client: Client,
    options: Arc<WorkloadOptions>,
    clock: ServerClock,
    tracked: HashMap<Uid, Tracked>,
    /// Objects to look at again, and when. Entries that have become useless stay
    /// until their time: looking once more changes nothing.
    timers: BTreeSet<(Instant, Uid)>,
    writes: FuturesUnordered<BoxFuture<'static, (Uid, Written)>>,
    /// Objects that wait for a write in flight to end.
    queue: VecDeque<Uid>,
}

/// What is known of one object.
struct Tracked {
    /// What the progress belongs to: another generation or outcome restarts it.
    generation: i64,
    outcome: Outcome,
    due: Instant,
    /// The newest object seen; dropped once its status is final.
    object: Option<Arc<DynamicObject>>,
    writing: bool,
    /// The version and stage that the last write was made from. What became of it
    /// comes as an event; until then there is nothing to do. A write that changed
    /// nothing brings no event, hence the stage.
    written_from: Option<(Option<String>, WorkloadStage)>,
}

/// What became of a write.
pub(super) enum Written {
    /// Done, or never to be: the state is, or was, reported by an event.
    Settled,
    /// Nothing is known to have changed; to be tried again.
    Failed,
}

impl Engine {
    pub fn new(kind: WorkloadKind, client: Client, options: Arc<WorkloadOptions>) -> Self {
        Self {
            kind,
            resource: kind.resource(),
            client,
            clock: options.clock.clone(),
            options,
            tracked: HashMap::new(),
            timers: BTreeSet::new(),
            writes: FuturesUnordered::new(),
            queue: VecDeque::new(),
        }
    }

    /// Works until `shutdown`, or until it is certain that it never can.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), OptionError> {
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &self.resource);
        let mut events = pin!(watcher(api, watcher::Config::default()).backoff(Pauses::default()));
        // Filled while a list is read: what is not in it is gone.
        let mut listed: Option<HashSet<Uid>> = None;
        loop {
            let next_timer = self.timers.first().map(|(at, _)| *at);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                () = until(next_timer) => self.fire(),
                Some((uid, written)) = self.writes.next() => self.written(&uid, &written),
                event = events.next() => match event {
                    None => return Ok(()),
                    Some(Ok(watcher::Event::Init)) => listed = Some(HashSet::new()),
                    Some(Ok(watcher::Event::InitApply(object))) => {
                        if let (Some(listed), Some(uid)) = (&mut listed, object.uid()) {
                            listed.insert(uid);
                        }
                        self.observe(object);
                    }
                    Some(Ok(watcher::Event::InitDone)) => {
                        if let Some(listed) = listed.take() {
                            self.tracked.retain(|uid, _| listed.contains(uid));
                        }
                    }
                    Some(Ok(watcher::Event::Apply(object))) => self.observe(object),
                    Some(Ok(watcher::Event::Delete(object))) => {
                        if let Some(uid) = object.uid() {
                            self.tracked.remove(&uid);
                        }
                    }
                    Some(Err(error)) => match status_code(&error) {
                        Some(401 | 403) => {
                            return Err(OptionError::Forbidden { kind: self.kind.name(), source: Box::new(error) });
                        }
                        Some(404) => {
                            tracing::debug!(kind = self.kind.name(), "the server does not have the kind; not simulated");
                            return Ok(());
                        }
                        _ => tracing::debug!(kind = self.kind.name(), %error, "watch failed; it is tried again"),
                    },
                },
            }
        }
    }

    /// Takes in an object as it is now.
    fn observe(&mut self, mut object: DynamicObject) {
        let Some(uid) = object.uid() else { return };
        object.metadata.managed_fields = None;
        let view = View::new(&object);
        let (generation, outcome) = (view.generation(), outcome::outcome(&view, &self.options));
        let now = Instant::now();
        let known = self
            .tracked
            .get(&uid)
            .filter(|old| old.generation == generation && old.outcome == outcome);
        let due = match known {
            Some(known) => known.due,
            // Finished by an earlier simulation, and so finished now.
            None if self.is_final(&view, outcome) => now,
            None => now + outcome::delay(&view, &self.options),
        };
        if known.is_none() && due > now && outcome != Outcome::Hang {
            self.timers.insert((due, uid.clone()));
        }
        let tracked = self.tracked.entry(uid.clone()).or_insert_with(|| Tracked {
            generation,
            outcome,
            due,
            object: None,
            writing: false,
            written_from: None,
        });
        (tracked.generation, tracked.outcome, tracked.due) = (generation, outcome, due);
        tracked.object = Some(Arc::new(object));
        self.step(&uid);
    }

    /// Whether the status is what it will be in the end.
    fn is_final(&self, view: &View<'_>, outcome: Outcome) -> bool {
        let Some(stage) = end(outcome) else { return false };
        let status = self.kind.status(view, stage, &self.options, self.clock.now());
        status.is_some_and(|wanted| outcome::says(view.status, &wanted))
    }

    /// Brings one object to what it should be now, by at most one write.
    fn step(&mut self, uid: &Uid) {
        let Some(tracked) = self.tracked.get_mut(uid) else { return };
        let Some(object) = tracked.object.clone() else { return };
        let stage = match end(tracked.outcome) {
            Some(stage) if tracked.due <= Instant::now() => stage,
            Some(_) | None => WorkloadStage::Progressing,
        };
        let from = (object.metadata.resource_version.clone(), stage);
        if tracked.writing || tracked.written_from.as_ref() == Some(&from) {
            return;
        }
        if self.writes.len() >= MAX_WRITES {
            self.queue.push_back(uid.clone());
            return;
        }
        let write = if object.metadata.deletion_timestamp.is_some() {
            (self.kind == WorkloadKind::Pod)
                .then(|| end_pod(&self.client, &self.resource, &object))
                .flatten()
        } else {
            let view = View::new(&object);
            let wanted = self.kind.status(&view, stage, &self.options, self.clock.now());
            let wanted = wanted.filter(|wanted| !outcome::says(view.status, wanted));
            wanted.map(|wanted| write_status(&self.client, &self.resource, &object, wanted))
        };
        match write {
            Some(write) => {
                tracked.writing = true;
                tracked.written_from = Some(from);
                let uid = uid.clone();
                self.writes.push(async move { (uid, write.await) }.boxed());
            }
            None if stage != WorkloadStage::Progressing || tracked.outcome == Outcome::Hang => {
                tracked.object = None
            }
            None => {}
        }
    }

    fn written(&mut self, uid: &Uid, written: &Written) {
        if let Some(tracked) = self.tracked.get_mut(uid) {
            tracked.writing = false;
            match written {
                Written::Settled => self.step(uid),
                Written::Failed => {
                    let from = tracked.written_from.take().and_then(|(version, _)| version);
                    let newest =
                        tracked.object.as_ref().and_then(|object| object.resource_version());
                    if from == newest {
                        self.timers.insert((Instant::now() + RETRY, uid.clone()));
                    } else {
                        self.step(uid);
                    }
                }
            }
        }
        while self.writes.len() < MAX_WRITES {
            let Some(uid) = self.queue.pop_front() else { break };
            self.step(&uid);
        }
    }

    /// Looks at every object whose time has come.
    fn fire(&mut self) {
        let now = Instant::now();
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, uid)) = self.timers.pop_first() {
                self.step(&uid);
            }
        }
    }
}

/// The last stage that an outcome leads to, if it leads to any.
fn end(outcome: Outcome) -> Option<WorkloadStage> {
    match outcome {
        Outcome::Succeed => Some(WorkloadStage::Succeeded),
        Outcome::Fail => Some(WorkloadStage::Failed),
        Outcome::Hang => None,
    }
}

/// Writes a status, unless the object has changed since it was read: a status
/// that was computed for an older generation must not be seen on a newer one.
fn write_status(
    client: &Client,
    resource: &ApiResource,
    object: &DynamicObject,
    status: serde_json::Value,
) -> BoxFuture<'static, Written> {
    let api = namespaced(client, resource, object);
    let name = object.name_any();
    let version = object.metadata.resource_version.clone();
    let patch = json!({ "metadata": { "resourceVersion": version }, "status": status });
    async move {
        let params = PatchParams {
            field_manager: Some("simulated-workloads".to_owned()),
            ..PatchParams::default()
        };
        settle(api.patch_status(&name, &params, &Patch::Merge(&patch)).await.map(|_| ()))
    }
    .boxed()
}

/// Removes a Pod that is being deleted, as a kubelet does once its containers
/// have ended. `None` when that was done and finalizers hold it.
fn end_pod(
    client: &Client,
    resource: &ApiResource,
    pod: &DynamicObject,
) -> Option<BoxFuture<'static, Written>> {
    if pod.metadata.deletion_grace_period_seconds == Some(0) {
        return None;
    }
    let api = namespaced(client, resource, pod);
    let name = pod.name_any();
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid: pod.uid(), resource_version: None }),
        ..DeleteParams::default()
    };
    Some(async move { settle(api.delete(&name, &params).await.map(|_| ())) }.boxed())
}

/// The objects of a resource in the namespace of one of them.
pub(super) fn namespaced(
    client: &Client,
    resource: &ApiResource,
    object: &DynamicObject,
) -> Api<DynamicObject> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    Api::namespaced_with(client.clone(), namespace, resource)
}

/// What an answer of the API server means for the simulation.
pub(super) fn settle(answer: Result<(), kube::Error>) -> Written {
    match answer {
        Ok(()) => Written::Settled,
        // Gone meanwhile.
        Err(kube::Error::Api(status)) if status.code == 404 => Written::Settled,
        // The next try would be refused as well.
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
            tracing::warn!(error = %status.message, "a simulated write was refused");
            Written::Settled
        }
        // A conflict among others: the newer object comes, and is tried at once.
        Err(error) => {
            tracing::debug!(%error, "a simulated write failed; it is tried again");
            Written::Failed
        }
    }
}

/// The code of an answer of the API server that ended a watch.
pub(super) fn status_code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => Some(status.code),
        watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}
