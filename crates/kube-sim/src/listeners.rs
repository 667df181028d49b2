//! Open watches, as those see them who have something to tell them.
//!
//! A channel of tokio's wakes its receivers in an order that chance decides;
//! here they are woken in the order in which they came, so that a run can be
//! repeated.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

/// An open watch.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    wake: Notify,
    ended: AtomicBool,
}

impl Listener {
    /// Waits until there is something to look at, also when that was before.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Whether the watch is to end.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// The open watches of one resource, in the order in which they were opened.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Vec<Weak<Listener>>);

impl Listeners {
    /// Adds a watch, which is forgotten when it is dropped.
    pub fn add(&mut self) -> Arc<Listener> {
        self.0.retain(|listener| listener.strong_count() > 0);
        let listener = Arc::new(Listener::default());
        self.0.push(Arc::downgrade(&listener));
        listener
    }

    pub fn iter(&self) -> impl Iterator<Item = Arc<Listener>> {
        self.0.iter().filter_map(Weak::upgrade)
    }

    pub fn wake(&self) {
        self.iter().for_each(|listener| listener.wake.notify_one());
    }

    pub fn end(&self) {
        self.iter().for_each(|listener| listener.ended.store(true, Ordering::Release));
        self.wake();
    }
}
