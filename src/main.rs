//! The `wavegate` program: everything is in the library.

use std::process::ExitCode;

use clap::Parser;
use wavegate::cli::{self, Cli};

fn main() -> ExitCode {
    cli::run(Cli::parse()).unwrap_or_else(|error| cli::report(&error))
}
