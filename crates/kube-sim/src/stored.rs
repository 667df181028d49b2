//! One object: as a tree while it is read or written, as JSON while it is stored.
//!
//! A tree of values takes about eight times the memory of its JSON, and most
//! stored objects are not read field by field before the next write. So only
//! the JSON is kept, with the few fields that lists, watches and the garbage
//! collector need; the tree is made for each write and dropped after it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use hyper::body::Bytes;
use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value, json};

/// An object that is read or written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Object {
    /// Everything but `metadata.managedFields`.
    pub value: Value,
    /// `metadata.managedFields` as JSON: half of the text of many objects, and
    /// most writes leave it as it is. `None` when there is no such field.
    pub managed: Option<Bytes>,
}

impl Object {
    /// Takes a whole object apart.
    pub fn new(mut value: Value) -> Self {
        let managed = value
            .get_mut("metadata")
            .and_then(Value::as_object_mut)
            .and_then(|meta| meta.remove("managedFields"))
            .map(|fields| to_json(&fields).into());
        Self { value, managed }
    }

    /// The whole object as one value.
    pub fn into_whole(mut self) -> Value {
        if let Some(managed) = &self.managed {
            // Written by ourselves: it can be read.
            self.value["metadata"]["managedFields"] =
                serde_json::from_slice(managed).unwrap_or_default();
        }
        self.value
    }
}

/// A stored object. Never changed: a write puts another one in its place.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The whole object, shared by all who read or watch. It begins with
    /// `apiVersion`, `kind` and `metadata`, in which `managedFields` come last.
    pub json: Bytes,
    /// Where `metadata` begins, with its name.
    body: u32,
    metadata: Range<u32>,
    /// Empty when there are none.
    managed: Range<u32>,
    pub revision: u64,
    pub uid: Box<str>,
    pub deleting: bool,
    labels: Box<[(Box<str>, Box<str>)]>,
    pub finalizers: Box<[Box<str>]>,
    pub owners: Box<[Owner]>,
}

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub uid: Box<str>,
    /// Whether the owner's deletion in the foreground waits for this object.
    pub blocks: bool,
}

impl Stored {
    pub fn new(object: &Object) -> Arc<Self> {
        Self::from_text(Text::write(object), &object.value)
    }

    /// From the text that was written of a value.
    pub fn from_text(text: Text, value: &Value) -> Arc<Self> {
        let meta = &value["metadata"];
        let labels = meta["labels"].as_object().into_iter().flatten();
        let owners = meta["ownerReferences"].as_array().into_iter().flatten();
        Arc::new(Self {
            // Without the spare capacity that it was written with.
            json: text.json.into_boxed_slice().into(),
            body: text.body,
            metadata: text.metadata,
            managed: text.managed,
            revision: string(&meta["resourceVersion"]).parse().unwrap_or(0),
            uid: string(&meta["uid"]).into(),
            deleting: is_deleting(value),
            labels: labels
                .map(|(key, value)| (key.as_str().into(), string(value).into()))
                .collect(),
            finalizers: finalizers(value).into_iter().map(Box::from).collect(),
            owners: owners
                .map(|owner| Owner {
                    uid: string(&owner["uid"]).into(),
                    blocks: owner["blockOwnerDeletion"] == true,
                })
                .collect(),
        })
    }

    /// The object as a tree.
    pub fn object(&self) -> Object {
        Object { value: self.value(), managed: self.managed() }
    }

    /// Its managed fields as JSON.
    pub fn managed(&self) -> Option<Bytes> {
        let managed = self.managed.start as usize..self.managed.end as usize;
        (!managed.is_empty()).then(|| self.json.slice(managed))
    }

    /// The object as a tree, without its managed fields.
    pub fn value(&self) -> Value {
        let mut json = serde_json::Deserializer::from_slice(&self.json);
        // Written by ourselves: it can be read.
        Part::Object.deserialize(&mut json).map(Value::Object).unwrap_or_default()
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(name, _)| &**name == key).map(|(_, value)| &**value)
    }

    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| &**finalizer == name)
    }

    /// Whether the object is stored under this `apiVersion`.
    pub fn is_of(&self, api_version: &str) -> bool {
        let head = self.json.strip_prefix(b"{\"apiVersion\":\"").unwrap_or_default();
        head.strip_prefix(api_version.as_bytes()).is_some_and(|rest| rest.starts_with(b"\""))
    }

    /// `metadata` as JSON.
    pub fn metadata(&self) -> &[u8] {
        &self.json[self.metadata.start as usize..self.metadata.end as usize]
    }

    /// The object as JSON, as [`partial`] makes it.
    pub fn partial_json(&self) -> Vec<u8> {
        const HEAD: &[u8] =
            br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#;
        [HEAD, self.metadata(), b"}"].concat()
    }

    /// The object without `apiVersion` and `kind`, and without the bracket that opens it.
    pub fn body(&self) -> &[u8] {
        &self.json[self.body as usize..]
    }
}

