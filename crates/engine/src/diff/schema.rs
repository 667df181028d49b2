//! Custom resources with a known definition: their defaults, and how their lists and maps
//! merge (SE-605).
//!
//! Reads the structural schema of a CustomResourceDefinition. Without one, a
//! custom resource is compared leniently; see `merge`.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::keys::ListKind;
use wavegate_api::kind::{GroupVersionKind, KindRef};

/// The schemas of custom resources, by group, version and kind.
#[derive(Clone, Debug, Default)]
pub struct Schemas(BTreeMap<(String, String, String), Arc<Value>>);

impl Schemas {
    /// Schemas that were read before.
    pub fn of_kinds(schemas: impl IntoIterator<Item = (GroupVersionKind, Arc<Value>)>) -> Self {
        let entry = |(kind, schema): (GroupVersionKind, Arc<Value>)| {
            ((kind.group, kind.version, kind.kind), schema)
        };
        Self(schemas.into_iter().map(entry).collect())
    }

    /// A digest that changes when one of them is read again.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (kind, schema) in &self.0 {
            kind.hash(&mut hasher);
            Arc::as_ptr(schema).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The schema of a kind.
    pub fn of(&self, kind: KindRef<'_>) -> Option<&Arc<Value>> {
        let key = (kind.group.to_owned(), kind.version.to_owned(), kind.kind.to_owned());
        self.0.get(&key)
    }
}

/// The schema of one field.
pub(crate) fn field<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let property = schema.get("properties").and_then(|properties| properties.get(name));
    property.or_else(|| schema.get("additionalProperties").filter(|schema| schema.is_object()))
}

/// The schema of a list's elements.
pub fn items_schema(schema: &Value) -> Option<&Value> {
    schema.get("items")
}

/// How a list merges.
pub fn list_kind(schema: &Value) -> ListKind {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let keys = keys.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
            ListKind::Keyed(keys.collect())
        }
        Some("set") => ListKind::Set,
        _ => ListKind::Atomic,
    }
}

/// Whether an object is atomic.
pub fn is_atomic_map(schema: &Value) -> bool {
    schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic")
}

/// Sets defaults as the API server does: absent fields only, parents before children, and
/// never below an absent field.
pub fn apply_defaults(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(map) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, schema) in properties.into_iter().flatten() {
                let default = schema.get("default").filter(|default| !default.is_null());
                if let Some(default) = default.filter(|_| !map.contains_key(name)) {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, child) in map.iter_mut() {
                if let Some(schema) = field(schema, name) {
                    apply_defaults(child, schema);
                }
            }
        }
        Value::Array(list) => {
            if let Some(schema) = items_schema(schema) {
                list.iter_mut().for_each(|element| apply_defaults(element, schema));
            }
        }
        _ => {}
    }
}

/// Sets the defaults of key fields in keyed lists only, so that elements can be
/// identified before they are merged.
pub fn apply_key_defaults(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(map) => {
            for (name, child) in map.iter_mut() {
                if let Some(schema) = field(schema, name) {
                    apply_key_defaults(child, schema);
                }
            }
        }
        Value::Array(list) => {
            let Some(element) = items_schema(schema) else { return };
            if let ListKind::Keyed(keys) = list_kind(schema) {
                for map in list.iter_mut().filter_map(Value::as_object_mut) {
                    fill_keys(map, &keys, element);
                }
            }
            list.iter_mut().for_each(|child| apply_key_defaults(child, element));
        }
        _ => {}
    }
}

fn fill_keys(map: &mut Map<String, Value>, keys: &[String], schema: &Value) {
    for key in keys.iter().filter(|key| !map.contains_key(*key)).cloned().collect::<Vec<_>>() {
        if let Some(default) = field(schema, &key).and_then(|schema| schema.get("default")) {
            map.insert(key, default.clone());
        }
    }
}
