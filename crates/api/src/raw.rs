//! The one way to read fields of raw objects.
//!
//! Objects are untrusted: what is absent or of another type than expected reads
//! as empty, never as an error. Where the difference matters, read the field as
//! a type ([`super::read_typed()`]).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::resource_key::split_api_version;

/// An owner of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerReference<'a> {
    /// Group and version.
    pub api_version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Name.
    pub name: &'a str,
    /// UID.
    pub uid: &'a str,
    /// Whether it is the one that controls the object.
    pub is_controller: bool,
}

/// Reads fields of a raw object.
pub trait Raw {
    /// The text at a JSON pointer such as `/status/sync/status`.
    fn text(&self, pointer: &str) -> &str;

    /// The text of a direct field.
    fn field(&self, name: &str) -> &str;

    /// The items of the list at a JSON pointer.
    fn items(&self, pointer: &str) -> &[Value];

    /// The point in time at a JSON pointer.
    fn time(&self, pointer: &str) -> Option<Timestamp> {
        self.text(pointer).parse().ok()
    }

    /// API group, empty for the core group.
    fn group(&self) -> &str {
        split_api_version(self.field("apiVersion")).0
    }

    /// API version within the group.
    fn version(&self) -> &str {
        split_api_version(self.field("apiVersion")).1
    }

    /// Kind.
    fn kind(&self) -> &str {
        self.field("kind")
    }

    /// Name.
    fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// What a name is generated from.
    fn generate_name(&self) -> &str {
        self.text("/metadata/generateName")
    }

    /// Namespace.
    fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }

    /// UID.
    fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    /// Resource version.
    fn resource_version(&self) -> &str {
        self.text("/metadata/resourceVersion")
    }

    /// Generation, 0 when absent.
    fn generation(&self) -> i64;

    /// Its status; null if it has none.
    fn status(&self) -> &Value;

    /// All labels.
    fn labels(&self) -> Option<&Map<String, Value>>;

    /// One label.
    fn label(&self, key: &str) -> Option<&str> {
        self.labels()?.get(key)?.as_str()
    }

    /// All annotations.
    fn annotations(&self) -> Option<&Map<String, Value>>;

    /// One annotation.
    fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations()?.get(key)?.as_str()
    }

    /// The finalizers.
    fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.items("/metadata/finalizers").iter().filter_map(Value::as_str)
    }

    /// The owner references.
    fn owners(&self) -> impl Iterator<Item = OwnerReference<'_>> {
        self.items("/metadata/ownerReferences").iter().map(|owner| OwnerReference {
            api_version: owner.field("apiVersion"),
            kind: owner.field("kind"),
            name: owner.field("name"),
            uid: owner.field("uid"),
            is_controller: owner.get("controller") == Some(&Value::Bool(true)),
        })
    }

    /// The desired state, as it is written; null for none.
    fn spec(&self) -> &Value;

    /// Whether its deletion was accepted, and finalizers still hold it.
    fn is_deleting(&self) -> bool {
        !self.text("/metadata/deletionTimestamp").is_empty()
    }

    /// When its deletion was accepted.
    fn deletion_timestamp(&self) -> Option<Timestamp> {
        self.time("/metadata/deletionTimestamp")
    }
}

impl Raw for Value {
    fn text(&self, pointer: &str) -> &str {
        self.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn field(&self, name: &str) -> &str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn items(&self, pointer: &str) -> &[Value] {
        self.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    fn generation(&self) -> i64 {
        self.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default()
    }

    fn spec(&self) -> &Value {
        self.get("spec").unwrap_or(&Value::Null)
    }

    fn status(&self) -> &Value {
        self.get("status").unwrap_or(&Value::Null)
    }

    fn labels(&self) -> Option<&Map<String, Value>> {
        self.get("metadata")?.get("labels")?.as_object()
    }

    fn annotations(&self) -> Option<&Map<String, Value>> {
        self.get("metadata")?.get("annotations")?.as_object()
    }
}

/// The texts of labels or annotations; what is no text is left out.
pub fn texts_of(map: Option<&Map<String, Value>>) -> BTreeMap<String, String> {
    let fields = map.into_iter().flatten();
    fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// The object in a field, to be changed: what is absent or of another type becomes an empty one.
pub fn object_at<'v>(
    fields: &'v mut Map<String, Value>,
    field: &str,
) -> Option<&'v mut Map<String, Value>> {
    let entry = fields.entry(field).or_insert(Value::Null);
    if !entry.is_object() {
        *entry = Value::Object(Map::new());
    }
    entry.as_object_mut()
}

/// Changes the metadata of an object, if it has some.
pub fn edit_metadata(object: &mut Value, change: impl FnOnce(&mut Map<String, Value>)) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        change(metadata);
    }
}

/// Sets an annotation of an object or of a merge patch.
pub fn set_annotation(object: &mut Value, name: &str, text: &str) {
    let metadata = object.as_object_mut().and_then(|fields| object_at(fields, "metadata"));
    if let Some(annotations) = metadata.and_then(|fields| object_at(fields, "annotations")) {
        annotations.insert(name.to_owned(), text.into());
    }
}

/// Makes a write fail when the object has another version than the observed one.
pub fn require_version(write: &mut Value, observed: &Value) {
    let metadata = write.as_object_mut().and_then(|fields| object_at(fields, "metadata"));
    if let Some(metadata) = metadata {
        let version = Some(observed.resource_version()).filter(|version| !version.is_empty());
        metadata.insert("resourceVersion".to_owned(), version.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Raw;

    #[test]
    fn fields_are_read_and_oddities_are_empty() {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7",
                "labels": {"a/b": "1"}, "annotations": {"c": "2", "odd": 3},
                "finalizers": ["x", 4], "deletionTimestamp": "2026-01-01T00:00:00Z",
            },
            "status": {"conditions": [1, 2]},
        });
        assert_eq!((object.group(), object.version(), object.kind()), ("apps", "v1", "Deployment"));
        assert_eq!((object.namespace(), object.name()), ("shop", "web"));
        assert_eq!(
            (object.uid(), object.resource_version(), object.generate_name()),
            ("u", "7", "")
        );
        assert_eq!((object.label("a/b"), object.annotation("c")), (Some("1"), Some("2")));
        assert_eq!((object.annotation("odd"), object.label("none")), (None, None));
        assert_eq!(object.finalizers().collect::<Vec<_>>(), ["x"]);
        assert_eq!(object.items("/status/conditions").len(), 2);
        assert!(object.is_deleting() && object.deletion_timestamp().is_some());
        for odd in [Value::Null, json!([]), json!({"metadata": 1, "kind": {}, "apiVersion": []})] {
            assert_eq!((odd.name(), odd.kind(), odd.group(), odd.version()), ("", "", "", ""));
            assert!(odd.labels().is_none() && odd.finalizers().next().is_none());
            assert!(!odd.is_deleting() && odd.items("/metadata/finalizers").is_empty());
        }
    }
}
