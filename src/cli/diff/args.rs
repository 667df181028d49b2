//! What the command is given.

use std::path::PathBuf;

use super::filter;
use crate::cli::cluster::ClusterArgs;
use crate::cli::cluster::controller::ControllerArgs;
use crate::cli::console::output::{OutputArgs, OutputFormat};

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
pub(in crate::cli) struct DiffArgs {
    /// Name of an Application or of an ApplicationSet, as app/NAME or appset/NAME when
    /// both exist
    #[arg(value_name = "APP|APPSET", required_unless_present_any = ["desired", "files"])]
    #[arg(conflicts_with_all = ["desired", "live", "config"])]
    pub(super) name: Option<String>,
    /// NAME is an ApplicationSet
    #[arg(long)]
    pub(super) appset: bool,
    /// File with a changed ApplicationSet, to compare with its Applications in the
    /// cluster; - for standard input
    #[arg(short, long = "filename", value_name = "FILE")]
    #[arg(conflicts_with_all = ["desired", "live", "config", "revisions", "local", "resources"])]
    pub(super) files: Vec<PathBuf>,
    /// Compare an Application with this revision; for several sources one each, in order
    #[arg(long = "revision", value_name = "REVISION", conflicts_with_all = ["desired", "local"])]
    pub(super) revisions: Vec<String>,
    /// Compare an Application with the files of the Git work tree at or above this directory
    /// instead of those of its repository
    #[arg(long, value_name = "DIR", conflicts_with = "desired")]
    pub(super) local: Option<PathBuf>,
    /// The repository that the work tree is read in place of, if its remotes do not tell
    #[arg(long, value_name = "URL", requires = "local")]
    pub(super) repo: Option<String>,
    /// Only these resources of an Application, as GROUP:KIND:[NAMESPACE/]NAME; a * stands
    /// for any
    #[arg(long = "resource", value_name = "RESOURCE", conflicts_with = "desired")]
    pub(super) resources: Vec<filter::Filter>,
    /// File with the desired object; empty when it should not exist
    #[arg(long, value_name = "FILE", requires = "live", conflicts_with_all = OF_A_CLUSTER)]
    pub(super) desired: Option<PathBuf>,
    /// File with the live object; empty when it does not exist
    #[arg(long, value_name = "FILE", requires = "desired")]
    pub(super) live: Option<PathBuf>,
    /// File with an Application whose ignoreDifferences are used, with --desired
    #[arg(long, value_name = "FILE", requires = "desired")]
    pub(super) config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) controller: ControllerArgs,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

impl DiffArgs {
    /// Those for an Application as it is.
    pub(super) fn of_application(name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            appset: false,
            files: Vec::new(),
            revisions: Vec::new(),
            local: None,
            repo: None,
            resources: Vec::new(),
            desired: None,
            live: None,
            config: None,
            controller: ControllerArgs::default(),
            cluster: ClusterArgs::default(),
            output: OutputArgs { format: OutputFormat::default() },
        }
    }
}
