//! What is shown of each object of `operators.jsonl` and `projects.jsonl`, and of the same one
//! without one of its fields, where that differs. `messages.txt` is to be read with each change of
//! it; `WAVEGATE_REGENERATE=1` writes it.

use std::fmt::Write;

use super::*;
use crate::written;

fn shown(object: &Value) -> String {
    let Some(health) = health_of(object) else { return "no health".to_owned() };
    let line = format!("{}: {}", health.status.as_str(), health.message.replace('\n', "\\n"));
    line.trim_end_matches([':', ' ']).to_owned()
}

/// The places of the values of an object, below its spec and status.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, one)| (key.clone(), one)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect()
        }
        _ => Vec::new(),
    };
    for (key, one) in below {
        let place = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        places(one, &place, found);
        found.push(place);
    }
}

fn without(object: &Value, place: &str) -> Option<Value> {
    let mut object = object.clone();
    let (parent, key) = place.rsplit_once('/')?;
    match object.pointer_mut(parent)? {
        Value::Object(fields) => drop(fields.remove(&key.replace("~1", "/").replace("~0", "~"))),
        Value::Array(items) => drop(items.remove(key.parse().ok()?)),
        _ => return None,
    }
    Some(object)
}

#[test]
fn objects_are_shown_as_written() {
    let mut text = String::new();
    let files = [include_str!("operators.jsonl"), include_str!("projects.jsonl")];
    for line in files.into_iter().flat_map(str::lines) {
        let case: Value = serde_json::from_str(line).unwrap();
        let (version, kind) = (case.text("/apiVersion"), case.text("/kind"));
        let parts = ["metadata", "spec", "status"];
        let parts =
            parts.iter().filter_map(|part| Some(((*part).to_owned(), case.get(*part)?.clone())));
        let object = object(version, kind, Value::Object(parts.collect()));
        let base = shown(&object);
        let _ = writeln!(text, "{kind} {}\n  {base}", case["status"]);
        let mut found = Vec::new();
        places(&object["spec"], "/spec", &mut found);
        places(&object["status"], "/status", &mut found);
        for place in found {
            let less = without(&object, &place).unwrap();
            let other = shown(&less);
            if other != base && other != "no health" {
                let _ = writeln!(text, "  without {place}: {other}");
            }
        }
    }
    written::compare("src/health/tests/messages.txt", &text);
}
