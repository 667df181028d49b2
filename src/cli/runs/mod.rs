//! Reads the runs of ApplicationSets, and what is beside these; and the commands that show runs and
//! policies, or wait for a run.

pub(in crate::cli) mod history;
pub(in crate::cli) mod policies;
mod record;
pub(in crate::cli) mod wait;

use std::sync::Arc;

use serde_json::Value;

use crate::cli::cluster::ClusterConnection;
use crate::cli::console::error::Error;
use wavegate_api::Raw;
use wavegate_api::steering::{RUN, SET_LABEL};
use wavegate_rollout::application_set::is_owned;
use wavegate_rollout::steering::{Run, current, number_of};

/// The most characters of the value of a label.
const LABEL: usize = 63;

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
    let mut runs = cluster.with_labels(RUN, Some(set.namespace()), label.as_deref()).await?;
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
    let mut namespaces: Vec<&str> = sets.iter().map(|set| set.namespace()).collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    let namespace = match namespaces.as_slice() {
        [] => return Vec::new(),
        [one] => Some(*one),
        _ => None,
    };
    cluster.with_labels(kind, namespace, None).await.unwrap_or_default()
}

/// The latest run of a set, for reports that nothing depends on: none where it cannot be read.
pub(in crate::cli) async fn latest(cluster: &ClusterConnection, set: &Value) -> Option<Run> {
    let runs = runs(cluster, set).await.unwrap_or_default();
    current(&runs, set).map(|run| Run::read(run))
}
