//! What the API server omits in the schemas of a CustomResourceDefinition.

use serde_json::{Map, Value};

/// Texts, lists and maps of a schema that are omitted when they are empty.
const EMPTY: [&str; 19] = [
    "$ref",
    "$schema",
    "allOf",
    "anyOf",
    "definitions",
    "dependencies",
    "description",
    "enum",
    "format",
    "id",
    "oneOf",
    "pattern",
    "patternProperties",
    "properties",
    "required",
    "title",
    "type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
];

/// Booleans that are omitted when they are false.
const FALSE: [&str; 6] = [
    "exclusiveMaximum",
    "exclusiveMinimum",
    "nullable",
    "uniqueItems",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
];

/// Removes what is omitted from the schemas of all versions. Defaults and examples stay.
pub fn drop_empty(definition: &mut Value) {
    let versions = definition.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        if let Some(root) = version.pointer_mut("/schema/openAPIV3Schema") {
            schema(root);
        }
    }
}

fn schema(value: &mut Value) {
    let Some(map) = value.as_object_mut() else { return };
    for (key, child) in map.iter_mut() {
        match key.as_str() {
            "properties" | "patternProperties" | "definitions" | "dependencies" => {
                child.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(schema);
            }
            "items" | "additionalProperties" | "not" | "allOf" | "anyOf" | "oneOf" => match child {
                Value::Array(list) => list.iter_mut().for_each(schema),
                one => schema(one),
            },
            _ => {}
        }
    }
    map.retain(|key, value| {
        let key = key.as_str();
        let is_empty = match value {
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        !(is_empty && EMPTY.contains(&key) || *value == Value::Bool(false) && FALSE.contains(&key))
    });
}
