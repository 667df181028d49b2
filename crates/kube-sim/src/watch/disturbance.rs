//! What can happen to a watch that is open.

use hyper::body::Bytes;
use tokio::time::Instant;

use super::{MAX_TIMEOUT, Silence, Watch};
use crate::effect::Disturbance;
use crate::errors::ApiError;
use crate::log::Change;

impl Watch {
    /// Lets something happen to this watch.
    pub(super) fn suffer(&mut self, disturbance: Disturbance) {
        match disturbance {
            Disturbance::Silence(time) => {
                self.silence =
                    Instant::now().checked_add(time).map_or(Silence::ForEver, Silence::Until)
            }
            Disturbance::Delay(time) => self.delay = time.min(MAX_TIMEOUT),
            Disturbance::Repeat(count) => self.repeats = self.repeats.max(count),
            Disturbance::Expire => {
                self.end();
                self.fail(&ApiError::expired(
                    "The resourceVersion for the provided watch is too old.",
                ));
            }
            Disturbance::Close => self.end(),
            Disturbance::Cut => {
                let next = self.ready.pop_front().map(|(_, event)| event);
                let event = next.unwrap_or_else(|| self.bookmark(false));
                self.end();
                self.ready.push_back((None, event.slice(..event.len() / 2)));
                self.is_cut = true;
            }
        }
    }

    /// Ends at once: what was not sent yet is lost.
    fn end(&mut self) {
        self.ready.clear();
        self.initial.clear();
        self.initial_end = false;
        self.silence = Silence::None;
        self.done = true;
    }

    /// Makes ready once more what was sent last.
    pub(super) fn repeat(&mut self) {
        let count = std::mem::take(&mut self.repeats);
        if count == 0 {
            return;
        }
        let server = self.server.clone();
        let seen: Vec<Change> = {
            let state = server.state.lock();
            let table = state.store.table(&self.kind.storage);
            table.into_iter().flat_map(|table| table.log.seen(self.cursor)).cloned().collect()
        };
        let mut events: Vec<Bytes> =
            seen.iter().filter_map(|change| self.event_of(change)).take(count).collect();
        while let Some(event) = events.pop() {
            self.push(event);
        }
    }
}
