//! A Git repository in a directory, written by the `git` program.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A repository with one branch. Removed with its directory.
#[derive(Debug)]
pub struct Repository {
    dir: PathBuf,
    /// Where it is served; otherwise its directory is its URL.
    served_at: Option<String>,
}

/// The time of all commits of a repository that can be made again.
const DATE: &str = "2026-01-01T00:00:00Z";

impl Repository {
    /// An empty repository in a new directory.
    pub fn new(dir: PathBuf) -> Self {
        Self::init(dir, None)
    }

    /// One that is served at a URL, and whose revisions follow from the messages and files of
    /// its commits.
    pub fn reproducible(dir: PathBuf, url: &str) -> Self {
        Self::init(dir, Some(url.to_owned()))
    }

    fn init(dir: PathBuf, served_at: Option<String>) -> Self {
        std::fs::create_dir_all(&dir).unwrap();
        let repository = Self { dir, served_at };
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository
    }

    /// The value of `spec.source.repoURL`.
    pub fn url(&self) -> String {
        self.served_at.clone().unwrap_or_else(|| self.dir.display().to_string())
    }

    /// Replaces all content by these files, and returns the new revision.
    pub fn commit(&self, message: &str, files: &[(String, String)]) -> String {
        for entry in std::fs::read_dir(&self.dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() != ".git" && entry.file_type().unwrap().is_dir() {
                std::fs::remove_dir_all(entry.path()).unwrap();
            }
        }
        for (path, content) in files {
            let path = self.dir.join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).unwrap();
            std::fs::write(path, content).unwrap();
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", message]);
        self.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// The same on a new branch; the work tree returns to the one before.
    pub fn commit_on(&self, branch: &str, message: &str, files: &[(String, String)]) -> String {
        self.git(&["checkout", "--quiet", "-b", branch]);
        let revision = self.commit(message, files);
        self.git(&["checkout", "--quiet", "-"]);
        revision
    }

    /// Sets the branch to a commit, as a push with force does.
    pub fn reset(&self, revision: &str) {
        self.git(&["reset", "--quiet", "--hard", revision]);
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        if self.served_at.is_some() {
            command.envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_DATE"), DATE)));
        }
        let output = command
            .current_dir(&self.dir)
            .args(arguments)
            // The user's configuration must have no effect.
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "Test")))
            .envs(
                ["AUTHOR", "COMMITTER"]
                    .map(|who| (format!("GIT_{who}_EMAIL"), "test@example.invalid")),
            )
            .output()
            .expect("the git program runs");
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }
}
