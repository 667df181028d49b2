//! `wavegate demo`: the program, its output, its exit code.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod listening;
mod policies;
mod predicting;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time limit of the demo, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

fn demo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavegate"));
    command.arg("demo").stdin(Stdio::null()).env_remove("RUST_LOG").env("NO_COLOR", "1");
    command
}

/// Runs to the end: exit code, standard output, standard error.
fn run(command: &mut Command) -> (i32, String, String) {
    let started = Instant::now();
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(started.elapsed() < LIMIT, "took {:?}:\n{stdout}{stderr}", started.elapsed());
    (status.code().unwrap(), stdout, stderr)
}

/// The number of the first line with all these texts, in any order.
fn line_with(output: &str, texts: &[&str]) -> usize {
    let has_all = |line: &str| texts.iter().all(|text| line.contains(text));
    let found = output.lines().position(has_all);
    found.unwrap_or_else(|| panic!("no line with {texts:?} in:\n{output}"))
}

/// Judges a rollout by what was printed: no step had more in flight than its limit, and
/// nothing of it was promoted before the step before it was complete.
fn limits_are_kept(output: &str, steps: usize) {
    let mut judged = 0;
    for row in output.lines().skip_while(|line| !line.contains("Max in flight")).skip(1) {
        let cells: Vec<&str> =
            row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let [step, _, _, _, most, limit] = cells.as_slice() else { break };
        let Ok(step) = step.parse::<usize>() else { break };
        judged += 1;
        let most: u64 = most.parse().unwrap();
        if let Ok(limit) = limit.split(' ').next().unwrap_or_default().parse::<u64>() {
            assert!(most <= limit, "step {step}: {most} in flight:\n{output}");
        }
        if step > 1 {
            let complete = line_with(output, &[&format!("step {}", step - 1), "complete"]);
            let starts = line_with(output, &[&format!("step {step}"), "starts"]);
            assert!(starts > complete, "step {step}:\n{output}");
        }
    }
    assert_eq!(judged, steps, "{output}");
}

#[test]
fn the_demo_rolls_out_step_by_step() {
    let temporary = tempfile::tempdir().unwrap();
    let (code, output, errors) = run(demo().arg("--plain").env("TMPDIR", temporary.path()));
    assert_eq!(code, 0, "{output}{errors}");
    assert_eq!(errors, "");

    let healthy = output.lines().filter(|line| line.contains("Progressing → Healthy")).count();
    assert_eq!(healthy, 14, "every Application became Healthy once:\n{output}");
    let order = [
        line_with(&output, &["step 1", "starts"]),
        line_with(&output, &["step 1", "complete"]),
        line_with(&output, &["step 2", "starts"]),
        line_with(&output, &["step 2", "complete"]),
        line_with(&output, &["step 3", "starts"]),
        line_with(&output, &["step 3", "complete"]),
    ];
    assert!(order.is_sorted(), "{order:?}:\n{output}");
    assert!(line_with(&output, &["prod-", "Pending"]) > order[3], "prod waits for qa:\n{output}");
    // The phase of each line is that of its moment, and each change is one line. Sets and
    // Applications have a watch each, so the start of a sync may be seen before the promotion.
    for phases in ["Waiting → ", " → Progressing"] {
        let lines = output.lines().filter(|line| line.contains(phases));
        assert_eq!(lines.count(), 14, "{phases}:\n{output}");
    }
    let stale = |line: &&str| line.contains("Pending   ") && !line.contains("→");
    assert_eq!(output.lines().find(stale), None, "{output}");
    assert!(!output.contains("since 20"), "ages, not times:\n{output}");
    line_with(&output, &["dev-eu", "PreSync hook Job migrate"]);
    line_with(&output, &["dev-eu", "PostSync hook Job smoke-test"]);
    line_with(&output, &["Rollout complete", "14 Applications, 14 syncs, 28 hooks"]);
    line_with(&output, &["env = prod", "8/8", "2 (25%)"]);
    limits_are_kept(&output, 3);

    let left = std::fs::read_dir(temporary.path()).unwrap().count();
    assert_eq!(left, 0, "nothing is left behind");
}

#[test]
fn a_failing_application_stops_its_step_and_is_named() {
    let (code, output, errors) = run(demo().args(["--plain", "--fail", "qa-us"]));
    assert_eq!(code, 1, "{output}{errors}");
    line_with(&output, &["Stopped in step 2: qa-us: ", "Deployment shop-qa-us/web is Degraded: "]);
    line_with(&output, &["env = prod", "0/8"]);
    assert!(!output.contains("step 3  prod"), "no prod Application began:\n{output}");
}

