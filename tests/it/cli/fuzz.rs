//! Mutations of real ApplicationSets, Applications and AppProjects, through the command line
//! and through the controller: nothing panics, hangs, or takes much memory.
//!
//! The corpus in `tests/data/fuzz` holds what was found, and is replayed as it is. A test run
//! has few cases. For hours, on one seed after another:
//!
//! ```sh
//! WAVEGATE_CASES=100000 cargo test --test it -- cli::fuzz
//! ```
//!
//! A failure prints the seed of its case; `WAVEGATE_SEED=4711 WAVEGATE_CASES=1` repeats it.

use std::path::Path;

use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube_sim::SplitMix64;
use wavegate_api::crds;

use super::arguments::Running;
use super::embedded::Cluster;
use super::*;

/// Kinds that are mutated.
const KINDS: [&str; 3] = ["ApplicationSet", "Application", "AppProject"];

/// Seconds of CPU time and KiB of address space of one command; a debug build takes more than
/// a release.
const SECONDS: u32 = 30;
const ADDRESSES: u32 = 1 << 20;

/// Most memory of the controller, in KiB.
const RESIDENT: u64 = 512 << 10;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Pseudo-random numbers.
struct Dice(SplitMix64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0.next()
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }
}

/// The objects of our kinds below a folder, sources replaced: no case reads a repository.
fn objects(folder: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(repository(folder))];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let is_yaml = |path: &&PathBuf| path.extension().is_some_and(|e| e == "yaml" || e == "json");
    for file in files.iter().filter(is_yaml) {
        let text = std::fs::read_to_string(file).unwrap();
        for document in wavegate_api::yaml::parse_documents(&text).unwrap() {
            let mut object = document.value;
            if KINDS.iter().any(|kind| object["kind"] == *kind) {
                without_sources(&mut object);
                found.push(object);
            }
        }
    }
    assert!(!found.is_empty(), "{folder}");
    found
}

fn without_sources(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(without_sources),
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match value {
                    Value::String(text) if key == "repoURL" => {
                        *text = "/nonexistent/repository".to_owned();
                    }
                    value => without_sources(value),
                }
            }
        }
        _ => {}
    }
}

/// Calls a function with the nth value in the order of the text; returns what is left of n.
fn visit(value: &mut Value, n: usize, act: &mut dyn FnMut(&mut Value)) -> Option<usize> {
    let Some(mut n) = n.checked_sub(1) else {
        act(value);
        return None;
    };
    match value {
        Value::Array(list) => {
            for item in list {
                n = visit(item, n, act)?;
            }
        }
        Value::Object(map) => {
            for item in map.values_mut() {
                n = visit(item, n, act)?;
            }
        }
        _ => {}
    }
    Some(n)
}

fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(size).sum(),
        Value::Object(map) => map.values().map(size).sum(),
        _ => 0,
    }
}

fn part(value: &mut Value, dice: &mut Dice) -> Value {
    let (at, mut found) = (dice.below(size(value)), Value::Null);
    visit(value, at, &mut |part| found = part.clone());
    found
}

/// A value of another type than a field may expect.
fn odd(dice: &mut Dice) -> Value {
    let deep = |dice: &mut Dice| {
        let levels = 1 + dice.below(60);
        (0..levels).fold(json!({}), |inner, level| {
            if level % 2 == 0 { json!([inner]) } else { json!({"generators": inner}) }
        })
    };
    match dice.below(26) {
        0 => Value::Null,
        1 => true.into(),
        2 => json!(-1),
        3 => json!(1e308),
        4 => json!(i64::MIN),
        5 => "".into(),
        6 => "{{".into(),
        7 => "{{.x}}{{.a.b.c}}{{ index . \"x\" }}".into(),
        8 => "{{range until 100000}}{{repeat 1000 \"x\"}}{{end}}".into(),
        9 => "x".repeat(100_000).into(),
        10 => "generatorſ".into(),
        11 => "\u{212a}ind".into(),
        12 => "\u{0}\u{1b}[2J\u{feff}ß\u{1f600}".into(),
        13 => json!([]),
        14 => json!({}),
        15 => json!([null]),
        16 => json!({"": null}),
        17 => json!({"matrix": {"generators": [{}, {}]}}),
        18 => json!([{}]),
        19 => deep(dice),
        20 => "!{a,b".into(),
        21 => "/(?!x)(a+)+$/".into(),
        22 => "100%".into(),
        23 => "2026-13-45T99:99:99Z".into(),
        24 => "9".repeat(400).into(),
        _ => json!((0..200).map(|n| json!({"n": n.to_string()})).collect::<Vec<_>>()),
    }
}

