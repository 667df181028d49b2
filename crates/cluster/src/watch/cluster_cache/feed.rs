//! The watch of one kind: from server events to the index.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kube::Resource as _;
use kube::core::discovery::ApiResource;
use kube::runtime::watcher;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::Error;
use super::index::{IndexChange, Objects, TrackingMark};
use super::owner_graph::OwnerGraph;
use super::raw_object::RawObject;
use super::surveyed::name_of;
use super::wanted::WantedKinds;
use crate::watch::failure::{has_code, is_transient};
use crate::watch::follow::watch_error;
use crate::watch::watched::Watched;
use wavegate_api::Raw;
use wavegate_api::kind::GroupVersionKind;
use wavegate_api::resource_key::ResourceKey;

/// Timeout of the first listing of a kind.
pub(super) const LIST_TIMEOUT: Duration = Duration::from_secs(60);

/// Objects per page of a listing (SE-432).
pub(super) const PAGE: u32 = 500;

/// After this number of consecutive failures, the index counts as outdated.
const MAX_FAILURES: u32 = 3;

/// After this number of consecutive transient failures, a listing has failed: some ten
/// seconds, as long as a loaded server needs to serve a new definition.
const MAX_TRANSIENT_FAILURES: u32 = 5;

/// Failures further apart than this are not consecutive.
const IN_A_ROW: Duration = Duration::from_secs(180);

/// Minimum interval between listings on request.
const MIN_LIST_INTERVAL: Duration = Duration::from_secs(5);

/// Whether the kind was listed.
#[derive(Clone, Debug)]
pub(super) enum State {
    Starting,
    Ready,
    Failed(String),
}

#[derive(Debug, Default)]
pub(super) struct Failures {
    times: u32,
    last: Option<FeedFailure>,
}

#[derive(Debug)]
struct FeedFailure {
    at: Instant,
    reason: String,
    /// The server does not serve the kind.
    is_missing: bool,
}

/// The watch of one kind.
#[derive(Debug)]
pub(super) struct Feed {
    pub resource: ApiResource,
    pub objects: Mutex<Objects>,
    /// Ends the watch.
    pub stop: CancellationToken,
    /// The events of objects so far, those of listings included.
    pub events: AtomicU64,
    wanted: Arc<Mutex<WantedKinds>>,
    mark: TrackingMark,
    graph: Option<Arc<OwnerGraph>>,
    /// Whether all objects are in the graph, and whether those of the listing that goes on are.
    is_in_graph: Watched<bool>,
    lists_for_graph: AtomicBool,
    pub(super) state: Watched<State>,
    pub(super) failures: Mutex<Failures>,
    /// Requests a listing without waiting for the end of the pause.
    pub(super) again: Notify,
    asked_again: Mutex<Instant>,
}

impl Feed {
    pub fn new(
        resource: ApiResource,
        mark: TrackingMark,
        wanted: Arc<Mutex<WantedKinds>>,
        graph: Option<Arc<OwnerGraph>>,
        stop: CancellationToken,
    ) -> Self {
        let objects = Objects::new(mark.clone(), &resource.group, &resource.kind);
        Self {
            resource,
            objects: Mutex::new(objects),
            stop,
            events: AtomicU64::default(),
            wanted,
            mark,
            graph,
            is_in_graph: Watched::default(),
            lists_for_graph: AtomicBool::default(),
            state: Watched::new(State::Starting),
            failures: Mutex::default(),
            again: Notify::new(),
            asked_again: Mutex::new(Instant::now()),
        }
    }

    /// Lists again at once after a failure, but not too often: the pause of a watch with
    /// many failures is longer than a user waits.
    fn list_soon(&self) {
        if self.check().is_ok() {
            return;
        }
        let mut asked = self.asked_again.lock();
        if asked.elapsed() >= MIN_LIST_INTERVAL {
            *asked = Instant::now();
            self.start_over();
        }
    }

    /// Lists again; failures before this point do not count any more.
    fn start_over(&self) {
        *self.failures.lock() = Failures::default();
        self.state.set(State::Starting);
        self.again.notify_one();
    }

    /// Lists again at once if the server did not serve the kind: its definition may have been
    /// created again.
    pub fn list_again(&self) {
        if self.is_missing() {
            self.start_over();
        }
    }

    /// Puts all objects into the graph, which was not kept before.
    pub fn fill_graph(&self) {
        if !self.is_in_graph.get() {
            self.again.notify_one();
        }
    }

    /// Waits until all objects are in the graph, or cannot be listed.
    pub async fn in_graph(&self, limit: Duration) {
        let failed = self.state.wait_for(|state| matches!(state, State::Failed(_)));
        let filled = self.is_in_graph.wait_for(|filled| *filled);
        tokio::select! {
            _ = failed => {}
            _ = filled => {}
            () = tokio::time::sleep(limit) => {}
        }
    }

    /// Whether the server does not serve the kind: its definition was deleted, or is new.
    pub fn is_missing(&self) -> bool {
        self.failures.lock().last.as_ref().is_some_and(|last| last.is_missing)
    }

