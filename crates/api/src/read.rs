//! Typed reading of raw objects, with errors that name the field.

use std::mem::discriminant;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

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
/// # use wavegate_api::{self as api, ApplicationSpec};
/// let spec = json!({"syncPolicy": {"retry": {"limit": "five"}}});
/// let error = api::read_typed::<ApplicationSpec>(&spec).unwrap_err();
/// assert_eq!(error.path, "syncPolicy.retry.limit");
/// ```
pub fn read_typed<T: DeserializeOwned>(value: &Value) -> Result<T, ReadError> {
    // Reading again with the path is only for what fails: keeping track of it
    // costs time.
    T::deserialize(value).or_else(|_| {
        serde_path_to_error::deserialize(value).map_err(|error| ReadError {
            path: error.path().to_string(),
            reason: error.into_inner().to_string(),
        })
    })
}

/// Most fields of a wrong type that [`read_leniently`] leaves out.
const MAX_LEFT_OUT: usize = 64;

/// Reads as much of a raw object as has the right types: other fields read as absent.
pub fn read_leniently<T: DeserializeOwned + Default>(value: &Value) -> T {
    if let Ok(read) = T::deserialize(value) {
        return read;
    }
    let mut value = value.clone();
    for _ in 0..MAX_LEFT_OUT {
        match serde_path_to_error::deserialize::<_, T>(&value) {
            Ok(read) => return read,
            Err(error) if leave_out(&mut value, error.path()).is_none() => break,
            Err(_) => {}
        }
    }
    T::default()
}

/// Removes the field at a path. An item of a list becomes an empty object, so that the others
/// keep their places.
fn leave_out(value: &mut Value, path: &Path) -> Option<()> {
    let mut at = value;
    let segments: Vec<&Segment> = path.iter().collect();
    let (last, parents) = segments.split_last()?;
    for segment in parents {
        at = match segment {
            Segment::Seq { index } => at.get_mut(*index)?,
            Segment::Map { key } => at.get_mut(key)?,
            _ => return None,
        };
    }
    match (*last, at) {
        (Segment::Map { key }, Value::Object(fields)) => fields.remove(key).map(drop),
        (Segment::Seq { index }, Value::Array(items)) => {
            let item = items.get(*index)?.clone();
            if item.as_object().is_some_and(serde_json::Map::is_empty) {
                // Not a list of objects.
                items.retain(|one| !one.is_object());
                return Some(());
            }
            // All of its type at once: a list may have more of them than are left out one by one.
            let same_type = |one: &&mut Value| discriminant(&**one) == discriminant(&item);
            for wrong in items.iter_mut().filter(same_type) {
                *wrong = Value::Object(serde_json::Map::new());
            }
            Some(())
        }
        _ => None,
    }
}
