//! The `wavegate` program: everything is in the library.

use std::process::ExitCode;

use wavegate::cli;

/// Gives memory back that is not used any more; how soon is set in
/// `.cargo/config.toml`.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    cli::run(cli::parse()).unwrap_or_else(|error| cli::report(&error))
}
