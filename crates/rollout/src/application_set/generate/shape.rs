//! Validation of generated objects: their kind, their metadata by the rules of
//! the API server, and their spec by its type (AS-144).
//!
//! The result of template and patch is validated as a whole before anything is
//! decided: an object that the API server would reject, or that would be read
//! differently than intended, must not cause the deletion of the Application of
//! the same name.

use serde_json::Value;

use wavegate_api::{self as api, API_VERSION, ApplicationSpec};

/// The longest name of an object, in bytes (RFC 1123, as in Kubernetes).
const LONGEST_NAME: usize = 253;
/// The longest part of a qualified name, and of a label value, in bytes.
const LONGEST_PART: usize = 63;
/// The most bytes of all annotations of an object.
const ANNOTATION_BYTES: usize = 256 << 10;
/// The most characters of a value in a message.
const SHOWN: usize = 60;

/// The first error of a generated object, in the order of the fields: the
/// field, its value, and what is required.
pub fn shape_problem(application: &Value) -> Option<String> {
    let metadata = &application["metadata"];
    problem_of_kind(application)
        .or_else(|| problem_of_name(&metadata["name"]))
        .or_else(|| problem_of_texts(metadata, "labels", label))
        .or_else(|| problem_of_texts(metadata, "annotations", annotation))
        .or_else(|| problem_of_annotations_size(&metadata["annotations"]))
        .or_else(|| problem_of_finalizers(&metadata["finalizers"]))
        .or_else(|| problem_of_spec(&application["spec"]))
}

fn problem_of_kind(application: &Value) -> Option<String> {
    let wanted = [("apiVersion", API_VERSION), ("kind", "Application")];
    let (field, want) = wanted.into_iter().find(|(field, want)| application[*field] != *want)?;
    let is = shown(&application[field]);
    Some(format!("{field}: is {is}, must be {want}; remove it from spec.templatePatch"))
}

/// Why a name is as it is, when the generator lacks a parameter that it refers to. Without
/// `goTemplate`, such a reference stays as it is; with it, it becomes `<no value>` (AS-132).
fn missing_parameter(name: &str) -> Option<String> {
    if name.contains("<no value>") {
        return Some(
            "the template names a field that the generator's element does not have; \
             spec.goTemplateOptions: [missingkey=error] says which"
                .to_owned(),
        );
    }
    let (_, rest) = name.split_once("{{")?;
    let parameter = rest.split_once("}}")?.0.trim();
    Some(format!("the generator has no parameter {parameter}"))
}

/// The error of Applications of one name, generated from these elements: the name is
/// ambiguous. A name that lacks a parameter has an error of its own.
pub(in crate::application_set) fn problem_of_namesakes(
    name: &str,
    origins: &[&str],
) -> Option<String> {
    let [first, second, rest @ ..] = origins else { return None };
    if name.is_empty() || missing_parameter(name).is_some() {
        return None;
    }
    let among = if rest.is_empty() { "" } else { " among them" };
    Some(format!(
        "spec.template.metadata.name: {} elements result in this name, {first} and {second}{among}; \
         it must be unique",
        origins.len()
    ))
}

/// The error of the name of an object.
fn problem_of_name(name: &Value) -> Option<String> {
    let place = "spec.template.metadata.name";
    let Some(text) = name.as_str() else {
        return Some(match name {
            Value::Null => format!("{place}: is missing; every Application needs a name"),
            other => format!(
                "{place}: is {}, must be a string; write it in quotes, also in spec.templatePatch",
                shown(other)
            ),
        });
    };
    if text.is_empty() {
        return Some(format!("{place}: renders to an empty name"));
    }
    if let Some(missing) = missing_parameter(text) {
        return Some(format!("{place}: {} is not a valid object name: {missing}", shown(name)));
    }
    (!is_subdomain(text)).then(|| {
        format!(
            "{place}: {} is not a valid object name; use at most {LONGEST_NAME} lower-case letters, \
             digits, '-' and '.', and begin and end with a letter or digit",
            shown(name)
        )
    })
}

fn problem_of_texts(
    metadata: &Value,
    field: &str,
    check: fn(&str, &str) -> Option<String>,
) -> Option<String> {
    let place = format!("metadata.{field}");
    let texts = match &metadata[field] {
        Value::Null => return None,
        Value::Object(texts) => texts,
        other => return Some(format!("{place}: is {}, must be an object", shown(other))),
    };
    texts.iter().find_map(|(key, value)| {
        let place = format!("{place}.{}", cut(key));
        match value.as_str() {
            Some(text) => check(key, text).map(|problem| format!("{place}: {problem}")),
            None => {
                Some(format!("{place}: is {}, must be a string; write it in quotes", shown(value)))
            }
        }
    })
}

