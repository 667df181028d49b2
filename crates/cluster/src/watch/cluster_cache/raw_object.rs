//! An object of a watch, whose tree is created only if the index keeps its content.

use std::collections::BTreeMap;

use kube::api::{ApiResource, ObjectMeta};
use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::watch::object::dynamic_resource;
use wavegate_api::Raw;

/// The text of an object, and the part of its metadata that the index needs of each.
#[derive(Clone, Debug)]
pub(super) struct RawObject {
    meta: ObjectMeta,
    text: Box<RawValue>,
}

impl RawObject {
    /// What identifies the object, its version, and what tracks it.
    pub fn head(&self) -> Value {
        let ObjectMeta { uid, resource_version, labels, annotations, .. } = &self.meta;
        json!({"metadata": {
            "uid": uid, "resourceVersion": resource_version, "labels": labels, "annotations": annotations,
        }})
    }

    /// The whole object; list items have no type.
    pub fn parse(&self, resource: &ApiResource) -> Value {
        // It was read as an object before.
        let mut object: Value = serde_json::from_str(self.text.get()).unwrap_or_default();
        if let (true, Some(fields)) = (object.kind().is_empty(), object.as_object_mut()) {
            fields.insert("apiVersion".to_owned(), resource.api_version.as_str().into());
            fields.insert("kind".to_owned(), resource.kind.as_str().into());
        }
        object
    }
}

impl<'de> Deserialize<'de> for RawObject {
    /// Copies the text as it is. Works with `serde_json` only.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let Head { metadata } = serde_json::from_str(text.get()).map_err(de::Error::custom)?;
        let Metadata { name, namespace, uid, resource_version, labels, annotations } = metadata;
        let meta = ObjectMeta {
            name,
            namespace,
            uid,
            resource_version,
            labels,
            annotations,
            ..ObjectMeta::default()
        };
        Ok(Self { meta, text })
    }
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

dynamic_resource!(RawObject, |object| &mut object.meta);

#[cfg(test)]
mod tests {
    use kube::Resource;

    use super::*;

    #[test]
    fn the_text_is_kept_and_an_item_of_a_list_gets_its_type() {
        let resource = ApiResource {
            group: "apps".into(),
            version: "v1".into(),
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            plural: "deployments".into(),
        };
        let item = json!({
            "metadata": {
                "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7",
                "annotations": {"x": "y"}, "managedFields": [{"manager": "m"}],
            },
            "spec": {"replicas": 1},
        });
        let object: RawObject = serde_json::from_str(&item.to_string()).unwrap();
        let head = json!({"metadata": {
            "uid": "u", "resourceVersion": "7", "labels": null, "annotations": {"x": "y"},
        }});
        assert_eq!((object.head(), object.meta().name.as_deref()), (head, Some("a")));
        let mut whole = item;
        whole["apiVersion"] = "apps/v1".into();
        whole["kind"] = "Deployment".into();
        assert_eq!(object.parse(&resource), whole);
    }
}
