//! Which program set a field, by `metadata.managedFields`, where no person is named (ST-071).

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// What people ask for in a field, beside the field in which the commands write who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedField {
    /// An ApplicationSet is paused by its annotation.
    Pause,
    /// A run skips Applications: `spec.skip`, and `spec.skips`.
    Skip,
}

impl RequestedField {
    const ALL: [Self; 2] = [Self::Pause, Self::Skip];

    /// Where the field and the one with who asked are in an entry of managed fields, and their keys.
    fn keys(self) -> (&'static str, [&'static str; 2]) {
        match self {
            Self::Pause => (
                "/fieldsV1/f:metadata/f:annotations",
                ["f:wavegate.dev/paused", "f:wavegate.dev/paused-by"],
            ),
            Self::Skip => ("/fieldsV1/f:spec", ["f:skip", "f:skips"]),
        }
    }

    /// The program that set the field, such as `kubectl-annotate`, where it is another one than set
    /// who asked: what stands there is then about an earlier request, if there is anything. Reads
    /// the metadata of the object.
    pub fn manager(self, metadata: &Value) -> Option<String> {
        let (parent, [field, by]) = self.keys();
        let entries = metadata.get("managedFields").and_then(Value::as_array)?;
        let owns = |entry: &Value, key: &str| {
            entry.pointer(parent).is_some_and(|fields| fields.get(key).is_some())
        };
        let mut owners = entries.iter().filter(|entry| owns(entry, field));
        let first = owners.next()?;
        let says_who = std::iter::once(first).chain(owners).any(|entry| owns(entry, by));
        let name = first.get("manager").and_then(Value::as_str).filter(|name| !name.is_empty())?;
        (!says_who).then(|| name.to_owned())
    }
}

/// What [`RequestedField::manager`] reads of managed fields, as managed fields; `None` if that is
/// nothing. All else of them is large and is not needed. Called for each event of each watch, so most
/// texts are only searched.
pub fn about_requests(managed_fields: &RawValue) -> Option<Value> {
    let text = managed_fields.get();
    if !RequestedField::ALL.iter().any(|asked| text.contains(asked.keys().1[0])) {
        return None;
    }
    let entries: Vec<Value> = serde_json::from_str(text).ok()?;
    let kept: Vec<Value> = entries.iter().filter_map(reduced).collect();
    (!kept.is_empty()).then(|| json!(kept))
}

/// An entry with nothing but its manager and the fields that people set.
fn reduced(entry: &Value) -> Option<Value> {
    let mut kept = Map::new();
    for asked in RequestedField::ALL {
        let (parent, keys) = asked.keys();
        let Some(fields) = entry.pointer(parent) else { continue };
        let found = keys.into_iter().filter(|key| fields.get(key).is_some());
        let found: Map<String, Value> = found.map(|key| (key.to_owned(), json!({}))).collect();
        if found.is_empty() {
            continue;
        }
        let path = parent.trim_start_matches("/fieldsV1/").rsplit('/');
        // The paths of both begin with a key of their own.
        if let Value::Object(nested) = path.fold(json!(found), |all, key| json!({key: all})) {
            kept.extend(nested);
        }
    }
    (!kept.is_empty()).then(|| json!({"manager": entry.get("manager"), "fieldsV1": kept}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotations::{PAUSED, PAUSED_BY};

    fn entry(manager: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": "Update", "fieldsV1": fields})
    }

    fn annotations(names: &[&str]) -> Value {
        let owned: Map<String, Value> =
            names.iter().map(|name| (format!("f:{name}"), json!({}))).collect();
        json!({"f:metadata": {"f:annotations": owned}})
    }

    /// Whole managed fields and those that are kept give the same.
    fn manager(asked: RequestedField, entries: &[Value]) -> Option<String> {
        let whole = json!({"managedFields": entries});
        let found = asked.manager(&whole);
        let raw: Box<RawValue> = serde_json::value::to_raw_value(entries).unwrap();
        let kept = about_requests(&raw).unwrap_or_default();
        assert_eq!(asked.manager(&json!({"managedFields": kept})), found);
        assert!(kept.to_string().len() < 200 * entries.len().max(1), "{kept}");
        found
    }

    #[test]
    fn a_request_is_of_who_set_the_field_st_071() {
        let pause = |entries: &[Value]| manager(RequestedField::Pause, entries);
        assert_eq!(pause(&[]), None);
        let other = annotations(&["x/paused", "wavegate.dev/paused-not"]);
        assert_eq!(pause(&[entry("kubectl", other)]), None);
        let large: Map<String, Value> =
            (0..500).map(|n| (format!("f:field-{n}"), json!({}))).collect();
        let mut all = annotations(&[PAUSED]);
        all["f:spec"] = json!(large);
        assert_eq!(
            pause(&[entry("helm", json!(large)), entry("argocd", all)]),
            Some("argocd".into())
        );
        // By the command, which writes both.
        let ours = entry("wavegate", annotations(&[PAUSED, PAUSED_BY]));
        assert_eq!(pause(std::slice::from_ref(&ours)), None);
        // By another program after the command.
        let by = entry("wavegate", annotations(&[PAUSED_BY]));
        let field = entry("kubectl-annotate", annotations(&[PAUSED]));
        assert_eq!(pause(&[by.clone(), field.clone()]), Some("kubectl-annotate".into()));
        assert_eq!(pause(&[field.clone(), by]), Some("kubectl-annotate".into()));
        // Both have written the same.
        assert_eq!(pause(&[field, ours]), None);
        assert_eq!(pause(&[entry("", annotations(&[PAUSED]))]), None);

        let skip = |fields: Value| manager(RequestedField::Skip, &[entry("kubectl-patch", fields)]);
        assert_eq!(skip(json!({"f:spec": {"f:skip": {}}})), Some("kubectl-patch".into()));
        assert_eq!(skip(json!({"f:spec": {"f:skip": {}, "f:skips": {}}})), None);
        assert_eq!(skip(json!({"f:status": {"f:skip": {}}})), None);
        assert_eq!(skip(json!("f:skip")), None);
    }
}
