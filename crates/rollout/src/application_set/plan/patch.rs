//! The fields that a merge patch of an Application changes, for users.

use serde_json::Value;

use wavegate_api::annotations::{REFRESH, ROLLOUT, RUN};

/// The fields that the merge patch of an Application changes, as paths such as
/// `spec.source.path`, without the operation that it starts and the refresh
/// that it requests.
pub fn patched_fields(body: &Value) -> Vec<String> {
    let mut fields = Vec::new();
    leaves(body, &mut String::new(), &mut fields);
    let is_own = |path: &str| {
        path.starts_with("operation")
            || path == "metadata.resourceVersion"
            || path == format!("metadata.annotations.{REFRESH}")
            || path == format!("metadata.annotations.{ROLLOUT}")
            || path == format!("metadata.annotations.{RUN}")
    };
    fields.retain(|path| !is_own(path));
    fields
}

fn leaves(value: &Value, path: &mut String, fields: &mut Vec<String>) {
    let Value::Object(object) = value else { return fields.push(path.clone()) };
    if object.is_empty() && !path.is_empty() {
        return fields.push(path.clone());
    }
    for (key, value) in object {
        let end = path.len();
        if end > 0 {
            path.push('.');
        }
        path.push_str(key);
        leaves(value, path, fields);
        path.truncate(end);
    }
}
