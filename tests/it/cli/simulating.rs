//! `wavegate simulate`: a rollout on a clock that jumps.

use super::embedded::Cluster;
use super::*;

const REGIONS: &str = "examples/regions.yaml";

fn simulate(args: &[&str]) -> Run {
    let file = super::repository(REGIONS);
    let mut all = vec!["simulate", "-f", &file];
    all.extend(args);
    with_input(&all, String::new())
}

#[test]
fn hours_are_simulated_in_seconds_and_what_took_them_is_said() {
    let began = std::time::Instant::now();
    let run = simulate(&["--health", "1h", "-o", "json"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let report = run.json();
    assert_eq!(report["outcome"]["end"], "Complete");
    // One batch, one of two, and two of one.
    let seconds = report["seconds"].as_i64().unwrap();
    assert!((14_400..14_460).contains(&seconds), "{seconds}");
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    let path: Vec<(i64, &str)> = report["criticalPath"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| (part["seconds"].as_i64().unwrap() / 3600, part["shorten"].as_str().unwrap()))
        .collect();
    assert_eq!(path.iter().map(|(hours, _)| *hours).collect::<Vec<_>>(), [1, 1, 2]);
    assert_eq!(path[2].1, "maxUpdate of step 3");
    let text = simulate(&["--health", "1h"]).out;
    assert!(text.contains("What would shorten it the most: maxUpdate of step 3."), "{text}");
}

#[test]
fn a_rollout_that_would_stall_is_refused_with_its_reason() {
    let run = simulate(&["--fail", "storefront-*-us-west@2", "-o", "json"]);
    assert_eq!(run.code, 1);
    let report = run.json();
    assert_eq!(report["outcome"]["end"], "Stuck");
    let message = report["outcome"]["message"].as_str().unwrap();
    assert!(message.contains("step 2 of 3"), "{message}");
    assert!(message.contains("storefront-production-us-west"), "{message}");
    // Those of step 3 were never started.
    let last = &report["timeline"]["sets"][0]["steps"][2];
    assert_eq!(last["opened"], Value::Null, "{last}");
}

#[test]
fn gates_and_people_are_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.yaml");
    let text = "apiVersion: wavegate.dev/v1alpha1\nkind: RolloutPolicy\n\
                metadata: {name: production, namespace: argocd}\n\
                spec:\n  gates:\n  - {name: production, steps: [2], approvals: 1, soak: 10m}\n";
    std::fs::write(&policy, text).unwrap();
    let policy = policy.display().to_string();
    let held = simulate(&["-f", &policy, "-o", "json"]);
    assert_eq!(held.code, 1);
    let message = held.json()["outcome"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("production"), "{message}");
    let svg = folder.path().join("a.svg").display().to_string();
    let approved =
        simulate(&["-f", &policy, "--approve", "production@1h", "--svg", &svg, "-o", "json"]);
    let report = approved.json();
    assert_eq!((approved.code, &report["outcome"]["end"]), (0, &json!("Complete")), "{report}");
    assert!(report["seconds"].as_i64().unwrap() > 3600, "{report}");
    let gate = &report["timeline"]["sets"][0]["steps"][1]["gates"][0];
    assert_eq!((&gate["name"], &gate["what"]), (&json!("production"), &json!("both")), "{gate}");
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("storefront-staging-us-east"), "{drawn}");
}

#[test]
fn the_same_options_give_the_same_log_byte_by_byte() {
    let folder = tempfile::tempdir().unwrap();
    let logs = ["one", "two"].map(|name| {
        let file = folder.path().join(name).display().to_string();
        let happens = ["--push", "45s", "--restart-at", "20s", "--api-down", "70s:30s"];
        let run = simulate(&[&happens[..], &["--log", &file]].concat());
        assert_eq!(run.code, 0, "{}", run.err);
        std::fs::read_to_string(&file).unwrap()
    });
    assert!(logs[0].lines().count() > 500);
    assert_eq!(logs[0].lines().zip(logs[1].lines()).find(|(one, other)| one != other), None);
    assert_eq!(logs[0].len(), logs[1].len());
}

#[test]
fn several_simulations_give_a_distribution() {
    let run = simulate(&["--runs", "6", "--flaky", "20%", "-o", "json"]);
    let all = run.json();
    assert_eq!(all["runs"], 6);
    let others: u64 =
        all["others"].as_array().unwrap().iter().map(|other| other["runs"].as_u64().unwrap()).sum();
    assert_eq!(all["complete"].as_u64().unwrap() + others, 6, "{all}");
    assert_eq!(run.code == 0, others == 0);
    assert_eq!(simulate(&["--runs", "6", "--flaky", "20%", "-o", "json"]).out, run.out);
}

#[test]
fn what_names_nothing_is_refused() {
    for (args, want) in [
        (["--fail", "storefront-prodction-us-west"], "it is for none of the Applications"),
        (["--fail", "storefront-*@4"], "it is for none of the Applications"),
        (["--fail", "web@two"], "two is not the number of a step"),
        (["--slow", "storefront-*"], "write it as APP=5m"),
        (["--slow", "storefront-*=5"], "write it with a unit"),
        (["--approve", "production"], "write it as NAME@10m"),
        (["--api-down", "5m"], "write it as 5m:30s"),
        (["--flaky", "120%"], "write it as a number from 0 to 100"),
        (["--runs", "0"], "it must be from 1"),
        (["--durations", "/nowhere"], "cannot read"),
    ] {
        let run = simulate(&args);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{args:?}: {}", run.err);
        assert!(run.err.contains(want), "{args:?}: {}", run.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_set_of_a_cluster_is_simulated_and_nothing_is_written() {
    let cluster = Cluster::start().await;
    let step = |name: &str| json!({"matchExpressions": [{"key": "app", "operator": "In", "values": [name]}]});
    let mut object: Value =
        serde_json::from_str(&set(&["a", "b"], json!([step("a"), step("b")]))).unwrap();
    object["metadata"]["namespace"] = "argocd".into();
    object["spec"]["template"]["spec"]["source"]["path"] = "web".into();
    cluster.create("ApplicationSet", object).await;
    let version = cluster.server.counts();
    let run = cluster.run(&["simulate", "--live", "set", "-o", "json"]).await;
    assert_eq!(run.code, 0, "{}", run.err);
    let report = run.json();
    assert_eq!(report["outcome"]["end"], "Complete");
    assert_eq!(report["timeline"]["sets"][0]["steps"].as_array().unwrap().len(), 2);
    let writes = |counts: &kube_sim::Counts| -> u64 {
        let verbs = ["create", "update", "patch", "apply", "delete"];
        let is_write = |verb: &str| verbs.contains(&verb);
        counts.iter().filter(|((_, verb, _), _)| is_write(verb)).map(|(_, count)| *count).sum()
    };
    assert_eq!(writes(&cluster.server.counts()), writes(&version));
}
