//! `wavegate wait`: waits until a change is rolled out, for pipelines.

mod known;
mod line;

use std::process::ExitCode;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::runtime::watcher;
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::known::KnownSet;
use self::line::{WaitLine, about_run};
use super::record::{RunRecord, revisions, shortened};
use crate::cli::cluster::{ClusterArgs, ClusterConnection, block_on};
use crate::cli::console::error::{CHECK_FAILED, Error, NOT_FOUND, fault, note};
use crate::cli::console::output::{self, OutputArgs, OutputFormat};
use crate::cli::rollout_view::events::{self, WatchEvent, WatchScope};
use crate::cli::rollout_view::live::{LiveEvent, LiveLoop, has_settled};
use crate::cli::rollout_view::newest::{ComparisonAnswer, Newest};
use crate::cli::rollout_view::sentence::{describe, seconds, waiting};
use crate::cli::rollout_view::signals::{Signals, Wake};
use crate::cli::runs::{label_of, position, runs};
use crate::cli::watch::args::timeout;
use wavegate_api::run::RUN;
use wavegate_api::{ObjectKey, Raw};
use wavegate_cluster::watch::follow::{Events, follow_objects};
use wavegate_cluster::watch::object::{StoredObject, kind_api, kind_resource};
use wavegate_engine::names::some_of;
use wavegate_rollout::application_set::status::findings::NO_APPLICATION;
use wavegate_rollout::requests::{
    DeployedRevision, Goal, Run, Seen, WaitEnding, WaitProgress, is_revision, wait_progress,
};
use wavegate_rollout::rollout::report::RolloutOutcome;

/// What a newer comparison could change must stay so for this time: a controller may be about
/// to begin a run.
const SETTLED: Duration = Duration::from_secs(2);
/// The same while Applications are not as the rollout wants them.
const CHANGED: Duration = Duration::from_secs(5);
/// The same for what only a person can continue.
const STUCK: Duration = Duration::from_secs(10);
/// The same for a commit that no Application has seen, although all were compared since: a Git
/// server may take a moment to show a push.
const UNSEEN: Duration = Duration::from_secs(30);

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
pub(in crate::cli) struct WaitArgs {
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
    output: OutputArgs,
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
struct WaitResult {
    namespace: String,
    application_set: String,
    outcome: WaitEnding,
    message: String,
    /// The commit that was waited for; `null` without one.
    revision: Option<String>,
    elapsed_seconds: f64,
    /// The run; `null` when none was recorded.
    run: Option<RunRecord>,
}

/// Runs the command.
pub(in crate::cli) fn run(args: WaitArgs) -> anyhow::Result<ExitCode> {
    let (code, ended) = block_on(async {
        let cluster = ClusterConnection::connect(&args.cluster).await?;
        let mut waiting = WaitLoop::begin(&args, &cluster).await?;
        waiting.run(&cluster).await
    })?;
    if let Some(ended) = ended {
        args.output.print_data(&ended)?;
        if ended.outcome != WaitEnding::Complete {
            let place = format!("ApplicationSet {}/{}", ended.namespace, ended.application_set);
            let what = match ended.outcome {
                WaitEnding::TimedOut => "not complete in time",
                _ => "the rollout is not complete",
            };
            fault(&Error::check(what, place, &ended.message));
        }
    }
    Ok(ExitCode::from(code))
}

/// The course of the command.
struct WaitLoop<'a> {
    args: &'a WaitArgs,
    set: ObjectKey,
    goal: Goal,
    known: KnownSet,
    newest: Newest,
    settling: Option<(WaitEnding, Instant)>,
    last: WaitLine,
}

impl<'a> WaitLoop<'a> {
    async fn begin(args: &'a WaitArgs, cluster: &ClusterConnection) -> Result<Self, Error> {
        let set = cluster.expect_application_set(&args.name).await?;
        let goal = match (&args.run, &args.revision) {
            (Some(name), _) => {
                let runs = runs(cluster, &set).await?;
                let names: Vec<&str> = runs.iter().map(|run| run.name()).collect();
                let found = position(&names, name).map_err(|hint| {
                    let place = format!("run {name} of ApplicationSet {}", ObjectKey::of(&set));
                    Error::input(NOT_FOUND, place, format!("it does not exist; {hint}"))
                })?;
                Goal::Run(names[found].to_owned())
            }
            (None, Some(revision)) => Goal::Revision(revision.clone()),
            (None, None) => Goal::Newest,
        };
        let is_newest = args.no_refresh || matches!(goal, Goal::Run(_));
        let key = ObjectKey::of(&set);
        let scope = WatchScope {
            namespace: Some(key.namespace.clone()),
            set: Some(key.name.clone()),
            // Watched by itself: without them, its Applications count.
            runs: false,
            ends_on_refusal: true,
            ..WatchScope::default()
        };
        Ok(Self {
            args,
            set: key,
            goal,
            known: KnownSet::new(&set, scope),
            newest: if is_newest { Newest::Unknown } else { Newest::NotAsked },
            settling: None,
            last: WaitLine::default(),
        })
    }

