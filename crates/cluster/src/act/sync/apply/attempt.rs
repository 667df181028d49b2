//! One attempt to apply an object: the requests of its strategy.

use std::sync::Arc;

use serde_json::Value;

use super::Applier;
use super::send::Sender;
use super::{merge, migrate};
use crate::watch::failure::{error_reason, has_code};
use wavegate_api::Raw;
use wavegate_engine::sync::{ActionResult, ApplyMethod, ApplyRequest};

/// Outcome of one attempt.
pub(super) enum ApplyAttempt {
    /// The response of the server, and the verb for messages.
    Answered(&'static str, Result<Value, kube::Error>),
    /// The live object is outdated.
    Outdated,
    /// `live` is as the target wants it; no request was sent.
    Unchanged(Arc<Value>),
}

impl Applier<'_> {
    /// Sends the requests that change `live` into the target, once.
    pub(super) async fn send_once(
        &self,
        how: ApplyMethod,
        apply: &ApplyRequest,
        live: Option<&Arc<Value>>,
        send: &Sender<'_>,
    ) -> Result<ApplyAttempt, ActionResult> {
        let target = apply.manifest.as_ref();
        let (verb, answer) = match (how, live) {
            (ApplyMethod::ServerSide, found) => {
                if let Some(found) = found.filter(|_| apply.method.migrate && !send.dry_run)
                    && let Err(error) = self.migrate(found, send).await
                {
                    if has_code(&error, 409)
                        || (has_code(&error, 422) && self.has_changed(found, send).await)
                    {
                        return Ok(ApplyAttempt::Outdated);
                    }
                    let key = send.key;
                    return Err(ActionResult::Failed(format!(
                        "Failed to perform client-side apply migration for {key}: {}",
                        error_reason(&error)
                    )));
                }
                ("serverside-applied", send.server_side(target).await)
            }
            (ApplyMethod::ClientSide, None) => {
                ("created", send.create(&merge::with_last_applied(target)).await)
            }
            (ApplyMethod::ClientSide, Some(live)) => match merge::three_way(target, live) {
                None => return Ok(ApplyAttempt::Unchanged(live.clone())),
                Some(patch) => ("configured", send.merge(&patch, live).await),
            },
            (ApplyMethod::Replace | ApplyMethod::Update | ApplyMethod::Create, None) => {
                ("created", send.create(target).await)
            }
            (ApplyMethod::Replace | ApplyMethod::Create, Some(live)) => {
                ("replaced", send.replace(target, live).await)
            }
            (ApplyMethod::Update, Some(live)) => ("updated", send.replace(target, live).await),
        };
        Ok(ApplyAttempt::Answered(verb, answer))
    }

    /// Whether the object has another version now: then a patch may not fit it, which is no
    /// error of the patch.
    async fn has_changed(&self, live: &Value, send: &Sender<'_>) -> bool {
        match self.cluster.read(send.resource, send.key).await {
            Ok(newest) => {
                newest.is_none_or(|newest| newest.resource_version() != live.resource_version())
            }
            Err(_) => false,
        }
    }

    async fn migrate(&self, live: &Arc<Value>, send: &Sender<'_>) -> Result<(), kube::Error> {
        let Some(patch) = migrate::patch(live, self.former_manager, self.manager) else {
            return Ok(());
        };
        let object = send.json_patch(&patch).await?;
        self.cluster.put(&Arc::new(object));
        Ok(())
    }
}