#[test]
fn an_unknown_application_is_rejected_with_the_available_ones() {
    let (code, output, errors) = run(demo().args(["--plain", "--fail", "qa-mars"]));
    assert_eq!((code, output.as_str()), (2, ""), "{errors}");
    assert!(errors.starts_with("error: --fail: qa-mars: "), "{errors}");
    assert!(errors.contains("dev-eu") && errors.contains("prod-sa-east"), "{errors}");
}

#[test]
fn only_the_loopback_address_is_served() {
    let (code, _, errors) = run(demo().args(["--plain", "--listen", "0.0.0.0:0"]));
    assert_eq!(code, 2, "{errors}");
    assert!(errors.starts_with("error: --listen: 0.0.0.0:0: only loopback addresses"), "{errors}");
}

/// A directory with a set of two Applications and their manifests.
fn own_set(folder: &Path, repo_url: &str, strategy: &str) {
    let set = format!(
        r#"
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {{name: own}}
spec:
  generators:
  - list: {{elements: [{{name: first}}, {{name: second}}]}}
  {strategy}
  template:
    metadata: {{name: "{{{{name}}}}", labels: {{app: "{{{{name}}}}"}}}}
    spec:
      project: team
      source: {{repoURL: "{repo_url}", path: "{{{{name}}}}"}}
      destination: {{server: "https://kubernetes.default.svc", namespace: apps}}
      syncPolicy: {{automated: {{selfHeal: true}}, syncOptions: ["CreateNamespace=true"]}}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {{name: team}}
spec:
  sourceRepos: ["*"]
  destinations: [{{server: "*", namespace: apps}}]
  clusterResourceWhitelist: [{{group: "", kind: Namespace}}]
"#
    );
    std::fs::write(folder.join("set.yaml"), set).unwrap();
    for name in ["first", "second"] {
        let directory = folder.join("manifests").join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let manifest = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{is: {name}}}\n"
        );
        std::fs::write(directory.join("map.yaml"), manifest).unwrap();
    }
}

const FIRST_THEN_SECOND: &str = "\
strategy: {type: RollingSync, rollingSync: {steps: [\
{matchExpressions: [{key: app, operator: In, values: [first]}]}, \
{matchExpressions: [{key: app, operator: In, values: [second]}], maxUpdate: LIMIT}]}}";

#[test]
fn a_user_defined_set_is_rolled_out() {
    let cases =
        [("in steps", FIRST_THEN_SECOND.replace("LIMIT", "1")), ("all at once", String::new())];
    for (name, strategy) in cases {
        let folder = tempfile::tempdir().unwrap();
        own_set(folder.path(), "./manifests", &strategy);
        let file = folder.path().join("set.yaml");
        let (code, output, errors) = run(demo().arg("--plain").arg("-f").arg(&file));
        assert_eq!(code, 0, "{name}: {output}{errors}");
        line_with(&output, &["Rollout complete", "2 Applications"]);
        limits_are_kept(&output, if strategy.is_empty() { 0 } else { 2 });
    }
}

#[test]
fn a_step_with_max_update_zero_suggests_an_action() {
    let folder = tempfile::tempdir().unwrap();
    own_set(folder.path(), "./manifests", &FIRST_THEN_SECOND.replace("LIMIT", "0"));
    let file = folder.path().join("set.yaml");
    let (code, output, errors) = run(demo().arg("--plain").arg("-f").arg(&file));
    assert_eq!(code, 1, "{output}{errors}");
    line_with(&output, &["Step 2 waits for a manual sync of second (maxUpdate is 0)"]);
    line_with(&output, &["wavegate sync -n argocd second"]);
}

#[test]
fn a_remote_source_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    own_set(folder.path(), "https://example.com/fleet.git", "");
    let (code, output, errors) =
        run(demo().arg("--plain").arg("-f").arg(folder.path().join("set.yaml")));
    assert_eq!((code, output.as_str()), (2, ""), "{errors}");
    assert!(
        errors.contains("Application first: repoURL https://example.com/fleet.git"),
        "{errors}"
    );
}

/// What is wrong wherever the set is rolled out was hidden by what only the demo refuses.
#[test]
fn a_name_that_is_there_twice_is_said_before_a_remote_source() {
    let folder = tempfile::tempdir().unwrap();
    own_set(folder.path(), "https://example.com/fleet.git", "");
    let file = folder.path().join("set.yaml");
    let set = std::fs::read_to_string(&file).unwrap().replace("{name: second}", "{name: first}");
    std::fs::write(&file, set).unwrap();
    let (code, output, errors) = run(demo().arg("--plain").arg("-f").arg(&file));
    assert_eq!((code, output.as_str()), (2, ""), "{errors}");
    let twice = line_with(&errors, &["ApplicationSet own: first: ", "it must be unique"]);
    let remote = line_with(&errors, &["Application first: repoURL https://example.com/fleet.git"]);
    assert!(twice < remote, "{errors}");
}

