//! Between served versions of one kind.
//!
//! Custom kinds change their `apiVersion` only (conversion strategy `None`). When their
//! definition has changed, what was stored before is read as the new schema knows it: without
//! unknown fields, with defaults. It is stored that way with its next write.
//! Of the built-in ones, events exist in two groups and autoscalers in two versions.

use std::sync::Arc;

use serde_json::{Value, json};

use super::kinds::Kind;
use super::schema::Schema;
use super::stored::{Object, Stored};

/// Field names of an event: core, and `events.k8s.io`.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// A stored object in the version of a kind; the same `Arc` when it already is.
pub(crate) fn served(kind: &Kind, stored: &Arc<Stored>) -> Arc<Stored> {
    let wanted = kind.api_version();
    if stored.is_of(&wanted) && newer_schema(kind, stored).is_none() {
        return stored.clone();
    }
    let Object { value, managed } = current(kind, stored, stored.object());
    Stored::new(&Object { value: to_version(kind, &wanted, value), managed })
}

/// The tree of a stored object, as the schema of a kind knows it.
pub(crate) fn current(kind: &Kind, stored: &Stored, mut object: Object) -> Object {
    if let Some(schema) = newer_schema(kind, stored) {
        schema.prune(&mut object.value, &mut Vec::new());
        schema.fill_defaults(&mut object.value);
    }
    object
}

/// The schema of a kind, if the object was stored with another one.
fn newer_schema<'a>(kind: &'a Kind, stored: &Stored) -> Option<&'a Schema> {
    let custom = kind.custom.as_ref().filter(|custom| stored.revision <= custom.redefined_at)?;
    custom.schema.as_deref()
}

/// An object under another `apiVersion` of its kind.
pub(crate) fn to_version(kind: &Kind, wanted: &str, mut object: Value) -> Value {
    let found = object["apiVersion"].as_str().unwrap_or_default().to_owned();
    if found == wanted || !object.is_object() {
        return object;
    }
    object["apiVersion"] = json!(wanted);
    match kind.plural.as_str() {
        "events" if kind.is_builtin() => {
            let to_core = wanted == "v1";
            let Some(map) = object.as_object_mut() else { return object };
            for (core, new) in EVENT_FIELDS {
                let (from, to) = if to_core { (new, core) } else { (core, new) };
                if let Some(value) = map.remove(*from) {
                    map.insert((*to).to_owned(), value);
                }
            }
        }
        "horizontalpodautoscalers" if kind.is_builtin() => autoscaler(wanted, &mut object),
        _ => {}
    }
    object
}

fn autoscaler(wanted: &str, object: &mut Value) {
    let Some(spec) = object["spec"].as_object_mut() else { return };
    if wanted.ends_with("/v2") {
        if let Some(percent) = spec.remove("targetCPUUtilizationPercentage") {
            spec.insert(
                "metrics".to_owned(),
                json!([{"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": percent}}}]),
            );
        }
    } else if let Some(metrics) = spec.remove("metrics") {
        let cpu = metrics
            .as_array()
            .into_iter()
            .flatten()
            .find(|m| m["resource"]["name"] == "cpu")
            .cloned();
        if let Some(cpu) = cpu {
            let percent = cpu["resource"]["target"]["averageUtilization"].clone();
            spec.insert("targetCPUUtilizationPercentage".to_owned(), percent);
        }
    }
}
