//! Kubernetes Events: one per transition, none for a state that goes on.
//!
//! Nobody waits for an Event to be written. The controllers put them into a
//! bounded queue, and one task writes them one after the other. What an object
//! tells repeatedly within a short time becomes one Event with the last text and
//! a count. When the API server takes them more slowly than they come, routine
//! ones are dropped first.

mod pending;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ApiResource, ObjectMeta, PostParams};
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::redact;
use crate::watch::failure::has_code;
use crate::watch::object::Object;
use pending::{Pending, Waiting};

/// The API server takes notes of up to 1,024 bytes.
const NOTE_LIMIT: usize = 1024;
/// And actions and reasons of up to 128; ours are words.
const INSTANCE_LIMIT: usize = 128;
/// How long one Event may take to be written.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// How long Events that are waiting at a shutdown are written.
const GRACE: Duration = Duration::from_secs(3);
/// How often the log tells how many were dropped.
const TOLD_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// What an event tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Whether somebody should look at it.
    pub warning: bool,
    /// Why, in one word.
    pub reason: &'static str,
    /// What was done or tried, in one word.
    pub action: &'static str,
    /// The text.
    pub text: String,
}

impl EventRecord {
    /// Whether it is dropped before others, and counted together with those of
    /// the same reason. The steps of a rollout are each of interest.
    fn is_routine(&self) -> bool {
        !self.warning && !matches!(self.reason, "StepOpened" | "RolloutComplete")
    }
}

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
    /// Absent when none are written.
    recorder: Option<Recorder>,
    component: String,
    resource: ApiResource,
}

impl Events {
    /// Takes an Event to be written soon. What becomes of it is nobody's
    /// concern: the status tells the same.
    pub fn publish(&self, about: &Object, record: EventRecord) {
        let Some(recorder) = &self.recorder else { return };
        let about = about.object_ref(&self.resource);
        recorder.shared.add(&self.component, about, record);
    }

    /// Writes an Event that is there once, however often it is published: `once`
    /// tells it from others about the object. Returns whether it is there.
    pub async fn publish_once(&self, about: &Object, record: EventRecord, once: &str) -> bool {
        let Some(recorder) = &self.recorder else { return false };
        let hash = Sha256::digest(format!("{}/{once}", about.uid()));
        let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let now = recorder.shared.clock.now();
        let (component, about) = (self.component.clone(), about.object_ref(&self.resource));
        let waiting = Waiting { component, about, record, count: 1, first: now, last: now };
        recorder.write(waiting, Some(&hash)).await
    }
}

impl Recorder {
    /// A recorder; nothing is written before [`Self::run`].
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

    /// Events of a component about a kind; none are written unless `enabled`.
    pub fn events(&self, component: &str, resource: ApiResource, enabled: bool) -> Events {
        let recorder = enabled.then(|| self.clone());
        Events { recorder, component: component.to_owned(), resource }
    }

    /// Writes Events until `stop`, and then those that are waiting, the important
    /// ones first, as far as a short time allows.
    pub async fn run(&self, stop: &CancellationToken) {
        let mut told = Told::default();
        stop.run_until_cancelled(async {
            loop {
                let waiting = self.next().await;
                self.write(waiting, None).await;
                self.tell_dropped(&mut told);
            }
        })
        .await;
        let rest = async {
            loop {
                let Some(waiting) = self.shared.pending.lock().take_any() else { return };
                self.write(waiting, None).await;
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
                () = changed => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Writes an Event; whether it is there. One that is to be there once has a
    /// name of its own.
    async fn write(&self, waiting: Waiting, once: Option<&str>) -> bool {
        let reason = waiting.record.reason;
        let event = self.event(waiting, once);
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.shared.client.clone(), namespace);
        let params = PostParams::default();
        let error = match tokio::time::timeout(WRITE_LIMIT, api.create(&params, &event)).await {
            Ok(Ok(_)) => return true,
            Ok(Err(error)) if once.is_some() && has_code(&error, 409) => return true,
            Ok(Err(error)) => crate::watch::failure::reason(&error),
            Err(_) => format!("no answer within {} s", WRITE_LIMIT.as_secs()),
        };
        tracing::debug!(error, reason, "Event was not written");
        false
    }

    fn tell_dropped(&self, told: &mut Told) {
        let now = self.shared.clock.now();
        let dropped = self.shared.pending.lock().dropped();
        let due = told.at.is_none_or(|at| now.duration_since(at) >= TOLD_EVERY);
        if dropped > told.dropped && due {
            let count = dropped - told.dropped;
            tracing::warn!(
                count,
                "Events were dropped: more come than the API server takes; logs and status are complete"
            );
            *told = Told { at: Some(now), dropped };
        }
    }

    fn event(&self, waiting: Waiting, once: Option<&str>) -> Event {
        let Waiting { component, about, record, count, first, last } = waiting;
        let number = self.shared.count.fetch_add(1, Ordering::Relaxed);
        // Names of objects have up to 253 characters, and so has the event's.
        let about_name: String =
            about.name.iter().flat_map(|name| name.chars()).take(200).collect();
        let name = match once {
            Some(hash) => format!("{about_name}.{hash}"),
            None => format!("{about_name}.{:x}.{number:x}", first.as_nanosecond()),
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
            note: Some(cut(&redact::text(&record.text)).to_owned()),
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

/// What the log was told of dropped Events.
#[derive(Debug, Default)]
struct Told {
    at: Option<Timestamp>,
    dropped: u64,
}

/// Cuts to whole characters within the limit in bytes.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(NOTE_LIMIT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
