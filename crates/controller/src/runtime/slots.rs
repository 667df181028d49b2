//! Limits the number of parallel reconciles. A reconcile that waits for a slow repository
//! lends its slot to another one.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a reconcile waits before it lends its slot. Most requests are answered from a
/// cache.
const LENT_AFTER: Duration = Duration::from_millis(50);

/// The slots of one controller.
#[derive(Clone, Debug)]
pub struct Slots(Arc<Semaphore>);

impl Slots {
    /// The given number of slots, at least one.
    pub fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count.max(1))))
    }

    /// Waits for a slot.
    pub async fn take(&self) -> Option<OwnedSemaphorePermit> {
        self.0.clone().acquire_owned().await.ok()
    }

    /// Waits for `work`; after a short time, the slot of this reconcile is lent until the
    /// work is done.
    pub fn lend_slot<T>(&self, work: impl Future<Output = T>) -> impl Future<Output = T> {
        self.lend_slot_after(LENT_AFTER, work)
    }

    /// The same after this time.
    pub async fn lend_slot_after<T>(&self, after: Duration, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(after) => {}
        }
        let slot = self.lent();
        let done = work.await;
        slot.take_back().await;
        done
    }

    /// Lends the slot of this reconcile at once, for work that keeps its thread while it waits.
    pub fn lent(&self) -> Lent {
        Lent::new(self.0.clone())
    }
}

/// A lent slot.
#[derive(Debug)]
pub struct Lent(Option<Arc<Semaphore>>);

impl Lent {
    fn new(slots: Arc<Semaphore>) -> Self {
        slots.add_permits(1);
        Self(Some(slots))
    }

    /// Waits until the slot is that of this reconcile again.
    pub async fn take_back(mut self) {
        // Stays set while waiting, since this future may be dropped.
        if let Some(slots) = self.0.clone()
            && let Ok(slot) = slots.acquire().await
        {
            slot.forget();
        }
        self.0 = None;
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(slots) = self.0.take() else { return };
        // The reconcile was cancelled and releases its own slot: one permit too many.
        if slots.forget_permits(1) == 0
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                if let Ok(slot) = slots.acquire_owned().await {
                    slot.forget();
                }
            });
        }
    }
}
