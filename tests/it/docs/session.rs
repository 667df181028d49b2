//! A shell in a fresh copy of the repository.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::markdown::{is_skipped, root};

/// How long the commands of a block may take, on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(50);

/// A command that runs on.
struct Job {
    pid: i32,
    output: PathBuf,
    /// Of the heading of its section.
    level: usize,
}

/// A shell; all of its processes end with it.
pub struct Session {
    shell: Child,
    input: ChildStdin,
    /// Lines of the shell itself: exit codes.
    answers: Receiver<String>,
    files: TempDir,
    commands: usize,
    jobs: Vec<Job>,
}

impl Session {
    /// Starts a shell with a copy of the repository, a home, and the kubeconfig of a cluster.
    pub fn start(kubeconfig: &Path) -> Self {
        let files = tempfile::tempdir().unwrap();
        let place = |name: &str| {
            let path = files.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        };
        let (home, bin, clone) = (place("home"), place("bin"), place("wavegate"));
        place("output");
        // The temporary files of the commands, which are gone with the session.
        let temporary = place("tmp");
        copy(&root(), &clone);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_wavegate"), bin.join("wavegate")).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        // A session of the operating system, so that all processes are found at the end.
        let mut shell = Command::new("setsid")
            .args(["bash", "--noprofile", "--norc"])
            .env_clear()
            .envs([("LC_ALL", "C.UTF-8"), ("TERM", "dumb"), ("PATH", &path)])
            .env("HOME", &home)
            .env("TMPDIR", &temporary)
            .env("KUBECONFIG", kubeconfig)
            .current_dir(&clone)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (lines, answers) = channel();
        let from_shell = BufReader::new(shell.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in from_shell.lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        let input = shell.stdin.take().unwrap();
        let mut session = Self { shell, input, answers, files, commands: 0, jobs: Vec::new() };
        // Job control, so that an interrupt reaches what a job has started.
        session.send("set -m; set -o pipefail\n");
        session
    }

    fn send(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).unwrap();
    }

    /// Waits for a line of the shell.
    fn answer(&mut self, what: &str, output: &Path) -> String {
        match self.answers.recv_timeout(LIMIT) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                panic!("not within {LIMIT:?}: {what}\n{}", read(output))
            }
            Err(RecvTimeoutError::Disconnected) => {
                panic!("the shell ended: {what}\n{}", read(output))
            }
        }
    }

    /// Writes a command to a file; returns it and the file for its output.
    fn command(&mut self, text: &str) -> (PathBuf, PathBuf) {
        self.commands += 1;
        let of = |extension: &str| {
            self.files.path().join("output").join(format!("{}.{extension}", self.commands))
        };
        std::fs::write(of("sh"), text).unwrap();
        (of("sh"), of("out"))
    }

    /// Runs commands; returns the exit code of the last one that failed, else 0, and all
    /// that was printed.
    pub fn run(&mut self, text: &str) -> (i32, String) {
        let (file, output) = self.command(text);
        let (file, shown) = (file.display(), output.display());
        self.send(&format!(
            "__code=0; trap '__code=$?' ERR; {{ eval \"$(cat {file})\"; }} >{shown} 2>&1 </dev/null; trap - ERR; echo $__code\n"
        ));
        let code = self.answer(text, &output).parse().unwrap();
        (code, read(&output))
    }

    /// Starts a command that runs on, and returns its output as soon as it contains a text.
    pub fn start_job(&mut self, text: &str, until: &str, level: usize) -> String {
        let (file, output) = self.command(text);
        let (file, shown) = (file.display(), output.display());
        self.send(&format!("{{ eval \"$(cat {file})\"; }} >{shown} 2>&1 </dev/null & echo $!\n"));
        let pid = self.answer(text, &output).parse().unwrap();
        self.jobs.push(Job { pid, output: output.clone(), level });
        let begun = Instant::now();
        loop {
            let printed = read(&output);
            if printed.contains(until) {
                return printed;
            }
            assert!(begun.elapsed() < LIMIT, "{text}: no {until:?} in:\n{printed}");
            assert!(is_alive(pid), "{text}: it ended before {until:?}:\n{printed}");
            std::thread::sleep(POLL);
        }
    }

    /// Interrupts the jobs of sections that end with a heading of this level.
    pub fn end_section(&mut self, level: usize) {
        let (ending, staying) = self.jobs.drain(..).partition(|job| job.level >= level);
        self.jobs = staying;
        let ending: Vec<Job> = ending;
        for job in ending {
            // All that belongs to it; the shell itself ignores the signal while it waits.
            self.send(&format!("kill -INT -- -{0}; wait {0}; echo done\n", job.pid));
            self.answer("an interrupted command ends", &job.output);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
            if session_of(pid) == Some(self.shell.id()) {
                let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).output();
            }
        }
        let _ = self.shell.wait();
    }
}

/// The session that a process belongs to.
fn session_of(pid: i32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain blanks.
    stat.rsplit_once(')')?.1.split_whitespace().nth(3)?.parse().ok()
}

fn is_alive(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}/stat")).exists()
}

fn read(path: &Path) -> String {
    std::fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// Copies what a clone has.
pub fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            if !is_skipped(&path) {
                std::fs::create_dir(&target).unwrap();
                copy(&path, &target);
            }
        } else if path.is_file() {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}
