//! The set and its status, typed, so that changes of a large status are found
//! without JSON trees.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::application_set::generate::generated::labels_of;
use crate::application_set::generate::generator_history::GeneratorHistory;
use crate::application_set::plan::owner::Identity;
use crate::application_set::rollout_io::rollout_storage::Storage;
use crate::rollout::phase::Entry;
use crate::rollout::status::{self as entries, cut, json_bytes};
use crate::rollout::steps::Labels;
use crate::rollout::unknown_fields::Room;
use wavegate_api::annotations::{
    APPLICATION_SET_REFRESH, APPROVED_DELETIONS, EXISTED, PAUSED, PAUSED_BY, RESOURCES_FINALIZER,
    RESUMED_BY, annotation_of, finalizers_of, unknown_of_set,
};
use wavegate_api::application_set::{
    ApplicationSetCondition, ApplicationSetHealth, ApplicationSetSummary, RolloutStatus,
};
use wavegate_api::conditions::application_set as condition;
use wavegate_api::field_managers::RequestedField;
use wavegate_api::{Raw, read_leniently};

/// The most characters of the message of a condition.
pub(in crate::application_set) const MESSAGE_LIMIT: usize = 1024;
/// The most bytes of the message of a resource's health.
const HEALTH_MESSAGE: usize = 256;

/// What is known about a set besides its spec.
#[derive(Clone, Debug, Default)]
pub struct StoredApplicationSet {
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
    /// How many Applications it had before it was to delete some, if that is stored.
    pub existed: Option<usize>,
    /// What its generators found last, if that is stored.
    pub found: Option<GeneratorHistory>,
    /// The deletions that a person approves, as their hash.
    pub approved_deletions: Option<String>,
    /// Why a person has paused it, if one has (ST-020).
    pub paused: Option<String>,
    /// Who has paused it: a person, or the program that set the annotation alone.
    pub paused_by: Option<String>,
    /// Who has resumed it last, as far as that is known.
    pub resumed_by: Option<String>,
    /// Its annotations that have no effect, in words.
    pub unknown_annotations: Vec<String>,
    /// Its labels, which policies select by.
    pub labels: Labels,
    /// Its status.
    pub status: Status,
}

impl StoredApplicationSet {
    /// From a raw set.
    pub fn read(set: &Value) -> Self {
        let status = set.get("status").unwrap_or(&Value::Null);
        Self {
            id: Identity::of(set),
            version: set.resource_version().to_owned(),
            generation: set.generation(),
            is_deleting: set.is_deleting(),
            finalizers: finalizers_of(set).map(str::to_owned).collect(),
            is_refreshing: annotation_of(set, APPLICATION_SET_REFRESH).is_some(),
            existed: annotation_of(set, EXISTED).and_then(|text| text.parse().ok()),
            found: GeneratorHistory::read(set),
            approved_deletions: annotation_of(set, APPROVED_DELETIONS).map(str::to_owned),
            paused: annotation_of(set, PAUSED).map(str::to_owned),
            paused_by: RequestedField::Pause
                .manager(&set["metadata"])
                .or_else(|| annotation_of(set, PAUSED_BY).map(str::to_owned)),
            resumed_by: annotation_of(set, RESUMED_BY).map(str::to_owned),
            unknown_annotations: unknown_of_set(set),
            labels: labels_of(set),
            status: Status::read(status),
        }
    }

    /// Whether its deletion waits for this controller.
    pub(in crate::application_set) fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == RESOURCES_FINALIZER)
    }
}

/// The fields of a status that we own. Other fields are never written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Whether there is a status.
    pub exists: bool,
    /// `conditions`, without the one that stores the rollout.
    pub conditions: Vec<ApplicationSetCondition>,
    /// `health`.
    pub health: Option<ApplicationSetHealth>,
    /// `applicationStatus`, by name; `None` when the field is absent.
    pub entries: Option<Vec<Entry>>,
    /// Whether the stored list equals what would be written; otherwise it is
    /// replaced as a whole.
    pub entries_are_exact: bool,
    /// What is not known of its elements.
    pub entries_unknown: UnknownByName,
    /// The summary of the rollout; `None` when there is none.
    pub rollout: Option<RolloutStatus>,
    /// How it is stored.
    pub storage: Storage,
    /// `resources`, by name.
    pub resources: Vec<StoredResource>,
    /// The same for `resources`.
    pub resources_are_exact: bool,
    /// The same for `resources`.
    pub resources_unknown: UnknownByName,
    /// `resourcesCount`.
    pub resources_count: Option<u64>,
}

/// Fields of a later version, by the name of the element that has them.
type UnknownByName = BTreeMap<String, Map<String, Value>>;

/// That a list of this length does not name all of `count` Applications; `None` when it
/// does (AS-191). Names no length, which changes with every message of an Application.
pub fn truncated_note(listed: usize, count: u64) -> Option<String> {
    let is_truncated = (listed as u64) < count;
    is_truncated.then(|| {
        format!("status.resources is truncated: it does not list all {count} Applications")
    })
}

