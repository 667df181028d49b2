//! OpenAPI documents: what `kubectl explain` prints, and what kubectl asks before it writes.
//!
//! Schemas of built-in kinds come from their types, those of custom kinds from
//! their definitions. A document is made when it is asked for, outside of the
//! server's lock: see [`Wanted`]. Those of built-in groups never change and are kept.

mod v2;

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::body::Bytes;
use parking_lot::Mutex;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::answer::Reply;
use super::builtin;
use super::errors::ApiError;
use super::kinds::{Kind, Registry};
use super::stored::to_json;

/// Deeper schemas are left as they are.
const MAX_DEPTH: usize = 64;

/// A document that is to be made from these kinds.
pub(crate) enum Wanted {
    /// `/openapi/v2`, and whether in protobuf.
    Whole(Vec<Arc<Kind>>, bool),
    /// `/openapi/v3/PATH`.
    Group(String, Vec<Arc<Kind>>),
}

impl Wanted {
    /// `/openapi/v2`.
    pub fn whole(kinds: &Registry, accept: &str) -> Self {
        Self::Whole(kinds.iter().cloned().collect(), accept.contains("protobuf"))
    }

    /// `/openapi/v3/PATH`: the resources of one group and version.
    ///
    /// # Errors
    ///
    /// `NotFound` for a version that is not served.
    pub fn group(kinds: &Registry, path: &str) -> Result<Self, ApiError> {
        let of_group = kinds.iter().filter(|kind| group_path(kind) == path);
        let list: Vec<Arc<Kind>> = of_group.cloned().collect();
        if list.is_empty() {
            return Err(ApiError::no_such_path());
        }
        Ok(Self::Group(path.to_owned(), list))
    }

    /// Makes the document; takes milliseconds.
    pub fn make(self) -> Reply {
        match self {
            Self::Whole(kinds, false) => Reply::value(200, &v2::document(&kinds)),
            Self::Whole(kinds, true) => {
                let media = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
                Reply::Typed(media, v2::encode(&v2::document(&kinds)).into())
            }
            Self::Group(path, kinds) => Reply::Json(200, group(&path, &kinds)),
        }
    }
}

fn group_path(kind: &Kind) -> String {
    if kind.group.is_empty() {
        format!("api/{}", kind.version)
    } else {
        format!("apis/{}/{}", kind.group, kind.version)
    }
}

