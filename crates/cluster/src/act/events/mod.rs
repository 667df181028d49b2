//! Kubernetes Events: one per transition, none for an unchanged state.
//!
//! Reconciles do not wait for Events. They are added to a bounded queue, and one task
//! writes them one by one. Repeated Events of an object within a short time become one
//! Event with the last text and a count. When the API server is slower than the
//! controllers, routine Events are dropped first.

mod once;
mod pending;
mod record;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ApiResource, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::watch::failure::has_code;
use crate::watch::object::StoredObject;
pub use once::Once;
use pending::{Pending, Waiting};
pub use record::{EventRecord, Subject};
use wavegate_net::clock::Clock;
use wavegate_net::redact;

/// The API server accepts notes of up to 1,024 bytes.
const NOTE_LIMIT: usize = 1024;
/// Actions and reasons have up to 128 characters; ours are single words.
const INSTANCE_LIMIT: usize = 128;
/// Timeout for writing one Event.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// How long the end of an operation waits for its Events.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);
/// How long a shutdown waits for the Events in the queue.
const GRACE: Duration = Duration::from_secs(3);
/// How often dropped Events are logged.
const LOG_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// Writes the Events of the controllers. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    clock: Clock,
    pending: Mutex<Pending>,
    changed: Notify,
    /// Makes names unique within this process.
    count: AtomicU64,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("pending", &self.shared.pending.lock().len()).finish()
    }
}

/// Events about objects of one kind.
#[derive(Clone, Debug)]
pub struct Events {
    /// `None` when Events are disabled.
    recorder: Option<Recorder>,
    component: String,
    resource: ApiResource,
    /// The reasons that are written; `None` for all.
    reasons: Option<Arc<BTreeSet<String>>>,
}

impl Events {
    /// Only those with one of these reasons; `None` for all (SE-540).
    pub fn limited_to(self, reasons: Option<&BTreeSet<String>>) -> Self {
        Self { reasons: reasons.cloned().map(Arc::new), ..self }
    }

    fn is_wanted(&self, record: &EventRecord) -> bool {
        self.reasons.as_ref().is_none_or(|reasons| reasons.contains(record.reason))
    }

    /// Adds an Event to the queue. It may be lost, since the status contains the same
    /// information.
    pub fn publish(&self, about: &StoredObject, record: EventRecord) {
        let Some(recorder) = self.recorder.as_ref().filter(|_| self.is_wanted(&record)) else {
            return;
        };
        let about = about.object_ref(&self.resource);
        recorder.shared.add(&self.component, about, record);
    }

    /// Adds Events to the queue, and writes those about the object now: they exist before
    /// the caller goes on, unless the API server takes too long.
    pub async fn publish_now(&self, about: &StoredObject, records: Vec<EventRecord>) {
        let Some(recorder) = &self.recorder else { return };
        for record in records {
            self.publish(about, record);
        }
        let waiting = recorder.shared.pending.lock().take_about(about.uid());
        let all = waiting.into_iter().map(|waiting| recorder.write(waiting));
        if tokio::time::timeout(FLUSH_LIMIT, futures::future::join_all(all)).await.is_err() {
            tracing::warn!("Events are not written in time: the API server takes too long");
        }
    }

    /// Writes an Event that exists once, however often it is published: `once` identifies
    /// it among the Events of the object. Returns whether it exists.
    pub async fn publish_once(
        &self,
        about: &StoredObject,
        record: EventRecord,
        once: &str,
    ) -> bool {
        let Some(recorder) = self.recorder.as_ref().filter(|_| self.is_wanted(&record)) else {
            return false;
        };
        let record = EventRecord { once: Some(Once::ever(once)), ..record };
        let now = recorder.shared.clock.now();
        let (component, about) = (self.component.clone(), about.object_ref(&self.resource));
        let waiting = Waiting { component, about, record, count: 1, first: now, last: now };
        recorder.write(waiting).await
    }
}

