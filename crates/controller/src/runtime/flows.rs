//! Keys that take turns by their flows.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use wavegate_api::ObjectKey;

/// Keys by their flows, which take turns.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// Flows with keys, in the order of their turns; each once.
    order: VecDeque<Arc<str>>,
    keys: HashMap<Arc<str>, VecDeque<ObjectKey>>,
}

impl Flows {
    /// Adds a key at the end of its flow.
    pub(super) fn push(&mut self, flow: Arc<str>, key: ObjectKey) {
        let keys = self.keys.entry(Arc::clone(&flow)).or_default();
        if keys.is_empty() {
            self.order.push_back(flow);
        }
        keys.push_back(key);
    }

    /// The next key of the flow whose turn it is.
    pub(super) fn pop(&mut self) -> Option<ObjectKey> {
        let flow = self.order.pop_front()?;
        let keys = self.keys.get_mut(&flow)?;
        let key = keys.pop_front();
        match keys.is_empty() {
            true => drop(self.keys.remove(&flow)),
            false => self.order.push_back(flow),
        }
        key
    }
}
