//! An action on objects: says what it will do, asks, writes, and says what became of it.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::Client;
use serde::Serialize;
use serde_json::{Value, json};

use super::selection::SetSelection;
use crate::cli::cluster::kubeconfig::current_user;
use crate::cli::cluster::{ClusterArgs, ClusterConnection};
use crate::cli::console::error::{CHECK_FAILED, Error, fault, note};
use crate::cli::console::output::{OutputArgs, OutputFormat, line};
use wavegate_api::Raw;
use wavegate_api::run::RUN;
use wavegate_cluster::act::commands::requests::{self, Written};
use wavegate_rollout::requests::{Actor, RequestedChange, Run, Verdict};

/// Writes that are sent in parallel.
const PARALLEL: usize = 10;
/// Time limit of a write.
const ANSWER: Duration = Duration::from_secs(30);

/// A verb, in the words of messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verb {
    /// As on the command line.
    pub name: &'static str,
    /// What is said when its request is written.
    pub done: &'static str,
}

/// Options of every verb.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct ActionOptions {
    /// Do not ask; needed when standard input is no terminal
    #[arg(short, long)]
    yes: bool,
    /// Print what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Who requests it, and when.
pub(super) struct OwnedActor {
    by: String,
    at: Timestamp,
}

impl OwnedActor {
    /// The same, but not before a time that is known to have passed.
    pub fn not_before(self, time: Timestamp) -> Self {
        Self { at: self.at.max(time), ..self }
    }

    /// The same for decisions.
    pub fn person(&self) -> Actor<'_> {
        Actor { by: &self.by, at: self.at }
    }
}

/// What an action comes to for an object as stored.
type Decide<'a> = Box<dyn Fn(&Value) -> Verdict + 'a>;

/// What a verb comes to for one ApplicationSet.
pub(super) struct PlannedAction<'a> {
    namespace: String,
    set: String,
    run: Option<String>,
    /// Kind and object that are written, and what it comes to.
    target: Option<(&'static str, Arc<Value>, Decide<'a>)>,
    verdict: Verdict,
}

impl<'a> PlannedAction<'a> {
    /// One that is written to an ApplicationSet.
    pub fn for_set(set: &Arc<Value>, decide: impl Fn(&Value) -> Verdict + 'a) -> Self {
        Self::new(set, None, "ApplicationSet", set, decide)
    }

    /// One that is written to its current run; refused without one.
    pub fn for_run(
        set: &Value,
        run: Option<&Arc<Value>>,
        decide: impl Fn(&Value) -> Verdict + 'a,
    ) -> Self {
        match run {
            Some(run) => Self::new(set, Some(run.name().to_owned()), RUN, run, decide),
            None => Self {
                namespace: set.namespace().to_owned(),
                set: set.name().to_owned(),
                run: None,
                target: None,
                verdict: Verdict::Refused(
                    "it has no run: nothing was rolled out in steps since runs are recorded"
                        .to_owned(),
                ),
            },
        }
    }

    fn new(
        set: &Value,
        run: Option<String>,
        kind: &'static str,
        object: &Arc<Value>,
        decide: impl Fn(&Value) -> Verdict + 'a,
    ) -> Self {
        Self {
            namespace: set.namespace().to_owned(),
            set: set.name().to_owned(),
            run,
            verdict: decide(object),
            target: Some((kind, Arc::clone(object), Box::new(decide))),
        }
    }

    fn place(&self) -> String {
        format!("ApplicationSet {}/{}", self.namespace, self.set)
    }

    fn outcome(
        &self,
        verb: Verb,
        state: ActionState,
        message: &str,
        applications: i64,
    ) -> ActionOutcome {
        ActionOutcome {
            namespace: self.namespace.clone(),
            application_set: self.set.clone(),
            run: self.run.clone(),
            verb: verb.name,
            outcome: state,
            applications,
            message: message.to_owned(),
        }
    }

