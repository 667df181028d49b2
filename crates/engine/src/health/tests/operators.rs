//! Statuses of operators, a line per case: `operators.jsonl`.

use super::*;

#[test]
fn operators_have_the_health_that_they_report() {
    let cases = include_str!("operators.jsonl");
    let mut wrong = Vec::new();
    for (number, line) in cases.lines().enumerate() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (version, kind) = (case.text("/apiVersion"), case.text("/kind"));
        let parts = json!({"spec": case["spec"], "status": case["status"]});
        let (found, said) = assess(&object(version, kind, parts));
        let found = found.map_or("none", Status::as_str);
        if found != case.text("/want") {
            let want = case.text("/want");
            wrong.push(format!("{}: {kind}: {want} expected, {found} found: {said}", number + 1));
        }
    }
    assert_eq!(wrong, [""; 0]);
}