#[test]
fn an_application_of_two_sets_is_rejected_also_before_a_remote_source() {
    for source in ["./manifests", "https://example.com/fleet.git"] {
        let folder = tempfile::tempdir().unwrap();
        own_set(folder.path(), source, "");
        let file = folder.path().join("set.yaml");
        let set = std::fs::read_to_string(&file).unwrap();
        let run_both = |other: String| {
            let both = folder.path().join("both.yaml");
            std::fs::write(&both, format!("{set}---\n{other}")).unwrap();
            run(demo().arg("--plain").arg("-f").arg(&both))
        };
        let (code, output, errors) = run_both(set.replace("{name: own}", "{name: other}"));
        assert_eq!((code, output.as_str()), (1, ""), "{errors}");
        let text = "error: cannot use the ApplicationSets: Application first: ApplicationSets own \
                    and other generate it";
        assert_eq!(errors.lines().next(), Some(text));
        let (code, output, errors) = run_both(set.clone());
        assert_eq!((code, output.as_str()), (2, ""), "{errors}");
        line_with(&errors, &["both.yaml: line ", ": ApplicationSet own: it is given twice"]);
    }
}

/// Ends the program when a test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A demo that serves its API, and the lines that it prints.
fn serving(temporary: &Path) -> (Running, Lines<BufReader<ChildStdout>>) {
    serving_with(temporary, &[])
}

/// The same of these files.
fn serving_with(temporary: &Path, files: &[&Path]) -> (Running, Lines<BufReader<ChildStdout>>) {
    let child = demo()
        .args(["--plain", "--listen", "127.0.0.1:0"])
        .args(files.iter().flat_map(|file| [OsStr::new("-f"), file.as_os_str()]))
        .env("TMPDIR", temporary)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut running = Running(child);
    let lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
    (running, lines)
}

/// Reads lines in another thread, so that waiting for one has a limit and the pipe is never full.
fn read_aside(lines: Lines<BufReader<ChildStdout>>) -> (Receiver<String>, JoinHandle<()>) {
    let (sender, printed) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        lines.map_while(Result::ok).all(|line| sender.send(line).is_ok());
    });
    (printed, reading)
}

#[test]
fn kubectl_can_access_the_served_demo() {
    if Command::new("kubectl").arg("version").arg("--client").output().is_err() {
        eprintln!("skipped: there is no kubectl on PATH");
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let (mut running, lines) = serving(temporary.path());
    let (printed, reading) = read_aside(lines);
    let next = || printed.recv_timeout(LIMIT).expect("the demo prints a line");
    let kubeconfig = next().strip_prefix("export KUBECONFIG=").unwrap().to_owned();
    let kubectl = |arguments: &[&str]| {
        let output = Command::new("kubectl")
            .env("KUBECONFIG", &kubeconfig)
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    };
    while !next().contains("step 3  complete") {}

    let sets = kubectl(&["-n", "argocd", "get", "applicationsets", "-o", "wide"]);
    assert!(sets.contains("shop") && sets.contains("14/14"), "{sets}");
    let applications = kubectl(&["-n", "argocd", "get", "applications"]);
    assert_eq!(applications.matches("Synced").count(), 14, "{applications}");
    let deployments = kubectl(&["get", "deployments", "-A"]);
    assert_eq!(deployments.matches("2/2").count(), 14, "{deployments}");
    assert!(
        kubectl(&["-n", "argocd", "describe", "applicationset", "shop"]).contains("RollingSync")
    );

    // It keeps running: a manual deletion is detected and reverted.
    kubectl(&["-n", "shop-dev-eu", "delete", "configmap", "settings"]);
    // From Waiting or Pending when the controller has not seen the sync.
    let is_mended = |line: &str| line.contains("  dev-eu  ") && line.contains("→ Healthy");
    while !is_mended(&next()) {}
    kubectl(&["-n", "shop-dev-eu", "get", "configmap", "settings"]);

    let id = running.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    reading.join().unwrap();
    let rest: Vec<String> = printed.try_iter().collect();
    assert_eq!(running.0.wait().unwrap().code(), Some(130), "{rest:?}");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "nothing is left behind");
}
