//! A watched object, kept as compact JSON: no field is lost, and a field of the wrong
//! type does not break the watch.
//!
//! A tree of JSON values takes about eight times the memory of its text, so it is only
//! created when needed.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use kube::{Api, Client};
use serde::de::{DeserializeOwned, MapAccess};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use wavegate_api::field_managers::about_requests;
use wavegate_api::{ObjectKey, policy, run};

/// The bytes of most objects.
const SMALL: usize = 4096;

/// A raw object: its text and its identity. Cheap to clone.
#[derive(Clone)]
pub struct StoredObject {
    /// Only name, namespace, UID, resource version and owners.
    meta: Arc<ObjectMeta>,
    json: Arc<[u8]>,
}

impl fmt::Debug for StoredObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({} at {})", self.key(), self.resource_version())
    }
}

impl StoredObject {
    /// Parses the object, each time. Of its `managedFields`, which are large, it has what is about
    /// requests of people ([`about_requests`]).
    pub fn parse(&self) -> Value {
        // Serialized by this process.
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// Parses its metadata and its status, without the spec, which has megabytes in a set
    /// that lists thousands of elements.
    pub fn parse_status(&self) -> Value {
        self.read::<WithoutSpec>().map_or(Value::Null, |parts| json!(parts))
    }

    /// Parses its status; null if it has none.
    pub fn status(&self) -> Value {
        self.read::<WithoutSpec>().ok().and_then(|parts| parts.status).unwrap_or_default()
    }

    /// Its generation.
    pub fn generation(&self) -> Option<i64> {
        self.read_leniently::<Generation>().metadata.generation
    }

    /// When it was created, as written: in seconds and UTC, so that texts compare like times.
    pub fn created(&self) -> String {
        self.read_leniently::<Creation>().metadata.creation_timestamp
    }

    /// The object with its tree.
    pub fn parsed(&self) -> ParsedObject {
        ParsedObject { value: Arc::new(self.parse()), object: self.clone() }
    }

    /// Some of its fields, without creating the tree.
    ///
    /// # Errors
    ///
    /// When a field has another type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.json)
    }

    /// As much of the fields as has the right types, without creating the tree of an object that
    /// is as it should be.
    pub fn read_leniently<T: DeserializeOwned + Default>(&self) -> T {
        self.read().unwrap_or_else(|_| wavegate_api::read_leniently(&self.parse()))
    }

    /// Its JSON.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace(), self.name())
    }

    /// What is another after any change: UID and resource version.
    pub fn version(&self) -> (String, String) {
        (self.uid().to_owned(), self.resource_version().to_owned())
    }

    /// Its name; never empty for objects of an API server.
    pub fn name(&self) -> &str {
        self.meta.name.as_deref().unwrap_or_default()
    }

    /// Its namespace; empty if cluster-scoped.
    pub fn namespace(&self) -> &str {
        self.meta.namespace.as_deref().unwrap_or_default()
    }

    /// Its UID.
    pub fn uid(&self) -> &str {
        self.meta.uid.as_deref().unwrap_or_default()
    }

    /// Its owners.
    pub fn owners(&self) -> &[OwnerReference] {
        self.meta.owner_references.as_deref().unwrap_or_default()
    }

    /// Its resource version.
    pub fn resource_version(&self) -> &str {
        self.meta.resource_version.as_deref().unwrap_or_default()
    }
}

/// What [`Object::parse_status`] parses.
#[derive(Deserialize, Serialize)]
struct WithoutSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
}

/// What [`Object::generation`] reads.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Generation {
    metadata: MetadataWithGeneration,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MetadataWithGeneration {
    generation: Option<i64>,
}

/// What [`StoredObject::created`] reads.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Creation {
    metadata: MetadataWithCreation,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MetadataWithCreation {
    creation_timestamp: String,
}

impl From<Value> for StoredObject {
    fn from(value: Value) -> Self {
        // Fails only for values that are not objects.
        serde_json::from_str(&value.to_string())
            .unwrap_or_else(|_| Self { meta: Arc::default(), json: Arc::from(&b"null"[..]) })
    }
}

