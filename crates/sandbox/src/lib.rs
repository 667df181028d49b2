//! Confined processes, for everything that runs what users write.
//!
//! Two kinds, with one mechanism (`restrict`): this program starts itself again, and the
//! new process limits itself before it touches anything of a user.
//!
//! - **Programs** that read repositories (`helm`, `kustomize`, `git` with `ssh` and `gpg`):
//!   the new process becomes the program, with exactly the files that it needs
//!   (`SandboxPolicy`).
//! - **Workers** that evaluate expressions and scripts (jq and others, [`Program`]): the new
//!   process has no files, no network, no environment and no credentials, and answers
//!   requests over a socket until it is replaced ([`WorkerPool`]).
//!
//! docs/confinement.md has the threat model. This crate knows nothing of Applications.

mod confinement;
mod helper;
mod policy;
mod pool;
mod process;
mod programs;
mod protocol;
mod request;
mod restrict;
#[cfg(test)]
mod tests;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

use process::WorkerProgram;

pub use confinement::Confinement;
pub use helper::{helper_path, set_umask};
pub use policy::missing_restrictions;
pub use policy::{SandboxPolicy, readable_machine};
pub use pool::{PoolSettings, WorkerPool};
pub use programs::Program;
pub use request::{EvalError, EvalLimits};
static WORKER_PROGRAM: OnceLock<WorkerProgram> = OnceLock::new();

/// Makes this program its own helper. Only for a program that calls [`answer_requests`] first.
pub fn enable_worker() {
    // Also right after the file was replaced by a newer one.
    helper::PROGRAM.get_or_init(|| "/proc/self/exe".into());
    start_workers_by("/proc/self/exe".into());
}

/// Starts workers by another program, which calls [`answer_requests`] first: for processes that are
/// not this program, such as its tests. The first call counts.
pub fn start_workers_by(program: PathBuf) {
    WORKER_PROGRAM.get_or_init(|| WorkerProgram { program, test: None });
}

/// Starts workers by the unit test of this name of this process, which has no such program: it
/// calls [`serve_in_test`]. The first call counts.
pub fn start_workers_by_test(name: &'static str) {
    WORKER_PROGRAM
        .get_or_init(|| WorkerProgram { program: "/proc/self/exe".into(), test: Some(name) });
}

/// Serves as a worker in a process that was started by [`start_workers_by_test`], and ends it;
/// returns in any other process.
pub fn serve_in_test() {
    if let Ok(memory) = std::env::var(process::MEMORY_OF_TEST) {
        let _ = worker::serve(&memory);
        std::process::exit(0);
    }
}

/// Acts as the helper or as a worker if this process was started as one; a helper returns
/// only if the program was not started.
pub fn answer_requests() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let first = args.next()?;
    if first == policy::HELPER {
        return Some(policy::answer(args));
    }
    if first == worker::WORKER {
        let options = args.next().unwrap_or_default();
        return Some(worker::serve(&options.to_string_lossy()));
    }
    None
}
