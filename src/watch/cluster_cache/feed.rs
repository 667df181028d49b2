//! The watch of one kind: from server events to the index.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt;
use kube::api::{Api, DynamicObject};
use kube::core::discovery::ApiResource;
use kube::runtime::watcher;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::index::{Change, Mark, Objects};
use super::{ClusterCache, Error, Wanted, definitions, kind_of, raw};
use crate::api::resource_key::ResourceKey;
use crate::watch::follow::{follow_listings, words};

/// Objects per page of a listing (SE-432).
pub(super) const PAGE: u32 = 500;

/// After this number of consecutive failures, the index counts as outdated.
const MAX_FAILURES: u32 = 3;

/// Failures further apart than this are not consecutive.
const IN_A_ROW: Duration = Duration::from_secs(180);

/// Minimum interval between listings on request.
const MIN_LIST_INTERVAL: Duration = Duration::from_secs(5);

/// Whether the kind was listed.
#[derive(Clone, Debug)]
enum State {
    Starting,
    Ready,
    Failed(String),
}

#[derive(Debug, Default)]
struct Failures {
    times: u32,
    last: Option<(Instant, String)>,
}

/// The watch of one kind.
#[derive(Debug)]
pub(super) struct Feed {
    pub resource: ApiResource,
    pub objects: Mutex<Objects>,
    wanted: Arc<Mutex<Wanted>>,
    state: tokio::sync::watch::Sender<State>,
    failures: Mutex<Failures>,
    /// Requests a listing without waiting for the end of the pause.
    again: Notify,
    asked_again: Mutex<Instant>,
}

impl Feed {
    pub fn new(resource: ApiResource, mark: Mark, wanted: Arc<Mutex<Wanted>>) -> Self {
        Self {
            resource,
            objects: Mutex::new(Objects::new(mark)),
            wanted,
            state: tokio::sync::watch::Sender::new(State::Starting),
            failures: Mutex::default(),
            again: Notify::new(),
            asked_again: Mutex::new(Instant::now()),
        }
    }

    /// Lists again at once after a failure, but not too often: the pause of a watch with
    /// many failures is longer than a user waits.
    fn list_soon(&self) {
        if !matches!(&*self.state.borrow(), State::Failed(_)) {
            return;
        }
        let mut asked = self.asked_again.lock();
        if asked.elapsed() >= MIN_LIST_INTERVAL {
            *asked = Instant::now();
            self.state.send_replace(State::Starting);
            self.again.notify_one();
        }
    }

    /// Waits until the first listing is complete.
    pub async fn ready(&self, limit: Duration) -> Result<(), Error> {
        self.list_soon();
        let mut state = self.state.subscribe();
        let listed = state.wait_for(|state| !matches!(state, State::Starting));
        let listed = tokio::time::timeout(limit, listed).await;
        let failed = |reason: String| Err(Error::List { kind: self.name(), reason });
        match listed.map(|listed| listed.map(|state| state.clone())) {
            Ok(Ok(State::Ready)) => self.check(),
            Ok(Ok(State::Failed(reason))) => failed(reason),
            Ok(Ok(State::Starting) | Err(_)) => failed("the watch has ended".to_owned()),
            Err(_) => failed(format!("not listed within {} s", limit.as_secs())),
        }
    }

    /// Fails when the index may be outdated.
    pub fn check(&self) -> Result<(), Error> {
        if let State::Failed(reason) = &*self.state.borrow() {
            return Err(Error::List { kind: self.name(), reason: reason.clone() });
        }
        let failures = self.failures.lock();
        match &failures.last {
            Some((at, reason)) if failures.times >= MAX_FAILURES && at.elapsed() < IN_A_ROW => {
                Err(Error::List { kind: self.name(), reason: reason.clone() })
            }
            _ => Ok(()),
        }
    }

    fn name(&self) -> String {
        match self.resource.group.as_str() {
            "" => self.resource.kind.clone(),
            group => format!("{}.{group}", self.resource.kind),
        }
    }

    /// Runs the watch of all objects of `api` until dropped.
    pub async fn run(self: Arc<Self>, cluster: Weak<ClusterCache>, api: Api<DynamicObject>) {
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
                event = events.next() => event,
                () = self.again.notified() => {
                    events = follow();
                    continue;
                }
            };
            let Some(event) = event else { return };
            // The first listing contains only definitions that discovery already knows.
            let listed = matches!(&*self.state.borrow(), State::Ready);
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
            let ready = matches!(&*self.state.borrow(), State::Ready);
            if defines && (listed && counts || !listed && ready) {
                cluster.definitions_changed(listed).await;
            }
        }
    }

    fn take(&self, event: watcher::Event<DynamicObject>) -> Vec<(ResourceKey, Change)> {
        use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
        let mut objects = self.objects.lock();
        match event {
            Init => {}
            Apply(object) | InitApply(object) => {
                let object = raw(object, &self.resource);
                let Some(key) = ResourceKey::from_object(&object) else { return Vec::new() };
                debug_assert_eq!(kind_of(&object).kind, self.resource.kind);
                let defines = self.resource.kind == definitions().kind;
                let whole = self.wanted.lock().by(&key).next().is_some();
                let mut change = objects.apply(key.clone(), object, whole);
                if defines && change.is_some() {
                    change = change.map(|change| Change { counts: true, ..change });
                }
                return change.map(|change| (key, change)).into_iter().collect();
            }
            Delete(object) => {
                let object = raw(object, &self.resource);
                let Some(key) = ResourceKey::from_object(&object) else { return Vec::new() };
                let change = objects.delete(&key, &object);
                return change.map(|change| (key, change)).into_iter().collect();
            }
            InitDone => {
                let gone = objects.end();
                self.state.send_replace(State::Ready);
                return gone;
            }
        }
        Vec::new()
    }

    fn fail(&self, error: &watcher::Error) {
        let reason = words(error);
        tracing::debug!(kind = self.name(), %reason, "watch interrupted");
        let mut failures = self.failures.lock();
        let in_a_row = failures.last.as_ref().is_some_and(|(at, _)| at.elapsed() < IN_A_ROW);
        failures.times = if in_a_row { failures.times + 1 } else { 1 };
        failures.last = Some((Instant::now(), reason.clone()));
        if failures.times == MAX_FAILURES {
            tracing::warn!(kind = self.name(), reason, "cannot watch, retrying");
        }
        if matches!(error, watcher::Error::InitialListFailed(_)) {
            self.state.send_modify(|state| {
                if !matches!(state, State::Ready) {
                    *state = State::Failed(reason.clone());
                }
            });
        }
    }

    /// All instances with objects of this kind, after it became unreadable.
    fn all_instances(&self) -> Vec<(ResourceKey, Change)> {
        if self.failures.lock().times != MAX_FAILURES {
            return Vec::new();
        }
        self.objects.lock().all()
    }
}
