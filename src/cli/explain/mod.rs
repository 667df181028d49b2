//! `wavegate explain`: what a rollout is waiting for, down to the resource.

mod advice;
mod pods;
mod remedies;
mod wait;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

use self::advice::{WaitContext, actions};
use self::remedies::{about_cause, shared_with};
use self::wait::Action;
pub(super) use self::wait::ExplainedWait;
use crate::cli::cluster::live_app::{TargetKind, named};
use crate::cli::cluster::{ClusterArgs, ClusterConnection, block_on};
use crate::cli::console::commands::wavegate;
use crate::cli::console::error::{Error, note};
use crate::cli::console::output::{self, OutputArgs, or_dash};
use crate::cli::rollout_view::run::{RunSummary, cause, commands_within, paused};
use crate::cli::rollout_view::state::message;
use crate::cli::runs::{ReportedSet, set_that_lacks};
use crate::cli::watch::args::{WatchArgs, WatchRequest, WatchView};
use wavegate_api::app_view::{ApplicationView, ConditionView};
use wavegate_api::run::RunPhase;
use wavegate_api::time::to_rfc3339;
use wavegate_api::{ObjectKey, Raw};
use wavegate_engine::names::some_of;
use wavegate_rollout::application_set::status::report_input;
use wavegate_rollout::application_set::{is_owned, set_of};
use wavegate_rollout::requests::{RollbackScope, Run};
use wavegate_rollout::rollout;
use wavegate_rollout::rollout::phase::Phase;
use wavegate_rollout::rollout::report::{Member, Report, ReportState, SetCondition, build_report};
use wavegate_rollout::rollout::wait::WaitKind;

/// Explain what a rollout or an Application is waiting for, down to the resource
///
/// Reads from the cluster of the kube context and changes nothing. The first line is the
/// summary, details follow: down to the Pod of a workload, as far as the user may read it.
/// With --watch, the summary is printed whenever it changes.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  wavegate explain APPSET    (wavegate status lists the names)\n  wavegate explain APP       one of its Applications, or one of no ApplicationSet\n\nExit codes of --watch: 0 complete; 1 only a person can continue, the set was deleted, or \
                        --timeout is over; 2 wrong use, or the cluster cannot be read; 130 interrupted; \
                        141 standard output was closed."
)]
pub(super) struct ExplainArgs {
    /// Name of an ApplicationSet or of an Application, as appset/NAME or app/NAME when there are
    /// both
    #[arg(value_name = "APPSET|APP")]
    pub name: String,
    /// Show all Applications that are waited for, and all that wait behind them
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub watch: WatchArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// What a set is waiting for.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explanation {
    pub namespace: String,
    /// Empty for an Application of no set.
    pub application_set: String,
    /// The Application that it is about; absent when it is about the whole set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    pub state: ReportState,
    /// Summary in one line.
    pub summary: String,
    /// The latest run; absent where none is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunSummary>,
    /// That it is paused while its run, if any, is not: such as one that has ended; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// What a person may do about the run and about deletions that are held, as sentences with
    /// their commands, whatever waits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// The Applications that the rollout is waiting for, most important first; at most
    /// those listed in the status, unless all are requested.
    pub waits: Vec<ExplainedWait>,
    /// How many more it is waiting for.
    pub more: usize,
    /// The Applications of later steps that wait for this step; `null` when there are none.
    pub behind: Option<Behind>,
    /// Conditions that report a problem.
    pub conditions: Vec<SetCondition>,
    /// What could not be read.
    pub notes: Vec<String>,
}

/// Applications that wait until the current step is complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Behind {
    /// The first ones, in the order of the steps.
    pub applications: Vec<String>,
    /// How many there are.
    pub count: usize,
    /// The first and the last of their steps, counted from 1.
    pub first_step: usize,
    pub last_step: usize,
}

impl ExplainArgs {
    /// What to follow, with --watch.
    pub fn watched(&self) -> Option<WatchRequest<'_>> {
        self.watch.request(&self.cluster, Some(&self.name), WatchView::Reason)
    }
}

