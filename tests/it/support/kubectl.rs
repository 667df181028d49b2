//! The commands that a newcomer types, and what they print, on the embedded server as on
//! a real one.
//!
//! The table is the one place for them: whoever wants to run the same commands
//! elsewhere takes [`commands`].

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// One command.
pub struct Line {
    /// As typed into a shell, in a namespace of its own.
    pub command: &'static str,
    /// What it prints, both streams together. Spaces count as one; `*` is any text within
    /// a line, `...` any lines. One of several, where versions of Kubernetes differ.
    pub prints: Vec<&'static str>,
    /// Why a real server of Kubernetes 1.20 without nodes cannot do it.
    pub lacking: Option<&'static str>,
}

/// All of them, in their order: later ones need what earlier ones created.
pub fn commands() -> Vec<Line> {
    session(include_str!("../../data/kubectl.txt"))
}

/// Commands after `$`, each with what it prints, or may print, and before it why it may be left
/// out.
pub fn session(text: &'static str) -> Vec<Line> {
    let mut lacking = text.strip_prefix("# ").and_then(|text| text.lines().next());
    let mut lines = Vec::new();
    for entry in text.split("$ ").skip(1) {
        let (entry, next) = match entry.trim_end().rsplit_once("\n# ") {
            Some((entry, why)) => (entry, Some(why)),
            None => (entry.trim_end(), None),
        };
        let (command, prints) = entry.split_once('\n').unwrap();
        lines.push(Line { command, prints: prints.split("\n| or\n").collect(), lacking });
        lacking = next;
    }
    lines
}

/// The first minor version of kubectl whose output the table has, and which knows
/// all of its commands.
const OLDEST: u64 = 31;

/// For how long a command that reads is repeated, on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Whether a command only reads: what others have created follows in steps, and a command that
/// is too early is repeated.
pub fn is_read(command: &str) -> bool {
    let reads = ["get ", "describe ", "logs ", "wait ", "rollout status ", "rollout history "];
    let arguments = command.strip_prefix("kubectl ").unwrap_or_default();
    reads.iter().any(|verb| arguments.starts_with(verb))
}

/// Whether there is a kubectl of a known version; says so when there is none.
pub fn is_installed() -> bool {
    let found = Command::new("kubectl").args(["version", "--client", "-o", "json"]).output();
    let minor = found.ok().and_then(|output| {
        let version: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        version["clientVersion"]["minor"].as_str()?.trim_end_matches('+').parse::<u64>().ok()
    });
    match minor {
        Some(minor) if minor >= OLDEST => return true,
        Some(minor) => eprintln!("skipped: kubectl is version 1.{minor}, not 1.{OLDEST} or newer"),
        None => eprintln!("skipped: there is no kubectl on PATH"),
    }
    false
}

/// A shell whose kubectl uses a kubeconfig and a namespace.
pub struct Shell {
    home: tempfile::TempDir,
}

impl Shell {
    /// Copies the kubeconfig, with the namespace as that of its context.
    pub fn new(kubeconfig: &Path, namespace: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let shell = Self { home };
        std::fs::copy(kubeconfig, shell.kubeconfig()).unwrap();
        let set = format!("kubectl config set-context --current --namespace={namespace}");
        let (printed, success) = shell.run(&set);
        assert!(success, "{printed}");
        shell
    }

    fn kubeconfig(&self) -> PathBuf {
        self.home.path().join("kubeconfig")
    }

    /// What a command prints on both streams, and whether it succeeded.
    pub fn run(&self, command: &str) -> (String, bool) {
        let Output { status, stdout, stderr } = Command::new("sh")
            .args(["-c", command])
            // Discovery is kept there.
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.kubeconfig())
            .env("PATH", path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(stderr) + &text(stdout), status.success())
    }

    /// What a command prints, and whether that is one of these; one that reads is repeated until
    /// it is.
    pub fn prints(&self, command: &str, wanted: &[&str]) -> (String, bool) {
        let begun = Instant::now();
        loop {
            let (printed, _) = self.run(command);
            let is_wanted = wanted.iter().any(|one| matches(one, &printed));
            if is_wanted || !is_read(command) || begun.elapsed() > LIMIT {
                return (printed, is_wanted);
            }
        }
    }
}

/// `PATH` with the program under test.
fn path() -> std::ffi::OsString {
    let program = Path::new(env!("CARGO_BIN_EXE_wavegate"));
    let mut path = program.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    path
}

/// Whether an output is as wanted: see [`Line::prints`].
fn matches(wanted: &str, printed: &str) -> bool {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted: Vec<String> = wanted.lines().map(words).collect();
    let printed: Vec<String> = printed.trim().lines().map(words).collect();
    lines_match(&wanted, &printed)
}

fn lines_match(wanted: &[String], printed: &[String]) -> bool {
    match wanted.split_first() {
        None => printed.iter().all(String::is_empty),
        Some((any, rest)) if any == "..." => {
            (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..]))
        }
        Some((first, rest)) => printed
            .split_first()
            .is_some_and(|(line, lines)| text_matches(first, line) && lines_match(rest, lines)),
    }
}

fn text_matches(wanted: &str, text: &str) -> bool {
    match wanted.split_once('*') {
        None => wanted == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.into_iter().any(|end| text_matches(rest, &text[end..]))
        }),
    }
}
