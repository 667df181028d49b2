//! Policies in a demo: it waits for people at another terminal, and takes back what fails.

use std::sync::mpsc::Receiver;

use super::*;

/// An example in a demo, which ends with the test.
struct PolicyDemo {
    running: Running,
    lines: Receiver<String>,
    said: String,
    _temporary: tempfile::TempDir,
}

impl PolicyDemo {
    fn start(example: &str, args: &[&str]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let file = format!("{}/examples/steering/{example}.yaml", env!("CARGO_MANIFEST_DIR"));
        let child = demo()
            .args(["--plain", "-f", file.as_str()])
            .args(args)
            .env("TMPDIR", temporary.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut running = Running(child);
        let printed = BufReader::new(running.0.stdout.take().unwrap()).lines();
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            printed.map_while(Result::ok).all(|line| sender.send(line).is_ok());
        });
        Self { running, lines, said: String::new(), _temporary: temporary }
    }

    /// Waits for a line with these texts.
    fn prints(&mut self, texts: &[&str]) -> String {
        loop {
            let line = self.lines.recv_timeout(LIMIT);
            let line = line.unwrap_or_else(|_| panic!("no line with {texts:?}:\n{}", self.said));
            self.said += &format!("{line}\n");
            if texts.iter().all(|text| line.contains(text)) {
                return line;
            }
        }
    }

    /// Runs the command that the demo prints for another terminal, as it is pasted.
    fn pastes(&mut self, verb: &str) {
        let line = self.prints(&["in another terminal: KUBECONFIG=", verb]);
        let command = line.split_once("in another terminal: ").unwrap().1;
        let shell = Command::new("sh")
            .arg("-c")
            .arg(format!("{} --yes", command.replace("wavegate ", "\"$PROGRAM\" ")))
            .env("PROGRAM", env!("CARGO_BIN_EXE_wavegate"))
            .env_remove("KUBECONFIG")
            .output()
            .unwrap();
        assert!(shell.status.success(), "{command}: {}", String::from_utf8_lossy(&shell.stderr));
    }

    /// Waits for its end.
    fn ends_with(mut self, code: i32) -> String {
        self.said += &self.lines.iter().map(|line| line + "\n").collect::<String>();
        assert_eq!(self.running.0.wait().unwrap().code(), Some(code), "{}", self.said);
        std::mem::take(&mut self.said)
    }
}

/// ST-011, ST-080.
#[test]
fn a_gate_waits_for_an_approval_from_another_terminal() {
    let mut demo = PolicyDemo::start("gate", &[]);
    demo.pastes("wavegate approve -n argocd gate --gate production");
    let said = demo.ends_with(0);
    line_with(&said, &["gate production is approved by"]);
    line_with(&said, &["gate production opens"]);
    // Runs, sets and Applications have a watch each, so that their lines of one moment are in any
    // order, and the start of a sync may be seen before the promotion.
    let order = [
        line_with(&said, &["run gate-1 is AwaitingApproval"]),
        line_with(&said, &["web-prod-eu", "Waiting → "]),
        line_with(&said, &["step 2  complete"]),
        line_with(&said, &["Rollout complete"]),
    ];
    assert!(order.is_sorted(), "{order:?}:\n{said}");
}

/// ST-020.
#[test]
fn a_pause_ends_by_the_command_that_is_printed() {
    let mut demo = PolicyDemo::start("pause", &[]);
    demo.pastes("wavegate resume -n argocd pause");
    let said = demo.ends_with(0);
    let paused = line_with(&said, &["run pause-1 is Paused", "until the freeze is over"]);
    assert!(paused < line_with(&said, &["web-dev-eu", " → Progressing"]), "{said}");
}

/// ST-012.
#[test]
fn a_soak_ends_by_itself() {
    let said = PolicyDemo::start("soak", &[]).ends_with(0);
    line_with(&said, &["gate soaked opens"]);
    let soaks = line_with(&said, &["run soak-1 is Soaking"]);
    assert!(soaks < line_with(&said, &["web-prod-us", "Waiting → "]), "{said}");
}

/// ST-042, ST-064.
#[test]
fn failures_within_the_budget_hold_nothing_and_more_wait_for_a_person() {
    let said = PolicyDemo::start("failures", &["--fail", "web-prod-ap"]).ends_with(0);
    line_with(
        &said,
        &["Run failures-1 is complete: 1 failed, within the budget; web-prod-ap failed"],
    );
    let mut demo =
        PolicyDemo::start("failures", &["--fail", "web-prod-ap", "--fail", "web-prod-eu"]);
    demo.prints(&["run failures-1 is Held: 2 failed, and 1 may"]);
    demo.pastes("wavegate skip -n argocd web-prod-ap");
    let said = demo.ends_with(0);
    line_with(&said, &["web-prod-ap is skipped"]);
    let held = line_with(&said, &["run failures-1 is Held"]);
    assert!(held < line_with(&said, &["web-prod-sa", "Waiting → "]), "{said}");
}

/// ST-061: what the second commit has started goes back, once each.
#[test]
fn a_commit_that_fails_is_rolled_back() {
    let said = PolicyDemo::start("rollback", &["--fail", "web-prod-us"]).ends_with(1);
    let order = [
        line_with(&said, &["step 2  complete"]),
        line_with(&said, &["now a second commit"]),
        line_with(&said, &["run rollback-2 is RollingBack by Failures"]),
        line_with(&said, &["run rollback-2 is RolledBack by Failures: 3 of 3 are back"]),
        line_with(&said, &["Rolled back after", "3 Applications, 9 syncs"]),
    ];
    assert!(order.is_sorted(), "{order:?}:\n{said}");
    // Its line and that of the run may be in any order.
    let failed = line_with(&said, &["web-prod-us", "the sync failed"]);
    assert!(order[1] < failed && failed < order[3], "{failed}, {order:?}:\n{said}");
    let last = said.lines().last().unwrap();
    assert!(
        last.starts_with("Run rollback-2 was rolled back by Failures: 3 of 3 are back; "),
        "{last}"
    );
    // Without a failure, both commits are rolled out.
    let said = PolicyDemo::start("rollback", &[]).ends_with(0);
    line_with(&said, &["Rollout complete", "3 Applications, 6 syncs"]);
}

/// ST-030.
#[test]
fn a_ramp_begins_with_one_and_a_region_has_one_in_flight() {
    let said = PolicyDemo::start("pace", &[]).ends_with(0);
    line_with(&said, &["env in canary, prod", "8/8", " 4 "]);
    assert!(!said.contains("not complete"), "{said}");
}

/// A policy without an ApplicationSet is that of the demo's own one.
#[test]
fn a_policy_alone_steers_the_set_of_the_demo() {
    let folder = tempfile::tempdir().unwrap();
    let policy = "apiVersion: wavegate.dev/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: p}\n\
                  spec: {gates: [{name: qa, applications: {matchLabels: {env: qa}}, soak: 1s}]}\n";
    std::fs::write(folder.path().join("policy.yaml"), policy).unwrap();
    let file = folder.path().join("policy.yaml");
    let (code, output, errors) = run(demo().arg("--plain").arg("-f").arg(file));
    assert_eq!(code, 0, "{output}{errors}");
    line_with(&output, &["gate qa opens"]);
    line_with(&output, &["Rollout complete", "14 Applications, 14 syncs"]);
}
