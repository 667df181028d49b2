//! `wavegate skip`: leaves Applications out of the current run.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::Value;

use super::ask::{Request, Verb, speak};
use super::{Common, find};
use crate::cli::cluster::{ClusterConnection, block_on};
use crate::cli::runs::runs;
use wavegate_api::{ObjectKey, Raw};
use wavegate_rollout::steering::{self, Run, Verdict, current};

/// Leave Applications out of the current run
///
/// They are not promoted in it, and their step does not wait for them. The next run takes them
/// again; --undo takes them into the current one again.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::EXIT_CODES)]
pub(in crate::cli) struct Args {
    /// Names of Applications
    #[arg(value_name = "APP", required = true)]
    names: Vec<String>,
    /// Take back that they are left out
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    common: Common,
}

/// The Applications of one set that are named.
#[derive(Default)]
struct Named {
    names: Vec<String>,
    /// Those that are complete.
    complete: Vec<String>,
}

/// The names for each set.
type Skipped = BTreeMap<ObjectKey, (Arc<Value>, Named)>;

/// Runs the command.
pub(in crate::cli) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let verb = match args.undo {
        true => Verb { name: "skip --undo", done: "skipped no more" },
        false => Verb { name: "skip", done: "skipped" },
    };
    let answer = block_on(async {
        let cluster = ClusterConnection::connect(&args.common.cluster).await?;
        let mut skipped = Skipped::new();
        for name in &args.names {
            let (application, set) =
                find::member(&cluster, name, &format!("cannot {}", verb.name)).await?;
            let is_complete = !args.undo && find::is_complete(&set, &application);
            let of_set = skipped.entry(ObjectKey::of(&set)).or_insert((set, Named::default()));
            let name = application.name().to_owned();
            if is_complete {
                of_set.1.complete.push(name.clone());
            }
            of_set.1.names.push(name);
        }
        let mut requests = Vec::new();
        for (set, named) in skipped.values_mut() {
            named.names.sort();
            named.names.dedup();
            let named: &Named = named;
            let runs = runs(&cluster, set).await?;
            requests.push(Request::to_run(set, current(&runs, set), move |run| {
                if let Some(name) = named.complete.first() {
                    let why = format!("{name} is complete: its rollout does not wait for it");
                    return Verdict::Refused(why);
                }
                let names: Vec<&str> = named.names.iter().map(String::as_str).collect();
                let word = if args.undo { steering::undo_skip } else { steering::skip };
                word(&Run::read(run), &names)
            }));
        }
        let is_one = requests.len() == 1;
        speak(&cluster, &args.common, verb, &requests, is_one).await
    })?;
    answer.print(&args.common)
}
