//! The command line: one file per command. Each parses, calls the library and
//! prints; rules about rollouts, syncs and health are not in here.
//!
//! The promise to users: data goes to standard output, everything else to
//! standard error; the exit code is 0, or 1 when what was checked does not
//! hold, or 2 on wrong use and unreadable input; the same input gives the same
//! output.

mod cluster;
mod completions;
mod controller;
mod crds;
pub mod demo;
mod diff;
mod error;
mod explain;
mod generate;
mod health;
mod input;
mod live_diff;
mod order;
mod output;
mod plan;
mod render;
mod rollout_summary;
pub mod run;
mod status;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use self::error::report;
use crate::{telemetry, terminal};

/// Rolls a change out over a fleet of Argo CD Applications, step by step
#[derive(Clone, Debug, Parser)]
#[command(name = "wavegate", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 success; 1 what was checked does not hold; 2 wrong use or unreadable input."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    // Boxed, since it has many more options than all others.
    Run(Box<run::Args>),
    Render(render::Args),
    Plan(plan::Args),
    Order(order::Args),
    Health(health::Args),
    Diff(diff::Args),
    Status(status::Args),
    Explain(explain::Args),
    Crds(crds::Args),
    Completions(completions::Args),
}

/// Reads the arguments. Ends the process when they are wrong or ask for help;
/// an argument that is told is escaped like all that is printed.
pub fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        let text = error.render().to_string();
        let safe = terminal::printable_lines(&text, false);
        if text == safe {
            error.exit();
        }
        // A closed standard error leaves nobody to tell.
        let _ = std::io::stderr().write_all(safe.as_bytes());
        std::process::exit(error.exit_code())
    })
}

/// Runs the command.
///
/// # Errors
///
/// Whatever keeps it from doing what was asked; [`report`] prints it and knows
/// the exit code.
pub fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match &cli.command {
        // It reads format and level from its own configuration.
        Command::Run(_) => {}
        // Its screen is the log, unless somebody asks for more by RUST_LOG.
        Command::Demo(_) => telemetry::init(telemetry::Format::Text, "off")?,
        _ => telemetry::init(telemetry::Format::Text, "warn")?,
    }
    match cli.command {
        Command::Demo(args) => demo::run(args),
        Command::Run(args) => run::run(*args),
        Command::Render(args) => render::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Order(args) => order::run(args),
        Command::Health(args) => health::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Status(args) => status::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Crds(args) => crds::run(args),
        Command::Completions(args) => completions::run(args),
    }
}
