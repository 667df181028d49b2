//! Comparison of specs (AS-153).

use serde_json::{Map, Value};

/// Removes fields without effect: an empty project becomes `default`, an empty
/// sync policy and empty source blocks are removed.
pub fn empty_objects(spec: &mut Value) {
    let Some(fields) = spec.as_object_mut() else { return };
    if fields.get("project").is_none_or(|project| project == "" || project.is_null()) {
        fields.insert("project".to_owned(), "default".into());
    }
    if fields.get("syncPolicy").is_some_and(says_nothing) {
        fields.remove("syncPolicy");
    }
    match fields.get_mut("sources") {
        Some(Value::Array(sources)) if !sources.is_empty() => {
            sources.iter_mut().for_each(empty_source_blocks);
        }
        _ => {
            if let Some(source) = fields.get_mut("source") {
                empty_source_blocks(source);
            }
        }
    }
}

fn empty_source_blocks(source: &mut Value) {
    let Some(source) = source.as_object_mut() else { return };
    for block in ["kustomize", "helm", "directory"] {
        if source.get(block).is_some_and(says_nothing) {
            source.remove(block);
        }
    }
}

/// Whether two specs are equal after normalisation; an absent field equals an
/// empty one and the zero value of the field.
pub fn equal_specs(a: &Value, b: &Value) -> bool {
    if a == b {
        return true;
    }
    let normalised = |spec: &Value| {
        let mut spec = spec.clone();
        empty_objects(&mut spec);
        spec
    };
    equal_parts(&normalised(a), &normalised(b))
}

/// The same for a part of a spec, such as a source.
pub fn equal_parts(a: &Value, b: &Value) -> bool {
    alike(a, b, Zeros::AreAbsent)
}

/// Whether two values are equal when null, an empty list and an empty object
/// count as absent.
pub fn equal_when_empty(a: &Value, b: &Value) -> bool {
    alike(a, b, Zeros::Count)
}

/// Whether `false`, 0 and an empty text equal an absent field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zeros {
    /// For the fields in [`LEFT_OUT`].
    AreAbsent,
    /// Never.
    Count,
}

/// Blocks whose presence has an effect even when empty: an empty `automated`
/// enables automated sync.
const PRESENCE_COUNTS: [&str; 2] = ["automated", "retry"];

/// The fields of the spec of an Application for which absent and the zero value
/// are the same: clients that use Argo CD's Go types omit the zero value. Not
/// included are fields that distinguish the two (`enabled`, `factor`,
/// `revisionHistoryLimit`), and unknown ones.
const LEFT_OUT: [&str; 47] = [
    "allowEmpty",
    "annotationSelector",
    "chart",
    "code",
    "commonAnnotationsEnvsubst",
    "disableExtensionFilter",
    "duration",
    "exclude",
    "forceCommonAnnotations",
    "forceCommonLabels",
    "forceString",
    "group",
    "ignoreMissingComponents",
    "ignoreMissingValueFiles",
    "include",
    "kind",
    "kubeVersion",
    "labelIncludeTemplates",
    "labelSelector",
    "labelWithoutSelector",
    "limit",
    "maxDuration",
    "name",
    "namePrefix",
    "nameSuffix",
    "namespace",
    "passCredentials",
    "patch",
    "path",
    "project",
    "prune",
    "recurse",
    "ref",
    "refresh",
    "releaseName",
    "repoURL",
    "selfHeal",
    "server",
    "skipCrds",
    "skipSchemaValidation",
    "skipTests",
    "tagPrefix",
    "targetBranch",
    "targetRevision",
    "value",
    "values",
    "version",
];

/// Objects with user-defined keys: every value in them counts.
const USERS_OWN: [&str; 6] =
    ["annotations", "commonAnnotations", "commonLabels", "labels", "map", "valuesObject"];

fn alike(a: &Value, b: &Value, zeros: Zeros) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => alike_objects(a, b, zeros),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b, zeros))
        }
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b || (says_nothing(a) && says_nothing(b)),
    }
}

