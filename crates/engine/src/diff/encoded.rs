//! Bytes that objects hold as base64.

use serde_json::{Map, Value};

/// Removes the line breaks from the base64 texts of a map, which the server decodes.
pub fn encoded_map(object: &mut Value, field: &str) {
    let map = object.get_mut(field).and_then(Value::as_object_mut);
    map.into_iter().flat_map(Map::values_mut).for_each(unwrap_lines);
}

/// The same for the certificates of authorities, wherever these kinds have them.
pub(crate) fn authorities(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                match key.as_str() {
                    "caBundle" => unwrap_lines(child),
                    "openAPIV3Schema" => {}
                    _ => authorities(child),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(authorities),
        _ => {}
    }
}

/// Removes what a decoder of base64 in Go ignores: the line breaks of a block in YAML.
pub fn unwrap_lines(value: &mut Value) {
    if let Value::String(text) = value {
        text.retain(|c| !matches!(c, '\r' | '\n'));
    }
}
