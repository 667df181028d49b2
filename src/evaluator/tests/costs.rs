use std::time::Instant;

use serde_json::{Value, json};

use crate::decide::diff::jq::Expression;
use crate::decide::diff::{Comparison, Config, compare_all};
use crate::evaluator::{JQ_TIME, jq};

/// What a jq rule costs in a comparison of 1,000 objects; prints the times.
///
/// `cargo test --release --lib -- --ignored --nocapture costs_of_a_jq_rule`
#[test]
#[ignore = "a measurement"]
fn costs_of_a_jq_rule() {
    let container = |of: usize, n: usize| {
        let variable = |i: usize| json!({"name": format!("E{i}"), "value": format!("{of:020}")});
        let env: Vec<Value> = (0..10).map(variable).collect();
        let limits = json!({"limits": {"cpu": "1"}});
        json!({"name": format!("c{n}"), "image": "i", "env": env, "resources": limits})
    };
    let object = |n: usize, replicas: i64| {
        let containers: Vec<Value> = (0..4).map(|at| container(n, at)).collect();
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": format!("d{n}")},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": containers}}},
        })
    };
    let map = |n: usize, value: i64| {
        let data: serde_json::Map<String, Value> =
            (0..20).map(|at| (format!("key-{at}"), json!(format!("{n:020}-{value}")))).collect();
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{n}")},
            "data": data,
        })
    };
    let deployments: Vec<(Value, Value)> =
        (0..1000).map(|n| (object(n, 1), object(n, 2))).collect();
    let maps: Vec<(Value, Value)> = (0..1000).map(|n| (map(n, 1), map(n, 2))).collect();
    let rules = |field: &str, path: &str| {
        let entry = json!({"group": "*", "kind": "*", field: [path]});
        let application = json!({"spec": {"ignoreDifferences": [entry]}});
        Config::from_application(&application, &jq(JQ_TIME)).0
    };
    let measure = |name: &str, config: &Config, objects: &[(Value, Value)]| {
        let pairs: Vec<(&Value, &Value)> =
            objects.iter().map(|(target, live)| (target, live)).collect();
        // The first one starts the workers.
        for round in 0..4 {
            let mut config = config.clone();
            // Without what it remembers of the last round, but for the expressions.
            config.jq = jq(JQ_TIME);
            let expressions = config.rules.iter().flat_map(|rule| &rule.expressions);
            let texts: Vec<&str> = expressions.map(Expression::text).collect();
            assert!(config.jq.parse("tests", &texts).iter().all(Result::is_ok));
            let began = Instant::now();
            let compared: Vec<Comparison> =
                pairs.chunks(256).flat_map(|some| compare_all(some, &config)).collect();
            assert_eq!(compared.len(), 1000);
            println!("{name}, round {round}: {:?}", began.elapsed());
        }
    };
    for (name, objects) in [("deployments", &deployments), ("maps", &maps)] {
        measure(&format!("{name}: no rule"), &rules("jsonPointers", "/none"), objects);
    }
    measure("a pointer", &rules("jsonPointers", "/spec/replicas"), &deployments);
    measure("a path", &rules("jqPathExpressions", ".spec.replicas"), &deployments);
    let select = r#".spec.template.spec.containers[] | select(.name == "c1") | .image"#;
    measure("a selection", &rules("jqPathExpressions", select), &deployments);
    let select =
        r#".spec.template.spec.containers[] | select(.name == "c1").env[] | select(.name == "E1")"#;
    measure("a deep selection", &rules("jqPathExpressions", select), &deployments);
    let entries = r#".data | to_entries[] | select(.key | startswith("key-1")) | .value"#;
    measure("entries", &rules("jqPathExpressions", entries), &maps);
    let keys = r#".data | with_entries(select(.key | startswith("key-1")))"#;
    measure("with entries", &rules("jqPathExpressions", keys), &maps);
    let keys = r#".data[(.data | keys[] | select(startswith("key-1")))]"#;
    measure("keys", &rules("jqPathExpressions", keys), &maps);
}
