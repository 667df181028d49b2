//! The scheduler of both controllers.
//!
//! ```text
//! events, due times ──> queue ──> as many reconciles as there are slots ──> queue
//! ```
//!
//! One reconcile of an object follows another; those of different objects run
//! side by side. Whatever a reconcile ends with, even a panic, stays its own.

mod backoff;
mod queue;
mod slots;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::error::{Error, Verdict};
use crate::api::ObjectKey;

pub use backoff::{Backoff, spread};
pub use queue::{Queue, ReconcileResult, Request, Trigger};
pub use slots::Slots;

/// A reconcile that takes longer hangs on a request. It may be cut off anywhere
/// and goes on where it was.
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// One controller, as the scheduler sees it.
pub trait Reconciler: Send + Sync + 'static {
    /// What a reconcile is asked for.
    type Request: Request;
    /// Whether a reconcile that runs is finished when the controller is to stop,
    /// or cut off.
    const FINISHES: bool;

    /// What log lines of a reconcile carry.
    fn span(key: &ObjectKey) -> Span;

    /// Reconciles one object.
    fn reconcile(
        &self,
        key: &ObjectKey,
        trigger: Trigger<Self::Request>,
    ) -> impl Future<Output = Result<ReconcileResult, Error>> + Send;

    /// Says on the object that its reconcile failed by a bug, which its user
    /// would not see otherwise.
    fn report(&self, key: &ObjectKey, error: &Error) -> impl Future<Output = ()> + Send;

    /// The object is gone: forgets it.
    fn forget(&self, key: &ObjectKey) -> impl Future<Output = ()> + Send;
}

/// Reconciles what the queue has until `stop`.
pub async fn run<C: Reconciler>(
    controller: Arc<C>,
    queue: Arc<Queue<C::Request>>,
    slots: Slots,
    stop: CancellationToken,
) {
    let mut running = JoinSet::new();
    loop {
        // Only then a slot: a reconcile that has lent its own must get it back
        // while nothing else is due.
        let next = async {
            let next = queue.next().await;
            (next, slots.take().await)
        };
        let Some(((key, trigger), slot)) = stop.run_until_cancelled(next).await else { break };
        // Done ones are taken out, so that the set does not grow.
        while running.try_join_next().is_some() {}
        let (controller, queue) = (Arc::clone(&controller), Arc::clone(&queue));
        let span = C::span(&key);
        let work = async move {
            let reconcile = controller.reconcile(&key, trigger);
            let ended = contained(controller.as_ref(), &key, reconcile).await;
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

/// A reconcile whose failure, even a panic, stays its own (SE-375, AS-149).
pub async fn contained<C: Reconciler>(
    controller: &C,
    key: &ObjectKey,
    reconcile: impl Future<Output = Result<ReconcileResult, Error>>,
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
        Ok(Err(panic)) => Error::Panic(panic_text(panic.as_ref())),
        Err(_) => Error::TimeLimit(TIME_LIMIT),
    };
    match error.verdict() {
        Verdict::Gone => {
            controller.forget(key).await;
            ReconcileResult::Gone
        }
        Verdict::Outdated => {
            tracing::debug!(%error, "changed meanwhile, looking again");
            ReconcileResult::Outdated
        }
        Verdict::Retry => {
            tracing::warn!(%error, "reconcile failed, trying again");
            ReconcileResult::Failed
        }
        Verdict::Bug => {
            tracing::error!(%error, "reconcile failed");
            let report = controller.report(key, &error);
            if AssertUnwindSafe(report).catch_unwind().await.is_err() {
                tracing::error!("its failure cannot be told either");
            }
            ReconcileResult::Failed
        }
    }
}

/// What a panic said, if it was text.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}
