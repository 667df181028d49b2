//! What the command is given.

use std::path::PathBuf;
use std::time::Duration;

use super::request::request_id;
use crate::cli::cluster::ClusterArgs;
use crate::cli::console::output::OutputArgs;
use crate::cli::watch::args::timeout;
use wavegate_application::manual::SyncRequest;

/// Sync Applications, or manifests without an Application
///
/// Writes an operation with the Application's own sync options and retry strategy, as the
/// Argo CD command line does, and follows it until it has ended: one line for each
/// transition of a phase, a wave, a hook or a resource.
///
/// With -f, the sync engine runs once in this process against the cluster of the kube
/// context: phases, waves, hooks and health as for an Application, without one. What was
/// applied gets a label and an annotation, so that --prune deletes what an earlier run of
/// the same --name has applied and is no longer in the files. Objects of an Application or of
/// another run are refused.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 the operation succeeded; 1 it failed, or has not ended in \
time; 2 usage error or invalid input; 130 interrupted.")]
pub(in crate::cli) struct SyncArgs {
    /// Applications to sync
    #[arg(value_name = "APP", required_unless_present_any = ["files", "selector"])]
    pub(super) names: Vec<String>,
    /// Sync all Applications with these labels
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "names")]
    pub(super) selector: Option<String>,
    /// Sync these manifests instead: a file, a directory, a kustomization, a chart, or -
    /// for standard input
    #[arg(short, long = "filename", value_name = "DIR|FILE", conflicts_with_all = ["names", "selector"])]
    pub(super) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) what: OperationArgs,
    /// Print the progress until the operation has ended; the default
    #[arg(long, conflicts_with = "no_wait")]
    pub(super) wait: bool,
    /// Write the operation only
    #[arg(long, conflicts_with = "files")]
    pub(super) no_wait: bool,
    /// Longest time to wait, such as 10m; the operation of an Application goes on, one of -f
    /// is terminated
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = timeout)]
    pub(super) timeout: Option<Duration>,
    /// Name of the run, with -f: --prune deletes only what a run of the same name and
    /// namespace has applied, and needs it; otherwise the name of the folder by default
    #[arg(long, value_name = "NAME", requires = "files")]
    pub(super) name: Option<String>,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

impl SyncArgs {
    /// Whether the sync engine runs in this process.
    pub fn is_local(&self) -> bool {
        !self.files.is_empty()
    }
}

/// What to sync, and how.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct OperationArgs {
    /// Revision to sync to; that of the spec by default. Once for each source
    #[arg(long, value_name = "REV", conflicts_with = "files")]
    pub(super) revision: Vec<String>,
    /// Delete resources that are no longer in the source
    #[arg(long)]
    pub(super) prune: bool,
    /// Check what would be applied, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Delete and create resources that cannot be updated
    #[arg(long)]
    pub(super) force: bool,
    /// Sync option, such as CreateNamespace=true, in addition to those of the Application
    #[arg(long = "option", value_name = "NAME=VALUE")]
    pub(super) options: Vec<String>,
    /// Sync only this resource, without hooks: GROUP:KIND:[NAMESPACE/]NAME; * selects all
    #[arg(long = "resource", value_name = "RESOURCE")]
    pub(super) resources: Vec<String>,
    /// Information to store with the operation
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "files")]
    pub(super) info: Vec<String>,
}

impl OperationArgs {
    /// The request of one operation, by this user.
    pub(super) fn request(&self, by: &str) -> SyncRequest {
        SyncRequest {
            revisions: self.revision.clone(),
            prune: self.prune,
            dry_run: self.dry_run,
            force: self.force,
            options: self.options.clone(),
            resources: self.resources.clone(),
            info: self.info.clone(),
            username: by.to_owned(),
            id: request_id(),
        }
    }
}
