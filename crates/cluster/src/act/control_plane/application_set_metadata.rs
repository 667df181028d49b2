//! The only writer of an ApplicationSet's metadata: its finalizers and annotations.

use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::application_set_status::is_conflict;
use crate::watch::object::{StoredObject, kind_resource};
use wavegate_rollout::application_set::status::stored::StoredApplicationSet;

/// Merges `metadata` into that of a set; a resource version in it is a precondition. Returns
/// the stored set, or `None` when it is gone or has another version.
///
/// # Errors
///
/// When the API server rejects the patch or is not available.
pub async fn patch_set_metadata(
    client: &Client,
    set: &StoredApplicationSet,
    metadata: Value,
) -> Result<Option<StoredObject>, kube::Error> {
    let (namespace, patch) = (&set.id.namespace, json!({ "metadata": metadata }));
    let api: Api<StoredObject> =
        Api::namespaced_with(client.clone(), namespace, &kind_resource("ApplicationSet"));
    match api.patch(&set.id.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if is_conflict(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
