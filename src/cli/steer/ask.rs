//! Says what a verb will do, asks, writes, and says what became of it.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::Client;
use serde::Serialize;
use serde_json::Value;

use super::{Common, Sets};
use crate::cli::cluster::ClusterConnection;
use crate::cli::error::{CHECK_FAILED, Error, fault, note};
use crate::cli::kubeconfig;
use crate::cli::output::{Format, printable};
use wavegate_api::Raw;
use wavegate_api::steering::RUN;
use wavegate_cluster::act::steering::{self, Written};
use wavegate_rollout::steering::{Actor, Change, Run, Verdict};

/// Writes that are sent in parallel.
const PARALLEL: usize = 10;
/// Time limit of a write, and of the question who the user is.
const ANSWER: Duration = Duration::from_secs(30);

/// A verb, in the words of messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verb {
    /// As on the command line.
    pub name: &'static str,
    /// What is said when its word is written.
    pub done: &'static str,
}

/// Who speaks, and when.
pub(super) struct Speaker {
    by: String,
    at: Timestamp,
}

impl Speaker {
    /// The user of the connection, as the API server names it; else that of the kube context,
    /// marked as such.
    pub async fn of(cluster: &ClusterConnection, common: &Common) -> Result<Self, Error> {
        let user = tokio::time::timeout(ANSWER, steering::user(cluster.client())).await;
        let failed = |why: String| Error::input("cannot read from the cluster", "the user", why);
        let user = user
            .unwrap_or_else(|_| Err(format!("no response within {} s", ANSWER.as_secs())))
            .map_err(failed)?;
        let by = user.unwrap_or_else(|| {
            let context = common.cluster.context.as_deref();
            let user = kubeconfig::user(context).unwrap_or_else(|| "unknown user".to_owned());
            format!("{user} (kube context)")
        });
        Ok(Self { by, at: Timestamp::now() })
    }

    /// The same, but not before a time that is known to have passed.
    pub fn not_before(self, time: Timestamp) -> Self {
        Self { at: self.at.max(time), ..self }
    }

    /// The same for decisions.
    pub fn person(&self) -> Actor<'_> {
        Actor { by: &self.by, at: self.at }
    }
}

/// What a word comes to for an object as stored.
type Decide<'a> = Box<dyn Fn(&Value) -> Verdict + 'a>;

/// A word about one ApplicationSet.
pub(super) struct Request<'a> {
    namespace: String,
    set: String,
    run: Option<String>,
    /// Kind and object that are written, and what the word comes to.
    target: Option<(&'static str, Arc<Value>, Decide<'a>)>,
    verdict: Verdict,
}

impl<'a> Request<'a> {
    /// A word that is written to an ApplicationSet.
    pub fn to_set(set: &Arc<Value>, decide: impl Fn(&Value) -> Verdict + 'a) -> Self {
        Self::new(set, None, "ApplicationSet", set, decide)
    }

