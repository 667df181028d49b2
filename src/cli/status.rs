//! `wavegate status`: the state of rollouts.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::cli::cluster::{ClusterArgs, ClusterConnection, block_on};
use crate::cli::console::error::Error;
use crate::cli::console::output::{self, OutputArgs, or_dash};
use crate::cli::rollout_view::run::{RunSummary, paused};
use crate::cli::rollout_view::sentence::why;
use crate::cli::rollout_view::state::message;
use crate::cli::runs::{ReportedSet, beside};
use crate::cli::watch::args::{WatchArgs, WatchRequest, WatchView};
use wavegate_api::Raw;
use wavegate_api::policy::POLICY;
use wavegate_api::run::RUN;
use wavegate_api::time::to_rfc3339;
use wavegate_engine::names::some_of;
use wavegate_rollout::application_set::status::report_input;
use wavegate_rollout::requests::{Run, current_run};
use wavegate_rollout::rollout::phase::Phase;
use wavegate_rollout::rollout::report::{Member, Report, ReportState};
use wavegate_rollout::rollout::steps::StepStrategy;

/// The most namespaces in a message.
const NAMES: usize = 10;

/// Print the state of the rollouts in a cluster
///
/// Reads from the cluster of the kube context and changes nothing. Lists the
/// ApplicationSets, or shows the Applications of one of them.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  wavegate status            the ApplicationSets\n  wavegate status APPSET     the Applications of one\n\nExit codes of --watch: 0 complete; 1 only a person can continue, a set was deleted, or \
                        --timeout is over; 2 wrong use, or the cluster cannot be read; 130 interrupted; \
                        141 standard output was closed."
)]
pub(super) struct StatusArgs {
    /// Name of the ApplicationSet
    #[arg(value_name = "APPSET")]
    name: Option<String>,
    /// List the ApplicationSets of all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["name", "namespace"])]
    all_namespaces: bool,
    #[command(flatten)]
    watch: WatchArgs,
    /// With --watch: print one line per transition; the default when standard output is not
    /// a terminal
    #[arg(long, requires = "watch")]
    plain: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The state of a set, for the output.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetSummary {
    pub namespace: String,
    pub application_set: String,
    /// `RollingSync` or `AllAtOnce`.
    pub strategy: &'static str,
    pub state: ReportState,
    /// The first incomplete step, counted from 1; `null` when there is none.
    pub step: Option<usize>,
    pub steps: usize,
    /// Number of complete Applications, and their total.
    pub complete: u64,
    pub total: u64,
    pub health: String,
    /// Description of the state in one line.
    pub message: String,
    /// The latest run; absent where none is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunSummary>,
    /// That it is paused while its run, if any, is not: such as one that has ended; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// That `status.resources` does not list every Application; absent when it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<String>,
    /// The steps that match no Application, counted from 1; absent when each matches some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub empty_steps: Vec<usize>,
    /// In the order of the steps, then by name; those that no step selects come last.
    pub applications: Vec<ApplicationRow>,
}

/// One Application of a set.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApplicationRow {
    pub application: String,
    /// Step, counted from 1; `null` when no step selects the Application.
    pub step: Option<usize>,
    /// Waiting, Pending, Progressing or Healthy; empty outside a rollout.
    pub phase: &'static str,
    /// `status.sync.status`; empty when unknown.
    pub sync: String,
    /// `status.health.status`; empty when unknown.
    pub health: String,
    /// The operation: phase and wave while it runs, else how the last one ended; empty without one.
    pub operation: String,
    /// Start of the phase; empty outside a rollout.
    pub since: String,
    /// What the rollout waits for, if it waits for this Application; else the message of its
    /// entry. What holds the Application while it is being deleted.
    pub message: String,
}

impl SetSummary {
    /// Of a set with its latest run; `applications` are all Applications of its namespace.
    pub fn read(
        set: &Value,
        applications: &BTreeMap<String, Arc<Value>>,
        run: Option<&Run>,
        policies: &[Arc<Value>],
    ) -> Self {
        Self::of(&report_input::read_report(set, applications, run), set, run, policies)
    }

    /// The same of a report.
    pub fn of(report: &Report, set: &Value, run: Option<&Run>, policies: &[Arc<Value>]) -> Self {
        let (complete, total) = report.progress();
        let held = match report.set.status.holds_deletions {
            true => "; deletions are held until a person approves them, see explain",
            false => "",
        };
        let row = |(name, member)| ApplicationRow::of(report, run, name, member);
        let applications = report.ordered().into_iter().map(row).collect();
        let run = run.and_then(RunSummary::of);
        Self {
            namespace: report.set.namespace.clone(),
            application_set: report.set.name.clone(),
            strategy: match report.set.strategy {
                StepStrategy::AllAtOnce => "AllAtOnce",
                StepStrategy::RollingSync(_) => "RollingSync",
            },
            state: report.state(),
            step: report.open_step.map(|step| step.saturating_add(1)),
            steps: report.set.strategy.steps().len(),
            complete,
            total,
            health: report.health().to_owned(),
            message: message(report) + held,
            paused: paused(report, run.as_ref(), set, policies),
            run,
            truncated: report.set.status.truncated.clone(),
            empty_steps: report.empty_steps().into_iter().map(|step| step + 1).collect(),
            applications,
        }
    }

