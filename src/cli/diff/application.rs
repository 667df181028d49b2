//! The difference of an Application: live against source.

use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};

use super::args::DiffArgs;
use super::compared::{ControllerComparer, Report};
use crate::cli::cluster::ClusterConnection;
use crate::cli::cluster::controller::Controller;
use crate::cli::cluster::live_app::control_plane_of;
use crate::cli::console::error::{CHECK_FAILED, Error, fault, note};
use crate::cli::console::output::{OutputArgs, OutputFormat};
use crate::cli::files::repositories::OpenedRepositories;
use crate::cli::files::work_tree::WorkTree;
use wavegate_api::sources::InEffect;
use wavegate_api::{Raw, ResourceKey};
use wavegate_application::access;
use wavegate_engine::names::some_of;

/// Resources in a message.
const NAMED: usize = 5;

/// Compares an Application.
pub(super) async fn compare(
    connection: &ClusterConnection,
    args: &DiffArgs,
    application: &Value,
) -> Result<Report, Error> {
    let place = format!("Application {}/{}", application.namespace(), application.name());
    let controller = args.controller.in_namespace(&control_plane_of(application));
    let controller = Controller::read(connection, &controller).await?;
    let count = InEffect::of(application.spec()).list.len();
    if !args.revisions.is_empty() && args.revisions.len() != count {
        let (given, s) = (args.revisions.len(), if count == 1 { "" } else { "s" });
        let why =
            format!("{given} given for {count} source{s}; give one for each source, in order");
        return Err(Error::input("cannot compare", format!("{place}: --revision"), why));
    }
    let mut application = application.clone();
    let tried = match &args.local {
        None => None,
        Some(local) => {
            let tree = WorkTree::open("cannot compare", local)?;
            Some(tree.of_application(&mut application, args.repo.as_deref())?)
        }
    };
    let artifacts = controller.applications.artifacts.clone();
    let repositories = Arc::new(OpenedRepositories::open(artifacts, tried)?);
    let project = access::project_of(&application);
    let comparer = ControllerComparer::new(connection, &controller, &repositories, [project]);
    let outcome = comparer.outcome(&application, &args.revisions).await?;
    for (kind, why) in &outcome.unlisted {
        note(&format!("other resources of the Application may exist: cannot list {kind}: {why}"));
    }
    for filter in &args.resources {
        if !outcome.keys.iter().any(|key| filter.selects(key)) {
            let why = "no resource of the Application fits; see wavegate tree for its resources";
            return Err(Error::input("cannot compare", format!("--resource {filter}"), why));
        }
    }
    let selected = |key: &ResourceKey| {
        args.resources.is_empty() || args.resources.iter().any(|filter| filter.selects(key))
    };
    let with = args.local.as_ref().map(|local| local.display().to_string());
    Ok(Report::new(&application, outcome, with, &selected))
}

/// The difference of an Application to its source, as `-o json` prints it.
pub(in crate::cli) async fn difference(
    connection: &ClusterConnection,
    application: &Value,
) -> Result<Value, Error> {
    let args = DiffArgs::of_application(application.name());
    compare(connection, &args, application).await.map(|report| json!(report))
}

/// Prints a difference.
pub(super) fn print(report: &Report, output: &OutputArgs) -> anyhow::Result<ExitCode> {
    for condition in &report.conditions {
        note(&format!("{}: {}", condition.kind, condition.message));
    }
    // That nothing differs is not known when something cannot be read.
    let is_known = report.unread.is_empty() || report.modified;
    if is_known || output.format != OutputFormat::Table {
        output.print(report, Report::text)?;
    }
    if !report.unread.is_empty() {
        let place = format!("Application {}/{}", report.namespace, report.application);
        let first = report.unread.iter().map(String::as_str);
        let error = Error::input("cannot compare all resources", place, some_of(first, NAMED));
        if !report.modified {
            return Err(error.into());
        }
        fault(&error);
    }
    Ok(if report.modified { ExitCode::from(CHECK_FAILED) } else { ExitCode::SUCCESS })
}