/// Runs the command without --watch.
pub(super) fn run(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let explanation = block_on(async {
        let cluster = ClusterConnection::connect(&args.cluster).await?;
        let set = match named(&args.name)? {
            (TargetKind::Application, _) => Err(None),
            _ => cluster.expect_application_set(&args.name).await.map_err(Some),
        };
        match set {
            Ok(set) => {
                let found = ReportedSet::read(&cluster, set).await?;
                Ok(explain_below(&cluster, &found, args.all).await)
            }
            Err(Some(error)) if !error.is_not_found() => Err(error),
            // What is said of a set that does not exist names what is similar.
            Err(missing) => match cluster.expect_application(&args.name).await {
                Ok(application) => explain_application(&cluster, application).await,
                Err(error) if error.is_not_found() => {
                    let (_, name) = named(&args.name)?;
                    match set_that_lacks(&cluster, name).await? {
                        Some(set) => {
                            let found = ReportedSet::read(&cluster, set).await?;
                            Ok(of_set(&found, name, Vec::new(), Timestamp::now()))
                        }
                        None => Err(missing.unwrap_or(error)),
                    }
                }
                Err(error) => Err(error),
            },
        }
    })?;
    explanation.notes.iter().for_each(|text| note(text));
    args.output.print(&explanation, show)?;
    Ok(ExitCode::SUCCESS)
}

/// Explains a set down to the Pod; with `all`, all that is waited for.
pub(super) async fn explain_below(
    cluster: &ClusterConnection,
    found: &ReportedSet,
    all: bool,
) -> Explanation {
    let ReportedSet { set, applications, run, policies } = found;
    let (run, now) = (run.as_ref(), Timestamp::now());
    let mut explanation = explain_as(set, applications, run, policies, now, all);
    explanation.look_below(cluster, applications).await;
    explanation
}

impl Explanation {
    /// Reads what is below the workloads that are waited for, and says what holds them.
    pub async fn look_below(
        &mut self,
        cluster: &ClusterConnection,
        applications: &BTreeMap<String, Arc<Value>>,
    ) {
        let live = |name: &str| applications.get(name).cloned();
        let (causes, notes) = pods::read(cluster, &self.waits, live).await;
        self.notes = notes;
        for (wait, cause) in self.waits.iter_mut().zip(causes) {
            let (Some(cause), Some(resource)) = (cause, &wait.resource) else { continue };
            let Some(live) = applications.get(&wait.application) else { continue };
            wait.actions.retain(|action| !action.is_general);
            let below = about_cause(live, resource, &cause);
            wait.actions.splice(0..0, below.into_iter().map(Action::from));
            wait.advice = advice_of(&wait.actions);
            wait.cause = Some(cause);
        }
    }
}

/// Explains a set from its status, the Applications of its namespace and its latest run, at this
/// time; with `all`, all that is waited for.
pub(super) fn explain_as(
    set: &Value,
    applications: &BTreeMap<String, Arc<Value>>,
    run: Option<&Run>,
    policies: &[Arc<Value>],
    now: Timestamp,
    all: bool,
) -> Explanation {
    let report = report_input::read_report(set, applications, run);
    explain_report(report, set, applications, run, policies, now, all)
}

/// The same of a report.
pub(super) fn explain_report(
    report: Report,
    set: &Value,
    applications: &BTreeMap<String, Arc<Value>>,
    run: Option<&Run>,
    policies: &[Arc<Value>],
    now: Timestamp,
    all: bool,
) -> Explanation {
    let mut waits = report.waits(all);
    for wait in &mut waits {
        let live = applications.get(&wait.application).map(Arc::as_ref);
        // Two owners undo what the other one does: whatever else is wrong follows from it.
        if let Some(shared) = live.and_then(shared_with) {
            wait.message = format!("{shared}; {}", wait.message);
        }
    }
    let summary = summary_of(&report, &waits);
    let owned = applications.values().filter(|live| is_owned(live, set));
    let reach = run.map(|run| RollbackScope::of(&run.name, owned.map(Arc::as_ref)));
    let reach = reach.unwrap_or_default();
    let of = |wait| wait_of(set, &report, run, &reach, wait, applications, now);
    let waits: Vec<ExplainedWait> = waits.into_iter().map(of).collect();
    let mut actions = run.map(|run| run_actions(run, set, &reach)).unwrap_or_default();
    if report.set.status.holds_deletions {
        let approve = wavegate("approve", set.namespace(), set.name());
        actions.push(format!("to let the deletions go that are held: {approve} --deletions"));
    }
    let run = run.and_then(RunSummary::of);
    Explanation {
        actions,
        application: None,
        summary: match run.as_ref().and_then(RunSummary::ended_by_failures) {
            Some(ended) => format!("{ended}; {summary}"),
            None => summary,
        },
        paused: paused(&report, run.as_ref(), set, policies),
        run,
        more: report.waiting_count().saturating_sub(waits.len()),
        notes: Vec::new(),
        behind: behind(&report, all),
        state: report.state(),
        waits,
        conditions: report.set.status.problems,
        namespace: report.set.namespace,
        application_set: report.set.name,
    }
}

