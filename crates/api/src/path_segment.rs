//! Validates names that become segments of a request's path.
//!
//! A name such as `ok/../../other` would address another object than the one that the
//! project was checked for.

use serde_json::Value;

use super::resource_key::{ResourceKey, split_api_version};

/// Why a text cannot be one segment of a path; `None` when it can. An empty text stands
/// for "no name" or "no namespace" and is valid.
pub fn segment_problem(text: &str) -> Option<String> {
    if matches!(text, "." | "..") {
        return Some(format!("{text:?} is not a valid name"));
    }
    let bad =
        |c: &char| matches!(c, '/' | '%' | '?' | '#' | '\\') || c.is_whitespace() || c.is_control();
    text.chars().find(bad).map(|c| format!("{text:?} must not contain {c:?}"))
}

/// Why a key cannot be used in a request; names the field.
pub fn problem_of_key(key: &ResourceKey) -> Option<String> {
    let parts = [
        ("metadata.namespace", &key.namespace),
        ("metadata.name", &key.name),
        ("kind", &key.kind),
        ("apiVersion", &key.group),
    ];
    parts.into_iter().find_map(|(field, text)| Some(format!("{field}: {}", segment_problem(text)?)))
}

/// Why an object cannot be used in a request; names the kind, the name and the field.
/// Whether a name is valid for its kind is checked by the API server.
pub fn problem_of_object(object: &Value) -> Option<String> {
    let text = |value: &Value, field: &str| match value {
        Value::Null => None,
        Value::String(text) => segment_problem(text).map(|problem| format!("{field}: {problem}")),
        _ => Some(format!("{field}: must be a string")),
    };
    let metadata = &object["metadata"];
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = split_api_version(version);
    let fields = ["name", "namespace", "generateName"];
    let problem = match metadata {
        Value::Null | Value::Object(_) => None,
        _ => Some("metadata: must be an object".to_owned()),
    };
    let of_metadata =
        || fields.iter().find_map(|field| text(&metadata[*field], &format!("metadata.{field}")));
    let of_kind = || {
        let version = [group, version].into_iter().find_map(self::segment_problem);
        let version = version.map(|problem| format!("apiVersion: {problem}"));
        version.or_else(|| text(&object["kind"], "kind"))
    };
    let problem = problem.or_else(of_metadata).or_else(of_kind)?;
    let shown = |value: &Value| value.as_str().unwrap_or_default().escape_debug().to_string();
    let name = match &metadata["name"] {
        Value::Null => &metadata["generateName"],
        name => name,
    };
    Some(format!("{} {:?}: {problem}", shown(&object["kind"]), name.as_str().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{problem_of_object, segment_problem};

    #[test]
    fn names_are_one_path_segment() {
        for good in ["", "web", "system:node", "a.b-c_d", "Role", "..."] {
            assert_eq!(segment_problem(good), None, "{good}");
        }
        for bad in [
            ".",
            "..",
            "a/b",
            "ok-11/../../victimns",
            "a%2fb",
            "a?dryRun=All",
            "a#b",
            "a b",
            "a\nb",
            "a\\b",
        ] {
            assert!(segment_problem(bad).is_some(), "{bad}");
        }
        let cases = [
            (json!({"metadata": {"name": "a/b"}}), "metadata.name"),
            (json!({"metadata": {"namespace": "ok-11/../../victimns"}}), "metadata.namespace"),
            (json!({"metadata": {"generateName": "../"}}), "metadata.generateName"),
            (json!({"metadata": {"name": 5}}), "metadata.name: must be a string"),
            (json!({"metadata": []}), "metadata: must be an object"),
            (json!({"apiVersion": "../../api/v1"}), "apiVersion"),
            (json!({"kind": "Pod/../x"}), "kind"),
        ];
        for (object, want) in cases {
            let found = problem_of_object(&object).unwrap();
            assert!(found.contains(want), "{found}");
        }
        assert_eq!(
            problem_of_object(&json!({"apiVersion": "apps/v1", "kind": "Deployment"})),
            None
        );
    }
}
