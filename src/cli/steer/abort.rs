//! `wavegate abort`: ends runs.

use std::process::ExitCode;

use super::ask::{Verb, speak_of_runs};
use super::{Common, Sets};
use crate::cli::cluster::{ClusterConnection, block_on};
use wavegate_rollout::steering::{self, Actor};

/// End the current run: nothing more of it is promoted
///
/// What was started stays as it is. The targets of the run are not promoted again until they
/// change, or until wavegate retry.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::EXIT_CODES)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    sets: Sets,
    /// Also terminate the running operations that the run started
    #[arg(long)]
    terminate: bool,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
pub(in crate::cli) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let answer = block_on(async {
        let cluster = ClusterConnection::connect(&args.common.cluster).await?;
        let verb = Verb { name: "abort", done: "abort requested" };
        let decide = |run: &_, person: Actor<'_>| steering::abort(run, args.terminate, person);
        speak_of_runs(&cluster, &args.common, verb, &args.sets, decide).await
    })?;
    answer.print(&args.common)
}
