//! A watched object, kept raw: nothing a user wrote is lost, and no object can
//! blind a watch by a field of the wrong type.

use std::borrow::Cow;
use std::sync::Arc;

use kube::Resource;
use kube::api::{ApiResource, ObjectMeta};
use kube::core::DynamicResourceScope;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A raw object with its metadata typed besides. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Object {
    meta: Arc<ObjectMeta>,
    value: Arc<Value>,
}

impl Object {
    /// The object as the API server gave it, less `managedFields`, which are
    /// large and which no decision about these kinds needs.
    pub fn value(&self) -> &Arc<Value> {
        &self.value
    }

    /// Its name; empty only for an object that no API server gave.
    pub fn name(&self) -> &str {
        self.meta.name.as_deref().unwrap_or_default()
    }

    /// Its namespace; empty when it has none.
    pub fn namespace(&self) -> &str {
        self.meta.namespace.as_deref().unwrap_or_default()
    }

    /// Its resource version.
    pub fn resource_version(&self) -> &str {
        self.meta.resource_version.as_deref().unwrap_or_default()
    }
}

impl From<Value> for Object {
    fn from(mut value: Value) -> Self {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        // Metadata comes from the API server, which checks it; of anything else
        // the parts that matter are read one by one.
        let meta = ObjectMeta::deserialize(&value["metadata"]).unwrap_or_else(|_| {
            let text = |field: &str| value["metadata"][field].as_str().map(str::to_owned);
            ObjectMeta {
                name: text("name"),
                namespace: text("namespace"),
                uid: text("uid"),
                resource_version: text("resourceVersion"),
                ..ObjectMeta::default()
            }
        });
        Self { meta: Arc::new(meta), value: Arc::new(value) }
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
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
