//! `wavegate history`: the runs of an ApplicationSet.

use std::process::ExitCode;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::position;
use super::record::{RunRecord, revisions, shortened};
use crate::cli::cluster::{ClusterArgs, ClusterConnection, block_on};
use crate::cli::console::error::{Error, NOT_FOUND};
use crate::cli::console::output::{self, OutputArgs, age, human, or_dash, table};
use crate::cli::rollout_view::run::{estimate_text, gate_text};
use crate::cli::runs::runs;
use wavegate_api::Raw;
use wavegate_api::run::{RevisionCount, TimelineEntry};
use wavegate_api::time::to_rfc3339;
use wavegate_rollout::requests::{Run, applications_text};

/// Show what was rolled out, and who did what
///
/// Lists the runs of an ApplicationSet, the newest first. With a run, its timeline, gates and
/// failures.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  wavegate history APPSET       its runs\n  wavegate history APPSET 7     the timeline of run 7"
)]
pub(in crate::cli) struct HistoryArgs {
    /// Name of the ApplicationSet
    #[arg(value_name = "APPSET")]
    name: String,
    /// Name or number of a run
    #[arg(value_name = "RUN", allow_negative_numbers = true)]
    run: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// How to print the result
    #[arg(short = 'o', long = "output", value_enum, default_value_t, value_name = "FORMAT")]
    format: HistoryFormat,
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum HistoryFormat {
    /// Table for humans
    #[default]
    Table,
    /// Table with more columns
    Wide,
    /// Indented JSON
    Json,
    /// YAML
    Yaml,
}

/// Runs the command.
pub(in crate::cli) fn run(args: HistoryArgs) -> anyhow::Result<ExitCode> {
    let now = Timestamp::now();
    let (set, runs) = block_on(async {
        let cluster = ClusterConnection::connect(&args.cluster).await?;
        let set = cluster.expect_application_set(&args.name).await?;
        let runs = runs(&cluster, &set).await?;
        Ok((set, runs))
    })?;
    let records = records_of(&set, &runs, now);
    let output = OutputArgs {
        format: match args.format {
            HistoryFormat::Table | HistoryFormat::Wide => output::OutputFormat::Table,
            HistoryFormat::Json => output::OutputFormat::Json,
            HistoryFormat::Yaml => output::OutputFormat::Yaml,
        },
    };
    match &args.run {
        Some(name) => output.print(chosen(&set, &records, name)?, |record| one(record, now))?,
        None => output.print(&records, |records| list(&set, records, args.format, now))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The runs of a set as `-o json` prints them.
pub(in crate::cli) fn records(set: &Value, runs: &[Arc<Value>], now: Timestamp) -> Value {
    json!(records_of(set, runs, now))
}

fn records_of(set: &Value, runs: &[Arc<Value>], now: Timestamp) -> Vec<RunRecord> {
    let record = |run: &Arc<Value>| RunRecord::of(set.namespace(), set.name(), Run::read(run), now);
    runs.iter().map(record).collect()
}

/// The run with this name or number.
fn chosen<'a>(set: &Value, records: &'a [RunRecord], name: &str) -> Result<&'a RunRecord, Error> {
    let names: Vec<&str> = records.iter().map(|record| record.run.as_str()).collect();
    position(&names, name).map(|at| &records[at]).map_err(|hint| {
        let place = format!("run {name} of ApplicationSet {}/{}", set.namespace(), set.name());
        Error::input(NOT_FOUND, place, format!("it does not exist, or was too long ago; {hint}"))
    })
}

fn list(set: &Value, records: &[RunRecord], format: HistoryFormat, now: Timestamp) -> String {
    if records.is_empty() {
        let text = format!(
            "ApplicationSet {}/{} has no runs: nothing was rolled out in steps since runs are recorded.",
            set.namespace(),
            set.name()
        );
        return output::line(&text);
    }
    let row = |record: &RunRecord| {
        [
            record.run.clone(),
            record.phase.to_string(),
            revisions(&record.from),
            revisions(&record.to),
            record.steps_text(),
            record.progress(),
            record.failed.to_string(),
            age(&record.started_at, now),
            record.duration(),
        ]
    };
    let header = ["RUN", "PHASE", "FROM", "TO", "STEPS", "DONE", "FAILED", "STARTED", "DURATION"];
    if format != HistoryFormat::Wide {
        return table(header, records.iter().map(row));
    }
    let [a, b, c, d, e, f, g, h, i] = header;
    let wide = records.iter().map(|record| {
        let [a, b, c, d, e, f, g, h, i] = row(record);
        [a, b, c, d, e, f, g, h, i, or_dash(&record.ended_by), record.message.clone()]
    });
    table([a, b, c, d, e, f, g, h, i, "ENDED BY", "MESSAGE"], wide)
}

/// A run in full.
fn one(record: &RunRecord, now: Timestamp) -> String {
    let mut lines = Vec::new();
    let mut line = |text: String| lines.push(output::line(&text));
    let message =
        if record.message.is_empty() { String::new() } else { format!(": {}", record.message) };
    line(format!(
        "Run {} of ApplicationSet {}/{}: {}{message}",
        record.run, record.namespace, record.application_set, record.phase
    ));
    let mut field = |name: &str, value: String| {
        if !value.is_empty() {
            line(format!("{:<12} {value}", format!("{name}:")));
        }
    };
    field("From", counted(&record.from));
    field("To", counted(&record.to));
    field("Done", format!("{} of {}", record.done, applications_text(record.total)));
    field("Step", record.steps_text());
    if !record.started_at.is_empty() {
        field("Started", format!("{} ({} ago)", record.started_at, age(&record.started_at, now)));
    }
    if !record.ended_at.is_empty() {
        let by = if record.ended_by.is_empty() {
            String::new()
        } else {
            format!(", by {}", record.ended_by)
        };
        field("Ended", format!("{}, after {}{by}", record.ended_at, record.duration()));
    }
    if let Some(estimate) = record.estimate.as_ref().filter(|_| record.ended_at.is_empty()) {
        field("Time left", estimate_text(estimate));
    }
    field("Skipped", record.skipped.join(", "));
    field("Unhealthy before", record.unhealthy_before.join(", "));
    let mut text: String = lines.concat();
    let mut section = |table: String| {
        text.push('\n');
        text.push_str(&table);
    };
    if !record.steps.is_empty() {
        let rows = record.steps.iter().enumerate().map(|(index, step)| {
            let end = step.completed_at.as_ref().map_or(now, |time| time.0);
            let took = step.opened_at.as_ref().map_or_else(
                || "-".to_owned(),
                |time| human(end.as_second().saturating_sub(time.0.as_second())),
            );
            [
                (index + 1).to_string(),
                format!("{}/{}", step.done, step.total),
                step.in_flight.to_string(),
                step.failed.to_string(),
                took,
                or_dash(&step.gates.join(", ")),
            ]
        });
        section(table(["STEP", "DONE", "IN FLIGHT", "FAILED", "DURATION", "GATES"], rows));
    }
    if !record.gates.is_empty() {
        let rows = record.gates.iter().map(|gate| {
            let waits = gate_text(gate, &record.namespace, &record.application_set);
            let state = match gate.opened_at.as_ref().filter(|_| gate.is_open()) {
                Some(at) => format!("open since {}", to_rfc3339(at.0)),
                None => waits,
            };
            let void = match gate.void.as_slice() {
                [] => String::new(),
                void => format!("; no longer counts: {}", void.join(", ")),
            };
            [
                gate.name.clone(),
                gate.policy.clone(),
                format!("{}/{}", gate.approved_by.len(), gate.approvals),
                or_dash(&gate.approved_by.join(", ")),
                state + &void,
            ]
        });
        section(table(["GATE", "POLICY", "APPROVALS", "BY", "MESSAGE"], rows));
    }
    if !record.failures.is_empty() {
        let rows = record.failures.iter().map(|failure| {
            let more = failure
                .count
                .saturating_sub(i64::try_from(failure.applications.len()).unwrap_or(i64::MAX));
            let names = failure.applications.join(", ");
            let names = if more > 0 { format!("{names} and {more} more") } else { names };
            [failure.count.to_string(), names, failure.message.clone()]
        });
        section(table(["FAILED", "APPLICATIONS", "MESSAGE"], rows));
    }
    if !record.waiting_for.is_empty() {
        let rows = record.waiting_for.iter().map(|wait| {
            [
                wait.application.clone(),
                wait.kind.clone(),
                or_dash(&wait.resource),
                wait.message.clone(),
            ]
        });
        section(table(["WAITS FOR", "KIND", "RESOURCE", "MESSAGE"], rows));
    }
    if !record.timeline.is_empty() {
        let rows = record.timeline.iter().map(|entry| {
            let TimelineEntry { at, what, subject, by, message, .. } = entry;
            let at = at.as_ref().map(|at| to_rfc3339(at.0)).unwrap_or_default();
            [or_dash(&at), what.clone(), or_dash(subject), or_dash(by), message.clone()]
        });
        section(table(["TIME", "WHAT", "SUBJECT", "BY", "MESSAGE"], rows));
    }
    text
}

/// Revisions with their numbers of Applications.
fn counted(all: &[RevisionCount]) -> String {
    let one = |count: &RevisionCount| {
        format!("{} ({})", shortened(&count.revision), applications_text(count.applications))
    };
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}
