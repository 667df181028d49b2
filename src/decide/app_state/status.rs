//! A comparison as fields of `status` (SE-055 … SE-061). Works on raw JSON, to
//! keep other fields.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::condition::{self, Condition, OF_COMPARISON};
use super::pairs::{Compared, Comparison};
use crate::api::annotations::sync_wave;
use crate::api::conditions::application::UNKNOWN_ERROR;
use crate::api::sources::InEffect;
use crate::api::sync_options::SyncOptions;
use crate::api::time::to_rfc3339;
use crate::decide::health::{Health, Status};
use crate::decide::sync::Class;

/// Most listed resources, to stay below the size limit of the API server. A
/// condition contains the number of all.
const MAX_RESOURCES: usize = 5000;

/// Input of the status besides the comparison itself.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The resolved revisions, by source.
    pub revisions: &'a [String],
    /// The source types, by source; empty if a source has none.
    pub source_types: &'a [String],
    /// Whether the health of each resource is stored in the status (SE-571).
    pub resource_health: bool,
    /// Namespace of the controller.
    pub controller_namespace: &'a str,
    /// Whether to update `reconciledAt` (SE-061).
    pub reconciled: bool,
    /// The time.
    pub now: Timestamp,
}

/// Writes a comparison to a raw Application.
pub fn write(
    application: &mut Value,
    comparison: &Comparison,
    extra: &[Condition],
    about: &About<'_>,
) {
    let spec = application["spec"].clone();
    let many = InEffect::of(&spec).is_list();
    let options = SyncOptions::from_list(
        spec["syncPolicy"]["syncOptions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str),
    );
    let urls = comparison.summary.with_links_of(application);
    let status = object(application, "status");

    let sync = object_in(status, "sync");
    sync.insert("status".to_owned(), comparison.sync.as_str().into());
    revisions(sync, many, about.revisions);
    sync.insert("comparedTo".to_owned(), compared_to(&spec));

    health(status, &comparison.health, about.now);
    let rows: Vec<Value> = (comparison.resources.iter().take(MAX_RESOURCES))
        .map(|resource| row(resource, about.resource_health, &options))
        .collect();
    set_list(status, "resources", rows);
    if about.resource_health {
        status.remove("resourceHealthSource");
    } else {
        status.insert("resourceHealthSource".to_owned(), "appTree".into());
    }
    let mut all: Vec<Condition> = extra.to_vec();
    all.extend(comparison.conditions.iter().cloned());
    if comparison.resources.len() > MAX_RESOURCES {
        all.push(Condition::comparison(format!(
            "{} resources; only the first {MAX_RESOURCES} are listed in the status",
            comparison.resources.len()
        )));
    }
    conditions(status, OF_COMPARISON, &all, about.now);

    let types: Vec<Value> = about.source_types.iter().map(|t| t.as_str().into()).collect();
    match (many, about.source_types) {
        (true, _) => {
            status.remove("sourceType");
            set_list(status, "sourceTypes", types);
        }
        (false, [first, ..]) if !first.is_empty() => {
            status.remove("sourceTypes");
            status.insert("sourceType".to_owned(), first.as_str().into());
        }
        _ => {}
    }
    let summary = object_in(status, "summary");
    let texts = |list: &[String]| list.iter().map(|text| text.as_str().into()).collect();
    set_list(summary, "images", texts(&comparison.summary.images));
    set_list(summary, "externalURLs", texts(&urls));
    match comparison.summary.is_app_of_apps {
        true => summary.insert("isAppOfApps".to_owned(), true.into()),
        false => summary.remove("isAppOfApps"),
    };
    status.insert("controllerNamespace".to_owned(), about.controller_namespace.into());
    if about.reconciled {
        status.insert("reconciledAt".to_owned(), to_rfc3339(about.now).into());
    }
}

/// Writes that the comparison failed. Revision and resources are kept; `known_health`
/// is the health, if it could be computed.
pub fn write_failure(
    application: &mut Value,
    problems: &[Condition],
    known_health: Option<&Health>,
    reconciled: bool,
    now: Timestamp,
) {
    let spec = application["spec"].clone();
    let status = object(application, "status");
    let sync = object_in(status, "sync");
    sync.insert("status".to_owned(), "Unknown".into());
    sync.insert("comparedTo".to_owned(), compared_to(&spec));
    let unknown = Health::new(Status::Unknown, "");
    health(status, known_health.unwrap_or(&unknown), now);
    conditions(status, OF_COMPARISON, problems, now);
    if reconciled {
        status.insert("reconciledAt".to_owned(), to_rfc3339(now).into());
    }
}

/// The Application with the condition that its reconcile or its write has failed; the next
/// successful comparison removes it.
pub fn failed(application: &Value, message: String, now: Timestamp) -> Value {
    let mut application = application.clone();
    let condition = Condition::new(UNKNOWN_ERROR, message);
    conditions(object(&mut application, "status"), &[UNKNOWN_ERROR], &[condition], now);
    application
}

/// Replaces the conditions of the owned types in a raw status.
pub fn conditions(
    status: &mut Map<String, Value>,
    owned: &[&str],
    new: &[Condition],
    now: Timestamp,
) {
    let old = status.get("conditions").cloned().unwrap_or_default();
    match condition::replace(&old, owned, new, now) {
        Value::Array(list) => set_list(status, "conditions", list),
        _ => {
            status.remove("conditions");
        }
    }
}

/// The raw part of a spec that a comparison is made for (SE-056).
pub fn compared_to(spec: &Value) -> Value {
    let mut part = Map::new();
    let in_effect = InEffect::of(spec);
    part.insert(in_effect.field.to_owned(), in_effect.value());
    part.insert("destination".to_owned(), spec["destination"].clone());
    let ignored = spec.get("ignoreDifferences");
    if let Some(list) = ignored.filter(|list| list.as_array().is_some_and(|l| !l.is_empty())) {
        part.insert("ignoreDifferences".to_owned(), list.clone());
    }
    Value::Object(part)
}

/// Sets `revision`, or `revisions` for several sources.
pub fn revisions(target: &mut Map<String, Value>, many: bool, revisions: &[String]) {
    if many {
        target.remove("revision");
        target.insert("revisions".to_owned(), json!(revisions));
    } else {
        target.remove("revisions");
        let first = revisions.first().map(String::as_str).unwrap_or_default();
        target.insert("revision".to_owned(), first.into());
    }
}

fn health(status: &mut Map<String, Value>, health: &Health, now: Timestamp) {
    let own = object_in(status, "health");
    let word = health.status.as_str();
    if own.get("status").and_then(Value::as_str) != Some(word) {
        own.insert("lastTransitionTime".to_owned(), to_rfc3339(now).into());
    }
    own.insert("status".to_owned(), word.into());
    if health.message.is_empty() {
        own.remove("message");
    } else {
        own.insert("message".to_owned(), health.message.as_str().into());
    }
}

fn row(resource: &Compared, with_health: bool, options: &SyncOptions) -> Value {
    let mut row = Map::new();
    let mut set = |field: &str, value: Value| row.insert(field.to_owned(), value);
    let texts = [
        ("group", &resource.key.group),
        ("version", &resource.version),
        ("kind", &resource.key.kind),
        ("namespace", &resource.key.namespace),
        ("name", &resource.key.name),
    ];
    for (field, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        set(field, text.as_str().into());
    }
    if let Some(status) = resource.status() {
        set("status", status.as_str().into());
    }
    // What is not in the cluster has no other health (SE-058).
    let absent = resource.live.is_none() && !resource.is_hook() && resource.class != Class::Skipped;
    let missing = Health::new(Status::Missing, "");
    let health = resource.health.as_ref().or_else(|| absent.then_some(&missing));
    if with_health && let Some(health) = health {
        let mut own = json!({"status": health.status.as_str()});
        if !health.message.is_empty() {
            own["message"] = health.message.as_str().into();
        }
        set("health", own);
    }
    if resource.is_hook() {
        set("hook", true.into());
    }
    if resource.requires_pruning() {
        set("requiresPruning", true.into());
    }
    let object = resource.target.as_deref().or(resource.live.as_deref());
    let wave = object.map_or(0, sync_wave);
    if wave != 0 {
        set("syncWave", wave.into());
    }
    let own = object.map(SyncOptions::of_object).unwrap_or_default();
    // The resource decides before the Application (SE-301).
    let confirms = |option| own.value(option).or(options.value(option)) == Some("confirm");
    if confirms("Delete") || confirms("Prune") {
        set("requiresDeletionConfirmation", true.into());
    }
    Value::Object(row)
}

/// A field as an object, created if it is absent or not an object.
pub(super) fn object<'v>(value: &'v mut Value, field: &str) -> &'v mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => object_in(map, field),
        _ => unreachable!("it was made an object above"),
    }
}

/// As [`object`], of a map.
pub(super) fn object_in<'v>(
    map: &'v mut Map<String, Value>,
    field: &str,
) -> &'v mut Map<String, Value> {
    let entry = map.entry(field).or_insert(Value::Null);
    if !entry.is_object() {
        *entry = Value::Object(Map::new());
    }
    match entry {
        Value::Object(map) => map,
        _ => unreachable!("it was made an object above"),
    }
}

fn set_list(map: &mut Map<String, Value>, field: &str, list: Vec<Value>) {
    if list.is_empty() {
        map.remove(field);
    } else {
        map.insert(field.to_owned(), Value::Array(list));
    }
}
