//! Reads the runs of ApplicationSets, and what is beside these; and the commands that show runs and
//! policies, or wait for a run.

pub(in crate::cli) mod history;
pub(in crate::cli) mod policies;
mod record;
pub(in crate::cli) mod wait;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::cli::cluster::ClusterConnection;
use crate::cli::console::error::Error;
use wavegate_api::Raw;
use wavegate_api::policy::POLICY;
use wavegate_api::run::{RUN, SET_LABEL};
use wavegate_api::unknown::nearest_name;
use wavegate_engine::names::some_of;
use wavegate_rollout::application_set::is_owned;
use wavegate_rollout::application_set::status::report_input;
use wavegate_rollout::requests::{Run, current_run, number_of};

/// The most characters of the value of a label.
const LABEL: usize = 63;

/// The most runs in a message.
const NAMES: usize = 10;

/// The place of the run with this name or number among some names, or what there is instead.
pub(in crate::cli) fn position(names: &[&str], wanted: &str) -> Result<usize, String> {
    let number: Option<u64> = wanted.parse().ok();
    let is_meant = |run: &&str| *run == wanted || (number.is_some() && number_of(run) == number);
    let known = || names.iter().copied();
    names.iter().position(is_meant).ok_or_else(|| match nearest_name(wanted, known()) {
        Some(near) => format!("did you mean {near}?"),
        None if names.is_empty() => "it has none".to_owned(),
        None => format!("it has {}", some_of(known(), NAMES)),
    })
}

/// What selects the runs of a set on the server; `None` where its name is not the value of a
/// label.
pub(in crate::cli) fn label_of(set: &str) -> Option<String> {
    (set.len() <= LABEL).then(|| format!("{SET_LABEL}={set}"))
}

/// The runs of a set, the newest first.
pub(in crate::cli) async fn runs(
    cluster: &ClusterConnection,
    set: &Value,
) -> Result<Vec<Arc<Value>>, Error> {
    let label = label_of(set.name());
    let mut runs = cluster.list(RUN, Some(set.namespace()), label.as_deref()).await?;
    runs.retain(|run| is_owned(run, set));
    runs.sort_by_key(|run| std::cmp::Reverse(number_of(run.name())));
    Ok(runs)
}

/// The objects of a kind in the namespaces of sets, such as their runs, for reports that nothing
/// depends on: none where they cannot be read.
pub(in crate::cli) async fn beside(
    cluster: &ClusterConnection,
    kind: &str,
    sets: &[Arc<Value>],
) -> Vec<Arc<Value>> {
    let namespaces: BTreeSet<&str> = sets.iter().map(|set| set.namespace()).collect();
    let namespace = match Vec::from_iter(namespaces).as_slice() {
        [] => return Vec::new(),
        [one] => Some(*one),
        _ => None,
    };
    cluster.list(kind, namespace, None).await.unwrap_or_default()
}

/// The set whose rollout waits for an Application of this name that does not exist, since it cannot
/// be created; `None` without one.
///
/// # Errors
///
/// Sets that cannot be read.
pub(in crate::cli) async fn set_that_lacks(
    cluster: &ClusterConnection,
    name: &str,
) -> Result<Option<Arc<Value>>, Error> {
    let (_, sets) = cluster.application_sets_here().await?;
    let lacks = |set: &Arc<Value>| {
        let waits = report_input::read_report(set, &BTreeMap::new(), None).waits(true);
        waits.iter().any(|wait| wait.application == name)
    };
    Ok(sets.into_iter().find(lacks))
}

/// An ApplicationSet, and what its reports are made of.
pub(in crate::cli) struct ReportedSet {
    pub set: Arc<Value>,
    /// All Applications of its namespace.
    pub applications: BTreeMap<String, Arc<Value>>,
    /// Its latest run; none where it cannot be read, since nothing depends on it.
    pub run: Option<Run>,
    /// The policies of its namespace, as far as they can be read.
    pub policies: Vec<Arc<Value>>,
}

impl ReportedSet {
    /// Reads what is beside a set.
    ///
    /// # Errors
    ///
    /// Applications that cannot be read.
    pub async fn read(cluster: &ClusterConnection, set: Arc<Value>) -> Result<Self, Error> {
        let applications = cluster.applications_by_name(set.namespace()).await?;
        let runs = runs(cluster, &set).await.unwrap_or_default();
        let run = current_run(&runs, &set).map(|run| Run::read(run));
        let policies = beside(cluster, POLICY, std::slice::from_ref(&set)).await;
        Ok(Self { set, applications, run, policies })
    }
}