    /// A word that is written to its current run; refused without one.
    pub fn to_run(
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

    fn outcome(&self, verb: Verb, state: State, message: &str, applications: i64) -> Outcome {
        Outcome {
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
    async fn write(&self, client: &Client, verb: Verb) -> Outcome {
        let (Some((kind, object, decide)), Verdict::Change { says, applications, change }) =
            (&self.target, &self.verdict)
        else {
            return self.unwritten(verb, false);
        };
        let (state, message) = match within(client, kind, object, change, decide).await {
            Ok(Written::Stored) => (State::Done, says.clone()),
            Ok(Written::Already(how)) => (State::Already, how),
            Err(steering::Error::Failed(why)) => (State::Failed, why),
            Err(error) => (State::Refused, error.to_string()),
        };
        self.outcome(verb, state, &message, *applications)
    }

    /// The outcome without a write.
    fn unwritten(&self, verb: Verb, is_dry: bool) -> Outcome {
        match &self.verdict {
            Verdict::Change { says, applications, .. } => {
                let state = if is_dry { State::Planned } else { State::Refused };
                self.outcome(verb, state, says, *applications)
            }
            Verdict::Already(how) => self.outcome(verb, State::Already, how, 0),
            Verdict::Refused(why) => self.outcome(verb, State::Refused, why, 0),
        }
    }
}

async fn within(
    client: &Client,
    kind: &str,
    object: &Value,
    change: &Change,
    decide: &Decide<'_>,
) -> Result<Written, steering::Error> {
    let writing = steering::write(client, kind, object, change, decide);
    tokio::time::timeout(ANSWER, writing).await.unwrap_or_else(|_| {
        let why = format!("no response within {} s; it may be written", ANSWER.as_secs());
        Err(steering::Error::Failed(why))
    })
}

/// What became of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum State {
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
struct Outcome {
    namespace: String,
    application_set: String,
    /// The run that was written to; `null` for a word about the set.
    run: Option<String>,
    verb: &'static str,
    outcome: State,
    /// How many Applications it is about, as far as that is known.
    applications: i64,
    message: String,
}

impl Outcome {
    fn place(&self) -> String {
        format!("ApplicationSet {}/{}", self.namespace, self.application_set)
    }

    fn error(&self) -> Error {
        let what = match self.outcome {
            State::Failed => format!("cannot write: {}", self.verb),
            _ => format!("cannot {}", self.verb),
        };
        Error::check(what, self.place(), &self.message)
    }

    /// Its line on standard output; that of an error is on standard error.
    fn line(&self, verb: Verb) -> Option<String> {
        let place = self.place();
        let text = match self.outcome {
            State::Done => match &self.run {
                Some(run) => format!("{place}: {} (run {run})", verb.done),
                None => format!("{place}: {}", verb.done),
            },
            State::Already => format!("{place}: already: {}", self.message),
            State::Planned => format!("{place}: would {}", self.message),
            State::Refused | State::Failed => return None,
        };
        Some(printable(&text) + "\n")
    }
}

/// A word about the current runs of ApplicationSets.
pub(super) async fn speak_of_runs(
    cluster: &ClusterConnection,
    common: &Common,
    verb: Verb,
    sets: &Sets,
    decide: impl Fn(&Run, Actor<'_>) -> Verdict,
) -> Result<Answer, Error> {
    let found = sets.with_runs(cluster).await?;
    let speaker = Speaker::of(cluster, common).await?;
    let (decide, speaker) = (&decide, &speaker);
    let requests: Vec<Request<'_>> = found
        .iter()
        .map(|(set, run)| {
            let of_stored = move |run: &Value| decide(&Run::of(set, run), speaker.person());
            Request::to_run(set, run.as_ref(), of_stored)
        })
        .collect();
    speak(cluster, common, verb, &requests, sets.is_one()).await
}

/// Says what the requests will do, asks, and writes. `is_one`: whether one ApplicationSet was
/// named; a word about several leaves out those where it makes no sense.
pub(super) async fn speak(
    cluster: &ClusterConnection,
    common: &Common,
    verb: Verb,
    requests: &[Request<'_>],
    is_one: bool,
) -> Result<Answer, Error> {
    let changes = || requests.iter().filter(|one| matches!(one.verdict, Verdict::Change { .. }));
    if common.dry_run {
        let outcomes = requests.iter().map(|request| request.unwritten(verb, true)).collect();
        return Ok(Answer { outcomes, is_one, verb });
    }
    for request in changes() {
        if let Verdict::Change { says, .. } = &request.verdict {
            note(&format!("{}: will {says}", request.place()));
        }
    }
    let count = changes().count();
    if count > 0 && !common.yes && !confirmed(verb, count)? {
        let why = "it was not confirmed, and nothing is written";
        let place = match requests {
            [one] => one.place(),
            all => format!("{} ApplicationSets", all.len()),
        };
        return Err(Error::check(format!("cannot {}", verb.name), place, why));
    }
    let client = cluster.client();
    let writes = requests.iter().map(|request| request.write(client, verb));
    let outcomes = futures::stream::iter(writes).buffered(PARALLEL).collect().await;
    Ok(Answer { outcomes, is_one, verb })
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

/// What became of all requests.
pub(super) struct Answer {
    outcomes: Vec<Outcome>,
    is_one: bool,
    verb: Verb,
}

impl Answer {
    /// Prints it, and returns the exit code.
    pub fn print(&self, common: &Common) -> anyhow::Result<ExitCode> {
        let lines = |outcomes: &[Outcome]| -> String {
            outcomes.iter().filter_map(|outcome| outcome.line(self.verb)).collect()
        };
        match (self.outcomes.as_slice(), common.output.format) {
            ([one], _) if self.is_one => {
                common.output.print(one, |one| lines(std::slice::from_ref(one)))?;
            }
            (all, Format::Table) => common.output.print(&(), |()| lines(all))?,
            (all, Format::Json | Format::Yaml) => common.output.print(&all, |_| String::new())?,
        }
        let is = |state: State| self.outcomes.iter().filter(move |one| one.outcome == state);
        is(State::Failed).for_each(|outcome| fault(&outcome.error()));
        let refused = is(State::Refused).count();
        let all_refused = refused == self.outcomes.len();
        for outcome in is(State::Refused) {
            match self.is_one || all_refused {
                true => fault(&outcome.error()),
                false => note(&format!("{}: left out: {}", outcome.place(), outcome.message)),
            }
        }
        let failed =
            is(State::Failed).next().is_some() || all_refused || (self.is_one && refused > 0);
        Ok(ExitCode::from(if failed { CHECK_FAILED } else { 0 }))
    }
}
