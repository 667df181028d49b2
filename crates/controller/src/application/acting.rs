//! Who writes to the objects of an Application.

use http::HeaderValue;

use wavegate_cluster::watch::cluster_cache::ClusterCache;
use wavegate_cluster::watch::impersonation::impersonating_client;

/// The user that writes to the objects of an Application are sent as (SE-079); `None` for the
/// credentials of the cluster. An error when it is not known: then nothing is written.
pub type Acting = Result<Option<HeaderValue>, String>;

/// The client that sends all writes to the objects of an Application.
///
/// # Errors
///
/// When the user is not known.
pub fn writing_client(cluster: &ClusterCache, acting: &Acting) -> Result<kube::Client, String> {
    let client = cluster.client().clone();
    Ok(match acting.clone()? {
        Some(user) => impersonating_client(client, user),
        None => client,
    })
}
