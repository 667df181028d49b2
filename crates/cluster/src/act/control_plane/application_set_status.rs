//! The only writer of an ApplicationSet's status.

use std::collections::HashMap;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::watch::failure::{existing_object, has_code, is_gone};
use crate::watch::object::{StoredObject, kind_resource};
use wavegate_rollout::application_set::status::stored::{
    Status, StoredApplicationSet, StoredResource,
};
use wavegate_rollout::rollout::phase::Entry;

/// The API server accepts JSON patches of up to 10,000 operations. A list that needs more
/// operations than this is replaced as a whole.
const MOST_OPERATIONS: usize = 2_000;

/// Outcome of a status write.
#[derive(Debug)]
pub enum Written {
    /// The status is already up to date; no request was sent.
    Unchanged,
    /// The status was written: the object as the API server stores it now, with its status.
    /// It may lack fields that the installed definition does not know.
    Changed(StoredObject, Box<Status>),
    /// The object has changed since it was read, or is gone; reconcile again.
    Conflict,
}

/// Updates the status of `set` to `wanted` with a JSON patch of the changed fields. The
/// patch has the resource version of `set` as a precondition.
///
/// When the answer lacks the summary of the rollout, it is written to its other place.
///
/// # Errors
///
/// When the API server rejects the patch or is not available. Code 422 is such an error
/// unless the object has another version: patches that do not fit an object of the observed
/// version would never fit.
pub async fn write_set_status(
    client: &Client,
    set: &StoredApplicationSet,
    wanted: &Status,
) -> Result<Written, kube::Error> {
    let api: Api<StoredObject> =
        Api::namespaced_with(client.clone(), &set.id.namespace, &kind_resource("ApplicationSet"));
    let first = update(&api, set, &set.version, &set.status, wanted).await?;
    let Written::Changed(object, stored) = &first else { return Ok(first) };
    let Some(moved) = wanted.where_it_is_kept(stored) else { return Ok(first) };
    match update(&api, set, object.resource_version(), stored, &moved).await? {
        Written::Unchanged => Ok(first),
        second => Ok(second),
    }
}

/// Updates the status from `from`, which version `version` of the set has.
async fn update(
    api: &Api<StoredObject>,
    set: &StoredApplicationSet,
    version: &str,
    from: &Status,
    wanted: &Status,
) -> Result<Written, kube::Error> {
    let operations = patch(from, wanted);
    if operations.is_empty() {
        return Ok(Written::Unchanged);
    }
    let error = match send(api, set, version, operations.clone()).await {
        Ok(object) => return Ok(changed(object)),
        Err(error) if has_code(&error, 409) => return Ok(Written::Conflict),
        Err(error) if has_code(&error, 404) || has_code(&error, 422) => error,
        Err(error) => return Err(error),
    };
    // 404: the set, or its status subresource, does not exist. 422: the result is invalid, or
    // an operation does not fit, since the object is another one: it was changed, or the API
    // server reads it with another definition than when it was observed.
    let Some(newest) = existing_object(api.get(&set.id.name).await)? else {
        return Ok(Written::Conflict);
    };
    if newest.resource_version() != version || newest.uid() != set.id.uid {
        return Ok(Written::Conflict);
    }
    let again = patch(&status_of(&newest), wanted);
    if again == operations && has_code(&error, 422) {
        return Err(error);
    }
    if again.is_empty() {
        return Ok(changed(newest));
    }
    match send(api, set, version, again).await {
        Ok(object) => Ok(changed(object)),
        Err(error) if has_code(&error, 409) => Ok(Written::Conflict),
        Err(error) => Err(error),
    }
}

async fn send(
    api: &Api<StoredObject>,
    set: &StoredApplicationSet,
    version: &str,
    operations: Vec<PatchOperation>,
) -> Result<StoredObject, kube::Error> {
    let mut all = vec![replace("/metadata/resourceVersion", version.into())];
    all.extend(operations);
    let (params, patch) = (PatchParams::default(), Patch::Json::<Value>(json_patch::Patch(all)));
    api.patch_status(&set.id.name, &params, &patch).await
}

fn changed(object: StoredObject) -> Written {
    let status = Box::new(status_of(&object));
    Written::Changed(object, status)
}

fn status_of(object: &StoredObject) -> Status {
    Status::read(&object.status())
}

