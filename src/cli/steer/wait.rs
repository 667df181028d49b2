//! `wavegate wait`: waits until a change is rolled out, for pipelines.

use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::runtime::watcher::{self, Event};
use serde::Serialize;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::record::{Record, revisions, shortened};
use crate::api::steering::{RUN, RunPhase, RunWait};
use crate::api::unknown::nearest;
use crate::api::{ObjectKey, Raw};
use crate::cli::cluster::{ClusterArgs, ClusterConnection, block_on};
use crate::cli::commands::{in_namespace, word};
use crate::cli::error::{CHECK_FAILED, Error, NOT_FOUND, UNDEFINED, fault, note};
use crate::cli::follow::newest::{self, Answer};
use crate::cli::output::{self, Format, Output, printable};
use crate::cli::rollout_view::events::{self, Scope, WatchEvent, Watched};
use crate::cli::rollout_view::fleet::{Fleet, Source};
use crate::cli::rollout_view::run::{estimate_text, gate_text};
use crate::cli::rollout_view::sentence::{describe, seconds, waiting};
use crate::cli::rollout_view::signals::{Signals, Wake};
use crate::cli::runs::{label_of, runs};
use crate::cli::watch_args::{timeout, until};
use crate::decide::app_state::operation::given;
use crate::decide::application_set::{is_owned, set_of};
use crate::decide::names::some_of;
use crate::decide::rollout::wait::WaitKind;
use crate::decide::steering::{
    Deployed, Ending, Goal, Progress, Run, Seen, is_revision, number_of, progress,
};
use crate::watch::failure::has_code;
use crate::watch::follow::{Events, follow, words};
use crate::watch::object::{Object, api, resource};

/// Interval of looking at what has changed.
const FRAME: Duration = Duration::from_millis(100);
/// What a newer comparison could change must stay so for this time: a controller may be about
/// to begin a run.
const SETTLED: Duration = Duration::from_secs(2);
/// The same while Applications are not as the rollout wants them.
const CHANGED: Duration = Duration::from_secs(5);
/// The same for what only a person can continue.
const STUCK: Duration = Duration::from_secs(10);
/// The most runs in a message.
const NAMES: usize = 10;

/// Wait until a change is rolled out, for pipelines
///
/// Asks the controller to read the repositories, and waits until the run of the commit is
/// complete. A run of another commit is never taken for it. Without --revision and --run, waits
/// for the current run.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  wavegate wait APPSET --revision \"$(git rev-parse HEAD)\" --timeout 30m

Exit codes: 0 complete; 1 failed, so that only a person can continue, held, aborted, rolled back, \
superseded by another change, or the time is over; 2 wrong use, or the cluster cannot be read; 130 interrupted.")]
pub(in crate::cli) struct Args {
    /// Name of the ApplicationSet
    #[arg(value_name = "APPSET")]
    name: String,
    /// Wait for the run of this commit; at least its first 7 characters
    #[arg(long, value_name = "SHA", value_parser = revision)]
    revision: Option<String>,
    /// Wait for the run with this name
    #[arg(long, value_name = "RUN", allow_negative_numbers = true, conflicts_with = "revision")]
    run: Option<String>,
    /// Longest time to wait, such as 30m
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = timeout)]
    timeout: Option<Duration>,
    /// Do not ask the controller to read the repositories
    #[arg(long)]
    no_refresh: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: Output,
}

/// A commit, its beginning, or another revision.
fn revision(text: &str) -> Result<String, String> {
    const PREFIX: usize = 7;
    let text = text.trim();
    let is_hash = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match text.len() {
        0 => Err("it is empty".to_owned()),
        short if short < PREFIX && is_hash => {
            Err(format!("the beginning of a commit has at least {PREFIX} characters"))
        }
        _ => Ok(text.to_owned()),
    }
}

/// How it ended, for JSON and YAML.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Ended {
    namespace: String,
    application_set: String,
    outcome: Ending,
    message: String,
    /// The commit that was waited for; `null` without one.
    revision: Option<String>,
    elapsed_seconds: f64,
    /// The run; `null` when none was recorded.
    run: Option<Record>,
}

