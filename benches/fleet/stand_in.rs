//! A stand-in for Argo CD's application controller that answers each event by
//! itself, whatever the size of the fleet, and notes when it saw what.
//!
//! It is the only watch besides those of the program under measurement. As an observer it answers
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use http::Request;
use kube::Client;
use kube::core::WatchEvent;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::site::Site;
use crate::support::invariants::{is_done, is_in_flight};
use crate::support::{Kind, cluster, stand_in};

/// Writes at once.
const PARALLEL: usize = 16;

/// What was seen of one revision.
#[derive(Default)]
pub struct Seen {
    /// Compared with the revision, which they do not run yet.
    pub out_of_sync: BTreeSet<String>,
    /// When the operation to it was first there.
    pub requested: BTreeMap<String, Instant>,
    /// When the Application was Synced and Healthy by that operation.
    pub done: BTreeMap<String, Instant>,
}

struct State {
    revision: String,
    /// Nothing is begun for this Application.
    held: Option<String>,
    latest: BTreeMap<String, Arc<Value>>,
    seen: Seen,
}

/// Runs until it is dropped.
pub struct StandIn {
    state: Arc<Mutex<State>>,
    worker: Worker,
    changed: tokio::sync::watch::Receiver<()>,
    _stop: DropGuard,
}

impl StandIn {
    pub async fn start(site: &Site, revision: &str) -> Self {
        Self::new(site, revision, true).await
    }

    /// One that only looks.
    pub async fn observer(site: &Site, revision: &str) -> Self {
        Self::new(site, revision, false).await
    }

    async fn new(site: &Site, revision: &str, answers: bool) -> Self {
        let state = State {
            revision: revision.to_owned(),
            held: None,
            latest: BTreeMap::new(),
            seen: Seen::default(),
        };
        let state = Arc::new(Mutex::new(state));
        let (change, changed) = tokio::sync::watch::channel(());
        let worker = Worker {
            client: site.client.clone(),
            namespace: site.namespace.clone(),
            path: Kind::Application.path(&site.namespace),
            state: Arc::clone(&state),
            change: Arc::new(change),
            places: Arc::new(Semaphore::new(PARALLEL)),
            answers,
        };
        let stop = CancellationToken::new();
        let (token, watching) = (stop.clone(), worker.clone());
        tokio::spawn(async move { token.run_until_cancelled(watching.watch()).await });
        Self { state, worker, changed, _stop: stop.drop_guard() }
    }

    /// There is a new commit, and operations of this Application wait until
    /// [`StandIn::release`].
    pub fn commit(&self, revision: &str, held: Option<String>) {
        let all: Vec<_> = {
            let mut state = self.state.lock();
            revision.clone_into(&mut state.revision);
            state.held = held;
            state.seen = Seen::default();
            state.latest.values().cloned().collect()
        };
        all.iter().for_each(|application| self.worker.answer(application));
    }

    pub fn release(&self) {
        let held = {
            let mut state = self.state.lock();
            let held = state.held.take();
            held.and_then(|name| state.latest.get(&name).cloned())
        };
        held.iter().for_each(|application| self.worker.answer(application));
    }

    /// Waits until what was seen satisfies `condition`; false after `limit`.
    pub async fn until(&self, limit: Duration, condition: impl Fn(&Seen) -> bool) -> bool {
        let deadline = tokio::time::Instant::now() + limit;
        let mut changed = self.changed.clone();
        loop {
            changed.mark_unchanged();
            if condition(&self.state.lock().seen) {
                return true;
            }
            if tokio::time::timeout_at(deadline, changed.changed()).await.is_err() {
                return false;
            }
        }
    }