/// Explains an Application down to the Pod.
async fn explain_application(
    cluster: &ClusterConnection,
    application: Arc<Value>,
) -> Result<Explanation, Error> {
    let set = match set_of(&application) {
        Some(name) => cluster.get("ApplicationSet", application.namespace(), name).await?,
        None => None,
    };
    let (mut explanation, applications) = match set.filter(|set| is_owned(&application, set)) {
        Some(set) => {
            let mut found = ReportedSet::read(cluster, set).await?;
            let name = application.name().to_owned();
            found.applications.insert(name, Arc::clone(&application));
            let own = conditions(&application);
            (of_set(&found, application.name(), own, Timestamp::now()), found.applications)
        }
        None => {
            let only = BTreeMap::from([(application.name().to_owned(), Arc::clone(&application))]);
            (of_none(&application, Timestamp::now()), only)
        }
    };
    explanation.look_below(cluster, &applications).await;
    Ok(explanation)
}

/// The part of the explanation of a set that is about one of its Applications, which has conditions
/// of its own.
pub(super) fn of_set(
    found: &ReportedSet,
    name: &str,
    own: Vec<SetCondition>,
    now: Timestamp,
) -> Explanation {
    let ReportedSet { set, applications, run, policies } = found;
    let all = explain_as(set, applications, run.as_ref(), policies, now, true);
    let is_behind =
        all.behind.as_ref().is_some_and(|behind| behind.applications.iter().any(|one| one == name));
    let is_waited_for = all.waits.iter().any(|wait| wait.application == name);
    let left_out = run.as_ref().and_then(|run| run.goes_on_without(name));
    let summary = match all.waits.iter().find(|wait| wait.application == name) {
        None if let Some(why) = left_out => format!("{name} is not waited for: {why}"),
        Some(wait) if wait.kind == WaitKind::Skipped.name() => {
            format!("{name} is not waited for: {}", wait.reason)
        }
        Some(wait) => match wait.step {
            Some(step) => {
                format!("{name} is waited for in step {step} of {}: {}", set.name(), wait.reason)
            }
            None => format!("{name} is waited for: {}", wait.reason),
        },
        None if is_behind => format!("{name} waits for an earlier step: {}", all.summary),
        None => format!("{name} is not waited for; {}", all.summary),
    };
    // What holds the steps before it is what it waits for.
    let keeps = |one: &str| one == name || is_behind && !is_waited_for;
    Explanation {
        summary,
        application: Some(name.to_owned()),
        more: 0,
        behind: None,
        waits: all.waits.iter().filter(|wait| keeps(&wait.application)).cloned().collect(),
        conditions: [own, all.conditions.clone()].concat(),
        ..all
    }
}

/// An Application of no set: as the only one of a set without steps.
pub(super) fn of_none(application: &Arc<Value>, now: Timestamp) -> Explanation {
    let name = application.name();
    // With a status, since a controller is not waited for.
    let set = json!({
        "metadata": {"namespace": application.namespace(), "name": name},
        "status": {"resourcesCount": 1},
    });
    let only = [(name.to_owned(), report_input::read_application(application))];
    let report = build_report(report_input::read_set(&set), only);
    let applications = BTreeMap::from([(name.to_owned(), Arc::clone(application))]);
    let all = explain_report(report, &set, &applications, None, &[], now, true);
    let summary = match all.waits.first() {
        Some(wait) => format!("{name} is not Synced and Healthy: {}", wait.reason),
        None => format!("{name} is Synced and Healthy"),
    };
    Explanation {
        summary,
        application: Some(name.to_owned()),
        application_set: String::new(),
        conditions: conditions(application),
        ..all
    }
}

/// What the Application itself says, in its conditions.
pub(super) fn conditions(application: &Value) -> Vec<SetCondition> {
    let status = ApplicationView::of(application).status;
    let of = |found: &ConditionView| SetCondition {
        kind: found.type_.clone(),
        reason: String::new(),
        message: found.message.clone(),
    };
    status.conditions.iter().map(of).collect()
}

/// What a person may do about the latest run, in the order in which it is likely to help.
fn run_actions(run: &Run, set: &Value, reach: &RollbackScope) -> Vec<String> {
    let mut all = Vec::new();
    if run.is_known && cause(run).is_some() && run.phase() != RunPhase::RollingBack {
        all.push("commit a fix, which is rolled out by itself as another run".to_owned());
    }
    let commands = commands_within(run, &ObjectKey::of(set), Some(reach));
    all.extend(commands.into_iter().map(|(what, command)| format!("{what}: {command}")));
    all
}

/// What a set waits for, in one line.
pub(super) fn summary(report: &Report) -> String {
    summary_of(report, &report.waits(false))
}