/// Runs the command.
pub(in crate::cli) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (code, ended) = block_on(async {
        let cluster = ClusterConnection::connect(&args.cluster).await?;
        let mut waiting = Waiting::begin(&args, &cluster).await?;
        waiting.run(&cluster).await
    })?;
    if let Some(ended) = ended {
        args.output.print_data(&ended)?;
        if ended.outcome != Ending::Complete {
            let place = format!("ApplicationSet {}/{}", ended.namespace, ended.application_set);
            let what = match ended.outcome {
                Ending::TimedOut => "not complete in time",
                _ => "the rollout is not complete",
            };
            fault(&Error::check(what, place, &ended.message));
        }
    }
    Ok(ExitCode::from(code))
}

/// What is waited for, in a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Line {
    /// The state.
    what: String,
    /// Why it is so; may be empty.
    why: String,
}

impl From<String> for Line {
    fn from(what: String) -> Self {
        Self { what, why: String::new() }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why.as_str() {
            "" => f.write_str(&self.what),
            why => write!(f, "{}: {why}", self.what),
        }
    }
}

/// The state of the watches.
struct Waiting<'a> {
    args: &'a Args,
    set: ObjectKey,
    uid: String,
    goal: Goal,
    began: Instant,
    fleet: Fleet,
    listed: Vec<Watched>,
    /// The watches that are disconnected, with the reason.
    lost: BTreeMap<Watched, String>,
    /// Runs by name.
    runs: BTreeMap<String, Object>,
    are_runs_listed: bool,
    /// Runs cannot be read.
    has_runs: bool,
    deployed: BTreeMap<String, Deployed>,
    /// When each Application was compared last before the start.
    compared: BTreeMap<ObjectKey, String>,
    asked: Option<JoinHandle<Answer>>,
    /// Whether comparisons are newer than the start.
    is_newest: bool,
    is_gone: bool,
    settling: Option<(Ending, Instant)>,
    last: Line,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(asked) = &self.asked {
            asked.abort();
        }
    }
}

impl<'a> Waiting<'a> {
    async fn begin(args: &'a Args, cluster: &ClusterConnection) -> Result<Self, Error> {
        let set = cluster.expect_application_set(&args.name).await?;
        let goal = match (&args.run, &args.revision) {
            (Some(name), _) => {
                let runs = runs(cluster, &set).await?;
                let names = || runs.iter().map(|run| run.name());
                let number: Option<u64> = name.parse().ok();
                let is_meant =
                    |run: &&str| *run == name || (number.is_some() && number_of(run) == number);
                let Some(found) = names().find(is_meant) else {
                    let hint = match nearest(name, names()) {
                        Some(near) => format!("did you mean {near}?"),
                        None if runs.is_empty() => "it has none".to_owned(),
                        None => format!("it has {}", some_of(names(), NAMES)),
                    };
                    let place = format!("run {name} of ApplicationSet {}", ObjectKey::of(&set));
                    return Err(Error::input(
                        NOT_FOUND,
                        place,
                        format!("it does not exist; {hint}"),
                    ));
                };
                Goal::Run(found.to_owned())
            }
            (None, Some(revision)) => Goal::Revision(revision.clone()),
            (None, None) => Goal::Newest,
        };
        let is_newest = args.no_refresh || matches!(goal, Goal::Run(_));
        Ok(Self {
            args,
            fleet: Fleet::new(Source::Cluster(Some(set.name().to_owned()))),
            set: ObjectKey::of(&set),
            uid: set.uid().to_owned(),
            goal,
            began: Instant::now(),
            listed: Vec::new(),
            lost: BTreeMap::new(),
            runs: BTreeMap::new(),
            are_runs_listed: false,
            has_runs: true,
            deployed: BTreeMap::new(),
            compared: BTreeMap::new(),
            asked: None,
            is_newest,
            is_gone: false,
            settling: None,
            last: Line::default(),
        })
    }