    /// `2/3`, or a dash without a step.
    fn step_text(&self) -> String {
        match self.step {
            Some(step) => format!("{step}/{}", self.steps),
            None if self.state == ReportState::Complete && !self.applications.is_empty() => {
                format!("{0}/{0}", self.steps)
            }
            None => "-".to_owned(),
        }
    }
}

impl ApplicationRow {
    fn of(report: &Report, run: Option<&Run>, name: &str, member: &Member) -> Self {
        let live = member.live.as_ref();
        Self {
            application: name.to_owned(),
            step: member.step.map(|step| step + 1),
            phase: member.phase().map(Phase::name).unwrap_or_default(),
            sync: live.map(|live| live.sync.clone()).unwrap_or_default(),
            health: live.map(|live| live.health.clone()).unwrap_or_default(),
            operation: live.map(|live| live.operation_text().to_owned()).unwrap_or_default(),
            since: member.since().map(to_rfc3339).unwrap_or_default(),
            message: why(report, run, name, &report.why(member)),
        }
    }
}

impl StatusArgs {
    /// What to follow, with --watch.
    pub fn watched(&self) -> Option<WatchRequest<'_>> {
        let view = if self.plain { WatchView::Plain } else { WatchView::Screen };
        let request = self.watch.request(&self.cluster, self.name.as_deref(), view)?;
        Some(WatchRequest { all_namespaces: self.all_namespaces, ..request })
    }
}