/// Why a text cannot be the key of a label.
pub fn problem_of_label_key(key: &str) -> Option<&'static str> {
    (!is_qualified(key)).then_some(NOT_QUALIFIED)
}

fn label(key: &str, value: &str) -> Option<String> {
    if !is_qualified(key) {
        return Some(NOT_QUALIFIED.to_owned());
    }
    let fine = value.is_empty() || is_part(value);
    (!fine).then(|| {
        format!(
            "{:?} is not a valid label value; use at most {LONGEST_PART} letters, digits, '-', '_' \
             and '.', and begin and end with a letter or digit",
            cut(value)
        )
    })
}

fn annotation(key: &str, _: &str) -> Option<String> {
    // As in the API server, which ignores the case of a prefix here.
    (!is_qualified(&key.to_lowercase())).then(|| NOT_QUALIFIED.to_owned())
}

const NOT_QUALIFIED: &str = "is not a valid key; use at most 63 letters, digits, '-', '_' and '.', and begin and \
                             end with a letter or digit; a DNS name and a '/' may precede them";

fn problem_of_annotations_size(annotations: &Value) -> Option<String> {
    let texts = annotations.as_object().into_iter().flatten();
    let bytes: usize = texts.map(|(key, text)| key.len() + text.as_str().map_or(0, str::len)).sum();
    (bytes > ANNOTATION_BYTES).then(|| {
        format!("metadata.annotations: have {bytes} bytes, may have {ANNOTATION_BYTES} at most")
    })
}

fn problem_of_finalizers(finalizers: &Value) -> Option<String> {
    let list = match finalizers {
        Value::Null => return None,
        Value::Array(list) => list,
        other => {
            return Some(format!("metadata.finalizers: is {}, must be a list", shown(other)));
        }
    };
    let wrong = |finalizer: &Value| !finalizer.as_str().is_some_and(is_qualified);
    let at = list.iter().position(wrong)?;
    Some(format!("metadata.finalizers[{at}]: {} is not a valid finalizer name", shown(&list[at])))
}

fn problem_of_spec(spec: &Value) -> Option<String> {
    if !spec.is_object() {
        return Some(format!("spec: is {}, must be an object", shown(spec)));
    }
    let error = api::read_typed::<ApplicationSpec>(spec).err()?;
    let place = match error.path.as_str() {
        "." => "spec".to_owned(),
        path => format!("spec.{path}"),
    };
    Some(format!("{place}: {}", words(&error.reason)))
}

/// A deserialization error in the terms of a manifest.
fn words(reason: &str) -> String {
    let types =
        reason.strip_prefix("invalid type: ").and_then(|types| types.rsplit_once(", expected "));
    let Some((is, must)) = types else { return cut(reason) };
    let must = match must {
        "a sequence" => "a list",
        "a map" => "an object",
        "i64" | "u64" | "i32" | "u32" => "a whole number",
        must if must.starts_with("struct ") => "an object",
        must => must,
    };
    let is = match is {
        "sequence" => "a list".to_owned(),
        "map" => "an object".to_owned(),
        "null" => "null".to_owned(),
        is => format!("the {}", is.replace('`', "")),
    };
    format!("is {}, must be {must}", cut(&is))
}

/// A value for users, truncated.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "missing".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let kind = match value {
                Value::String(text) if text.is_empty() => return "empty".to_owned(),
                Value::String(_) => "",
                Value::Bool(_) => "the boolean ",
                _ => "the number ",
            };
            format!("{kind}{}", cut(&value.to_string()))
        }
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether it is a DNS subdomain of RFC 1123, as most object names are.
fn is_subdomain(text: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(|byte| is_fine(*byte))
            && bytes.last().is_some_and(|byte| is_fine(*byte))
            && bytes.iter().all(|byte| is_fine(*byte) || *byte == b'-')
    };
    text.len() <= LONGEST_NAME && text.split('.').all(is_label)
}

/// Whether it is a name with an optional DNS subdomain and `/` as prefix.
fn is_qualified(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_part(name),
        None => is_part(text),
    }
}

