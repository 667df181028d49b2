//! An in-memory Kubernetes API server, for demonstrations, for tests and for simulations.
//!
//! [`Server::client`] gives a `kube::Client` that talks to it inside the
//! process; [`Server::serve`] gives the same server to `kubectl` over HTTP. It
//! behaves as the real one where a controller can tell: resource versions,
//! conflicts, generations, field ownership, all patch types, status and scale,
//! finalizers, garbage collection, selectors, pages, watches, definitions of
//! custom kinds, discovery, OpenAPI, dry runs, namespaces. It reads JSON, YAML and, of
//! built-in kinds, protobuf; it answers in JSON.
//!
//! It differs in this: garbage collection and the emptying of namespaces happen
//! inside the request that causes them; pods go at once, since no kubelet waits;
//! CEL rules and admission webhooks are not run; there are no users and no
//! roles: each client with the token of a [`Guard`] may do everything, and without a
//! guard ([`Server::serve`], for tests) each client.
//!
//! ```text
//! http ──> handler ──> read, write, patching, deletion ──> store ──> log ──> watch
//!           │    │                  │                        │
//!       faults  answer   checks, schema, typed, defaults,  stored
//!      requests          managed_fields, field_set, gc    record
//! ```
//!
//! One lock guards everything stored. Objects are immutable JSON and shared: reads
//! and watches hand out the stored bytes. What is kept of the past is bounded. Time follows tokio's clock, so that
//! under paused time nothing here waits for real. Nothing that a client can see depends on chance: every `select!` is
//! biased, maps that are gone through are ordered, watches are woken in the order in which they were opened.

mod answer;
mod builtin;
mod builtin_rules;
mod checks;
mod clock;
mod columns;
mod convert;
mod crd;
mod defaults;
mod definitions;
mod deletion;
mod discovery;
mod effect;
mod errors;
mod event_expiry;
mod faults;
mod field_set;
mod gc;
mod guard;
mod handler;
mod http;
mod injection;
mod inner;
mod jsonpath;
mod kinds;
mod listeners;
mod log;
mod managed_fields;
mod openapi;
mod patch;
mod patching;
mod place;
mod pod_log;
mod protobuf;
mod random;
mod read;
mod record;
mod request;
mod request_record;
mod requests;
mod restore;
mod scale;
mod schema;
mod selectors;
mod settings;
mod state;
mod store;
mod stored;
mod table;
mod trees;
mod typed;
mod unread;
mod validate;
mod watch;
pub mod workloads;
mod write;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::inner::Inner;

pub use self::answer::ResponseBody;
pub use self::clock::ServerClock;
pub use self::definitions::{Definitions, RefusedDefinition};
pub use self::effect::{Disturbance, Dropped, Effect};
pub use self::faults::{InjectedFault, Matcher};
pub use self::guard::{Guard, Unusable};
pub use self::http::ApiService;
pub use self::random::SplitMix64;
pub use self::record::{Disturbed, EventType, Exchange, RecordedChange, RecordedRequest};
pub use self::request_record::RequestRecord;
pub use self::requests::RequestCounts;
pub use self::restore::NotRestored;
pub use self::settings::ServerSettings;
pub use self::store::MemoryStore;

