//! `wavegate sync APP`: writes the operation of each Application, and follows it.

use std::process::ExitCode;
use std::sync::Arc;

use futures::future::join_all;
use serde_json::Value;
use tokio::time::Instant;

use super::args::{OperationArgs, SyncArgs};
use super::follow::{self, FollowEnd, FollowOptions};
use super::member::Rollouts;
use super::progress::{OperationGoal, ProgressLine, WIDTH};
use super::request::{INTERRUPTED, not_requested, place, unusable};
use super::result::OperationResult;
use crate::cli::cluster::kubeconfig::current_user;
use crate::cli::cluster::{ClusterConnection, block_on};
use crate::cli::console::commands::wavegate;
use crate::cli::console::error::{CHECK_FAILED, Error, fault, note};
use wavegate_api::Raw;
use wavegate_api::time::to_rfc3339;
use wavegate_application::access::project_of;
use wavegate_application::manual::{self, Refusal, SyncRequest};
use wavegate_cluster::act::commands::operation;
use wavegate_cluster::watch::failure::{error_reason, has_code};
use wavegate_cluster::watch::object::{kind_api, kind_resource};
use wavegate_net::clock::Clock;

/// Maximum number of Applications that one command syncs: each has a watch.
const MAX: usize = 200;

/// Runs the command.
pub(super) fn run(args: SyncArgs) -> anyhow::Result<ExitCode> {
    let (code, results) = block_on(sync(&args))?;
    match results.as_slice() {
        [one] if args.names.len() == 1 => args.output.print_data(one)?,
        all => args.output.print_data(&all)?,
    }
    Ok(ExitCode::from(code))
}

async fn sync(args: &SyncArgs) -> Result<(u8, Vec<OperationResult>), Error> {
    let since = Instant::now();
    let cluster = ClusterConnection::connect(&args.cluster).await?;
    let client = cluster.client();
    let applications = applications(&cluster, args).await?;
    let what = &args.what;
    let by = current_user(client, args.cluster.context.as_deref()).await?;
    let mut requested = Vec::new();
    let mut rollouts = Rollouts::default();
    let mut code = 0;
    for application in applications {
        let request = what.request(&by);
        match start(&cluster, &application, &request, &mut rollouts).await {
            Ok(stored) => requested.push((stored, request.id)),
            // The others are independent of it.
            Err(error) if args.names.len() != 1 => {
                fault(&error);
                code = CHECK_FAILED;
            }
            Err(error) => return Err(error),
        }
    }
    let width = match requested.len() {
        0 | 1 => 0,
        _ => requested.iter().map(|(app, _)| app.name().chars().count()).max().unwrap_or(0).min(40),
    };
    let options = |application: &Value| FollowOptions {
        prefix: match width {
            0 => String::new(),
            width => format!("{:<width$}  ", application.name()),
        },
        until: args.timeout.map(|timeout| since + timeout),
        ..FollowOptions::new(&args.output, since)
    };
    for (application, _) in &requested {
        let (namespace, name) = (application.namespace(), application.name());
        let line =
            ProgressLine::new("operation", "Requested", format!("Application {namespace}/{name}"));
        options(application).print(&[line], WIDTH)?;
    }
    if args.no_wait {
        let results = requested.iter().map(|(app, _)| OperationResult::requested(app));
        return Ok((code, results.collect()));
    }
    let follow = requested.iter().map(|(application, id)| async move {
        let goal = OperationGoal::Request(id.clone());
        let end = follow::operation(client, application, &goal, &options(application)).await;
        (application, end)
    });
    let ends = tokio::select! {
        ends = join_all(follow) => ends,
        _ = tokio::signal::ctrl_c() => {
            for (application, _) in &requested {
                note(&format!("interrupted; {}", goes_on(application)));
            }
            return Ok((INTERRUPTED, Vec::new()));
        }
    };
    let mut results = Vec::new();
    for (application, end) in ends {
        let end = match end? {
            FollowEnd::TimedOut(waits_for) => {
                FollowEnd::TimedOut(format!("{waits_for}; {}", goes_on(application)))
            }
            end => end,
        };
        let (result, failure) = end.judge("the operation", &place(application));
        results.extend(result);
        if let Some(failure) = failure {
            fault(&failure);
            code = CHECK_FAILED;
        }
    }
    Ok((code, results))
}

fn goes_on(application: &Value) -> String {
    let terminate = wavegate("terminate", application.namespace(), application.name());
    format!("its operation goes on; end it with: {terminate}")
}

