//! `wavegate diff`: what a sync of an Application, a change of an ApplicationSet, or the
//! application of one manifest would change.

mod application;
mod application_set;
mod files;
mod filter;

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;

use super::cluster::{ClusterArgs, ClusterConnection, block_on};
use super::controller::ControllerArgs;
use super::error::{Error, NOT_FOUND, note};
use super::live_app::{Kind, named};
use super::output::Output;
use wavegate_engine::diff::Change;

/// The options that say nothing about two files.
const OF_A_CLUSTER: [&str; 11] = [
    "appset",
    "control_plane_namespace",
    "enable_new_git_file_globbing",
    "enable_policy_override",
    "enable_progressive_syncs",
    "include_hidden_directories",
    "policy",
    "preserved_annotations",
    "preserved_labels",
    "context",
    "namespace",
];

/// Print the difference between the cluster and the source
///
/// For an Application: each resource that a sync would change, create or prune, as the
/// controller compares it. For an ApplicationSet: each Application that its controller
/// would create, update or delete. With --desired and --live: two files, without a
/// cluster. Values of Secrets are masked. Exits with 1 when there is a difference.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// Name of an Application or of an ApplicationSet, as app/NAME or appset/NAME when
    /// both exist
    #[arg(value_name = "APP|APPSET", required_unless_present_any = ["desired", "files"])]
    #[arg(conflicts_with_all = ["desired", "live", "config"])]
    name: Option<String>,
    /// NAME is an ApplicationSet
    #[arg(long)]
    appset: bool,
    /// File with a changed ApplicationSet, to compare with its Applications in the
    /// cluster; - for standard input
    #[arg(short, long = "filename", value_name = "FILE")]
    #[arg(conflicts_with_all = ["desired", "live", "config", "revisions", "local", "resources"])]
    files: Vec<PathBuf>,
    /// Compare an Application with this revision; for several sources one each, in order
    #[arg(long = "revision", value_name = "REVISION", conflicts_with_all = ["desired", "local"])]
    revisions: Vec<String>,
    /// Compare an Application with the manifests of this directory instead of its source
    #[arg(long, value_name = "DIR", conflicts_with = "desired")]
    local: Option<PathBuf>,
    /// Only these resources of an Application, as GROUP:KIND:[NAMESPACE/]NAME; a * stands
    /// for any
    #[arg(long = "resource", value_name = "RESOURCE", conflicts_with = "desired")]
    resources: Vec<filter::Filter>,
    /// File with the desired object; empty when it should not exist
    #[arg(long, value_name = "FILE", requires = "live", conflicts_with_all = OF_A_CLUSTER)]
    desired: Option<PathBuf>,
    /// File with the live object; empty when it does not exist
    #[arg(long, value_name = "FILE", requires = "desired")]
    live: Option<PathBuf>,
    /// File with an Application whose ignoreDifferences are used, with --desired
    #[arg(long, value_name = "FILE", requires = "desired")]
    config: Option<PathBuf>,
    #[command(flatten)]
    controller: ControllerArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: Output,
}

/// A changed field, in JSON.
#[derive(Debug, Serialize)]
struct FieldChange {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Value>,
}

impl From<&Change> for FieldChange {
    fn from(change: &Change) -> Self {
        let Change { path, from, to } = change.clone();
        Self { path, from, to }
    }
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let (Some(desired), Some(live)) = (&args.desired, &args.live) {
        return files::run(desired, live, args.config.as_deref(), &args.output);
    }
    let (kind, name) = match &args.name {
        Some(name) => match named(name)? {
            (Kind::Any, name) if args.appset => (Kind::ApplicationSet, name),
            named => named,
        },
        None => (Kind::ApplicationSet, ""),
    };
    if kind == Kind::Application && (args.appset || !args.files.is_empty()) {
        let why = "names an Application, but --appset and -f are for ApplicationSets";
        return Err(Error::input("cannot compare", args.name.unwrap_or_default(), why).into());
    }
    let is_set = kind == Kind::ApplicationSet || args.appset || !args.files.is_empty();
    if is_set {
        return set(&args, Some(name).filter(|name| !name.is_empty()));
    }
    let name = name.to_owned();
    let found = block_on(async {
        let connection = ClusterConnection::connect(&args.cluster).await?;
        let application = match connection.expect_application(&name).await {
            Ok(application) => application,
            Err(missing) if missing.is_not_found() && kind == Kind::Any => {
                return match connection.expect_application_set(&name).await {
                    Ok(_) => Ok(None),
                    Err(error) if error.is_not_found() => Err(neither(&connection, &name)),
                    Err(error) => Err(error),
                };
            }
            Err(error) => return Err(error),
        };
        if kind == Kind::Any && connection.expect_application_set(&name).await.is_ok() {
            note(&format!(
                "{name} is an Application and an ApplicationSet: this is the Application; use \
                 appset/{name} for the other"
            ));
        }
        application::compare(&connection, &args, &application).await.map(Some)
    })?;
    match found {
        Some(report) => application::print(&report, &args.output),
        None => set(&args, Some(&name)),
    }
}

fn set(args: &Args, name: Option<&str>) -> anyhow::Result<ExitCode> {
    let of_application = [
        ("--revision", !args.revisions.is_empty()),
        ("--local", args.local.is_some()),
        ("--resource", !args.resources.is_empty()),
    ];
    if let Some((option, _)) = of_application.into_iter().find(|(_, given)| *given) {
        let name = name.unwrap_or("-f");
        let why = format!("{option} is for Applications, and this is an ApplicationSet");
        return Err(Error::input("cannot compare", name, why).into());
    }
    let reports = block_on(application_set::compare(args, name))?;
    application_set::print(&reports, &args.output)
}

fn neither(connection: &ClusterConnection, name: &str) -> Error {
    let place = format!("{}/{name}", connection.namespace);
    let why = "there is neither an Application nor an ApplicationSet with this name; select another \
               namespace with -n, or list the ApplicationSets of all with wavegate status -A";
    Error::input(NOT_FOUND, place, why)
}