fn mutated(seeds: &[Value], dice: &mut Dice) -> Value {
    let mut object = seeds[dice.below(seeds.len())].clone();
    for _ in 0..=dice.below(5) {
        let other = part(&mut seeds[dice.below(seeds.len())].clone(), dice);
        let (own, odd) = (part(&mut object, dice), odd(dice));
        let (at, act, pick) = (dice.below(size(&object)), dice.below(8), dice.next());
        visit(&mut object, at, &mut |value| {
            let index = |len: usize| usize::try_from(pick % len.max(1) as u64).unwrap();
            match (act, value) {
                (0 | 1, Value::Object(map)) if !map.is_empty() => {
                    let key = map.keys().nth(index(map.len())).cloned().unwrap();
                    match (act, map.remove(&key)) {
                        (1, Some(value)) => {
                            map.insert(key.replace('s', "ſ").replace('k', "\u{212a}"), value)
                        }
                        _ => None,
                    };
                }
                (0, Value::Array(list)) if !list.is_empty() => {
                    list.remove(index(list.len()));
                }
                (1, Value::Array(list)) if !list.is_empty() => {
                    let item = list[index(list.len())].clone();
                    list.push(item);
                }
                (2, value) => *value = own.clone(),
                (3, value) => *value = other.clone(),
                (_, value) => *value = odd.clone(),
            }
        });
    }
    if object.is_object() && dice.below(2) == 0 {
        // Without these, little of it is read.
        object["apiVersion"] = "argoproj.io/v1alpha1".into();
        if !KINDS.iter().any(|kind| object["kind"] == *kind) {
            object["kind"] = "ApplicationSet".into();
        }
    }
    object
}

/// Runs a command with limits of its time and memory.
#[track_caller]
fn survives(command: &str, object: &Value, what: &str) {
    let limited = format!("ulimit -t {SECONDS}; ulimit -v {ADDRESSES}; exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_wavegate");
    shell.args(["-c", &limited, program, command, "-f", "-"]);
    shell.env("KUBECONFIG", "/nonexistent").env_remove("KUBERNETES_SERVICE_HOST");
    let mut child =
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(object.to_string().as_bytes());
    let done = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&done.stderr);
    let is_fine = matches!(done.status.code(), Some(0..=2)) && !error.contains("panicked");
    let input: String = object.to_string().chars().take(4000).collect();
    assert!(is_fine, "{what}: {command}: {:?}: {error}\n{input}", done.status);
    assert!(error.len() < 16 << 20, "{what}: {command}: errors of {} bytes", error.len());
}

#[test]
fn mutated_objects_are_rendered_and_planned_or_refused() {
    for (index, object) in objects("tests/data/fuzz").iter().enumerate() {
        survives("render", object, &format!("corpus {index}"));
        survives("plan", object, &format!("corpus {index}"));
    }
    let seeds = objects("examples");
    let (first, cases) = (number("WAVEGATE_SEED", 1), number("WAVEGATE_CASES", 40));
    for seed in first..first + cases {
        let object = mutated(&seeds, &mut Dice(SplitMix64::new(seed)));
        survives("render", &object, &format!("WAVEGATE_SEED={seed}"));
        survives("plan", &object, &format!("WAVEGATE_SEED={seed}"));
    }
}

