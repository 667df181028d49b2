//! A watched object, kept as compact JSON: nothing a user wrote is lost, and no
//! object can blind a watch by a field of the wrong type.
//!
//! A tree of JSON values takes about eight times the memory of its text, so a
//! tree is made when it is needed and dropped after that.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use kube::api::{ApiResource, ObjectMeta};
use kube::core::DynamicResourceScope;
use kube::{Api, Client, Resource};
use serde::de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::api::ObjectKey;

/// A raw object: its text, and what identifies it. Cheap to clone.
#[derive(Clone)]
pub struct Object {
    /// Name, namespace, UID and resource version, and nothing else.
    meta: Arc<ObjectMeta>,
    json: Arc<[u8]>,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({} at {})", self.key(), self.resource_version())
    }
}

impl Object {
    /// The object as the API server gave it, less `managedFields`, which are
    /// large and which no decision about the kinds of the control plane needs.
    /// Made anew by each call.
    pub fn parse(&self) -> Value {
        // It was written here, by a serializer.
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// The object together with its tree.
    pub fn parsed(&self) -> Parsed {
        Parsed { value: Arc::new(self.parse()), object: self.clone() }
    }

    /// Some of its fields, without making a tree of the others.
    ///
    /// # Errors
    ///
    /// When a field is of another type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.json)
    }

    /// Its JSON.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace(), self.name())
    }

    /// Its name; empty only for an object that no API server gave.
    pub fn name(&self) -> &str {
        self.meta.name.as_deref().unwrap_or_default()
    }

    /// Its namespace; empty when it has none.
    pub fn namespace(&self) -> &str {
        self.meta.namespace.as_deref().unwrap_or_default()
    }

    /// Its UID.
    pub fn uid(&self) -> &str {
        self.meta.uid.as_deref().unwrap_or_default()
    }

    /// Its resource version.
    pub fn resource_version(&self) -> &str {
        self.meta.resource_version.as_deref().unwrap_or_default()
    }
}

impl From<Value> for Object {
    fn from(value: Value) -> Self {
        // Only what is no object at all cannot be taken over.
        Self::deserialize(value)
            .unwrap_or_else(|_| Self { meta: Arc::default(), json: Arc::from(&b"null"[..]) })
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (mut meta, mut json) = (ObjectMeta::default(), Vec::new());
        deserializer.deserialize_map(Whole { meta: &mut meta, json: &mut json })?;
        Ok(Self { meta: Arc::new(meta), json: json.into() })
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.parse().serialize(serializer)
    }
}

impl Resource for Object {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        Arc::make_mut(&mut self.meta)
    }
}

/// An object with its tree, for the time of a reconcile.
#[derive(Clone, Debug)]
pub struct Parsed {
    object: Object,
    value: Arc<Value>,
}

impl Parsed {
    /// The tree.
    pub fn value(&self) -> &Arc<Value> {
        &self.value
    }
}

impl Deref for Parsed {
    type Target = Object;

    fn deref(&self) -> &Object {
        &self.object
    }
}

/// Copies an object to JSON text, with a look at what identifies it.
struct Whole<'a> {
    meta: &'a mut ObjectMeta,
    json: &'a mut Vec<u8>,
}

impl<'de> de::Visitor<'de> for Whole<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.json.push(b'{');
        while let Some(field) = map.next_key::<String>()? {
            begin(self.json, &field)?;
            match field.as_str() {
                "metadata" => map.next_value_seed(Metadata(self.meta, self.json))?,
                _ => map.next_value_seed(Text(self.json))?,
            }
        }
        self.json.push(b'}');
        Ok(())
    }
}

