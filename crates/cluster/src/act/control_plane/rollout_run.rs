//! The only writer of RolloutRuns: creates them, writes their status, and deletes old ones.
//! Responses go into the cache at once.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::application_set_status::is_conflict;
use crate::watch::control_plane::{Cache, Origin, set_owner};
use crate::watch::failure::{error_reason, has_code, is_gone};
use crate::watch::object::{StoredObject, kind_api, kind_resource};
use wavegate_api::run::{self, RolloutRunSpec, RolloutRunStatus, SinkMark};
use wavegate_api::{ObjectKey, application_set};
use wavegate_engine::merge_patch::merge_patch;

/// Label values have at most so many characters.
const MAX_LABEL: usize = 63;

/// Outcome of the write of a RolloutRun or RolloutPolicy.
#[derive(Debug)]
pub enum Written {
    /// It was written: the object as the API server stores it, which is in the cache.
    Done(StoredObject),
    /// It is already as wanted; no request was sent.
    Unchanged,
    /// The object has changed since it was read, or is gone; reconcile again.
    Outdated,
    /// The definitions are not installed.
    Absent,
    /// The API server refuses the write, with this reason: the same write will be refused again.
    Refused(String),
    /// Another object, which this ApplicationSet does not control, has the name.
    Taken,
}

/// A run that begins.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Namespace and name.
    pub key: ObjectKey,
    /// UID of the ApplicationSet, whose name is in the spec.
    pub set_uid: String,
    /// What the run is of.
    pub spec: RolloutRunSpec,
}

impl NewRun {
    fn to_json(&self) -> Value {
        let set = &self.spec.application_set;
        let metadata = ObjectMeta {
            namespace: Some(self.key.namespace.clone()),
            name: Some(self.key.name.clone()),
            labels: set_label(set),
            owner_references: Some(vec![owner(set, &self.set_uid)]),
            ..ObjectMeta::default()
        };
        json!({
            "apiVersion": wavegate_api::WAVEGATE_API_VERSION,
            "kind": run::RUN,
            "metadata": metadata,
            "spec": self.spec,
        })
    }
}

/// The owner reference of a set's runs.
fn owner(set: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: wavegate_api::API_VERSION.to_owned(),
        kind: application_set::ApplicationSet::KIND.to_owned(),
        name: set.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    }
}

/// The label by which commands find the runs of a set; none where its name is too long for one.
fn set_label(set: &str) -> Option<BTreeMap<String, String>> {
    (set.len() <= MAX_LABEL).then(|| [(run::SET_LABEL.to_owned(), set.to_owned())].into())
}

/// Gives a run back to its set, after somebody has removed the owner reference: without it the
/// run would outlive the set, and commands would not find it.
///
/// # Errors
///
/// As [`create_run`].
pub async fn restore_owner(
    client: &Client,
    cache: &Cache,
    run: &StoredObject,
    set: &str,
    set_uid: &str,
) -> Result<Written, kube::Error> {
    let owners: Vec<_> = run.owners().iter().cloned().chain([owner(set, set_uid)]).collect();
    let metadata = ObjectMeta {
        resource_version: Some(run.resource_version().to_owned()),
        labels: set_label(set),
        owner_references: Some(owners),
        ..ObjectMeta::default()
    };
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    let api: Api<StoredObject> = kind_api(client, Some(run.namespace()), &kind_resource(run::RUN));
    settled(api.patch(run.name(), &PatchParams::default(), &patch).await, cache)
}

/// Creates a run. When the set has it already, it is returned as stored, such as after a crash:
/// what people have written into it stays.
///
/// # Errors
///
/// When the API server is not available. What it refuses is an outcome.
pub async fn create_run(
    client: &Client,
    cache: &Cache,
    run: &NewRun,
) -> Result<Written, kube::Error> {
    let (key, resource) = (&run.key, kind_resource(run::RUN));
    let api: Api<StoredObject> = kind_api(client, Some(&key.namespace), &resource);
    let (params, object) = (PostParams::default(), run.to_json().into());
    let write = cache.begin_write(key.clone());
    let answer = match write.answer(api.create(&params, &object)).await {
        Err(error) if has_code(&error, 409) => api.get(&key.name).await,
        answer => answer,
    };
    match settled(answer, cache)? {
        Written::Done(stored)
            if set_owner(&stored).is_none_or(|owner| owner.uid != run.set_uid) =>
        {
            Ok(Written::Taken)
        }
        written => Ok(written),
    }
}

