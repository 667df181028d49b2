//! CustomResourceDefinitions: checks, conditions, and the kinds that they serve.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::clock::seconds;
use super::errors::{Cause, Causes};
use super::kinds::{Column, Custom, Generation, Kind, Scale};
use super::place::{Key, Place, ResourceKey};
use super::schema::Schema;
use super::state::State;
use super::store::Store;
use super::stored::is_deleting;

/// Finalizer that holds a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Fills in what may be left out: names, scope of conversion, column defaults.
pub(crate) fn default(object: &mut Value) {
    if !object["spec"]["names"].is_object() {
        // Refused by validation, which says why.
        return;
    }
    let kind = object["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
    let names = &mut object["spec"]["names"];
    if names["singular"].as_str().is_none_or(str::is_empty) {
        names["singular"] = json!(kind.to_lowercase());
    }
    if names["listKind"].as_str().is_none_or(str::is_empty) {
        names["listKind"] = json!(format!("{kind}List"));
    }
    if object["spec"]["conversion"].is_null() {
        object["spec"]["conversion"] = json!({"strategy": "None"});
    }
}

/// Checks a definition; the schema itself is checked for being structural only as far as is cheap.
pub(crate) fn validate(object: &Value) -> Vec<Cause> {
    let mut causes = Causes::default();
    let spec = &object["spec"];
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    for (field, value) in [("spec.group", &group), ("spec.names.plural", &plural)] {
        if value.is_empty() {
            causes.required(field, "");
        }
    }
    if text(&spec["names"]["kind"]).is_empty() {
        causes.required("spec.names.kind", "");
    }
    let name = &object["metadata"]["name"];
    let wanted = format!("{plural}.{group}");
    if *name != wanted.as_str() {
        causes.invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group");
    }
    let scope = &spec["scope"];
    if !matches!(scope.as_str(), Some("Namespaced" | "Cluster")) {
        causes.unsupported("spec.scope", scope, &["Cluster", "Namespaced"]);
    }
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let stored = versions.iter().filter(|v| v["storage"] == true).count();
    if stored != 1 {
        let shown = &spec["versions"];
        causes.invalid(
            "spec.versions",
            shown,
            "must have exactly one version marked as storage version",
        );
    }
    for (i, version) in versions.iter().enumerate() {
        let schema = &version["schema"]["openAPIV3Schema"];
        if !schema.is_object() {
            let field = format!("spec.versions[{i}].schema.openAPIV3Schema");
            causes.required(field, "schemas are required");
        } else if schema["type"] != "object" {
            let field = format!("spec.versions[{i}].schema.openAPIV3Schema.type");
            causes.required(field, "must not be empty at the root");
        }
    }
    causes.0
}

/// Writes the conditions of an accepted definition and holds it with a finalizer.
pub(crate) fn establish(object: &mut Value, now: Timestamp) {
    let time = seconds(now);
    let names = object["spec"]["names"].clone();
    let versions: Vec<Value> = object["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|v| v["storage"] == true)
        .map(|v| v["name"].clone())
        .collect();
    let mut stored: Vec<Value> =
        object["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    for version in versions {
        if !stored.contains(&version) {
            stored.push(version);
        }
    }
    let since = |condition: &str| {
        object["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|c| c["type"] == condition && c["status"] == "True")
            .and_then(|c| c["lastTransitionTime"].as_str())
            .unwrap_or(&time)
            .to_owned()
    };
    let conditions = json!([
        {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found",
         "lastTransitionTime": since("NamesAccepted")},
        {"type": "Established", "status": "True", "reason": "InitialNamesAccepted",
         "message": "the initial names have been accepted", "lastTransitionTime": since("Established")},
    ]);
    object["status"] =
        json!({"acceptedNames": names, "conditions": conditions, "storedVersions": stored});
    let list = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !is_deleting(object) && !list.iter().any(|f| f == CLEANUP) {
        let mut list = list;
        list.push(json!(CLEANUP));
        object["metadata"]["finalizers"] = Value::Array(list);
    }
}

/// Says in the conditions that objects are being removed.
pub(crate) fn mark_terminating(place: &ResourceKey, object: &mut Value, now: Timestamp) {
    if *place != ResourceKey::definitions() {
        return;
    }
    if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
        conditions.push(json!({
            "type": "Terminating", "status": "True", "reason": "InstanceDeletionInProgress",
            "message": "CustomResource deletion is in progress", "lastTransitionTime": seconds(now),
        }));
    }
}

/// Serves the versions of a definition, instead of those served before.
pub(crate) fn register(state: &mut State, object: &Value) {
    let spec = &object["spec"];
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let words = |v: &Value| {
        v.as_array()
            .map(|l| l.iter().filter_map(|w| w.as_str().map(str::to_owned)).collect())
            .unwrap_or_default()
    };
    let (group, names) = (text(&spec["group"]), &spec["names"]);
    let plural = text(&names["plural"]);
    let now = state.store.revision();
    let former: Vec<Arc<Kind>> =
        state.kinds.iter().filter(|k| k.is(&group, &plural)).cloned().collect();
    let redefined_at = |version: &str, schema: &Value| {
        let same = former.iter().filter(|kind| kind.version == version);
        let mut same = same.filter_map(|kind| kind.custom.as_ref());
        let unchanged = same.find(|custom| custom.raw_schema.as_ref() == Some(schema));
        match (unchanged, former.is_empty()) {
            (Some(custom), _) => custom.redefined_at,
            (None, true) => 0,
            (None, false) => now,
        }
    };
    state.kinds.remove(&group, &plural);
    state.kinds_changed += 1;
    let storage = ResourceKey::new(&group, &plural);
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let stored = versions
        .iter()
        .find(|v| v["storage"] == true)
        .map(|v| text(&v["name"]))
        .unwrap_or_default();
    for version in versions.iter().filter(|v| v["served"] == true) {
        let raw = &version["schema"]["openAPIV3Schema"];
        let preserve = spec["preserveUnknownFields"] == true;
        let schema = (raw.is_object() && !preserve).then(|| Arc::new(Schema::read(raw)));
        let status = version["subresources"]["status"].is_object();
        state.kinds.insert(Kind {
            group: group.clone(),
            version: text(&version["name"]),
            kind: text(&names["kind"]),
            list_kind: text(&names["listKind"]),
            plural: plural.clone(),
            singular: text(&names["singular"]),
            short_names: words(&names["shortNames"]),
            categories: words(&names["categories"]),
            namespaced: spec["scope"] == "Namespaced",
            status,
            scale: scale(&version["subresources"]["scale"]),
            generation: if status { Generation::AllButStatus } else { Generation::AllButMetadata },
            storage: storage.clone(),
            stored_as: format!("{group}/{stored}"),
            custom: Some(Custom {
                schema,
                raw_schema: Some(raw.clone()),
                redefined_at: redefined_at(version["name"].as_str().unwrap_or_default(), raw),
                columns: columns(version),
            }),
        });
    }
    // So that a watch can begin before the first object.
    state.store.table_mut(&storage);
}

fn scale(raw: &Value) -> Option<Scale> {
    let steps = |path: &str| {
        path.split('.').filter(|p| !p.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    raw.is_object().then(|| Scale {
        spec: steps(raw["specReplicasPath"].as_str().unwrap_or_default()),
        status: steps(raw["statusReplicasPath"].as_str().unwrap_or_default()),
        selector: raw["labelSelectorPath"].as_str().map(steps),
    })
}

fn columns(version: &Value) -> Vec<Column> {
    let columns = version["additionalPrinterColumns"].as_array().into_iter().flatten();
    columns.filter_map(|column| Column::deserialize(column).ok()).collect()
}

/// Where the objects of a definition are, by its name: `PLURAL.GROUP`.
fn storage_of(name: &str) -> ResourceKey {
    let (plural, group) = name.split_once('.').unwrap_or((name, ""));
    ResourceKey::new(group, plural)
}

/// All objects of a definition.
pub(crate) fn contents(store: &Store, name: &str) -> Vec<Place> {
    let storage = storage_of(name);
    store
        .table(&storage)
        .map(|t| t.objects.keys().map(|k| (storage.clone(), k.clone())).collect())
        .unwrap_or_default()
}

/// Whether a definition has no objects.
pub(crate) fn is_empty(store: &Store, name: &str) -> bool {
    store.table(&storage_of(name)).is_none_or(|table| table.objects.is_empty())
}

/// The definition that waits for the last object of a resource to go.
pub(crate) fn definition_of(state: &State, storage: &ResourceKey) -> Option<Place> {
    let place = (
        ResourceKey::definitions(),
        Key::new("", format!("{}.{}", storage.resource, storage.group)),
    );
    let stored = state.store.get(&place.0, &place.1)?;
    stored.deleting.then_some(place)
}

/// Stops to serve the kinds of a definition that is gone.
pub(crate) fn removed(state: &mut State, place: &Place) {
    if place.0 == ResourceKey::definitions() {
        let storage = storage_of(&place.1.name);
        state.kinds.remove(&storage.group, &storage.resource);
        state.kinds_changed += 1;
    }
}

/// Groups that custom resources may not take over.
pub(crate) fn taken(state: &State, object: &Value) -> bool {
    let group = object["spec"]["group"].as_str().unwrap_or_default();
    let builtin: BTreeSet<&str> =
        state.kinds.iter().filter(|k| k.is_builtin()).map(|k| k.group.as_str()).collect();
    builtin.contains(group)
}
