//! Objects that are deleted and created again (SE-355).

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Applier;
use super::merge;
use super::send::Sender;
use crate::act::sync::outcome::{done_outcome, failed_outcome, unknown_outcome};
use crate::watch::failure::error_reason;
use wavegate_api::Raw;
use wavegate_api::resource_key::ResourceKey;
use wavegate_engine::sync::{ActionResult, ApplyRequest, OPERATION_ANNOTATION, Propagation};

/// Maximum time until a deleted object is gone, before it is created again.
const GONE_WITHIN: Duration = Duration::from_secs(60);

impl Applier<'_> {
    /// Deletes the object, if it exists, and creates it again (SE-355): not if the server would
    /// refuse the new one, nor if this sync has created it already, as its stamp says. When the
    /// creation fails nevertheless, the previous object is restored.
    pub(super) async fn recreate(
        &self,
        apply: &ApplyRequest,
        target: &Value,
        send: &Sender<'_>,
    ) -> Result<ActionResult, ActionResult> {
        let found = self.live(send).await?;
        if let Some(found) = &found {
            if let Some(objection) = self.objection(apply, found) {
                return Err(ActionResult::Failed(objection));
            }
            // An object of another owner can be adopted (SE-117), but not deleted.
            if let Some(other) = self.owner.other(found) {
                let key = send.key;
                return Err(ActionResult::Failed(format!(
                    "{key} is managed by Application {other} and would have to be deleted to be \
                     replaced: remove it from one of the two applications"
                )));
            }
        }
        let uid = found.as_ref().map(|found| found.uid()).unwrap_or_default();
        if let Some(found) = found.as_ref().filter(|found| is_same_work(target, found)) {
            return Ok(done_outcome(send.key, "replaced", found, false));
        }
        if let Some(found) = &found {
            if !found.is_deleting() {
                self.check_creation(target, send).await?;
            }
            let foreground = Propagation::Foreground;
            match self.delete_object(send.resource, send.key, uid, foreground, None).await {
                ActionResult::Done { .. } | ActionResult::Gone | ActionResult::Left(_) => {}
                failed => return Err(failed),
            }
            if !self.wait_until_gone(send, uid).await {
                let limit = GONE_WITHIN.as_secs();
                return Err(ActionResult::Failed(format!(
                    "the previous object was deleted and is still there after {limit} s"
                )));
            }
        }
        let verb = if found.is_some() { "replaced" } else { "created" };
        match send.create(target).await {
            Ok(object) => Ok(self.answer(send.key, verb, Ok(object))),
            // Our own creation, whose response was lost, or one by another client. If the stamp
            // does not say so, the next round finds out which.
            Err(error) if is_there_already(&error) => {
                let there = self.live(send).await?;
                match there.filter(|there| is_same_work(target, there)) {
                    Some(there) => Ok(done_outcome(send.key, verb, &there, false)),
                    None => Err(unknown_outcome(
                        "another object of this name was created in the meantime",
                    )),
                }
            }
            Err(error) => Err(match found {
                Some(found) => self.restore(&found, &error, send).await,
                None => failed_outcome(&error),
            }),
        }
    }

    /// Asks the server whether it would create the object that replaces another one, before that
    /// one is deleted: a right, a webhook or a quota may be in the way.
    async fn check_creation(&self, target: &Value, send: &Sender<'_>) -> Result<(), ActionResult> {
        let target = without_allocated(send.key, target);
        match send.asking().create(&target).await {
            Ok(_) => Ok(()),
            // All else was checked before.
            Err(error) if is_there_already(&error) => Ok(()),
            Err(error) => Err(match failed_outcome(&error) {
                ActionResult::Failed(why) => ActionResult::Failed(format!(
                    "{why} (the object has to be deleted and created again, and was left as it is, \
                     since its creation would be refused)"
                )),
                other => other,
            }),
        }
    }

    /// Creates a deleted object again, since that which was to replace it was refused. The outcome
    /// says what is in the cluster now.
    async fn restore(&self, lost: &Value, error: &kube::Error, send: &Sender<'_>) -> ActionResult {
        let restored = send.create(&merge::as_new(lost)).await;
        let key = send.key;
        let what = match restored {
            Ok(object) => {
                self.cluster.put(&Arc::new(object));
                "the previous object was deleted and is restored".to_owned()
            }
            Err(error) if is_there_already(&error) => {
                "the previous object was deleted, and another one exists now".to_owned()
            }
            Err(error) => {
                let why = error_reason(&error);
                tracing::error!(resource = %key, error = why, "the object is lost");
                format!("the previous object was deleted and is lost: it cannot be restored: {why}")
            }
        };
        match failed_outcome(error) {
            ActionResult::Failed(why) => ActionResult::Failed(format!("{why} ({what})")),
            ActionResult::Unknown(why) => ActionResult::Unknown(format!("{why} ({what})")),
            other => other,
        }
    }

    /// Waits until the object with this UID is gone.
    async fn wait_until_gone(&self, send: &Sender<'_>, uid: &str) -> bool {
        let gone = async {
            let mut pause = Duration::from_millis(20);
            loop {
                match self.cluster.read(send.resource, send.key).await {
                    Ok(None) => return,
                    Ok(Some(object)) if object.uid() != uid => return,
                    _ => {}
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
        };
        tokio::time::timeout(GONE_WITHIN, gone).await.is_ok()
    }
}

/// Whether an object is the one that this sync was about to create.
fn is_same_work(target: &Value, found: &Value) -> bool {
    let stamp = target.annotation(OPERATION_ANNOTATION);
    stamp.is_some() && stamp == found.annotation(OPERATION_ANNOTATION) && !found.is_deleting()
}

/// A Service without the addresses and ports that the present one still holds.
fn without_allocated(key: &ResourceKey, target: &Value) -> Value {
    let mut target = target.clone();
    let is_service = key.group.is_empty() && key.kind == "Service";
    let spec = target.get_mut("spec").and_then(Value::as_object_mut).filter(|_| is_service);
    let Some(spec) = spec else { return target };
    if spec.get("clusterIP").is_some_and(|address| address != "None") {
        spec.retain(|field, _| field != "clusterIP" && field != "clusterIPs");
    }
    spec.remove("healthCheckNodePort");
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        port.remove("nodePort");
    }
    target
}

fn is_there_already(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists")
}