/// Writes the status of a run: what differs from the status of `run`, which must still have
/// the same version.
///
/// # Errors
///
/// As [`create_run`].
pub async fn write_status(
    client: &Client,
    cache: &Cache,
    run: &StoredObject,
    status: &RolloutRunStatus,
) -> Result<Written, kube::Error> {
    patch_status(client, cache, run::RUN, run, status).await
}

/// Writes into the status of a run how many of its transitions are notified of, and to whom.
///
/// # Errors
///
/// As [`create_run`].
pub(in crate::act) async fn write_marks(
    client: &Client,
    cache: &Cache,
    run: &StoredObject,
    notified: i64,
    ahead: Vec<SinkMark>,
) -> Result<Written, kube::Error> {
    let stored = run.status();
    let stored = match stored.is_null() {
        true => RolloutRunStatus::default(),
        false => match RolloutRunStatus::deserialize(&stored) {
            Ok(stored) => stored,
            // It would be replaced: an abort would be gone.
            Err(error) => return Ok(Written::Refused(format!("its status: {error}"))),
        },
    };
    let status = RolloutRunStatus { notified: Some(notified), notified_sinks: ahead, ..stored };
    write_status(client, cache, run, &status).await
}

/// Deletes a run.
///
/// # Errors
///
/// As [`create_run`].
pub async fn delete_run(
    client: &Client,
    cache: &Cache,
    run: &StoredObject,
) -> Result<Written, kube::Error> {
    let resource = kind_resource(run::RUN);
    let api: Api<StoredObject> = kind_api(client, Some(run.namespace()), &resource);
    let preconditions = Preconditions { uid: Some(run.uid().to_owned()), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match api.delete(run.name(), &params).await {
        Ok(answer) => {
            match answer.left() {
                Some(object) => cache.wrote(object, Origin::ApplicationSets),
                None => cache.gone(&run.key(), run.uid(), Origin::ApplicationSets),
            }
            Ok(Written::Done(run.clone()))
        }
        Err(error) => failed(error).inspect(|written| {
            if matches!(written, Written::Outdated) {
                cache.gone(&run.key(), run.uid(), Origin::ApplicationSets);
            }
        }),
    }
}

/// Merges what differs into the status of an object of a kind of Wavegate.
pub(super) async fn patch_status<S>(
    client: &Client,
    cache: &Cache,
    kind: &str,
    object: &StoredObject,
    status: &S,
) -> Result<Written, kube::Error>
where
    S: Default + Serialize + for<'a> Deserialize<'a>,
{
    let Some(change) = merge_patch(&stored_status::<S>(object), &to_json(status)) else {
        return Ok(Written::Unchanged);
    };
    let version = json!({ "resourceVersion": object.resource_version() });
    let patch = Patch::Merge(json!({ "metadata": version, "status": change }));
    let resource = kind_resource(kind);
    let api: Api<StoredObject> = kind_api(client, Some(object.namespace()), &resource);
    let write = cache.begin_write(object.key());
    let params = PatchParams::default();
    settled(write.answer(api.patch_status(object.name(), &params, &patch)).await, cache)
}

/// The stored status as the type writes it, so that only what means something differs. A
/// status that the type cannot read is replaced field by field.
fn stored_status<S: Serialize + for<'a> Deserialize<'a>>(object: &StoredObject) -> Value {
    let stored = object.status();
    if stored.is_null() {
        return json!({});
    }
    S::deserialize(&stored).map_or(stored, |status| to_json(&status))
}

fn to_json(status: &impl Serialize) -> Value {
    serde_json::to_value(status).expect("a status holds nothing but JSON")
}

fn settled(
    answer: Result<StoredObject, kube::Error>,
    cache: &Cache,
) -> Result<Written, kube::Error> {
    match answer {
        Ok(object) => {
            cache.wrote(object.clone(), Origin::ApplicationSets);
            Ok(Written::Done(object))
        }
        Err(error) => failed(error),
    }
}

/// An error of the API server as an outcome; others are returned.
fn failed(error: kube::Error) -> Result<Written, kube::Error> {
    match &error {
        // About the path, and not about an object with a name.
        error if has_code(error, 404) && !is_gone(error) => Ok(Written::Absent),
        error if is_conflict(error) => Ok(Written::Outdated),
        error if [400, 403, 413, 422].iter().any(|code| has_code(error, *code)) => {
            Ok(Written::Refused(error_reason(error)))
        }
        _ => Err(error),
    }
}
