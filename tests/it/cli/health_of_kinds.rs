//! The health of kinds with a rule of their own, as `health` prints it.

use serde_json::{Value, json};

use super::with_input;

/// SE-440 (all statuses but Missing, which is none of an object that exists), SE-450, SE-451, SE-452,
/// SE-453, SE-454, SE-455, SE-456, SE-457, SE-458, SE-459, SE-460, SE-461, SE-582,
/// SE-465, SE-466, SE-467, SE-468, SE-471, SE-472, SE-473, SE-474, SE-475, SE-476, SE-477: each
/// branch of each rule, for objects as a cluster holds them.
#[test]
fn every_branch_of_every_rule_is_printed_se_450_to_se_477() {
    let table = wavegate_api::yaml::parse_value(include_str!("../../data/health.yaml")).unwrap();
    let table = table.as_array().unwrap();
    let documents: Vec<String> = table.iter().map(|row| row["object"].to_string()).collect();
    let run = with_input(&["health", "-f", "-", "-o", "json"], documents.join("\n---\n"));
    assert_eq!(run.code, 0, "{}", run.err);
    let printed = run.json();
    let printed = printed.as_array().unwrap();
    assert_eq!(printed.len(), table.len());
    for (row, printed) in table.iter().zip(printed) {
        let of = format!("{}: {}", row["object"]["kind"], row["of"]);
        let status = printed["status"].as_str().unwrap_or("none");
        assert_eq!(row["health"], status, "{of}: {printed}");
        let message = row["message"].as_str().unwrap_or_default();
        assert_eq!(printed["message"].as_str().unwrap_or_default(), message, "{of}: {printed}");
    }
}

/// What `health` prints for objects, in order.
fn printed(objects: &[Value]) -> Vec<String> {
    let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
    let run = with_input(&["health", "-f", "-", "-o", "json"], documents.join("\n---\n"));
    assert_eq!(run.code, 0, "{}", run.err);
    let printed = run.json();
    let printed = printed.as_array().unwrap();
    printed.iter().map(|one| one["status"].as_str().unwrap_or("none").to_owned()).collect()
}

/// SE-478: of which generation a status is, for kinds with a rule and without one.
#[test]
fn the_generation_counts_alike_for_all_kinds() {
    let kinds = [
        ("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "suspend"),
        ("cluster.x-k8s.io/v1beta1", "Cluster", "paused"),
        ("example.com/v1", "Thing", "paused"),
    ];
    for (version, kind, pause) in kinds {
        let object = |spec: Value, observed: i64, conditions: Value| {
            json!({
                "apiVersion": version, "kind": kind,
                "metadata": {"name": "a", "namespace": "shop", "generation": 5},
                "spec": spec,
                "status": {"observedGeneration": observed, "phase": "Provisioned",
                    "conditions": conditions},
            })
        };
        let ready = |status: &str, observed: Value| {
            json!([{"type": "Ready", "status": status, "reason": "BuildFailed", "message": "m",
                "observedGeneration": observed}])
        };
        let objects = [
            object(json!({pause: true}), 4, ready("True", json!(4))),
            object(json!({pause: true}), 4, json!([])),
            object(json!({}), 4, ready("True", json!(4))),
            object(json!({}), -1, ready("False", json!(5))),
            object(json!({}), -1, ready("False", json!(4))),
            object(json!({}), 4, ready("False", Value::Null)),
            object(json!({}), 5, ready("False", json!(5))),
        ];
        let want = [
            "Suspended",
            "Suspended",
            "Progressing",
            "Degraded",
            "Progressing",
            "Progressing",
            "Degraded",
        ];
        assert_eq!(printed(&objects), want, "{kind}");
    }
}