fn is_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= LONGEST_PART
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn application() -> Value {
        json!({
            "apiVersion": API_VERSION, "kind": "Application",
            "metadata": {
                "name": "a.b-1", "labels": {"example.com/x": "", "y": "A_b.c-1"},
                "annotations": {"Example.com/Note": "any text"},
                "finalizers": ["resources-finalizer.argocd.argoproj.io", "f/cleanup"],
            },
            "spec": {
                "project": "default", "destination": {"name": "in-cluster"},
                "source": {"repoURL": "r", "path": "p", "unknown": {"x": 1}},
                "syncPolicy": {"automated": {"prune": true}, "retry": {"limit": 5}},
            },
        })
    }

    #[test]
    fn keys_of_labels_have_a_form() {
        for (key, is_fine) in
            [("a", true), ("example.com/a", true), ("", false), ("a b", false), ("/a", false)]
        {
            let problem = problem_of_label_key(key);
            assert_eq!(problem, (!is_fine).then_some(NOT_QUALIFIED), "{key}");
        }
    }

    #[test]
    fn invalid_applications_are_reported_by_field_as_144() {
        assert_eq!(shape_problem(&application()), None);
        let long = "a".repeat(254);
        let cases = [
            ("/kind", json!("AppProject"), "kind: is \"AppProject\", must be Application"),
            ("/apiVersion", json!(null), "apiVersion: is missing, must be argoproj.io/v1alpha1"),
            (
                "/metadata/name",
                json!(1),
                "spec.template.metadata.name: is the number 1, must be a string",
            ),
            ("/metadata/name", json!(null), "spec.template.metadata.name: is missing"),
            ("/metadata/name", json!(""), "spec.template.metadata.name: renders to an empty name"),
            (
                "/metadata/name",
                json!("App_x"),
                "spec.template.metadata.name: \"App_x\" is not a valid object name",
            ),
            (
                "/metadata/name",
                json!("-a"),
                "spec.template.metadata.name: \"-a\" is not a valid object name",
            ),
            ("/metadata/name", json!("a..b"), "\"a..b\" is not a valid object name"),
            ("/metadata/name", json!(long), "is not a valid object name"),
            ("/metadata/labels", json!("x"), "metadata.labels: is \"x\", must be an object"),
            (
                "/metadata/labels/y",
                json!(true),
                "metadata.labels.y: is the boolean true, must be a string",
            ),
            (
                "/metadata/labels/y",
                json!("a b"),
                "metadata.labels.y: \"a b\" is not a valid label value",
            ),
            (
                "/metadata/annotations",
                json!({"a b": ""}),
                "metadata.annotations.a b: is not a valid key",
            ),
            ("/metadata/annotations", json!([]), "metadata.annotations: is a list"),
            ("/metadata/finalizers", json!("f"), "metadata.finalizers: is \"f\", must be a list"),
            (
                "/metadata/finalizers/1",
                json!(5),
                "metadata.finalizers[1]: the number 5 is not a valid finalizer name",
            ),
            (
                "/metadata/finalizers/1",
                json!("a b"),
                "metadata.finalizers[1]: \"a b\" is not a valid finalizer name",
            ),
            ("/spec", json!("x"), "spec: is \"x\", must be an object"),
            (
                "/spec/syncPolicy/automated/prune",
                json!("yes please"),
                "spec.syncPolicy.automated.prune: is the string \"yes please\", must be a boolean",
            ),
            ("/spec/source/path", json!(5), "spec.source.path: is the integer 5, must be a string"),
            (
                "/spec/destination",
                json!("here"),
                "spec.destination: is the string \"here\", must be an object",
            ),
            (
                "/spec/syncPolicy/retry/limit",
                json!("5"),
                "spec.syncPolicy.retry.limit: is the string \"5\", must be a whole number",
            ),
        ];
        for (place, value, want) in cases {
            let mut wrong = application();
            *wrong.pointer_mut(place).unwrap() = value.clone();
            let found = shape_problem(&wrong).unwrap_or_default();
            assert!(found.contains(want), "{place} {value}: {found}");
        }
        let mut large = application();
        large["metadata"]["annotations"] = json!({"a": "x".repeat(ANNOTATION_BYTES)});
        assert!(
            shape_problem(&large).unwrap().starts_with("metadata.annotations: have 262145 bytes")
        );
    }

    /// The API server accepts what is exactly as long as allowed, and what has its odd characters
    /// inside; an Application that it accepts must not be held back here (AS-144).
    #[test]
    fn what_the_api_server_just_accepts_is_accepted_as_144() {
        let (most, more) = ("a".repeat(LONGEST_PART), "a".repeat(LONGEST_PART + 1));
        let cases = [
            ("name", json!("a".repeat(LONGEST_NAME)), json!("a".repeat(LONGEST_NAME + 1))),
            ("name", json!("a-1"), json!("a-")),
            ("name", json!("1.a"), json!("a.-b")),
            ("name", json!("a--b"), json!("a_b")),
            ("labels", json!(null), json!(1)),
            ("labels", json!({most.as_str(): most}), json!({"a": more})),
            ("labels", json!({"a": "b_c"}), json!({"a": "-b"})),
            ("labels", json!({"a": "b.c"}), json!({"a": "b-"})),
            ("labels", json!({"a-b": ""}), json!({more.as_str(): ""})),
            ("labels", json!({"e.x/a": ""}), json!({"e_x/a": ""})),
            ("labels", json!({"e/a_b": ""}), json!({"e/": ""})),
            ("labels", json!({"e/A": ""}), json!({"E/a": ""})),
            ("annotations", json!({"E/A": "any: text"}), json!({"e/a/b": ""})),
            (
                "annotations",
                json!({"a": "x".repeat(ANNOTATION_BYTES - 1)}),
                json!({"a": "x".repeat(ANNOTATION_BYTES / 2), "b": "x".repeat(ANNOTATION_BYTES / 2)}),
            ),
            ("finalizers", json!(null), json!({})),
            ("finalizers", json!([]), json!([""])),
        ];
        for (field, fine, wrong) in cases {
            let mut application = application();
            application["metadata"][field] = fine.clone();
            assert_eq!(shape_problem(&application), None, "{field}: {fine}");
            application["metadata"][field] = wrong.clone();
            assert!(shape_problem(&application).is_some(), "{field}: {wrong}");
        }
    }

    /// The message names what is there, in the terms of a manifest, and not all of a long text.
    #[test]
    fn a_wrong_value_is_shown_as_its_author_wrote_it() {
        let long = |count: usize| "A".repeat(count);
        let cases = [
            ("/kind", json!(""), "kind: is empty, must"),
            ("/kind", json!([]), "kind: is a list, must"),
            ("/kind", json!({}), "kind: is an object, must"),
            ("/kind", json!(2), "kind: is the number 2, must"),
            ("/kind", json!(false), "kind: is the boolean false, must"),
            // With the quotes around it.
            ("/kind", json!(long(SHOWN - 2)), &format!("is \"{}\", must", long(SHOWN - 2))),
            ("/kind", json!(long(SHOWN - 1)), &format!("is \"{}…, must", long(SHOWN - 1))),
            ("/metadata/labels/y", json!(null), "y: is missing, must be a string"),
            ("/spec/source", json!("x"), "the string \"x\", must be an object"),
            ("/spec/syncPolicy", json!({"syncOptions": "x"}), "\"x\", must be a list"),
            ("/spec/syncPolicy/retry/limit", json!([]), "is a list, must be a whole number"),
            ("/spec/syncPolicy/retry/limit", json!({}), "is an object, must be a whole number"),
            ("/spec/source/path", json!([]), "is a list, must be a string"),
        ];
        for (place, value, want) in cases {
            let mut wrong = application();
            *wrong.pointer_mut(place).unwrap() = value.clone();
            let found = shape_problem(&wrong).unwrap_or_default();
            assert!(found.contains(want), "{place} {value}: {found}");
        }
    }

    /// A name that lacks a parameter is one mistake, with a message of its own (AS-132): it is not
    /// reported as a name that several elements share, too.
    #[test]
    fn only_a_whole_name_is_ambiguous() {
        let two = ["elements[0]", "elements[1]"];
        let three = ["elements[0]", "elements[1]", "elements[2]"];
        let cases: [(&str, &[&str], Option<&str>); 7] = [
            ("web", &two[..1], None),
            ("web", &two, Some("2 elements result in this name, elements[0] and elements[1]; it")),
            (
                "web",
                &three,
                Some("3 elements result in this name, elements[0] and elements[1] among them"),
            ),
            ("", &two, None),
            ("web-{{ env }}", &two, None),
            ("web-<no value>", &two, None),
            ("web-{{", &two, Some("2 elements")),
        ];
        for (name, origins, want) in cases {
            let found = problem_of_namesakes(name, origins);
            match want {
                None => assert_eq!(found, None, "{name:?}"),
                Some(want) => {
                    assert!(found.as_ref().is_some_and(|it| it.contains(want)), "{found:?}")
                }
            }
        }
        for (name, want) in [
            ("web-{{ env }}", "the generator has no parameter env"),
            ("web-<no value>", "missingkey=error"),
        ] {
            let mut wrong = application();
            wrong["metadata"]["name"] = name.into();
            let found = shape_problem(&wrong).unwrap_or_default();
            assert!(found.contains(want), "{name}: {found}");
        }
    }
}
