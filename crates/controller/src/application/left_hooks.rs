//! Removes the finalizer of hooks that no operation removes any more.

use super::acting::writing_client;
use super::cached_state::CachedState;
use super::context::Context;
use super::observe::ObservedApplication;
use super::reconciliation::Reconciliation;
use wavegate_api::ObjectKey;
use wavegate_application::{left_hooks, operation};

/// Of an Application that is gone, as far as this process knows it: without finalizers, it waits for
/// no operation. Its hooks, and their namespaces, could never be deleted.
pub(super) async fn release_of_gone(ctx: &Context, key: &ObjectKey, cached: &CachedState) {
    let Some(cluster) = cached.cluster.as_ref().filter(|_| !ctx.settings.dry_run) else { return };
    let tracking = ctx.tracking(key);
    let owner = ctx.owner(&tracking, &cached.uid);
    let hooks = left_hooks::of_gone(&cluster.tracked(&tracking.instance), &owner);
    if hooks.is_empty() {
        return;
    }
    let meter = ctx.core.metrics.meter(key, "", cluster.server());
    let acting = cached.acting.clone().unwrap_or(Ok(None));
    let released = match writing_client(cluster, &acting) {
        Ok(client) => {
            let executor = ctx.executor(cluster, &client, owner, meter);
            ctx.lend_slot(executor.release(&hooks)).await
        }
        Err(why) => Err(why),
    };
    if let Err(error) = released {
        tracing::warn!(
            application = %key,
            error,
            "a hook of an Application that is gone cannot be deleted until its finalizer is removed"
        );
    }
}

impl Reconciliation<'_> {
    /// Of an operation that ended before it could do so itself.
    pub(super) async fn release_left_hooks(&self, observed: &ObservedApplication) {
        if self.ctx.settings.dry_run {
            return;
        }
        let observation = observed.observation(self.ctx, &self.tracking);
        let hooks = left_hooks::of_idle(&self.app, &observation);
        if hooks.is_empty() {
            return;
        }
        let uid = operation::uid_of(self.app.raw());
        let released = match observed.destination.client() {
            Ok(client) => {
                let executor = self.executor(observed, &client, "", &uid);
                self.ctx.lend_slot(executor.release(&hooks)).await
            }
            Err(why) => Err(why),
        };
        if let Err(error) = released {
            tracing::warn!(application = %self.key, error, "a hook that is being deleted is held");
        }
    }
}