/// `PartialObjectMetadata` of an object.
pub(crate) fn partial(mut object: Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"].take()})
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"]
        .as_array()
        .map(|l| l.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// Sets `metadata.finalizers`; an empty list is left out.
pub(crate) fn set_finalizers(object: &mut Value, list: &[&str]) {
    if list.is_empty() {
        if let Some(meta) = object["metadata"].as_object_mut() {
            meta.remove("finalizers");
        }
    } else {
        object["metadata"]["finalizers"] = json!(list);
    }
}

fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(crate) fn to_json(value: &Value) -> Vec<u8> {
    // A `Value` has string keys only, so that serialising cannot fail.
    serde_json::to_vec(value).unwrap_or_default()
}

/// An object as JSON, and where its parts are.
#[derive(Debug)]
pub(crate) struct Text {
    json: Vec<u8>,
    body: u32,
    metadata: Range<u32>,
    managed: Range<u32>,
}

impl Text {
    /// How much most objects need, so that writing them does not start from nothing.
    const CAPACITY: usize = 2 << 10;

    pub fn write(object: &Object) -> Self {
        Self::with_spec(object, b"")
    }

    /// The same with a spec that is JSON already, unless it is empty.
    pub fn with_spec(object: &Object, spec: &[u8]) -> Self {
        static NULL: Value = Value::Null;
        let managed = object.managed.as_deref().unwrap_or_default();
        let json = Vec::with_capacity(Self::CAPACITY + managed.len() + spec.len());
        let mut text = Self { json, body: 0, metadata: 0..0, managed: 0..0 };
        let mut separator = b'{';
        for field in ["apiVersion", "kind", "metadata"] {
            if field == "metadata" {
                text.body = text.end() + 1;
            }
            text.key(&mut separator, field);
            let value = object.value.get(field).unwrap_or(&NULL);
            match (field, value) {
                ("metadata", Value::Object(map)) => text.metadata(map, managed),
                _ => text.value(value),
            }
        }
        if !spec.is_empty() {
            text.key(&mut separator, "spec");
            text.json.extend_from_slice(spec);
        }
        for (key, value) in object.value.as_object().into_iter().flatten() {
            if !matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
                text.key(&mut separator, key);
                text.value(value);
            }
        }
        text.json.push(b'}');
        text
    }

    pub fn len(&self) -> usize {
        self.json.len()
    }

    fn metadata(&mut self, map: &Map<String, Value>, managed: &[u8]) {
        let start = self.end();
        let mut separator = b'{';
        for (key, value) in map {
            self.key(&mut separator, key);
            self.value(value);
        }
        if !managed.is_empty() {
            self.key(&mut separator, "managedFields");
            let start = self.end();
            self.json.extend_from_slice(managed);
            self.managed = start..self.end();
        }
        if separator == b'{' {
            self.json.push(b'{');
        }
        self.json.push(b'}');
        self.metadata = start..self.end();
    }

    fn key(&mut self, separator: &mut u8, key: &str) {
        self.json.push(std::mem::replace(separator, b','));
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(&mut self.json, key);
        self.json.push(b':');
    }

    fn value(&mut self, value: &Value) {
        let _ = serde_json::to_writer(&mut self.json, value);
    }

    /// Objects are far smaller than what this can count.
    fn end(&self) -> u32 {
        u32::try_from(self.json.len()).unwrap_or(u32::MAX)
    }
}

/// Reads an object without its managed fields, which would be most of the work.
#[derive(Clone, Copy)]
enum Part {
    Object,
    Metadata,
}

impl<'de> DeserializeSeed<'de> for Part {
    type Value = Map<String, Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Part {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let value = match (self, key.as_str()) {
                (Self::Object, "metadata") => {
                    Value::Object(access.next_value_seed(Self::Metadata)?)
                }
                (Self::Metadata, "managedFields") => {
                    access.next_value::<IgnoredAny>()?;
                    continue;
                }
                _ => access.next_value()?,
            };
            map.insert(key, value);
        }
        Ok(map)
    }
}
