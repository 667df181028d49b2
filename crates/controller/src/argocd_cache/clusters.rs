//! The information about clusters (CA-213, CA-360 … CA-365), and the label of their Secrets with
//! the version of Kubernetes (CA-510).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;

use super::Publisher;
use wavegate_api::cluster::LabelledSecret;
use wavegate_api::time::{Time, stored_time};
use wavegate_application::argocd_cache::{ClusterInfo, ShownCluster};
use wavegate_cluster::act::control_plane::cluster_label;
use wavegate_cluster::watch::cluster_cache::ClusterCache;
use wavegate_cluster::watch::clusters::Clusters;
use wavegate_net::clock::Clock;

/// How long the information stays.
const EXPIRATION: Duration = Duration::from_secs(600);

/// When a label is written again that could not be.
const AGAIN: Duration = Duration::from_secs(300);

/// What a round needs.
pub struct Round<'a> {
    /// Writes the information, if there is a Redis.
    pub publisher: Option<Arc<Publisher>>,
    /// Writes the labels; `None` in a dry run.
    pub client: Option<kube::Client>,
    /// All clusters.
    pub clusters: &'a Clusters,
    /// Counts the Applications of each cluster, by its URL.
    pub applications: &'a (dyn Fn() -> BTreeMap<String, usize> + Sync),
    /// The time.
    pub clock: &'a Clock,
    /// The interval, and the deadline for each cluster.
    pub every: Duration,
}

/// Writes the information about all clusters, and the labels, at an interval, until `stop`.
pub async fn run(round: Round<'_>, stop: CancellationToken) {
    let mut failed = HashMap::new();
    let work = async {
        loop {
            round.make(&mut failed).await;
            tokio::time::sleep(round.every).await;
        }
    };
    stop.run_until_cancelled(work).await;
}

impl Round<'_> {
    async fn make(&self, failed: &mut HashMap<String, Instant>) {
        let Self { publisher, clusters, clock, every, client, .. } = self;
        let labelled = client.as_ref().map_or_else(Vec::new, |_| clusters.labelled());
        if publisher.is_none() && labelled.is_empty() {
            return;
        }
        let counts = publisher.as_ref().map_or_else(BTreeMap::new, |_| (self.applications)());
        let wanted: BTreeSet<&str> = labelled.iter().map(|secret| secret.server.as_str()).collect();
        for (server, cluster) in clusters.known() {
            if publisher.is_none() && !wanted.contains(server.as_str()) {
                continue;
            }
            let state = match cluster {
                // One that does not answer must not hold up the others.
                Some(cluster) => match tokio::time::timeout(*every, state(&cluster, clock)).await {
                    Ok(state) => state,
                    Err(_) => {
                        ShownCluster::Failed(format!("no answer within {} s", every.as_secs()))
                    }
                },
                None => ShownCluster::Unread,
            };
            for secret in labelled.iter().filter(|secret| secret.server == server) {
                self.label(secret, &state, failed).await;
            }
            if let Some(publisher) = publisher {
                let count = counts.get(&server).copied().unwrap_or_default();
                let info = ClusterInfo::of(state, count, Time(stored_time(clock.now())));
                publisher.cluster(&server, &info, EXPIRATION);
            }
        }
    }

    async fn label(
        &self,
        secret: &LabelledSecret,
        state: &ShownCluster,
        failed: &mut HashMap<String, Instant>,
    ) {
        let LabelledSecret { namespace, name, version, .. } = secret;
        let Some(client) = &self.client else { return };
        let Some(label) = state.label(version.as_deref()) else { return };
        let id = format!("{namespace}/{name}");
        if failed.get(&id).is_some_and(|at| at.elapsed() < AGAIN) {
            return;
        }
        let write = cluster_label::write_label(client, (namespace, name), &label);
        match tokio::time::timeout(self.every, write).await {
            Ok(Ok(())) => drop(failed.remove(&id)),
            Ok(Err(error)) => {
                tracing::warn!(secret = id, error, "the version of the cluster is no label");
                failed.insert(id, Instant::now());
            }
            Err(_) => drop(failed.insert(id, Instant::now())),
        }
    }
}

async fn state(cluster: &ClusterCache, clock: &Clock) -> ShownCluster {
    if let Some(reason) = cluster.unreadable() {
        return ShownCluster::Failed(reason);
    }
    match cluster.capabilities().await {
        Ok(_) if cluster.watched_kinds() == 0 => ShownCluster::Unread,
        Ok(capabilities) => ShownCluster::Synced {
            capabilities,
            resources: cluster.graph().map_or(0, |graph| graph.len()),
            kinds: cluster.watched_kinds(),
            listed_at: cluster.facts().listed_at.and_then(|at| {
                let ago = SignedDuration::try_from(at.elapsed()).ok()?;
                Some(Time(stored_time(clock.now().checked_sub(ago).ok()?)))
            }),
        },
        Err(error) => ShownCluster::Failed(error.to_string()),
    }
}
