//! `wavegate sync -f`: one run of the sync engine without an Application in the cluster.
//!
//! The application controller runs in this process. Its control plane is an API server in
//! memory with one Application; its destination is the cluster of the kube context.
//! Everything else is the same as for an Application.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::args::{OperationArgs, SyncArgs};
use super::control_plane::{ControlPlane, LABEL};
use super::follow::{self, FollowOptions, Versions};
use super::manifests::Manifests;
use super::ownership;
use super::progress::{OperationGoal, ProgressLine, WIDTH};
use super::request::{INTERRUPTED, not_requested};
use super::result::OperationResult;
use super::run_lease::RunLease;
use crate::cli::cluster::ClusterConnection;
use crate::cli::console::error::{CHECK_FAILED, Error, fault, note};
use crate::cli::run::stop_signal;
use crate::cli::watch::args::until;
use wavegate_api::Raw;
use wavegate_api::app_view::{ApplicationView, ResourceView};
use wavegate_application::manual;
use wavegate_cluster::act::commands::operation;
use wavegate_cluster::watch::cluster_cache::SurveyMode;
use wavegate_controller as controller;
use wavegate_controller::application::OwnCluster;

/// Runs the command.
pub(super) fn run(args: SyncArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        // The first signal terminates the operation in order, the second one ends the process.
        let (first, second) = (CancellationToken::new(), CancellationToken::new());
        let signals = [first.clone(), second.clone()];
        tokio::spawn(async move {
            for signal in signals {
                stop_signal().await;
                signal.cancel();
            }
        });
        let lease = OnceLock::new();
        let ended = tokio::select! {
            ended = sync(&args, &first, &lease) => ended,
            () = second.cancelled() => {
                note("interrupted again: the sync ends as it is; the next one begins anew");
                Ok((INTERRUPTED, None))
            }
        };
        if let Some(lease) = lease.get() {
            lease.release().await;
        }
        ended
    });
    // Requests that do not answer must not keep the process.
    runtime.shutdown_background();
    let (code, result) = ended?;
    if let Some(result) = result {
        args.output.print_data(&result)?;
    }
    Ok(ExitCode::from(code))
}

/// Syncs while the Lease is held, which is stored before it is requested: a response may be
/// lost, or the run be interrupted.
async fn sync(
    args: &SyncArgs,
    interrupted: &CancellationToken,
    lease: &OnceLock<RunLease>,
) -> anyhow::Result<(u8, Option<OperationResult>)> {
    let since = Instant::now();
    let cluster = ClusterConnection::connect(&args.cluster).await?;
    let manifests = Manifests::read(args, &cluster.namespace, cluster.client()).await?;
    let engine = engine(args, &cluster, &manifests, since, interrupted);
    if args.what.dry_run {
        return engine.await;
    }
    let lease = lease.get_or_init(|| RunLease::of(cluster.client(), &manifests));
    let is_renewed = tokio::select! {
        taken = lease.take() => taken?,
        () = interrupted.cancelled() => return Ok((INTERRUPTED, None)),
    };
    tokio::select! {
        ended = engine => ended,
        error = lease.lost(), if is_renewed => Err(error.into()),
    }
}

/// Runs the sync engine, once the Lease is held.
async fn engine(
    args: &SyncArgs,
    cluster: &ClusterConnection,
    manifests: &Manifests,
    since: Instant,
    interrupted: &CancellationToken,
) -> anyhow::Result<(u8, Option<OperationResult>)> {
    let client = cluster.client().clone();
    tokio::select! {
        checked = ownership::check(cluster, manifests, &args.what) => checked?,
        () = interrupted.cancelled() => return Ok((INTERRUPTED, None)),
    }
    let survey = if args.what.prune { SurveyMode::First } else { SurveyMode::Never };
    let reach = manifests.reach(&client, survey).await?;
    if let Some(namespaces) = reach.namespaces.as_ref().filter(|_| args.what.prune) {
        let names: Vec<&str> = namespaces.iter().map(String::as_str).collect();
        let searched = match names.as_slice() {
            [one] => format!("namespace {one} is searched"),
            all => format!("namespaces {} are searched", all.join(" and ")),
        };
        note(&format!(
            "for what is left over, only {searched}: this user may not list the whole cluster"
        ));
    }

    let stop = CancellationToken::new();
    let _guard = stop.clone().drop_guard();
    let control_plane = ControlPlane::start(manifests).await?;
    let (settings, sources) = (control_plane.settings(), control_plane.sources()?);
    let own = OwnCluster { client: client.clone(), reach: reach.clone() };
    let running = controller::run_elsewhere(
        control_plane.controllers(),
        own,
        settings,
        Arc::new(sources),
        stop.clone(),
    );
    let options =
        FollowOptions { waves: manifests.waves(), ..FollowOptions::new(&args.output, since) };
    let work = work(args, manifests, &control_plane, &options, interrupted);
    tokio::select! {
        ended = work => ended,
        stopped = running => {
            stopped.context("the sync engine stopped")?;
            anyhow::bail!("the sync engine stopped")
        }
    }
}

