//! `wavegate crds`: the CustomResourceDefinitions.

use std::process::ExitCode;

use super::output;
use crate::api::crds::{KINDS, yaml};

/// Print the CustomResourceDefinitions, to apply them to a cluster
///
/// Prints the files of crds/ unchanged: all of them, or those of the given kinds.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// Print only these kinds
    #[arg(value_name = "KIND", ignore_case = true, value_parser = KINDS)]
    kinds: Vec<String>,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let is_wanted = |kind: &str| {
        args.kinds.is_empty() || args.kinds.iter().any(|wanted| wanted.eq_ignore_ascii_case(kind))
    };
    let wanted = KINDS.into_iter().filter(|kind| is_wanted(kind));
    let texts: Vec<String> = wanted.filter_map(yaml).collect();
    output::print(&texts.join("---\n"))?;
    Ok(ExitCode::SUCCESS)
}
