//! The set and its status, typed, so that changes of a large status are found
//! without JSON trees.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::found::Found;
use super::generated::labels_of;
use super::owner::Identity;
use super::rollout_storage::Storage;
use crate::rollout::phase::Entry;
use crate::rollout::status::{self as entries, cut, json_bytes};
use crate::rollout::steps::Labels;
use wavegate_api::annotations::{
    APPLICATION_SET_REFRESH, APPROVED_DELETIONS, PAUSED, RESOURCES_FINALIZER, annotation,
    finalizers, unknown_of_set,
};
use wavegate_api::conditions::application_set as condition;

/// The most characters of the message of a condition.
pub(super) const MESSAGE_LIMIT: usize = 1024;
/// The most bytes of the message of a resource's health.
const HEALTH_MESSAGE: usize = 256;

/// What is known about a set besides its spec.
#[derive(Clone, Debug, Default)]
pub struct Set {
    /// Its identity.
    pub id: Identity,
    /// Its resource version.
    pub version: String,
    /// Its `metadata.generation`.
    pub generation: i64,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// Whether a refresh is requested (AS-420).
    pub is_refreshing: bool,
    /// What its generators found last, if that is stored.
    pub found: Option<Found>,
    /// The deletions that a person approves, as their hash.
    pub approved_deletions: Option<String>,
    /// Why a person has paused it, if one has (ST-020).
    pub paused: Option<String>,
    /// Its annotations that have no effect, in words.
    pub unknown_annotations: Vec<String>,
    /// Its labels, which policies select by.
    pub labels: Labels,
    /// Its status.
    pub status: Status,
}

impl Set {
    /// From a raw set.
    pub fn read(set: &Value) -> Self {
        let metadata = &set["metadata"];
        Self {
            id: Identity::of(set),
            version: metadata["resourceVersion"].as_str().unwrap_or_default().to_owned(),
            generation: metadata["generation"].as_i64().unwrap_or_default(),
            is_deleting: !metadata["deletionTimestamp"].is_null(),
            finalizers: finalizers(set).map(str::to_owned).collect(),
            is_refreshing: annotation(set, APPLICATION_SET_REFRESH).is_some(),
            found: Found::read(set),
            approved_deletions: annotation(set, APPROVED_DELETIONS).map(str::to_owned),
            paused: annotation(set, PAUSED).map(str::to_owned),
            unknown_annotations: unknown_of_set(set),
            labels: labels_of(set),
            status: Status::read(&set["status"]),
        }
    }

    /// Whether its deletion waits for this controller.
    pub(super) fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == RESOURCES_FINALIZER)
    }
}

/// The fields of a status that we own. Other fields are never written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Whether there is a status.
    pub exists: bool,
    /// `conditions`, without the one that stores the rollout.
    pub conditions: Vec<Value>,
    /// `health`.
    pub health: Value,
    /// `applicationStatus`, by name; `None` when the field is absent.
    pub entries: Option<Vec<Entry>>,
    /// Whether the stored list equals what would be written; otherwise it is
    /// replaced as a whole.
    pub entries_are_exact: bool,
    /// The summary of the rollout; null when there is none.
    pub rollout: Value,
    /// How it is stored.
    pub storage: Storage,
    /// `resources`, by name.
    pub resources: Vec<Resource>,
    /// The same for `resources`.
    pub resources_are_exact: bool,
    /// `resourcesCount`; null when the field is absent.
    pub resources_count: Value,
}

/// That a list of this length does not name all of `count` Applications; `None` when it
/// does (AS-191). Names no length, which changes with every message of an Application.
pub fn truncated(listed: usize, count: u64) -> Option<String> {
    let is_truncated = (listed as u64) < count;
    is_truncated.then(|| {
        format!("status.resources is truncated: it does not list all {count} Applications")
    })
}

/// An element of `status.resources`: an Application of the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its sync status.
    pub sync: Option<Box<str>>,
    /// Its health, with a message.
    pub health: Option<(Box<str>, Option<Box<str>>)>,
}