    /// Waits until a listing is complete.
    pub async fn ready(&self, limit: Duration) -> Result<(), Error> {
        self.list_soon();
        let listed = self.state.wait_for(|state| !matches!(state, State::Starting));
        let listed = tokio::time::timeout(limit, listed).await;
        let failed = |reason: String| Err(Error::List { kind: self.name(), reason });
        match listed {
            Ok(State::Ready | State::Starting) => self.check(),
            Ok(State::Failed(reason)) => failed(reason),
            Err(_) => failed(format!("not listed within {} s", limit.as_secs())),
        }
    }

    /// Fails when the index may be outdated.
    pub fn check(&self) -> Result<(), Error> {
        if let State::Failed(reason) = self.state.get() {
            return Err(Error::List { kind: self.name(), reason: reason.clone() });
        }
        let failures = self.failures.lock();
        match &failures.last {
            Some(last) if failures.times >= MAX_FAILURES && last.at.elapsed() < IN_A_ROW => {
                Err(Error::List { kind: self.name(), reason: last.reason.clone() })
            }
            _ => Ok(()),
        }
    }

    fn name(&self) -> String {
        name_of(&self.resource)
    }

    pub(super) fn take(&self, event: watcher::Event<RawObject>) -> Vec<(ResourceKey, IndexChange)> {
        use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
        let mut objects = self.objects.lock();
        if !matches!(event, Init | InitDone) {
            self.events.fetch_add(1, Ordering::Relaxed);
        }
        match event {
            Init => {
                let active = self.graph.as_ref().is_some_and(|graph| graph.is_active());
                self.lists_for_graph.store(active, Ordering::Relaxed);
            }
            Apply(object) | InitApply(object) => {
                let key = self.key(&object);
                let defines = self.resource.kind == definitions().kind;
                let whole = self.wanted.lock().by(&key).next().is_some();
                let content = || object.parse(&self.resource);
                let mut change = objects.apply(&key, &object.head(), whole, content);
                let is_news = |graph: &&Arc<OwnerGraph>| {
                    graph.is_active() && (change.is_some() || graph.uid(&key).is_none())
                };
                if let Some(graph) = self.graph.as_ref().filter(is_news) {
                    let object = content();
                    graph.put(&key, &object, self.mark.instance_of(&object));
                }
                if defines && change.is_some() {
                    change = change.map(|change| IndexChange { counts: true, ..change });
                }
                return change.map(|change| (key, change)).into_iter().collect();
            }
            Delete(object) => {
                let key = self.key(&object);
                let head = object.head();
                if let Some(graph) = &self.graph {
                    graph.remove(&key, Some(head.uid()).filter(|uid| !uid.is_empty()));
                }
                let change = objects.delete(&key, &head);
                return change.map(|change| (key, change)).into_iter().collect();
            }
            InitDone => {
                let gone = objects.end();
                if let Some(graph) = &self.graph {
                    gone.iter().for_each(|(key, _)| graph.remove(key, None));
                }
                if self.lists_for_graph.load(Ordering::Relaxed) {
                    self.is_in_graph.set(true);
                }
                self.state.set(State::Ready);
                return gone;
            }
        }
        Vec::new()
    }

    fn key(&self, object: &RawObject) -> ResourceKey {
        let meta = object.meta();
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        ResourceKey {
            group: self.resource.group.clone(),
            kind: self.resource.kind.clone(),
            namespace: text(&meta.namespace),
            name: text(&meta.name),
        }
    }

    pub(super) fn fail(&self, error: &watcher::Error) {
        let reason = watch_error(error);
        tracing::debug!(kind = self.name(), %reason, "watch interrupted");
        let mut failures = self.failures.lock();
        let in_a_row = failures.last.as_ref().is_some_and(|last| last.at.elapsed() < IN_A_ROW);
        failures.times = if in_a_row { failures.times + 1 } else { 1 };
        let is_missing = is_missing(error);
        failures.last =
            Some(FeedFailure { at: Instant::now(), reason: reason.clone(), is_missing });
        if failures.times == MAX_FAILURES {
            tracing::warn!(kind = self.name(), reason, "cannot watch, retrying");
        }
        let times = failures.times;
        drop(failures);
        // A kind of a new definition is not served at once, although discovery names it, and
        // an overloaded server may serve it later.
        let may_succeed = times < MAX_TRANSIENT_FAILURES && may_succeed_later(error);
        if matches!(error, watcher::Error::InitialListFailed(_)) && !may_succeed {
            self.state.change(|state| {
                if !matches!(state, State::Ready) {
                    *state = State::Failed(reason.clone());
                }
            });
        }
    }

    /// All instances with objects of this kind, after it became unreadable.
    pub(super) fn all_instances(&self) -> Vec<(ResourceKey, IndexChange)> {
        if self.failures.lock().times != MAX_FAILURES {
            return Vec::new();
        }
        self.objects.lock().all()
    }
}

/// Whether the server does not serve the kind.
fn is_missing(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            has_code(error, 404)
        }
        _ => false,
    }
}

/// Whether a failed listing may succeed within seconds, without a change by a user.
fn may_succeed_later(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(listing) => is_missing(error) || is_transient(listing),
        _ => true,
    }
}

pub(super) fn definitions() -> GroupVersionKind {
    GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
}
