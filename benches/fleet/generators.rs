//! Generators that combine or read a lot: `wavegate render` as a process, and the generation
//! alone, in this process.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use wavegate_net::entropy::template_environment;
use wavegate_rollout::desired::inputs::{GitAnswer, Inputs};
use wavegate_rollout::desired::{self, GenerateError};

use crate::process::run_to_end;
use crate::support::repository::Repository;
use crate::table::Table;

/// The time that each of these may take, and the number of runs; the shortest counts.
const TARGET: Duration = Duration::from_secs(1);
const RUNS: usize = 3;
/// A run that takes longer will not end.
const LIMIT: Duration = Duration::from_secs(120);

/// Each directory of a local repository.
pub fn directories(table: &mut Table, binary: &Path, count: usize) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let repository = Repository::new(folder.path().join("repository"));
    let names: Vec<String> = (0..count).map(|number| format!("app-{number:05}")).collect();
    let files: Vec<(String, String)> =
        names.iter().map(|name| (format!("apps/{name}/app.yaml"), String::new())).collect();
    repository.commit("directories", &files);
    let set = set(
        json!({"git": {
            "repoURL": repository.url(), "revision": "HEAD", "directories": [{"path": "apps/*"}],
        }}),
        "{{.path.basename}}",
    );
    let mut paths = vec!["apps".to_owned()];
    paths.extend(names.iter().map(|name| format!("apps/{name}")));
    let case = format!("{count} directories of a repository");
    measure(table, binary, &folder, &case, &set, &GitAnswer::Directories(paths));
}

/// Two lists of `side` elements each; the second one is interpolated with the first.
pub fn matrix(table: &mut Table, binary: &Path, side: usize) {
    let list = |key: &str, text: &str| {
        let element = |number: usize| json!({ key: format!("{text}{number:03}") });
        json!({"list": {"elements": (0..side).map(element).collect::<Vec<_>>()}})
    };
    let generators = json!({"matrix": {"generators": [list("a", "x"), list("b", "{{.a}}-y")]}});
    let case = format!("matrix of {side} x {side}");
    run(table, binary, &case, &set(generators, "{{.b}}"));
}

/// A list that overrides each set of another one, in the opposite order.
pub fn merge(table: &mut Table, binary: &Path, count: usize) {
    let list = |order: &mut dyn Iterator<Item = usize>, key: &str| {
        let element = |number| json!({"name": format!("app-{number:05}"), "values": { key: "v" }});
        json!({"list": {"elements": order.map(element).collect::<Vec<_>>()}})
    };
    let generators = json!({"merge": {"mergeKeys": ["name"], "generators": [
        list(&mut (0..count), "a"), list(&mut (0..count).rev(), "b"),
    ]}});
    run(table, binary, &format!("merge of {count}"), &set(generators, "{{.name}}"));
}

fn set(generator: Value, name: &str) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "set", "namespace": "argocd"},
        "spec": {
            "goTemplate": true, "goTemplateOptions": ["missingkey=error"],
            "generators": [generator],
            "template": {
                "metadata": {"name": name, "labels": {"app": name}},
                "spec": {
                    "project": "default",
                    "source": {"repoURL": "https://git.example.com/fleet", "targetRevision": "HEAD", "path": name},
                    "destination": {"server": "https://kubernetes.default.svc", "namespace": name},
                },
            },
        },
    })
}

fn run(table: &mut Table, binary: &Path, case: &str, set: &Value) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    measure(table, binary, &folder, case, set, &GitAnswer::Directories(Vec::new()));
}

fn measure(
    table: &mut Table,
    binary: &Path,
    folder: &TempDir,
    case: &str,
    set: &Value,
    answer: &GitAnswer,
) {
    let file = folder.path().join("set.json");
    std::fs::write(&file, set.to_string()).expect("the folder is writable");
    let rendered = || {
        let mut command = Command::new(binary);
        command.args(["render", "-o", "json", "-f"]).arg(&file);
        let ran = run_to_end(&mut command, &folder.path().join("render.log"), LIMIT);
        assert!(ran.success, "wavegate render failed");
        ran.wall
    };
    add(table, case, "`wavegate render`, reading and printing included", shortest(rendered));
    add(table, case, "generation alone, in process", shortest(|| generated(set, answer)));
}

fn shortest(mut run: impl FnMut() -> Duration) -> Duration {
    (0..RUNS).map(|_| run()).min().unwrap_or_default()
}

fn add(table: &mut Table, case: &str, what: &str, time: Duration) {
    let target = TARGET.as_secs_f64() * 1e3;
    table.add(case, what, "ms", time.as_secs_f64() * 1e3, Some(target));
    let share = time.as_secs_f64() / TARGET.as_secs_f64();
    table.add(case, &format!("{what}: ratio to the target"), "", share, Some(1.0));
}

/// Generates once repositories are read.
fn generated(set: &Value, answer: &GitAnswer) -> Duration {
    let mut inputs = Inputs::default();
    loop {
        let mut env = template_environment(Timestamp::UNIX_EPOCH);
        let start = Instant::now();
        match desired::generate(set, &inputs, &mut env) {
            Ok(generation) => {
                assert!(!generation.applications.is_empty());
                return start.elapsed();
            }
            Err(GenerateError::Unread(requests)) => {
                let answers = requests.git.into_iter();
                inputs.git.extend(answers.map(|one| (one, Ok(Arc::new(answer.clone())))));
            }
            Err(error) => panic!("{error}"),
        }
    }
}
