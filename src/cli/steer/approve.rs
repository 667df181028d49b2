//! `wavegate approve`: approves gates, or deletions.

use std::process::ExitCode;

use super::ask::{Request, Verb, speak, speak_of_runs};
use super::{Common, Sets};
use crate::cli::cluster::{ClusterConnection, block_on};
use crate::cli::controller::ControllerArgs;
use crate::cli::error::{CHECK_FAILED, note};
use crate::cli::plan;
use wavegate_rollout::steering::{self, Actor};

/// Approve the gates that a rollout waits for, or deletions that are held
///
/// An approval of a gate counts for the current run, and as long as the targets behind the gate
/// are those that were approved.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::EXIT_CODES)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    sets: Sets,
    /// Only this gate, also before it is reached; by default all that wait for approvals
    #[arg(long, value_name = "GATE")]
    gate: Option<String>,
    /// Only if the plan of the ApplicationSet has this hash, as `wavegate plan --live` prints it
    /// with the same settings of the controller
    #[arg(long, value_name = "HASH", conflicts_with_all = ["selector", "all_namespaces"])]
    plan: Option<String>,
    /// Approve the deletions that the condition DeletionsHeld names
    #[arg(long, conflicts_with = "gate")]
    deletions: bool,
    #[command(flatten)]
    common: Common,
    /// For the hash of `--plan`.
    #[command(flatten)]
    controller: ControllerArgs,
}

/// Runs the command.
pub(in crate::cli) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let verb = Verb { name: "approve", done: "approved" };
    if let (Some(wanted), Some(set)) = (&args.plan, args.sets.name.as_deref()) {
        let found = block_on(plan::hash_of(&args.common.cluster, &args.controller, set))?;
        if found.as_ref() != Some(wanted) {
            let found = plan::in_words(found.as_deref());
            note(&format!(
                "not approved: the plan of {set} has {found} now, and not {wanted}: \
                 wavegate plan --live {set}"
            ));
            return Ok(ExitCode::from(CHECK_FAILED));
        }
    }
    let answer = block_on(async {
        let cluster = ClusterConnection::connect(&args.common.cluster).await?;
        if args.deletions {
            let sets = args.sets.find(&cluster).await?;
            let request = |set| Request::to_set(set, steering::approve_deletions);
            let requests: Vec<Request<'_>> = sets.iter().map(request).collect();
            return speak(&cluster, &args.common, verb, &requests, args.sets.is_one()).await;
        }
        let gate = args.gate.as_deref();
        let decide = |run: &_, person: Actor<'_>| steering::approve(run, gate, person);
        speak_of_runs(&cluster, &args.common, verb, &args.sets, decide).await
    })?;
    answer.print(&args.common)
}
