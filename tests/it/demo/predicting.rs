//! `wavegate simulate --live` on the server of a demo: what it says is what happens.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::support::repository::Repository;

/// Name, step, and seconds until its workload is ready. `c` is slower than the two that follow
/// it in its step, which has two places.
const FLEET: [(&str, u8, u8); 6] =
    [("a", 1, 4), ("b", 1, 1), ("c", 2, 7), ("d", 2, 3), ("e", 2, 3), ("f", 2, 3)];

/// Rollouts of which one must be as it was predicted: on a busy machine one may stand still in the
/// middle, and another one not.
const ATTEMPTS: u8 = 6;

fn set(repository: &Repository) -> String {
    let elements: Vec<Value> = FLEET
        .iter()
        .map(|(name, step, _)| json!({"name": name, "step": step.to_string()}))
        .collect();
    let step = |number: &str, max_update: Value| {
        json!({"matchExpressions": [{"key": "step", "operator": "In", "values": [number]}],
            "maxUpdate": max_update})
    };
    let set = json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": "fleet", "namespace": "argocd"},
        "spec": {
            "goTemplate": true,
            "generators": [{"list": {"elements": elements}}],
            "strategy": {"type": "RollingSync", "rollingSync": {"steps": [
                step("1", Value::Null), step("2", json!(2)),
            ]}},
            "template": {
                "metadata": {"name": "{{.name}}", "labels": {"step": "{{.step}}"}},
                "spec": {
                    "project": "default",
                    "source": {"repoURL": repository.url(), "path": "{{.name}}", "targetRevision": "HEAD"},
                    "destination": {"server": "https://kubernetes.default.svc", "namespace": "{{.name}}"},
                    "syncPolicy": {"syncOptions": ["CreateNamespace=true"]},
                },
            },
        },
    });
    set.to_string()
}

fn commit(repository: &Repository, version: u8) {
    let manifest = |(name, _, seconds): &(&str, u8, u8)| {
        let labels = json!({"app": name});
        let container = json!({"name": "web", "image": format!("shop/web:{version}")});
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "web",
                "annotations": {"simulate.wavegate.dev/delay": format!("{seconds}s")},
            },
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        });
        (format!("{name}/web.yaml"), deployment.to_string())
    };
    repository
        .commit(&format!("version {version}"), &FLEET.iter().map(manifest).collect::<Vec<_>>());
}

/// When each Application of a step starts, and when the step is complete; in seconds since the
/// first step opened.
type Course = BTreeMap<u64, (BTreeMap<String, f64>, f64)>;

fn predicted(report: &Value) -> Course {
    let time = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let start = time(&report["timeline"]["start"]);
    let since = |value: &Value| time(value).duration_since(start).as_secs_f64();
    let step = |step: &Value| {
        let starts = |application: &Value| {
            let spans = application["spans"].as_array().unwrap();
            // A sync may take no time.
            let active = ["pending", "syncing", "becomingHealthy"];
            let is_active = |span: &&Value| active.iter().any(|what| span["what"] == *what);
            let first = spans.iter().find(is_active).unwrap();
            (application["name"].as_str().unwrap().to_owned(), since(&first["from"]))
        };
        let starts: BTreeMap<String, f64> =
            step["applications"].as_array().unwrap().iter().map(starts).collect();
        let healthy = step["applications"].as_array().unwrap().iter().map(|application| {
            since(&application["spans"].as_array().unwrap().last().unwrap()["from"])
        });
        (step["number"].as_u64().unwrap(), (starts, healthy.fold(0.0, f64::max)))
    };
    report["timeline"]["sets"][0]["steps"].as_array().unwrap().iter().map(step).collect()
}

