//! `wavegate resume`: ends a pause.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::Value;

use super::ask::{Request, Verb, speak};
use super::{Common, Sets, find};
use crate::cli::cluster::{ClusterConnection, block_on};
use crate::cli::error::note;
use wavegate_api::Raw;
use wavegate_rollout::steering;

/// Promote Applications again, after a pause
///
/// Removes the annotation wavegate.dev/paused of the ApplicationSet. A set that a RolloutPolicy
/// pauses is resumed there; the error says which one it is.
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
        let sets = args.sets.find(&cluster).await?;
        let mut policies: BTreeMap<&str, Vec<Arc<Value>>> = BTreeMap::new();
        for set in &sets {
            if !policies.contains_key(set.namespace()) {
                let (found, unread) = find::policies(&cluster, set.namespace()).await;
                if let Some(error) = unread.filter(|error| !error.is_undefined()) {
                    note(&format!("whether a policy pauses it is not known: {error}"));
                }
                policies.insert(set.namespace(), found);
            }
        }
        let request = |set| {
            let policies = &policies;
            Request::to_set(set, move |set: &Value| {
                let none = Vec::new();
                steering::resume(set, policies.get(set.namespace()).unwrap_or(&none))
            })
        };
        let requests: Vec<Request<'_>> = sets.iter().map(request).collect();
        let verb = Verb { name: "resume", done: "resumed" };
        speak(&cluster, &args.common, verb, &requests, args.sets.is_one()).await
    })?;
    answer.print(&args.common)
}
