//! The command line: outputs, exit codes, and errors with what, where and why.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod absent_settings;
mod app_diff;
mod application_metrics;
mod arguments;
mod bounds;
mod cluster_keys;
mod comparing;
mod completing;
mod dashboard;
mod deletion;
mod doctor;
mod dry_run;
mod embedded;
mod explaining;
mod finding;
mod fuzz;
mod generator_examples;
mod generator_rules;
mod generators;
mod generators_live;
mod generators_template;
mod health_of_kinds;
mod health_scripts;
mod help;
mod hidden_directories;
mod hook_annotations;
mod hostile_text;
mod jsonnet;
mod languages;
mod listeners;
mod live_plan;
mod live_settings;
mod logs;
mod manifests;
mod metrics;
mod monitoring;
mod newest;
mod other_controllers;
mod permissions;
mod policies;
mod private_repositories;
mod providers;
mod providers_app;
mod providers_hostile;
mod providers_lists;
mod providers_live;
mod providers_pages;
mod providers_tls;
mod proxy;
mod reading_ahead;
mod redis_settings;
mod repeated;
mod secrets;
mod simulated_runs;
mod simulating;
mod starting;
mod templates;
mod tree;
mod trust;
mod trying;
mod typos;
mod unwritten;
mod watching;
mod webhooks;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use kube::core::discovery::ApiResource;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Time limit of every wait, also on a busy machine.
const WAIT: std::time::Duration = std::time::Duration::from_secs(180);

/// Result of a run.
struct Run {
    code: i32,
    out: String,
    err: String,
}

impl Run {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }

    /// Asserts an exit code and what standard error must contain.
    #[track_caller]
    fn fails(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        for part in parts {
            assert!(self.err.contains(part), "no {part:?} in: {}", self.err);
        }
    }
}

/// Asserts that a text has this part.
#[track_caller]
fn says(text: &str, part: impl AsRef<str>) {
    let part = part.as_ref();
    assert!(text.contains(part), "no {part:?} in: {text}");
}

/// The rows of a table, `given => what comes of it`.
fn rows(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = table.lines().map(str::trim).filter(|row| !row.is_empty());
    rows.map(|row| row.split_once(" => ").unwrap_or_else(|| panic!("no row: {row}")))
}

/// An unused loopback address, outside of the range of ephemeral ports; another one in each
/// call.
fn unused_address() -> String {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 10_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    let ports = std::iter::from_fn(|| Some(start + NEXT.fetch_add(1, Ordering::Relaxed)));
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    format!("127.0.0.1:{}", ports.take(10_000).find(is_free).unwrap())
}

fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavegate"));
    command.args(args).env_remove("RUST_LOG").env_remove("NO_COLOR");
    // Tests access only the cluster that they name.
    command.env("KUBECONFIG", "/nonexistent").env_remove("KUBERNETES_SERVICE_HOST");
    command
}

fn finish(mut command: Command, input: &[u8]) -> Run {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The program may exit before it reads its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    let done = child.wait_with_output().unwrap();
    Run {
        code: done.status.code().expect("it was not killed"),
        out: String::from_utf8(done.stdout).unwrap(),
        err: String::from_utf8(done.stderr).unwrap(),
    }
}

fn wavegate(args: &[&str]) -> Run {
    finish(program(args), b"")
}

fn with_input(args: &[&str], input: impl AsRef<[u8]>) -> Run {
    finish(program(args), input.as_ref())
}

fn repository(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path).to_str().unwrap().to_owned()
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn in_folder(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

/// A set with these names in its list generator, and these steps.
fn set(names: &[&str], steps: Value) -> String {
    let elements: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": "set"},
        "spec": {
            "generators": [{"list": {"elements": elements}}],
            "strategy": {"type": "RollingSync", "rollingSync": {"steps": steps}},
            "template": {
                "metadata": {"name": "{{name}}", "labels": {"app": "{{name}}"}},
                "spec": {"project": "default", "destination": {"server": "https://1"}, "source": {"repoURL": "https://r"}},
            },
        },
    })
    .to_string()
}

