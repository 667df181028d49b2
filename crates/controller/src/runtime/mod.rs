//! The scheduler of both controllers.
//!
//! ```text
//! events, due times ──> queue ──> as many reconciles as there are slots ──> queue
//! ```
//!
//! An object is reconciled by one worker at a time; different objects in parallel. A
//! failure or panic of one reconcile does not affect others.

mod backoff;
mod flows;
mod queue;
mod result;
mod slots;
mod work;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};
use turns::{Caller, on_behalf_of};

use super::error::{ErrorAction, ReconcileError};
use wavegate_api::ObjectKey;

pub use backoff::FailureBackoff;
pub use queue::{Queue, QueueRequest, QueueStats, Trigger};
pub use result::{ReconcileResult, Wake};
pub use slots::{Lent, Slots};

/// Timeout of a reconcile: a request hangs. A reconcile can be interrupted at any time;
/// the next one continues.
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// A controller that the scheduler runs.
pub trait Reconciler: Send + Sync + 'static {
    /// The request of a reconcile.
    type Request: QueueRequest;
    /// Whether running reconciles are completed at a shutdown, or cancelled.
    const FINISHES: bool;

    /// The log fields of a reconcile.
    fn span(key: &ObjectKey) -> Span;

    /// Waits before a reconcile for events that arrive together with the one that has triggered
    /// it: all of them are handled at once.
    fn gather(&self, key: &ObjectKey) -> impl Future<Output = ()> + Send;

    /// Reconciles one object.
    fn reconcile(
        &self,
        key: &ObjectKey,
        trigger: Trigger<Self::Request>,
    ) -> impl Future<Output = Result<ReconcileResult, ReconcileError>> + Send;

    /// Reports on the object that its reconcile failed because of a bug.
    fn report(&self, key: &ObjectKey, error: &ReconcileError) -> impl Future<Output = ()> + Send;

    /// Drops the cached state of a deleted object.
    fn forget(&self, key: &ObjectKey) -> impl Future<Output = ()> + Send;
}

/// Reconciles the objects in the queue until `stop`.
pub async fn run<C: Reconciler>(
    controller: Arc<C>,
    queue: Arc<Queue<C::Request>>,
    slots: Slots,
    stop: CancellationToken,
) {
    let mut running = JoinSet::new();
    loop {
        // The slot is acquired last: a reconcile that has lent its slot must get it back
        // while nothing else is due.
        let next = async {
            let next = queue.next().await;
            (next, slots.take().await)
        };
        let Some(((key, trigger), slot)) = stop.run_until_cancelled(next).await else { break };
        // Finished tasks are removed, so that the set stays small.
        while running.try_join_next().is_some() {}
        let (controller, queue) = (Arc::clone(&controller), Arc::clone(&queue));
        let slots = slots.clone();
        let span = C::span(&key);
        let work = async move {
            slots.lend_slot(controller.gather(&key)).await;
            let trigger = queue.catch_up(&key, trigger);
            let reconcile = controller.reconcile(&key, trigger);
            // Of a namespace, until more is known.
            let caller = Caller::new(&key.namespace, &key.name);
            let reconcile = Box::pin(contained(controller.as_ref(), &key, reconcile));
            let ended = on_behalf_of(caller, reconcile).await;
            drop(slot);
            if let Some(pause) = queue.done(&key, trigger, ended) {
                tracing::debug!(?pause, "reconciled again after a pause");
            }
        };
        running.spawn(work.instrument(span));
    }
    if C::FINISHES {
        while running.join_next().await.is_some() {}
    }
}

/// Runs a reconcile and contains its failures and panics (SE-375, AS-149).
pub(crate) async fn contained<C: Reconciler>(
    controller: &C,
    key: &ObjectKey,
    reconcile: impl Future<Output = Result<ReconcileResult, ReconcileError>>,
) -> ReconcileResult {
    let reconcile = AssertUnwindSafe(reconcile).catch_unwind();
    let error = match tokio::time::timeout(TIME_LIMIT, reconcile).await {
        Ok(Ok(Ok(ended))) => {
            if ended == ReconcileResult::Gone {
                controller.forget(key).await;
            }
            return ended;
        }
        Ok(Ok(Err(error))) => error,
        Ok(Err(panic)) => ReconcileError::Panic(panic_text(panic.as_ref())),
        Err(_) => ReconcileError::TimeLimit(TIME_LIMIT),
    };
    match error.action() {
        ErrorAction::Outdated => {
            tracing::debug!(%error, "changed in the meantime, reconciling again");
            ReconcileResult::Outdated
        }
        ErrorAction::Retry => {
            tracing::warn!(%error, "reconcile failed, retrying");
            ReconcileResult::Failed
        }
        ErrorAction::Bug => {
            tracing::error!(%error, "reconcile failed");
            let report = controller.report(key, &error);
            if AssertUnwindSafe(report).catch_unwind().await.is_err() {
                tracing::error!("the failure cannot be reported on the object");
            }
            ReconcileResult::Failed
        }
    }
}

/// The message of a panic, if it is text.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}
