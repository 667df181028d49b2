//! Confines the programs that read repositories (`helm`, `kustomize`, `git` with `ssh`).
//!
//! This program runs itself as a helper, which limits itself and then becomes the program:
//!
//! - files: only the given paths are readable or writable (Landlock);
//! - network: without permission, no socket can be opened (seccomp, and TCP by Landlock);
//! - memory, CPU time, open files, size of a file, core dumps (resource limits);
//! - new files are readable by this user only (umask).
//!
//! All of it works without privileges, in containers too, and is inherited by every process
//! that the program starts. What the kernel does not have is left out, or refused with
//! [`Confinement::Required`]. Checks of what a repository names come first; this is what
//! holds when they fail.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use serde::{Deserialize, Serialize};

/// First argument of the helper.
const HELPER: &str = "__confine";

/// Exit code of the helper when a required restriction is not available.
const REFUSED: u8 = 125;

/// Exit code of the helper when the program cannot be started.
const NOT_STARTED: u8 = 127;

/// The newest Landlock that is asked for; older kernels have less of it.
const LANDLOCK: ABI = ABI::V6;

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

/// Whether programs are confined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Confinement {
    /// Only limits on resources.
    Off,
    /// As far as the kernel can.
    #[default]
    Auto,
    /// A program is not started when the kernel cannot.
    Required,
}

impl Confinement {
    /// The setting of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "off" => Some(Self::Off),
            "auto" => Some(Self::Auto),
            "required" => Some(Self::Required),
            _ => None,
        }
    }
}

/// What a program may do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Policy {
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

impl Policy {
    /// Adds what every program reads: libraries, and the folders of the programs.
    pub(super) fn with_system(mut self, path: Option<&OsString>) -> Self {
        self.read.extend(SYSTEM.map(PathBuf::from));
        if self.network {
            self.read.extend(NETWORK.map(PathBuf::from));
        }
        self.write.extend(DEVICES.map(PathBuf::from));
        let folders = path.into_iter().flat_map(std::env::split_paths);
        self.read.extend(folders.filter(|folder| folder.is_absolute()));
        self
    }

    /// The arguments of the helper for a program.
    ///
    /// # Errors
    ///
    /// When a path is not UTF-8.
    pub(super) fn arguments(&self, program: &Path) -> std::io::Result<Vec<OsString>> {
        let text = serde_json::to_string(self)?;
        Ok(vec![HELPER.into(), text.into(), program.into()])
    }
}

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Makes this program its own helper. Only for a program that calls [`answer`] first.
pub fn enable() {
    // Also right after the file was replaced by a newer one.
    PROGRAM.get_or_init(|| "/proc/self/exe".into());
}

/// The helper; `None` in a process that is not this program.
pub(super) fn helper() -> Option<PathBuf> {
    PROGRAM.get().cloned()
}

/// Private files from now on, for this process and those that it starts.
pub fn set_umask() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}