/// The Applications that are named or selected; at least one.
async fn applications(
    cluster: &ClusterConnection,
    args: &SyncArgs,
) -> Result<Vec<Arc<Value>>, Error> {
    let too_many = |place: String| {
        let why = format!("there are more than {MAX}; sync them in several commands");
        Error::input("cannot sync", place, why)
    };
    let Some(selector) = &args.selector else {
        if args.names.len() > MAX {
            return Err(too_many("the Applications that are named".to_owned()));
        }
        let mut applications: Vec<Arc<Value>> = Vec::new();
        for name in &args.names {
            let of_set = |options: &str, name: &str| {
                format!(
                    "wavegate status {options}{name} lists its Applications; sync those, or select them with -l"
                )
            };
            let found = cluster.expect_member(name, "cannot sync", of_set).await?;
            let known = |other: &Arc<Value>| other.uid() == found.uid();
            if !applications.iter().any(known) {
                applications.push(found);
            }
        }
        return Ok(applications);
    };
    let (namespace, found, more) = cluster.selected_applications(selector, MAX as u32).await?;
    let place = format!("Applications of namespace {namespace} with labels {selector}");
    if found.is_empty() {
        let why = "there is none; select another namespace with -n";
        return Err(Error::input("cannot find", place, why));
    }
    if more {
        return Err(too_many(place));
    }
    Ok(found)
}

/// Requests the sync of one Application, with notes on what holds it.
/// Requests a sync of an Application with its own options, as `wavegate sync APP --no-wait` does.
pub(in crate::cli) async fn request_sync(
    cluster: &ClusterConnection,
    application: &Value,
    by: &str,
) -> Result<(), Error> {
    let request = OperationArgs::default().request(by);
    start(cluster, application, &request, &mut Rollouts::default()).await.map(drop)
}

async fn start(
    cluster: &ClusterConnection,
    application: &Value,
    request: &SyncRequest,
    rollouts: &mut Rollouts,
) -> Result<Value, Error> {
    // Nothing is noted about a request that is not made.
    if let Some(refusal) = manual::operation_refusal(application) {
        return Err(refused(application, refusal));
    }
    manual::requested_operation(application, request).map_err(unusable)?;
    note_window(cluster, application).await;
    if !request.dry_run {
        rollouts.note_step(cluster, application, !request.resources.is_empty()).await;
    }
    let stored = operation::request_operation(cluster.client(), application, request).await;
    stored.map_err(|error| match error {
        operation::RequestError::Refused(refusal) => refused(application, refusal),
        error => not_requested(error, place(application)),
    })
}

/// The error for an Application that cannot be synced now.
fn refused(application: &Value, refusal: Refusal) -> Error {
    let why = match refusal {
        Refusal::Deleting => "it is being deleted".to_owned(),
        Refusal::Skipped => {
            "its annotation argocd.argoproj.io/skip-reconcile excludes it from syncs; remove the \
             annotation first"
                .to_owned()
        }
        Refusal::Busy { phase, by, since, message } => {
            let state = match phase.as_str() {
                "" => "an operation is requested already and has not started".to_owned(),
                phase => format!("an operation is running already ({phase} since {since})"),
            };
            let by = if by.is_empty() { String::new() } else { format!(", requested by {by}") };
            let message = if message.is_empty() { String::new() } else { format!(": {message}") };
            let end = wavegate("terminate", application.namespace(), application.name());
            format!("{state}{by}{message}; wait for its end, or end it with: {end}")
        }
    };
    Error::check("cannot sync", place(application), why)
}

/// Notes that a sync window denies the operation: the controller decides, and the
/// operation waits.
async fn note_window(cluster: &ClusterConnection, application: &Value) {
    let name = project_of(application);
    // Written by the controller; the namespace of its projects.
    let control_plane = match application.text("/status/controllerNamespace") {
        "" => application.namespace(),
        namespace => namespace,
    };
    let api = kind_api(cluster.client(), Some(control_plane), &kind_resource("AppProject"));
    let project = match api.get_opt(name).await {
        Ok(Some(project)) => project.parse(),
        Ok(None) => return,
        Err(error) => {
            // A project may be hidden from users who may sync.
            if !has_code(&error, 403) {
                note(&format!(
                    "cannot read AppProject {control_plane}/{name}: {}",
                    error_reason(&error)
                ));
            }
            return;
        }
    };
    let window = manual::manual_window(application, &project, Clock::system().now());
    if window.allowed {
        return;
    }
    let until = window.next_change.map(|at| format!(", until {}", to_rfc3339(at)));
    note(&format!(
        "{}: a sync window of AppProject {name} denies manual syncs now{}: {}; the operation waits",
        place(application),
        until.unwrap_or_default(),
        window.reason,
    ));
}
