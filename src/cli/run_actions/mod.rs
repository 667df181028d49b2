//! What people ask of rollouts: pause, approve, abort and the others (ST-070).
//!
//! [`RunAction`] is the table of the verbs. Each finds its objects, and names the function of
//! [`wavegate_rollout::requests`] that says whether it makes sense and what it writes. What they
//! share is in [`request`]: it is said before what happens, a person is asked, and the outcome is
//! printed.

mod request;
mod retry;
mod selection;
mod skip;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use serde_json::Value;

use self::request::{ActionOptions, ActionResults, PlannedAction, Session, Verb};
use self::selection::SetSelection;
use crate::cli::cluster::controller::ControllerArgs;
use crate::cli::cluster::{ClusterConnection, block_on};
use crate::cli::console::error::{CHECK_FAILED, Error, note};
use crate::cli::plan;
use wavegate_api::Raw;
use wavegate_rollout::application_set::is_owned;
use wavegate_rollout::requests::{self, RollbackScope, Run};

/// What ends every help of a verb.
const EXIT_CODES: &str = "Exit codes: 0 done, or it was so already; 1 refused, not confirmed, or not \
written; 2 wrong use, or the cluster cannot be read.";

/// The verbs, with what each is given.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum RunAction {
    /// Stop promoting Applications, until it is resumed
    ///
    /// Writes the annotation wavegate.dev/paused on the ApplicationSet. Running syncs end by
    /// themselves; health and drift are still observed.
    #[command(after_help = EXIT_CODES)]
    Pause {
        #[command(flatten)]
        sets: SetSelection,
        /// Why, for others; the user is added
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        options: ActionOptions,
    },
    /// Promote Applications again, after a pause
    ///
    /// Removes the annotation wavegate.dev/paused of the ApplicationSet. A set that a RolloutPolicy
    /// pauses is resumed there; the error says which one it is.
    #[command(after_help = EXIT_CODES)]
    Resume {
        #[command(flatten)]
        sets: SetSelection,
        #[command(flatten)]
        options: ActionOptions,
    },
    /// Approve the gates that a rollout waits for, or deletions that are held
    ///
    /// An approval of a gate counts for the current run, and as long as the targets behind the gate
    /// are those that were approved.
    #[command(after_help = EXIT_CODES)]
    Approve {
        #[command(flatten)]
        sets: SetSelection,
        /// Only this gate, also before it is reached; by default all that wait for approvals
        #[arg(long, value_name = "GATE")]
        gate: Option<String>,
        /// Only if the plan of the ApplicationSet has this hash, as `wavegate plan --live` prints it
        /// with the same settings of the controller
        #[arg(
            long,
            value_name = "HASH",
            value_parser = clap::builder::NonEmptyStringValueParser::new(),
            conflicts_with_all = ["selector", "all_namespaces"]
        )]
        plan: Option<String>,
        /// Approve the deletions that the condition DeletionsHeld names
        #[arg(long, conflicts_with = "gate")]
        deletions: bool,
        #[command(flatten)]
        options: ActionOptions,
        /// For the hash of `--plan`.
        #[command(flatten)]
        controller: ControllerArgs,
    },
    /// End the current run: nothing more of it is promoted
    ///
    /// What was started stays as it is. The targets of the run are not promoted again until they
    /// change, or until wavegate retry.
    #[command(after_help = EXIT_CODES)]
    Abort {
        #[command(flatten)]
        sets: SetSelection,
        /// Also terminate the running operations that the run started
        #[arg(long)]
        terminate: bool,
        #[command(flatten)]
        options: ActionOptions,
    },
    /// End the current run, and take back what it started
    ///
    /// Each Application that the run started goes back to its last good revisions, in the reverse
    /// order of steps and within the same limits.
    #[command(after_help = EXIT_CODES)]
    Rollback {
        #[command(flatten)]
        sets: SetSelection,
        #[command(flatten)]
        options: ActionOptions,
    },
    /// Start failed Applications of the current run again
    ///
    /// With the name of an ApplicationSet, all that failed, once each; that lifts the quarantine of
    /// the run's targets. With the name of an Application, that one, also when a person has synced it
    /// to something else. app/NAME and appset/NAME say which is meant.
    #[command(
        after_help = EXIT_CODES,
        mut_arg("name", |name| name.value_name("APP|APPSET").help("Name of an ApplicationSet or of an Application"))
    )]
    Retry {
        #[command(flatten)]
        selection: SetSelection,
        #[command(flatten)]
        options: ActionOptions,
    },
    /// Leave Applications out of the current run
    ///
    /// They are not promoted in it, and their step does not wait for them. The next run takes them
    /// again; --undo takes them into the current one again.
    #[command(after_help = EXIT_CODES)]
    Skip {
        /// Names of Applications
        #[arg(value_name = "APP", required = true)]
        names: Vec<String>,
        /// Take back that they are left out
        #[arg(long)]
        undo: bool,
        #[command(flatten)]
        options: ActionOptions,
    },
}

/// A verb in words, as on the command line.
#[derive(Clone, Debug, Parser)]
#[command(name = "wavegate")]
struct ActionWords {
    #[command(subcommand)]
    action: RunAction,
}

/// One use of a verb, with the words of its command: what becomes of it, as `-o json` prints it.
/// Nobody is asked: the words say `--yes` or `--dry-run`.
pub(super) async fn act_in_words(
    cluster: &ClusterConnection,
    words: &[String],
) -> Result<Value, Error> {
    let parsed = ActionWords::try_parse_from(
        std::iter::once("wavegate").chain(words.iter().map(String::as_str)),
    );
    let words = parsed.map_err(|error| Error::input("cannot use", "the verb", error.kind()))?;
    let action = &words.action;
    let session = Session { cluster, options: action.options(), verb: action.verb() };
    Ok(action.request(&session).await?.outcomes())
}

