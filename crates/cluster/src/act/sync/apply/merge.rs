//! Client-side apply: the patch from the live object to the target that keeps the fields
//! of other managers (SE-340).

use base64::Engine;
use serde_json::{Map, Value, json};

use wavegate_api::Raw;
use wavegate_api::annotations::LAST_APPLIED;
use wavegate_api::kind::GroupVersionKind;
use wavegate_api::raw::{edit_metadata, object_at, set_annotation};
use wavegate_engine::diff;
use wavegate_engine::merge_patch::{merge_patch, without_nulls};

/// The target with the last-applied annotation, as client-side apply creates it.
pub fn with_last_applied(target: &Value) -> Value {
    let mut object = target.clone();
    let text = last_applied(target);
    set_annotation(&mut object, LAST_APPLIED, &text);
    object
}

/// Compact JSON of the target without the annotation, with a newline at the end.
fn last_applied(target: &Value) -> String {
    let mut target = target.clone();
    edit_metadata(&mut target, |metadata| {
        let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        annotations.map(|annotations| annotations.remove(LAST_APPLIED));
    });
    format!("{target}\n")
}

/// The merge patch from live to target; `None` when nothing would change. Lists of
/// built-in kinds are merged by key and sent as a whole, so the patch is only valid for
/// the version of `live`.
pub(super) fn three_way(target: &Value, live: &Value) -> Option<Value> {
    let mut patch = match diff::is_secret(target) || diff::is_secret(live) {
        // Comparisons of Secrets hide their values.
        true => {
            let target = plain_secret(target);
            layered(&plain_secret(&applied_before(live)), &target, live)
        }
        false => {
            let compared = diff::compare(Some(target), Some(live), &diff::DiffConfig::default());
            merge_patch(&compared.live, &compared.predicted)
        }
    }
    .unwrap_or_else(|| json!({}));
    if let (Some(status), Some(fields)) = (status(target, live), patch.as_object_mut()) {
        fields.insert("status".to_owned(), status);
    }
    let text = last_applied(target);
    if live.annotation(LAST_APPLIED) != Some(&*text) {
        set_annotation(&mut patch, LAST_APPLIED, &text);
    }
    let empty = patch.as_object().is_none_or(Map::is_empty);
    (!empty).then_some(patch)
}

/// What was applied before, as the live object says; null if it does not.
fn applied_before(live: &Value) -> Value {
    let text = live.annotation(LAST_APPLIED);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The change of the status of a custom resource whose manifest has one, as `kubectl apply`
/// sends it. A server with a subresource for it leaves it alone; those of built-in kinds
/// always have one. Without it, the manifest could never be in the cluster, where the settings
/// compare the status (`ignoreResourceStatusField`).
fn status(target: &Value, live: &Value) -> Option<Value> {
    let wanted = target.get("status").filter(|status| status.is_object())?;
    if GroupVersionKind::of(target).borrowed().is_built_in() {
        return None;
    }
    let before = applied_before(live);
    let none = json!({});
    let [before, found] = [before.status(), live.status()]
        .map(|status| if status.is_object() { status } else { &none });
    layered(before, wanted, found)
}

/// A Secret with `stringData` moved to `data`, as the server stores it.
fn plain_secret(secret: &Value) -> Value {
    let mut secret = secret.clone();
    let Some(fields) = secret.as_object_mut() else { return secret };
    let Some(Value::Object(strings)) = fields.remove("stringData") else { return secret };
    let Some(data) = object_at(fields, "data") else { return secret };
    let engine = base64::engine::general_purpose::STANDARD;
    data.extend(strings.into_iter().map(|(key, value)| match value {
        Value::String(text) => (key, Value::String(engine.encode(text))),
        other => (key, other),
    }));
    secret
}

/// A three-way merge patch: fields of `before` that are missing in the target are
/// removed; fields that differ from the target are set; all others stay.
fn layered(before: &Value, target: &Value, live: &Value) -> Option<Value> {
    let target = without_nulls(target);
    let mut merged = live.clone();
    if let Some(change) = merge_patch(before, &target) {
        json_patch::merge(&mut merged, &change);
    }
    json_patch::merge(&mut merged, &target);
    merge_patch(live, &merged)
}

/// Fields of the metadata that the server sets.
const SET_BY_SERVER: [&str; 8] = [
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "generation",
    "managedFields",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

/// The object without the fields that the server sets, ready to be created again.
pub(super) fn as_new(live: &Value) -> Value {
    let mut object = live.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    edit_metadata(&mut object, |metadata| {
        metadata.retain(|field, _| !SET_BY_SERVER.contains(&field.as_str()));
    });
    object
}
