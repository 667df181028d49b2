//! The structure of a custom kind: what a comparison needs of its schema, without descriptions and
//! rules of validation, which are most of it.

use serde_json::{Map, Value};

/// What is kept of a schema beside the schemas below it.
const KEPT: [&str; 4] =
    ["default", "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type"];

/// The structure of a version of a definition; `None` when it has no schema.
pub(super) fn of_definition(definition: &Value, version: &str) -> Option<Value> {
    let versions = definition["spec"]["versions"].as_array()?;
    let found = versions.iter().find(|one| one["name"] == version)?;
    let schema = &found["schema"]["openAPIV3Schema"];
    schema.is_object().then(|| structure(schema))
}

/// Only the parts of a schema that say how values are compared. The depth is limited by the
/// server, which stores the definition.
fn structure(schema: &Value) -> Value {
    let mut kept = Map::new();
    for name in KEPT {
        if let Some(value) = schema.get(name) {
            kept.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(Value::Object(properties)) = schema.get("properties") {
        let each = properties.iter().map(|(name, below)| (name.clone(), structure(below)));
        kept.insert("properties".to_owned(), Value::Object(each.collect()));
    }
    for name in ["items", "additionalProperties"] {
        if let Some(below) = schema.get(name).filter(|below| below.is_object()) {
            kept.insert(name.to_owned(), structure(below));
        }
    }
    Value::Object(kept)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_structure_has_defaults_and_kinds_of_lists_only() {
        let schema = json!({
            "type": "object", "description": "long", "required": ["spec"],
            "properties": {"spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "default": 3, "minimum": 1},
                    "ports": {
                        "type": "array", "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["port"],
                        "items": {"properties": {"port": {"type": "integer"}}},
                    },
                    "labels": {"additionalProperties": {"type": "string", "default": ""}},
                    "any": {"x-kubernetes-preserve-unknown-fields": true, "additionalProperties": true},
                },
            }},
        });
        let version = |name: &str, schema: &Value| json!({"name": name, "schema": {"openAPIV3Schema": schema}});
        let versions = [version("v1", &json!({})), version("v2", &schema), json!({"name": "v3"})];
        let definition = json!({"spec": {"versions": versions}});
        let want = json!({"properties": {"spec": {"properties": {
            "size": {"default": 3},
            "ports": {
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
                "items": {"properties": {"port": {}}},
            },
            "labels": {"additionalProperties": {"default": ""}},
            "any": {},
        }}}});
        assert_eq!(of_definition(&definition, "v2"), Some(want));
        assert_eq!(of_definition(&definition, "v3"), None);
        assert_eq!(of_definition(&json!({"spec": []}), "v1"), None);
    }
}
