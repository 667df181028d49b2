//! A typed view of a raw object, with errors that name the field.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Why an object cannot be read as its type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct ReadError {
    /// The field at fault, such as `spec.sources[1].path`; `.` for the whole object.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Reads a raw object as `T`; fails with the path of the first wrong field.
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
        let mut path = String::new();
        let reason = locate::<T>(value, &error.to_string(), &mut path);
        let path = if path.is_empty() { ".".to_owned() } else { path };
        ReadError { path, reason }
    })
}

/// Finds where `reason` comes from: serde does not tell, but a field is at
/// fault when the object without it no longer fails in this way. Only failures
/// pay for this.
fn locate<T: DeserializeOwned>(value: &Value, reason: &str, path: &mut String) -> String {
    let mut trimmed = value.clone();
    let mut here: Vec<Step> = Vec::new();
    while let Some(step) = children(at(&trimmed, &here)).into_iter().find(|step| {
        let mut without = trimmed.clone();
        let mut place = here.clone();
        place.push(step.clone());
        put(&mut without, &place, Value::Null);
        T::deserialize(&without).err().is_none_or(|error| error.to_string() != reason)
    }) {
        // Later steps need only this branch, which keeps the search cheap
        // where the rest may be missing.
        let mut place = here.clone();
        place.push(step.clone());
        let mut narrow = trimmed.clone();
        keep_only(&mut narrow, &place);
        if T::deserialize(&narrow).is_err_and(|error| error.to_string() == reason) {
            trimmed = narrow;
        }
        match &step {
            Step::Key(key) if path.is_empty() => path.push_str(key),
            Step::Key(key) => path.extend([".", key]),
            Step::Index(index) => path.push_str(&format!("[{index}]")),
        }
        here = place;
    }
    reason.to_owned()
}

#[derive(Clone)]
enum Step {
    Key(String),
    Index(usize),
}

fn children(value: &Value) -> Vec<Step> {
    match value {
        Value::Object(map) => map.keys().cloned().map(Step::Key).collect(),
        Value::Array(list) => (0..list.len()).map(Step::Index).collect(),
        _ => Vec::new(),
    }
}

fn at<'a>(value: &'a Value, path: &[Step]) -> &'a Value {
    path.iter().fold(value, |value, step| match step {
        Step::Key(key) => &value[key.as_str()],
        Step::Index(index) => &value[*index],
    })
}

fn put(value: &mut Value, path: &[Step], new: Value) {
    let place = path.iter().fold(value, |value, step| match step {
        Step::Key(key) => &mut value[key.as_str()],
        Step::Index(index) => &mut value[*index],
    });
    *place = new;
}

/// Removes the siblings of the last step; items of a list keep their place.
fn keep_only(value: &mut Value, path: &[Step]) {
    let Some((last, parents)) = path.split_last() else { return };
    let kept = std::mem::take(match last {
        Step::Key(key) => &mut at_mut(value, parents)[key.as_str()],
        Step::Index(index) => &mut at_mut(value, parents)[*index],
    });
    *at_mut(value, parents) = match last {
        Step::Key(key) => Value::Object(Map::from_iter([(key.clone(), kept)])),
        Step::Index(index) => {
            let mut list = vec![Value::Null; *index];
            list.push(kept);
            Value::Array(list)
        }
    };
}

fn at_mut<'a>(value: &'a mut Value, path: &[Step]) -> &'a mut Value {
    path.iter().fold(value, |value, step| match step {
        Step::Key(key) => &mut value[key.as_str()],
        Step::Index(index) => &mut value[*index],
    })
}
