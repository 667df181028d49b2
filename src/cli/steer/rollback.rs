//! `wavegate rollback`: takes back what runs started.

use std::process::ExitCode;

use super::ask::{Verb, speak_of_runs};
use super::{Common, Sets};
use crate::cli::cluster::{ClusterConnection, block_on};
use crate::decide::steering;

/// End the current run, and take back what it started
///
/// Each Application that the run started goes back to its last good revisions, in the reverse
/// order of steps and within the same limits.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::EXIT_CODES)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    sets: Sets,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
pub(in crate::cli) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let answer = block_on(async {
        let cluster = ClusterConnection::connect(&args.common.cluster).await?;
        let verb = Verb { name: "roll back", done: "rollback requested" };
        let decide = steering::rollback;
        speak_of_runs(&cluster, &args.common, verb, &args.sets, decide).await
    })?;
    answer.print(&args.common)
}