/// The API server accepts anything, as with definitions of an older version.
async fn without_schemas(cluster: &Cluster) {
    for definition in crds::all_definitions() {
        let name = definition.metadata.name.clone().unwrap_or_default();
        let mut versions = serde_json::to_value(&definition.spec.versions).unwrap();
        for version in versions.as_array_mut().unwrap() {
            version["schema"] = json!({"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }});
        }
        let patch = Patch::Merge(json!({"spec": {"versions": versions}}));
        let api: Api<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> =
            Api::all(cluster.client.clone());
        api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    }
}

fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status"));
    let status = status.unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_controller_survives_mutated_objects() {
    let cluster = Cluster::start().await;
    without_schemas(&cluster).await;
    cluster.knows("default", "https://1").await;
    let arguments =
        ["--probe-addr=", "--metrics-addr=", "--webhook-addr=", "--enable-progressive-syncs"];
    let mut running = Running::start(&cluster, &arguments, &[]);
    let mut seeds = objects("examples");
    seeds.extend(objects("tests/data/fuzz"));
    let (first, cases) = (number("WAVEGATE_SEED", 1), number("WAVEGATE_CASES", 40));
    let corpus: Vec<Value> = objects("tests/data/fuzz");
    let mutations =
        (first..first + cases).map(|seed| mutated(&seeds, &mut Dice(SplitMix64::new(seed))));
    for (index, mut object) in corpus.into_iter().chain(mutations).enumerate() {
        let kind = KINDS.into_iter().find(|kind| object["kind"] == *kind);
        if !object["metadata"].is_object() {
            continue;
        }
        let Some(kind) = kind else { continue };
        object["metadata"]["name"] = format!("case-{}", index % 50).into();
        object["metadata"]["namespace"] = "argocd".into();
        let api = cluster.api(kind);
        let Ok(object) = serde_json::from_value::<DynamicObject>(object) else { continue };
        let name = format!("case-{}", index % 50);
        // What the API server refuses does not reach the controller.
        if api.create(&PostParams::default(), &object).await.is_err() {
            let patch = Patch::Merge(serde_json::to_value(&object).unwrap());
            let _ = api.patch(&name, &PatchParams::default(), &patch).await;
        }
    }
    // A set that comes after all of them is reconciled.
    let last: Value = serde_json::from_str(&set(&["last"], json!([{}]))).unwrap();
    cluster.create("ApplicationSet", last).await;
    let api = cluster.api("Application");
    let until = std::time::Instant::now() + WAIT;
    while api.get_opt("last").await.unwrap().is_none() {
        assert!(running.child.try_wait().unwrap().is_none(), "it ended: {}", running.log());
        assert!(std::time::Instant::now() < until, "{}", running.log());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let log = running.log();
    let panics: Vec<&str> = log.lines().filter(|line| line.contains("panic")).take(5).collect();
    assert!(panics.is_empty(), "{panics:#?}");
    let peak = resident(running.child.id());
    assert!(peak < RESIDENT, "{peak} KiB");
}

/// Ten sets that were refused in the end took 10 GiB: each of those that are reconciled at once
/// had the limits of one set.
#[tokio::test(flavor = "multi_thread")]
async fn sets_that_expand_stay_within_the_memory_of_one_of_them() {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let arguments =
        ["--probe-addr=", "--metrics-addr=", "--webhook-addr=", "--sync-engine=external"];
    let mut running = Running::start(&cluster, &arguments, &[]);
    running.until_logged("\"starting\"").await;
    let elements: Vec<Value> = (0..2_000).map(|n| json!({"n": n.to_string()})).collect();
    let much = "{{repeat 1000000 \"x\"}}{{.n}}";
    for index in 0..6 {
        let set = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
            "metadata": {"name": format!("large-{index}")},
            "spec": {
                "goTemplate": true,
                "generators": [{"matrix": {"generators": [
                    {"list": {"elements": elements}},
                    {"list": {"elements": [{"a": much, "b": much, "c": much}]}},
                ]}}],
                "template": {
                    "metadata": {"name": "app-{{.n}}"},
                    "spec": {"project": "default", "destination": {"server": "https://1"}, "source": {"repoURL": "https://r", "path": "p"}},
                },
            },
        });
        cluster.create("ApplicationSet", set).await;
    }
    let api = cluster.api("ApplicationSet");
    let until = std::time::Instant::now() + 4 * WAIT;
    for index in 0..6 {
        loop {
            let set = api.get(&format!("large-{index}")).await.unwrap();
            if set.data["status"].to_string().contains("limit exceeded") {
                break;
            }
            assert!(running.child.try_wait().unwrap().is_none(), "it ended: {}", running.log());
            assert!(std::time::Instant::now() < until, "{}", running.log());
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
    let peak = resident(running.child.id());
    assert!(peak < 2 * RESIDENT, "{peak} KiB");
}
