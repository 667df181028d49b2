//! The YAML of the pages and of `deploy/`: fields that the definitions have, and sets that
//! can be planned.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use wavegate_api::{API_VERSION, crds};
use wavegate_rollout::rollout::wait::WaitKind;

use super::markdown::{Page, files};

/// The schema of a kind.
fn schema(kind: &str) -> Value {
    let definition =
        crds::all_definitions().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
    serde_json::to_value(&definition).unwrap()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        .clone()
}

/// Fields that the schema does not have, and values of another type, by their paths.
fn unknown(value: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    let open = schema["x-kubernetes-preserve-unknown-fields"] == true;
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                match (schema["properties"].get(name), schema.get("additionalProperties")) {
                    (Some(inner), _) | (None, Some(inner @ Value::Object(_))) => {
                        unknown(value, inner, &path, found);
                    }
                    (None, _) if open => {}
                    (None, _) => found.push(path),
                }
            }
        }
        Value::Array(items) => {
            if schema["type"] != "array" && !open {
                found.push(format!("{path}: a list"));
            }
            for (index, item) in items.iter().enumerate() {
                unknown(item, &schema["items"], &format!("{path}[{index}]"), found);
            }
        }
        Value::String(_)
            if matches!(
                schema["type"].as_str(),
                Some("integer" | "boolean" | "object" | "array")
            ) =>
        {
            found.push(format!("{path}: a string"));
        }
        Value::Number(_)
            if matches!(
                schema["type"].as_str(),
                Some("string" | "boolean" | "object" | "array")
            ) =>
        {
            found.push(format!("{path}: a number"));
        }
        _ => {}
    }
}

/// The schema of what a block shows, and the value: a whole object, a part of an
/// ApplicationSet that starts with `spec`, or a list of generators.
fn shown(value: Value) -> Option<(Value, Value)> {
    if value.is_array() {
        return Some((schema("ApplicationSet"), json!({"spec": {"generators": value}})));
    }
    if [API_VERSION, wavegate_api::WAVEGATE_API_VERSION]
        .iter()
        .any(|ours| value["apiVersion"] == *ours)
    {
        let mut schema = schema(value["kind"].as_str().unwrap());
        // The server's part.
        schema["properties"]["metadata"] = json!({"x-kubernetes-preserve-unknown-fields": true});
        return Some((schema, value));
    }
    match value.get("spec") {
        Some(_) if value.get("kind").is_none() => Some((schema("ApplicationSet"), value)),
        // A kind of Kubernetes.
        _ => {
            assert!(value["kind"].is_string() && value["apiVersion"].is_string(), "{value}");
            None
        }
    }
}

#[test]
fn yaml_of_the_pages_is_valid() {
    let mut checked = 0;
    for path in files("md") {
        for block in Page::read(&path).blocks().filter(|block| block.language == "yaml") {
            let place = format!("{path}:{}", block.line);
            let values = wavegate_api::yaml::parse_documents(&block.text)
                .unwrap_or_else(|error| panic!("{place}: {error}"));
            for value in values.into_iter().map(|document| document.value) {
                let is_set = value["kind"] == "ApplicationSet";
                if let Some((schema, value)) = shown(value) {
                    let mut found = Vec::new();
                    unknown(&value, &schema, "", &mut found);
                    assert!(found.is_empty(), "{place}: not in the definition: {found:?}");
                }
                if is_set {
                    plan(&place, &block.text);
                }
                checked += 1;
            }
        }
    }
    assert!(checked >= 5, "{checked} blocks");
}

/// A whole set can be planned.
fn plan(place: &str, text: &str) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_wavegate"))
        .args(["plan", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let run = child.wait_with_output().unwrap();
    assert!(run.status.success(), "{place}: {}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn unknown_fields_are_found() {
    let set = schema("ApplicationSet");
    let wrong = json!({"spec": {"stragety": {}, "generators": [{"list": {"element": []}}],
        "strategy": {"rollingSync": {"steps": [{"maxUpdates": 1}]}}}});
    let mut found = Vec::new();
    unknown(&wrong, &set, "", &mut found);
    let want = [
        ".spec.generators[0].list.element",
        ".spec.stragety",
        ".spec.strategy.rollingSync.steps[0].maxUpdates",
    ];
    found.sort();
    assert_eq!(found, want);
}

/// The list of kinds is closed and documented: in `docs/operations.md` and in the definition.
#[test]
fn the_kinds_of_waits_are_listed() {
    let page = std::fs::read_to_string(super::markdown::root().join("docs/operations.md")).unwrap();
    let (_, section) = page.split_once("### Kinds of waits\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let listed: Vec<&str> = rows.map(|(kind, _)| kind).collect();
    let kinds: Vec<&str> = WaitKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(listed, kinds);
    let rollout = &schema("ApplicationSet")["properties"]["status"]["properties"]["rollout"];
    let wait = &rollout["properties"]["waitingFor"]["items"]["properties"];
    let described = wait["kind"]["description"].as_str().unwrap();
    let words: Vec<&str> = described.split(|c: char| !c.is_alphanumeric()).collect();
    for kind in listed {
        assert!(words.contains(&kind), "{kind} in {described}");
    }
}
