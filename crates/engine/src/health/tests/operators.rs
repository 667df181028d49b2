//! Statuses of operators, a line per case: `operators.jsonl`, and `projects.jsonl` with objects
//! of kinds of other projects, judged by the documentation of their APIs.

use super::*;

/// The cases of a file that have another health than is expected.
fn wrong(cases: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, line) in cases.lines().enumerate() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (version, kind) = (case.text("/apiVersion"), case.text("/kind"));
        let parts = ["metadata", "spec", "status"];
        let parts =
            parts.iter().filter_map(|part| Some(((*part).to_owned(), case.get(*part)?.clone())));
        let (found, said) = assess(&object(version, kind, Value::Object(parts.collect())));
        let found = found.map_or("none", Status::as_str);
        if found != case.text("/want") {
            let want = case.text("/want");
            wrong.push(format!("{}: {kind}: {want} expected, {found} found: {said}", number + 1));
        }
    }
    wrong
}

#[test]
fn operators_have_the_health_that_they_report() {
    assert_eq!(wrong(include_str!("operators.jsonl")), [""; 0]);
}

#[test]
fn kinds_of_other_projects_have_the_health_that_their_documentation_means() {
    let cases = include_str!("projects.jsonl");
    assert!(cases.lines().count() >= 100);
    assert_eq!(wrong(cases), [""; 0]);
}
