//! The difference of an ApplicationSet: its Applications against the generated ones.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::args::DiffArgs;
use super::field_change::FieldChange;
use super::summary;
use crate::cli::cluster::ClusterConnection;
use crate::cli::cluster::controller::Controller;
use crate::cli::console::error::{CHECK_FAILED, Error};
use crate::cli::console::output::{self, OutputArgs};
use crate::cli::files::generate;
use crate::cli::plan::live_diff::{self, Change, Input, LiveChange};
use crate::cli::plan::other_sets::OtherSets;
use crate::cli::plan::policies::{self, Policies};
use wavegate_api::Raw;
use wavegate_api::raw::edit_metadata;
use wavegate_engine::diff::{self, DiffStrategy, unified_diff};

/// The data that is printed, of one set.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    namespace: String,
    application_set: String,
    /// Whether any Application differs.
    modified: bool,
    /// The number of Applications, generated and existing ones.
    compared: usize,
    applications: Vec<Application>,
}

#[derive(Debug, Serialize)]
struct Application {
    application: String,
    change: Change,
    /// Why the change waits or is refused; empty otherwise.
    message: String,
    changes: Vec<FieldChange>,
    /// `null` when it does not exist.
    live: Value,
    /// `null` when it would be deleted.
    predicted: Value,
    #[serde(skip)]
    text: String,
}

/// Compares the set of the cluster, or those of files.
pub(super) async fn compare(args: &DiffArgs, name: Option<&str>) -> Result<Vec<Report>, Error> {
    let cluster = ClusterConnection::connect(&args.cluster).await?;
    let sets = generate::live_sets(&cluster, &args.files, name).await?;
    let controller = Controller::read(&cluster, &args.controller).await?;
    let mut facts = controller.facts();
    let mut others = OtherSets::new(&cluster, &controller, &sets);
    let mut known = Policies::new(&cluster);
    let mut reports = Vec::new();
    for set in &sets {
        let generation = generate::generate(set, &mut facts).await?;
        let namespace = match set.value.namespace() {
            "" => cluster.namespace.as_str(),
            namespace => namespace,
        };
        let stored = cluster.get("ApplicationSet", namespace, set.value.name()).await?;
        let existing = cluster.applications_by_name(namespace).await?;
        let stored = stored.as_deref();
        let (others, facts) = (&mut others, &mut facts);
        let policies = known.of(namespace).await.unwrap_or_default();
        let rules = policies::rules(policies, &set.value, &generation);
        let input = Input { set: &set.value, stored, generation: &generation, rules: &rules };
        let (_, changes) = live_diff::of_controller(others, facts, &input, &existing).await;
        reports.push(report(namespace, set.value.name(), changes, &existing));
    }
    Ok(reports)
}

/// The Applications of a set that a plan changes, as `-o json` prints them.
pub(in crate::cli) fn planned_differences(
    namespace: &str,
    changes: Vec<LiveChange>,
    existing: &BTreeMap<String, Arc<Value>>,
) -> Value {
    json!(report(namespace, "", changes, existing).applications)
}

fn report(
    namespace: &str,
    name: &str,
    changes: Vec<LiveChange>,
    existing: &BTreeMap<String, Arc<Value>>,
) -> Report {
    let compared = changes.len();
    let differing = changes.into_iter().filter(|live| live.change != Change::None);
    let applications: Vec<Application> = differing
        .map(|live| {
            let before = existing.get(&live.application).map(|found| spec_of(found));
            let after = match live.change {
                Change::Delete | Change::Create | Change::Update => live.after.map(|a| spec_of(&a)),
                Change::Wait | Change::Move | Change::Refuse | Change::None => before.clone(),
            };
            let comparison = comparison(before, after);
            Application {
                application: live.application,
                change: live.change,
                message: match live.change {
                    // The difference shows the fields.
                    Change::Update => String::new(),
                    _ => live.message,
                },
                changes: comparison.changes.iter().map(FieldChange::from).collect(),
                text: unified_diff(&comparison, output::colour()),
                live: comparison.live,
                predicted: comparison.predicted,
            }
        })
        .collect();
    Report {
        namespace: namespace.to_owned(),
        application_set: name.to_owned(),
        modified: !applications.is_empty(),
        compared,
        applications,
    }
}

/// The part of an Application that its set determines, without what the server adds.
fn spec_of(application: &Value) -> Value {
    let mut part = application.clone();
    if let Some(object) = part.as_object_mut() {
        object.retain(|field, _| field != "status" && field != "operation");
    }
    edit_metadata(&mut part, |metadata| {
        let of_server = [
            "creationTimestamp",
            "generation",
            "managedFields",
            "resourceVersion",
            "selfLink",
            "uid",
        ];
        metadata.retain(|field, value| !of_server.contains(&field.as_str()) && !value.is_null());
    });
    part
}

fn comparison(live: Option<Value>, predicted: Option<Value>) -> diff::Comparison {
    let (live, predicted) = (live.unwrap_or_default(), predicted.unwrap_or_default());
    let both = !live.is_null() && !predicted.is_null();
    diff::Comparison {
        modified: live != predicted,
        changes: if both { diff::list_changes(&live, &predicted) } else { Vec::new() },
        predicted,
        live,
        strategy: DiffStrategy::TwoWay,
        skipped_rules: Vec::new(),
        exhausted_rules: Vec::new(),
        is_provisional: false,
    }
}

/// Prints the differences.
pub(super) fn print(reports: &[Report], output: &OutputArgs) -> anyhow::Result<ExitCode> {
    let sets: Vec<&str> = reports.iter().map(|report| report.application_set.as_str()).collect();
    output.check_one_set("cannot compare", &sets)?;
    for report in reports {
        output.print(report, text)?;
    }
    let modified = reports.iter().any(|report| report.modified);
    Ok(if modified { ExitCode::from(CHECK_FAILED) } else { ExitCode::SUCCESS })
}

fn text(report: &Report) -> String {
    let colour = output::colour();
    let mut out = String::new();
    for application in &report.applications {
        let what = match application.change {
            Change::Create => "would be created",
            Change::Update => "would be updated",
            Change::Delete => "would be deleted",
            Change::Wait => "waits",
            Change::Move => "would change its owner",
            Change::Refuse => "cannot be written",
            Change::None => "",
        };
        let colon = if application.message.is_empty() { "" } else { ": " };
        let title = format!(
            "==> Application {}/{}: {what}{colon}{}",
            report.namespace, application.application, application.message
        );
        out.push_str(&output::line(&title));
        out.push_str(&output::printable_lines(&application.text, colour));
        out.push('\n');
    }
    out + &output::line(&summary(report))
}

fn summary(report: &Report) -> String {
    let count = |change| report.applications.iter().filter(|one| one.change == change).count();
    let Report { namespace, application_set, compared, .. } = report;
    let name = format!("ApplicationSet {namespace}/{application_set}");
    summary::summary(
        &name,
        "",
        (*compared, "Application"),
        [
            (count(Change::Create), "would be created"),
            (count(Change::Update), "would be updated"),
            (count(Change::Delete), "would be deleted"),
            (count(Change::Wait), "waiting"),
            (count(Change::Move), "would change the owner"),
            (count(Change::Refuse), "cannot be written"),
        ],
    )
}
