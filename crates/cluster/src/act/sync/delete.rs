//! Deletes objects, with the UID as a precondition (SE-360 … SE-362).
//!
//! What an Application has no longer in its source may be another one's by now, which has it in its
//! own source or has applied it already. So the version that was decided on is a precondition, too,
//! and an object that has changed is looked at again.

use std::sync::Arc;

use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::core::discovery::ApiResource;
use serde_json::{Value, json};

use super::applier::Applier;
use super::outcome::{done_outcome, failed_outcome, unknown_outcome};
use super::retry::{self, pause_before_retry};
use crate::watch::cluster_cache::raw_object;
use crate::watch::failure::{checked, error_reason, has_code};
use crate::watch::object::object_api;
use wavegate_api::Raw;
use wavegate_api::annotations::HOOK_FINALIZER;
use wavegate_api::resource_key::ResourceKey;
use wavegate_application::handover::HeldObjects;
use wavegate_engine::sync::{ActionResult, Propagation};

/// Maximum number of attempts after conflicts, each with a new read.
const ATTEMPTS: u32 = 5;

impl Applier<'_> {
    /// Deletes an object. [`ActionResult::Done`] means that the server has accepted the deletion
    /// and the object still exists, for example because of finalizers; [`ActionResult::Gone`]
    /// that it does not exist any more or was replaced by another one. An object without a
    /// UID is not deleted, since the name may refer to another one.
    ///
    /// `own` is the object as last observed, if it is deleted because the Application does not
    /// have it any more: when another Application has it in its source, or tracks it, the result
    /// is [`ActionResult::Left`].
    pub async fn delete_object(
        &self,
        resource: &ApiResource,
        key: &ResourceKey,
        uid: &str,
        propagation: Propagation,
        own: Option<&Value>,
    ) -> ActionResult {
        let policy = match propagation {
            Propagation::Foreground => PropagationPolicy::Foreground,
            Propagation::Background => PropagationPolicy::Background,
            Propagation::Orphan => PropagationPolicy::Orphan,
        };
        if uid.is_empty() {
            return ActionResult::Failed(format!(
                "{key} has no uid, so it cannot be deleted safely"
            ));
        }
        if let Err(error) = checked(key) {
            return failed_outcome(&error);
        }
        let Applier { cluster, meter, .. } = self;
        let api = object_api(self.client, resource, &key.namespace);
        let of = (resource.plural.as_str(), key.namespace.as_str());
        let mut refusal = String::new();
        let mut version = own.map(|own| own.resource_version().to_owned());
        for attempt in 1..=ATTEMPTS {
            if let Some(other) = own.and_then(|own| self.claimed(key, own)) {
                return ActionResult::Left(other);
            }
            let params = DeleteParams {
                propagation_policy: Some(policy.clone()),
                preconditions: Some(Preconditions {
                    uid: Some(uid.to_owned()),
                    resource_version: version.clone().filter(|version| !version.is_empty()),
                }),
                ..DeleteParams::default()
            };
            let request = || async {
                let answer = cluster.requests.send(api.delete(&key.name, &params)).await;
                meter.answered(("Delete", false), of, &answer);
                answer
            };
            let error = match retry::on_transient_errors(key, request).await {
                Ok(answer) => {
                    let Some(object) = answer.left() else {
                        cluster.remove(key, uid);
                        return ActionResult::Gone;
                    };
                    let object = raw_object(object, resource);
                    let held = object.is_deleting() && object.finalizers().next().is_some();
                    // Some servers return the object that they have just removed; the watch
                    // reports the removal.
                    if held {
                        cluster.put(&Arc::new(object));
                    }
                    return done_outcome(key, "deleted", &Value::Null, false);
                }
                Err(error) => error,
            };
            if has_code(&error, 404) {
                cluster.remove(key, uid);
                return ActionResult::Gone;
            }
            if !has_code(&error, 409) {
                return failed_outcome(&error);
            }
            refusal = error_reason(&error);
            // Usually, the precondition failed, since the name refers to another object now.
            match cluster.read(resource, key).await {
                Ok(Some(object)) if object.uid() == uid => {
                    // The server refuses to delete it twice.
                    if object.is_deleting() {
                        return done_outcome(key, "deleted", &Value::Null, false);
                    }
                    if own.is_some() && !self.owner.tracking.owns(&object) {
                        let other = self.owner.other(&object);
                        return ActionResult::Left(other.unwrap_or_else(|| "others".to_owned()));
                    }
                    version = version.map(|_| object.resource_version().to_owned());
                }
                Ok(_) => return ActionResult::Gone,
                Err(unread) => return ActionResult::Unknown(format!("{refusal}; {unread}")),
            }
            // Otherwise, a busy server refuses once, and an admission webhook each time.
            if attempt < ATTEMPTS {
                pause_before_retry(key, attempt).await;
            }
        }
        ActionResult::Failed(refusal)
    }

    /// Another Application that has an object in its source by now, or one that goes with it.
    fn claimed(&self, key: &ResourceKey, object: &Value) -> Option<String> {
        let claims = HeldObjects::of(object).claims(key).into_iter();
        let mut others = claims.flat_map(|key| self.cluster.claiming(&key));
        let other = others.find(|other| *other != self.owner.tracking.instance)?;
        tracing::info!(resource = %key, %other, "not deleted: another Application has it");
        Some(self.owner.display(&other))
    }

    /// Removes the hook finalizer of an object (SE-295). It is a success when the finalizer
    /// or the object is gone, or the object was replaced.
    pub async fn remove_finalizer(
        &self,
        resource: &ApiResource,
        key: &ResourceKey,
        uid: &str,
    ) -> ActionResult {
        if let Err(error) = checked(key) {
            return failed_outcome(&error);
        }
        let Applier { cluster, meter, .. } = self;
        let api = object_api(self.client, resource, &key.namespace);
        for attempt in 1..=ATTEMPTS {
            let object = match cluster.read(resource, key).await {
                Ok(Some(object)) => object,
                Ok(None) => return ActionResult::Gone,
                Err(error) => return unknown_outcome(error),
            };
            let another = !uid.is_empty() && object.uid() != uid;
            if another || !object.finalizers().any(|finalizer| finalizer == HOOK_FINALIZER) {
                return done_outcome(key, "released", &object, false);
            }
            let kept: Vec<&str> = object.finalizers().filter(|f| *f != HOOK_FINALIZER).collect();
            let patch = json!({"metadata": {
                "finalizers": kept,
                "resourceVersion": object.resource_version(),
            }});
            let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
            let request = || async {
                let answer = cluster.requests.send(api.patch(&key.name, &params, &patch)).await;
                let of = (resource.plural.as_str(), key.namespace.as_str());
                meter.answered(("Patch", false), of, &answer);
                answer
            };
            match retry::on_transient_errors(key, request).await {
                Ok(object) => {
                    let object = raw_object(object, resource);
                    if object.is_deleting() && object.finalizers().next().is_none() {
                        cluster.remove(key, uid);
                        return ActionResult::Gone;
                    }
                    let object = Arc::new(object);
                    cluster.put(&object);
                    return done_outcome(key, "released", &object, false);
                }
                Err(error) if has_code(&error, 404) => return ActionResult::Gone,
                Err(error) if has_code(&error, 409) => pause_before_retry(key, attempt).await,
                Err(error) => return failed_outcome(&error),
            }
        }
        unknown_outcome("the object keeps changing")
    }
}
