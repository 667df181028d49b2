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
    // Reading again with the path is only for what fails: keeping track of it
    // costs time.
    T::deserialize(value).or_else(|_| {
        serde_path_to_error::deserialize(value).map_err(|error| ReadError {
            path: error.path().to_string(),
            reason: error.into_inner().to_string(),
        })
    })
}
