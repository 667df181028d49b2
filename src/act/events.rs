//! Kubernetes Events: one per transition, none for a state that goes on.
//!
//! The client library's own recorder counts events of one reason together and
//! keeps the first text only, which would lose what changed. Here the caller
//! tells each transition once, so each is an Event of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ApiResource, ObjectMeta, PostParams};
use kube::{Api, Client, Resource};
use sha2::{Digest, Sha256};

use crate::redact;
use crate::watch::failure::has_code;
use crate::watch::object::Object;

/// The API server takes notes of up to 1,024 bytes.
const NOTE_LIMIT: usize = 1024;
/// And actions and reasons of up to 128; ours are words.
const INSTANCE_LIMIT: usize = 128;

/// Writes events about objects of one kind.
#[derive(Clone)]
pub struct Events {
    client: Client,
    component: String,
    instance: String,
    resource: ApiResource,
    dry_run: bool,
    /// Makes names unique within this process.
    count: Arc<AtomicU64>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").field("resource", &self.resource.kind).finish_non_exhaustive()
    }
}

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

impl Events {
    /// Events of a component about a kind. With `dry_run` none are written.
    pub fn new(client: Client, component: &str, resource: ApiResource, dry_run: bool) -> Self {
        let host = std::env::var("HOSTNAME").unwrap_or_default();
        let instance = format!("{component}-{host}").chars().take(INSTANCE_LIMIT).collect();
        Self {
            client,
            component: component.to_owned(),
            instance,
            resource,
            dry_run,
            count: Arc::default(),
        }
    }

    /// Writes one event. A failure is logged and no more: the status tells the
    /// same.
    pub async fn publish(&self, about: &Object, record: EventRecord) {
        if self.dry_run {
            return;
        }
        let reason = record.reason;
        let event = self.event(about, record);
        let api: Api<Event> = Api::namespaced(self.client.clone(), about.namespace());
        if let Err(error) = api.create(&PostParams::default(), &event).await {
            let error = crate::watch::failure::reason(&error);
            tracing::debug!(error, reason, "event was not written");
        }
    }

    /// Writes an event that is there once, however often it is published: `once`
    /// tells it from others about the object. Returns whether it is there.
    pub async fn publish_once(&self, about: &Object, record: EventRecord, once: &str) -> bool {
        if self.dry_run {
            return false;
        }
        let hash = Sha256::digest(format!("{}/{once}", about.uid()));
        let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let mut event = self.event(about, record);
        event.metadata.name = Some(format!("{}.{hash}", name_of(about)));
        let api: Api<Event> = Api::namespaced(self.client.clone(), about.namespace());
        match api.create(&PostParams::default(), &event).await {
            Ok(_) => true,
            Err(error) if has_code(&error, 409) => true,
            Err(error) => {
                let error = crate::watch::failure::reason(&error);
                tracing::debug!(error, reason = event.reason, "event was not written");
                false
            }
        }
    }

    fn event(&self, about: &Object, record: EventRecord) -> Event {
        let now = Timestamp::now();
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}.{:x}.{count:x}", name_of(about), now.as_nanosecond());
        Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(about.namespace().to_owned()),
                ..ObjectMeta::default()
            },
            type_: Some(if record.warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(record.reason.to_owned()),
            action: Some(record.action.to_owned()),
            note: Some(cut(&redact::text(&record.text)).to_owned()),
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(self.component.clone()),
            reporting_instance: Some(self.instance.clone()),
            regarding: Some(about.object_ref(&self.resource)),
            ..Event::default()
        }
    }
}

/// Names of objects have up to 253 characters, and so has the event's.
fn name_of(about: &Object) -> String {
    about.name().chars().take(200).collect()
}

/// Cuts to whole characters within the limit in bytes.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(NOTE_LIMIT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn notes_are_cut_between_characters() {
        let text = "ä".repeat(600);
        assert_eq!(cut(&text).len(), 1024);
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&format!("x{text}")).len(), 1023);
    }
}
