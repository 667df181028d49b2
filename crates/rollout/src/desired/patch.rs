//! `templatePatch`: a patch of each rendered Application (AS-144 to AS-147).
//!
//! A strategic merge patch for Applications: objects merge, null deletes, lists
//! are replaced, `metadata.finalizers` is merged as a set.

use serde_json::{Map, Value};

use wavegate_api::Raw;
use wavegate_api::raw::object_at;
use wavegate_api::yaml;

/// Prefix of a key that removes entries of the list of that name.
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// Applies the rendered text of a patch.
///
/// The project is not changed, and neither `operation` nor `status` can be set:
/// an operation would start a sync in each reconcile (AS-146). An empty text,
/// `null` and `{}` have no effect.
///
/// # Errors
///
/// The error of the patch, for users.
pub fn apply(application: &mut Value, text: &str) -> Result<(), String> {
    let patch = match yaml::parse_value(text) {
        Ok(patch) => patch,
        Err(yaml::YamlError::Count { found: 0 }) => return Ok(()),
        Err(error) => return Err(format!("the rendered patch is neither JSON nor YAML: {error}")),
    };
    let patch = match patch {
        Value::Null => return Ok(()),
        Value::Object(patch) => patch,
        _ => return Err("the rendered patch is not an object".to_owned()),
    };
    check(&patch)?;
    let project = application.spec().get("project").filter(|project| !project.is_null());
    let project = project.cloned();
    if let Value::Object(target) = application {
        merge_object(target, &patch, &mut Vec::new())?;
        target.remove("operation");
        target.remove("status");
        if let Some(spec) = object_at(target, "spec") {
            match project {
                None => spec.remove("project"),
                Some(project) => spec.insert("project".to_owned(), project),
            };
        }
    }
    Ok(())
}

/// Checks the types of the fields that the rest of the program relies on.
fn check(patch: &Map<String, Value>) -> Result<(), String> {
    for field in ["metadata", "spec"] {
        let value = patch.get(field).unwrap_or(&Value::Null);
        if !matches!(value, Value::Null | Value::Object(_)) {
            return Err(format!("{field} of the rendered patch is not an object"));
        }
    }
    let metadata = patch.get("metadata").unwrap_or(&Value::Null);
    for field in ["labels", "annotations"] {
        for (key, value) in metadata[field].as_object().into_iter().flatten() {
            if !key.starts_with('$') && !matches!(value, Value::Null | Value::String(_)) {
                return Err(format!(
                    "metadata.{field}.{key} of the rendered patch is not a string"
                ));
            }
        }
    }
    Ok(())
}

