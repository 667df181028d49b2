//! What a process gives up: resource limits, files (Landlock), and system calls (seccomp).
//!
//! All of it works without privileges, in containers too, and is inherited by every process
//! that is started afterwards. Functions return what the kernel does not have.

use std::collections::BTreeMap;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// The newest Landlock that is asked for; older kernels have less of it.
const LANDLOCK: ABI = ABI::V6;

/// Sets a limit on a resource of this process; never raises the hard limit, which an
/// unprivileged process cannot.
pub(super) fn limit(resource: Resource, soft: u64, hard: u64) -> std::io::Result<()> {
    let allowed = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let hard = hard.min(allowed);
    let limit = Rlimit { current: Some(soft.min(hard)), maximum: Some(hard) };
    Ok(rustix::process::setrlimit(resource, limit)?)
}

/// Leaves the processor to the controller, and what it starts, while these want it: what one tenant
/// evaluates for seconds does not slow down the others' reads, decisions and writes.
pub(super) fn give_way(how_much: i32) -> std::io::Result<()> {
    rustix::process::nice(how_much)?;
    Ok(())
}

/// Restricts this thread, and what it starts, to some files; without `network` also TCP, and
/// signals and abstract sockets to other processes.
pub(super) fn files(read: &[PathBuf], write: &[PathBuf], network: bool) -> Result<(), String> {
    let status = landlock(read, write, network);
    match status {
        Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced) => Ok(()),
        Ok(RulesetStatus::NotEnforced) => {
            Err("the files that a program reads (Landlock, Linux 5.13)".to_owned())
        }
        Err(error) => Err(format!("the files that a program reads (Landlock: {error})")),
    }
}

fn landlock(
    read: &[PathBuf],
    write: &[PathBuf],
    network: bool,
) -> Result<RulesetStatus, landlock::RulesetError> {
    let reading: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute;
    let mut rules = Ruleset::default().handle_access(AccessFs::from_all(LANDLOCK))?;
    if !network {
        rules = rules.handle_access(AccessNet::from_all(LANDLOCK))?;
        rules = rules.scope(Scope::from_all(LANDLOCK))?;
    }
    let rules = rules
        .create()?
        // A path that does not exist is no rule.
        .add_rules(path_beneath_rules(read, reading))?
        .add_rules(path_beneath_rules(write, AccessFs::from_all(LANDLOCK)))?;
    Ok(rules.restrict_self()?.ruleset)
}

/// Lets this thread, and what it starts, open no socket of any family: names are resolved,
/// and services of the machine are reached, by local sockets too. `io_uring` could open them
/// without this filter.
pub(super) fn forbid_sockets() -> Result<(), String> {
    let denied = [libc::SYS_socket, libc::SYS_io_uring_setup];
    let rules: BTreeMap<i64, _> = denied.map(|call| (call, Vec::new())).into();
    let errno = rustix::io::Errno::ACCESS.raw_os_error().unsigned_abs();
    filter(rules, SeccompAction::Allow, SeccompAction::Errno(errno))
        .and_then(|filter| seccompiler::apply_filter(&filter))
        .map_err(|error| format!("its network (seccomp: {error})"))
}

/// What a worker needs after it has started: memory, the open socket, its own threads, time
/// and random numbers.
const WORKER_CALLS: [i64; 33] = [
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_write,
];

/// Leaves all threads of this process the system calls of [`WORKER_CALLS`]. No memory becomes
/// executable, and signals and limits are for this process only.
pub(super) fn only_compute() -> Result<(), String> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        WORKER_CALLS.map(|call| (call, Vec::new())).into();
    let own = u64::from(std::process::id());
    let executable = libc::PROT_EXEC.unsigned_abs().into();
    let conditions = [
        (libc::SYS_mmap, 2, SeccompCmpOp::MaskedEq(executable), 0),
        (libc::SYS_mprotect, 2, SeccompCmpOp::MaskedEq(executable), 0),
        // To end by a signal, as an abort does.
        (libc::SYS_tgkill, 0, SeccompCmpOp::Eq, own),
        (libc::SYS_prlimit64, 0, SeccompCmpOp::Eq, 0),
    ];
    let worded =
        |error: seccompiler::Error| format!("the system calls of a worker (seccomp: {error})");
    for (call, argument, operator, value) in conditions {
        let rule = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
            .and_then(|condition| SeccompRule::new(vec![condition]))
            .map_err(|error| worded(seccompiler::Error::Backend(error)))?;
        rules.insert(call, vec![rule]);
    }
    let errno = rustix::io::Errno::PERM.raw_os_error().unsigned_abs();
    filter(rules, SeccompAction::Errno(errno), SeccompAction::Allow)
        .and_then(|filter| seccompiler::apply_filter_all_threads(&filter))
        .map_err(worded)
}

fn filter(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    on_match: SeccompAction,
) -> Result<BpfProgram, seccompiler::Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(seccompiler::Error::Backend)?;
    let filter = SeccompFilter::new(rules, otherwise, on_match, arch);
    filter.and_then(BpfProgram::try_from).map_err(seccompiler::Error::Backend)
}
