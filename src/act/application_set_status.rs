//! The only writer of an ApplicationSet's status.

use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::watch::failure::{has_code, is_outdated};
use crate::watch::object::{Object, Parsed, resource};

/// What became of a status write.
#[derive(Debug)]
pub enum Written {
    /// The status was as wanted already; nothing was sent.
    Unchanged,
    /// It was written; the object as it is now.
    Changed(Object),
    /// The object has changed since it was read; look at it again.
    Conflict,
}

/// Makes the status of `set` what is wanted, by a JSON patch that carries only
/// what changed, and only if the set is still the one that was looked at.
///
/// # Errors
///
/// When the API server refuses or cannot be reached.
pub async fn write(client: &Client, set: &Parsed, wanted: &Value) -> Result<Written, kube::Error> {
    let wanted = super::told::status(&set.value()["status"], wanted);
    let Some(patch) = patch(set.value(), &wanted) else { return Ok(Written::Unchanged) };
    let api: Api<Object> =
        Api::namespaced_with(client.clone(), set.namespace(), &resource("ApplicationSet"));
    let params = PatchParams::default();
    match api.patch_status(set.name(), &params, &Patch::<Value>::Json(patch)).await {
        Ok(object) => Ok(Written::Changed(object)),
        // A JSON patch that does not fit any more is refused for the same reason,
        // by another code.
        Err(error) if is_conflict(&error) || is_outdated(&error) => Ok(Written::Conflict),
        Err(error) => Err(error),
    }
}

/// The patch; `None` when nothing differs.
fn patch(set: &Value, wanted: &Value) -> Option<json_patch::Patch> {
    let with = |status: &Value| json!({ "status": status });
    let old = set.get("status").filter(|status| status.is_object());
    let differences = match old {
        Some(old) => json_patch::diff(&with(old), &with(wanted)).0,
        None if wanted == &json!({}) => Vec::new(),
        None => json_patch::diff(&json!({}), &with(wanted)).0,
    };
    if differences.is_empty() {
        return None;
    }
    let version = json!([{
        "op": "replace",
        "path": "/metadata/resourceVersion",
        "value": set["metadata"]["resourceVersion"],
    }]);
    let mut patch: json_patch::Patch = serde_json::from_value(version).ok()?;
    patch.0.extend(differences);
    Some(patch)
}

/// Whether the API server refused a write since the object has changed, or is
/// gone: both mean to look again.
pub fn is_conflict(error: &kube::Error) -> bool {
    has_code(error, 409) || has_code(error, 404)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_carries_what_changed_and_the_version_it_was_decided_on() {
        let set = json!({
            "metadata": {"resourceVersion": "7"},
            "status": {"resources": [{"name": "a", "status": "Synced"}, {"name": "b", "status": "OutOfSync"}]},
        });
        let mut wanted = set["status"].clone();
        assert!(patch(&set, &wanted).is_none(), "nothing changed, nothing is sent");
        wanted["resources"][1]["status"] = "Synced".into();
        let got = serde_json::to_value(patch(&set, &wanted).unwrap()).unwrap();
        let want = json!([
            {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "replace", "path": "/status/resources/1/status", "value": "Synced"},
        ]);
        assert_eq!(got, want);
        let bare = json!({"metadata": {"resourceVersion": "7"}});
        let got = serde_json::to_value(patch(&bare, &json!({"a": 1})).unwrap()).unwrap();
        assert_eq!(got[1], json!({"op": "add", "path": "/status", "value": {"a": 1}}));
        assert!(patch(&bare, &json!({})).is_none());
    }
}
