//! What people do to rollouts: pause, approve, abort and the others (ST-070), and what they read
//! of runs and policies.
//!
//! Each verb is a file: it finds its objects, and names the word of [`wavegate_rollout::steering`],
//! which says whether it makes sense and what it writes. Here is what they share: it is said
//! before what happens, a person is asked, and the outcome is printed.

mod abort;
mod approve;
mod ask;
mod find;
mod history;
mod pause;
mod policies;
mod record;
mod resume;
mod retry;
mod rollback;
mod skip;
mod wait;

pub(super) use self::abort::{Args as AbortArgs, run as abort};
pub(super) use self::approve::{Args as ApproveArgs, run as approve};
pub(super) use self::history::{Args as HistoryArgs, run as history};
pub(super) use self::pause::{Args as PauseArgs, run as pause};
pub(super) use self::policies::{Args as PoliciesArgs, run as policies};
pub(super) use self::resume::{Args as ResumeArgs, run as resume};
pub(super) use self::retry::{Args as RetryArgs, run as retry};
pub(super) use self::rollback::{Args as RollbackArgs, run as rollback};
pub(super) use self::skip::{Args as SkipArgs, run as skip};
pub(super) use self::wait::{Args as WaitArgs, run as wait};
use super::cluster::ClusterArgs;
use super::output::Output;

/// What ends every help of a verb.
const EXIT_CODES: &str = "Exit codes: 0 done, or it was so already; 1 refused, not confirmed, or not \
written; 2 wrong use, or the cluster cannot be read.";

/// Options of every verb.
#[derive(Clone, Debug, clap::Args)]
struct Common {
    /// Do not ask; needed when standard input is no terminal
    #[arg(short, long)]
    yes: bool,
    /// Print what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: Output,
}

/// One ApplicationSet, or several.
#[derive(Clone, Debug, clap::Args)]
struct Sets {
    /// Name of the ApplicationSet
    #[arg(value_name = "APPSET", required_unless_present_any = ["selector", "all_namespaces"],
        conflicts_with_all = ["selector", "all_namespaces"])]
    name: Option<String>,
    /// All ApplicationSets with these labels
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// The ApplicationSets of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
}
