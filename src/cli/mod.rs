//! The command line: one file per command. Each parses, calls the crates and prints;
//! rules of rollouts, syncs and health are there. `README.md` beside this file is the map.
//!
//! Data goes to standard output, everything else to standard error. Exit code 0 means
//! success, 1 a failed check, 2 a usage error or invalid input. The same input gives the
//! same output.

mod cluster;
mod console;
mod crds;
mod dashboard;
pub mod demo;
mod diff;
mod doctor;
mod explain;
mod files;
mod health;
mod order;
mod plan;
mod refresh;
mod render;
mod rollout_view;
pub mod run;
mod run_actions;
mod runs;
mod simulate;
mod status;
mod sync;
mod terminate;
#[cfg(test)]
mod tests;
mod tree;
mod watch;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub use self::console::error::report;
use self::console::{completions, help};
pub use self::explain::advised_commands;
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
    Demo(demo::DemoArgs),
    // Boxed, since it has many more options than the others.
    Run(Box<run::RunArgs>),
    Render(render::RenderArgs),
    Plan(plan::PlanArgs),
    // Boxed, since it has many options.
    Simulate(Box<simulate::SimulateArgs>),
    Order(order::OrderArgs),
    Health(health::HealthArgs),
    Diff(diff::DiffArgs),
    Status(status::StatusArgs),
    Explain(explain::ExplainArgs),
    Tree(tree::TreeArgs),
    // Boxed, since it has many more options than the others.
    Sync(Box<sync::SyncArgs>),
    Terminate(terminate::TerminateArgs),
    Refresh(refresh::RefreshArgs),
    #[command(flatten)]
    RunAction(run_actions::RunAction),
    Wait(runs::wait::WaitArgs),
    History(runs::history::HistoryArgs),
    Policies(runs::policies::PoliciesArgs),
    Dashboard(dashboard::DashboardArgs),
    Doctor(doctor::DoctorArgs),
    Crds(crds::CrdsArgs),
    Completions(completions::CompletionsArgs),
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
        // The screen of a demo replaces the log, unless RUST_LOG is set; the controllers of a
        // simulation are simulated, and so are their warnings.
        Command::Demo(_) | Command::Simulate(_) => {
            telemetry::init_logging(telemetry::LogFormat::Text, "off")?;
        }
        // The progress says what the engine in this process does.
        Command::Sync(args) if args.is_local() => {
            telemetry::init_logging(telemetry::LogFormat::Text, "error")?;
        }
        Command::Status(args) if args.watched().is_some() => {
            telemetry::init_logging(telemetry::LogFormat::Text, "off")?;
        }
        // Who signs in, and who is refused.
        Command::Dashboard(args) if args.is_for_a_team() => {
            telemetry::init_logging(telemetry::LogFormat::Text, "info")?;
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
            Some(request) => watch::run(&request),
            None => status::run(args),
        },
        Command::Explain(args) => match args.watched() {
            Some(request) => watch::run(&request),
            None => explain::run(args),
        },
        Command::Tree(args) => tree::run(args),
        Command::Sync(args) => sync::run(*args),
        Command::Terminate(args) => terminate::run(args),
        Command::Refresh(args) => refresh::run(args),
        Command::RunAction(action) => action.run(),
        Command::Wait(args) => runs::wait::run(args),
        Command::History(args) => runs::history::run(args),
        Command::Policies(args) => runs::policies::run(args),
        Command::Dashboard(args) => dashboard::run(&args),
        Command::Doctor(args) => doctor::run(args),
        Command::Crds(args) => crds::run(args),
        Command::Completions(args) => completions::run(args),
    }
}