impl<'de> Deserialize<'de> for StoredObject {
    /// Copies the text as it is, in one go: this is done for each event of each watch, so no
    /// tree is made, and no value is read. Works with `serde_json` and a text in memory only.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ReadObject)
    }
}

struct ReadObject;

impl<'de> de::Visitor<'de> for ReadObject {
    type Value = StoredObject;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    /// Takes the text without most `managedFields`, and the identity.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StoredObject, A::Error> {
        let (mut meta, mut json) = (ObjectMeta::default(), Vec::with_capacity(SMALL));
        json.push(b'{');
        while let Some(Key(field)) = map.next_key()? {
            let value: &RawValue = map.next_value()?;
            begin(&mut json, &field).map_err(de::Error::custom)?;
            match &*field {
                "metadata" => {
                    metadata(value, &mut meta, &mut json).map_err(de::Error::custom)?;
                }
                _ => json.extend_from_slice(value.get().as_bytes()),
            }
        }
        json.push(b'}');
        Ok(StoredObject { meta: Arc::new(meta), json: json.into() })
    }
}

impl Serialize for StoredObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.parse().serialize(serializer)
    }
}

/// A type whose kind is known at run time, with its metadata in `meta`.
macro_rules! dynamic_resource {
    ($name:ident, $meta_mut:expr) => {
        impl kube::Resource for $name {
            type DynamicType = kube::api::ApiResource;
            type Scope = kube::core::DynamicResourceScope;

            fn kind(resource: &kube::api::ApiResource) -> std::borrow::Cow<'_, str> {
                resource.kind.as_str().into()
            }

            fn group(resource: &kube::api::ApiResource) -> std::borrow::Cow<'_, str> {
                resource.group.as_str().into()
            }

            fn version(resource: &kube::api::ApiResource) -> std::borrow::Cow<'_, str> {
                resource.version.as_str().into()
            }

            fn api_version(resource: &kube::api::ApiResource) -> std::borrow::Cow<'_, str> {
                resource.api_version.as_str().into()
            }

            fn plural(resource: &kube::api::ApiResource) -> std::borrow::Cow<'_, str> {
                resource.plural.as_str().into()
            }

            fn meta(&self) -> &kube::api::ObjectMeta {
                &self.meta
            }

            fn meta_mut(&mut self) -> &mut kube::api::ObjectMeta {
                let meta_mut: fn(&mut Self) -> &mut kube::api::ObjectMeta = $meta_mut;
                meta_mut(self)
            }
        }
    };
}
pub(super) use dynamic_resource;

dynamic_resource!(StoredObject, |object| Arc::make_mut(&mut object.meta));

/// An object with its tree, for the duration of a reconcile.
#[derive(Clone, Debug)]
pub struct ParsedObject {
    object: StoredObject,
    value: Arc<Value>,
}

impl ParsedObject {
    /// The tree.
    pub fn value(&self) -> &Arc<Value> {
        &self.value
    }
}

impl Deref for ParsedObject {
    type Target = StoredObject;

    fn deref(&self) -> &StoredObject {
        &self.object
    }
}

/// The fields of a map, with the text of each value.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Deserialize<'a> for Fields<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ReadFields)
    }
}

struct ReadFields;

impl<'de> de::Visitor<'de> for ReadFields {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(Key(field)) = map.next_key()? {
            fields.push((field, map.next_value()?));
        }
        Ok(Fields(fields))
    }
}

