//! The demo on a terminal.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::support::terminal::{Screen, Terminal};

/// Two Applications with a ConfigMap each, one after the other.
const SMALL: &str = r#"
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: small}
spec:
  generators:
  - list: {elements: [{name: first}, {name: second}]}
  strategy:
    type: RollingSync
    rollingSync:
      steps:
      - matchExpressions: [{key: app, operator: In, values: [first]}]
      - matchExpressions: [{key: app, operator: In, values: [second]}]
  template:
    metadata: {name: "{{name}}", labels: {app: "{{name}}"}}
    spec:
      project: default
      source: {repoURL: ./manifests, path: "{{name}}"}
      destination: {server: "https://kubernetes.default.svc", namespace: default}
"#;

/// A folder with the set and the manifests of its Applications.
fn small(manifest: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("set.yaml"), SMALL).unwrap();
    for name in ["first", "second"] {
        let directory = folder.path().join("manifests").join(name);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("one.yaml"), manifest.replace("NAME", name)).unwrap();
    }
    folder
}

const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n";

fn demo(arguments: &[&str], temporary: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavegate"));
    command.arg("demo").args(arguments).env("TMPDIR", temporary);
    command
}

fn is_title(screen: &Screen) -> bool {
    screen.is_alternate && screen.lines[0].starts_with("Wavegate  ApplicationSet")
}

/// The last column of a full line was erased; the title ends there.
#[test]
fn a_screen_uses_all_columns_and_leaves_the_terminal_as_it_was() {
    let sizes = [(80, 24), (120, 40), (40, 10), (200, 50)];
    let run = |(columns, rows): (u16, u16)| {
        let folder = small(CONFIG_MAP);
        let file = folder.path().join("set.yaml");
        let temporary = tempfile::tempdir().unwrap();
        let command = demo(&["-f", file.to_str().unwrap()], temporary.path());
        let terminal = Terminal::run(command, columns, rows);
        let shown = terminal.until_frame("the set", is_title);
        assert!(!shown.has_cursor, "{shown}");
        let last = terminal.ends_with(0);
        let (frames, raw) = (terminal.frames(), terminal.raw());
        for frame in frames.iter().filter(|frame| frame.is_alternate) {
            assert_eq!(frame.lines[0].chars().count(), usize::from(columns), "{frame}");
            // Such as `12 s`, and `1m 5s` on a busy machine.
            assert!(frame.lines[0].ends_with('s'), "{frame}");
            assert_eq!(frame.scrollback, Vec::<String>::new(), "{frame}");
        }
        assert!(raw.matches("\u{1b}[?1049h").count() == 1, "one screen");
        assert!(last.has_cursor && !last.is_alternate, "{last}");
        assert!(last.history().contains("Rollout complete"), "{last}");
        assert_eq!(
            last.occurrences("Wavegate  ApplicationSet"),
            1,
            "the last screen, once: {last}"
        );
        assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "nothing is left");
    };
    std::thread::scope(|scope| {
        for size in sizes {
            scope.spawn(move || run(size));
        }
    });
}

#[test]
fn a_window_can_be_resized_without_a_trace() {
    let temporary = tempfile::tempdir().unwrap();
    let terminal = Terminal::run(demo(&["--listen", "127.0.0.1:0"], temporary.path()), 100, 30);
    terminal.until_frame("the set", is_title);
    for (columns, rows) in [(60, 20), (140, 45), (40, 10), (20, 5), (3, 2), (80, 24)] {
        terminal.resize(columns, rows);
        let size = (usize::from(columns), usize::from(rows));
        let shown = terminal.until_frame("a frame of the new size", |screen| {
            screen.size == size && screen.lines[0].chars().count() == size.0
        });
        // In the smallest window only the clock fits.
        assert!(columns < 20 || shown.lines[0].starts_with("Wavegate"), "{shown}");
        assert!(shown.occurrences("Wavegate") <= 1, "no frame in the scrollback: {shown}");
    }
    terminal.ctrl('c');
    let last = terminal.ends_with(130);
    assert_eq!(last.occurrences("Wavegate  ApplicationSet"), 1, "the last screen, once: {last}");
    assert!(last.has_cursor && !last.is_alternate, "{last}");
}

/// The command to copy was above the screen; now it is on it, in full also in a small window.
#[test]
fn the_kubeconfig_is_on_the_screen_in_full() {
    let temporary = tempfile::tempdir().unwrap();
    let terminal = Terminal::run(demo(&["--listen", "127.0.0.1:0"], temporary.path()), 40, 12);
    let path = temporary.path().to_str().unwrap().to_owned();
    let shown = terminal.until_frame("the kubeconfig", |screen| {
        is_title(screen) && screen.lines.concat().contains("/kubeconfig")
    });
    let text = shown.lines.concat();
    assert!(text.contains("ends the demo.export KUBECONFIG=") && text.contains(&path), "{shown}");
    terminal.ctrl('c');
    terminal.ends_with(130);
}

