//! `wavegate rollback`: takes back what runs started.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::Value;

use super::ask::{Request, Speaker, Verb, speak};
use super::{Common, Sets};
use crate::cli::cluster::{ClusterConnection, block_on};
use crate::cli::error::note;
use wavegate_api::Raw;
use wavegate_rollout::application_set::is_owned;
use wavegate_rollout::steering::{self, RollbackScope, Run};

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
        let verb = Verb { name: "rollback", done: "rollback requested" };
        let found = args.sets.with_runs(&cluster).await?;
        let applications = applications(&cluster, &found).await;
        let speaker = Speaker::of(&cluster, &args.common).await?;
        let speaker = &speaker;
        let requests: Vec<Request<'_>> = found
            .iter()
            .map(|(set, run)| {
                let of = applications.get(set.namespace());
                Request::to_run(set, run.as_ref(), move |run: &Value| {
                    let reach = of.map(|all| {
                        let owned = all.iter().filter(|one| is_owned(one, set));
                        RollbackScope::of(run.name(), owned.map(Arc::as_ref))
                    });
                    steering::rollback(&Run::of(set, run), reach.as_ref(), speaker.person())
                })
            })
            .collect();
        speak(&cluster, &args.common, verb, &requests, args.sets.is_one()).await
    })?;
    answer.print(&args.common)
}

/// The Applications beside sets with runs, by namespace: they say what each can go back to. A
/// namespace is absent where they cannot be read.
async fn applications(
    cluster: &ClusterConnection,
    sets: &[(Arc<Value>, Option<Arc<Value>>)],
) -> BTreeMap<String, Vec<Arc<Value>>> {
    let with_run = sets.iter().filter(|(_, run)| run.is_some());
    let mut namespaces: Vec<&str> = with_run.map(|(set, _)| set.namespace()).collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    let mut applications = BTreeMap::new();
    for namespace in namespaces {
        match cluster.applications(Some(namespace)).await {
            Ok(found) => {
                applications.insert(namespace.to_owned(), found);
            }
            Err(error) => note(&format!("it is not known how many can go back: {error}")),
        }
    }
    applications
}