/// What the kernel does not have of the restrictions; empty when nothing is missing.
///
/// # Errors
///
/// When the helper cannot be run.
pub fn missing() -> std::io::Result<Vec<String>> {
    let Some(helper) = helper() else {
        return Err(std::io::Error::other("this process has no helper"));
    };
    let output = std::process::Command::new(helper).args([HELPER, "probe"]).output()?;
    if !output.status.success() {
        return Err(std::io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Acts as the helper if this process was started as one; returns only if the program was
/// not started.
pub fn answer() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != HELPER {
        return None;
    }
    let policy = args.next().unwrap_or_default();
    if policy == "probe" {
        let policy = Policy {
            read: vec!["/".into()],
            write: Vec::new(),
            network: false,
            confinement: Confinement::Auto,
            memory: u64::MAX,
            cpu_seconds: u64::MAX,
            file_bytes: u64::MAX,
        };
        for line in restrict(&policy) {
            println!("{line}");
        }
        return Some(ExitCode::SUCCESS);
    }
    let policy = policy.to_str().and_then(|text| serde_json::from_str::<Policy>(text).ok());
    let (Some(policy), Some(program)) = (policy, args.next()) else {
        eprintln!("{HELPER} is not a command for users");
        return Some(ExitCode::from(2));
    };
    set_umask();
    if let Err(error) = limit(&policy) {
        eprintln!("cannot limit the resources of the program: {error}");
        return Some(ExitCode::from(REFUSED));
    }
    if policy.confinement != Confinement::Off {
        let missing = restrict(&policy);
        if policy.confinement == Confinement::Required && !missing.is_empty() {
            eprintln!(
                "confinement is required, and not available here: {}; use a newer kernel, allow \
                 it in the seccomp profile, or set confinement to auto",
                missing.join("; ")
            );
            return Some(ExitCode::from(REFUSED));
        }
    }
    let error = std::process::Command::new(&program).args(args).exec();
    eprintln!("cannot start {}: {error}", program.display());
    Some(ExitCode::from(NOT_STARTED))
}

fn limit(policy: &Policy) -> std::io::Result<()> {
    let set = |resource: Resource, soft: u64, hard: u64| {
        // An unprivileged process cannot raise a limit.
        let allowed = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let hard = hard.min(allowed);
        let limit = Rlimit { current: Some(soft.min(hard)), maximum: Some(hard) };
        rustix::process::setrlimit(resource, limit)
    };
    let seconds = policy.cpu_seconds;
    set(Resource::Core, 0, 0)?;
    set(Resource::Nofile, OPEN_FILES, OPEN_FILES)?;
    set(Resource::Fsize, policy.file_bytes, policy.file_bytes)?;
    // Address space that is only reserved does not count: programs in Go reserve much.
    set(Resource::Data, policy.memory, policy.memory)?;
    set(Resource::Cpu, seconds, seconds.saturating_add(5))?;
    Ok(())
}

/// Applies the restrictions to this thread, and returns those that the kernel does not have.
fn restrict(policy: &Policy) -> Vec<String> {
    let mut missing = Vec::new();
    match restrict_files(policy) {
        Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced) => {}
        Ok(RulesetStatus::NotEnforced) => {
            missing.push("the files that a program reads (Landlock, Linux 5.13)".to_owned());
        }
        Err(error) => missing.push(format!("the files that a program reads (Landlock: {error})")),
    }
    if !policy.network
        && let Err(error) = forbid_sockets()
    {
        missing.push(format!("its network (seccomp: {error})"));
    }
    missing
}

fn restrict_files(policy: &Policy) -> Result<RulesetStatus, landlock::RulesetError> {
    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute;
    let mut rules = Ruleset::default().handle_access(AccessFs::from_all(LANDLOCK))?;
    if !policy.network {
        rules = rules.handle_access(AccessNet::from_all(LANDLOCK))?;
        rules = rules.scope(Scope::from_all(LANDLOCK))?;
    }
    let rules = rules
        .create()?
        // A path that does not exist is no rule.
        .add_rules(path_beneath_rules(&policy.read, read))?
        .add_rules(path_beneath_rules(&policy.write, AccessFs::from_all(LANDLOCK)))?;
    Ok(rules.restrict_self()?.ruleset)
}

/// Lets no socket be opened, of any family: names are resolved, and services of the machine
/// are reached, by local sockets too. `io_uring` could open them without this filter.
fn forbid_sockets() -> Result<(), seccompiler::Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(seccompiler::Error::Backend)?;
    let denied = [libc::SYS_socket, libc::SYS_io_uring_setup];
    let rules: BTreeMap<i64, _> = denied.map(|call| (call, Vec::new())).into();
    let errno = rustix::io::Errno::ACCESS.raw_os_error().unsigned_abs();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), arch);
    let filter = filter.and_then(BpfProgram::try_from).map_err(seccompiler::Error::Backend)?;
    seccompiler::apply_filter(&filter)
}
