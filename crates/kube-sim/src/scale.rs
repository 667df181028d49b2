//! The scale subresource: replicas of different kinds in one form.

use std::sync::Arc;

use serde_json::{Value, json};

use super::errors::{ApiError, Cause};
use super::kinds::Kind;
use super::selectors::labels_text;
use super::stored::Stored;
use super::write::{Current, Ownership, Writer};

/// The `Scale` of an object.
pub(crate) fn of(kind: &Kind, object: &Value) -> Result<Value, ApiError> {
    let paths = kind.scale.as_ref().ok_or_else(ApiError::no_such_path)?;
    let at = |path: &[String]| path.iter().fold(object, |v, p| &v[p.as_str()]);
    let meta = &object["metadata"];
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"], "creationTimestamp": meta["creationTimestamp"],
        },
        "spec": {"replicas": at(&paths.spec).as_i64().unwrap_or(0)},
        "status": {"replicas": at(&paths.status).as_i64().unwrap_or(0)},
    });
    if let Some(selector) = paths.selector.as_deref().map(at) {
        let text = match selector {
            Value::String(text) => text.clone(),
            other => labels_text(other),
        };
        if !text.is_empty() {
            scale["status"]["selector"] = json!(text);
        }
    }
    Ok(scale)
}

/// Replaces the scale of the object that a request names.
pub(crate) fn replace(writer: &mut Writer<'_>, scale: &Value) -> Result<Arc<Stored>, ApiError> {
    let current = writer.current()?;
    store(writer, &current, scale)
}

/// Writes the replicas of a scale into its object.
pub(crate) fn store(
    writer: &mut Writer<'_>,
    current: &Current,
    scale: &Value,
) -> Result<Arc<Stored>, ApiError> {
    let kind = writer.kind.clone();
    let paths = kind.scale.as_ref().ok_or_else(ApiError::no_such_path)?;
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 {
        let cause =
            Cause::invalid("spec.replicas", &json!(replicas), "must be greater than or equal to 0");
        return Err(ApiError::invalid(&kind, &writer.key.name, vec![cause]));
    }
    let mut object = current.object.clone();
    let value = &mut object.value;
    if let Some(version) = scale["metadata"]["resourceVersion"].as_str().filter(|v| !v.is_empty()) {
        value["metadata"]["resourceVersion"] = json!(version);
    }
    let mut at = value;
    for part in &paths.spec {
        if !at.is_object() && !at.is_null() {
            let message = format!(
                "{} is no object, so that replicas cannot be set in it",
                paths.spec.join(".")
            );
            return Err(ApiError::bad_request(message));
        }
        at = &mut at[part.as_str()];
    }
    *at = json!(replicas);
    writer.update(current, object, Ownership::Update)
}