/// The operations that change one status into another; empty when they are equal.
fn patch(old: &Status, new: &Status) -> Vec<PatchOperation> {
    if !old.exists {
        let is_empty = *new == Status { exists: true, ..Status::default() };
        return if is_empty { Vec::new() } else { vec![add("/status", new.to_json())] };
    }
    let mut operations = Vec::new();
    let kept = new.storage.condition_of(new.rollout.as_ref());
    if old.conditions != new.conditions || old.storage.condition() != kept.as_ref() {
        operations.push(add("/status/conditions", json!(new.stored_conditions())));
    }
    for (field, old, new) in [
        ("health", json!(old.health), json!(new.health)),
        ("resourcesCount", json!(old.resources_count), json!(new.resources_count)),
    ] {
        operations.extend(field_operation(&format!("/status/{field}"), &old, &new));
    }
    operations.extend(match (&old.entries, &new.entries) {
        (None, None) => Vec::new(),
        (Some(_), None) => vec![remove("/status/applicationStatus".to_owned())],
        (old_entries, Some(new_entries)) => {
            let field = List {
                path: "/status/applicationStatus",
                is_exact: old.entries_are_exact && old_entries.is_some(),
                name: |entry: &Entry| &entry.application,
                json: |entry: &Entry| new.entry_json(entry),
            };
            field.operations(old_entries.as_deref().unwrap_or_default(), new_entries)
        }
    });
    let resources = List {
        path: "/status/resources",
        is_exact: old.resources_are_exact,
        name: |resource: &StoredResource| &resource.name,
        json: |resource: &StoredResource| new.resource_json(resource),
    };
    operations.extend(resources.operations(&old.resources, &new.resources));
    let stored = json!(old.storage.field(&old.rollout));
    if !new.storage.only_offers() {
        operations.extend(rollout(&stored, &json!(new.storage.field(&new.rollout))));
    } else if !operations.is_empty() {
        operations.extend(field_operation("/status/rollout", &stored, &json!(new.rollout)));
    }
    operations
}

/// The fields of `status.rollout` one by one: most of them change rarely.
fn rollout(old: &Value, new: &Value) -> Vec<PatchOperation> {
    let (Value::Object(old_fields), Value::Object(new_fields)) = (old, new) else {
        return field_operation("/status/rollout", old, new).into_iter().collect();
    };
    let fields =
        old_fields.keys().chain(new_fields.keys().filter(|key| !old_fields.contains_key(*key)));
    let of = |fields: &serde_json::Map<String, Value>, key: &String| {
        fields.get(key).cloned().unwrap_or_default()
    };
    let operation = |key: &String| {
        field_operation(
            &format!("/status/rollout/{key}"),
            &of(old_fields, key),
            &of(new_fields, key),
        )
    };
    fields.filter_map(operation).collect()
}

/// Null counts as an absent field.
fn field_operation(path: &str, old: &Value, new: &Value) -> Option<PatchOperation> {
    match (old, new) {
        (old, new) if old == new => None,
        (_, Value::Null) => Some(remove(path.to_owned())),
        (_, new) => Some(add(path, new.clone())),
    }
}

/// A list of objects with unique names, by name.
struct List<T, J> {
    path: &'static str,
    /// Whether the stored list equals the serialized form of these elements.
    is_exact: bool,
    name: fn(&T) -> &str,
    /// Its serialized form, with what is not known of it.
    json: J,
}

impl<T: PartialEq, J: Fn(&T) -> Value> List<T, J> {
    fn operations(&self, old: &[T], new: &[T]) -> Vec<PatchOperation> {
        let whole = || vec![add(self.path, new.iter().map(&self.json).collect())];
        if !self.is_exact {
            return whole();
        }
        let mut operations = Vec::new();
        let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
        // The index in the list after the previous operations.
        let mut at = 0;
        loop {
            let path = || format!("{}/{at}", self.path);
            match (old.peek(), new.peek()) {
                (None, None) => return operations,
                (Some(gone), added)
                    if added.is_none_or(|new| (self.name)(gone) < (self.name)(new)) =>
                {
                    operations.push(remove(path()));
                    old.next();
                    continue;
                }
                (gone, Some(added))
                    if gone.is_none_or(|old| (self.name)(added) < (self.name)(old)) =>
                {
                    operations.push(add(&path(), (self.json)(added)));
                    new.next();
                }
                _ => {
                    if let (Some(old), Some(new)) = (old.next(), new.next())
                        && old != new
                    {
                        operations.extend(changes(&path(), &(self.json)(old), &(self.json)(new)));
                    }
                }
            }
            at += 1;
            if operations.len() > MOST_OPERATIONS {
                return whole();
            }
        }
    }
}

