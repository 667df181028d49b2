//! When two specs are the same (AS-153).

use serde_json::{Map, Value};

/// Removes what is written down but says nothing: an empty project becomes
/// `default`, an empty sync policy and empty source blocks go.
pub fn empty_objects(spec: &mut Value) {
    let Some(fields) = spec.as_object_mut() else { return };
    if fields.get("project").is_none_or(|project| project == "" || project.is_null()) {
        fields.insert("project".to_owned(), "default".into());
    }
    if fields.get("syncPolicy").is_some_and(says_nothing) {
        fields.remove("syncPolicy");
    }
    match fields.get_mut("sources") {
        Some(Value::Array(sources)) if !sources.is_empty() => {
            sources.iter_mut().for_each(empty_source_blocks);
        }
        _ => {
            if let Some(source) = fields.get_mut("source") {
                empty_source_blocks(source);
            }
        }
    }
}

fn empty_source_blocks(source: &mut Value) {
    let Some(source) = source.as_object_mut() else { return };
    for block in ["kustomize", "helm", "directory"] {
        if source.get(block).is_some_and(says_nothing) {
            source.remove(block);
        }
    }
}

/// Whether two specs are equal once both are normalised and absent is the same
/// as empty.
pub fn equal_specs(a: &Value, b: &Value) -> bool {
    if a == b {
        return true;
    }
    let normalised = |spec: &Value| {
        let mut spec = spec.clone();
        empty_objects(&mut spec);
        spec
    };
    equal(&normalised(a), &normalised(b))
}

/// Whether two values are equal when null, an empty list and an empty object
/// count as absent.
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => equal_objects(a, b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b || (says_nothing(a) && says_nothing(b)),
    }
}

/// Blocks whose mere presence means something, empty or not: an empty
/// `automated` switches automated sync on.
const PRESENCE_COUNTS: [&str; 2] = ["automated", "retry"];

fn equal_objects(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
    let of = |object: &Map<String, Value>, key: &str| {
        object.get(key).is_some_and(|value| !value.is_null())
    };
    keys.into_iter().all(|key| {
        let same_presence = !PRESENCE_COUNTS.contains(&key.as_str()) || of(a, key) == of(b, key);
        let same = match (a.get(key), b.get(key)) {
            (Some(a), Some(b)) => equal(a, b),
            (Some(only), None) | (None, Some(only)) => {
                PRESENCE_COUNTS.contains(&key.as_str()) || says_nothing(only)
            }
            (None, None) => true,
        };
        same_presence && same
    })
}

/// Null, or a list or object with nothing in it but the like.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.iter().all(|(key, value)| {
            let counts = PRESENCE_COUNTS.contains(&key.as_str()) && !value.is_null();
            !counts && says_nothing(value)
        }),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