/// Reads the lines of a rollout, such as `[ 12.3s] step 2  a  Waiting → Pending  …`.
fn real(lines: &[String]) -> Course {
    let mut course = Course::new();
    let mut begin = None;
    for line in lines {
        let Some((time, what)) = line.strip_prefix('[').and_then(|line| line.split_once("s] "))
        else {
            continue;
        };
        let seconds = match time.trim().split_once('m') {
            None => time.trim().parse().unwrap(),
            Some((minutes, seconds)) => {
                minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
            }
        };
        let words: Vec<&str> = what.split_whitespace().collect();
        let ["step", number, rest @ ..] = words.as_slice() else { continue };
        // Of the rollout before: its Applications may say something after its last step.
        if begin.is_none() && *number != "1" {
            continue;
        }
        let since = seconds - *begin.get_or_insert(seconds);
        let step = course.entry(number.parse().unwrap()).or_default();
        match rest {
            ["complete", ..] => step.1 = since,
            // The start of a sync may be seen before the promotion.
            [name, _, "→", "Pending" | "Progressing", ..] => {
                step.0.entry((*name).to_owned()).or_insert(since);
            }
            _ => {}
        }
    }
    course
}

/// The names in the order in which they start; those that start together are together.
fn batches(starts: &BTreeMap<String, f64>) -> Vec<Vec<&str>> {
    let mut order: Vec<(&str, f64)> =
        starts.iter().map(|(name, at)| (name.as_str(), *at)).collect();
    order.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut batches: Vec<(f64, Vec<&str>)> = Vec::new();
    for (name, at) in order {
        match batches.last_mut() {
            // Far less than what any Application takes.
            Some((began, names)) if at - *began < 1.5 => names.push(name),
            _ => batches.push((at, vec![name])),
        }
    }
    batches
        .into_iter()
        .map(|(_, mut names)| {
            names.sort_unstable();
            names
        })
        .collect()
}

#[test]
fn a_simulation_predicts_the_order_and_the_duration_of_the_next_rollout() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::new(folder.path().join("fleet"));
    commit(&repository, 1);
    let file = folder.path().join("set.json");
    std::fs::write(&file, set(&repository)).unwrap();
    let (running, lines) = serving_with(folder.path(), &[&file]);
    let (printed, reading) = read_aside(lines);
    // The lines up to one with this text.
    let until = |text: &str| {
        let mut all = Vec::new();
        while !all.last().is_some_and(|line: &String| line.contains(text)) {
            all.push(
                printed.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no {text:?}: {all:#?}")),
            );
        }
        all
    };
    let first = until("export KUBECONFIG=").pop().unwrap();
    let kubeconfig = first.strip_prefix("export KUBECONFIG=").unwrap().to_owned();
    let wavegate = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wavegate"));
        let output = command.args(args).env("KUBECONFIG", &kubeconfig).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    };
    until("step 2  complete");

    for attempt in 1..=ATTEMPTS {
        let is_last = attempt == ATTEMPTS;
        if is_predicted(&repository, attempt + 1, &wavegate, &until, is_last) {
            break;
        }
    }
    drop(running);
    reading.join().unwrap();
}

/// Rolls out a version, and compares that with what was predicted just before. `must`: what is
/// not so fails the test.
fn is_predicted(
    repository: &Repository,
    version: u8,
    wavegate: &dyn Fn(&[&str]) -> String,
    until: &dyn Fn(&str) -> Vec<String>,
    must: bool,
) -> bool {
    let report = wavegate(&["simulate", "--live", "fleet", "-o", "json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["outcome"]["end"], "Complete");
    let predicted = predicted(&report);

    commit(repository, version);
    let names = FLEET.map(|(name, ..)| name);
    wavegate(&[&["refresh", "--no-wait"][..], &names].concat());
    let said = until("step 2  complete");
    let real = real(&said);
    let (forecast, took) = (predicted[&2].1, real[&2].1);
    let is_near = (forecast - took).abs() <= took * 0.2;
    let steps: [(u64, Vec<Vec<&str>>); 2] =
        [(1, vec![vec!["a", "b"]]), (2, vec![vec!["c", "d"], vec!["e"], vec!["f"]])];
    let is_so = |course: &Course| {
        let is_wanted = |step: &u64, want: &Vec<Vec<&str>>| {
            course.get(step).is_some_and(|(starts, _)| batches(starts) == *want)
        };
        steps.iter().all(|(step, want)| is_wanted(step, want))
    };
    if !must {
        return is_near && is_so(&predicted) && is_so(&real);
    }
    assert!(is_so(&predicted), "predicted: {predicted:?}");
    assert!(is_so(&real), "{said:#?}");
    assert!(is_near, "{forecast} s and {took} s: {said:#?}");
    true
}
