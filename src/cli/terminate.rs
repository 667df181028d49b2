//! `wavegate terminate`: ends the running operation of an Application.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::cli::cluster::{ClusterArgs, ClusterConnection, block_on};
use crate::cli::console::error::{CHECK_FAILED, Error, fault, note};
use crate::cli::console::output::OutputArgs;
use crate::cli::sync::INTERRUPTED;
use crate::cli::sync::follow::{self, FollowEnd, FollowOptions};
use crate::cli::sync::progress::{OperationGoal, ProgressLine, WIDTH};
use crate::cli::sync::result::OperationResult;
use crate::cli::watch::args::timeout;
use wavegate_api::Raw;
use wavegate_cluster::act::commands::operation::{self, Terminated};

/// Terminate the running operation of an Application
///
/// Hooks that are running are deleted, nothing more is applied, and no further attempt is
/// made; what was applied stays. An operation that no controller has started is withdrawn.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 the operation has ended; 1 none is running, or it has not \
ended in time; 2 usage error; 130 interrupted.")]
pub(super) struct TerminateArgs {
    /// Name of the Application
    #[arg(value_name = "APP")]
    name: String,
    /// Do not wait for the end of the operation
    #[arg(long)]
    no_wait: bool,
    /// Longest time to wait, such as 10m
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = timeout)]
    timeout: Option<Duration>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub(super) fn run(args: TerminateArgs) -> anyhow::Result<ExitCode> {
    let (code, result) = block_on(terminate(&args))?;
    if let Some(result) = result {
        args.output.print_data(&result)?;
    }
    Ok(ExitCode::from(code))
}

async fn terminate(args: &TerminateArgs) -> Result<(u8, Option<OperationResult>), Error> {
    let since = Instant::now();
    let cluster = ClusterConnection::connect(&args.cluster).await?;
    let of_set = |options: &str, name: &str| {
        format!(
            "wavegate status {options}{name} lists its Applications; operations are those of Applications"
        )
    };
    let application = cluster.expect_member(&args.name, "cannot terminate", of_set).await?;
    let (client, place) = (cluster.client(), crate::cli::sync::place(&application));
    let options = FollowOptions {
        until: args.timeout.map(|timeout| since + timeout),
        ..FollowOptions::new(&args.output, since)
    };
    let requested: Value = match operation::terminate_operation(client, &application).await {
        Ok(Terminated::Requested(stored)) => stored,
        Ok(Terminated::Withdrawn(stored)) => {
            let text = "no controller had started it; its request is removed";
            options.print(&[ProgressLine::new("operation", "Withdrawn", text)], WIDTH)?;
            return Ok((0, Some(OperationResult::of(&stored))));
        }
        Err(operation::RequestError::Idle) => {
            let last = application.text("/status/operationState/phase");
            let last = if last.is_empty() { "" } else { &format!("; the last one ended: {last}") };
            let why = format!("no operation is running{last}");
            return Err(Error::check("cannot terminate", place, why));
        }
        Err(error) => return Err(Error::check("cannot terminate", place, error)),
    };
    options.print(&[ProgressLine::new("operation", "Terminating", &place)], WIDTH)?;
    if args.no_wait {
        return Ok((0, Some(OperationResult::of(&requested))));
    }
    let started = requested.text("/status/operationState/startedAt").to_owned();
    let goal = OperationGoal::Started(started);
    let end = tokio::select! {
        end = follow::operation(client, &requested, &goal, &options) => end?,
        _ = tokio::signal::ctrl_c() => {
            note("interrupted; the termination goes on");
            return Ok((INTERRUPTED, None));
        }
    };
    let is_over = matches!(end, FollowEnd::Over(..));
    let (result, failure) = end.judge("the operation", &place);
    match failure {
        // How it has ended is in the last line.
        Some(error) if !is_over => {
            fault(&error);
            Ok((CHECK_FAILED, result))
        }
        _ => Ok((0, result)),
    }
}
