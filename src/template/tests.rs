//! The template languages against recorded results, tables of the specification, and hostile input.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::go::{Limits, Options, Template};
use super::{Error, float_text, normalize, simple, slugify};

/// One recorded result of the Go engine.
#[derive(Deserialize)]
struct Vector {
    id: String,
    template: String,
    params: Map<String, Value>,
    #[serde(default)]
    options: Vec<String>,
    output: Option<String>,
    error: Option<String>,
}

fn render(template: &str, params: &Map<String, Value>, options: &[String]) -> Result<String, Error> {
    let options = Options::parse(options)?;
    Template::parse(template, &options)?.execute(params, &Limits::default())
}

/// Line and column of a Go error text, where it has them.
fn place(error: &str) -> (Option<usize>, Option<usize>) {
    let Some(rest) = error.strip_prefix("template: :") else { return (None, None) };
    let mut parts = rest.split(':');
    let line = parts.next().and_then(|part| part.parse().ok());
    (line, parts.next().and_then(|part| part.parse().ok()))
}

/// What is wrong with the result of a vector, if anything.
fn differs(vector: &Vector) -> Option<String> {
    let got = render(&vector.template, &vector.params, &vector.options);
    match (&vector.output, &vector.error, &got) {
        (Some(want), None, Ok(text)) if text == want => None,
        (None, Some(want), Err(error)) => {
            let want_place = place(want);
            let got_place = (error.line(), error.column());
            (want_place != got_place).then(|| format!("want {want}\n   got  {error}"))
        }
        _ => {
            let want = vector.output.as_ref().map_or_else(
                || format!("error {}", vector.error.as_deref().unwrap_or_default()),
                |text| format!("{text:?}"),
            );
            Some(format!("want {want}\n   got  {got:?}"))
        }
    }
}

#[test]
fn vectors_of_the_go_engine_hold() {
    let path = std::env::var("WAVEGATE_TEMPLATE_VECTORS")
        .unwrap_or_else(|_| format!("{}/tests/data/templates.jsonl", env!("CARGO_MANIFEST_DIR")));
    // The file is test data beside the code, not an input of the module.
    #[expect(clippy::disallowed_methods, reason = "a test may read its data")]
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let vectors: Vec<Vector> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut failures = Vec::new();
    for vector in &vectors {
        if let Some(difference) = differs(vector) {
            failures.push(format!("{}: {:?} {}\n   {difference}", vector.id, vector.template, json!(vector.params)));
        }
    }
    println!("template vectors: {} of {} hold", vectors.len() - failures.len(), vectors.len());
    assert!(!vectors.is_empty(), "no vectors in {path}");
    assert!(failures.is_empty(), "{} differ, the first:\n{}", failures.len(), failures[..failures.len().min(60)].join("\n"));
}
