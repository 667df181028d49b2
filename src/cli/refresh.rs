//! `wavegate refresh`: compares an Application, or generates an ApplicationSet, again.

use std::process::ExitCode;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::cli::cluster::{ClusterArgs, ClusterConnection, block_on};
use crate::cli::console::error::{Error, fault, note};
use crate::cli::console::output::{self, OutputArgs, OutputFormat};
use crate::cli::sync::INTERRUPTED;
use crate::cli::sync::follow::Versions;
use crate::cli::watch::args::{timeout, until};
use wavegate_api::annotations::{self, APPLICATION_SET_REFRESH, REFRESH, Refresh, annotation_of};
use wavegate_api::sources::compared_revisions;
use wavegate_api::{ObjectKey, Raw};
use wavegate_cluster::act::commands::refresh;
use wavegate_cluster::watch::failure::error_reason;

/// Prefixes of the name of an ApplicationSet, as for kubectl.
const SET_PREFIXES: [&str; 4] =
    ["appset/", "appsets/", "applicationset/", "applicationset.argoproj.io/"];

/// After this time without a reaction, the controller is probably not running.
const NO_REACTION: Duration = Duration::from_secs(10);

/// Compare Applications with their sources again, now
///
/// Sets the refresh annotation, waits until the controller has removed it, and prints the
/// result. With appset/NAME, an ApplicationSet reads its repositories and generates its
/// Applications again.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 refreshed; 1 an error was reported, or the time is over; 2 \
usage error; 130 interrupted.")]
pub(super) struct RefreshArgs {
    /// Names of Applications; appset/NAME for an ApplicationSet
    #[arg(value_name = "APP|appset/NAME", required = true)]
    names: Vec<String>,
    /// Render manifests again, too, even at the same revision
    #[arg(long)]
    hard: bool,
    /// Wait for the result; the default
    #[arg(long, conflicts_with = "no_wait")]
    wait: bool,
    /// Set the annotation only
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

/// The state after a refresh.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Refreshed {
    namespace: String,
    name: String,
    /// Sync status; empty for ApplicationSets.
    sync: String,
    health: String,
    /// Revisions that were compared.
    revisions: Vec<String>,
    /// Errors that the controller reports, as `type: message`.
    errors: Vec<String>,
}

/// Maximum number of objects of one command: each has a watch.
const MAX: usize = 200;

/// Runs the command.
pub(super) fn run(args: RefreshArgs) -> anyhow::Result<ExitCode> {
    let mut args = args;
    let mut known = std::collections::BTreeSet::new();
    args.names.retain(|name| known.insert(name.clone()));
    if args.names.len() > MAX {
        let why = format!("there are more than {MAX}; refresh them in several commands");
        return Err(Error::input("cannot refresh", "the names", why).into());
    }
    let set = args.names.iter().find_map(|name| set_name(name));
    if let Some(set) = set.filter(|_| args.hard) {
        let why = "is for Applications; an ApplicationSet always reads its repositories again";
        return Err(Error::input("cannot use", format!("--hard with appset/{set}"), why).into());
    }
    let all = block_on(async {
        let cluster = ClusterConnection::connect(&args.cluster).await?;
        let all = args.names.iter().map(|name| refresh(&args, &cluster, name));
        tokio::select! {
            all = join_all(all) => Ok(Some(all)),
            _ = tokio::signal::ctrl_c() => {
                note("interrupted; the refresh is still requested");
                Ok(None)
            }
        }
    })?;
    let Some(all) = all else { return Ok(ExitCode::from(INTERRUPTED)) };
    let mut refreshed = Vec::new();
    let mut failed = false;
    for one in all {
        match one {
            Ok(one) => refreshed.push(one),
            // The others are independent of it.
            Err(error) if args.names.len() > 1 => {
                fault(&error);
                failed = true;
            }
            Err(error) => return Err(error.into()),
        }
    }
    failed |= refreshed.iter().any(|one| !one.errors.is_empty()) && !args.no_wait;
    match refreshed.as_slice() {
        [one] if args.names.len() == 1 => {
            args.output.print(one, |one| table(std::slice::from_ref(one), args.no_wait))?;
        }
        [] if args.output.format == OutputFormat::Table => {}
        all => args.output.print(&all, |all| table(all, args.no_wait))?,
    }
    Ok(ExitCode::from(u8::from(failed)))
}

