//! How many reconciles run at once. One that waits for something slow, such as a
//! repository, lends its slot to another meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a reconcile waits before others get its slot. Most answers are kept
/// ones, and come at once.
const ASIDE_AFTER: Duration = Duration::from_millis(50);

/// The slots of one controller.
#[derive(Clone, Debug)]
pub struct Slots(Arc<Semaphore>);

impl Slots {
    /// As many, one at least.
    pub fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count.max(1))))
    }

    /// Waits for a slot.
    pub async fn take(&self) -> Option<OwnedSemaphorePermit> {
        self.0.clone().acquire_owned().await.ok()
    }

    /// Waits without keeping others from their turn: after a moment the slot of
    /// this reconcile is lent until there is an answer.
    pub async fn aside<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(ASIDE_AFTER) => {}
        }
        let slot = Lent::new(self.0.clone());
        let done = work.await;
        slot.take_back().await;
        done
    }
}

/// A slot that is lent.
struct Lent(Option<Arc<Semaphore>>);

impl Lent {
    fn new(slots: Arc<Semaphore>) -> Self {
        slots.add_permits(1);
        Self(Some(slots))
    }

    async fn take_back(mut self) {
        // Stays in place while waiting, in case that this is dropped.
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
        // The reconcile was cut off and gives its own slot back: one is too many.
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
