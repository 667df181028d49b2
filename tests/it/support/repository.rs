//! A Git repository in a directory, written by the `git` program.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A repository with one branch. Removed with its directory.
#[derive(Debug)]
pub struct Repository {
    dir: PathBuf,
}

impl Repository {
    /// An empty repository in a new directory.
    pub fn new(dir: PathBuf) -> Self {
        std::fs::create_dir_all(&dir).unwrap();
        let repository = Self { dir };
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository
    }

    /// The value of `spec.source.repoURL`.
    pub fn url(&self) -> String {
        self.dir.display().to_string()
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

    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
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
