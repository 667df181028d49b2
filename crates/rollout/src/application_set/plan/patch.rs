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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::patched_fields;

    /// Each changed field by its path, but not what a rollout writes for itself.
    #[test]
    fn the_fields_of_a_patch_are_named_by_their_paths() {
        let annotation = |name: &str| json!({"metadata": {"annotations": {name: "x"}}});
        let cases: [(Value, &[&str]); 11] = [
            (json!({}), &[]),
            (
                json!({"spec": {"source": {"path": "p", "ref": null}, "project": "p"}}),
                &["spec.project", "spec.source.path", "spec.source.ref"],
            ),
            (json!({"spec": {"source": {}}}), &["spec.source"]),
            (json!({"spec": {"sources": [{"a": 1}]}}), &["spec.sources"]),
            (json!({"operation": {"sync": {"a": 1}}}), &[]),
            (
                json!({"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}}),
                &["metadata.labels.a"],
            ),
            (annotation("argocd.argoproj.io/refresh"), &[]),
            (annotation("wavegate.dev/rollout"), &[]),
            (annotation("wavegate.dev/run"), &[]),
            (annotation("wavegate.dev/other"), &["metadata.annotations.wavegate.dev/other"]),
            (json!({"metadata": {"uid": "u"}}), &["metadata.uid"]),
        ];
        for (body, want) in cases {
            assert_eq!(patched_fields(&body), want, "{body}");
        }
    }
}
