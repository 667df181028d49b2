use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::evaluator::{JQ_TIME, limited_jq};
use wavegate_engine::diff::{Comparison, DiffConfig, compare_all};

/// Measurements of each case.
const ROUNDS: usize = 15;

/// What a jq rule costs in a comparison of 1,000 objects; prints the times. Paths and selections
/// are followed in this process, the others are evaluated by workers.
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
    let config = |field: &str, path: &str| {
        let entry = json!({"group": "*", "kind": "*", field: [path]});
        let application = json!({"spec": {"ignoreDifferences": [entry]}});
        // It remembers nothing of the last round.
        let (config, problems) = DiffConfig::from_application(&application, &limited_jq(JQ_TIME));
        assert_eq!(problems, []);
        config
    };
    let select = r#".spec.template.spec.containers[] | select(.name == "c1") | .image"#;
    let deep =
        r#".spec.template.spec.containers[] | select(.name == "c1").env[] | select(.name == "E1")"#;
    let prefix = r#".spec.template.spec.containers[] | select(.name | startswith("c1")) | .image"#;
    let part = r#".spec.template.spec.containers[] | select(.name | contains("c1")) | .image"#;
    let pattern = r#".spec.template.spec.containers[] | select(.name | test("^c1")) | .image"#;
    let entries = r#".data | to_entries[] | select(.key | startswith("key-1")) | .value"#;
    let keys = r#".data[(.data | keys[] | select(startswith("key-1")))]"#;
    let folded = r#".spec.template.spec.containers[] | select(.name | test("^C1"; "i")) | .image"#;
    let jq = "jqPathExpressions";
    let cases = [
        ("Deployments: no rule", "jsonPointers", "/none", &deployments),
        ("Deployments: a pointer", "jsonPointers", "/spec/replicas", &deployments),
        ("Deployments: a path", jq, ".spec.replicas", &deployments),
        ("Deployments: elements", jq, ".spec.template.spec.containers[]?.resources", &deployments),
        ("Deployments: a selection", jq, select, &deployments),
        ("Deployments: a deep selection", jq, deep, &deployments),
        ("Deployments: a prefix", jq, prefix, &deployments),
        ("Deployments: a part", jq, part, &deployments),
        ("Deployments: a pattern", jq, pattern, &deployments),
        ("Deployments, by workers: a pattern with a flag", jq, folded, &deployments),
        ("Deployments, the same again", jq, folded, &deployments),
        ("ConfigMaps: no rule", "jsonPointers", "/none", &maps),
        ("ConfigMaps, by workers: entries", jq, entries, &maps),
        ("ConfigMaps: keys", jq, keys, &maps),
    ];
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); cases.len()];
    // One of each after the other, so that other load hits all alike. The first starts workers.
    for round in 0..=ROUNDS {
        let mut last = None;
        for ((name, field, path, objects), times) in cases.iter().zip(&mut times) {
            let pairs: Vec<(&Value, &Value)> =
                objects.iter().map(|(target, live)| (target, live)).collect();
            let known = last.take().filter(|_| name.ends_with("again"));
            let config = &*last.insert(known.unwrap_or_else(|| config(field, path)));
            let began = Instant::now();
            let compared: Vec<Comparison> =
                pairs.chunks(256).flat_map(|some| compare_all(some, config)).collect();
            assert_eq!(compared.len(), 1000);
            times.extend((round > 0).then(|| began.elapsed()));
        }
    }
    for ((name, ..), times) in cases.iter().zip(&mut times) {
        times.sort_unstable();
        let (least, median, most) = (times[0], times[ROUNDS / 2], times[ROUNDS - 1]);
        println!("{name}: median {median:.1?}, of {least:.1?} to {most:.1?}");
    }
}
