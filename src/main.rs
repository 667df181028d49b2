//! The `wavegate` program; the implementation is in the library.

use std::process::ExitCode;

use wavegate::cli;
use wavegate_sandbox as confined;

/// Returns unused memory to the operating system; the delay is set in `.cargo/config.toml`.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    if let Some(code) = confined::answer_requests() {
        return code;
    }
    confined::enable_worker();
    confined::set_umask();
    cli::run(cli::parse()).unwrap_or_else(|error| cli::report(&error))
}
