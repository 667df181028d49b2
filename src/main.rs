//! The `wavegate` program: everything is in the library.

use std::process::ExitCode;

use wavegate::cli;

fn main() -> ExitCode {
    cli::run(cli::parse()).unwrap_or_else(|error| cli::report(&error))
}
