//! Requests to read sources again: of an ApplicationSet by a webhook or a user, of an
//! Application by a user.

use jiff::Timestamp;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::watch::failure::is_gone;
use crate::watch::object::{kind_api, kind_resource};
use wavegate_api::ObjectKey;
use wavegate_api::annotations::{APPLICATION_SET_REFRESH, REFRESH, REFRESH_TIMESTAMP};

/// Adds the refresh annotation of an Application (SE-377), with the time; the controller removes
/// both when it has compared the Application with the newest revision. With `hard`, its manifests
/// are rendered again, too. Returns whether the Application exists.
///
/// The time changes a request that is being answered, so that another comparison follows: the
/// first one may have read the repository before (SE-379).
///
/// # Errors
///
/// When the request fails.
pub async fn refresh_application(
    client: &Client,
    key: &ObjectKey,
    hard: bool,
    now: Timestamp,
) -> Result<bool, kube::Error> {
    let value = if hard { "hard" } else { "normal" };
    // With fractions of a second: requests of the same second are different ones.
    let annotations = json!({REFRESH: value, REFRESH_TIMESTAMP: now.to_string()});
    annotate(client, "Application", key, annotations).await
}

/// The same for an ApplicationSet (AS-420), whose annotation may have any value: with the time, a
/// request during the reconcile for another one stays, and another reconcile follows. The
/// controller removes it when it has read the repositories.
///
/// # Errors
///
/// When the request fails.
pub async fn application_set(
    client: &Client,
    key: &ObjectKey,
    now: Timestamp,
) -> Result<bool, kube::Error> {
    let annotations = json!({APPLICATION_SET_REFRESH: now.to_string()});
    annotate(client, "ApplicationSet", key, annotations).await
}

async fn annotate(
    client: &Client,
    kind: &str,
    key: &ObjectKey,
    annotations: Value,
) -> Result<bool, kube::Error> {
    let patch = json!({"metadata": {"annotations": annotations}});
    let api = kind_api(client, Some(&key.namespace), &kind_resource(kind));
    match api.patch(&key.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(true),
        Err(error) if is_gone(&error) => Ok(false),
        Err(error) => Err(error),
    }
}
