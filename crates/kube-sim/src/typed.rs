//! Built-in kinds pass through their types once: wrong types are refused,
//! unknown fields are found and dropped, nulls disappear, as in the real one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use super::builtin;
use super::kinds::Kind;
use super::schema::Path;

/// Reads and writes an object of a built-in kind in its stored version, as far
/// as it differs from `old`. Its metadata are left out: see [`metadata`].
///
/// Adds the paths of unknown fields to `dropped`.
///
/// # Errors
///
/// What serde says about a field of a wrong type.
pub(crate) fn normalise(
    kind: &Kind,
    object: &mut Value,
    old: Option<&Value>,
    dropped: &mut Vec<String>,
) -> Result<(), String> {
    let Some(map) = object.as_object_mut() else { return Ok(()) };
    let fields = std::mem::take(map).into_iter();
    let is_known = |field: &str, value: &Value| {
        field == "metadata" || old.is_some_and(|old| old.get(field) == Some(value))
    };
    let (known, fresh): (Map<_, _>, Map<_, _>) =
        fields.partition(|(field, value)| is_known(field, value));
    let mut fresh = Value::Object(fresh);
    // The properties of a schema may have the names of such fields.
    if !kind.is_crd() {
        quantities(&mut fresh);
    }
    for field in ["apiVersion", "kind"] {
        if let Some(value) = known.get(field) {
            fresh[field] = value.clone();
        }
    }
    *object = through_type(kind, fresh, dropped)?;
    if let Some(map) = object.as_object_mut() {
        map.extend(known);
    }
    Ok(())
}

/// Reads an object as its type and writes it again.
fn through_type(kind: &Kind, value: Value, dropped: &mut Vec<String>) -> Result<Value, String> {
    let api_version = value["apiVersion"].as_str().unwrap_or_default();
    let known = builtin::find(api_version, &kind.kind);
    // Definitions hold free-form schemas: kept as they are.
    let Some(known) = known.filter(|_| !kind.is_crd()) else { return Ok(value) };
    let typed = (known.through)(&value)?;
    lost(&value, &typed, &Path::Root, dropped);
    Ok(typed)
}

/// Paths that are in one value and not in the other; nulls and empty ones do not count.
fn lost(before: &Value, after: &Value, path: &Path<'_>, dropped: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(b), Value::Object(a)) => {
            for (key, value) in b {
                let path = path.field(key);
                match a.get(key) {
                    Some(kept) => lost(value, kept, &path, dropped),
                    None if value.is_null() => {}
                    None => dropped.push(path.to_string()),
                }
            }
        }
        (Value::Array(b), Value::Array(a)) => {
            for (i, (value, kept)) in b.iter().zip(a).enumerate() {
                lost(value, kept, &path.item(i), dropped);
            }
        }
        _ => {}
    }
}

/// Maps whose values are quantities, which may be written as numbers.
const QUANTITY_MAPS: &[&str] = &[
    "limits",
    "requests",
    "capacity",
    "allocatable",
    "hard",
    "used",
    "min",
    "max",
    "default",
    "defaultRequest",
    "maxLimitRequestRatio",
    "overhead",
    "allocatedResources",
];

/// Writes quantities given as numbers as text.
pub(crate) fn quantities(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, child) in map.iter_mut() {
                if QUANTITY_MAPS.contains(&key.as_str())
                    && let Some(inner) = child.as_object_mut()
                {
                    for quantity in inner.values_mut().filter(|q| q.is_number()) {
                        *quantity = json!(quantity.to_string());
                    }
                }
                quantities(child);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(quantities),
        _ => {}
    }
}

/// Reads and writes `metadata`, for every kind; empty lists and maps go.
///
/// # Errors
///
/// What serde says about a field of a wrong type.
pub(crate) fn metadata(object: &mut Value) -> Result<(), String> {
    let meta = object["metadata"].take();
    let meta: ObjectMeta = serde_json::from_value(meta)
        .map_err(|e| format!("json: cannot unmarshal metadata: {e}"))?;
    let mut meta = serde_json::to_value(meta).map_err(|e| e.to_string())?;
    if let Some(map) = meta.as_object_mut() {
        map.retain(|_, v| match v {
            Value::Array(list) => !list.is_empty(),
            Value::Object(inner) => !inner.is_empty(),
            Value::String(text) => !text.is_empty(),
            _ => true,
        });
    }
    object["metadata"] = meta;
    Ok(())
}