fn alike_objects(a: &Map<String, Value>, b: &Map<String, Value>, zeros: Zeros) -> bool {
    let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
    keys.into_iter().all(|key| {
        let (a, b) = (a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
        if PRESENCE_COUNTS.contains(&key.as_str()) && a.is_null() != b.is_null() {
            return false;
        }
        let below = if USERS_OWN.contains(&key.as_str()) { Zeros::Count } else { zeros };
        let left_out = |value: &Value| {
            says_nothing(value)
                || (zeros == Zeros::AreAbsent && is_zero(value) && LEFT_OUT.contains(&key.as_str()))
                || (below == Zeros::AreAbsent && is_left_out(value))
        };
        alike(a, b, below) || (left_out(a) && left_out(b))
    })
}

/// Whether an object contains only fields that may be omitted.
pub fn is_left_out(value: &Value) -> bool {
    let Value::Object(object) = value else { return false };
    object.iter().all(|(key, value)| {
        let key = key.as_str();
        says_nothing(value) && (value.is_null() || !PRESENCE_COUNTS.contains(&key))
            || is_zero(value) && LEFT_OUT.contains(&key)
            || !USERS_OWN.contains(&key) && !PRESENCE_COUNTS.contains(&key) && is_left_out(value)
    })
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Null, or a list or object of such values.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.iter().all(|(key, value)| {
            let counts = PRESENCE_COUNTS.contains(&key.as_str()) && !value.is_null();
            !counts && says_nothing(value)
        }),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wavegate_api::{self as api, ApplicationSpec};

    /// Every field of the spec: its path and its zero value.
    fn fields(schema: &Value, path: &[String], found: &mut Vec<(Vec<String>, Value)>) {
        for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
            let path: Vec<String> = path.iter().chain([key]).cloned().collect();
            match schema["type"].as_str() {
                Some("boolean") => found.push((path, json!(false))),
                Some("integer") => found.push((path, json!(0))),
                Some("string") => found.push((path, json!(""))),
                Some("array") => {
                    let path: Vec<String> = path.into_iter().chain(["[]".to_owned()]).collect();
                    fields(&schema["items"], &path, found);
                }
                _ => fields(schema, &path, found),
            }
        }
    }

    /// An object with only this field, or without it.
    fn with(path: &[String], value: Option<&Value>) -> Value {
        let Some((key, rest)) = path.split_first() else {
            return value.cloned().unwrap_or_default();
        };
        match key.as_str() {
            "[]" => json!([with(rest, value)]),
            _ if rest.is_empty() && value.is_none() => json!({}),
            key => json!({ key: with(rest, value) }),
        }
    }

    #[test]
    fn a_zero_value_is_a_difference_exactly_where_the_type_distinguishes_it_from_nothing_as_153() {
        let definition = serde_json::to_value(&api::crds::all_definitions()[1]).unwrap();
        let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec");
        let mut found = Vec::new();
        fields(schema.unwrap(), &[], &mut found);
        assert!(found.len() > 60, "{}", found.len());
        let mut wrong = Vec::new();
        for (path, zero) in found {
            let (there, absent) = (with(&path, Some(&zero)), with(&path, None));
            let typed = |spec: &Value| api::read_typed::<ApplicationSpec>(spec).unwrap();
            // Our type keeps them as written; Argo CD's type omits empty values
            // except the `string` of a parameter.
            let kept = ["patches", "plugin", "sourceHydrator"];
            let is_kept = path.iter().any(|key| kept.contains(&key.as_str()));
            let left_out = is_kept && path.last().is_some_and(|key| key != "string");
            let same = left_out || typed(&there) == typed(&absent);
            if [equal_specs(&there, &absent), equal_specs(&absent, &there)] != [same, same] {
                wrong.push(format!("{there} and {absent} are the same: {same}"));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn zeros_of_the_users_own_and_of_what_is_not_known_count() {
        let cases = [
            (json!({"source": {"directory": {"recurse": false}}}), json!({"source": {}}), true),
            (json!({"source": {"directory": {"recurse": true}}}), json!({"source": {}}), false),
            (json!({"syncPolicy": {"automated": {"prune": false}}}), json!({}), false),
            (
                json!({"syncPolicy": {"automated": {"prune": false, "enabled": false}}}),
                json!({"syncPolicy": {"automated": {"enabled": false}}}),
                true,
            ),
            (
                json!({"syncPolicy": {"automated": {"enabled": false}}}),
                json!({"syncPolicy": {"automated": {}}}),
                false,
            ),
            (
                json!({"source": {"helm": {"valuesObject": {"prune": false}}}}),
                json!({"source": {"helm": {"valuesObject": {}}}}),
                false,
            ),
            (
                json!({"source": {"helm": {"parameters": [{"name": "a", "forceString": false}]}}}),
                json!({"source": {"helm": {"parameters": [{"name": "a"}]}}}),
                true,
            ),
            (
                json!({"source": {"kustomize": {"commonLabels": {"name": ""}}}}),
                json!({"source": {"kustomize": {"commonLabels": {}}}}),
                false,
            ),
            (json!({"source": {"newField": false}}), json!({"source": {}}), false),
            (json!({"revisionHistoryLimit": 0}), json!({}), false),
        ];
        for (a, b, want) in cases {
            assert_eq!(equal_specs(&a, &b), want, "{a} and {b}");
            assert_eq!(equal_specs(&b, &a), want, "{b} and {a}");
        }
    }
}