/// The name of an ApplicationSet.
fn set_name(name: &str) -> Option<&str> {
    SET_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix))
}

async fn refresh(
    args: &RefreshArgs,
    cluster: &ClusterConnection,
    name: &str,
) -> Result<Refreshed, Error> {
    let since = Instant::now();
    let set = set_name(name);
    let found = match set {
        Some(name) => cluster.expect_application_set(name).await?,
        None => {
            let of_set = |options: &str, name: &str| {
                format!("refresh it with: wavegate refresh {options}appset/{name}")
            };
            cluster.expect_member(name, "cannot refresh", of_set).await?
        }
    };
    let key = ObjectKey::new(found.namespace(), found.name());
    let kind = if set.is_some() { "ApplicationSet" } else { "Application" };
    let place = format!("{kind} {key}");
    let now = Timestamp::now();
    let written = match set {
        Some(_) => refresh::application_set(cluster.client(), &key, now).await,
        None => {
            // A weaker request must not take the place of a pending one.
            let hard = args.hard || annotations::requested_refresh(&found) == Some(Refresh::Hard);
            refresh::refresh_application(cluster.client(), &key, hard, now).await
        }
    };
    match written {
        Ok(true) => {}
        Ok(false) => return Err(Error::check("cannot refresh", place, "it was deleted")),
        Err(error) => return Err(Error::check("cannot refresh", place, error_reason(&error))),
    }
    if args.no_wait {
        return Ok(Refreshed::of(&found));
    }
    let requested = if set.is_some() { APPLICATION_SET_REFRESH } else { REFRESH };
    let mut versions = Versions::of(cluster.client(), kind, &found);
    let deadline = args.timeout.map(|timeout| since + timeout);
    let mut warn_at = Some(since + NO_REACTION);
    loop {
        let version = tokio::select! {
            version = versions.next() => version,
            () = until(warn_at) => {
                warn_at = None;
                note(&format!(
                    "{place} is not refreshed after {} s: its repository may be slow, or no \
                     controller is running that watches namespace {}; still waiting",
                    NO_REACTION.as_secs(),
                    key.namespace,
                ));
                continue;
            }
            () = until(deadline) => {
                let why = format!(
                    "no controller has refreshed it within {} s; it is still requested",
                    args.timeout.unwrap_or_default().as_secs()
                );
                return Err(Error::check("it has taken too long", place, why));
            }
        };
        let Some(version) = version else {
            return Err(Error::check("cannot refresh", place, "it was deleted"));
        };
        if annotation_of(&version, requested).is_none() {
            return Ok(Refreshed::of(&version));
        }
    }
}

impl Refreshed {
    fn of(object: &Value) -> Self {
        let is_error = |condition: &&Value| {
            let (kind, status) = (condition.field("type"), condition.field("status"));
            kind.ends_with("Error") || (kind == "ErrorOccurred" && status == "True")
        };
        let conditions = object.items("/status/conditions").iter().filter(is_error);
        Self {
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            sync: object.text("/status/sync/status").to_owned(),
            health: object.text("/status/health/status").to_owned(),
            revisions: compared_revisions(object),
            errors: conditions
                .map(|found| format!("{}: {}", found.field("type"), found.field("message")))
                .collect(),
        }
    }
}

fn table(all: &[Refreshed], requested: bool) -> String {
    if requested {
        let line = |one: &Refreshed| {
            output::line(&format!("{}/{}: a refresh is requested", one.namespace, one.name))
        };
        return all.iter().map(line).collect();
    }
    let row = |one: &Refreshed| {
        [
            one.namespace.clone(),
            one.name.clone(),
            output::or_dash(&one.sync),
            output::or_dash(&one.health),
            output::or_dash(&one.revisions.join(", ")),
        ]
    };
    let rows = all.iter().map(row);
    let mut text = output::table(["NAMESPACE", "NAME", "SYNC", "HEALTH", "REVISION"], rows);
    for one in all {
        for error in &one.errors {
            let prefix = if all.len() > 1 { format!("{}: ", one.name) } else { String::new() };
            text.push_str(&output::line(&format!("{prefix}{error}")));
        }
    }
    text
}