    /// Writes a change that was confirmed.
    async fn write(&self, client: &Client, verb: Verb) -> ActionOutcome {
        let (Some((kind, object, decide)), Verdict::Change { says, applications, change }) =
            (&self.target, &self.verdict)
        else {
            return self.unwritten(verb, false);
        };
        let (state, message) = match within(client, kind, object, change, decide).await {
            Ok(Written::Stored) => (ActionState::Done, says.clone()),
            Ok(Written::Already(how)) => (ActionState::Already, how),
            Err(requests::WriteError::Failed(why)) => (ActionState::Failed, why),
            Err(error) => (ActionState::Refused, error.to_string()),
        };
        self.outcome(verb, state, &message, *applications)
    }

    /// The outcome without a write.
    fn unwritten(&self, verb: Verb, is_dry: bool) -> ActionOutcome {
        match &self.verdict {
            Verdict::Change { says, applications, .. } => {
                let state = if is_dry { ActionState::Planned } else { ActionState::Refused };
                self.outcome(verb, state, says, *applications)
            }
            Verdict::Already(how) => self.outcome(verb, ActionState::Already, how, 0),
            Verdict::Refused(why) => self.outcome(verb, ActionState::Refused, why, 0),
        }
    }
}

async fn within(
    client: &Client,
    kind: &str,
    object: &Value,
    change: &RequestedChange,
    decide: &Decide<'_>,
) -> Result<Written, requests::WriteError> {
    let writing = requests::write_confirmed(client, kind, object, change, decide);
    tokio::time::timeout(ANSWER, writing).await.unwrap_or_else(|_| {
        let why = format!("no response within {} s; it may be written", ANSWER.as_secs());
        Err(requests::WriteError::Failed(why))
    })
}

/// What became of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum ActionState {
    /// It is written.
    Done,
    /// It was so already.
    Already,
    /// It would be written.
    Planned,
    /// It makes no sense.
    Refused,
    /// It could not be written.
    Failed,
}

/// The outcome for one ApplicationSet.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ActionOutcome {
    namespace: String,
    application_set: String,
    /// The run that was written to; `null` for an action on the set.
    run: Option<String>,
    verb: &'static str,
    outcome: ActionState,
    /// How many Applications it is about, as far as that is known.
    applications: i64,
    message: String,
}

impl ActionOutcome {
    fn place(&self) -> String {
        format!("ApplicationSet {}/{}", self.namespace, self.application_set)
    }

    fn error(&self) -> Error {
        let what = match self.outcome {
            ActionState::Failed => format!("cannot write: {}", self.verb),
            _ => format!("cannot {}", self.verb),
        };
        Error::check(what, self.place(), &self.message)
    }

    /// Its line on standard output; that of an error is on standard error.
    fn line(&self, verb: Verb) -> Option<String> {
        let place = self.place();
        let text = match self.outcome {
            ActionState::Done => match &self.run {
                Some(run) => format!("{place}: {} (run {run})", verb.done),
                None => format!("{place}: {}", verb.done),
            },
            ActionState::Already => format!("{place}: already: {}", self.message),
            ActionState::Planned => format!("{place}: would {}", self.message),
            ActionState::Refused | ActionState::Failed => return None,
        };
        Some(line(&text))
    }
}

/// One use of a verb.
pub(super) struct Session<'a> {
    pub cluster: &'a ClusterConnection,
    pub options: &'a ActionOptions,
    pub verb: Verb,
}

