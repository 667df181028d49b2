//! A record of everything: requests with what they brought and wrote, and the
//! changes of stored objects. For simulations, whose judges know nothing else.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::body::Bytes;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::clock::ServerClock;
use super::effect::{Disturbance, Effect};
use super::log::Change;
use super::place::ResourceKey;
use super::request_record::RequestRecord;

/// What [`Server::record_into`](super::Server::record_into) hands over.
///
/// Shown as a line of text, which is the same in two runs that are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedRequest {
    /// A request has been answered, or nobody waits for the answer any more.
    Exchange(Exchange),
    /// A stored object has changed.
    Change(RecordedChange),
    /// Something was made to happen to an open watch.
    Disturbed(Disturbed),
}

/// A request and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Who asked for what, and the code of the answer: 0 when the client got none.
    pub request: RequestRecord,
    /// The query as it came, without `?`.
    pub query: String,
    /// The field manager of a write, whether the query names it or not; otherwise empty.
    pub field_manager: String,
    /// The body of the request. Empty when it did not arrive.
    pub body: Bytes,
    /// The object as it is stored after a create, update, patch or apply, also when that
    /// changed nothing. `None` for others, for refusals and for dry runs.
    pub stored: Option<Bytes>,
    /// What faults did to it.
    pub effects: Vec<Effect>,
    /// When it came, by the clock as if never shifted.
    pub received: Timestamp,
    /// When it was answered, or given up, by the same clock.
    pub answered: Timestamp,
}

/// A watch to which something was made to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disturbed {
    /// The request that opened it.
    pub watch: RequestRecord,
    /// What happens to it.
    pub disturbance: Disturbance,
    /// When, by the clock as if never shifted.
    pub at: Timestamp,
}

/// One change of a stored object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedChange {
    /// What happened to it.
    pub event: EventType,
    /// API group; empty for core.
    pub group: Arc<str>,
    /// Plural name.
    pub resource: Arc<str>,
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name of the object.
    pub name: Arc<str>,
    /// The object after the change, in its stored version; the last state of one that is gone.
    pub object: Bytes,
    /// The resource version of the change.
    pub revision: u64,
    /// When it happened, by the clock as if never shifted.
    pub time: Timestamp,
    /// The number of the request that caused it: [`RequestRecord::seq`].
    pub cause: u64,
}

/// The type of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// It was created.
    Added,
    /// Another version of it was stored.
    Modified,
    /// It is gone.
    Deleted,
}

impl fmt::Display for RecordedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchange(exchange) => exchange.fmt(f),
            Self::Change(change) => change.fmt(f),
            Self::Disturbed(disturbed) => disturbed.fmt(f),
        }
    }
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RequestRecord { seq, client, verb, group, resource, .. } = &self.request;
        let RequestRecord { subresource, namespace, name, code, .. } = &self.request;
        write!(f, "{} #{seq} {client} {verb} {group}/{resource}", self.received)?;
        if !subresource.is_empty() {
            write!(f, "/{subresource}")?;
        }
        write!(f, " {namespace}/{name}?{} -> {code} at {}", self.query, self.answered)?;
        if !self.body.is_empty() {
            write!(f, " {}", String::from_utf8_lossy(&self.body))?;
        }
        Ok(())
    }
}

impl fmt::Display for RecordedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event, group, resource, namespace, name, time, cause, .. } = self;
        let object = String::from_utf8_lossy(&self.object);
        write!(f, "{time} #{cause} {event:?} {group}/{resource} {namespace}/{name} {object}")
    }
}

impl fmt::Display for Disturbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { watch: RequestRecord { seq, client, group, resource, .. }, disturbance, at } =
            self;
        write!(f, "{at} watch #{seq} of {client} {group}/{resource}: {disturbance:?}")
    }
}

type Sink = Box<dyn FnMut(RecordedRequest) + Send>;

/// Where entries go, if anywhere.
pub(crate) struct Recorder {
    clock: ServerClock,
    is_on: AtomicBool,
    sink: Mutex<Option<Sink>>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("is_on", &self.is_on).finish_non_exhaustive()
    }
}

impl Recorder {
    pub fn new(clock: ServerClock) -> Self {
        Self { clock, is_on: AtomicBool::new(false), sink: Mutex::new(None) }
    }

    pub fn set(&self, sink: Option<Sink>) {
        self.is_on.store(sink.is_some(), Ordering::Release);
        *self.sink.lock() = sink;
    }

    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    fn tell(&self, entry: RecordedRequest) {
        if let Some(sink) = &mut *self.sink.lock() {
            sink(entry);
        }
    }

    /// Begins to record a request: the record that is given back tells when it is dropped.
    pub fn exchange(&self, query: Option<&str>) -> Recording<'_> {
        let exchange = self.is_on().then(|| {
            let received = self.clock.unshifted();
            Box::new(Exchange {
                request: RequestRecord::default(),
                query: query.unwrap_or_default().to_owned(),
                field_manager: String::new(),
                body: Bytes::new(),
                stored: None,
                effects: Vec::new(),
                received,
                answered: received,
            })
        });
        Recording { recorder: self, exchange }
    }

    /// Records what happens to a watch.
    pub fn disturbed(&self, watch: &RequestRecord, disturbance: &Disturbance) {
        if self.is_on() {
            self.tell(RecordedRequest::Disturbed(Disturbed {
                watch: watch.clone(),
                disturbance: disturbance.clone(),
                at: self.clock.unshifted(),
            }));
        }
    }

    /// Records a change.
    pub fn change(&self, cause: u64, resource: &ResourceKey, change: &Change) {
        if !self.is_on() {
            return;
        }
        let event = match change {
            Change { removed: true, .. } => EventType::Deleted,
            Change { before: None, .. } => EventType::Added,
            Change { .. } => EventType::Modified,
        };
        self.tell(RecordedRequest::Change(RecordedChange {
            event,
            group: resource.group.clone(),
            resource: resource.resource.clone(),
            namespace: change.key.namespace.clone(),
            name: change.key.name.clone(),
            object: change.after.json.clone(),
            revision: change.revision,
            time: self.clock.unshifted(),
            cause,
        }));
    }
}

/// A request that is being recorded, if it is.
pub(crate) struct Recording<'a> {
    recorder: &'a Recorder,
    exchange: Option<Box<Exchange>>,
}

impl Recording<'_> {
    /// Adds what is known now.
    pub fn note(&mut self, add: impl FnOnce(&mut Exchange)) {
        self.exchange.as_deref_mut().map(add);
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if let Some(mut exchange) = self.exchange.take() {
            exchange.answered = self.recorder.clock.unshifted();
            self.recorder.tell(RecordedRequest::Exchange(*exchange));
        }
    }
}