    async fn run(&mut self, cluster: &ClusterConnection) -> Result<(u8, Option<Ended>), Error> {
        let client = cluster.client();
        let failed = |error: std::io::Error| Error::input("cannot wait", "signals", error);
        let mut signals = Signals::new(false).map_err(failed)?;
        let stop = CancellationToken::new();
        let _stopped_at_the_end = stop.clone().drop_guard();
        let scope = Scope {
            namespace: Some(self.set.namespace.clone()),
            set: Some(self.set.name.clone()),
            runs: false,
            ends_on_refusal: true,
        };
        let mut changes = events::watch(client, &scope, &stop);
        let mut config = watcher::Config::default();
        if let Some(label) = label_of(&self.set.name) {
            config = config.labels(&label);
        }
        let kind = resource(RUN);
        let mut runs: Events<Object> =
            follow(api(client, Some(&self.set.namespace), &kind), config);
        let mut ticks = tokio::time::interval(FRAME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_changed = false;
        loop {
            let over = until(self.args.timeout.map(|time| self.began + time));
            tokio::select! {
                biased;
                wake = signals.next() => if let Wake::End(code) = wake {
                    note("interrupted; the rollout goes on");
                    return Ok((code, None));
                },
                () = over => return Ok((CHECK_FAILED, Some(self.timed_out()))),
                _ = ticks.tick() => {
                    if !is_changed && self.settling.is_none() {
                        continue;
                    }
                    is_changed = false;
                    if let Some(ended) = self.look(client)? {
                        let code = if ended.outcome == Ending::Complete { 0 } else { CHECK_FAILED };
                        return Ok((code, Some(ended)));
                    }
                }
                answer = answer(&mut self.asked) => {
                    (is_changed, self.settling) = (true, None);
                    match answer {
                        // It is asked for again.
                        Answer::Unknown(_) if !self.lost.is_empty() => {}
                        Answer::Unknown(why) => {
                            self.is_newest = true;
                            note(&format!("what follows is of the last comparisons: {why}"));
                        }
                        Answer::Compared(_) => self.is_newest = true,
                    }
                }
                Some(event) = changes.recv() => {
                    is_changed = true;
                    self.apply(event)?;
                }
                Some(event) = runs.next() => {
                    is_changed = true;
                    self.apply_run(event);
                }
            }
        }
    }

    fn is_listed(&self) -> bool {
        self.listed.len() == Watched::ALL.len()
    }

    fn apply(&mut self, event: WatchEvent) -> Result<(), Error> {
        let (at, now) = (self.began.elapsed(), Timestamp::now());
        match event {
            WatchEvent::Set(set) => {
                // One of the same name that was created anew is another one.
                self.is_gone = set.uid() != self.uid;
                self.fleet.set(&set, now, at);
            }
            WatchEvent::SetGone(set) => self.is_gone |= set.uid() == self.uid,
            WatchEvent::Application(application) => {
                let live = application.parse();
                if set_of(&live) == Some(self.set.name.as_str()) {
                    if !self.is_listed() {
                        let compared = live.text("/status/reconciledAt").to_owned();
                        self.compared.insert(application.key(), compared);
                    }
                    let deployed = Deployed {
                        source: newest::sources_of(&live),
                        revisions: given(&live["status"]["sync"]),
                    };
                    self.deployed.insert(application.name().to_owned(), deployed);
                }
                self.fleet.application(&application, at);
            }
            WatchEvent::ApplicationGone(application) => {
                self.deployed.remove(application.name());
                self.fleet.application_gone(&application, at);
            }
            WatchEvent::Listed(watched) => {
                if self.lost.remove(&watched).is_some() && self.lost.is_empty() {
                    note("connected again");
                }
                if !self.listed.contains(&watched) {
                    self.listed.push(watched);
                }
            }
            // Watched by itself.
            WatchEvent::Run(_) | WatchEvent::RunGone(_) => {}
            WatchEvent::Lost(watched, why) => {
                if self.lost.is_empty() {
                    note(&format!("disconnected, retrying: {why}"));
                }
                self.lost.insert(watched, why);
                self.settling = None;
                // What does not arrive is no silence of the controller.
                if let Some(asked) = self.asked.take() {
                    asked.abort();
                }
            }
            WatchEvent::Refused(watched, why) => {
                let kind = match watched {
                    Watched::Sets => "ApplicationSets",
                    Watched::Applications => "Applications",
                    Watched::Runs => "RolloutRuns",
                };
                let place = format!("{kind} of namespace {}", self.set.namespace);
                return Err(Error::input("cannot watch", place, why));
            }
        }
        Ok(())
    }

    fn apply_run(&mut self, event: Result<Event<Object>, watcher::Error>) {
        match event {
            Ok(Event::Init) => self.runs.clear(),
            Ok(Event::InitApply(run) | Event::Apply(run)) => {
                self.runs.insert(run.name().to_owned(), run);
            }
            Ok(Event::InitDone) => (self.are_runs_listed, self.has_runs) = (true, true),
            Ok(Event::Delete(run)) => {
                self.runs.remove(run.name());
            }
            Err(watcher::Error::InitialListFailed(error @ kube::Error::Api(_)))
                if self.has_runs =>
            {
                let why = match has_code(&error, 404) {
                    true => UNDEFINED.to_owned(),
                    false => words(&watcher::Error::InitialListFailed(error)),
                };
                note(&format!("runs cannot be read, and its Applications count instead: {why}"));
                (self.are_runs_listed, self.has_runs) = (true, false);
            }
            // The watch is tried again.
            Err(error) => tracing::debug!(reason = words(&error), "cannot watch runs"),
        }
    }

    /// The runs of the set, the newest first.
    fn known_runs(&self) -> Vec<Run> {
        let owner = serde_json::json!({"metadata": {"uid": self.uid}});
        let mut runs: Vec<Run> = self
            .runs
            .values()
            .map(Object::parse)
            .filter(|run| is_owned(run, &owner))
            .map(|run| Run::read(&run))
            .collect();
        runs.sort_by_key(|run| std::cmp::Reverse(number_of(&run.name)));
        runs
    }

    /// Prints what it waits for, if that is news; the end, if it has ended.
    fn look(&mut self, client: &kube::Client) -> Result<Option<Ended>, Error> {
        if self.is_gone {
            return Ok(Some(self.ended(Ending::Deleted, None, "it was deleted".to_owned())));
        }
        if !self.is_listed() || !self.are_runs_listed || !self.lost.is_empty() {
            return Ok(None);
        }
        let runs = self.known_runs();
        let Some(set) = self.fleet.known().next() else { return Ok(None) };
        let report = &set.report;
        let seen = Seen { runs: &runs, has_runs: self.has_runs, report, deployed: &self.deployed };
        let now = Timestamp::now();
        let (line, ending): (Line, _) = match progress(&self.goal, &seen) {
            Progress::Runs(run) => (about_run(run, &self.set), None),
            Progress::Expects => {
                let what = match &self.goal {
                    Goal::Revision(revision) => format!("a run of commit {}", shortened(revision)),
                    Goal::Newest | Goal::Run(_) => "the next run".to_owned(),
                };
                let current = runs.first().map(|run| {
                    let to = revisions(&run.status.to);
                    format!("; the last one is {} of {to} ({})", run.name, run.phase())
                });
                (format!("waits for {what}{}", current.unwrap_or_default()).into(), None)
            }
            Progress::Members => {
                let at = match &self.goal {
                    Goal::Revision(revision) => {
                        let is_at = |one: &&Deployed| {
                            one.revisions.iter().any(|found| is_revision(found, revision))
                        };
                        let count = self.deployed.values().filter(is_at).count();
                        let all = self.deployed.len();
                        let commit = shortened(revision);
                        format!("{count} of {all} Applications have seen commit {commit}; ")
                    }
                    Goal::Newest | Goal::Run(_) => String::new(),
                };
                (format!("{at}{}", waiting(set, now)).into(), None)
            }
            Progress::Ended { ending, run, is_final } => {
                let line = match (run, ending) {
                    (Some(run), Ending::Superseded) => {
                        let next = runs.first().filter(|next| next.name != run.name);
                        let by = next.map(|next| {
                            format!(", by run {} of {}", next.name, revisions(&next.status.to))
                        });
                        format!("run {} is superseded{}", run.name, by.unwrap_or_default()).into()
                    }
                    (Some(run), _) => about_run(run, &self.set),
                    (None, Ending::Complete) => {
                        let done = self.deployed.len();
                        format!("all {done} Applications are complete; no run was needed").into()
                    }
                    (None, Ending::Deleted) => "its run was deleted".to_owned().into(),
                    (None, _) => describe(set, &report.outcome()).into(),
                };
                let time = match ending {
                    _ if is_final => Duration::ZERO,
                    Ending::Stuck => STUCK,
                    _ if report.has_changed() => CHANGED,
                    _ => SETTLED,
                };
                (line, Some((ending, run.cloned(), time, is_final)))
            }
        };
        let is_over = ending.as_ref().is_some_and(|(.., is_final)| *is_final);
        if !is_over && !self.is_newest && self.asked.is_none() {
            let (client, set, known) = (client.clone(), self.set.clone(), self.compared.clone());
            let asking = async move { newest::compare(&client, &[set], &known).await };
            self.asked = Some(tokio::spawn(asking));
            self.say(&"asks the controller to read the repositories".to_owned().into())?;
        }
        let Some((ending, run, time, is_final)) = ending else {
            self.settling = None;
            self.say(&line)?;
            return Ok(None);
        };
        if !is_final && !self.is_newest {
            self.settling = None;
            return Ok(None);
        }
        match self.settling {
            Some((before, since)) if before == ending && since.elapsed() < time => return Ok(None),
            Some((before, _)) if before == ending => {}
            _ if time.is_zero() => {}
            _ => {
                self.settling = Some((ending, Instant::now()));
                return Ok(None);
            }
        }
        if ending == Ending::Complete {
            self.say(&line)?;
        }
        Ok(Some(self.ended(ending, run, line.to_string())))
    }

    /// Prints a line, if it is another one.
    fn say(&mut self, line: &Line) -> Result<(), Error> {
        if *line == self.last {
            return Ok(());
        }
        line.clone_into(&mut self.last);
        if self.args.output.format != Format::Table {
            return Ok(());
        }
        let clock = format!("[{:>5.1}s]", self.began.elapsed().as_secs_f64());
        let line = printable(&crate::redact::text(&format!("{clock} {line}"))) + "\n";
        let failed = |error: anyhow::Error| Error::input("cannot write", "standard output", error);
        output::print(&line).map_err(failed)
    }

    fn timed_out(&self) -> Ended {
        let time = seconds(self.args.timeout.unwrap_or_default());
        let runs = self.known_runs();
        let run = match &self.goal {
            Goal::Run(name) => runs.iter().find(|run| run.name == *name),
            Goal::Revision(revision) => runs
                .iter()
                .find(|run| run.status.to.iter().any(|to| is_revision(&to.revision, revision))),
            Goal::Newest => runs.first(),
        };
        let last = match (self.args.output.format, &self.last) {
            (_, last) if *last == Line::default() => {
                "the API server has not answered yet".to_owned()
            }
            // The line before says why.
            (Format::Table, last) => last.what.clone(),
            (Format::Json | Format::Yaml, last) => last.to_string(),
        };
        let last = match self.lost.values().next() {
            Some(why) => format!("disconnected: {why}; the last state: {last}"),
            None => last,
        };
        self.ended(Ending::TimedOut, run.cloned(), format!("after {time}: {last}"))
    }

    fn ended(&self, outcome: Ending, run: Option<Run>, message: String) -> Ended {
        let ObjectKey { namespace, name } = self.set.clone();
        let now = Timestamp::now();
        Ended {
            run: run.map(|run| Record::of(&namespace, &name, run, now)),
            namespace,
            application_set: name,
            outcome,
            message,
            revision: self.args.revision.clone(),
            elapsed_seconds: (self.began.elapsed().as_secs_f64() * 10.0).round() / 10.0,
        }
    }
}

/// A run and what it waits for, each reason once; what a person ends names the command.
fn about_run(run: &Run, of: &ObjectKey) -> Line {
    let (namespace, set) = (&of.namespace, &of.name);
    let command = |verb: &str| format!("wavegate {verb} {}{}", in_namespace(namespace), word(set));
    let (status, phase) = (&run.status, run.phase());
    let mut parts = Vec::new();
    if matches!(phase, RunPhase::AwaitingApproval | RunPhase::Soaking) {
        let gates = status
            .gates
            .iter()
            .filter(|gate| gate.waiting_since.is_some() || gate.soaking_since.is_some());
        let gates = gates.filter(|gate| gate.missing() > 0 || gate.soaks_until.is_some());
        let texts = gates.map(|gate| gate_text(gate, namespace, set));
        parts.extend(texts.filter(|text| !text.is_empty()));
    }
    let waits = &status.waiting_for;
    // The message of a run that goes on is its first wait.
    let is_first = phase == RunPhase::Progressing && !waits.is_empty();
    let others = waits.len().saturating_sub(1);
    let more = if others == 0 { String::new() } else { format!(" (and {others} more)") };
    if parts.is_empty() && !status.message.is_empty() {
        let more = if is_first { more.as_str() } else { "" };
        parts.push(format!("{}{more}", status.message));
    }
    match phase {
        RunPhase::Paused if status.message.is_empty() => parts.push(command("resume")),
        RunPhase::Held | RunPhase::Aborted => {
            parts.push(format!("{} starts what failed again", command("retry")));
        }
        _ => {}
    }
    // That the run is so, in the words of an Application.
    let said: &[WaitKind] = match phase {
        RunPhase::Paused => &[WaitKind::Paused],
        RunPhase::AwaitingApproval | RunPhase::Soaking => &[WaitKind::Approval, WaitKind::Soak],
        RunPhase::Held => &[WaitKind::FailureBudget],
        _ => &[],
    };
    let is_news =
        |wait: &&RunWait| WaitKind::from_name(&wait.kind).is_none_or(|kind| !said.contains(&kind));
    if let Some(wait) = waits.first().filter(is_news)
        && (!is_first || status.message.is_empty())
    {
        parts.push(format!("waits for {}: {}{more}", wait.application, wait.message));
    }
    if let Some(failure) = status.failures.first() {
        let names = failure.applications.join(", ");
        let is_said = waits.first().filter(is_news).is_some_and(|wait| {
            failure.applications.iter().map(String::as_str).any(|name| name == wait.application)
        });
        match (is_said, status.failed) {
            (true, ..=1) => {}
            (true, failed) => parts.push(format!("{failed} failed: {names}")),
            (false, failed) => {
                parts.push(format!("{failed} failed: {names}: {}", failure.message));
            }
        }
    }
    if let Some(estimate) = status.estimate.as_ref().filter(|_| !phase.has_ended()) {
        parts.push(estimate_text(estimate));
    }
    let steps = match (status.step, status.steps.len()) {
        (Some(step), all) if all > 0 => format!(", step {step} of {all}"),
        _ => String::new(),
    };
    let what = format!(
        "run {} of {} is {phase}{steps}, {}/{} complete",
        run.name,
        revisions(&status.to),
        status.done,
        status.total
    );
    Line { what, why: parts.join("; ") }
}

/// The answer to the request for newer comparisons, once; pending while nothing is asked.
async fn answer(asked: &mut Option<JoinHandle<Answer>>) -> Answer {
    let Some(asking) = asked else { return std::future::pending().await };
    let answer = asking.await;
    let answer = answer
        .unwrap_or_else(|error| Answer::Unknown(format!("it could not be asked for: {error}")));
    *asked = None;
    answer
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A line said the same up to three times.
    #[test]
    fn each_reason_is_said_once() {
        let line = |status: Value| {
            let run = json!({"metadata": {"name": "shop-1"}, "status": status});
            about_run(&Run::read(&run), &ObjectKey::new("argocd", "shop")).to_string()
        };
        let of = |phase: &str, message: &str, more: Value| {
            let mut status = json!({"phase": phase, "message": message, "total": 14, "done": 5,
                "to": [{"revision": "6d0c1f2", "applications": 14}]});
            for (field, value) in more.as_object().unwrap() {
                status[field] = value.clone();
            }
            line(status)
        };
        let wait = |name: &str, kind: &str, message: &str| json!({"application": name, "kind": kind, "message": message});
        let failed = |count: i64, names: &[&str]| {
            let failure = json!({"count": count, "applications": names, "message": "no image"});
            json!({"failed": count, "failures": [failure]})
        };
        let with = |mut status: Value, waits: Vec<Value>| {
            status["waitingFor"] = waits.into();
            status
        };
        let qa = || wait("qa", "FailedOperation", "its sync failed: no image");
        let gate = json!({"name": "prod", "applications": 8, "approvals": 1, "waitingSince": "2026-01-02T03:00:00Z"});
        let at_gate = json!({"gates": [gate],
            "waitingFor": [wait("web", "Approval", "gate prod (policy p) waits for 1 of 1 approvals")]});
        let cases = [
            (
                of(
                    "Progressing",
                    "qa: its sync failed: no image",
                    with(failed(1, &["qa"]), vec![qa()]),
                ),
                "is Progressing, 5/14 complete: qa: its sync failed: no image",
            ),
            (
                of(
                    "Progressing",
                    "qa: its sync failed: no image",
                    with(failed(2, &["dev", "qa"]), vec![qa(), wait("a", "Health", "it is new")]),
                ),
                "is Progressing, 5/14 complete: qa: its sync failed: no image (and 1 more); 2 failed: dev, qa",
            ),
            (
                of(
                    "Progressing",
                    "api: it is new",
                    with(failed(1, &["qa"]), vec![wait("api", "Health", "it is new")]),
                ),
                "is Progressing, 5/14 complete: api: it is new; 1 failed: qa: no image",
            ),
            (
                of(
                    "Paused",
                    "paused: db migration (ann): wavegate resume -n argocd shop",
                    with(json!({}), vec![wait("api", "Paused", "paused: db migration (ann)")]),
                ),
                "is Paused, 5/14 complete: paused: db migration (ann): wavegate resume -n argocd shop",
            ),
            (
                of(
                    "Paused",
                    "paused: db migration (ann): wavegate resume -n argocd shop",
                    with(failed(1, &["qa"]), vec![qa()]),
                ),
                "is Paused, 5/14 complete: paused: db migration (ann): wavegate resume -n argocd shop; waits for qa: its \
                 sync failed: no image",
            ),
            (
                of("AwaitingApproval", "gate prod (policy p) waits for 1 of 1 approvals", at_gate),
                "is AwaitingApproval, 5/14 complete: gate prod (8 Applications) needs 1 approval: wavegate approve -n \
                 argocd shop --gate prod",
            ),
            (
                of(
                    "Held",
                    "3 Applications have failed, and 2 may",
                    with(
                        failed(3, &["a", "b", "c"]),
                        vec![wait("d", "FailureBudget", "3 have failed")],
                    ),
                ),
                "is Held, 5/14 complete: 3 Applications have failed, and 2 may; wavegate retry -n argocd shop starts what \
                 failed again; 3 failed: a, b, c: no image",
            ),
        ];
        for (said, want) in cases {
            assert_eq!(said, format!("run shop-1 of 6d0c1f2 {want}"));
        }
    }
}
