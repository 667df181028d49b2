//! The only writer of an Application's `status`, and of the fields that go
//! with it: `operation`, and what the controller owns in `metadata` and `spec`.
//!
//! A write names only what has changed and the version that the decision was
//! made on. Nothing is written when nothing has changed.

use jiff::Timestamp;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::discovery::ApiResource;
use serde_json::{Value, json};

use super::outcome::words;
use crate::api::conditions::application::UNKNOWN_ERROR;
use crate::api::{Application, GROUP, VERSION};
use crate::decide::app_state::Condition;
use crate::decide::app_state::status::conditions;
use crate::decide::merge_patch::merge_patch;
use crate::redact;
use crate::watch::cluster_cache::raw;
use crate::watch::failure::has_code;

/// How often a write is tried again on a newer version of the object.
const ATTEMPTS: usize = 5;

/// Why a status was not written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody else has changed what the decision was made on; decide again.
    #[error("application {name} was changed meanwhile")]
    Stale {
        /// Its name.
        name: String,
        /// What is stored now.
        newest: Box<Value>,
    },
    /// The Application is gone.
    #[error("application {name} is gone")]
    Gone {
        /// Its name.
        name: String,
    },
    /// The server refused, or could not be reached.
    #[error("cannot write the status of application {name}: {reason}")]
    Failed {
        /// Its name.
        name: String,
        /// The words of the server.
        reason: String,
    },
}

/// The kind Application, as paths spell it.
pub fn resource() -> ApiResource {
    ApiResource {
        group: GROUP.to_owned(),
        version: VERSION.to_owned(),
        api_version: crate::api::API_VERSION.to_owned(),
        kind: Application::KIND.to_owned(),
        plural: Application::PLURAL.to_owned(),
    }
}

/// Applications of one namespace.
pub fn applications(client: &kube::Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &resource())
}

/// Reads one Application past everything that is kept; `None` when it is gone.
///
/// # Errors
///
/// [`Error::Failed`].
pub async fn read(
    client: &kube::Client,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, Error> {
    let read = applications(client, namespace).get_opt(name).await;
    let read = read.map_err(|error| failed(name, &error))?;
    Ok(read.map(|object| raw(object, &resource())))
}

/// What to send so that `base`, an Application as it was read, becomes
/// `wanted`, without credentials in its words; `None` when that is nothing.
pub fn patch(base: &Value, wanted: &Value) -> Option<Value> {
    let patch = merge_patch(base, wanted)?;
    let Some(words) = patch.get("status") else { return Some(patch) };
    let mut shown = words.clone();
    redact::messages(&mut shown);
    if shown == *words {
        return Some(patch);
    }
    let status = super::told::status(&base["status"], &wanted["status"]).into_owned();
    let mut told = wanted.clone();
    told["status"] = status;
    merge_patch(base, &told)
}

/// Sends a [`patch`]; `now` is for a condition about a status that is too
/// large. Gives back what is stored afterwards.
///
/// When somebody has changed other fields meanwhile, the write is repeated on
/// top; when they changed what is written here, it is [`Error::Stale`].
///
/// # Errors
///
/// All of [`Error`].
pub async fn send(
    client: &kube::Client,
    base: &Value,
    mut patch: Value,
    now: Timestamp,
) -> Result<Value, Error> {
    let text = |field: &str| base["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let api = applications(client, namespace);
    let mut version = base["metadata"]["resourceVersion"].clone();
    for _ in 0..ATTEMPTS {
        patch["metadata"]["resourceVersion"] = version;
        match api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(object) => return Ok(raw(object, &resource())),
            Err(error) if has_code(&error, 404) => {
                return Err(Error::Gone { name: name.to_owned() });
            }
            Err(error) if has_code(&error, 409) => {
                let newest = read(client, namespace, name).await?;
                let Some(newest) = newest else {
                    return Err(Error::Gone { name: name.to_owned() });
                };
                if !is_undisturbed(base, &newest, &patch) {
                    let newest = Box::new(newest);
                    return Err(Error::Stale { name: name.to_owned(), newest });
                }
                version = newest["metadata"]["resourceVersion"].clone();
            }
            Err(error) if is_too_large(&error) => {
                return too_large(&api, base, name, &words(&error), now).await;
            }
            Err(error) => return Err(failed(name, &error)),
        }
    }
    Err(Error::Failed { name: name.to_owned(), reason: "it keeps changing".to_owned() })
}

/// Whether nothing that is written here was changed by somebody else.
fn is_undisturbed(base: &Value, newest: &Value, patch: &Value) -> bool {
    let metadata = |field: &str| {
        patch["metadata"].get(field).is_none()
            || base["metadata"][field] == newest["metadata"][field]
    };
    base["metadata"]["uid"] == newest["metadata"]["uid"]
        && base["metadata"]["deletionTimestamp"] == newest["metadata"]["deletionTimestamp"]
        && ["finalizers", "annotations"].into_iter().all(metadata)
        && ["status", "operation"].into_iter().all(|field| base[field] == newest[field])
        && ((patch.get("spec").is_none() && !starts(patch)) || base["spec"] == newest["spec"])
}

/// Whether a write says that an operation starts: by the spec that was seen.
fn starts(patch: &Value) -> bool {
    patch["status"]["operationState"]["startedAt"].is_string()
}

/// Whether the object would become too large. The API server has a code for a request
/// that is; of what its store refuses there is only the text.
fn is_too_large(error: &kube::Error) -> bool {
    has_code(error, 413) || {
        let words = words(error);
        ["request is too large", "etcdserver: request is too large", "Too long: must have at most"]
            .iter()
            .any(|text| words.contains(text))
            || words.contains("trying to send message larger than max")
    }
}

/// The status cannot be stored: says so in a condition and leaves the rest as
/// it was (SE-062).
async fn too_large(
    api: &Api<DynamicObject>,
    base: &Value,
    name: &str,
    reason: &str,
    now: Timestamp,
) -> Result<Value, Error> {
    let mut wanted = base.clone();
    let message =
        format!("the status is too large to be stored, its old values are kept: {reason}");
    let condition = Condition::new(UNKNOWN_ERROR, message);
    if !wanted["status"].is_object() {
        wanted["status"] = json!({});
    }
    if let Some(status) = wanted["status"].as_object_mut() {
        conditions(status, &[UNKNOWN_ERROR], &[condition], now);
    }
    let Some(patch) = merge_patch(base, &wanted) else { return Ok(base.clone()) };
    let written = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    written.map(|object| raw(object, &resource())).map_err(|error| failed(name, &error))
}

fn failed(name: &str, error: &kube::Error) -> Error {
    Error::Failed { name: name.to_owned(), reason: words(error) }
}
