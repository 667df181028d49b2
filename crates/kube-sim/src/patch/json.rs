//! JSON patch (RFC 6902).

use serde::Deserialize as _;
use serde_json::Value;

use super::super::errors::ApiError;

/// More operations than this are refused, as the real one does.
const MAX_OPERATIONS: usize = 10_000;

/// Bytes that all `copy` operations of a patch may add, as in the real one.
const MAX_COPIED: usize = 3 << 20;

/// Applies a JSON patch to an object. When it fails the object is left as the
/// operations before have made it.
///
/// # Errors
///
/// `BadRequest` when the patch cannot be read; `Invalid` when an operation fails, a test included.
pub(crate) fn apply(object: &mut Value, patch: &Value) -> Result<(), ApiError> {
    let operations = json_patch::Patch::deserialize(patch)
        .map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")))?;
    if operations.0.len() > MAX_OPERATIONS {
        let message = format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.0.len()
        );
        return Err(ApiError::too_large(message));
    }
    let mut copied = 0;
    for (index, operation) in operations.0.into_iter().enumerate() {
        // Each copy may double an object: the result is known before it is made.
        if let json_patch::PatchOperation::Copy(copy) = &operation {
            copied += object.pointer(copy.from.as_str()).map_or(0, size);
            if copied > MAX_COPIED {
                return Err(ApiError::too_large(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {copied}, \
                     exceeding the limit {MAX_COPIED}"
                )));
            }
        }
        json_patch::patch(object, &[operation]).map_err(|e| {
            let e = e.to_string().replacen("operation '/0'", &format!("operation '/{index}'"), 1);
            let message =
                format!("the server rejected our request due to an error in our request: {e}");
            ApiError::new(422, "Invalid", message)
        })?;
    }
    Ok(())
}

/// The length of a value as JSON.
fn size(value: &Value) -> usize {
    // A `Value` has string keys only, so that serialising cannot fail.
    serde_json::to_vec(value).map_or(0, |json| json.len())
}
