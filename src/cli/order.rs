//! `wavegate order`: the order in which a sync applies or prunes manifests.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;

use crate::cli::console::output::{self, OutputArgs, or_dash};
use crate::cli::files::input;
use wavegate_api::operation::SyncPhase;
use wavegate_engine::sync::{Slot, apply_order, prune_order};

/// Print manifests in the order in which a sync applies them
///
/// Ordered by phase, wave, kind and name; a Namespace or a CustomResourceDefinition comes
/// before the resources that depend on it. Hooks that never run are omitted, and of two
/// manifests for one object the last one is used.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  wavegate order -f manifests/
  kustomize build . | wavegate order -f -")]
pub(super) struct OrderArgs {
    /// File or directory with manifests; - for standard input. A directory is
    /// searched for .yaml, .yml, .json and .jsonnet files, in lexical order
    #[arg(short, long = "filename", required = true, value_name = "FILE-OR-DIR")]
    files: Vec<PathBuf>,
    /// Print the order of deletion instead
    #[arg(long)]
    prune: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// One line of the output.
#[derive(Serialize)]
struct Row {
    phase: SyncPhase,
    wave: i64,
    group: String,
    kind: String,
    namespace: String,
    name: String,
    hook: bool,
}

impl From<Slot> for Row {
    fn from(slot: Slot) -> Self {
        let Slot { phase, wave, kind_rank: _, name, namespace, group, kind, hook } = slot;
        Self { phase, wave, group, kind, namespace, name, hook }
    }
}

/// Runs the command.
pub(super) fn run(args: OrderArgs) -> anyhow::Result<ExitCode> {
    let manifests: Vec<Value> =
        input::objects(&args.files)?.into_iter().map(|object| object.value).collect();
    let slots = if args.prune { prune_order(&manifests) } else { apply_order(&manifests) };
    let rows: Vec<Row> = slots.into_iter().map(Row::from).collect();
    args.output.print(&rows, |rows| {
        let cells = |row: &Row| {
            [
                row.phase.to_string(),
                row.wave.to_string(),
                row.kind.clone(),
                or_dash(&row.namespace),
                or_dash(&row.name),
            ]
        };
        output::table(["PHASE", "WAVE", "KIND", "NAMESPACE", "NAME"], rows.iter().map(cells))
    })?;
    Ok(ExitCode::SUCCESS)
}
