//! The repositories of the demo, by `git`.

use std::path::Path;
use std::process::Command;

use crate::cli::console::error::Error;

/// Makes a directory a repository, unless it is one.
///
/// # Errors
///
/// A missing `git`, and what it says.
pub(super) fn init(folder: &Path) -> anyhow::Result<()> {
    if folder.join(".git").exists() {
        return Ok(());
    }
    run(folder, &["-c", "init.defaultBranch=main", "init", "--quiet"])
}

/// Commits all files, also when none has changed.
///
/// # Errors
///
/// As [`init`].
pub(super) fn commit(folder: &Path, message: &str) -> anyhow::Result<()> {
    run(folder, &["add", "--all"])?;
    run(folder, &["commit", "--quiet", "--allow-empty", "--message", message])
}

/// Runs `git` without the user's configuration.
fn run(folder: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let run = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=Wavegate", "-c", "user.email=demo@wavegate.invalid"])
        .args(["-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null"])
        .args(arguments)
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(std::process::Stdio::null())
        .output();
    let output = match run {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let why = "not found on PATH; install git, which the demo needs for its repository of manifests";
            return Err(Error::input("cannot run", "git", why).into());
        }
        Err(error) => return Err(Error::input("cannot run", "git", error).into()),
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let what = format!("git {}", arguments.join(" "));
        return Err(Error::input("cannot create the repository", what, said.trim()).into());
    }
    Ok(())
}