/// An element of `status.resources`: an Application of the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResource {
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
        let (entries_are_exact, entries_unknown) =
            ENTRIES.compare(entries.as_deref().unwrap_or_default(), listed);
        let listed = status.get("resources");
        let resources = listed.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let resources: Vec<StoredResource> =
            resources.iter().filter_map(StoredResource::read).collect();
        let (resources_are_exact, resources_unknown) = RESOURCES.compare(&resources, listed);
        let summary: ApplicationSetSummary = read_leniently(status);
        let mut conditions = summary.conditions;
        let (rollout, storage) = Storage::take(&mut conditions, summary.rollout);
        Self {
            exists: status.is_object(),
            conditions,
            health: summary.health,
            entries_are_exact: entries_are_exact || entries.is_none(),
            entries,
            entries_unknown,
            rollout,
            storage,
            resources_are_exact,
            resources,
            resources_unknown,
            resources_count: summary.resources_count,
        }
    }

    /// The status as JSON, as it is written.
    pub fn to_json(&self) -> Value {
        let resources: Value = self.resources.iter().map(|one| self.resource_json(one)).collect();
        let entries = self.entries.as_ref();
        let entries: Option<Value> =
            entries.map(|all| all.iter().map(|one| self.entry_json(one)).collect());
        let mut status = json!({
            "conditions": self.stored_conditions(),
            "resources": resources,
            "health": self.health,
            "rollout": self.storage.field(&self.rollout),
            "resourcesCount": self.resources_count,
            "applicationStatus": entries,
        });
        status
            .as_object_mut()
            .into_iter()
            .for_each(|fields| fields.retain(|_, one| !one.is_null()));
        status
    }

    /// An element of `applicationStatus` as it is written.
    pub fn entry_json(&self, entry: &Entry) -> Value {
        let unknown = self.entries_unknown.get(&entry.application);
        with_unknown(entries::entry_json(entry), unknown)
    }

    /// An element of `resources` as it is written.
    pub fn resource_json(&self, resource: &StoredResource) -> Value {
        with_unknown(resource.to_json(), self.resources_unknown.get(&*resource.name))
    }

    /// Keeps what was not known of the elements before that are still listed.
    pub(in crate::application_set) fn keep_unknown_of_lists(&mut self, old: &Self) {
        let keep = |unknown: &UnknownByName, names: &BTreeSet<&str>| -> UnknownByName {
            let kept = unknown.iter().filter(|(name, _)| names.contains(name.as_str()));
            kept.map(|(name, fields)| (name.clone(), fields.clone())).collect()
        };
        if !old.entries_unknown.is_empty() {
            let names = self.entries.iter().flatten().map(|one| one.application.as_str()).collect();
            self.entries_unknown = keep(&old.entries_unknown, &names);
        }
        if !old.resources_unknown.is_empty() {
            let names = self.resources.iter().map(|one| &*one.name).collect();
            self.resources_unknown = keep(&old.resources_unknown, &names);
        }
    }

    /// All conditions as they are stored, sorted by type.
    pub fn stored_conditions(&self) -> Vec<ApplicationSetCondition> {
        let mut conditions = self.conditions.clone();
        if let Some(condition) = self.storage.condition_of(self.rollout.as_ref()) {
            conditions.push(condition);
            conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
        }
        conditions
    }

    /// The status to write instead when `stored`, the answer to this one, lacks the
    /// summary; `None` when it is stored.
    pub fn where_it_is_kept(&self, stored: &Self) -> Option<Self> {
        let storage = self.storage.elsewhere(self.rollout.as_ref(), stored.rollout.as_ref())?;
        Some(Self { storage, ..self.clone() })
    }

    /// A condition.
    pub fn condition(&self, kind: &str) -> Option<&ApplicationSetCondition> {
        self.conditions.iter().find(|condition| condition.type_ == kind)
    }

    /// Since when a condition is True; `None` while it is not.
    pub fn since(&self, kind: &str) -> Option<Timestamp> {
        self.condition(kind)?.true_since()
    }

    /// Whether a condition exists with this status.
    pub fn has(&self, kind: &str, status: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition.status == status)
    }

    /// The open step, counted from 0; `None` when the rollout is complete.
    pub fn open_step(&self) -> Option<usize> {
        let step = usize::try_from(self.rollout.as_ref()?.step).ok()?;
        self.has(condition::ROLLOUT_PROGRESSING, "True").then(|| step.saturating_sub(1))
    }

    /// When that step opened.
    pub fn step_opened_at(&self) -> Option<Timestamp> {
        Some(self.rollout.as_ref()?.step_opened_at.as_ref()?.0)
    }

    /// When the rollout began.
    pub fn started_at(&self) -> Option<Timestamp> {
        Some(self.rollout.as_ref()?.started_at.as_ref()?.0)
    }

    /// Whether the state of omitted entries is implied by the records of the
    /// Applications: the status contains as many entries as it names.
    pub fn is_compact(&self) -> bool {
        let listed = self.entries.as_ref().map_or(0, Vec::len);
        let count = self.rollout.as_ref().and_then(|rollout| usize::try_from(rollout.listed?).ok());
        self.entries_are_exact && count == Some(listed)
    }

    /// The stalled waits that were reported, and their start.
    pub fn stalled(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        let stalled = self.rollout.iter().flat_map(|rollout| &rollout.stalled);
        stalled.filter_map(|one| Some((one.application.as_str(), one.since.as_ref()?.0)))
    }
}

