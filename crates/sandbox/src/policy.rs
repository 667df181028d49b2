//! Confines the programs that read repositories (`helm`, `kustomize`, `git` with `ssh`, `gpg`).
//!
//! This program runs itself as a helper, which limits itself and then becomes the program:
//!
//! - files: only the given paths are readable or writable (Landlock);
//! - network: without permission, no socket can be opened (seccomp, and TCP by Landlock);
//! - memory, CPU time, open files, size of a file, core dumps (resource limits), and a priority below
//!   the controller's;
//! - new files are readable by this user only (umask).
//!
//! What the kernel does not have is left out, or refused with [`Confinement::Required`].
//! Checks of what a repository names come first; this is what holds when they fail.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::process::Resource;
use serde::{Deserialize, Serialize};

use super::confinement::Confinement;
use super::helper::{helper_path, set_umask};
use super::restrict;

/// First argument of the helper.
pub(super) const HELPER: &str = "__confine";

/// Exit code of the helper when a required restriction is not available.
const REFUSED: u8 = 125;

/// Exit code of the helper when the program cannot be started.
const NOT_STARTED: u8 = 127;

/// By how much the priority of a program is below the controller's.
const NICENESS: i32 = 5;

/// Most open files of a program.
const OPEN_FILES: u64 = 1024;

/// Programs and libraries, and what libraries read at their start. No configuration of the
/// machine, and nothing of a user.
const SYSTEM: [&str; 19] = [
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local/bin",
    "/usr/local/lib",
    "/usr/share",
    "/nix/store",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/dev/random",
    "/dev/urandom",
];

/// What a program reads in addition to use the network.
const NETWORK: [&str; 18] = [
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssh",
    "/etc/ssl",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/usr/local/share/ca-certificates",
    "/var/lib/ca-certificates",
];

/// Devices that are written to.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

/// What a program may do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SandboxPolicy {
    /// Files and directories that it may read.
    pub read: Vec<PathBuf>,
    /// Files and directories that it may write to.
    pub write: Vec<PathBuf>,
    /// Whether it may use the network.
    pub network: bool,
    /// Whether it is started without these restrictions.
    pub confinement: Confinement,
    /// Limit on the memory of each process, in bytes, without files that are mapped.
    pub memory: u64,
    /// Limit on the CPU time of each process, in seconds.
    pub cpu_seconds: u64,
    /// Limit on the size of each written file, in bytes.
    pub file_bytes: u64,
}

impl SandboxPolicy {
    /// Adds what every program reads: libraries, and the folders of the programs.
    pub fn with_system(mut self, path: Option<&OsString>) -> Self {
        self.read.extend(SYSTEM.map(PathBuf::from));
        if self.network {
            self.read.extend(NETWORK.map(PathBuf::from));
        }
        self.write.extend(DEVICES.map(PathBuf::from));
        let folders = path.into_iter().flat_map(std::env::split_paths);
        self.read.extend(folders.filter(|folder| folder.is_absolute()));
        self
    }

    /// The arguments of the helper for a program, which ends with the thread that starts it.
    ///
    /// # Errors
    ///
    /// When a path is not UTF-8.
    pub fn arguments(&self, program: &Path) -> std::io::Result<Vec<OsString>> {
        let text = serde_json::to_string(self)?;
        let parent = std::process::id().to_string();
        Ok(vec![HELPER.into(), text.into(), parent.into(), program.into()])
    }
}

/// Everything on this machine but what is known to hold credentials of the controller: its
/// environment and memory (`/proc`), and the tokens that a cluster mounts into a Pod. For a
/// program whose files may be anywhere, such as the certificates and host keys of `git`.
pub fn readable_machine() -> Vec<PathBuf> {
    let mut all = entries("/", &["proc", "run", "sys", "var"]);
    all.extend(entries("/run", &["secrets"]));
    all.extend(entries("/var", &["run"]));
    // Elsewhere, it is a link to /run.
    if std::fs::symlink_metadata("/var/run").is_ok_and(|found| found.is_dir()) {
        all.extend(entries("/var/run", &["secrets"]));
    }
    all
}

