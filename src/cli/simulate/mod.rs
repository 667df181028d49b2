//! `wavegate simulate`: a whole rollout on a clock that jumps.

mod behaviors;
mod causes;
mod chart;
mod counted;
mod course;
mod creation;
mod distribution;
mod events;
#[cfg(test)]
mod fixtures;
mod frozen;
mod history;
mod path;
mod progress;
mod refused;
mod report;
mod scale;
mod scenario;
mod segments;
mod svg;
mod timeline;
mod when;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;

use self::distribution::Distribution;
use self::events::Event;
use self::progress::Progress;
use self::report::Report;
use super::cluster::{ClusterArgs, block_on};
use super::controller::ControllerArgs;
use super::error::{CHECK_FAILED, Error};
use super::output::Output;
use super::watch_args::timeout;
use wavegate_simulation::{self as simulation, History};

/// Simulate a rollout: hours of it in seconds, with failures where you put them
///
/// Runs the controllers against an API server in memory, on a clock that jumps to the next
/// moment at which something can happen. Nothing is deployed, and nothing is read from
/// repositories except by generators: each Application has one workload that becomes Healthy
/// after the time that the options give. Exits with 1 when the rollout would not complete, and
/// with 2 when something of what shall happen could not be done.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  wavegate simulate -f appset.yaml -f policy.yaml
  wavegate simulate -f appset.yaml --fail web-eu --slow 'db-*=5m'
  wavegate simulate -f appset.yaml -f policy.yaml --approve production@2h --svg rollout.svg
  wavegate simulate -f appset.yaml --runs 100 --flaky 5%
  wavegate simulate --live APPSET         with the set, policies and Applications of a cluster

Times are durations since the start, such as 90s, 10m or 1h30m. An Application is its name, or a
pattern such as 'web-*'; a pattern followed by @2 is for those of step 2 only.")]
pub(super) struct Args {
    /// Files with ApplicationSets, RolloutPolicies, AppProjects; - for standard input
    #[arg(short, long = "filename", required_unless_present = "live", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only the ApplicationSet with this name
    #[arg(value_name = "APPSET")]
    name: Option<String>,
    /// Take the set, its policies and projects from the cluster; nothing is written there
    #[arg(long, requires = "name", conflicts_with = "files")]
    live: bool,
    /// The workloads of these Applications fail; can be repeated, as the following ones
    #[arg(long, value_name = "APP[@STEP]", value_parser = events::always("--fail", "fail"),
        help_heading = "What happens")]
    fail: Vec<Event>,
    /// The workloads of these Applications never become Healthy
    #[arg(long, value_name = "APP[@STEP]", value_parser = events::always("--hang", "hang"),
        help_heading = "What happens")]
    hang: Vec<Event>,
    /// These Applications become Healthy after this time
    #[arg(long, value_name = "APP[@STEP]=TIME", value_parser = events::always("--slow", "slow"),
        help_heading = "What happens")]
    slow: Vec<Event>,
    /// So many of all deployments fail, by chance: of each Application with each commit
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true, value_parser = when::percent, help_heading = "What happens")]
    flaky: Option<u8>,
    /// A Healthy Application becomes Degraded
    #[arg(long, value_name = "APP@TIME", value_parser = events::of("--degrade", "degrade"),
        help_heading = "What happens")]
    degrade: Vec<Event>,
    /// Another commit; with APP one that changes these Applications only
    #[arg(long, value_name = "[APP@]TIME", allow_hyphen_values = true, value_parser = events::push,
        help_heading = "What happens")]
    push: Vec<Event>,
    /// The controllers are killed and start again
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = events::at("--restart-at", "restart"),
        help_heading = "What happens")]
    restart_at: Vec<Event>,
    /// The API server answers the controllers with 503 for a time
    #[arg(long, value_name = "TIME:FOR", allow_hyphen_values = true, value_parser = events::api_down,
        help_heading = "What happens")]
    api_down: Vec<Event>,
    /// A file of such events, each with its time: a list of entries such as
    /// {at: 10m, push: true}; - for standard input
    #[arg(long, value_name = "FILE", help_heading = "What happens")]
    events: Vec<PathBuf>,
    /// A person pauses the sets
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = events::at("--pause-at", "pause"),
        help_heading = "What people do")]
    pause_at: Vec<Event>,
    /// A person resumes them
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = events::at("--resume-at", "resume"),
        help_heading = "What people do")]
    resume_at: Vec<Event>,
    /// A person approves a gate
    #[arg(long, value_name = "GATE@TIME", value_parser = events::of("--approve", "approve"),
        help_heading = "What people do")]
    approve: Vec<Event>,
    /// A person takes the run back
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = events::at("--rollback-at", "rollback"),
        help_heading = "What people do")]
    rollback_at: Vec<Event>,
    /// A person aborts the run
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = events::at("--abort-at", "abort"),
        help_heading = "What people do")]
    abort_at: Vec<Event>,
    /// A person retries what has failed
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = events::at("--retry-at", "retry"),
        help_heading = "What people do")]
    retry_at: Vec<Event>,
    /// A person leaves an Application out
    #[arg(long, value_name = "APP@TIME", value_parser = events::of("--skip", "skip"),
        help_heading = "What people do")]
    skip: Vec<Event>,
    /// How long an Application takes to become Healthy after its sync [default: 30s, with --live
    /// what it took before]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = timeout, help_heading = "How long")]
    health: Option<Duration>,
    /// How long its sync takes [default: 0s, with --live what it took before]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = timeout, help_heading = "How long")]
    sync: Option<Duration>,
    /// A table of such times: a line each with a pattern, the time of its health, and that of its
    /// sync; the first that is for an Application counts
    #[arg(long, value_name = "FILE", help_heading = "How long")]
    durations: Option<PathBuf>,
    /// Begin with the creation of the Applications, instead of a commit after all were rolled out
    #[arg(long)]
    first: bool,
    /// The time at which it begins, for sync windows [default: a Monday at 9:00 UTC]
    #[arg(
        long,
        value_name = "RFC3339",
        value_parser = when::start,
        default_value = "2026-01-05T09:00:00Z",
        hide_default_value = true
    )]
    at: Timestamp,
    /// Give up after this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, default_value = "168h", value_parser = timeout)]
    limit: Duration,
    /// What chance comes from: the same seed gives the same course
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Simulate so many times, with other seeds and times that differ by up to a third
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    runs: u32,
    /// Write a chart of the rollout to this file; with --runs, of the first simulation
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the log of the API server to this file: each request, and each change of an object;
    /// with --runs, of the first simulation
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    #[command(flatten)]
    controller: ControllerArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: Output,
}

