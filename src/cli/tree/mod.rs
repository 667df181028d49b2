//! `wavegate tree`: the resources of an Application as a tree.

mod read;
mod report;
pub(super) mod view;

use std::process::ExitCode;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

pub(super) use self::report::TreeReport;
use self::report::{AppHealth, Destination};
use crate::cli::cluster::live_app::{ControlPlaneArgs, Destinations, TargetKind, named};
use crate::cli::cluster::{ClusterArgs, ClusterConnection, block_on};
use crate::cli::console::error::{Error, note};
use crate::cli::console::output::OutputArgs;
use wavegate_api::sources::compared_revisions;
use wavegate_api::{HealthStatus, OperationPhase, Raw, SyncStatusCode};
use wavegate_application::access;
use wavegate_controller::config;
use wavegate_engine::blocking_resource;
use wavegate_engine::health::Checks;
use wavegate_engine::resource_tree;

/// The ConfigMap with health scripts.
const ARGOCD_CM: &str = "argocd-cm";

/// Print the resources of an Application as a tree, down to Pods
///
/// Shows the resources in the status of the Application and the hooks of its last
/// operation, and below each the objects that it owns, with sync status, health, wave,
/// hook and age. Former ReplicaSets, ControllerRevisions and large numbers of objects are
/// folded in the table.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TreeArgs {
    /// Name of the Application
    #[arg(value_name = "APP")]
    name: String,
    /// Show all objects: former ReplicaSets, ControllerRevisions, and each of many
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    control_plane: ControlPlaneArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub(super) fn run(args: TreeArgs) -> anyhow::Result<ExitCode> {
    let report = block_on(report(&args))?;
    for text in &report.notes {
        note(text);
    }
    let now = Timestamp::now();
    args.output.print(&report, |report| view::text(report, args.all, now))?;
    Ok(ExitCode::SUCCESS)
}

async fn report(args: &TreeArgs) -> Result<TreeReport, Error> {
    let connection = ClusterConnection::connect(&args.cluster).await?;
    let application = application(&connection, &args.name).await?;
    Ok(read_tree(&connection, &args.control_plane, &application).await)
}

/// The tree of an Application as its status lists it.
pub(super) fn listed_tree(application: &Value) -> TreeReport {
    TreeReport { resources: resource_tree::listed_resources(application), ..summary(application) }
}

/// The tree of an Application; what cannot be read is a note of it.
pub(super) async fn read_tree(
    connection: &ClusterConnection,
    control_plane: &ControlPlaneArgs,
    application: &Value,
) -> TreeReport {
    let resources = resource_tree::listed_resources(application);
    let mut report = summary(application);
    if resources.is_empty() {
        return report;
    }
    let destinations = Destinations::of(connection, control_plane, application).await;
    let namespace = control_plane.namespace(application);
    let (checks, problem) = checks(connection, &namespace).await;
    let destination = &report.destination.namespace;
    let live = match destinations.resolve(application).await {
        Ok(cluster) => read::read(&cluster, &resources, destination, &checks)
            .await
            .map_err(|error| error.to_string()),
        Err(why) => Err(why),
    };
    match live {
        Ok(live) => {
            report.resources = resource_tree::with_live(resources, &live.objects, &live.absent);
            report.notes = live.notes;
            report.notes.extend(problem);
        }
        Err(why) => {
            report.resources = resources;
            report.notes =
                vec![format!("only the status is shown, since live objects cannot be read: {why}")];
        }
    }
    report
}

/// The health checks with the scripts of the control plane, or why these are not known.
async fn checks(connection: &ClusterConnection, namespace: &str) -> (Checks, Option<String>) {
    let found = connection.config_map(namespace, ARGOCD_CM).await;
    let problem = found.as_ref().err().map(|error| {
        format!("health scripts are not run, since their ConfigMap cannot be read: {error}")
    });
    let keys = found.ok().flatten().unwrap_or_default();
    let (scripts, _) = config::health_scripts(&keys);
    (Checks { scripts: Arc::new(scripts), ..Checks::default() }, problem)
}

async fn application(connection: &ClusterConnection, text: &str) -> Result<Arc<Value>, Error> {
    let is_set = |name: &str| {
        let why = format!("is an ApplicationSet; wavegate status {name} lists its Applications");
        Error::input("cannot show the resources", text, why)
    };
    let (kind, name) = named(text)?;
    if kind == TargetKind::ApplicationSet {
        return Err(is_set(name));
    }
    match connection.expect_application(name).await {
        Err(missing) if missing.is_not_found() => {
            let set = connection.expect_application_set(name).await;
            Err(if set.is_ok() { is_set(name) } else { missing })
        }
        found => found,
    }
}

/// What the Application itself says.
fn summary(application: &Value) -> TreeReport {
    let text = |pointer: &str| application.text(pointer).to_owned();
    let phase = OperationPhase::from_word(application.text("/status/operationState/phase"));
    let sync = text("/status/sync/status");
    let health = AppHealth {
        status: text("/status/health/status"),
        message: text("/status/health/message"),
    };
    let settled = SyncStatusCode::from_word(&sync) == SyncStatusCode::Synced
        && HealthStatus::from_word(&health.status) == HealthStatus::Healthy
        && !phase.is_running()
        && !phase.has_failed();
    let blocking = blocking_resource::blocking_of(application);
    let waits_for = match blocking.resource {
        _ if settled => String::new(),
        Some(resource) => resource.to_string(),
        None => blocking.reason,
    };
    TreeReport {
        namespace: application.namespace().to_owned(),
        application: application.name().to_owned(),
        project: access::project_of(application).to_owned(),
        destination: Destination {
            server: text("/spec/destination/server"),
            name: text("/spec/destination/name"),
            namespace: text("/spec/destination/namespace"),
        },
        revisions: compared_revisions(application),
        sync,
        health,
        created_at: text("/metadata/creationTimestamp"),
        operation: text("/status/operationState/phase"),
        waits_for,
        resources: Vec::new(),
        notes: Vec::new(),
    }
}