/// The fields of an element that differ.
fn changes(path: &str, old: &Value, new: &Value) -> Vec<PatchOperation> {
    let fields = |value: &Value| -> HashMap<String, Value> {
        value.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect()
    };
    let (mut old, mut new) = (fields(old), fields(new));
    let mut keys: Vec<String> = old.keys().chain(new.keys()).cloned().collect();
    keys.sort();
    keys.dedup();
    let change = |key: String| {
        let (old, new) =
            (old.remove(&key).unwrap_or_default(), new.remove(&key).unwrap_or_default());
        field_operation(&format!("{path}/{key}"), &old, &new)
    };
    keys.into_iter().filter_map(change).collect()
}

fn pointer(path: &str) -> PointerBuf {
    // All paths are created here, from names without special characters.
    PointerBuf::parse(path).unwrap_or_default()
}

fn add(path: &str, value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path: pointer(path), value })
}

fn replace(path: &str, value: Value) -> PatchOperation {
    PatchOperation::Replace(ReplaceOperation { path: pointer(path), value })
}

fn remove(path: String) -> PatchOperation {
    PatchOperation::Remove(RemoveOperation { path: pointer(&path) })
}

/// Whether the API server rejected a write because the object has changed or was deleted:
/// in both cases, reconcile again.
pub fn is_conflict(error: &kube::Error) -> bool {
    has_code(error, 409) || is_gone(error)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn status(value: &Value) -> Status {
        Status::read(&value["status"])
    }

    fn entry(name: &str, phase: &str) -> Value {
        json!({
            "application": name, "lastTransitionTime": "2026-01-02T03:04:05Z", "message": "m",
            "status": phase, "step": "1", "targetRevisions": ["r"],
        })
    }

    #[test]
    fn a_patch_carries_what_changed_alone() {
        let entries = json!([entry("a", "Waiting"), entry("b", "Waiting")]);
        let old =
            json!({"status": {"conditions": [], "resources": [], "applicationStatus": entries}});
        let mut new = old.clone();
        assert_eq!(patch(&status(&old), &status(&new)), []);
        new["status"]["applicationStatus"][1]["status"] = "Pending".into();
        let got = serde_json::to_value(patch(&status(&old), &status(&new))).unwrap();
        let want = json!([{"op": "add", "path": "/status/applicationStatus/1/status", "value": "Pending"}]);
        assert_eq!(got[0], want[0]);
    }

    #[test]
    fn a_list_with_unknown_content_is_replaced_as_a_whole() {
        let mut odd = entry("a", "Waiting");
        odd["more"] = json!(1);
        let old = json!({"status": {"applicationStatus": [odd, 7]}});
        let new = json!({"status": {"applicationStatus": [entry("a", "Waiting")]}});
        let got = patch(&status(&old), &status(&new));
        let whole = |one: &PatchOperation| *one.path() == "/status/applicationStatus";
        assert!(got.iter().any(whole), "{got:?}");
    }

    fn fleet() -> impl Strategy<Value = Value> {
        let phase = prop_oneof![Just("Waiting"), Just("Pending"), Just("Healthy")];
        let entries = proptest::collection::btree_map("[a-f]{1,2}", phase, 0..8);
        (entries.clone(), entries, any::<bool>(), 0..3_u8).prop_map(
            |(entries, resources, listed, step)| {
                let entries: Value =
                    entries.iter().map(|(name, phase)| entry(name, phase)).collect();
                let resource = |(name, health): (&String, &&str)| {
                    json!({
                        "group": "argoproj.io", "version": "v1alpha1", "kind": "Application",
                        "namespace": "ns", "name": name, "health": {"status": health},
                    })
                };
                let resources: Value = resources.iter().map(resource).collect();
                let mut status = json!({
                    "conditions": [
                        {"type": "T", "status": step.to_string(), "reason": "R", "message": ""},
                    ],
                    "resources": resources,
                    "rollout": {
                        "step": step, "steps": 3, "progress": "", "waitingFor": [], "message": "",
                    },
                });
                if listed {
                    status["applicationStatus"] = entries;
                    status["rollout"]["listed"] = json!(1);
                }
                json!({ "status": status })
            },
        )
    }

    proptest! {
        #[test]
        fn a_patch_leads_from_one_status_to_the_other(from in fleet(), to in fleet()) {
            let mut got = from.clone();
            let operations = patch(&status(&from), &status(&to));
            json_patch::patch(&mut got, &operations).unwrap();
            prop_assert_eq!(got, to);
        }

        #[test]
        fn also_from_none(to in fleet()) {
            let mut got = json!({});
            json_patch::patch(&mut got, &patch(&Status::default(), &status(&to))).unwrap();
            prop_assert_eq!(got, to);
        }
    }
}