impl Status {
    /// From a raw status.
    pub fn read(status: &Value) -> Self {
        let listed = status.get("applicationStatus");
        let entries: Option<Vec<Entry>> =
            listed.map(|listed| entries::from_json(Some(listed)).into_values().collect());
        let entries_are_exact = match (&entries, listed) {
            (Some(entries), Some(listed)) => is_each(entries, listed, entries::is_json_of),
            (entries, listed) => entries.is_none() && listed.is_none(),
        };
        let resources = status["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
        let resources: Vec<Resource> = resources.iter().filter_map(Resource::read).collect();
        let resources_are_exact = status
            .get("resources")
            .is_some_and(|listed| is_each(&resources, listed, Resource::is_json_of));
        let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let (rollout, storage) = Storage::take(&mut conditions, &status["rollout"]);
        Self {
            exists: status.is_object(),
            conditions,
            health: status["health"].clone(),
            entries,
            entries_are_exact,
            rollout,
            storage,
            resources_are_exact,
            resources,
            resources_count: status["resourcesCount"].clone(),
        }
    }

    /// The status as JSON, as it is written.
    pub fn to_json(&self) -> Value {
        let resources: Value = self.resources.iter().map(Resource::to_json).collect();
        let mut status = json!({ "conditions": self.stored_conditions(), "resources": resources });
        for (field, value) in [
            ("health", &self.health),
            ("rollout", self.storage.field(&self.rollout)),
            ("resourcesCount", &self.resources_count),
        ] {
            if !value.is_null() {
                status[field] = value.clone();
            }
        }
        if let Some(entries) = &self.entries {
            status["applicationStatus"] = entries::to_json(entries);
        }
        status
    }

    /// All conditions as they are stored, sorted by type.
    pub fn stored_conditions(&self) -> Vec<Value> {
        let mut conditions = self.conditions.clone();
        if let Some(condition) = self.storage.condition_of(&self.rollout) {
            conditions.push(condition);
            conditions.sort_by(|a, b| a["type"].as_str().cmp(&b["type"].as_str()));
        }
        conditions
    }

    /// The status to write instead when `stored`, the answer to this one, lacks the
    /// summary; `None` when it is stored.
    pub fn where_it_is_kept(&self, stored: &Self) -> Option<Self> {
        let storage = self.storage.elsewhere(&self.rollout, &stored.rollout)?;
        Some(Self { storage, ..self.clone() })
    }

    /// A condition.
    pub fn condition(&self, kind: &str) -> Option<&Value> {
        self.conditions.iter().find(|condition| condition["type"] == kind)
    }

    /// Since when a condition is True; `None` while it is not.
    pub fn since(&self, kind: &str) -> Option<Timestamp> {
        true_since(self.condition(kind)?)
    }

    /// Whether a condition exists with this status.
    pub fn has(&self, kind: &str, status: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition["status"] == status)
    }

    /// The open step, counted from 0; `None` when the rollout is complete.
    pub fn open_step(&self) -> Option<usize> {
        let step = self.rollout["step"].as_u64().and_then(|step| usize::try_from(step).ok())?;
        self.has(condition::ROLLOUT_PROGRESSING, "True").then(|| step.saturating_sub(1))
    }

    /// When that step opened.
    pub fn step_opened_at(&self) -> Option<Timestamp> {
        self.rollout["stepOpenedAt"].as_str()?.parse().ok()
    }

    /// When the rollout began.
    pub fn started_at(&self) -> Option<Timestamp> {
        self.rollout["startedAt"].as_str()?.parse().ok()
    }

    /// Whether the state of omitted entries is implied by the records of the
    /// Applications: the status contains as many entries as it names.
    pub fn is_compact(&self) -> bool {
        let listed = self.entries.as_ref().map_or(0, Vec::len);
        self.entries_are_exact
            && self.rollout["listed"].as_u64().is_some_and(|count| count == listed as u64)
    }

    /// The stalled waits that were reported, and their start.
    pub fn stalled(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        let stalled = self.rollout["stalled"].as_array().into_iter().flatten();
        stalled.filter_map(|one| {
            Some((one["application"].as_str()?, one["since"].as_str()?.parse().ok()?))
        })
    }
}

impl Resource {
    fn read(resource: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(Box::<str>::from);
        Some(Self {
            namespace: text(&resource["namespace"])?,
            name: text(&resource["name"])?,
            sync: text(&resource["status"]),
            health: text(&resource["health"]["status"])
                .map(|health| (health, text(&resource["health"]["message"]))),
        })
    }

    /// The stored part of the message of a health.
    pub fn message(text: &str) -> &str {
        cut(text, HEALTH_MESSAGE)
    }

    /// The JSON of the resource.
    pub fn to_json(&self) -> Value {
        let mut resource = json!({
            "group": wavegate_api::GROUP,
            "version": wavegate_api::VERSION,
            "kind": "Application",
            "namespace": self.namespace,
            "name": self.name,
        });
        if let Some(sync) = &self.sync {
            resource["status"] = (**sync).into();
        }
        if let Some((health, message)) = &self.health {
            resource["health"] = json!({ "status": health });
            if let Some(message) = message {
                resource["health"]["message"] = (**message).into();
            }
        }
        resource
    }