/// The name of a field, borrowed unless it contains escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// The metadata without most `managedFields`.
fn metadata(
    text: &RawValue,
    meta: &mut ObjectMeta,
    json: &mut Vec<u8>,
) -> Result<(), serde_json::Error> {
    json.push(b'{');
    for (field, value) in serde_json::from_str::<Fields<'_>>(text.get())?.0 {
        let part = match &*field {
            "managedFields" => {
                if let Some(kept) = about_requests(value) {
                    begin(json, &field)?;
                    serde_json::to_writer(&mut *json, &kept)?;
                }
                continue;
            }
            "name" => Some(&mut meta.name),
            "namespace" => Some(&mut meta.namespace),
            "uid" => Some(&mut meta.uid),
            "resourceVersion" => Some(&mut meta.resource_version),
            "ownerReferences" => {
                meta.owner_references = serde_json::from_str(value.get()).unwrap_or_default();
                None
            }
            _ => None,
        };
        begin(json, &field)?;
        json.extend_from_slice(value.get().as_bytes());
        if let Some(part) = part {
            // A field of another type must not break the watch.
            *part = serde_json::from_str(value.get()).unwrap_or_default();
        }
    }
    json.push(b'}');
    Ok(())
}

/// Writes the name of the next field of a map.
fn begin(json: &mut Vec<u8>, field: &str) -> Result<(), serde_json::Error> {
    if json.last() != Some(&b'{') {
        json.push(b',');
    }
    serde_json::to_writer(&mut *json, field)?;
    json.push(b':');
    Ok(())
}

/// The API resource of a kind of the control plane: of Argo CD, or of Wavegate.
pub fn kind_resource(kind: &str) -> ApiResource {
    let (group, version, api_version) = match kind {
        policy::POLICY | run::RUN => (
            wavegate_api::WAVEGATE_GROUP,
            wavegate_api::WAVEGATE_VERSION,
            wavegate_api::WAVEGATE_API_VERSION,
        ),
        _ => (wavegate_api::GROUP, wavegate_api::VERSION, wavegate_api::API_VERSION),
    };
    let plural = match kind {
        policy::POLICY => policy::POLICIES.to_owned(),
        run::RUN => run::RUNS.to_owned(),
        _ => format!("{}s", kind.to_lowercase()),
    };
    let [group, version, api_version, kind] =
        [group, version, api_version, kind].map(str::to_owned);
    ApiResource { group, version, api_version, kind, plural }
}

/// The API of such a kind, in one or all namespaces.
pub fn kind_api(
    client: &Client,
    namespace: Option<&str>,
    resource: &ApiResource,
) -> Api<StoredObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

/// An API for one object; cluster-scoped when the namespace is empty.
pub fn object_api(client: &Client, resource: &ApiResource, namespace: &str) -> Api<DynamicObject> {
    match namespace {
        "" => Api::all_with(client.clone(), resource),
        namespace => Api::namespaced_with(client.clone(), namespace, resource),
    }
}

#[cfg(test)]
mod tests {
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
        for object in [serde_json::from_str::<StoredObject>(&text).unwrap(), value.clone().into()] {
            assert_eq!(object.parse(), value);
            assert_eq!(object.parse_status(), json!({"metadata": value["metadata"]}));
            assert_eq!(object.key().to_string(), "ns/a");
            assert_eq!((object.uid(), object.resource_version()), ("u", "7"));
            assert_eq!(serde_json::to_value(&object).unwrap(), value);
        }
    }

    #[test]
    fn managed_fields_about_requests_are_kept_st_071() {
        let fields = |name: &str| json!({"f:metadata": {"f:annotations": {name: {}}}});
        let kept = json!({"manager": "a", "fieldsV1": fields("f:wavegate.dev/paused")});
        let other = json!({"manager": "b", "fieldsV1": fields("f:other")});
        let object: StoredObject =
            json!({"metadata": {"managedFields": [other, kept], "name": "a"}}).into();
        let expected = json!({"metadata": {"managedFields": [kept], "name": "a"}});
        assert_eq!(object.parse(), expected);
    }

    #[test]
    fn fields_of_other_types_do_not_break_a_watch() {
        let text = r#"{"metadata": {"name": "a", "labels": 5, "uid": 7}, "spec": "x"}"#;
        let object: StoredObject = serde_json::from_str(text).unwrap();
        assert_eq!((object.name(), object.uid()), ("a", ""));
        assert_eq!(object.parse()["spec"], "x");
        assert!(serde_json::from_str::<StoredObject>("[]").is_err());
        assert_eq!(StoredObject::from(json!("x")).parse(), Value::Null);
    }
}
