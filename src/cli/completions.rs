//! `wavegate completions`: completion scripts for shells.

use std::process::ExitCode;

use clap::CommandFactory;

use super::output;

/// Prints a completion script for a shell
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Cli::command(), "wavegate", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