    /// Whether [`Self::to_json`] is this value.
    fn is_json_of(&self, value: &Value) -> bool {
        let Value::Object(fields) = value else { return false };
        let health = fields.get("health").map(Value::as_object);
        let (is_same_health, health) = match (&self.health, health) {
            (None, None) => (true, 0),
            (Some((status, message)), Some(Some(health))) => {
                let is_same = health.len() == 1 + usize::from(message.is_some())
                    && health.get("status").is_some_and(|value| *value == **status)
                    && message.as_ref().is_none_or(|message| {
                        health.get("message").is_some_and(|value| *value == **message)
                    });
                (is_same, 1)
            }
            _ => (false, 0),
        };
        let has = |field: &str, text: &str| fields.get(field).is_some_and(|value| *value == *text);
        is_same_health
            && fields.len() == 5 + usize::from(self.sync.is_some()) + health
            && has("name", &self.name)
            && has("namespace", &self.namespace)
            && has("kind", "Application")
            && has("version", wavegate_api::VERSION)
            && has("group", wavegate_api::GROUP)
            && self.sync.as_ref().is_none_or(|sync| has("status", sync))
    }

    /// An upper bound of its size in a status, in bytes.
    pub fn bytes(&self) -> usize {
        const FIELDS: &str = r#"{"group":"","health":{"message":"","status":""},"kind":"Application","name":"","namespace":"","status":"","version":""},"#;
        let text = |text: &Option<Box<str>>| text.as_deref().map_or(0, json_bytes);
        let (health, message) = match &self.health {
            Some((health, message)) => (json_bytes(health), text(message)),
            None => (0, 0),
        };
        FIELDS.len()
            + wavegate_api::GROUP.len()
            + wavegate_api::VERSION.len()
            + json_bytes(&self.namespace)
            + json_bytes(&self.name)
            + text(&self.sync)
            + health
            + message
    }
}

/// Whether a list is that of these elements, without writing them.
fn is_each<T>(elements: &[T], listed: &Value, is_json_of: impl Fn(&T, &Value) -> bool) -> bool {
    listed.as_array().is_some_and(|listed| {
        listed.len() == elements.len()
            && elements.iter().zip(listed).all(|(element, value)| is_json_of(element, value))
    })
}

/// Since when a condition is True; `None` while it is not.
fn true_since(condition: &Value) -> Option<Timestamp> {
    let is_true = condition["status"] == "True";
    condition["lastTransitionTime"].as_str().filter(|_| is_true)?.parse().ok()
}

/// Since when a set has an error, as far as its status says; the rest of the status is not
/// read.
pub fn failing_since(set: &Value) -> Option<Timestamp> {
    let conditions = set["status"]["conditions"].as_array()?;
    true_since(conditions.iter().find(|one| one["type"] == condition::ERROR_OCCURRED)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_exact_when_nothing_but_what_is_written_is_stored() {
        let whole = json!({
            "group": "argoproj.io", "version": "v1alpha1", "kind": "Application",
            "namespace": "ns", "name": "a", "status": "Synced",
            "health": {"status": "Degraded", "message": "m"},
        });
        let without = |fields: &[&str]| {
            let mut resource = whole.clone();
            fields.iter().for_each(|field| {
                resource.as_object_mut().unwrap().remove(*field);
            });
            resource
        };
        let mut silent = whole.clone();
        silent["health"] = json!({"status": "Healthy"});
        for stored in [whole.clone(), silent, without(&["status"]), without(&["status", "health"])]
        {
            let resource = Resource::read(&stored).unwrap();
            assert_eq!(resource.to_json(), stored);
            assert!(resource.is_json_of(&stored), "{stored}");
            let mut others = vec![Value::Null, json!([])];
            for field in whole.as_object().unwrap().keys() {
                let mut other = stored.clone();
                other[field] = json!("other");
                others.push(other.clone());
                other[field] = json!({"status": "Degraded", "message": "m", "more": 1});
                others.push(other.clone());
                other.as_object_mut().unwrap().remove(field);
                others.push(other);
            }
            let mut more = stored.clone();
            more["more"] = json!(1);
            others.push(more);
            for other in others.iter().filter(|other| **other != stored) {
                assert!(!resource.is_json_of(other), "{stored} is not {other}");
            }
        }
    }
}