/// An element of `status.resources` as it is read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ListedResource {
    namespace: Option<Box<str>>,
    name: Option<Box<str>>,
    status: Option<Box<str>>,
    health: Option<ListedHealth>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListedHealth {
    status: Option<Box<str>>,
    message: Option<Box<str>>,
}

impl StoredResource {
    fn read(resource: &Value) -> Option<Self> {
        let ListedResource { namespace, name, status, health } = read_leniently(resource);
        let health = health.and_then(|health| Some((health.status?, health.message)));
        Some(Self { namespace: namespace?, name: name?, sync: status, health })
    }

    /// The stored part of the message of a health.
    pub fn message(text: &str) -> &str {
        cut(text, HEALTH_MESSAGE)
    }

    /// The JSON of the resource.
    pub fn to_json(&self) -> Value {
        let health = self.health.as_ref().map(|(status, message)| match message {
            Some(message) => json!({ "status": status, "message": message }),
            None => json!({ "status": status }),
        });
        let fields = [
            ("group", Some(wavegate_api::GROUP.into())),
            ("version", Some(wavegate_api::VERSION.into())),
            ("kind", Some("Application".into())),
            ("namespace", Some((*self.namespace).into())),
            ("name", Some((*self.name).into())),
            ("status", self.sync.as_deref().map(Value::from)),
            ("health", health),
        ];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(fields.collect())
    }

    /// Whether [`Self::to_json`] is this value, but for so many fields.
    fn is_json_of(&self, value: &Value, unknown: usize) -> bool {
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
            && fields.len() == 5 + usize::from(self.sync.is_some()) + health + unknown
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

/// How a list of a status is compared with what would be written, without writing it.
struct ListOf<T> {
    /// All fields of an element that some version of the definitions has.
    known: &'static [&'static str],
    /// The one with its name.
    name: &'static str,
    /// Whether an element is written like this, but for so many fields.
    is_json_of: fn(&T, &Value, usize) -> bool,
}

const ENTRIES: ListOf<Entry> =
    ListOf { known: &entries::FIELDS, name: "application", is_json_of: entries::is_json_of };

const RESOURCES: ListOf<StoredResource> = ListOf {
    known: &[
        "group",
        "version",
        "kind",
        "namespace",
        "name",
        "status",
        "health",
        "hook",
        "requiresPruning",
        "requiresDeletionConfirmation",
        "syncWave",
    ],
    name: "name",
    is_json_of: StoredResource::is_json_of,
};

impl<T> ListOf<T> {
    /// Whether the list is that of these elements, and what is not known of them.
    fn compare(&self, elements: &[T], listed: Option<&Value>) -> (bool, UnknownByName) {
        let mut unknown = UnknownByName::new();
        let Some(listed) = listed.and_then(Value::as_array) else { return (false, unknown) };
        let mut is_exact = listed.len() == elements.len();
        let mut room = Room::default();
        for (at, value) in listed.iter().enumerate() {
            let is_json = |more: usize| {
                elements.get(at).is_some_and(|element| (self.is_json_of)(element, value, more))
            };
            if is_json(0) {
                continue;
            }
            let fields = value.as_object().into_iter().flatten();
            let fields = fields.filter(|(name, _)| !self.known.contains(&name.as_str()));
            let fields: Map<String, Value> =
                fields.map(|(name, field)| (name.clone(), field.clone())).collect();
            is_exact &= is_json(fields.len());
            if !fields.is_empty() {
                match room.takes(&fields) {
                    true => drop(unknown.insert(value.field(self.name).to_owned(), fields)),
                    false => is_exact = false,
                }
            }
        }
        (is_exact, unknown)
    }
}

fn with_unknown(mut json: Value, unknown: Option<&Map<String, Value>>) -> Value {
    if let (Value::Object(fields), Some(unknown)) = (&mut json, unknown) {
        fields.extend(unknown.clone());
    }
    json
}

/// Since when a set has an error, as far as its status says; the rest of the status is not
/// read.
pub fn failing_since(set: &Value) -> Option<Timestamp> {
    let is_error = |one: &&Value| one.field("type") == condition::ERROR_OCCURRED;
    let error = set.items("/status/conditions").iter().find(is_error)?;
    read_leniently::<ApplicationSetCondition>(error).true_since()
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
            let resource = StoredResource::read(&stored).unwrap();
            assert_eq!(resource.to_json(), stored);
            assert!(resource.is_json_of(&stored, 0), "{stored}");
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
            assert!(resource.is_json_of(&more, 1) && !resource.is_json_of(&stored, 1), "{stored}");
            others.push(more);
            for other in others.iter().filter(|other| **other != stored) {
                assert!(!resource.is_json_of(other, 0), "{stored} is not {other}");
            }
        }
    }
}
