//! Requests that an ApplicationSet reads its repositories again.

use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::api::ObjectKey;
use crate::api::annotations::APPLICATION_SET_REFRESH;
use crate::watch::failure::{has_code, reason};
use crate::watch::object::{api, resource};

/// Adds the refresh annotation (AS-420); the controller removes it when it has read the
/// repositories. Nothing happens when the ApplicationSet is gone.
///
/// # Errors
///
/// The message of the server.
pub async fn request(client: &Client, key: &ObjectKey) -> Result<(), String> {
    let patch = json!({"metadata": {"annotations": {APPLICATION_SET_REFRESH: "true"}}});
    let api = api(client, Some(&key.namespace), &resource("ApplicationSet"));
    match api.patch(&key.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(()),
        Err(error) if has_code(&error, 404) => Ok(()),
        Err(error) => Err(reason(&error)),
    }
}
