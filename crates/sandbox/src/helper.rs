//! The helper: this program, started again.

use std::path::PathBuf;
use std::sync::OnceLock;

pub(super) static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// The helper; `None` in a process that is not this program.
pub fn helper_path() -> Option<PathBuf> {
    PROGRAM.get().cloned()
}

/// Private files from now on, for this process and those that it starts.
pub fn set_umask() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}
