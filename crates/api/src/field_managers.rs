//! Who set a field, by `metadata.managedFields`: the name of the program, as long as nobody gives
//! the name of a person (ST-071).

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::annotations::{PAUSED, PAUSED_BY};

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

    /// The field, and the one with who asked: where both are, and the name of each.
    fn fields(self) -> (&'static [&'static str], [&'static str; 2]) {
        match self {
            Self::Pause => (&["metadata", "annotations"], [PAUSED, PAUSED_BY]),
            Self::Skip => (&["spec"], ["skip", "skips"]),
        }
    }

    /// The program that set the field, such as `kubectl-annotate`, where it is another one than set
    /// who asked: what stands there is then about an earlier request, if there is anything. Reads
    /// the metadata of the object.
    pub fn manager(self, metadata: &Value) -> Option<String> {
        let (path, [field, by]) = self.fields();
        let entries = metadata.get("managedFields").and_then(Value::as_array)?;
        let owns = |entry: &Value, name: &str| {
            let steps = path.iter().copied().chain([name]);
            let mut fields = entry.get("fieldsV1");
            for step in steps {
                fields = fields.and_then(|fields| fields.get(format!("f:{step}")));
            }
            fields.is_some()
        };
        let mut owners = entries.iter().filter(|entry| owns(entry, field));
        let first = owners.next()?;
        let says_who = std::iter::once(first).chain(owners).any(|entry| owns(entry, by));
        let name = first.get("manager").and_then(Value::as_str).filter(|name| !name.is_empty())?;
        (!says_who).then(|| name.to_owned())
    }
}

/// What [`RequestedField::manager`] reads of managed fields, as managed fields; `None` if that is nothing,
/// which a look at the text shows for most objects. All else of them is large and is not needed.
pub fn about_requests(managed_fields: &RawValue) -> Option<Value> {
    let text = managed_fields.get();
    if !RequestedField::ALL
        .iter()
        .any(|asked| text.contains(&format!("\"f:{}\"", asked.fields().1[0])))
    {
        return None;
    }
    let entries: Vec<Entry> = serde_json::from_str(text).ok()?;
    let kept: Vec<Value> = entries.iter().filter_map(Entry::reduced).collect();
    (!kept.is_empty()).then(|| json!(kept))
}

/// An entry of managed fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    manager: String,
    #[serde(default)]
    fields_v1: Value,
}

impl Entry {
    /// The entry with nothing but fields that people set.
    fn reduced(&self) -> Option<Value> {
        let mut kept = Map::new();
        for asked in RequestedField::ALL {
            let (path, names) = asked.fields();
            let keys: Vec<String> = path.iter().map(|step| format!("f:{step}")).collect();
            let pointer: String = keys.iter().map(|key| format!("/{key}")).collect();
            let owned = self.fields_v1.pointer(&pointer).and_then(Value::as_object);
            let is_owned = |name: &String| owned.is_some_and(|owned| owned.contains_key(name));
            let names = names.map(|name| format!("f:{name}")).into_iter().filter(is_owned);
            let found: Map<String, Value> = names.map(|name| (name, json!({}))).collect();
            // Each request begins with a key of its own.
            if let ([first, rest @ ..], false) = (keys.as_slice(), found.is_empty()) {
                let nested = rest.iter().rev().fold(json!(found), |all, key| json!({key: all}));
                kept.insert(first.clone(), nested);
            }
        }
        (!kept.is_empty()).then(|| json!({"manager": self.manager, "fieldsV1": kept}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