    async fn run(
        &mut self,
        cluster: &ClusterConnection,
    ) -> Result<(u8, Option<WaitResult>), Error> {
        let client = cluster.client();
        let failed = |error: std::io::Error| Error::input("cannot wait", "signals", error);
        let signals = Signals::new(false).map_err(failed)?;
        let stop = CancellationToken::new();
        let _stopped_at_the_end = stop.clone().drop_guard();
        let changes = events::watch(client, self.known.live.scope(), &stop);
        let mut config = watcher::Config::default();
        if let Some(label) = label_of(&self.set.name) {
            config = config.labels(&label);
        }
        let kind = kind_resource(RUN);
        let mut runs: Events<StoredObject> =
            follow_objects(kind_api(client, Some(&self.set.namespace), &kind), config);
        let deadline = self.args.timeout.map(|time| self.known.live.began + time);
        let mut events = LiveLoop::new(signals, changes, deadline);
        let mut is_changed = false;
        loop {
            match events.next(&mut self.newest, runs.next()).await {
                LiveEvent::Signal(Wake::End(code)) => {
                    note("interrupted; the rollout goes on");
                    return Ok((code, None));
                }
                LiveEvent::Signal(Wake::Stop | Wake::Continued) => {}
                LiveEvent::TimedOut => return Ok((CHECK_FAILED, Some(self.timed_out()))),
                LiveEvent::Tick if !is_changed && self.settling.is_none() => {}
                LiveEvent::Tick => {
                    is_changed = false;
                    if let Some(ended) = self.look(client)? {
                        let code =
                            if ended.outcome == WaitEnding::Complete { 0 } else { CHECK_FAILED };
                        return Ok((code, Some(ended)));
                    }
                }
                LiveEvent::Compared(answer) => {
                    (is_changed, self.settling) = (true, None);
                    match answer {
                        // It is asked for again.
                        ComparisonAnswer::Unknown(_)
                            if self.known.live.disconnected().is_some() =>
                        {
                            self.newest = Newest::NotAsked;
                        }
                        ComparisonAnswer::Unknown(why) => {
                            note(&format!("what follows is of the last comparisons: {why}"));
                        }
                        ComparisonAnswer::Compared(_) => {}
                    }
                }
                LiveEvent::Watch(event) => {
                    is_changed = true;
                    let is_lost = matches!(event, WatchEvent::Lost(..));
                    self.known.apply(event)?;
                    if is_lost {
                        self.settling = None;
                        self.newest.lose();
                    }
                }
                LiveEvent::Other(event) => {
                    is_changed = true;
                    event.into_iter().for_each(|event| self.known.apply_run(event));
                }
            }
        }
    }