impl Args {
    /// All that happens.
    fn events(&self) -> Result<Vec<Event>, Error> {
        let options = [
            &self.fail,
            &self.hang,
            &self.slow,
            &self.push,
            &self.restart_at,
            &self.pause_at,
            &self.resume_at,
            &self.rollback_at,
            &self.abort_at,
            &self.retry_at,
            &self.api_down,
            &self.degrade,
            &self.approve,
            &self.skip,
        ];
        let mut all: Vec<Event> = options.into_iter().flatten().cloned().collect();
        for file in &self.events {
            all.extend(events::file(file)?);
        }
        Ok(all)
    }
}

/// The most simulations of one command.
const MOST_RUNS: u32 = 100_000;

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.runs == 0 || args.runs > MOST_RUNS {
        let why = format!("it must be from 1 to {MOST_RUNS}");
        return Err(Error::input("invalid option", "--runs", why).into());
    }
    for (option, file) in [("--svg", &args.svg), ("--log", &args.log)] {
        if file.as_deref().is_some_and(|file| file.as_os_str() == "-") {
            let why = "standard output has the report; name a file";
            return Err(Error::input("invalid option", format!("{option} -"), why).into());
        }
    }
    let case = block_on(scenario::read(&args))?;
    let simulate = |number: u32| -> anyhow::Result<History> {
        simulation::run(&case.scenario(&args, args.seed.wrapping_add(u64::from(number))))
    };
    let progress = Progress::of(args.runs);
    let mut history = simulate(0)?;
    progress.add();
    let log = std::mem::take(&mut history.log);
    if let Some(file) = &args.log {
        write(file, &log)?;
    }
    drop(log);
    if let Some(file) = &args.svg {
        write(file, &Report::of(&case, &history).svg())?;
    }
    let mut histories = vec![history];
    let is_complete = if args.runs == 1 {
        let report = Report::of(&case, &histories[0]);
        args.output.print(&report, Report::table)?;
        report.is_complete()
    } else {
        histories.extend(side_by_side(args.runs, simulate, &progress)?);
        drop(progress);
        let all = Distribution::of(&histories);
        args.output.print(&all, Distribution::table)?;
        all.is_complete()
    };
    refused::check(&histories)?;
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::from(CHECK_FAILED) })
}

fn write(file: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(file, text)
        .map_err(|error| Error::input("cannot write", file.display().to_string(), error))
}

/// The simulations 1, 2, … before `count`, in this order, as many at a time as there are cores.
fn side_by_side(
    count: u32,
    simulate: impl Fn(u32) -> anyhow::Result<History> + Sync,
    progress: &Progress,
) -> anyhow::Result<Vec<History>> {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let simulate = &simulate;
    let of_thread = |first: u32| {
        let numbers = (first..count).step_by(threads as usize);
        let one = |number| {
            let history = simulate(number)?;
            progress.add();
            Ok((number, history))
        };
        numbers.map(one).collect::<anyhow::Result<Vec<_>>>()
    };
    let mut all = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (1..=threads).map(|first| scope.spawn(move || of_thread(first))).collect();
        let mut all = Vec::new();
        for thread in threads {
            let histories = thread.join().map_err(|_| anyhow::anyhow!("a simulation panicked"))?;
            all.extend(histories?);
        }
        anyhow::Ok(all)
    })?;
    all.sort_by_key(|(number, _)| *number);
    Ok(all.into_iter().map(|(_, history)| history).collect())
}
