//! `wavegate pause`: holds all promotions of ApplicationSets.

use std::process::ExitCode;

use super::ask::{Request, Speaker, Verb, speak};
use super::{Common, Sets};
use crate::cli::cluster::{ClusterConnection, block_on};
use wavegate_rollout::steering;

/// Stop promoting Applications, until it is resumed
///
/// Writes the annotation wavegate.dev/paused on the ApplicationSet. Running syncs end by
/// themselves; health and drift are still observed.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::EXIT_CODES)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    sets: Sets,
    /// Why, for others; the user is added
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
pub(in crate::cli) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let answer = block_on(async {
        let cluster = ClusterConnection::connect(&args.common.cluster).await?;
        let sets = args.sets.find(&cluster).await?;
        let speaker = Speaker::of(&cluster, &args.common).await?;
        let by = speaker.person().by;
        let decide = |set: &_| steering::pause(set, args.reason.as_deref(), by);
        let requests: Vec<Request<'_>> =
            sets.iter().map(|set| Request::to_set(set, decide)).collect();
        let verb = Verb { name: "pause", done: "paused" };
        speak(&cluster, &args.common, verb, &requests, args.sets.is_one()).await
    })?;
    answer.print(&args.common)
}