fn summary_of(report: &Report, waits: &[rollout::wait::RolloutWait]) -> String {
    let (name, steps) = (&report.set.name, report.set.strategy.steps().len());
    let first = waits.first().map(|wait| {
        let more = match report.waiting_count().max(waits.len()) - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        format!("{}: {}{more}", wait.application, wait.message)
    });
    let message = || message(report);
    match (report.state(), first) {
        (ReportState::Rolling | ReportState::Failed, Some(first)) if report.goes_on() => {
            let step = report.open_step.map_or(0, |step| step.saturating_add(1));
            format!("{name} waits in step {step} of {steps}: {first}")
        }
        (ReportState::Rolling, _) => format!("{name} is progressing: {}", message()),
        // A skipped one is not waited for.
        (ReportState::Complete, Some(first)) => {
            let is_skipped = waits.first().is_some_and(|wait| wait.kind == WaitKind::Skipped);
            let and = if is_skipped { "without" } else { "and waits for" };
            format!("{name} has completed {} {and} {first}", all_steps(steps))
        }
        (ReportState::AllAtOnce, Some(first)) => {
            format!("{name} has no steps and waits for {first}")
        }
        (ReportState::Complete | ReportState::AllAtOnce, None)
            if report.set.status.holds_deletions =>
        {
            format!("{name} holds deletions until a person approves them: {}", message())
        }
        (ReportState::Complete | ReportState::AllAtOnce, None) => {
            format!("{name} is not waiting: {}", message())
        }
        (ReportState::Failed, _) if report.fails_for_applications() => {
            format!("{name} cannot write all of its Applications: {}", message())
        }
        (ReportState::Failed, _) => format!("{name} is stopped by an error: {}", message()),
        (ReportState::Deleting, _) => format!("{name}: {}", message()),
        (ReportState::Unseen | ReportState::SwitchedOff, _) => {
            format!("{name} does not roll out: {}", message())
        }
    }
}

fn all_steps(steps: usize) -> String {
    if steps == 1 { "its only step".to_owned() } else { format!("all {steps} steps") }
}

/// The most names of Applications behind a step.
const BEHIND: usize = 10;

fn behind(report: &Report, all: bool) -> Option<Behind> {
    let behind = report.behind();
    let most = if all { usize::MAX } else { BEHIND };
    Some(Behind {
        applications: behind.iter().take(most).map(|(name, _)| (*name).to_owned()).collect(),
        count: behind.len(),
        first_step: behind.first()?.1 + 1,
        last_step: behind.last()?.1 + 1,
    })
}

fn wait_of(
    set: &Value,
    report: &Report,
    run: Option<&Run>,
    reach: &RollbackScope,
    wait: rollout::wait::RolloutWait,
    applications: &BTreeMap<String, Arc<Value>>,
    now: Timestamp,
) -> ExplainedWait {
    let none = Member::default();
    let member = report.members.get(&wait.application).unwrap_or(&none);
    let live = member.live.as_ref();
    let resource = report.blocking(member).and_then(|blocking| blocking.resource.clone());
    let actions = actions(&WaitContext {
        set,
        report,
        run,
        reach,
        wait: &wait,
        member,
        live: applications.get(&wait.application).map(Arc::as_ref),
        resource: resource.as_ref(),
        is_new: member.since().is_some_and(|since| now.duration_since(since) < STARTS),
    });
    ExplainedWait {
        advice: advice_of(&actions),
        actions,
        step: report.goes_on().then(|| wait.step.saturating_add(1)),
        phase: member.phase().map(Phase::name).unwrap_or_default(),
        sync: live.map(|live| live.sync.clone()).unwrap_or_default(),
        health: live.map(|live| live.health.clone()).unwrap_or_default(),
        kind: wait.kind.name(),
        reason: wait.message,
        resource,
        cause: None,
        since: wait.since.map(to_rfc3339).unwrap_or_default(),
        until: wait.until.map(to_rfc3339).unwrap_or_default(),
        application: wait.application,
    }
}

/// An operation starts within this time; before, nothing is advised.
const STARTS: SignedDuration = SignedDuration::from_secs(10);

fn advice_of(actions: &[Action]) -> String {
    actions.iter().map(|action| action.text.as_str()).collect::<Vec<_>>().join("; ")
}

/// The most names in a line.
const NAMES: usize = 3;