/// The entries of a directory except for some.
fn entries(directory: &str, but: &[&str]) -> Vec<PathBuf> {
    let Ok(all) = std::fs::read_dir(directory) else { return Vec::new() };
    let kept = all.flatten().filter(|entry| !but.iter().any(|name| entry.file_name() == *name));
    // The policy is text.
    kept.map(|entry| entry.path()).filter(|path| path.to_str().is_some()).collect()
}

/// What the kernel does not have of the restrictions; empty when nothing is missing.
///
/// # Errors
///
/// When the helper cannot be run.
pub fn missing_restrictions() -> std::io::Result<Vec<String>> {
    let Some(helper) = helper_path() else {
        return Err(std::io::Error::other("this process has no helper"));
    };
    let output = std::process::Command::new(helper).args([HELPER, "probe"]).output()?;
    if !output.status.success() {
        return Err(std::io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Acts as the helper; returns only if the program was not started.
pub(super) fn answer(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let policy = args.next().unwrap_or_default();
    if policy == "probe" {
        let policy = SandboxPolicy {
            read: vec!["/".into()],
            write: Vec::new(),
            network: false,
            confinement: Confinement::Auto,
            memory: u64::MAX,
            cpu_seconds: u64::MAX,
            file_bytes: u64::MAX,
        };
        for line in confine(&policy) {
            println!("{line}");
        }
        return ExitCode::SUCCESS;
    }
    let policy = policy.to_str().and_then(|text| serde_json::from_str::<SandboxPolicy>(text).ok());
    let parent = args.next().and_then(|parent| parent.to_str()?.parse::<i32>().ok());
    let (Some(policy), Some(parent), Some(program)) = (policy, parent, args.next()) else {
        eprintln!("{HELPER} is not a command for users");
        return ExitCode::from(2);
    };
    set_umask();
    if let Err(error) = end_with(parent) {
        eprintln!("cannot let the program end with the process that starts it: {error}");
        return ExitCode::from(REFUSED);
    }
    if let Err(error) = limit(&policy) {
        eprintln!("cannot limit the resources of the program: {error}");
        return ExitCode::from(REFUSED);
    }
    if policy.confinement != Confinement::Off {
        let missing = confine(&policy);
        if policy.confinement == Confinement::Required && !missing.is_empty() {
            eprintln!(
                "confinement is required, and not available here: {}; use a newer kernel, allow \
                 it in the seccomp profile, or set confinement to auto",
                missing.join("; ")
            );
            return ExitCode::from(REFUSED);
        }
    }
    let error = std::process::Command::new(&program).args(args).exec();
    eprintln!("cannot start {}: {error}", program.display());
    ExitCode::from(NOT_STARTED)
}

/// Has this process killed when the one that started it ends, however that happens.
fn end_with(parent: i32) -> std::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let now = rustix::process::getppid().map(|found| found.as_raw_nonzero().get());
    match now == Some(parent) {
        true => Ok(()),
        // It ended before there was a signal.
        false => Err(std::io::Error::other("it has ended")),
    }
}

fn limit(policy: &SandboxPolicy) -> std::io::Result<()> {
    let seconds = policy.cpu_seconds;
    restrict::give_way(NICENESS)?;
    restrict::limit(Resource::Core, 0, 0)?;
    restrict::limit(Resource::Nofile, OPEN_FILES, OPEN_FILES)?;
    restrict::limit(Resource::Fsize, policy.file_bytes, policy.file_bytes)?;
    // Address space that is only reserved does not count: programs in Go reserve much.
    restrict::limit(Resource::Data, policy.memory, policy.memory)?;
    restrict::limit(Resource::Cpu, seconds, seconds.saturating_add(5))?;
    Ok(())
}

/// Applies the restrictions to this thread, and returns those that the kernel does not have.
fn confine(policy: &SandboxPolicy) -> Vec<String> {
    let files = restrict::files(&policy.read, &policy.write, policy.network);
    let network = if policy.network { Ok(()) } else { restrict::forbid_sockets() };
    [files, network].into_iter().filter_map(Result::err).collect()
}
