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
        let error = match serde_path_to_error::deserialize::<_, T>(&value) {
            Ok(read) => return read,
            Err(error) => error,
        };
        let is_wrong_type = error.inner().to_string().starts_with("invalid type");
        if leave_out(&mut value, error.path(), is_wrong_type).is_none() {
            break;
        }
    }
    T::default()
}

/// Removes the field at a path. An item of a list becomes an empty object, so that the others
/// keep their places; if that has the wrong type as well, it is not a list of objects.
///
/// A list may have more items of a wrong type than are left out one by one, so those of one type
/// go at once. Not objects: what is wrong may be a field of this one, which not each path names.
fn leave_out(value: &mut Value, path: &Path, is_wrong_type: bool) -> Option<()> {
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
            let empty = || Value::Object(serde_json::Map::new());
            let item = items.get_mut(*index)?;
            match item {
                Value::Object(fields) if !fields.is_empty() => fields.clear(),
                Value::Object(_) if is_wrong_type => items.retain(|one| !one.is_object()),
                Value::Object(_) => drop(items.remove(*index)),
                _ if is_wrong_type => {
                    let of_type = |one: &Value| (discriminant(one), one.is_f64());
                    let wrong = of_type(item);
                    for one in items.iter_mut().filter(|one| of_type(one) == wrong) {
                        *one = empty();
                    }
                }
                _ => *item = empty(),
            }
            Some(())
        }
        _ => None,
    }
}
