//! What the command is given.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use super::events::{self, Event, always, at, at_for, at_or_value_at, option, value_at};
use super::when;
use crate::cli::cluster::ClusterArgs;
use crate::cli::cluster::controller::ControllerArgs;
use crate::cli::console::error::Error;
use crate::cli::console::output::OutputArgs;
use crate::cli::watch::args::timeout;

/// The most names in a message.
pub(super) const NAMES: usize = 5;
/// What is wrong when a set cannot be simulated.
pub(super) const WRONG: &str = "cannot simulate";

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
  wavegate simulate -f appset.yaml -f policy.yaml --approve production@2h --export rollout.html
  wavegate simulate -f appset.yaml --runs 100 --flaky 5%
  wavegate simulate --live APPSET         with the set, policies and Applications of a cluster

Times are durations since the start, such as 90s, 10m or 1h30m. An Application is its name, or a
pattern such as 'web-*'; a pattern followed by @2 is for those of step 2 only.")]
pub(in crate::cli) struct SimulateArgs {
    /// Files with ApplicationSets, RolloutPolicies, AppProjects; - for standard input
    #[arg(short, long = "filename", required_unless_present = "live", value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Only the ApplicationSet with this name
    #[arg(value_name = "APPSET")]
    pub(super) name: Option<String>,
    /// Take the set, its policies and projects from the cluster; nothing is written there
    #[arg(long, requires = "name", conflicts_with = "files")]
    pub(super) live: bool,
    /// The workloads of these Applications fail; can be repeated, as the following ones
    #[arg(long, value_name = "APP[@STEP]", value_parser = option("--fail", "fail", always),
        help_heading = "What happens")]
    pub(super) fail: Vec<Event>,
    /// The workloads of these Applications never become Healthy
    #[arg(long, value_name = "APP[@STEP]", value_parser = option("--hang", "hang", always),
        help_heading = "What happens")]
    pub(super) hang: Vec<Event>,
    /// These Applications become Healthy after this time
    #[arg(long, value_name = "APP[@STEP]=TIME", value_parser = option("--slow", "slow", always),
        help_heading = "What happens")]
    pub(super) slow: Vec<Event>,
    /// So many of all deployments fail, by chance: of each Application with each commit
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true, value_parser = when::percent, help_heading = "What happens")]
    pub(super) flaky: Option<u8>,
    /// A Healthy Application becomes Degraded
    #[arg(long, value_name = "APP@TIME", value_parser = option("--degrade", "degrade", value_at),
        help_heading = "What happens")]
    pub(super) degrade: Vec<Event>,
    /// Another commit; with APP one that changes these Applications only
    #[arg(long, value_name = "[APP@]TIME", allow_hyphen_values = true, value_parser = option("--push", "push", at_or_value_at),
        help_heading = "What happens")]
    pub(super) push: Vec<Event>,
    /// The controllers are killed and start again
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = option("--restart-at", "restart", at),
        help_heading = "What happens")]
    pub(super) restart_at: Vec<Event>,
    /// The API server answers the controllers with 503 for a time
    #[arg(long, value_name = "TIME:FOR", allow_hyphen_values = true, value_parser = option("--api-down", "apiDown", at_for),
        help_heading = "What happens")]
    pub(super) api_down: Vec<Event>,
    /// A file of such events, each with its time: a list of entries such as
    /// {at: 10m, push: true}; - for standard input
    #[arg(long, value_name = "FILE", help_heading = "What happens")]
    pub(super) events: Vec<PathBuf>,
    /// A person pauses the sets
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = option("--pause-at", "pause", at),
        help_heading = "What people do")]
    pub(super) pause_at: Vec<Event>,
    /// A person resumes them
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = option("--resume-at", "resume", at),
        help_heading = "What people do")]
    pub(super) resume_at: Vec<Event>,
    /// A person approves a gate
    #[arg(long, value_name = "GATE@TIME", value_parser = option("--approve", "approve", value_at),
        help_heading = "What people do")]
    pub(super) approve: Vec<Event>,
    /// A person takes the run back
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = option("--rollback-at", "rollback", at),
        help_heading = "What people do")]
    pub(super) rollback_at: Vec<Event>,
    /// A person aborts the run
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = option("--abort-at", "abort", at),
        help_heading = "What people do")]
    pub(super) abort_at: Vec<Event>,
    /// A person retries what has failed
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = option("--retry-at", "retry", at),
        help_heading = "What people do")]
    pub(super) retry_at: Vec<Event>,
    /// A person leaves an Application out
    #[arg(long, value_name = "APP@TIME", value_parser = option("--skip", "skip", value_at),
        help_heading = "What people do")]
    pub(super) skip: Vec<Event>,
    /// How long an Application takes to become Healthy after its sync [default: 30s, with --live
    /// what it took before]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = timeout, help_heading = "How long")]
    pub(super) health: Option<Duration>,
    /// How long its sync takes [default: 0s, with --live what it took before]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = timeout, help_heading = "How long")]
    pub(super) sync: Option<Duration>,
    /// A table of such times: a line each with a pattern, the time of its health, and that of its
    /// sync; the first that is for an Application counts
    #[arg(long, value_name = "FILE", help_heading = "How long")]
    pub(super) durations: Option<PathBuf>,
    /// Begin with the creation of the Applications, instead of a commit after all were rolled out
    #[arg(long)]
    pub(super) first: bool,
    /// The time at which it begins, for sync windows [default: a Monday at 9:00 UTC]
    #[arg(
        long,
        value_name = "RFC3339",
        value_parser = when::start,
        default_value = "2026-01-05T09:00:00Z",
        hide_default_value = true
    )]
    pub(super) at: Timestamp,
    /// Give up after this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, default_value = "168h", value_parser = timeout)]
    pub(super) limit: Duration,
    /// What chance comes from: the same seed gives the same course
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) seed: u64,
    /// Simulate so many times, with other seeds and times that differ by up to a third
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(super) runs: u32,
    /// Write a chart of the rollout to this file, as HTML that needs nothing else; with --runs, of
    /// the first simulation
    #[arg(long, value_name = "FILE")]
    pub(super) export: Option<PathBuf>,
    /// Show the page at the end of the simulation, with its clock as a slider
    #[arg(long, conflicts_with = "runs")]
    pub(super) dashboard: bool,
    /// Write the log of the API server to this file: each request, and each change of an object;
    /// with --runs, of the first simulation
    #[arg(long, value_name = "FILE")]
    pub(super) log: Option<PathBuf>,
    #[command(flatten)]
    pub(super) controller: ControllerArgs,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

impl SimulateArgs {
    /// All that happens.
    pub(super) fn events(&self) -> Result<Vec<Event>, Error> {
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