    pub fn read<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.state.lock().seen)
    }

    /// How many Applications there are.
    pub fn count(&self) -> usize {
        self.state.lock().latest.len()
    }

    /// An Application as it was seen last.
    pub fn application(&self, name: &str) -> Option<Arc<Value>> {
        self.state.lock().latest.get(name).cloned()
    }

    /// Waits until an Application is there and satisfies `condition`.
    pub async fn until_application(
        &self,
        name: &str,
        limit: Duration,
        condition: impl Fn(&Value) -> bool,
    ) -> bool {
        let deadline = tokio::time::Instant::now() + limit;
        let mut changed = self.changed.clone();
        loop {
            changed.mark_unchanged();
            if self.application(name).is_some_and(|application| condition(&application)) {
                return true;
            }
            if tokio::time::timeout_at(deadline, changed.changed()).await.is_err() {
                return false;
            }
        }
    }

    pub async fn until_count(&self, count: usize, limit: Duration) -> bool {
        let deadline = tokio::time::Instant::now() + limit;
        let mut changed = self.changed.clone();
        loop {
            changed.mark_unchanged();
            if self.count() >= count {
                return true;
            }
            if tokio::time::timeout_at(deadline, changed.changed()).await.is_err() {
                return false;
            }
        }
    }
}

#[derive(Clone)]
struct Worker {
    client: Client,
    namespace: String,
    path: String,
    state: Arc<Mutex<State>>,
    change: Arc<tokio::sync::watch::Sender<()>>,
    places: Arc<Semaphore>,
    /// Whether it acts as a sync engine.
    answers: bool,
}

impl Worker {
    async fn watch(self) {
        loop {
            let version = match self.list().await {
                Ok(version) => version,
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let path =
                format!("{}?watch=true&timeoutSeconds=3600&resourceVersion={version}", self.path);
            let request = Request::get(path).body(Vec::new()).expect("the path is one");
            let Ok(events) = self.client.request_events::<Value>(request).await else { continue };
            let mut events = std::pin::pin!(events);
            while let Some(Ok(event)) = events.next().await {
                match event {
                    WatchEvent::Added(application) | WatchEvent::Modified(application) => {
                        self.see(application)
                    }
                    WatchEvent::Deleted(application) => {
                        let name = application["metadata"]["name"].as_str().unwrap_or_default();
                        self.state.lock().latest.remove(name);
                        self.change.send_replace(());
                    }
                    WatchEvent::Bookmark(_) => {}
                    WatchEvent::Error(_) => break,
                }
            }
        }
    }

    async fn list(&self) -> Result<String, kube::Error> {
        let request = Request::get(&self.path).body(Vec::new()).expect("the path is one");
        let mut list: Value = self.client.request(request).await?;
        for application in list["items"].as_array_mut().into_iter().flatten() {
            self.see(application.take());
        }
        Ok(list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned())
    }

    fn see(&self, application: Value) {
        let at = Instant::now();
        let application = Arc::new(application);
        let name = application["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        {
            let mut state = self.state.lock();
            let State { revision, latest, seen, .. } = &mut *state;
            if is_in_flight(&application)
                && application["operation"]["sync"]["revision"] == **revision
            {
                seen.requested.entry(name.clone()).or_insert(at);
            }
            if is_done(&application, revision) {
                seen.done.entry(name.clone()).or_insert(at);
            }
            let sync = &application["status"]["sync"];
            if sync["status"] == "OutOfSync" && sync["revision"] == **revision {
                seen.out_of_sync.insert(name.clone());
            }
            latest.insert(name, Arc::clone(&application));
        }
        self.change.send_replace(());
        self.answer(&application);
    }

    /// Writes what Argo CD would write next, if anything.
    fn answer(&self, application: &Value) {
        let Some(name) = application["metadata"]["name"].as_str().filter(|_| self.answers) else {
            return;
        };
        let patch = {
            let state = self.state.lock();
            stand_in::next(application, &state.revision, state.held.as_deref() == Some(name))
        };
        let Some(patch) = patch else { return };
        let (worker, name) = (self.clone(), name.to_owned());
        tokio::spawn(async move {
            let Ok(_place) = worker.places.acquire().await else { return };
            // A conflict: the change that caused it is answered by itself.
            let _ = cluster::patch_object(
                &worker.client,
                Kind::Application,
                &worker.namespace,
                &name,
                &patch,
            )
            .await;
        });
    }
}