/// Copies `metadata`, less `managedFields`. What is no map is dropped.
struct Metadata<'a>(&'a mut ObjectMeta, &'a mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Metadata<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> de::Visitor<'de> for Metadata<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the metadata of a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(meta, json) = self;
        json.push(b'{');
        while let Some(field) = map.next_key::<String>()? {
            if field == "managedFields" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            begin(json, &field)?;
            let from = json.len();
            map.next_value_seed(Text(json))?;
            let part = match field.as_str() {
                "name" => &mut meta.name,
                "namespace" => &mut meta.namespace,
                "uid" => &mut meta.uid,
                "resourceVersion" => &mut meta.resource_version,
                _ => continue,
            };
            *part = serde_json::from_slice(&json[from..]).unwrap_or_default();
        }
        json.push(b'}');
        Ok(())
    }
}

/// The name of the next field of a map.
fn begin<E: de::Error>(json: &mut Vec<u8>, field: &str) -> Result<(), E> {
    if json.last() != Some(&b'{') {
        json.push(b',');
    }
    write(json, &field)?;
    json.push(b':');
    Ok(())
}

fn write<T: Serialize, E: de::Error>(json: &mut Vec<u8>, value: &T) -> Result<(), E> {
    serde_json::to_writer(json, value).map_err(E::custom)
}

/// Copies any value to JSON text.
struct Text<'a>(&'a mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Text<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> de::Visitor<'de> for Text<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        write(self.0, &())
    }

    fn visit_none<E: de::Error>(self) -> Result<(), E> {
        write(self.0, &())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        write(self.0, &value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        write(self.0, &value)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        write(self.0, &value)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        write(self.0, &value)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<(), E> {
        write(self.0, &value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.0.push(b'[');
        let from = self.0.len();
        loop {
            let end = self.0.len();
            if end > from {
                self.0.push(b',');
            }
            if list.next_element_seed(Text(self.0))?.is_none() {
                self.0.truncate(end);
                break;
            }
        }
        self.0.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.0.push(b'{');
        while let Some(field) = map.next_key::<String>()? {
            begin(self.0, &field)?;
            map.next_value_seed(Text(self.0))?;
        }
        self.0.push(b'}');
        Ok(())
    }
}

/// The resource of one of our own kinds.
pub fn resource(kind: &str) -> ApiResource {
    ApiResource {
        group: crate::api::GROUP.to_owned(),
        version: crate::api::VERSION.to_owned(),
        api_version: crate::api::API_VERSION.to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
    }
}

/// The API of one of our kinds, in one namespace or all.
pub fn api(client: &Client, namespace: Option<&str>, resource: &ApiResource) -> Api<Object> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_but_managed_fields_is_lost() {
        let mut value = json!({
            "apiVersion": "v1", "kind": "X", "empty": {}, "none": [], "null": null,
            "metadata": {
                "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7",
                "managedFields": [{"manager": "kubectl"}], "labels": {"a": "\"\n\u{1f600}"},
            },
            "list": [1, -2, 1.5, 1e300, true, {"a": []}, [null, [{}]], 18_446_744_073_709_551_615_u64],
            "spec": {"managedFields": "kept", "metadata": {"managedFields": ["kept"]}},
        });
        let text = value.to_string();
        value["metadata"].as_object_mut().unwrap().remove("managedFields");
        for object in [serde_json::from_str::<Object>(&text).unwrap(), value.clone().into()] {
            assert_eq!(object.parse(), value);
            assert_eq!(object.key().to_string(), "ns/a");
            assert_eq!((object.uid(), object.resource_version()), ("u", "7"));
            assert_eq!(serde_json::to_value(&object).unwrap(), value);
        }
    }

    #[test]
    fn fields_of_other_types_do_not_blind_a_watch() {
        let text = r#"{"metadata": {"name": "a", "labels": 5, "uid": 7}, "spec": "x"}"#;
        let object: Object = serde_json::from_str(text).unwrap();
        assert_eq!((object.name(), object.uid()), ("a", ""));
        assert_eq!(object.parse()["spec"], "x");
        assert!(serde_json::from_str::<Object>("[]").is_err());
        assert_eq!(Object::from(json!("x")).parse(), Value::Null);
    }
}