    /// Prints what it waits for, if that is news; the end, if it has ended.
    fn look(&mut self, client: &kube::Client) -> Result<Option<WaitResult>, Error> {
        if self.known.is_gone {
            return Ok(Some(self.ended(WaitEnding::Deleted, None, "it was deleted".to_owned())));
        }
        if !self.known.is_current() {
            return Ok(None);
        }
        let runs = self.known.runs();
        let Some(set) = self.known.live.fleet.known().next() else { return Ok(None) };
        let report = &set.report;
        let KnownSet { has_runs, deployed, .. } = &self.known;
        let seen = Seen { runs: &runs, has_runs: *has_runs, report, deployed };
        let now = Timestamp::now();
        let (line, ending): (WaitLine, _) = match wait_progress(&self.goal, &seen) {
            WaitProgress::Runs(run) => (about_run(run, &self.set), None),
            WaitProgress::Expects => {
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
            WaitProgress::Members => {
                let at = match &self.goal {
                    Goal::Revision(revision) => {
                        let is_at = |one: &&DeployedRevision| {
                            one.revisions.iter().any(|found| is_revision(found, revision))
                        };
                        let count = deployed.values().filter(is_at).count();
                        let all = deployed.len();
                        let commit = shortened(revision);
                        format!("{count} of {all} Applications have seen commit {commit}; ")
                    }
                    Goal::Newest | Goal::Run(_) => String::new(),
                };
                (format!("{at}{}", waiting(set, now)).into(), None)
            }
            WaitProgress::Ended { ending, run, is_final } => {
                let line = match (run, ending) {
                    (Some(run), WaitEnding::Superseded) => {
                        let next = runs.first().filter(|next| next.name != run.name);
                        let by = next.map(|next| {
                            format!(", by run {} of {}", next.name, revisions(&next.status.to))
                        });
                        let why = match run.status.message.as_str() {
                            _ if by.is_some() => by.unwrap_or_default(),
                            "" => String::new(),
                            message => format!(": {message}"),
                        };
                        format!("run {} is superseded{why}", run.name).into()
                    }
                    (Some(run), _) => about_run(run, &self.set),
                    (None, WaitEnding::Complete) if deployed.is_empty() => {
                        NO_APPLICATION.to_owned().into()
                    }
                    (None, WaitEnding::Complete) => {
                        let outside = report.outside().count();
                        let done = deployed.len().saturating_sub(outside);
                        let rest = match outside {
                            0 => String::new(),
                            some => {
                                format!("; no step selects {some}, which wait for a manual sync")
                            }
                        };
                        format!("all {done} Applications are complete; no run was needed{rest}")
                            .into()
                    }
                    (None, WaitEnding::Stuck) if report.outcome() == RolloutOutcome::Complete => {
                        let names = some_of(report.outside(), 3);
                        format!("no step selects {names}: they wait for a manual sync").into()
                    }
                    (None, WaitEnding::Deleted) => "its run was deleted".to_owned().into(),
                    (None, _) => describe(set, &report.outcome()).into(),
                };
                let time = match ending {
                    _ if is_final => Duration::ZERO,
                    WaitEnding::Stuck => STUCK,
                    _ if report.has_changed() => CHANGED,
                    _ => SETTLED,
                };
                (line, Some((ending, run.cloned(), time, is_final)))
            }
        };
        let is_over = ending.as_ref().is_some_and(|(.., is_final)| *is_final);
        if !is_over && matches!(self.newest, Newest::NotAsked) {
            self.newest = Newest::ask(client, vec![self.set.clone()], &self.known.live.compared);
            self.say(&"asks the controller to read the repositories".to_owned().into())?;
        }
        let Some((ending, run, time, is_final)) = ending else {
            self.say(&line)?;
            let Some(unseen) = self.unseen() else {
                self.settling = None;
                return Ok(None);
            };
            let is_over = has_settled(&mut self.settling, WaitEnding::Superseded, UNSEEN);
            return Ok(is_over.then(|| self.ended(WaitEnding::Superseded, None, unseen)));
        };
        if !is_final && !self.newest.is_over() {
            self.settling = None;
            return Ok(None);
        }
        if !has_settled(&mut self.settling, ending, time) {
            return Ok(None);
        }
        if ending == WaitEnding::Complete {
            self.say(&line)?;
        }
        Ok(Some(self.ended(ending, run, line.to_string())))
    }

    /// That no Application has seen the commit that is waited for, although all were compared since
    /// the start; `None` when that is not so, or not known.
    fn unseen(&self) -> Option<String> {
        let (Goal::Revision(revision), Newest::Known(_)) = (&self.goal, &self.newest) else {
            return None;
        };
        let deployed = &self.known.deployed;
        let mut seen = deployed.values().flat_map(|one| &one.revisions);
        let is_seen = deployed.is_empty() || seen.any(|found| is_revision(found, revision));
        // A run of it may be of an Application that is gone.
        let runs = self.known.runs();
        let mut to = runs.iter().flat_map(|run| &run.status.to);
        let is_rolled_out = to.any(|to| is_revision(&to.revision, revision));
        (!is_seen && !is_rolled_out).then(|| {
            format!(
                "no Application has seen commit {}, although the repositories were read since: another \
                 push has replaced it, or no source follows a branch that has it",
                shortened(revision)
            )
        })
    }

    /// Prints a line, if it is another one.
    fn say(&mut self, line: &WaitLine) -> Result<(), Error> {
        if *line == self.last {
            return Ok(());
        }
        line.clone_into(&mut self.last);
        if self.args.output.format != OutputFormat::Table {
            return Ok(());
        }
        output::print_progress(self.known.live.began, [line.to_string()])
    }

    fn timed_out(&self) -> WaitResult {
        let time = seconds(self.args.timeout.unwrap_or_default());
        let runs = self.known.runs();
        let run = match &self.goal {
            Goal::Run(name) => runs.iter().find(|run| run.name == *name),
            Goal::Revision(revision) => runs
                .iter()
                .find(|run| run.status.to.iter().any(|to| is_revision(&to.revision, revision))),
            Goal::Newest => runs.first(),
        };
        let last = match (self.args.output.format, &self.last) {
            (_, last) if *last == WaitLine::default() => {
                "the API server has not answered yet".to_owned()
            }
            // The line before says why.
            (OutputFormat::Table, last) => last.what.clone(),
            (OutputFormat::Json | OutputFormat::Yaml, last) => last.to_string(),
        };
        let last = match self.known.live.disconnected() {
            Some(why) => format!("disconnected: {why}; the last state: {last}"),
            None => last,
        };
        self.ended(WaitEnding::TimedOut, run.cloned(), format!("after {time}: {last}"))
    }

    fn ended(&self, outcome: WaitEnding, run: Option<Run>, message: String) -> WaitResult {
        let ObjectKey { namespace, name } = self.set.clone();
        let now = Timestamp::now();
        WaitResult {
            run: run.map(|run| RunRecord::of(&namespace, &name, run, now)),
            namespace,
            application_set: name,
            outcome,
            message,
            revision: self.args.revision.clone(),
            elapsed_seconds: (self.known.live.began.elapsed().as_secs_f64() * 10.0).round() / 10.0,
        }
    }
}
