//! JSON patch (RFC 6902).

use serde_json::Value;

use super::super::errors::ApiError;

/// More operations than this are refused, as the real one does.
const MAX_OPERATIONS: usize = 10_000;

/// Applies a JSON patch to an object.
///
/// # Errors
///
/// `BadRequest` when the patch cannot be read; `Invalid` when an operation fails, a test included.
pub(crate) fn apply(object: &mut Value, patch: &Value) -> Result<(), ApiError> {
    let operations: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")))?;
    if operations.0.len() > MAX_OPERATIONS {
        let message = format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.0.len()
        );
        return Err(ApiError::too_large(message));
    }
    json_patch::patch(object, &operations).map_err(|e| {
        ApiError::new(
            422,
            "Invalid",
            format!("the server rejected our request due to an error in our request: {e}"),
        )
    })
}
