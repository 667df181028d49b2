mod config;
mod defaults;
mod managers;
mod merging;
mod notations;
mod omitted;
mod owned;
mod predicted;
mod properties;
mod rules;
mod table;

use serde_json::{Value, json};

use super::*;

/// Whether the two differ, with the default configuration.
fn modified(target: &Value, live: &Value) -> bool {
    compare(Some(target), Some(live), &DiffConfig::default()).modified
}

/// The normalized form of an object.
fn normalized_object(object: &Value, config: &DiffConfig) -> Value {
    let mut object = object.clone();
    fill(&mut object, config);
    object
}

/// A configuration from a list of `ignoreDifferences` entries.
fn ignoring(entries: Value) -> DiffConfig {
    let application = json!({"spec": {"ignoreDifferences": entries}});
    let (config, problems) = DiffConfig::from_application(&application, &Jq::default());
    assert_eq!(problems, []);
    config
}

/// The target to apply with `RespectIgnoreDifferences=true`.
fn respect(target: &Value, live: &Value, config: &DiffConfig) -> Value {
    respect_ignored(&[(target, live)], config).pop().unwrap()
}

fn object(api_version: &str, kind: &str, body: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
    overlay(&mut object, body);
    object
}

/// Merges one value into another; objects are merged, other values replaced.
fn overlay(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                match base.get_mut(&key) {
                    Some(found) => overlay(found, value),
                    None => {
                        base.insert(key, value);
                    }
                }
            }
        }
        (base, over) => *base = over,
    }
}

/// The object with another merged into it.
fn with(object: &Value, over: Value) -> Value {
    let mut object = object.clone();
    overlay(&mut object, over);
    object
}

/// The live object after kubectl applied `last`.
fn applied_by_kubectl(live: Value, last: &Value) -> Value {
    let annotations = json!({LAST_APPLIED: last.to_string()});
    with(&live, json!({"metadata": {"annotations": annotations}}))
}
