//! Kubernetes Events about Applications: each change of a stored version is announced once.

use std::collections::{BTreeSet, VecDeque};

use serde_json::Value;

use super::events::{EventRecord, Events, Once};
use crate::watch::object::StoredObject;
use wavegate_api::Raw;
use wavegate_api::conditions::application::DELETION_ERROR;
use wavegate_application::events::{ApplicationEvent, StatusChange};
use wavegate_application::operation::given;

/// The last changes of an Application that got Events.
const REMEMBERED: usize = 32;

/// Which changes of an Application have their Events: digests of [`Once::Change`].
#[derive(Debug, Default)]
pub struct Announced {
    /// Those of the write that is tried, and not stored yet. They have no others when it is
    /// repeated.
    open: BTreeSet<u64>,
    /// The last ones that are stored, latest last. Times in a status are whole seconds: two
    /// changes may have the same name, and are two all the same.
    stored: VecDeque<u64>,
}

impl Announced {
    /// The records of a write without those that have their Events since it was tried before.
    /// What it does not contain any more is open no longer.
    fn take_new(&mut self, records: Vec<EventRecord>) -> Vec<EventRecord> {
        let tried = std::mem::take(&mut self.open);
        let new = records.into_iter().filter_map(|mut record| {
            let Some(Once::Change(key)) = record.once else { return Some(record) };
            if self.stored.contains(&key) {
                record.once = None;
            }
            let is_new = self.open.insert(key) && !tried.contains(&key);
            is_new.then_some(record)
        });
        new.collect()
    }

    /// Publishes the differences between two stored versions.
    pub fn publish(&mut self, to: &Events, before: &Value, after: &Value) {
        let records = self.take_new(records(StatusChange::of(before, after).events()));
        log(&records, after);
        if records.is_empty() {
            return;
        }
        let about = StoredObject::from(after.clone());
        for record in records {
            to.publish(&about, record);
        }
    }

    /// Publishes the differences between a stored version and the one to be stored, when the
    /// latter announces something that clients wait for: who sees it finds the Events. Returns
    /// whether it does.
    pub async fn publish_first(&mut self, to: &Events, before: &Value, after: &Value) -> bool {
        let change = StatusChange::of(before, after);
        let events = change.events();
        if !change.announces(&events) {
            return false;
        }
        let records = self.take_new(records(events));
        if !records.is_empty() {
            log(&records, after);
            to.publish_now(&StoredObject::from(before.clone()), records).await;
        }
        true
    }

    /// Records that the write has succeeded.
    pub fn stored(&mut self) {
        self.stored.extend(std::mem::take(&mut self.open));
        let surplus = self.stored.len().saturating_sub(REMEMBERED);
        self.stored.drain(..surplus);
    }

    /// Records that there is nothing to write: what was announced has not happened.
    pub fn unchanged(&mut self) {
        self.open.clear();
    }
}

/// Reports what a deletion does not delete. Its finalizers are about to go, and with
/// them the Application and its conditions.
pub fn left_by_deletion(to: &Events, application: &Value, text: String) {
    let key = format!("{}/{}", application.namespace(), application.name());
    tracing::warn!(application = key, "deletion: {text}");
    let once = Some(Once::ever(&format!("deletion.{text}")));
    let (reason, action) = (DELETION_ERROR, "Delete");
    let record = EventRecord { once, ..EventRecord::new(true, reason, action, text) };
    to.publish(&StoredObject::from(application.clone()), record);
}

fn records(events: Vec<ApplicationEvent>) -> Vec<EventRecord> {
    let record = |event: ApplicationEvent| {
        let ApplicationEvent { warning, reason, action, subject, text, change, states } = event;
        let once = Some(Once::change(&change));
        EventRecord { warning, reason, action, subject, text, once, states }
    };
    events.into_iter().map(record).collect()
}

fn log(records: &[EventRecord], after: &Value) {
    for record in records {
        let application = format!("{}/{}", after.namespace(), after.name());
        let revision = given(after.status().get("sync").unwrap_or(&Value::Null)).join(", ");
        if record.warning {
            tracing::warn!(application, revision, reason = record.reason, "{}", record.text);
        } else {
            tracing::info!(application, revision, reason = record.reason, "{}", record.text);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Announced, StatusChange, records};

    /// A repeated write has the Events of the first one, whatever the time is then; the same
    /// change again, within a second, has its own.
    #[test]
    fn a_change_is_announced_once() {
        let app = |started: &str, sync: &str, health: &str| {
            json!({"metadata": {"uid": "u"}, "status": {
                "operationState": {"phase": "Failed", "startedAt": started, "finishedAt": started},
                "sync": {"status": sync}, "health": {"status": health}}})
        };
        let before = app("1", "OutOfSync", "Missing");
        let mut announced = Announced::default();
        let mut publish = |after: &Value| -> Vec<bool> {
            let new = announced.take_new(records(StatusChange::of(&before, after).events()));
            new.iter().map(|record| record.once.is_some()).collect()
        };
        assert_eq!(publish(&app("2", "Synced", "Healthy")), [true; 4]);
        assert!(publish(&app("3", "Synced", "Healthy")).is_empty());
        assert_eq!(publish(&app("3", "Synced", "Degraded")), [true], "only the health differs");
        announced.stored();
        let again = |announced: &mut Announced, health: &str| -> Vec<bool> {
            let new = announced
                .take_new(records(StatusChange::of(&before, &app("2", "Synced", health)).events()));
            new.iter().map(|record| record.once.is_some()).collect()
        };
        assert_eq!(again(&mut announced, "Degraded"), [false; 4]);
        let healthy = "the state that was announced, and was not stored";
        assert_eq!(again(&mut announced, "Healthy"), [true], "{healthy}");
        announced.unchanged();
        assert_eq!(again(&mut announced, "Healthy"), [false, false, false, true], "{healthy}");
    }
}
