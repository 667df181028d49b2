//! Kubernetes Events: one per transition, none for a state that goes on.

use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};

use crate::watch::object::Object;

/// The most characters of a note that the API server takes is 1,024 bytes.
const NOTE_LIMIT: usize = 900;

/// Writes events about objects of one kind.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
    resource: kube::api::ApiResource,
    dry_run: bool,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").field("resource", &self.resource.kind).finish_non_exhaustive()
    }
}

/// What an event tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whether somebody should look at it.
    pub warning: bool,
    /// Why, in one PascalCase word, or the peer's own spelling.
    pub reason: &'static str,
    /// What was done or tried, in one word.
    pub action: &'static str,
    /// The text.
    pub text: String,
}

impl Events {
    /// Events of a component about a kind. With `dry_run` none are written.
    pub fn new(
        client: Client,
        component: &str,
        resource: kube::api::ApiResource,
        dry_run: bool,
    ) -> Self {
        let reporter = Reporter { controller: component.to_owned(), instance: None };
        Self { recorder: Recorder::new(client, reporter), resource, dry_run }
    }

    /// Writes one event. A failure is logged and no more: an event is told
    /// besides, the status tells the same.
    pub async fn tell(&self, about: &Object, note: Note) {
        if self.dry_run {
            return;
        }
        let event = Event {
            type_: if note.warning { EventType::Warning } else { EventType::Normal },
            reason: note.reason.to_owned(),
            note: Some(note.text.chars().take(NOTE_LIMIT).collect()),
            action: note.action.to_owned(),
            secondary: None,
        };
        let reference = about.object_ref(&self.resource);
        if let Err(error) = self.recorder.publish(&event, &reference).await {
            tracing::debug!(%error, reason = note.reason, "event was not written");
        }
    }
}
