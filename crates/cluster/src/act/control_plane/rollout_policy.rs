//! The only writer of RolloutPolicies: of their status. The rest is the user's.

use kube::Client;

pub use super::rollout_run::Written;
use super::rollout_run::patch_status;
use crate::watch::control_plane::Cache;
use crate::watch::object::StoredObject;
use wavegate_api::policy::{self, PolicyStatus};

/// Writes the status of a policy: what differs from the status of `policy`, which must still
/// have the same version.
///
/// # Errors
///
/// When the API server is not available. What it refuses is an outcome.
pub async fn write_status(
    client: &Client,
    cache: &Cache,
    policy: &StoredObject,
    status: &PolicyStatus,
) -> Result<Written, kube::Error> {
    patch_status(client, cache, policy::POLICY, policy, status).await
}
