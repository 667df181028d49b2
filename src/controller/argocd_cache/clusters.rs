//! The information about clusters (CA-213, CA-360 … CA-365).

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;

use super::Publisher;
use crate::api::time::{Time, stored};
use crate::clock::Clock;
use crate::decide::argocd_cache::{ClusterInfo, ClusterState};
use crate::watch::cluster_cache::ClusterCache;
use crate::watch::clusters::Clusters;

/// How long the information stays.
const EXPIRATION: Duration = Duration::from_secs(600);

/// Writes the information about all clusters at an interval, until `stop`.
pub async fn run(
    publisher: Arc<Publisher>,
    clusters: &Clusters,
    clock: &Clock,
    stop: CancellationToken,
) {
    let every = publisher.cluster_info_every();
    let work = async {
        loop {
            for (server, cluster) in clusters.known().await {
                let state = match cluster {
                    // One that does not answer must not hold up the others.
                    Some(cluster) => {
                        match tokio::time::timeout(every, state(&cluster, clock)).await {
                            Ok(state) => state,
                            Err(_) => ClusterState::Failed(format!(
                                "no answer within {} s",
                                every.as_secs()
                            )),
                        }
                    }
                    None => ClusterState::Unread,
                };
                let count = publisher.applications_on(&server);
                let info = ClusterInfo::of(state, count, Time(stored(clock.now())));
                publisher.cluster(&server, &info, EXPIRATION);
            }
            tokio::time::sleep(every).await;
        }
    };
    stop.run_until_cancelled(work).await;
}

async fn state(cluster: &ClusterCache, clock: &Clock) -> ClusterState {
    if let Some(reason) = cluster.unreadable() {
        return ClusterState::Failed(reason);
    }
    match cluster.capabilities().await {
        Ok(_) if cluster.watched_kinds() == 0 => ClusterState::Unread,
        Ok(capabilities) => ClusterState::Synced {
            capabilities,
            resources: cluster.graph().map_or(0, |graph| graph.len()),
            kinds: cluster.watched_kinds(),
            listed_at: cluster.facts().listed_at.and_then(|at| {
                let ago = SignedDuration::try_from(at.elapsed()).ok()?;
                Some(Time(stored(clock.now().checked_sub(ago).ok()?)))
            }),
        },
        Err(error) => ClusterState::Failed(error.to_string()),
    }
}