fn merge_object(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    path: &mut Vec<String>,
) -> Result<(), String> {
    match patch.get("$patch").and_then(Value::as_str) {
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        Some("replace") => {
            target.clear();
            let kept =
                patch.iter().filter(|(key, value)| !key.starts_with('$') && !value.is_null());
            target.extend(kept.map(|(key, value)| (key.clone(), value.clone())));
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => {
            return Err(format!("{}: unknown directive $patch: {other}", path.join(".")));
        }
    }
    if let Some(keys) = patch.get("$retainKeys").and_then(Value::as_array) {
        target.retain(|key, _| keys.iter().any(|kept| kept == key));
    }
    for (key, value) in patch {
        if let Some(name) = key.strip_prefix(DELETE_FROM) {
            path.push(name.to_owned());
            delete_from(target.get_mut(name), value, path)?;
            path.pop();
        }
        if key.starts_with('$') {
            continue;
        }
        path.push(key.clone());
        match (target.get_mut(key), value) {
            (_, Value::Null) => {
                target.remove(key);
            }
            (Some(Value::Object(target)), Value::Object(patch)) => {
                merge_object(target, patch, path)?;
            }
            (Some(Value::Array(target)), Value::Array(added)) if is_set(path) => {
                for item in added {
                    if !target.contains(item) {
                        target.push(item.clone());
                    }
                }
            }
            (_, Value::Object(patch)) => {
                let mut fresh = Map::new();
                merge_object(&mut fresh, patch, path)?;
                target.insert(key.clone(), fresh.into());
            }
            (_, value) => {
                target.insert(key.clone(), value.clone());
            }
        }
        path.pop();
    }
    Ok(())
}

/// Removes entries of the only list that is merged as a set. Entries that the patch adds come
/// after: `$` sorts before letters.
fn delete_from(target: Option<&mut Value>, value: &Value, path: &[String]) -> Result<(), String> {
    let place = path.join(".");
    if !is_set(path) {
        return Err(format!(
            "{DELETE_FROM}{place} of the rendered patch: only entries of metadata.finalizers can \
             be removed; write the whole list instead"
        ));
    }
    let Value::Array(removed) = value else {
        return Err(format!("{DELETE_FROM}{place} of the rendered patch is not a list"));
    };
    if let Some(Value::Array(list)) = target {
        list.retain(|item| !removed.contains(item));
    }
    Ok(())
}

fn is_set(path: &[String]) -> bool {
    path == ["metadata", "finalizers"]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::apply;

    fn patched(patch: &Value) -> Result<Value, String> {
        let mut application = json!({
            "metadata": {"name": "a", "labels": {"a": "1", "b": "2"}, "finalizers": ["x", "y"]},
            "spec": {"project": "p", "source": {"path": "p", "helm": {"a": 1}}, "info": [1, 2]},
        });
        apply(&mut application, &patch.to_string())?;
        Ok(application)
    }

    /// Objects merge, null deletes, lists are replaced, and finalizers are a set (AS-145).
    #[test]
    fn a_template_patch_is_a_strategic_merge_patch_as_145() {
        let delete = "$deleteFromPrimitiveList/finalizers";
        let metadata = |change: Value| json!({"metadata": change});
        let spec = |change: Value| json!({"spec": change});
        for (patch, at, want) in [
            (
                metadata(json!({"labels": {"a": null, "c": "3"}})),
                "/metadata/labels",
                json!({"b": "2", "c": "3"}),
            ),
            (metadata(json!({"labels": {"$patch": "delete"}})), "/metadata/labels", json!({})),
            (
                metadata(json!({"labels": {"$patch": "replace", "c": "3", "d": null}})),
                "/metadata/labels",
                json!({"c": "3"}),
            ),
            (
                metadata(json!({"labels": {"$patch": "merge", "c": "3"}})),
                "/metadata/labels",
                json!({"a": "1", "b": "2", "c": "3"}),
            ),
            (
                metadata(json!({"labels": {"$retainKeys": ["a"], "c": "3"}})),
                "/metadata/labels",
                json!({"a": "1", "c": "3"}),
            ),
            (
                metadata(json!({"finalizers": ["y", "z"]})),
                "/metadata/finalizers",
                json!(["x", "y", "z"]),
            ),
            (metadata(json!({delete: ["x"]})), "/metadata/finalizers", json!(["y"])),
            (
                metadata(json!({delete: ["x"], "finalizers": ["x"]})),
                "/metadata/finalizers",
                json!(["y", "x"]),
            ),
            (spec(json!({"info": [3]})), "/spec/info", json!([3])),
            (
                spec(json!({"source": {"helm": {"b": 2}}})),
                "/spec/source",
                json!({"path": "p", "helm": {"a": 1, "b": 2}}),
            ),
            (spec(json!({"source": {"helm": "x"}})), "/spec/source/helm", json!("x")),
            (
                spec(json!({"new": {"a": null, "b": {"$patch": "delete"}}})),
                "/spec/new",
                json!({"b": {}}),
            ),
            (spec(json!({"project": "q"})), "/spec/project", json!("p")),
            (
                json!({"operation": {}, "status": {}}),
                "",
                json!({
                    "metadata": {"name": "a", "labels": {"a": "1", "b": "2"}, "finalizers": ["x", "y"]},
                    "spec": {"project": "p", "source": {"path": "p", "helm": {"a": 1}}, "info": [1, 2]},
                }),
            ),
        ] {
            let got = patched(&patch).unwrap();
            assert_eq!(got.pointer(at), Some(&want), "{patch}");
        }
        let mut none = json!({"spec": {}});
        apply(&mut none, r#"{"spec": {"project": "q", "a": 1}}"#).unwrap();
        assert_eq!(none, json!({"spec": {"a": 1}}), "no project is not changed either");
        for text in ["", "null", "{}", "# nothing"] {
            let mut same = json!({"spec": {"project": "p"}});
            apply(&mut same, text).unwrap();
            assert_eq!(same, json!({"spec": {"project": "p"}}), "{text:?}");
        }
    }

    #[test]
    fn a_wrong_template_patch_names_its_place_as_147() {
        for (patch, want) in [
            (json!([]), "the rendered patch is not an object"),
            (json!({"spec": 1}), "spec of the rendered patch is not an object"),
            (json!({"metadata": "x"}), "metadata of the rendered patch is not an object"),
            (
                json!({"metadata": {"labels": {"a": 1}}}),
                "metadata.labels.a of the rendered patch is not a string",
            ),
            (
                json!({"metadata": {"annotations": {"a": []}}}),
                "metadata.annotations.a of the rendered patch is not a string",
            ),
            (
                json!({"spec": {"source": {"$patch": "x"}}}),
                "spec.source: unknown directive $patch: x",
            ),
            (
                json!({"spec": {"$deleteFromPrimitiveList/info": [1]}}),
                "$deleteFromPrimitiveList/spec.info of the rendered patch: only entries of \
                 metadata.finalizers can be removed; write the whole list instead",
            ),
            (
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "x"}}),
                "$deleteFromPrimitiveList/metadata.finalizers of the rendered patch is not a list",
            ),
        ] {
            assert_eq!(patched(&patch).unwrap_err(), want, "{patch}");
        }
    }
}
