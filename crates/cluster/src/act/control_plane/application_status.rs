//! The only writer of an Application's `status` and of the related fields: `operation`,
//! and the fields in `metadata` and `spec` that the controller owns.
//!
//! A write contains only the changed fields and the resource version of the observed
//! object. When nothing has changed, nothing is written.

use jiff::Timestamp;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::discovery::ApiResource;
use serde_json::Value;

use crate::watch::cluster_cache::raw_object;
use crate::watch::failure::{error_reason, existing_object, has_code, is_gone};
use crate::watch::object::{StoredObject, kind_api};
use wavegate_api::listed::ListedStatus;
use wavegate_api::raw::require_version;
use wavegate_api::{Application, GROUP, Raw, VERSION, read_leniently};
use wavegate_application::status;
use wavegate_engine::merge_patch::merge_patch;
use wavegate_net::redact;

/// Maximum number of attempts, each on a newer version of the object.
const ATTEMPTS: usize = 5;

/// Why a status was not written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another client changed the fields that the decision is based on; decide again.
    #[error("Application {name} was changed in the meantime")]
    Stale {
        /// Its name.
        name: String,
        /// The stored object.
        newest: Box<Value>,
    },
    /// The Application was deleted.
    #[error("Application {name} was deleted")]
    Gone {
        /// Its name.
        name: String,
    },
    /// The status is too large to be stored; only a condition that says so was written
    /// (SE-062). What the status describes must not be done.
    #[error("the status of Application {name} is too large to be stored: {reason}")]
    TooLarge {
        /// Its name.
        name: String,
        /// The message of the server.
        reason: String,
        /// The stored object with the condition.
        newest: Box<Value>,
    },
    /// The server rejected the request or is not available.
    #[error("cannot write the status of Application {name}: {reason}")]
    Failed {
        /// Its name.
        name: String,
        /// The message of the server.
        reason: String,
    },
}

/// The kind Application, for request paths.
pub fn application_resource() -> ApiResource {
    ApiResource {
        group: GROUP.to_owned(),
        version: VERSION.to_owned(),
        api_version: wavegate_api::API_VERSION.to_owned(),
        kind: Application::KIND.to_owned(),
        plural: Application::PLURAL.to_owned(),
    }
}

/// Applications of one namespace.
pub fn applications_of(client: &kube::Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &application_resource())
}

/// Reads one Application from the API server, not from the cache; `None` when it was deleted.
///
/// # Errors
///
/// [`Error::Failed`].
pub async fn read_application(
    client: &kube::Client,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, Error> {
    let read = applications_of(client, namespace).get(name).await;
    let read = existing_object(read).map_err(|error| failed(name, &error))?;
    Ok(read.map(|object| raw_object(object, &application_resource())))
}

/// The merge patch that changes `base`, an Application as read, into `wanted`, without
/// credentials in its messages; `None` when nothing differs.
pub fn status_patch(base: &Value, wanted: &Value) -> Option<Value> {
    let patch = merge_patch(base, wanted)?;
    let Some(words) = patch.get("status") else { return Some(patch) };
    let mut shown = words.clone();
    redact::redact_messages(&mut shown);
    if shown == *words {
        return Some(patch);
    }
    let status = super::redacted_status::status(base.status(), wanted.status()).into_owned();
    let mut redacted = wanted.clone();
    if let Some(fields) = redacted.as_object_mut() {
        fields.insert("status".to_owned(), status);
    }
    merge_patch(base, &redacted)
}

/// A stored object.
#[derive(Debug)]
pub struct Sent {
    /// The object.
    pub object: StoredObject,
    /// Whether it also contains changes of another client, made since it was observed.
    pub merged: bool,
}

/// Sends a [`status_patch`] and returns the stored object. `now` is the time of the condition
/// for a status that is too large.
///
/// When another client changed other fields, the write is repeated on the new version;
/// when it changed fields of this patch or of the decision, the result is
/// [`Error::Stale`].
///
/// # Errors
///
/// All of [`Error`].
pub async fn send_patch(
    client: &kube::Client,
    base: &Value,
    mut patch: Value,
    now: Timestamp,
) -> Result<Sent, Error> {
    let (namespace, name) = (base.namespace(), base.name());
    let api: Api<StoredObject> = kind_api(client, Some(namespace), &application_resource());
    require_version(&mut patch, base);
    for attempt in 0..ATTEMPTS {
        match api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(object) => return Ok(Sent { object, merged: attempt > 0 }),
            Err(error) if is_gone(&error) => {
                return Err(Error::Gone { name: name.to_owned() });
            }
            Err(error) if has_code(&error, 409) => {
                let newest = read_application(client, namespace, name).await?;
                let Some(newest) = newest else {
                    return Err(Error::Gone { name: name.to_owned() });
                };
                if !is_undisturbed(base, &newest, &patch) {
                    let newest = Box::new(newest);
                    return Err(Error::Stale { name: name.to_owned(), newest });
                }
                require_version(&mut patch, &newest);
            }
            Err(error) if is_too_large(&error) => {
                let api = applications_of(client, namespace);
                return Err(too_large(&api, base, name, &error_reason(&error), now).await);
            }
            Err(error) => return Err(failed(name, &error)),
        }
    }
    Err(Error::Failed { name: name.to_owned(), reason: "it keeps changing".to_owned() })
}