/// Runs the command without --watch.
pub(super) fn run(args: StatusArgs) -> anyhow::Result<ExitCode> {
    if let Some(name) = &args.name {
        let found = block_on(async {
            let cluster = ClusterConnection::connect(&args.cluster).await?;
            let set = cluster.expect_application_set(name).await?;
            ReportedSet::read(&cluster, set).await
        })?;
        let ReportedSet { set, applications, run, policies } = &found;
        let summary = SetSummary::read(set, applications, run.as_ref(), policies);
        args.output.print(&summary, one)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (sets, applications, runs, policies, nothing) = block_on(async {
        let cluster = ClusterConnection::connect(&args.cluster).await?;
        let (sets, applications, nothing) = read(&cluster, args.all_namespaces).await?;
        let runs = beside(&cluster, RUN, &sets).await;
        let policies = beside(&cluster, POLICY, &sets).await;
        Ok((sets, applications, runs, policies, nothing))
    })?;
    args.output.print(&summaries(&sets, applications, &runs, &policies), |summaries| {
        match summaries.as_slice() {
            [] => nothing,
            summaries => list(summaries),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The sets and the Applications of their namespaces, and what to print when there are no
/// sets.
async fn read(
    cluster: &ClusterConnection,
    all_namespaces: bool,
) -> Result<(Vec<Arc<Value>>, Vec<Arc<Value>>, String), Error> {
    if all_namespaces {
        let sets = cluster.list("ApplicationSet", None, None).await?;
        let nothing = "No ApplicationSets found in any namespace.\n".to_owned();
        return Ok((sets, cluster.list("Application", None, None).await?, nothing));
    }
    let (namespace, sets) = cluster.application_sets_here().await?;
    if sets.is_empty() {
        let elsewhere = cluster.names("ApplicationSet", None).await;
        return Ok((sets, Vec::new(), nothing(cluster.places(), elsewhere)));
    }
    let applications = cluster.list("Application", Some(&namespace), None).await?;
    Ok((sets, applications, String::new()))
}

/// What to print for namespaces without ApplicationSets. `elsewhere` are namespace and name
/// of those that exist, if they can be listed.
fn nothing(places: &[String], elsewhere: Option<BTreeSet<(String, String)>>) -> String {
    let places = places.join(" or ");
    let found = format!("No ApplicationSets found in namespace {places}");
    let elsewhere = elsewhere.as_ref().map(|names| names.iter().map(|(at, _)| at).collect());
    let text = match elsewhere.map(|places: BTreeSet<&String>| some_of(places, NAMES)) {
        None => format!("{found}; use -A to list all namespaces."),
        Some(others) if others.is_empty() => format!("{found}, nor in any other."),
        Some(others) => {
            format!("{found}; namespaces with ApplicationSets: {others} (use -n, or -A for all).")
        }
    };
    output::line(&text)
}

/// Summaries of sets, sorted by namespace and name; `applications`, `runs` and `policies` may be of
/// several namespaces.
pub(super) fn summaries(
    sets: &[Arc<Value>],
    applications: Vec<Arc<Value>>,
    runs: &[Arc<Value>],
    policies: &[Arc<Value>],
) -> Vec<SetSummary> {
    let mut by_namespace: BTreeMap<String, BTreeMap<String, Arc<Value>>> = BTreeMap::new();
    let namespace_of = |object: &Value| object.namespace().to_owned();
    for application in applications {
        let name = application.name().to_owned();
        by_namespace.entry(namespace_of(&application)).or_default().insert(name, application);
    }
    let none = BTreeMap::new();
    let read = |set: &Arc<Value>| {
        let applications = by_namespace.get(&namespace_of(set)).unwrap_or(&none);
        let run = current_run(runs, set).map(|run| Run::read(run));
        SetSummary::read(set, applications, run.as_ref(), policies)
    };
    let mut summaries: Vec<SetSummary> = sets.iter().map(read).collect();
    let key = |summary: &SetSummary| (summary.namespace.clone(), summary.application_set.clone());
    summaries.sort_by_key(key);
    summaries
}

pub(super) fn list(summaries: &[SetSummary]) -> String {
    if summaries.is_empty() {
        return "No ApplicationSets found; use -A to list all namespaces.\n".to_owned();
    }
    let row = |summary: &SetSummary| {
        [
            summary.namespace.clone(),
            summary.application_set.clone(),
            summary.strategy.to_owned(),
            summary.step_text(),
            format!("{}/{}", summary.complete, summary.total),
            or_dash(&summary.health),
            match &summary.paused {
                Some(paused) => format!("{paused}; {}", summary.message),
                None => summary.message.clone(),
            },
        ]
    };
    let header = ["NAMESPACE", "APPSET", "STRATEGY", "STEP", "DONE", "HEALTH", "MESSAGE"];
    // Before the text that has no end; the columns before it stay where they are.
    if summaries.iter().all(|summary| summary.run.is_none()) {
        return output::table(header, summaries.iter().map(row));
    }
    let with = |[a, b, c, d, e, f, last]: [String; 7], run: String| [a, b, c, d, e, f, run, last];
    let rows = summaries.iter().map(|summary| {
        let run = summary.run.as_ref().map(RunSummary::phase_text).unwrap_or_default();
        with(row(summary), or_dash(&run))
    });
    let header = ["NAMESPACE", "APPSET", "STRATEGY", "STEP", "DONE", "HEALTH", "RUN", "MESSAGE"];
    output::table(header, rows)
}

pub(super) fn one(summary: &SetSummary) -> String {
    one_at(summary, Timestamp::now())
}

/// Like [`one`], with ages at this time.
pub(super) fn one_at(summary: &SetSummary, now: Timestamp) -> String {
    let title = format!(
        "ApplicationSet {}/{}: {}",
        summary.namespace, summary.application_set, summary.message
    );
    let mut text = output::line(&title);
    if let Some(run) = &summary.run {
        text.push_str(&output::line(&run.text(now)));
        if let Some(cause) = &run.cause {
            text.push_str(&output::line(&format!("cause: {cause}")));
        }
    }
    if let Some(paused) = &summary.paused {
        text.push_str(&output::line(paused));
    }
    if let Some(truncated) = &summary.truncated {
        text.push_str(&format!("note: {truncated}; this table does\n"));
    }
    if !summary.applications.is_empty() {
        text.push('\n');
        text.push_str(&applications(summary, now));
    }
    text
}

/// The table of the Applications of a set, with ages at this time, and a row for each step that
/// matches none.
fn applications(summary: &SetSummary, now: Timestamp) -> String {
    type Cell<'a> = &'a dyn Fn(&ApplicationRow) -> String;
    let columns: [(&str, Cell<'_>); 8] = [
        ("APPLICATION", &|row| row.application.clone()),
        ("STEP", &|row| row.step.map_or_else(|| "-".to_owned(), |step| step.to_string())),
        ("PHASE", &|row| or_dash(row.phase)),
        ("SYNC", &|row| or_dash(&row.sync)),
        ("HEALTH", &|row| or_dash(&row.health)),
        ("OPERATION", &|row| or_dash(&row.operation)),
        ("FOR", &|row| output::age(&row.since, now)),
        ("MESSAGE", &|row| row.message.clone()),
    ];
    let cells = |row: &ApplicationRow| (row.step, columns.map(|(_, cell)| cell(row)));
    let empty = |step: &usize| {
        let message = "matches no Application, and counts as done".to_owned();
        let mut cells = columns.map(|_| "-".to_owned());
        (cells[1], cells[7]) = (step.to_string(), message);
        (Some(*step), cells)
    };
    let mut rows: Vec<_> = summary.applications.iter().map(cells).collect();
    rows.extend(summary.empty_steps.iter().map(empty));
    rows.sort_by_key(|(step, _)| step.unwrap_or(usize::MAX));
    let rows = rows.into_iter().map(|(_, cells)| cells);
    output::table(columns.map(|(header, _)| header), rows)
}
