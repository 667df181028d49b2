//! The alerts and dashboards of the chart ask for what `run` exports, fire when they should, and
//! lead to a runbook.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use regex::Regex;

use super::arguments::Running;
use super::embedded::Cluster;
use super::metrics::request;
use super::*;
use crate::application_controller::programs::program;
use crate::docs::chart::{CHART, Helm};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The groups of alerts, as a version of Helm renders them.
fn rules(helm: &Helm) -> Value {
    let objects = helm.objects(&["--set-json", r#"metrics={"rules":{"enabled":true}}"#]);
    let mut found = objects.into_iter().filter(|object| object["kind"] == "PrometheusRule");
    found.next().unwrap()["spec"].clone()
}

/// Each version of Helm that is there; rendering needs no cluster.
fn helms() -> Vec<Helm> {
    Helm::all(Path::new("none"))
}

/// What the dashboards ask for, each with its panel, without the variables of Grafana.
fn queries() -> Vec<(String, String)> {
    let folder = root().join(CHART).join("dashboards");
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let dashboard: Value = serde_json::from_str(&read(file.unwrap().path())).unwrap();
        let title = dashboard["title"].as_str().unwrap();
        let mut ids = BTreeSet::new();
        for panel in dashboard["panels"].as_array().unwrap() {
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: {}", panel["id"]);
            let panel_title = panel["title"].as_str().unwrap();
            for target in panel["targets"].as_array().into_iter().flatten() {
                assert!(!panel["description"].as_str().unwrap().is_empty(), "{panel_title}");
                let query = target["expr"].as_str().unwrap();
                let query = query.replace("$namespace", ".*").replace("$set", ".*");
                assert!(!query.contains('$'), "{panel_title}: {query}");
                let place = format!("{title}: {panel_title}, {}", target["refId"]);
                found.push((place, query));
            }
        }
    }
    assert!(found.len() > 30, "{found:?}");
    found
}

/// The alerts of the chart, each with its query.
fn alerts(rules: &Value) -> Vec<(String, String)> {
    let all = rules["groups"][0]["rules"].as_array().unwrap();
    let text = |rule: &Value, field: &str| rule[field].as_str().unwrap().to_owned();
    all.iter().map(|rule| (text(rule, "alert"), text(rule, "expr"))).collect()
}

#[test]
fn alerts_fire_when_they_should_and_have_runbooks() {
    let runbooks = read("docs/runbooks.md");
    let tests = read("tests/data/alerts.yaml");
    for helm in helms() {
        let rules = rules(&helm);
        let alerts = alerts(&rules);
        for (name, _) in &alerts {
            assert!(runbooks.contains(&format!("\n## {name}\n")), "{name} has no runbook");
            let silent = format!("alertname: {name}\n    exp_alerts: []\n");
            assert!(tests.contains(&silent), "{name} has no test in which it is silent");
            let fires = format!("alertname: {name}\n    exp_alerts:\n");
            assert!(tests.contains(&fires), "{name} has no test in which it fires");
        }
        assert_eq!(runbooks.matches("\n## ").count(), alerts.len());
        let Some(promtool) = program("prometheus/promtool") else { return };
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("rules.yaml", &rules.to_string());
        write("alerts.yaml", &tests);
        // A recording rule for each query of a dashboard, for its syntax.
        let recorded = queries().into_iter().map(
            |(panel, query)| json!({"record": "panel", "expr": query, "labels": {"panel": panel}}),
        );
        let recorded: Vec<Value> = recorded.collect();
        let panels = json!({"groups": [{"name": "panels", "rules": recorded}]});
        write("panels.yaml", &panels.to_string());
        for arguments in [
            ["check", "rules", "rules.yaml"],
            ["check", "rules", "panels.yaml"],
            ["test", "rules", "alerts.yaml"],
        ] {
            let run =
                Command::new(&promtool).current_dir(&folder).args(arguments).output().unwrap();
            let said = String::from_utf8_lossy(&run.stdout).into_owned()
                + &String::from_utf8_lossy(&run.stderr);
            assert!(run.status.success() && said.contains("SUCCESS"), "{arguments:?}: {said}");
        }
    }
}

/// The metrics of a table in the documentation, each with its labels.
fn documented() -> Vec<(String, BTreeSet<String>)> {
    let quoted = Regex::new("`([a-z0-9_]+)`").unwrap();
    let names = |text: &str| -> Vec<String> {
        quoted.captures_iter(text).map(|found| found[1].to_owned()).collect()
    };
    let mut found = Vec::new();
    for line in read("docs/reference/metrics.md").lines() {
        let columns: Vec<&str> = line.split('|').collect();
        if let [_, metrics, kind, labels, ..] = columns.as_slice()
            && ["gauge", "counter", "histogram"].contains(&kind.trim())
        {
            let labels: BTreeSet<String> = names(labels).into_iter().collect();
            found.extend(names(metrics).into_iter().map(|name| (name, labels.clone())));
        }
    }
    found
}

/// Names and labels in queries, by what the documentation has, and that by what is exported.
#[tokio::test(flavor = "multi_thread")]
async fn queries_ask_for_what_is_exported() {
    let documented = documented();
    let name = Regex::new(
        r"\b((?:argocd|wavegate|workqueue|controller_runtime|rest_client|leader_election)_[a-z0-9_]+)(?:\{([^}]*)\})?",
    )
    .unwrap();
    let label = Regex::new(r#"([a-z_0-9]+)(?:=|!)"#).unwrap();
    let by = Regex::new(r"by \(([^)]*)\)").unwrap();
    let mut queries = queries();
    queries.extend(helms().first().map(|helm| alerts(&rules(helm))).unwrap_or_default());
    let mut asked = BTreeSet::new();
    for (place, query) in &queries {
        let mut known: BTreeSet<&str> = BTreeSet::from(["le"]);
        for found in name.captures_iter(query) {
            let metric = found[1].trim_end_matches("_bucket");
            let (_, labels) = documented
                .iter()
                .find(|(name, _)| name == metric)
                .unwrap_or_else(|| panic!("{place}: {metric} is not in docs/reference/metrics.md"));
            known.extend(labels.iter().map(String::as_str));
            for one in label.captures_iter(found.get(2).map_or("", |labels| labels.as_str())) {
                assert!(labels.contains(&one[1]), "{place}: {metric} has no label {}", &one[1]);
            }
            asked.insert(metric.to_owned());
        }
        for all in by.captures_iter(query) {
            for one in all[1].split(", ") {
                assert!(known.contains(one), "{place}: nothing in it has the label {one}");
            }
        }
    }
    assert!(asked.len() > 20, "{asked:?}");

    let cluster = Cluster::start().await;
    let address = unused_address();
    let flag = format!("--metrics-addr={address}");
    let arguments = [&*flag, "--probe-addr=", "--webhook-addr=", "--enable-leader-election"];
    let running = Running::start(&cluster, &arguments, &[]);
    let leads = "leader_election_master_status{name=\"58ac56fa.applicationsets.argoproj.io\"} 1";
    let until = std::time::Instant::now() + WAIT;
    // In this format the name of a counter has no suffix here. What has counted nothing yet has no
    // family: those are of rollouts, and their own tests have them.
    let of_rollouts = ["step_duration_seconds", "transitions_total"];
    let of_rollouts = of_rollouts.map(|name| format!("argocd_appset_rollout_{name}"));
    loop {
        let text = request(&address, "GET /metrics HTTP/1.1", b"").await.unwrap_or_default();
        let is_exported = |metric: &&String| {
            let family = metric.trim_end_matches("_total");
            text.contains(&format!("# TYPE {family} "))
        };
        let later: Vec<_> = asked.iter().filter(|metric| !is_exported(metric)).collect();
        if text.contains(leads) && later == of_rollouts.iter().collect::<Vec<_>>() {
            break;
        }
        let is_over = std::time::Instant::now() >= until;
        assert!(!is_over, "{later:?} are not exported: {text} {}", running.log());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