#[test]
fn ctrl_z_stops_it_and_fg_continues() {
    let temporary = tempfile::tempdir().unwrap();
    let shell = Terminal::shell(80, 24, |command| {
        command.env("TMPDIR", temporary.path());
    });
    shell.enter("wavegate demo --listen 127.0.0.1:0");
    shell.until_frame("the set", is_title);
    shell.ctrl('z');
    let at_prompt = |screen: &Screen| screen.is_at_prompt().then(|| screen.clone());
    let stopped = shell.until("a prompt", at_prompt);
    assert!(stopped.shows("Stopped") && stopped.has_cursor && !stopped.is_alternate, "{stopped}");
    // Really stopped: in its state, and it draws nothing.
    let jobs = shell.command("jobs");
    assert!(jobs.contains("Stopped") && jobs.contains("wavegate demo"), "{jobs}");
    let frames = shell.frames().len();
    let state = shell.command("cut -d' ' -f3 /proc/$(jobs -p)/stat");
    assert!(state.ends_with('T'), "{state}");

    // In the background it leaves the terminal to the shell.
    shell.command("bg");
    let state = shell
        .command("until [ $(cut -d' ' -f3 /proc/$(jobs -p)/stat) != T ]; do :; done; echo runs");
    assert!(state.ends_with("runs"), "{state}");
    assert_eq!(shell.frames().len(), frames, "{}", shell.screen());

    shell.enter("fg");
    let again = shell.until("the screen", |screen| is_title(screen).then(|| screen.clone()));
    assert!(!again.has_cursor, "{again}");
    assert_eq!(again.scrollback.join("\n").matches("Step 1").count(), 0, "{again}");
    shell.ctrl('c');
    shell.until("a prompt", at_prompt);
    assert_eq!(shell.command("echo code $?"), "code 130");
    assert!(shell.screen().has_cursor);
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "nothing is left");
}

/// No shell could continue it.
#[test]
fn ctrl_z_without_a_shell_does_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let terminal = Terminal::run(demo(&["--listen", "127.0.0.1:0"], temporary.path()), 80, 24);
    terminal.until_frame("the set", is_title);
    terminal.ctrl('z');
    for _ in 0..2 {
        // The clock runs on.
        let before = terminal.screen().lines[0].clone();
        terminal.until("another frame", |screen| {
            (is_title(screen) && screen.lines[0] != before).then_some(())
        });
    }
    terminal.ctrl('c');
    terminal.ends_with(130);
}

/// As after `docker exec`: the leaders of session and process group are outside of the
/// container and have no number in it, which was a panic.
#[test]
fn in_a_container_of_another_session_ctrl_z_does_no_harm() {
    let apart = |program: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--"]).args(program);
        command
    };
    let is_possible = apart(&["true"]).output().is_ok_and(|output| output.status.success());
    if !is_possible {
        println!("skipped: the user may not create a PID namespace with unshare");
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    // The demo has a parent in its container; first with the session outside, then its own.
    for leader in ["", "setsid --wait --ctty "] {
        let demo = format!(
            "{leader}{} demo --listen 127.0.0.1:0; exit $?",
            env!("CARGO_BIN_EXE_wavegate")
        );
        let mut command = apart(&["bash", "-c", &demo]);
        command.env("TMPDIR", temporary.path());
        let terminal = Terminal::run(command, 80, 24);
        terminal.until_frame("the set", is_title);
        if !leader.is_empty() {
            terminal.ctrl('z');
            let before = terminal.screen().lines[0].clone();
            terminal.until("another frame", |screen| {
                (is_title(screen) && screen.lines[0] != before).then_some(())
            });
        }
        terminal.ctrl('c');
        let last = terminal.ends_with(130);
        assert!(last.has_cursor && !last.is_alternate, "{last}");
    }
}

#[test]
fn a_dumb_terminal_gets_lines() {
    let folder = small(CONFIG_MAP);
    let temporary = tempfile::tempdir().unwrap();
    for term in ["dumb", ""] {
        let mut command = demo(&["-f", "set.yaml"], temporary.path());
        command.current_dir(folder.path()).env("TERM", term);
        let terminal = Terminal::start(command, 80, 24);
        terminal.ends_with(0);
        let raw = terminal.raw();
        assert!(!raw.contains('\u{1b}'), "no control sequences: {raw}");
        assert!(raw.contains("step 1  starts: app = first"), "{raw}");
    }
}

#[test]
fn signals_leave_nothing_behind() {
    for (signal, code) in
        [(Signal::QUIT, 131), (Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)]
    {
        let temporary = tempfile::tempdir().unwrap();
        let terminal = Terminal::run(demo(&[], temporary.path()), 80, 24);
        terminal.until_frame("the set", is_title);
        terminal.signal(signal);
        let last = terminal.ends_with(code);
        assert!(last.has_cursor && !last.is_alternate, "{last}");
        let left = std::fs::read_dir(temporary.path()).unwrap().count();
        assert_eq!(left, 0, "nothing is left behind by {signal:?}");
    }
}

#[test]
fn a_reader_that_is_gone_is_no_success() {
    let temporary = tempfile::tempdir().unwrap();
    let shell = Terminal::shell(100, 24, |command| {
        command.env("TMPDIR", temporary.path());
    });
    let output = shell.command("wavegate demo | head -n 2; echo ${PIPESTATUS[0]}");
    let last = output.lines().last().unwrap();
    assert_eq!(last, "141", "{output}");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "nothing is left behind");
}

/// It was silent for as long as an Application took.
#[test]
fn lines_name_what_is_waited_for() {
    let slow = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: NAME, annotations: {DELAY: 20s}}\n\
                spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}\n";
    let folder = small(&slow.replace("DELAY", kube_sim::workloads::DELAY_ANNOTATION));
    let temporary = tempfile::tempdir().unwrap();
    let mut command = demo(&["--plain", "-f", "set.yaml"], temporary.path());
    let output = command.current_dir(folder.path()).env_remove("RUST_LOG").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let waits = "step 1  Waiting for first: Job default/first is Progressing for ";
    assert!(text.lines().filter(|line| line.contains(waits)).count() >= 2, "{text}");
    let times: Vec<f64> =
        text.lines().filter_map(|line| line.get(1..6)?.trim().parse().ok()).collect();
    assert!(times.len() > 2, "{text}");
    let longest = times.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
    assert!(longest < 20.0, "silent for as long as an Application takes, {longest} s:\n{text}");
}