impl RunAction {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        if self.is_of_another_plan()? {
            return Ok(ExitCode::from(CHECK_FAILED));
        }
        let options = self.options();
        let answer = block_on(async {
            let cluster = ClusterConnection::connect(&options.cluster).await?;
            self.request(&Session { cluster: &cluster, options, verb: self.verb() }).await
        })?;
        answer.print(options)
    }

    fn options(&self) -> &ActionOptions {
        let (Self::Pause { options, .. }
        | Self::Resume { options, .. }
        | Self::Approve { options, .. }
        | Self::Abort { options, .. }
        | Self::Rollback { options, .. }
        | Self::Retry { options, .. }
        | Self::Skip { options, .. }) = self;
        options
    }

    fn verb(&self) -> Verb {
        let (name, done) = match self {
            Self::Pause { .. } => ("pause", "paused"),
            Self::Resume { .. } => ("resume", "resumed"),
            Self::Approve { .. } => ("approve", "approved"),
            Self::Abort { .. } => ("abort", "abort requested"),
            Self::Rollback { .. } => ("rollback", "rollback requested"),
            Self::Retry { .. } => ("retry", "retry requested"),
            Self::Skip { undo: true, .. } => ("skip --undo", "skipped no more"),
            Self::Skip { .. } => ("skip", "skipped"),
        };
        Verb { name, done }
    }

    async fn request(&self, session: &Session<'_>) -> Result<ActionResults, Error> {
        match self {
            Self::Pause { sets, reason, .. } => {
                let found = sets.find(session.cluster).await?;
                let user = session.user_request().await?;
                let decide =
                    |set: &_| requests::pause_set(set, reason.as_deref(), user.person().by);
                session.change_sets(&found, sets, decide).await
            }
            Self::Resume { sets, .. } => resume(session, sets).await,
            Self::Approve { sets, deletions: true, .. } => {
                let found = sets.find(session.cluster).await?;
                session.change_sets(&found, sets, requests::approve_deletions).await
            }
            Self::Approve { sets, gate, .. } => {
                let gate = gate.as_deref();
                session.change_runs(sets, |run, by| requests::approve_gates(run, gate, by)).await
            }
            Self::Abort { sets, terminate, .. } => {
                session.change_runs(sets, |run, by| requests::abort_run(run, *terminate, by)).await
            }
            Self::Rollback { sets, .. } => rollback(session, sets).await,
            Self::Retry { selection, .. } => retry::retry(session, selection).await,
            Self::Skip { names, undo, .. } => skip::skip(session, names, *undo).await,
        }
    }

    /// Whether an approval is of another plan than the one that there is now, which is noted.
    fn is_of_another_plan(&self) -> anyhow::Result<bool> {
        let Self::Approve { sets, plan: Some(wanted), options, controller, .. } = self else {
            return Ok(false);
        };
        let Some(set) = sets.name.as_deref() else { return Ok(false) };
        let found = block_on(plan::hash_of(&options.cluster, controller, set))?;
        if found.as_ref() == Some(wanted) {
            return Ok(false);
        }
        let found = plan::in_words(found.as_deref());
        note(&format!(
            "not approved: the plan of {set} has {found} now, and not {wanted}: \
             wavegate plan --live {set}"
        ));
        Ok(true)
    }
}

/// Ends a pause, unless a policy pauses the set.
async fn resume(session: &Session<'_>, sets: &SetSelection) -> Result<ActionResults, Error> {
    let found = sets.find(session.cluster).await?;
    let mut policies: BTreeMap<&str, Vec<Arc<Value>>> = BTreeMap::new();
    for namespace in found.iter().map(|set| set.namespace()) {
        if !policies.contains_key(namespace) {
            policies.insert(namespace, selection::policies(session.cluster, namespace).await);
        }
    }
    let user = session.user_request().await?;
    let decide = |set: &Value| {
        let of_namespace = policies.get(set.namespace()).map(Vec::as_slice).unwrap_or_default();
        requests::resume_set(set, of_namespace, user.person().by)
    };
    session.change_sets(&found, sets, decide).await
}

/// Takes back what runs started: their Applications say what each can go back to.
async fn rollback(session: &Session<'_>, sets: &SetSelection) -> Result<ActionResults, Error> {
    let found = sets.with_runs(session.cluster).await?;
    // A namespace is absent where its Applications cannot be read.
    let mut applications: BTreeMap<&str, Option<Vec<Arc<Value>>>> = BTreeMap::new();
    for (set, _) in found.iter().filter(|(_, run)| run.is_some()) {
        applications.insert(set.namespace(), None);
    }
    for (namespace, known) in &mut applications {
        let read = session.cluster.list("Application", Some(namespace), None).await;
        let failed = |error| note(&format!("it is not known how many can go back: {error}"));
        *known = read.map_err(failed).ok();
    }
    let user = session.user_request().await?;
    let action = |(set, run): &(Arc<Value>, Option<Arc<Value>>)| {
        let (of, user) = (applications.get(set.namespace()).and_then(Option::as_ref), &user);
        let set = Arc::clone(set);
        PlannedAction::for_run(&Arc::clone(&set), run.as_ref(), move |run| {
            let reach = of.map(|all| {
                let owned = all.iter().filter(|one| is_owned(one, &set));
                RollbackScope::of(run.name(), owned.map(Arc::as_ref))
            });
            requests::rollback_run(&Run::of(&set, run), reach.as_ref(), user.person())
        })
    };
    let actions: Vec<PlannedAction<'_>> = found.iter().map(action).collect();
    session.carry_out(&actions, sets.is_one()).await
}
