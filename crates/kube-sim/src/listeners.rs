//! Open watches, as those see them who have something to tell them.
//!
//! A channel of tokio's wakes its receivers in an order that chance decides;
//! here they are woken in the order in which they came, so that a run can be
//! repeated.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::effect::Disturbance;
use super::request_record::RequestRecord;

/// An open watch.
#[derive(Debug)]
pub(crate) struct Listener {
    /// The request that opened it.
    pub request: RequestRecord,
    wake: Notify,
    disturbances: Mutex<VecDeque<Disturbance>>,
}

impl Listener {
    /// Waits until there is something to look at, also when that was before.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Makes something happen to it.
    pub fn disturb(&self, disturbance: Disturbance) {
        self.disturbances.lock().push_back(disturbance);
        self.wake.notify_one();
    }

    /// What is to happen to it next.
    pub fn next_disturbance(&self) -> Option<Disturbance> {
        self.disturbances.lock().pop_front()
    }
}

/// The open watches of one resource, in the order in which they were opened.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Vec<Weak<Listener>>);

impl Listeners {
    /// Adds a watch, which is forgotten when it is dropped.
    pub fn add(&mut self, request: RequestRecord) -> Arc<Listener> {
        self.0.retain(|listener| listener.strong_count() > 0);
        let (wake, disturbances) = (Notify::new(), Mutex::default());
        let listener = Arc::new(Listener { request, wake, disturbances });
        self.0.push(Arc::downgrade(&listener));
        listener
    }

    pub fn iter(&self) -> impl Iterator<Item = Arc<Listener>> {
        self.0.iter().filter_map(Weak::upgrade)
    }

    pub fn wake(&self) {
        self.iter().for_each(|listener| listener.wake.notify_one());
    }
}