/// A set of the Applications `a` and `b` in the cluster of the controller, to be deleted in
/// reverse order, with the request to read its repositories again.
fn refreshed_fleet(steps: Value) -> Value {
    let mut fleet: Value = serde_json::from_str(&set(&["a", "b"], steps)).unwrap();
    fleet["metadata"]["annotations"] =
        json!({"argocd.argoproj.io/application-set-refresh": "true"});
    fleet["spec"]["strategy"]["deletionOrder"] = json!("Reverse");
    let server = crate::support::manifests::IN_CLUSTER;
    fleet["spec"]["template"]["spec"]["destination"] =
        json!({"server": server, "namespace": "default"});
    fleet
}

fn selects(names: &[&str], max_update: Value) -> Value {
    json!({"matchExpressions": [{"key": "app", "operator": "In", "values": names}], "maxUpdate": max_update})
}

#[test]
fn the_guestbook_plan_is_as_documented() {
    let guestbook = repository("examples/guestbook.yaml");
    let run = wavegate(&["plan", "-f", &guestbook, "-o", "json"]);
    let step = |step: u64, max_update: Value, limit: u64, held: bool, name: &str| {
        let batches = if held { json!([]) } else { json!([[name]]) };
        json!({"step": step, "maxUpdate": max_update, "limit": limit, "batches": batches, "applications": [name]})
    };
    let want = json!({
        "steps": [
            step(1, Value::Null, 1, false, "engineering-dev-guestbook"),
            step(2, json!(0), 0, true, "engineering-qa-guestbook"),
            step(3, json!("10%"), 1, false, "engineering-prod-guestbook"),
        ],
        "unmatched": [],
        "problems": [],
    });
    assert_eq!((run.code, run.json(), run.err.as_str()), (0, want, ""));

    // docs/reference/cli.md has the table.
    let yaml = wavegate(&["plan", "-f", &guestbook, "-o", "yaml"]);
    assert!(
        yaml.out
            .starts_with("problems: []\nsteps:\n- applications:\n  - engineering-dev-guestbook\n"),
        "{}",
        yaml.out
    );
}

#[test]
fn batches_follow_max_update_and_names() {
    let names = ["e", "d", "c", "b", "a", "x"];
    let steps =
        json!([selects(&["a", "b", "c", "d", "e"], json!("40%")), selects(&["a", "x"], json!(5))]);
    let run = with_input(&["plan", "-f", "-", "-o", "json"], set(&names, steps));
    let plan = run.json();
    assert_eq!(plan["steps"][0]["batches"], json!([["a", "b"], ["c", "d"], ["e"]]));
    assert_eq!(
        plan["steps"][1]["batches"],
        json!([["x"]]),
        "an application counts in its first step"
    );
    assert_eq!(
        plan["steps"][1]["applications"],
        json!(["a", "x"]),
        "the second step waits for it too"
    );
    assert_eq!(run.code, 1, "to be selected twice is a mistake");
    assert_eq!(
        (&plan["problems"][0]["code"], &plan["problems"][0]["step"]),
        (&json!("SelectedTwice"), &json!(1))
    );
    // A step whose Applications begin in an earlier one holds none of them.
    let steps = json!([selects(&["a", "b"], json!(1)), selects(&["a"], Value::Null)]);
    let run = with_input(&["plan", "-f", "-"], set(&["a", "b"], steps));
    says(&run.out, "2      100%         0       -       a (in an earlier step already)\n");
}

