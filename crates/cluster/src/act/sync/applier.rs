//! What writes of a sync to a cluster need.

use std::sync::Arc;
use std::time::Duration;

use crate::act::sync::meter::Meter;
use crate::watch::cluster_cache::ClusterCache;
use wavegate_application::owner::DeletionOwner;

/// Applies and deletes objects for one Application.
#[derive(Clone, Copy)]
pub struct Applier<'a> {
    /// The cluster.
    pub cluster: &'a Arc<ClusterCache>,
    /// Sends the writes: the client of the cluster, or one that acts as a service account.
    pub client: &'a kube::Client,
    /// The field manager of all requests.
    pub manager: &'a str,
    /// The manager whose fields are taken over when an object is migrated to server-side
    /// apply (SE-346).
    pub former_manager: &'a str,
    /// The owner: objects of other owners are not deleted.
    pub owner: DeletionOwner<'a>,
    /// Counts the requests.
    pub meter: Meter<'a>,
    /// Maximum time until the kind of a new definition can be used (SE-603).
    pub established_within: Duration,
}