/// `/openapi/v3`: where the documents are. The hash changes when kinds come and go.
pub(crate) fn index(kinds: &Registry, generation: u64) -> Value {
    let mut paths = Map::new();
    for kind in kinds.iter() {
        let path = group_path(kind);
        let url = format!("/openapi/v3/{path}?hash={generation:016X}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

fn group(path: &str, kinds: &[Arc<Kind>]) -> Bytes {
    // A group is either built in or custom.
    static BUILTIN: Mutex<BTreeMap<String, Bytes>> = Mutex::new(BTreeMap::new());
    let builtin = kinds.iter().all(|kind| kind.is_builtin());
    if builtin && let Some(known) = BUILTIN.lock().get(path) {
        return known.clone();
    }
    let mut paths = Map::new();
    for kind in kinds {
        describe_paths(path, kind, &mut paths);
    }
    let document: Bytes = to_json(&json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.33.0"},
        "paths": paths, "components": {"schemas": definitions(kinds, Version::V3)},
    }))
    .into();
    if builtin {
        BUILTIN.lock().insert(path.to_owned(), document.clone());
    }
    document
}

/// The operations of a kind, as far as kubectl looks for them: whether fields are
/// validated by the server, and which patches it accepts.
fn describe_paths(path: &str, kind: &Kind, paths: &mut Map<String, Value>) {
    let gvk = gvk(kind);
    let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("/{path}{scope}/{}", kind.plural);
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let parameters =
        json!([parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation")]);
    let operation = |action: &str| {
        json!({
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk,
            "parameters": parameters, "responses": {"200": {"description": "OK"}},
        })
    };
    paths.insert(collection.clone(), json!({"post": operation("post")}));
    let mut patch = operation("patch");
    let mut content = Map::new();
    // Not strategic: schemas from types lack the merge keys, and kubectl knows them itself.
    for media in [
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ] {
        content.insert(media.to_owned(), json!({"schema": {"type": "object"}}));
    }
    patch["requestBody"] = json!({"content": content});
    paths
        .insert(format!("{collection}/{{name}}"), json!({"put": operation("put"), "patch": patch}));
}

fn gvk(kind: &Kind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

/// Version of the documents: they differ in where definitions are, and in what may
/// stand beside a reference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V2,
    V3,
}

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

/// The schemas of kinds and of all that they refer to, by name.
fn definitions(kinds: &[Arc<Kind>], version: Version) -> Map<String, Value> {
    let mut settings = SchemaSettings::openapi3();
    settings.transforms.clear();
    if version == Version::V2 {
        settings.definitions_path = "/definitions".into();
    }
    let at = settings.definitions_path.clone();
    let mut generator = settings.into_generator();
    // Custom kinds refer to it.
    generator.subschema_for::<k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>();
    let mut custom = Map::new();
    let mut named = Vec::new();
    for kind in kinds {
        if let Some(definition) = &kind.custom {
            let schema = definition.raw_schema.clone().unwrap_or_else(|| json!({"type": "object"}));
            let mut reversed: Vec<&str> = kind.group.rsplit('.').collect();
            reversed.extend([kind.version.as_str(), kind.kind.as_str()]);
            custom.insert(reversed.join("."), custom_schema(schema, kind, &at));
            continue;
        }
        if let Some(known) = builtin::find(&kind.api_version(), &kind.kind) {
            named.push((reference_name(&(known.schema)(&mut generator)), kind));
        }
    }
    let mut all = generator.take_definitions(false);
    for (name, kind) in named {
        if let Some(schema) = all.get_mut(&name) {
            schema["x-kubernetes-group-version-kind"] = json!([gvk(kind)]);
        }
    }
    let loose = match version {
        Version::V2 => json!({"type": "string", "format": "int-or-string"}),
        Version::V3 => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
    };
    let quantity = match version {
        Version::V2 => json!({"type": "string"}),
        Version::V3 => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
    };
    for (name, mut schema) in [(INT_OR_STRING, loose), (QUANTITY, quantity)] {
        if let Some(old) = all.get_mut(name) {
            schema["description"] = old["description"].take();
            *old = schema;
        }
    }
    all.extend(custom);
    if version == Version::V3 {
        all.values_mut().for_each(|schema| lone_references(schema, 0));
    }
    all
}

/// What `{"$ref": …}` refers to.
fn reference_name(schema: &schemars::Schema) -> String {
    let path = schema.get("$ref").and_then(Value::as_str).unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// The schema of a definition, with what every object has.
fn custom_schema(mut schema: Value, kind: &Kind, definitions: &str) -> Value {
    if !schema.is_object() {
        schema = json!({"type": "object"});
    }
    schema["x-kubernetes-group-version-kind"] = json!([gvk(kind)]);
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    let text = |description: &str| json!({"type": "string", "description": description});
    let properties = &mut schema["properties"];
    properties["apiVersion"] =
        text("APIVersion defines the versioned schema of this representation of an object.");
    properties["kind"] = text("Kind is the type of the REST resource that this object represents.");
    properties["metadata"] = json!({
        "$ref": format!("#{definitions}/{OBJECT_META}"), "description": "Standard object's metadata.",
    });
    schema
}

/// In version 3, nothing may stand beside a reference.
fn lone_references(schema: &mut Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match schema {
        Value::Object(map) => {
            if map.len() > 1
                && map.get("$ref").is_some_and(Value::is_string)
                && let Some(reference) = map.remove("$ref")
            {
                map.insert("allOf".to_owned(), json!([{"$ref": reference}]));
            }
            map.values_mut().for_each(|child| lone_references(child, depth + 1));
        }
        Value::Array(list) => {
            list.iter_mut().for_each(|child| lone_references(child, depth + 1));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