#[test]
fn errors_are_listed_with_code_message_and_step() {
    let odd =
        json!({"matchExpressions": [{"key": "app", "operator": "Exists"}], "maxUpdate": "many"});
    let run = with_input(&["plan", "-f", "-", "-o", "json"], set(&["a", "a", "b"], json!([odd])));
    let plan = run.json();
    let problems: Vec<(&str, Option<u64>)> = plan["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| (problem["code"].as_str().unwrap(), problem["step"].as_u64()))
        .collect();
    let want = [
        ("InvalidApplication", None),
        ("UnsupportedOperator", Some(1)),
        ("InvalidMaxUpdate", Some(1)),
    ];
    assert_eq!((run.code, problems.as_slice()), (1, want.as_slice()));
    assert_eq!(plan["unmatched"], json!(["a", "b"]));
    let message = plan["problems"][1]["message"].as_str().unwrap();
    assert!(
        message.starts_with(
            "spec.strategy.rollingSync.steps[0].matchExpressions[0].operator: \"Exists\""
        ),
        "{message}"
    );

    let empty = with_input(&["plan", "-f", "-", "-o", "json"], set(&["a"], json!([])));
    assert_eq!((empty.code, &empty.json()["problems"][0]["code"]), (1, &json!("EmptyRollingSync")));
    let unknown = set(&["a"], json!([{}])).replace("\"list\"", "\"lists\"");
    let unknown = with_input(&["plan", "-f", "-", "-o", "json"], unknown);
    let codes: Vec<Value> = unknown.json()["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["code"].clone())
        .collect();
    assert_eq!((unknown.code, codes), (1, vec![json!("UnknownField"), json!("NotGenerated")]));
}

/// A set whose template fails.
fn failing(name: &str) -> String {
    set(&["a"], json!([{}]))
        .replace("{{name}}", "{{.nope}}")
        .replace("\"name\":\"set\"", &format!("\"name\":\"{name}\""))
        .replace(
            "\"spec\":{\"gen",
            "\"spec\":{\"goTemplate\":true,\"goTemplateOptions\":[\"missingkey=error\"],\"gen",
        )
}

#[test]
fn a_set_that_cannot_be_generated_has_a_plan_without_applications() {
    let run = with_input(&["plan", "-f", "-", "-o", "json"], failing("set"));
    run.fails(1, &["error: cannot generate: standard input: line 1: ApplicationSet set: "]);
    let mut plan = run.json();
    let message = plan["problems"][0]["message"].take();
    assert!(message.as_str().unwrap().contains("map has no entry for key \"nope\""), "{message}");
    let problem = json!({"code": "NotGenerated", "message": null, "step": null});
    assert_eq!(plan, json!({"steps": [], "unmatched": [], "problems": [problem]}));
    // It does not hide the plans of others.
    let fine = set(&["b"], json!([{}]));
    let files =
        folder(&[("a.json", &failing("first")), ("b.json", &fine), ("c.json", &failing("last"))]);
    let run = wavegate(&["plan", "-f", &in_folder(&files, "")]);
    run.fails(1, &["ApplicationSet first: ", "ApplicationSet last: "]);
    assert!(
        run.out.starts_with("ApplicationSet set: RollingSync, 1 step, 1 application\n"),
        "{}",
        run.out
    );
    assert_eq!(run.out.matches("ApplicationSet ").count(), 1, "{}", run.out);
    for command in [&["simulate", "-f", "-"][..], &["demo", "--plain", "-f", "-"]] {
        with_input(command, failing("set")).fails(1, &["error: cannot generate: "]);
    }
}

#[test]
fn max_update_is_shown_as_it_was_written() {
    for (value, limit, problem) in [
        (json!(-1), 0, ""),
        (json!("50"), 1, "\"50\" is a number in quotes, and 50 is in effect; remove the quotes"),
        (
            json!("x"),
            1,
            "\"x\" is neither a number nor a percentage such as \"10%\", and 1 is in effect",
        ),
    ] {
        let steps = json!([selects(&["a"], value.clone())]);
        let run = with_input(&["plan", "-f", "-", "-o", "json"], set(&["a"], steps));
        assert_eq!(run.code, i32::from(!problem.is_empty()), "{value}: {}", run.err);
        let plan = run.json();
        let step = &plan["steps"][0];
        assert_eq!((&step["maxUpdate"], &step["limit"]), (&value, &json!(limit)));
        let message = plan["problems"][0]["message"].as_str().unwrap_or_default();
        assert!(message.ends_with(problem), "{message}");
    }
}

#[test]
fn rendered_applications_are_documents_in_name_order() {
    let run = with_input(&["render", "-f", "-"], set(&["b", "a"], json!([])));
    let document = |name: &str| {
        format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata:\n  finalizers:\n  - resources-finalizer.argocd.argoproj.io\n  \
             labels:\n    app: {name}\n  name: {name}\nspec:\n  destination:\n    server: https://1\n  project: default\n  source:\n    \
             repoURL: https://r\n"
        )
    };
    assert_eq!((run.code, run.out), (0, format!("{}---\n{}", document("a"), document("b"))));
    let list = with_input(&["render", "-f", "-", "-o", "json"], set(&["b", "a"], json!([]))).json();
    assert_eq!(
        (&list["kind"], &list["items"][0]["metadata"]["name"]),
        (&json!("List"), &json!("a"))
    );
    let table = with_input(&["render", "-f", "-", "-o", "table"], set(&["a"], json!([])));
    assert_eq!(
        table.out,
        "NAME   PROJECT   CLUSTER     NAMESPACE   SOURCE\na      default   https://1   -           https://r\n"
    );
}

#[test]
fn invalid_applications_are_reported_and_printed() {
    let run = with_input(&["render", "-f", "-"], set(&["a", "a", ""], json!([])));
    run.fails(
        1,
        &[
            "error: invalid application: standard input: line 1: ApplicationSet set:",
            "application a: ",
            "2 elements result in this name",
            "empty name",
        ],
    );
    assert_eq!(run.out.matches("kind: Application\n").count(), 3);
}

#[test]
fn a_parameter_that_no_generator_has_is_named() {
    let misspelt = set(&["a", "b"], json!([])).replace("{{name}}", "{{ naem }}");
    let run = with_input(&["render", "-f", "-"], misspelt);
    let want = "spec.template.metadata.name: \"{{ naem }}\" is not a valid object name: the \
                generator has no parameter naem (generated from spec.generators[0].list.elements[";
    run.fails(1, &[want]);
    assert!(!run.err.contains("it must be unique"), "{}", run.err);
    let misspelt = set(&["a", "b"], json!([]))
        .replace("{{name}}", "{{.naem}}")
        .replace("\"spec\":{\"gen", "\"spec\":{\"goTemplate\":true,\"gen");
    let go = with_input(&["render", "-f", "-"], misspelt.clone());
    go.fails(1, &["\"<no value>\" is not a valid object name: the template names a field that "]);
    // As it advises.
    let strict = misspelt.replace(
        "\"goTemplate\":true",
        "\"goTemplate\":true,\"goTemplateOptions\":[\"missingkey=error\"]",
    );
    with_input(&["render", "-f", "-"], strict).fails(1, &["naem"]);
}

#[test]
fn errors_have_what_where_and_why() {
    let template = set(&["a"], json!([]))
        .replace("{{name}}", "{{.name")
        .replace("\"spec\":{\"gen", "\"spec\":{\"goTemplate\":true,\"gen");
    let wrong_type = set(&["a"], json!([])).replace("\"generators\":[", "\"generators\":[7,");
    let files = folder(&[
        ("broken.yaml", "a: b\nc: [\n"),
        ("other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n"),
        (
            "old.yaml",
            "apiVersion: argoproj.io/v1beta1\nkind: ApplicationSet\nmetadata: {name: web}\n",
        ),
        ("empty.yaml", "# nothing\n---\n"),
        ("scalar.yaml", "hello\n"),
        ("template.json", &template),
        ("type.json", &wrong_type),
    ]);
    let cases: [(&str, i32, &[&str]); 8] = [
        ("none.yaml", 2, &["error: cannot read: ", "none.yaml: file not found"]),
        ("broken.yaml", 2, &["error: cannot read: ", "broken.yaml: line 2, column 4: "]),
        (
            "other.yaml",
            2,
            &[
                "error: cannot find an ApplicationSet: ",
                "other.yaml: line 1: contains only ConfigMap web",
            ],
        ),
        (
            "old.yaml",
            2,
            &[
                "apiVersion of ApplicationSet web is \"argoproj.io/v1beta1\"; it must be argoproj.io/v1alpha1",
            ],
        ),
        ("empty.yaml", 2, &["empty.yaml: it is empty"]),
        (
            "scalar.yaml",
            2,
            &["scalar.yaml: line 1: contains only a document that is not a Kubernetes object"],
        ),
        (
            "template.json",
            1,
            &[
                "error: cannot generate: ",
                "template.json: line 1: ApplicationSet set: spec.template.metadata.name: ",
            ],
        ),
        (
            "type.json",
            2,
            &[
                "error: cannot read: ",
                "type.json: line 1: ApplicationSet set: spec.generators[0]: ",
            ],
        ),
    ];
    for (file, code, parts) in cases {
        for command in ["render", "plan"] {
            let run = wavegate(&[command, "-f", &in_folder(&files, file)]);
            run.fails(code, parts);
            assert_eq!(run.out, "", "{file}");
            assert_eq!(run.err.lines().count(), 1, "{file}: {}", run.err);
        }
    }
    wavegate(&["diff", "--desired", &in_folder(&files, ""), "--live", "-"])
        .fails(2, &["is a directory; specify a file"]);
}

#[test]
fn other_kinds_are_ignored_with_a_note() {
    let web = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n---\n";
    let run = with_input(&["plan", "-f", "-"], format!("{web}{}", set(&["a"], json!([{}]))));
    let note = "note: standard input: only ApplicationSets and what generators read are used, ignored: ConfigMap web (line 1)\n";
    assert_eq!((run.code, run.err.as_str()), (0, note));
}

#[test]
fn one_of_several_sets_is_selected_by_name() {
    let other = set(&["b"], json!([{}])).replace("\"name\":\"set\"", "\"name\":\"other\"");
    let both = format!("{}\n---\n{other}\n", set(&["a"], json!([{}])));
    let run = with_input(&["plan", "-f", "-"], &both);
    assert!(
        run.out.contains("ApplicationSet set:") && run.out.contains("\n\nApplicationSet other:"),
        "{}",
        run.out
    );
    with_input(&["plan", "-f", "-", "-o", "json"], &both)
        .fails(2, &["contains 2 ApplicationSets; select one by name, such as set or other"]);
    let one = with_input(&["plan", "-f", "-", "-o", "json", "other"], &both);
    assert_eq!((one.code, &one.json()["steps"][0]["applications"]), (0, &json!(["b"])));
    with_input(&["plan", "-f", "-", "third"], &both)
        .fails(2, &["no ApplicationSet is named third; found set, other"]);
}

#[test]
fn usage_errors_have_exit_code_2() {
    let cases: [&[&str]; 9] = [
        &[],
        &["plan"],
        &["render"],
        &["order"],
        &["plan", "--live"],
        &["plan", "-f", "x", "-o", "xml"],
        &["explain"],
        &["crds", "Deployment"],
        &["frobnicate"],
    ];
    for args in cases {
        let run = wavegate(args);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{args:?}");
        assert!(!run.err.is_empty(), "{args:?}");
    }
    // The parser's tip, to write '-- -1s', does not help.
    for args in [
        &["wait", "x"][..],
        &["refresh", "x"],
        &["sync", "x"],
        &["terminate", "x"],
        &["status", "--watch"],
        &["crds", "--wait"],
    ] {
        let args = [args, &["--timeout", "-1s"]].concat();
        wavegate(&args)
            .fails(2, &["invalid value '-1s' for '--timeout", "it must be longer than 0"]);
    }
    for args in [["--help", "plan"], ["plan", "--help"], ["--version", "x"]] {
        let run = wavegate(&args);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{args:?}");
    }
    with_input(&["order", "-f", "-", "-f", "-"], "")
        .fails(2, &["standard input can be read only once"]);
    with_input(&["plan", "-f", "-", "--policy", "foo"], set(&["a"], json!([{}])))
        .fails(2, &["cannot use: the controller's settings: ", "foo"]);
    let files = ["diff", "--desired", "a", "--live", "b"];
    for option in [&["--context", "nope"][..], &["-n", "foo"], &["--policy", "sync"], &["--appset"]]
    {
        wavegate(&[&files[..], option].concat()).fails(2, &["cannot be used with", option[0]]);
    }
}

#[test]
fn crds_are_the_committed_bytes() {
    let file =
        |name: &str| std::fs::read_to_string(repository(&format!("crds/{name}.yaml"))).unwrap();
    let all = ["applicationset", "application", "appproject", "rolloutpolicy", "rolloutrun"];
    let all = all.map(file);
    assert_eq!(wavegate(&["crds"]).out, all.join("---\n"));
    assert_eq!(wavegate(&["crds", "application"]).out, all[1]);
    assert_eq!(wavegate(&["crds", "rolloutrun"]).out, all[4]);
}

#[test]
fn hostile_input_causes_an_error_and_no_panic() {
    let deep = format!("a: {}{}", "[".repeat(100_000), "]".repeat(100_000));
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned()
        + &(b'b'..b'k')
            .map(|c| {
                format!(
                    "{0}: &{0} [{1}]\n",
                    c as char,
                    vec![format!("*{}", (c - 1) as char); 9].join(",")
                )
            })
            .collect::<String>();
    let escape = "apiVersion: v1\nkind: \"Config\\eMap\"\nmetadata: {name: \"\\e[2Jx\\ny\"}\n";
    let long = format!("a: {}", "x".repeat(65 << 20));
    let inputs: [(&str, &[u8]); 7] = [
        ("nothing", b""),
        ("binary", &[0, 159, 146, 150, 255, 0, 1]),
        ("no text", b"\xff\xfe\x00"),
        ("deep", deep.as_bytes()),
        ("bomb", bomb.as_bytes()),
        ("escapes", escape.as_bytes()),
        ("long", long.as_bytes()),
    ];
    for (name, input) in inputs {
        for command in ["plan", "render"] {
            let run = with_input(&[command, "-f", "-"], input);
            assert_eq!((run.code, run.out.as_str()), (2, ""), "{command} of {name}: {}", run.err);
            assert!(
                run.err.starts_with("error: ") && run.err.lines().count() == 1,
                "{name}: {}",
                run.err
            );
            assert!(!run.err.contains('\u{1b}'), "{name}: control characters are escaped");
        }
    }
    let run = with_input(&["order", "-f", "-"], escape);
    assert_eq!((run.code, run.out.lines().count()), (0, 2));
    assert!(!run.out.contains('\u{1b}'), "{}", run.out);
    // Fields of the wrong type are treated as absent where they have no effect.
    let odd = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": [], "spec": 7, "status": "x"}"#;
    for command in ["order", "health"] {
        assert_eq!(with_input(&[command, "-f", "-"], odd).code, 0, "{command}");
    }
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_is_not_an_error() {
    let names: Vec<String> = (0..3000).map(|number| format!("app-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let files = folder(&[("set.json", &set(&names, json!([{}])))]);
    let mut command = program(&["render", "-f", &in_folder(&files, "set.json")]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Much more output than a pipe buffers.
    drop(child.stdout.take());
    let done = child.wait_with_output().unwrap();
    assert_eq!(
        (done.status.code(), String::from_utf8(done.stderr).unwrap().as_str()),
        (Some(0), "")
    );
}

#[test]
fn without_a_kubeconfig_the_error_suggests_a_remedy() {
    for args in [
        vec!["status"],
        vec!["explain", "x"],
        vec!["plan", "--live", "x"],
        vec!["status", "--context", "c"],
    ] {
        let run = wavegate(&args);
        run.fails(
            2,
            &["error: cannot reach the cluster: ", "set KUBECONFIG or write ~/.kube/config"],
        );
        assert_eq!(run.out, "");
    }
}

/// The API resource of a kind of version v1.
fn kind_of(group: &str, kind: &str) -> ApiResource {
    let api_version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
    ApiResource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
    }
}
