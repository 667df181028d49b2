//! The schemas of kinds.

use std::sync::Arc;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::builtin;
use crate::kinds::Kind;

/// Deeper schemas are left as they are.
const MAX_DEPTH: usize = 64;

/// Version of the documents: they differ in where definitions are, and in what may
/// stand beside a reference.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V2,
    V3,
}

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

/// The schemas of kinds and of all that they refer to, by name.
pub(super) fn definitions(kinds: &[Arc<Kind>], version: Version) -> Map<String, Value> {
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

pub(super) fn gvk(kind: &Kind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}
