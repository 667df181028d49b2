//! Requests to read sources again: of an ApplicationSet by a webhook or a user, of an
//! Application by a user.

use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::api::ObjectKey;
use crate::api::annotations::{APPLICATION_SET_REFRESH, REFRESH};
use crate::watch::failure::{is_gone, reason};
use crate::watch::object::{api, resource};

/// Adds the refresh annotation (AS-420); the controller removes it when it has read the
/// repositories. Nothing happens when the ApplicationSet is gone.
///
/// # Errors
///
/// The message of the server.
pub async fn request(client: &Client, key: &ObjectKey) -> Result<(), String> {
    annotate(client, "ApplicationSet", key, APPLICATION_SET_REFRESH, "true").await.map(|_| ())
}

/// Adds the refresh annotation of an Application (SE-377); the controller removes it when
/// it has compared the Application with the newest revision. With `hard`, its manifests are
/// rendered again, too. Returns whether the Application exists.
///
/// # Errors
///
/// The message of the server.
pub async fn application(client: &Client, key: &ObjectKey, hard: bool) -> Result<bool, String> {
    let value = if hard { "hard" } else { "normal" };
    annotate(client, "Application", key, REFRESH, value).await
}

/// The same for an ApplicationSet.
///
/// # Errors
///
/// The message of the server.
pub async fn application_set(client: &Client, key: &ObjectKey) -> Result<bool, String> {
    annotate(client, "ApplicationSet", key, APPLICATION_SET_REFRESH, "true").await
}

async fn annotate(
    client: &Client,
    kind: &str,
    key: &ObjectKey,
    annotation: &str,
    value: &str,
) -> Result<bool, String> {
    let patch: Value = json!({"metadata": {"annotations": {annotation: value}}});
    let api = api(client, Some(&key.namespace), &resource(kind));
    match api.patch(&key.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(true),
        Err(error) if is_gone(&error) => Ok(false),
        Err(error) => Err(reason(&error)),
    }
}
