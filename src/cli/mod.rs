//! The command line: one file per command. Each parses, calls the crates and prints;
//! rules of rollouts, syncs and health are there. `README.md` beside this file is the map.
//!
//! Data goes to standard output, everything else to standard error. Exit code 0 means
//! success, 1 a failed check, 2 a usage error or invalid input. The same input gives the
//! same output.

mod cluster;
mod commands;
mod completions;
mod controller;
mod crds;
pub mod demo;
mod diff;
mod error;
mod explain;
mod facts;
mod follow;
mod generate;
mod health;
mod help;
mod input;
mod kubeconfig;
mod live_app;
mod live_diff;
mod order;
mod other_sets;
mod output;
mod plan;
mod refresh;
mod render;
mod rollout_view;
pub mod run;
mod runs;
mod simulate;
mod status;
mod steer;
mod sync;
mod terminate;
#[cfg(test)]
mod tests;
mod tree;
mod validation;
mod watch_args;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub use self::error::report;
use wavegate_net::telemetry;
use wavegate_net::terminal;

/// Roll out changes to Argo CD Applications step by step
#[derive(Clone, Debug, Parser)]
#[command(name = "wavegate", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 success; 1 a check failed; 2 usage error or invalid input.")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    // Boxed, since it has many more options than the others.
    Run(Box<run::Args>),
    Render(render::Args),
    Plan(plan::Args),
    // Boxed, since it has many options.
    Simulate(Box<simulate::Args>),
    Order(order::Args),
    Health(health::Args),
    Diff(diff::Args),
    Status(status::Args),
    Explain(explain::Args),
    Tree(tree::Args),
    // Boxed, since it has many more options than the others.
    Sync(Box<sync::Args>),
    Terminate(terminate::Args),
    Refresh(refresh::Args),
    Pause(steer::PauseArgs),
    Resume(steer::ResumeArgs),
    Approve(steer::ApproveArgs),
    Abort(steer::AbortArgs),
    Rollback(steer::RollbackArgs),
    Retry(steer::RetryArgs),
    Skip(steer::SkipArgs),
    Wait(steer::WaitArgs),
    History(steer::HistoryArgs),
    Policies(steer::PoliciesArgs),
    Crds(crds::Args),
    Completions(completions::Args),
}

/// Parses the arguments. Exits when they are invalid or ask for help; arguments in
/// messages are escaped.
pub fn parse() -> Cli {
    if completions::answer(Cli::command) {
        std::process::exit(0);
    }
    let mut command = help::command(Cli::command());
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let cli = matches.and_then(|mut matches| {
        Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    });
    cli.unwrap_or_else(|error| {
        let text = error.render().to_string();
        let safe = terminal::printable_lines(&text, false);
        let args = std::env::args_os().filter_map(|arg| arg.into_string().ok());
        let examples = help::examples(&Cli::command(), &error, args);
        if text == safe && examples.is_empty() {
            error.exit();
        }
        // A closed standard error is ignored.
        let _ = std::io::stderr().write_all(format!("{safe}{examples}").as_bytes());
        std::process::exit(error.exit_code())
    })
}

/// Runs the command.
///
/// # Errors
///
/// The error of the command; [`report`] prints it and returns the exit code.
pub fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match &cli.command {
        // Format and level are part of its own configuration.
        Command::Run(_) => {}
        // The screen replaces the log, unless RUST_LOG is set.
        Command::Demo(_) => telemetry::init_logging(telemetry::LogFormat::Text, "off")?,
        // Its controllers are simulated, and so are their warnings.
        Command::Simulate(_) => telemetry::init_logging(telemetry::LogFormat::Text, "off")?,
        // The progress says what the engine in this process does.
        Command::Sync(args) if args.is_local() => {
            telemetry::init_logging(telemetry::LogFormat::Text, "error")?;
        }
        Command::Status(args) if args.watched().is_some() => {
            telemetry::init_logging(telemetry::LogFormat::Text, "off")?;
        }
        _ => telemetry::init_logging(telemetry::LogFormat::Text, "warn")?,
    }
    match cli.command {
        Command::Demo(args) => demo::run(args),
        Command::Run(args) => run::run(*args),
        Command::Render(args) => render::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Simulate(args) => simulate::run(*args),
        Command::Order(args) => order::run(args),
        Command::Health(args) => health::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Status(args) => match args.watched() {
            Some(request) => follow::run(&request),
            None => status::run(args),
        },
        Command::Explain(args) => match args.watched() {
            Some(request) => follow::run(&request),
            None => explain::run(args),
        },
        Command::Tree(args) => tree::run(args),
        Command::Sync(args) => sync::run(*args),
        Command::Terminate(args) => terminate::run(args),
        Command::Refresh(args) => refresh::run(args),
        Command::Pause(args) => steer::pause(args),
        Command::Resume(args) => steer::resume(args),
        Command::Approve(args) => steer::approve(args),
        Command::Abort(args) => steer::abort(args),
        Command::Rollback(args) => steer::rollback(args),
        Command::Retry(args) => steer::retry(args),
        Command::Skip(args) => steer::skip(args),
        Command::Wait(args) => steer::wait(args),
        Command::History(args) => steer::history(args),
        Command::Policies(args) => steer::policies(args),
        Command::Crds(args) => crds::run(args),
        Command::Completions(args) => completions::run(args),
    }
}