/// Whether no other client changed the fields that the decision is based on.
fn is_undisturbed(base: &Value, newest: &Value, patch: &Value) -> bool {
    let is_patched = |field: &str| patch.get("metadata").is_some_and(|of| of.get(field).is_some());
    let is_same = |field: &str| base[field] == newest[field];
    base.uid() == newest.uid()
        && base.deletion_timestamp() == newest.deletion_timestamp()
        && (!is_patched("finalizers") || base.finalizers().eq(newest.finalizers()))
        && (!is_patched("annotations") || base.annotations() == newest.annotations())
        && ["status", "operation"].into_iter().all(is_same)
        && ((patch.get("spec").is_none() && !starts(patch)) || is_same("spec"))
}

/// Whether the patch starts an operation, based on the observed spec.
fn starts(patch: &Value) -> bool {
    let status: ListedStatus = read_leniently(patch.status());
    !status.operation_state.started_at.is_empty()
}

/// Whether the object would be too large. The API server has a code for a request that is
/// too large; errors of its store can only be recognised by their text.
pub(super) fn is_too_large(error: &kube::Error) -> bool {
    has_code(error, 413) || {
        let words = error_reason(error);
        ["request is too large", "etcdserver: request is too large", "Too long: must have at most"]
            .iter()
            .any(|text| words.contains(text))
            || words.contains("trying to send message larger than max")
    }
}

/// Handles a status that is too large: sets a condition and keeps the stored values (SE-062).
async fn too_large(
    api: &Api<DynamicObject>,
    base: &Value,
    name: &str,
    reason: &str,
    now: Timestamp,
) -> Error {
    let message =
        format!("the status is too large to be stored, its old values are kept: {reason}");
    let (name_of, reason) = (name.to_owned(), reason.to_owned());
    let too_large = |newest| Error::TooLarge { name: name_of, reason, newest: Box::new(newest) };
    let patch = status::failed_application(base, message, now)
        .and_then(|wanted| merge_patch(base, &wanted));
    let Some(mut patch) = patch else { return too_large(base.clone()) };
    // The list of conditions is replaced as a whole.
    require_version(&mut patch, base);
    match api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(object) => too_large(raw_object(object, &application_resource())),
        Err(error) => failed(name, &error),
    }
}

fn failed(name: &str, error: &kube::Error) -> Error {
    Error::Failed { name: name.to_owned(), reason: error_reason(error) }
}
