//! PATCH requests: which kind of patch, applied to what.

use std::sync::Arc;

use serde_json::Value;

use super::convert;
use super::errors::{ApiError, Cause};
use super::kinds::Kind;
use super::patch::{apply, json, shape::Shape, strategic};
use super::protobuf;
use super::request::Call;
use super::scale;
use super::stored::{Object, Stored};
use super::typed;
use super::write::{Ownership, Writer};

/// Reads a body as JSON, or as YAML where that is allowed.
///
/// # Errors
///
/// `UnsupportedMediaType` for protobuf and others, `BadRequest` for what cannot be read.
pub(crate) fn parse_body(body: &[u8], content_type: &str) -> Result<Value, ApiError> {
    let media = content_type.split(';').next().unwrap_or_default().trim();
    let yaml = match media {
        ""
        | "application/json"
        | "application/json-patch+json"
        | "application/merge-patch+json"
        | "application/strategic-merge-patch+json" => false,
        "application/yaml" | "application/apply-patch+yaml" => true,
        "application/vnd.kubernetes.protobuf" => {
            return protobuf::decode(body).ok_or_else(|| {
                ApiError::unsupported_media_type(
                    "protobuf bodies are understood for few kinds only: send JSON",
                )
            });
        }
        other => {
            return Err(ApiError::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json, application/yaml; got {other:?}"
            )));
        }
    };
    let json = serde_json::from_slice(body);
    match json {
        Ok(value) => Ok(value),
        Err(_) if yaml => std::str::from_utf8(body)
            .ok()
            .and_then(|text| serde_saphyr::from_str(text).ok())
            .ok_or_else(|| ApiError::bad_request("error decoding YAML")),
        Err(e) => Err(ApiError::bad_request(format!("error decoding JSON: {e}"))),
    }
}

/// Carries out a PATCH; gives back the HTTP code and the object.
pub(crate) fn patch(
    writer: &mut Writer<'_>,
    call: &Call<'_>,
    patch: &Value,
) -> Result<(u16, Arc<Stored>), ApiError> {
    let media = call.content_type.split(';').next().unwrap_or_default().trim();
    if media == "application/apply-patch+yaml" {
        return server_side_apply(writer, call, patch);
    }
    if call.query.flag("force") {
        let message = "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch";
        return Err(ApiError::new(422, "Invalid", message));
    }
    let current = writer.current()?;
    let scaling = writer.subresource == "scale";
    let kind = writer.kind.clone();
    let mut object = if scaling {
        scale::of(&kind, &current.object.value)?
    } else {
        let Object { value, managed } = current.object.clone();
        let object =
            Object { value: convert::to_version(&kind, &kind.api_version(), value), managed };
        // Few patches touch managedFields; without them there is less to copy.
        if touches_managed_fields(patch) { object.into_whole() } else { object.value }
    };
    match media {
        "application/json-patch+json" => json::apply(&mut object, patch)?,
        "application/merge-patch+json" if patch.is_object() => {
            json_patch::merge(&mut object, patch)
        }
        "application/merge-patch+json" => {
            return Err(ApiError::bad_request("a merge patch must be a JSON object"));
        }
        "application/strategic-merge-patch+json" if kind.is_builtin() => {
            strategic::apply(Shape::root(&kind), &mut object, patch)?;
        }
        _ => return Err(unknown_patch(&kind)),
    }
    if scaling {
        return Ok((200, scale::store(writer, &current, &object)?));
    }
    writer.check_identity(&mut object)?;
    let object = Object::new(writer.to_stored(object));
    Ok((200, writer.update(&current, object, Ownership::Update)?))
}

/// Whether a patch may read or write `metadata.managedFields`.
fn touches_managed_fields(patch: &Value) -> bool {
    let within = |path: &Value| {
        let path = path.as_str().unwrap_or_default();
        matches!(path, "" | "/metadata") || path.starts_with("/metadata/managedFields")
    };
    match patch {
        Value::Array(operations) => {
            operations.iter().any(|o| within(&o["path"]) || o.get("from").is_some_and(within))
        }
        other => other["metadata"].get("managedFields").is_some(),
    }
}

fn unknown_patch(kind: &Kind) -> ApiError {
    let mut accepted = vec!["application/json-patch+json", "application/merge-patch+json"];
    if kind.is_builtin() {
        accepted.push("application/strategic-merge-patch+json");
    }
    accepted.push("application/apply-patch+yaml");
    ApiError::unsupported_media_type(format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    ))
}

fn server_side_apply(
    writer: &mut Writer<'_>,
    call: &Call<'_>,
    config: &Value,
) -> Result<(u16, Arc<Stored>), ApiError> {
    let kind = writer.kind.clone();
    if call.query.get("fieldManager").is_none() {
        let message = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
        let mut e = ApiError::new(422, "Invalid", message);
        e.details.causes.push(Cause::required("fieldManager", "is required for apply patch"));
        return Err(e);
    }
    let mut config = config.clone();
    if !config.is_object() || config["kind"].as_str().is_none_or(str::is_empty) {
        return Err(ApiError::bad_request("Object 'Kind' is missing"));
    }
    if config["metadata"]["managedFields"].as_array().is_some_and(|l| !l.is_empty()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    writer.check_identity(&mut config)?;
    let mut config = Object::new(writer.to_stored(config)).value;
    if kind.is_builtin() && !kind.is_crd() {
        typed::quantities(&mut config);
    }
    refuse_unknown(writer, &config)?;
    let request = apply::Request {
        manager: &call.manager,
        subresource: &writer.subresource.clone(),
        force: call.query.flag("force"),
        now: writer.now,
    };
    let current = match writer.found() {
        Ok(stored) => writer.read(stored),
        Err(_) if writer.subresource.is_empty() => {
            if config["metadata"]["uid"].as_str().is_some_and(|u| !u.is_empty()) {
                let detail = "uid mismatch: the provided object specified uid, and no existing object was found";
                return Err(ApiError::conflict(&kind, &writer.key.name, detail));
            }
            let created = apply::apply(&kind, None, &config, &request)?;
            return Ok((201, writer.create(created, Ownership::Applied)?));
        }
        Err(error) => return Err(error),
    };
    let merged = apply::apply(&kind, Some(&current.object), &config, &request)?;
    Ok((200, writer.update(&current, merged, Ownership::Applied)?))
}

/// An applied configuration may only have fields that the kind has.
fn refuse_unknown(writer: &Writer<'_>, config: &Value) -> Result<(), ApiError> {
    let kind = &writer.kind;
    let mut unknown = Vec::new();
    let mut scratch = config.clone();
    if let Some(schema) = kind.schema() {
        schema.prune(&mut scratch, &mut unknown);
    } else if kind.is_builtin() {
        typed::normalise(kind, &mut scratch, None, &mut unknown).map_err(|e| {
            ApiError::bad_request(format!("failed to create typed patch object: {e}"))
        })?;
    }
    let Some(first) = unknown.first() else { return Ok(()) };
    Err(ApiError::new(
        500,
        "InternalError",
        format!(
            "failed to create typed patch object ({}/{}; {}, Kind={}): .{first}: field not declared in schema",
            writer.key.namespace,
            writer.key.name,
            kind.api_version(),
            kind.kind
        ),
    ))
}