/// The advice of each wait, with the names that it is for: the same for several ones once.
fn advice(waits: &[ExplainedWait]) -> Vec<(Vec<&str>, &str)> {
    let mut lines: Vec<(Vec<&str>, &str)> = Vec::new();
    for wait in waits {
        for action in &wait.actions {
            match lines.iter_mut().find(|(_, known)| *known == action.text) {
                Some((names, _)) => names.push(&wait.application),
                None => lines.push((vec![&wait.application], &action.text)),
            }
        }
    }
    lines
}

/// The text output.
pub(super) fn show(explanation: &Explanation) -> String {
    show_at(explanation, Timestamp::now())
}

/// Like [`show`], with ages at this time.
pub(super) fn show_at(explanation: &Explanation, now: Timestamp) -> String {
    let mut out = output::line(&explanation.summary);
    if let Some(run) = explanation.run.as_ref().filter(|run| run.is_of_interest()) {
        out.push_str(&output::line(&run.text(now)));
        if let Some(cause) = run.cause.as_ref().filter(|_| run.ended_by_failures().is_none()) {
            out.push_str(&output::line(&format!("cause: {cause}")));
        }
    }
    if let Some(paused) = &explanation.paused {
        out.push_str(&output::line(paused));
    }
    if !explanation.waits.is_empty() {
        let row = |wait: &ExplainedWait| {
            [
                wait.application.clone(),
                wait.step.map_or_else(|| "-".to_owned(), |step| step.to_string()),
                or_dash(wait.phase),
                or_dash(&wait.sync),
                or_dash(&wait.health),
                output::age(&wait.since, now),
                output::ahead(&wait.until, now),
                wait.reason.clone(),
            ]
        };
        let header = ["APPLICATION", "STEP", "PHASE", "SYNC", "HEALTH", "FOR", "LEFT", "WAITS FOR"];
        out.push('\n');
        out.push_str(&output::table(header, explanation.waits.iter().map(row)));
        if explanation.more > 0 {
            let more = explanation.more;
            out.push_str(&format!("… {more} more of them: --all shows them\n"));
        }
    }
    let causes = explanation.waits.iter().filter_map(|wait| Some((wait, wait.cause.as_ref()?)));
    for (index, (wait, cause)) in causes.enumerate() {
        if index == 0 {
            out.push_str("\nCause:\n");
        }
        out.push_str(&output::line(&format!("  {}: {cause}", wait.application)));
    }
    if let Some(behind) = &explanation.behind {
        let more = match behind.count.saturating_sub(behind.applications.len()) {
            0 => String::new(),
            more => format!(" and {more} more (--all shows them)"),
        };
        let steps = match (behind.first_step, behind.last_step) {
            (first, last) if first == last => format!("step {first}"),
            (first, last) => format!("steps {first} to {last}"),
        };
        let names = behind.applications.join(", ");
        out.push('\n');
        out.push_str(&output::line(&format!("Behind it, in {steps}: {names}{more}")));
    }
    let of_waits = advice(&explanation.waits);
    // What the Applications say already is not repeated.
    let of_run = explanation
        .actions
        .iter()
        .filter(|action| !of_waits.iter().any(|(_, known)| known == action));
    let of_run: Vec<&String> = of_run.collect();
    if !of_waits.is_empty() || !of_run.is_empty() {
        out.push_str("\nWhat to do:\n");
        for action in of_run {
            let set = &explanation.application_set;
            out.push_str(&output::line(&format!("  {set}: {action}")));
        }
        for (names, action) in of_waits {
            let names = some_of(names, NAMES);
            out.push_str(&output::line(&format!("  {names}: {action}")));
        }
    }
    for SetCondition { kind, reason, message } in &explanation.conditions {
        let line = match reason.as_str() {
            "" => format!("{kind}: {message}"),
            reason => format!("{kind} ({reason}): {message}"),
        };
        out.push('\n');
        out.push_str(&output::line(&line));
    }
    out
}

/// The commands of this program that `explain` names for a set, with its Applications and its latest
/// run: tests of whole rollouts judge that they work.
pub fn advised_commands(
    set: &Value,
    applications: &BTreeMap<String, Arc<Value>>,
    run: Option<&Value>,
    now: Timestamp,
) -> Vec<String> {
    let run = run.map(|run| Run::of(set, run));
    let explained = explain_as(set, applications, run.as_ref(), &[], now, true);
    let of_waits = explained.waits.iter().flat_map(|wait| &wait.actions);
    let texts = of_waits.map(|action| &action.text).chain(&explained.actions);
    let commands = texts.flat_map(|text| {
        let starts = text.match_indices("wavegate ").map(|(start, _)| start);
        starts.map(|start| {
            let command = &text[start..];
            command[..command.find([';', ',']).unwrap_or(command.len())].trim().to_owned()
        })
    });
    commands.collect()
}
