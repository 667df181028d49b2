//! Tests of this crate, with the real `git` program and real directories.

mod credentials;
mod directory;
mod fetching;
mod fuzz;
pub(crate) mod growth;
mod jsonnet;
mod links;
mod names;
mod overrides;
mod pointers;
mod render;
mod repositories;
mod revisions;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::*;

/// A git repository that a test makes commits in.
struct Upstream {
    directory: tempfile::TempDir,
}

impl Upstream {
    fn new() -> Self {
        Self::with_format("sha1")
    }

    fn with_format(format: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let upstream = Self { directory };
        upstream.git(&["init", "-q", "-b", "main", &format!("--object-format={format}")]);
        upstream
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn url(&self) -> String {
        format!("file://{}", self.path().display())
    }

    fn git(&self, args: &[&str]) -> String {
        let output = std::process::Command::new("git")
            .args([
                "-c",
                "user.name=t",
                "-c",
                "user.email=t@example.com",
                "-c",
                "tag.gpgsign=false",
            ])
            .args(args)
            .current_dir(self.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn write(&self, file: &str, content: &str) {
        write(self.path(), file, content);
    }

    /// Commits everything and gives the hash.
    fn commit(&self) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "change"]);
        self.git(&["rev-parse", "HEAD"])
    }
}

fn write(root: &Path, file: &str, content: &str) {
    let path = root.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// A program for a test: a shell script.
fn script(directory: &Path, name: &str, content: &str) -> PathBuf {
    let path = directory.join(name);
    // Written by another process: a file that this one writes when another thread forks would be
    // busy, also under another name.
    let [draft, written] = ["draft", "new"].map(|end| directory.join(format!("{name}.{end}")));
    std::fs::write(&draft, format!("#!/bin/sh\n{content}\n")).unwrap();
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut copy = std::process::Command::new("cp");
    assert!(copy.arg("-p").args([&draft, &written]).status().unwrap().success(), "{name}");
    std::fs::remove_file(draft).unwrap();
    std::fs::rename(written, &path).unwrap();
    path
}

fn settings() -> SourceSettings {
    SourceSettings { allow: Allow { local: true, http: false }, ..SourceSettings::default() }
}

/// Repositories with a separate cache.
fn repositories(settings: SourceSettings) -> (tempfile::TempDir, Repositories) {
    let cache = tempfile::tempdir().unwrap();
    let repositories = Repositories::open(cache.path(), settings).unwrap();
    (cache, repositories)
}

fn config_map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n")
}

/// A `git` that logs each subcommand to a file before it runs.
struct Counted {
    directory: tempfile::TempDir,
}

impl Counted {
    /// `extra` runs before the real program, with `$step` as the subcommand.
    fn new(extra: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let content = format!(
            "step=\nskip=\nfor a in \"$@\"; do\n\
             if [ -n \"$skip\" ]; then skip=; continue; fi\n\
             case \"$a\" in -c|--git-dir) skip=1 ;; *) step=$a; break ;; esac\ndone\n\
             echo \"$step\" >> '{}'\n{extra}\nexec git \"$@\"",
            log.display()
        );
        script(directory.path(), "git", &content);
        Self { directory }
    }

    fn settings(&self) -> SourceSettings {
        SourceSettings { program: self.directory.path().join("git"), ..settings() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn count(&self, step: &str) -> usize {
        let log = std::fs::read_to_string(self.file("log")).unwrap_or_default();
        log.lines().filter(|line| *line == step).count()
    }
}

fn walk(root: &Path) -> impl Iterator<Item = String> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            found.push(entry.path().display().to_string());
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
        }
    }
    found.into_iter()
}

/// Not a test: the worker of all tests of this crate, which have no other program.
#[test]
#[ignore = "only for processes that a pool starts"]
fn serve_as_a_worker() {
    wavegate_sandbox::serve_in_test();
}
