//! Typed reading of raw objects, with errors that name the field.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Why an object cannot be read as a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct ReadError {
    /// Path of the field, such as `spec.sources[1].path`; `.` for the whole object.
    pub path: String,
    /// What is wrong with the field.
    pub reason: String,
}

/// Reads a raw object as `T`; fails with the path of the first invalid field.
///
/// ```
/// # use serde_json::json;
/// # use wavegate::api::{self, ApplicationSpec};
/// let spec = json!({"syncPolicy": {"retry": {"limit": "five"}}});
/// let error = api::read::<ApplicationSpec>(&spec).unwrap_err();
/// assert_eq!(error.path, "syncPolicy.retry.limit");
/// ```
pub fn read<T: DeserializeOwned>(value: &Value) -> Result<T, ReadError> {
    T::deserialize(value).map_err(|error| {
        let reason = error.to_string();
        let mut path = locate::<T>(value, &reason);
        if path.is_empty() {
            path.push('.');
        }
        ReadError { path, reason }
    })
}

/// Finds the field that `reason` comes from, since serde does not report it: an object
/// with only the path to the field fails with the same reason. Runs only after a failure.
fn locate<T: DeserializeOwned>(value: &Value, reason: &str) -> String {
    let fails_alike = |path: &[Step], node: &Value| {
        T::deserialize(&only(path, node)).is_err_and(|error| error.to_string() == reason)
    };
    let missing = reason.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    let (mut node, mut path) = (value, Vec::new());
    loop {
        if let (Some(field), Some(object)) = (missing, node.as_object()) {
            let mut with_it = object.clone();
            with_it.insert(field.to_owned(), Value::Null);
            if !fails_alike(&path, &Value::Object(with_it)) {
                break;
            }
        }
        let next = children(node).into_iter().find(|(step, child)| {
            path.push(step.clone());
            let found = fails_alike(&path, child);
            path.pop();
            found
        });
        let Some((step, child)) = next else { break };
        path.push(step);
        node = child;
    }
    let mut text = String::new();
    for step in &path {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.extend([".", key]),
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

#[derive(Clone)]
enum Step {
    Key(String),
    Index(usize),
}

fn children(value: &Value) -> Vec<(Step, &Value)> {
    match value {
        Value::Object(map) => map.iter().map(|(k, v)| (Step::Key(k.clone()), v)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(i, v)| (Step::Index(i), v)).collect(),
        _ => Vec::new(),
    }
}

/// An object with `node` at `path` and nothing else.
fn only(path: &[Step], node: &Value) -> Value {
    path.iter().rev().fold(node.clone(), |inner, step| match step {
        Step::Key(key) => Value::Object([(key.clone(), inner)].into_iter().collect()),
        Step::Index(_) => Value::Array(vec![inner]),
    })
}