/// A Kubernetes API server in memory. Clones are handles of the same server.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl Server {
    /// An empty server: namespaces `default`, `kube-system`, `kube-public` and
    /// `kube-node-lease`, built-in kinds, no custom ones.
    pub fn new() -> Self {
        Self::with(ServerSettings::default())
    }

    /// The same at another time than the system's.
    pub fn starting_at(time: Timestamp) -> Self {
        Self::with(ServerSettings {
            clock: ServerClock::starting_at(time),
            ..ServerSettings::default()
        })
    }

    /// The same without a log of requests, for servers that run long or under
    /// load: [`Self::requests`] and [`Self::counts`] stay empty.
    pub fn without_request_log() -> Self {
        Self::with(ServerSettings { request_log: false, ..ServerSettings::default() })
    }

    /// An empty server as the settings say.
    pub fn with(settings: ServerSettings) -> Self {
        let ServerSettings { clock, seed, request_log, size_limits, definitions } = settings;
        let recorder = Arc::new(record::Recorder::new(clock.clone()));
        let mut state = state::State::new(seed, clock.now(), recorder.clone());
        definitions.define(&mut state, clock.now());
        let state = Mutex::new(state);
        let unread = Arc::new(tokio::sync::Semaphore::new(unread::UNREAD_LIMIT));
        let ledger = Mutex::new(requests::Ledger::new(request_log));
        let inner = Inner { state, clock, ledger, recorder, unread, has_size_limits: size_limits };
        Self { inner: Arc::new(inner) }
    }

    /// The server's clock, to be shared with what shall have the same time.
    pub fn clock(&self) -> ServerClock {
        self.inner.clock.clone()
    }

    /// Sets the server's clock forward by this much, or back. Timers do not notice.
    pub fn shift_clock(&self, by: SignedDuration) {
        self.inner.clock.shift(by);
    }

    /// A client inside the process, attributed to `in-process`.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime: `kube::Client` starts a task.
    pub fn client(&self) -> kube::Client {
        self.client_as("in-process")
    }

    /// A client whose requests are attributed to a name, in the record of
    /// requests and as field manager where the request names none.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime: `kube::Client` starts a task.
    pub fn client_as(&self, name: &str) -> kube::Client {
        kube::Client::new(self.service(name), "default")
    }

    /// The `tower` service beneath such a client, to put layers around.
    pub fn service(&self, name: &str) -> ApiService {
        ApiService { server: self.inner.clone(), client: Some(name.into()), guard: None }
    }

    /// Serves HTTP on a listener until cancelled. Without authentication: loopback only.
    ///
    /// # Errors
    ///
    /// None at present; connections that fail are logged at debug level.
    pub async fn serve(
        &self,
        listener: TcpListener,
        stop: CancellationToken,
    ) -> std::io::Result<()> {
        http::serve(self.inner.clone(), listener, None, stop).await
    }

    /// The same for those who have the token of a guard, with and without TLS.
    ///
    /// # Errors
    ///
    /// None at present; connections that fail are logged at debug level.
    pub async fn serve_guarded(
        &self,
        listener: TcpListener,
        guard: Guard,
        stop: CancellationToken,
    ) -> std::io::Result<()> {
        http::serve(self.inner.clone(), listener, Some(Arc::new(guard)), stop).await
    }

    /// A kubeconfig for a server that listens on an address without a guard, in the namespace `default`.
    pub fn kubeconfig(&self, address: SocketAddr) -> String {
        guard::kubeconfig("kube-sim", &format!("server: http://{address}"), " {}", "default")
    }

    /// Sets the UID of the next object that is created, for an object that is restored.
    pub fn reserve_uid(&self, uid: &str) {
        self.inner.state.lock().ids.reserve(uid);
    }

    /// Puts objects back as a server held them, from a list or from
    /// [`RecordedChange::object`]: with their UIDs, versions, times, statuses, managers, and deletions
    /// that have begun. Those at the same places are replaced. Versions go on after the highest
    /// one. For a server that nobody watches yet, and with another seed than the one whose UIDs
    /// these are: no watch and no record tells of them.
    ///
    /// # Errors
    ///
    /// For an object without an identity, of a kind that the server does not have, or in a
    /// namespace that is neither there nor among the objects. Those before it stay.
    pub fn restore<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a serde_json::Value>,
    ) -> Result<(), NotRestored> {
        let objects: Vec<&serde_json::Value> = objects.into_iter().collect();
        self.inner.state.lock().restore(&objects, self.inner.clock.now())
    }

    /// The current resource version.
    pub fn revision(&self) -> u64 {
        self.inner.state.lock().store.revision()
    }

    /// What is kept: objects and past changes.
    pub fn memory(&self) -> MemoryStore {
        self.inner.state.lock().store.memory()
    }

    /// The requests so far, oldest first; of many only the last 20,000.
    pub fn requests(&self) -> Vec<RequestRecord> {
        self.inner.ledger.lock().records()
    }

    /// How often each client used each verb on each resource (`deployments/status` for a subresource).
    pub fn counts(&self) -> RequestCounts {
        self.inner.ledger.lock().counts()
    }

    /// The number of successful write requests of a client: create, update,
    /// patch, apply and delete, without dry runs.
    pub fn writes(&self, client: &str) -> u64 {
        self.inner.ledger.lock().writes(client)
    }

    /// Forgets recorded requests and counts.
    pub fn forget_requests(&self) {
        self.inner.ledger.lock().forget();
    }

    /// Hands over each request, each change of a stored object and each watch that is disturbed
    /// from now on, in order: requests when they are answered, changes when they happen and so before the
    /// request that caused them. Takes the place of another sink.
    ///
    /// The sink is called in the middle of the work: it must not use the server.
    pub fn record_into(&self, sink: impl FnMut(RecordedRequest) + Send + 'static) {
        self.inner.recorder.set(Some(Box::new(sink)));
    }

    /// Ends what [`Self::record_into`] began.
    pub fn stop_recording(&self) {
        self.inner.recorder.set(None);
    }

    /// Forgets past changes: resuming a watch or a list from before now gives 410.
    pub fn compact(&self) {
        self.inner.state.lock().store.compact();
    }

    /// Ends all open watches, as a restart of the real server would.
    pub fn drop_watches(&self) {
        self.disturb(&Disturbance::Close, |_| true);
    }

    /// Makes something happen to the open watches that match; gives back how many those are.
    pub fn disturb(
        &self,
        disturbance: &Disturbance,
        mut matcher: impl FnMut(&RequestRecord) -> bool,
    ) -> usize {
        let mut watches = self.inner.state.lock().store.listeners();
        watches.retain(|watch| matcher(&watch.request));
        for watch in &watches {
            watch.disturb(disturbance.clone());
            self.inner.recorder.disturbed(&watch.request, disturbance);
        }
        watches.len()
    }

    /// Injects a fault into requests to come.
    pub fn inject(&self, fault: InjectedFault) {
        self.inner.ledger.lock().inject(fault);
    }

    /// Takes back all faults that have not happened yet.
    pub fn clear_faults(&self) {
        self.inner.ledger.lock().clear_faults();
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