impl Session<'_> {
    /// The user of the connection.
    pub async fn user_request(&self) -> Result<OwnedActor, Error> {
        let context = self.options.cluster.context.as_deref();
        let by = current_user(self.cluster.client(), context).await?;
        Ok(OwnedActor { by, at: Timestamp::now() })
    }

    /// Changes ApplicationSets that were found.
    pub async fn change_sets(
        &self,
        found: &[Arc<Value>],
        sets: &SetSelection,
        decide: impl Fn(&Value) -> Verdict,
    ) -> Result<ActionResults, Error> {
        let actions = found.iter().map(|set| PlannedAction::for_set(set, &decide));
        self.carry_out(&actions.collect::<Vec<_>>(), sets.is_one()).await
    }

    /// Changes the current runs of ApplicationSets.
    pub async fn change_runs(
        &self,
        sets: &SetSelection,
        decide: impl Fn(&Run, Actor<'_>) -> Verdict,
    ) -> Result<ActionResults, Error> {
        let found = sets.with_runs(self.cluster).await?;
        let user = self.user_request().await?;
        let (decide, user) = (&decide, &user);
        let actions = found.iter().map(|(set, run)| {
            let of_stored = move |run: &Value| decide(&Run::of(set, run), user.person());
            PlannedAction::for_run(set, run.as_ref(), of_stored)
        });
        self.carry_out(&actions.collect::<Vec<_>>(), sets.is_one()).await
    }

    /// Says what the actions will do, asks, and writes. `is_one`: whether one ApplicationSet was
    /// named; an action on several leaves out those where it makes no sense.
    pub async fn carry_out(
        &self,
        actions: &[PlannedAction<'_>],
        is_one: bool,
    ) -> Result<ActionResults, Error> {
        let verb = self.verb;
        if self.options.dry_run {
            let outcomes = actions.iter().map(|action| action.unwritten(verb, true)).collect();
            return Ok(ActionResults { outcomes, is_one, verb });
        }
        let mut count = 0;
        for action in actions {
            if let Verdict::Change { says, .. } = &action.verdict {
                note(&format!("{}: will {says}", action.place()));
                count += 1;
            }
        }
        if count > 0 && !self.options.yes && !confirmed(verb, count)? {
            let why = "it was not confirmed, and nothing is written";
            let is_change =
                |action: &&PlannedAction<'_>| matches!(action.verdict, Verdict::Change { .. });
            let place = match actions.iter().filter(is_change).collect::<Vec<_>>().as_slice() {
                [one] => one.place(),
                all => format!("{} ApplicationSets", all.len()),
            };
            return Err(Error::check(format!("cannot {}", verb.name), place, why));
        }
        let client = self.cluster.client();
        let writes = actions.iter().map(|action| action.write(client, verb));
        let outcomes = futures::stream::iter(writes).buffered(PARALLEL).collect().await;
        Ok(ActionResults { outcomes, is_one, verb })
    }
}

/// Asks on the terminal.
fn confirmed(verb: Verb, count: usize) -> Result<bool, Error> {
    if !std::io::stdin().is_terminal() {
        let why = "standard input is no terminal: --yes writes without a question, --dry-run \
                   shows what would be written";
        return Err(Error::input("cannot ask", format!("wavegate {}", verb.name), why));
    }
    let of = if count == 1 { String::new() } else { format!(" for {count} ApplicationSets") };
    // A closed standard error or input is no "yes".
    let _ = write!(std::io::stderr(), "Proceed{of}? [y/N] ");
    let mut answer = String::new();
    let _ = std::io::stdin().read_line(&mut answer);
    Ok(["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes)))
}

/// What became of all actions.
pub(super) struct ActionResults {
    outcomes: Vec<ActionOutcome>,
    is_one: bool,
    verb: Verb,
}

impl ActionResults {
    /// What became of each, as data.
    pub fn outcomes(&self) -> Value {
        json!(self.outcomes)
    }

    /// Prints it, and returns the exit code.
    pub fn print(&self, options: &ActionOptions) -> anyhow::Result<ExitCode> {
        let lines = |outcomes: &[ActionOutcome]| -> String {
            outcomes.iter().filter_map(|outcome| outcome.line(self.verb)).collect()
        };
        match (self.outcomes.as_slice(), options.output.format) {
            ([one], _) if self.is_one => {
                options.output.print(one, |one| lines(std::slice::from_ref(one)))?;
            }
            (all, OutputFormat::Table) => options.output.print(&(), |()| lines(all))?,
            (all, OutputFormat::Json | OutputFormat::Yaml) => {
                options.output.print(&all, |_| String::new())?
            }
        }
        let is = |state: ActionState| self.outcomes.iter().filter(move |one| one.outcome == state);
        is(ActionState::Failed).for_each(|outcome| fault(&outcome.error()));
        let refused = is(ActionState::Refused).count();
        let all_refused = refused == self.outcomes.len();
        for outcome in is(ActionState::Refused) {
            match self.is_one || all_refused {
                true => fault(&outcome.error()),
                false => note(&format!("{}: left out: {}", outcome.place(), outcome.message)),
            }
        }
        let failed =
            is(ActionState::Failed).next().is_some() || all_refused || (self.is_one && refused > 0);
        Ok(ExitCode::from(if failed { CHECK_FAILED } else { 0 }))
    }
}
