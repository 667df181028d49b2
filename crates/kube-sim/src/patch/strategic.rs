//! Strategic merge patch, for built-in kinds: lists merge by key, and
//! directives (`$patch`, `$retainKeys`, `$setElementOrder/…`,
//! `$deleteFromPrimitiveList/…`) say what plain merging cannot.

use serde_json::{Map, Value, json};

use super::super::errors::ApiError;
use super::order::reorder;
use super::shape::Shape;

const ORDER: &str = "$setElementOrder/";
const DELETE: &str = "$deleteFromPrimitiveList/";
const RETAIN: &str = "$retainKeys";

/// Applies a strategic merge patch.
///
/// # Errors
///
/// `BadRequest` for directives that make no sense and list items without their key.
pub(crate) fn apply(shape: Shape<'_>, target: &mut Value, patch: &Value) -> Result<(), ApiError> {
    let Value::Object(patch) = patch else {
        return Err(ApiError::bad_request("a strategic merge patch must be a JSON object"));
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(map) = target.as_object_mut() else { return Ok(()) };
    merge_map(shape, map, patch)
}

fn merge_map(
    shape: Shape<'_>,
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<(), ApiError> {
    match patch.get("$patch").and_then(Value::as_str) {
        None | Some("merge") => {}
        Some("replace") => {
            target.clear();
            target.extend(
                patch.iter().filter(|(k, _)| *k != "$patch").map(|(k, v)| (k.clone(), v.clone())),
            );
            return Ok(());
        }
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        Some(other) => return Err(ApiError::bad_request(format!("unknown patch type: {other}"))),
    }
    if let Some(keys) = patch.get(RETAIN).and_then(Value::as_array) {
        target.retain(|key, _| keys.iter().any(|k| k == key));
    }
    for (key, value) in patch {
        if key == "$patch" || key == RETAIN || key.starts_with(ORDER) {
            continue;
        }
        if let Some(list) = key.strip_prefix(DELETE) {
            let gone = value.as_array().map(Vec::as_slice).unwrap_or_default();
            if let Some(items) = target.get_mut(list).and_then(Value::as_array_mut) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        let at = shape.field(key);
        match value {
            Value::Null => {
                target.remove(key);
            }
            Value::Object(inner) => {
                let was = target.entry(key.clone()).or_insert_with(|| json!({}));
                if !was.is_object() {
                    *was = json!({});
                }
                let Some(was_map) = was.as_object_mut() else { continue };
                merge_map(at, was_map, inner)?;
                if inner.get("$patch").is_some_and(|p| p == "delete") {
                    target.remove(key);
                }
            }
            Value::Array(items) => {
                let was = target.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
                let merged = merge_list(at, was, items)?;
                target.insert(key.clone(), Value::Array(merged));
            }
            other => {
                target.insert(key.clone(), other.clone());
            }
        }
    }
    for (key, order) in patch {
        if let Some(list) = key.strip_prefix(ORDER)
            && let Some(order) = order.as_array()
            && let Some(items) = target.get_mut(list).and_then(Value::as_array_mut)
        {
            let key = shape.field(list).merge_key();
            reorder(items, |item| {
                order.iter().position(|o| match key {
                    Some(key) => o.get(key).is_some() && o.get(key) == item.get(key),
                    None => o == item,
                })
            });
        }
    }
    Ok(())
}

fn merge_list(shape: Shape<'_>, was: Vec<Value>, patch: &[Value]) -> Result<Vec<Value>, ApiError> {
    if let Some(key) = shape.merge_key() {
        return merge_objects(shape, key, was, patch);
    }
    if shape.merges_values() {
        let mut out = was;
        for value in patch {
            if !out.contains(value) {
                out.push(value.clone());
            }
        }
        return Ok(out);
    }
    Ok(patch.iter().filter(|item| item.get("$patch").is_none()).map(clean).collect())
}

fn merge_objects(
    shape: Shape<'_>,
    key: &str,
    was: Vec<Value>,
    patch: &[Value],
) -> Result<Vec<Value>, ApiError> {
    let replace = patch.iter().any(|item| item["$patch"] == "replace" && item.get(key).is_none());
    let mut out = if replace { Vec::new() } else { was };
    for item in patch {
        let directive = item["$patch"].as_str();
        if replace && directive == Some("replace") {
            continue;
        }
        let Some(id) = item.get(key) else {
            let message = format!("map: {item} does not contain declared merge key: {key}");
            return Err(ApiError::bad_request(message));
        };
        let position = out.iter().position(|o| o.get(key) == Some(id));
        match (directive, position) {
            (Some("delete"), _) => out.retain(|o| o.get(key) != Some(id)),
            (Some("replace"), Some(i)) => out[i] = clean(item),
            (_, Some(i)) => apply(shape.item(), &mut out[i], item)?,
            (_, None) => out.push(clean(item)),
        }
    }
    Ok(out)
}

/// A new value without the directives in it.
fn clean(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(k, v)| !k.starts_with('$') && !v.is_null())
                .map(|(k, v)| (k.clone(), clean(v)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().map(clean).collect()),
        other => other.clone(),
    }
}