async fn work(
    args: &SyncArgs,
    manifests: &Manifests,
    control_plane: &ControlPlane,
    options: &FollowOptions,
    interrupted: &CancellationToken,
) -> anyhow::Result<(u8, Option<OperationResult>)> {
    let client = control_plane.client();
    let what = &args.what;
    let compared = tokio::select! {
        compared = compared(client, control_plane.application()) => compared?,
        () = interrupted.cancelled() => return Ok((INTERRUPTED, None)),
    };
    options.print(
        &[ProgressLine::new(manifests.title(), "Compared", summary(&compared, what, manifests))],
        WIDTH,
    )?;
    let request = what.request("wavegate");
    let place = manifests.title();
    let requested = operation::request_operation(client, &compared, &request).await;
    let requested = requested.map_err(|error| not_requested(error, place.clone()))?;
    let deadline = args.timeout.map(|timeout| options.since + timeout);
    let goal = OperationGoal::Request(request.id.clone());
    let follow = follow::operation(client, &requested, &goal, options);
    tokio::pin!(follow);
    let (end, ended_by) = tokio::select! {
        end = &mut follow => (end?, None),
        () = interrupted.cancelled() => {
            note("interrupted: the operation is terminated; a second Ctrl-C ends at once");
            terminate(client, &requested).await;
            (follow.await?, Some(INTERRUPTED))
        }
        () = until(deadline) => {
            note("the time is over: the operation is terminated");
            terminate(client, &requested).await;
            (follow.await?, Some(CHECK_FAILED))
        }
    };
    let (result, failure) = end.judge("the sync", &place);
    let result = result.map(|result| OperationResult {
        namespace: manifests.namespace.clone(),
        application: manifests.name.clone(),
        ..result
    });
    let code = match (ended_by, failure) {
        (Some(code), _) => code,
        (None, None) => 0,
        (None, Some(failure)) => {
            fault(&failure);
            CHECK_FAILED
        }
    };
    Ok((code, result))
}

/// Asks the operation to end; it does so also when this process ends.
async fn terminate(client: &kube::Client, requested: &Value) {
    match operation::terminate_operation(client, requested).await {
        Ok(_) | Err(operation::RequestError::Idle) => {}
        Err(error) => note(&format!("cannot terminate the operation: {error}")),
    }
}

/// Waits for the first comparison.
async fn compared(client: &kube::Client, application: &Value) -> Result<Value, Error> {
    let mut versions = Versions::of(client, "Application", application);
    loop {
        let Some(version) = versions.next().await else {
            return Err(Error::input("cannot sync", "the manifests", "the run was removed"));
        };
        let status = ApplicationView::of(&version).status;
        let mut conditions = status.conditions.iter();
        if let Some(error) = conditions.find(|found| found.type_.ends_with("Error")) {
            let message = error.message.as_str();
            let message = message.strip_prefix("Failed to load live state: ").unwrap_or(message);
            let message = message.strip_prefix("Failed to load target state: ").unwrap_or(message);
            return Err(Error::input("cannot compare", "the manifests with the cluster", message));
        }
        if status.reconciled_at.is_string() {
            for warning in &status.conditions {
                note(&format!("{}: {}", warning.type_, warning.message));
            }
            return Ok(version);
        }
    }
}

/// What the sync has to do, in one line.
fn summary(application: &Value, what: &OperationArgs, manifests: &Manifests) -> String {
    // Others are neither applied nor pruned.
    let selected = |resource: &ResourceView| {
        what.resources.is_empty() || manual::is_selected(&what.resources, &resource.key())
    };
    let left_over = match manifests.named {
        true => "left over (--prune deletes them)".to_owned(),
        false => format!("left over (--prune --name {} deletes them)", manifests.name),
    };
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    let resources = ResourceView::rows(application).filter(|resource| !resource.hook);
    for resource in resources.filter(selected) {
        let what = match (resource.requires_pruning, resource.status.as_str()) {
            (true, _) if what.prune => "to prune",
            (true, _) => &left_over,
            (false, "Synced") => "unchanged",
            (false, _) => "to apply",
        };
        *count.entry(what).or_default() += 1;
    }
    let order = ["to apply", "unchanged", "to prune", &left_over];
    let counted: Vec<String> =
        (order.iter()).filter_map(|what| Some(format!("{} {what}", count.get(what)?))).collect();
    let counted = if counted.is_empty() { "no resources".to_owned() } else { counted.join(", ") };
    format!("{counted}; label {LABEL}={}", application.name())
}