impl Recorder {
    /// A recorder; [`Self::run`] starts the writes.
    pub fn new(client: Client, clock: Clock) -> Self {
        let shared = Shared {
            client,
            clock,
            pending: Mutex::default(),
            changed: Notify::new(),
            count: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Events of a component about a kind; nothing is written unless `enabled`.
    pub fn events(&self, component: &str, resource: ApiResource, enabled: bool) -> Events {
        let recorder = enabled.then(|| self.clone());
        Events { recorder, component: component.to_owned(), resource, reasons: None }
    }

    /// Writes Events until `stop`, and then those in the queue, important ones first,
    /// within a short time.
    pub async fn run(&self, stop: &CancellationToken) {
        let mut logged = Logged::default();
        stop.run_until_cancelled(async {
            loop {
                let waiting = self.next().await;
                self.write(waiting).await;
                self.log_dropped(&mut logged);
            }
        })
        .await;
        let rest = async {
            loop {
                let Some(waiting) = self.shared.pending.lock().take_any() else { return };
                self.write(waiting).await;
            }
        };
        if tokio::time::timeout(GRACE, rest).await.is_err() {
            let count = self.shared.pending.lock().len();
            tracing::warn!(count, "Events are not written: the API server takes too long");
        }
    }

    /// Waits for the next Event to write.
    async fn next(&self) -> Waiting {
        loop {
            let changed = self.shared.changed.notified();
            let now = self.shared.clock.now();
            let due = {
                let mut pending = self.shared.pending.lock();
                if let Some(waiting) = pending.take(now) {
                    return waiting;
                }
                pending.due()
            };
            let Some(due) = due else {
                changed.await;
                continue;
            };
            let pause = Duration::try_from(due.duration_since(now)).unwrap_or_default();
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Writes an Event and returns whether it exists.
    async fn write(&self, waiting: Waiting) -> bool {
        let reason = waiting.record.reason;
        let error = match tokio::time::timeout(WRITE_LIMIT, self.create(waiting)).await {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => crate::watch::failure::error_reason(&error),
            Err(_) => format!("no response within {} s", WRITE_LIMIT.as_secs()),
        };
        tracing::debug!(error, reason, "Event was not written");
        false
    }

    /// Creates an Event, unless the same one exists.
    async fn create(&self, waiting: Waiting) -> Result<(), kube::Error> {
        let (once, published) = (waiting.record.once, waiting.last);
        let mut event = self.event(waiting);
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.shared.client.clone(), namespace);
        let params = PostParams::default();
        let (once, error) = match (once, api.create(&params, &event).await) {
            (Some(once), Err(error)) if has_code(&error, 409) => (once, error),
            (_, done) => return done.map(drop),
        };
        let Some(name) = event.metadata.name.take() else { return Err(error) };
        let is_same = match once {
            Once::Ever(_) => true,
            // The role need not permit to read Events (AS-506): a patch without changes
            // returns the Event. When it fails, two Events are better than none.
            Once::Change(_) => api
                .patch(&name, &PatchParams::default(), &Patch::Merge(json!({})))
                .await
                .is_ok_and(|existing| once::is_repeated(&existing, published)),
        };
        if is_same {
            return Ok(());
        }
        event.metadata.name = Some(self.unique_name(&name, published));
        api.create(&params, &event).await.map(drop)
    }

    fn log_dropped(&self, logged: &mut Logged) {
        let now = self.shared.clock.now();
        let dropped = self.shared.pending.lock().dropped();
        let due = logged.at.is_none_or(|at| now.duration_since(at) >= LOG_EVERY);
        if dropped > logged.dropped && due {
            let count = dropped - logged.dropped;
            tracing::warn!(
                count,
                "Events were dropped, since the API server is too slow; logs and status are complete"
            );
            *logged = Logged { at: Some(now), dropped };
        }
    }

    /// A name that no other Event has.
    fn unique_name(&self, start: &str, at: Timestamp) -> String {
        let number = self.shared.count.fetch_add(1, Ordering::Relaxed);
        format!("{start}.{:x}.{number:x}", at.as_nanosecond())
    }

    fn event(&self, waiting: Waiting) -> Event {
        let Waiting { component, about, record, count, first, last } = waiting;
        // Object names have up to 253 characters, as have the names of Events.
        let about_name: String =
            about.name.iter().flat_map(|name| name.chars()).take(200).collect();
        let name = match &record.once {
            Some(once) => {
                let uid = about.uid.as_deref().unwrap_or_default();
                format!("{about_name}.{}", once.suffix(uid))
            }
            None => self.unique_name(&about_name, first),
        };
        let series =
            (count > 1).then_some(EventSeries { count, last_observed_time: MicroTime(last) });
        let host = std::env::var("HOSTNAME").unwrap_or_default();
        let instance = format!("{component}-{host}").chars().take(INSTANCE_LIMIT).collect();
        Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: about.namespace.clone(),
                ..ObjectMeta::default()
            },
            type_: Some(if record.warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(record.reason.to_owned()),
            action: Some(record.action.to_owned()),
            note: Some(cut(&redact::redact_text(&record.text)).to_owned()),
            event_time: Some(MicroTime(first)),
            series,
            reporting_controller: Some(component),
            reporting_instance: Some(instance),
            regarding: Some(about),
            ..Event::default()
        }
    }
}

impl Shared {
    fn add(&self, component: &str, about: ObjectReference, record: EventRecord) {
        let now = self.clock.now();
        self.pending.lock().add(component, about, record, now);
        self.changed.notify_one();
    }
}

/// When dropped Events were last logged, and how many.
#[derive(Debug, Default)]
struct Logged {
    at: Option<Timestamp>,
    dropped: u64,
}

/// Truncates at a character boundary within the limit in bytes.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(NOTE_LIMIT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
