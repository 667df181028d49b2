//! `wavegate status`: the state of rollouts.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::cluster::{ClusterArgs, ClusterConnection, block_on};
use super::error::Error;
use super::follow::{self, Request, View, WatchArgs};
use super::output::{self, Output, or_dash, printable, some_of};
use super::rollout_summary::{MemberSummary, RolloutSummary};
use crate::api::Raw;
use crate::desired::name_of;

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
pub(super) struct Args {
    /// Name of the ApplicationSet
    #[arg(value_name = "APPSET")]
    name: Option<String>,
    /// List the ApplicationSets of all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["name", "namespace"])]
    all_namespaces: bool,
    #[command(flatten)]
    pub watch: WatchArgs,
    /// With --watch: print one line per transition; the default when standard output is not
    /// a terminal
    #[arg(long, requires = "watch")]
    plain: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: Output,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.watch.watch {
        return follow::run(&Request {
            cluster: &args.cluster,
            name: args.name.as_deref(),
            all_namespaces: args.all_namespaces,
            timeout: args.watch.timeout,
            no_refresh: args.watch.no_refresh,
            view: if args.plain { View::Plain } else { View::Screen },
        });
    }
    if let Some(name) = &args.name {
        let (set, applications) = block_on(async {
            let cluster = ClusterConnection::connect(&args.cluster).await?;
            let set = cluster.expect_application_set(name).await?;
            let applications = cluster.applications_by_name(set.namespace()).await?;
            Ok((set, applications))
        })?;
        args.output.print(&RolloutSummary::read(&set, &applications), one)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (sets, applications, nothing) = block_on(async {
        let cluster = ClusterConnection::connect(&args.cluster).await?;
        read(&cluster, args.all_namespaces).await
    })?;
    args.output.print(&summaries(&sets, applications), |summaries| match summaries.as_slice() {
        [] => nothing,
        summaries => list(summaries),
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
        let sets = cluster.application_sets(None).await?;
        let nothing = "No ApplicationSets found in any namespace.\n".to_owned();
        return Ok((sets, cluster.applications(None).await?, nothing));
    }
    let (namespace, sets) = cluster.application_sets_here().await?;
    if sets.is_empty() {
        let elsewhere = cluster.names("ApplicationSet", None).await;
        return Ok((sets, Vec::new(), nothing(cluster.places(), elsewhere)));
    }
    let applications = cluster.applications(Some(&namespace)).await?;
    Ok((sets, applications, String::new()))
}

/// What to print for namespaces without ApplicationSets. `elsewhere` are namespace and name
/// of those that exist, if they can be listed.
fn nothing(places: &[String], elsewhere: Option<BTreeSet<(String, String)>>) -> String {
    let places = places.join(" or ");
    let found = format!("No ApplicationSets found in namespace {places}");
    let text = match elsewhere {
        None => format!("{found}; use -A to list all namespaces."),
        Some(names) => {
            let others: BTreeSet<&str> = names.iter().map(|(at, _)| at.as_str()).collect();
            match others.len() {
                0 => format!("{found}, nor in any other."),
                _ => {
                    let others = some_of(others, NAMES);
                    format!(
                        "{found}; namespaces with ApplicationSets: {others} (use -n, or -A for all)."
                    )
                }
            }
        }
    };
    printable(&text) + "\n"
}

/// Summaries of sets, sorted by namespace and name; `applications` may be of several
/// namespaces.
pub(super) fn summaries(sets: &[Arc<Value>], applications: Vec<Arc<Value>>) -> Vec<RolloutSummary> {
    let mut by_namespace: BTreeMap<String, BTreeMap<String, Arc<Value>>> = BTreeMap::new();
    let namespace_of =
        |object: &Value| object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    for application in applications {
        let name = name_of(&application).to_owned();
        by_namespace.entry(namespace_of(&application)).or_default().insert(name, application);
    }
    let none = BTreeMap::new();
    let read = |set: &Arc<Value>| {
        RolloutSummary::read(set, by_namespace.get(&namespace_of(set)).unwrap_or(&none))
    };
    let mut summaries: Vec<RolloutSummary> = sets.iter().map(read).collect();
    let key =
        |summary: &RolloutSummary| (summary.namespace.clone(), summary.application_set.clone());
    summaries.sort_by_key(key);
    summaries
}

pub(super) fn list(summaries: &[RolloutSummary]) -> String {
    if summaries.is_empty() {
        return "No ApplicationSets found; use -A to list all namespaces.\n".to_owned();
    }
    let row = |summary: &RolloutSummary| {
        [
            summary.namespace.clone(),
            summary.application_set.clone(),
            summary.strategy.to_owned(),
            summary.step_text(),
            format!("{}/{}", summary.complete, summary.total),
            or_dash(&summary.health),
            summary.message.clone(),
        ]
    };
    let header = ["NAMESPACE", "APPSET", "STRATEGY", "STEP", "DONE", "HEALTH", "MESSAGE"];
    output::table(header, summaries.iter().map(row))
}

pub(super) fn one(summary: &RolloutSummary) -> String {
    one_at(summary, Timestamp::now())
}

/// Like [`one`], with ages at this time.
pub(super) fn one_at(summary: &RolloutSummary, now: Timestamp) -> String {
    let row = |member: &MemberSummary| {
        [
            member.application.clone(),
            member.step.map_or_else(|| "-".to_owned(), |step| step.to_string()),
            or_dash(&member.phase),
            or_dash(&member.sync),
            or_dash(&member.health),
            output::age(&member.since, now),
            member.message.clone(),
        ]
    };
    let title = format!(
        "ApplicationSet {}/{}: {}",
        summary.namespace, summary.application_set, summary.message
    );
    let mut text = output::printable(&title) + "\n";
    if let Some(truncated) = &summary.truncated {
        text.push_str(&format!("note: {truncated}; this table does\n"));
    }
    if !summary.applications.is_empty() {
        let header = ["APPLICATION", "STEP", "PHASE", "SYNC", "HEALTH", "FOR", "MESSAGE"];
        text.push('\n');
        text.push_str(&output::table(header, summary.applications.iter().map(row)));
    }
    text
}
