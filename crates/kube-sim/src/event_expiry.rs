//! Kubernetes Events are deleted after an hour, as in the real one, and the
//! oldest earlier when there are too many: nothing else deletes them.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::place::Key;

/// How long an Event stays after its last write: `--event-ttl` of the real one.
const TTL: SignedDuration = SignedDuration::from_hours(1);

/// Events at a time.
pub(crate) const MAX_EVENTS: usize = 10_000;

/// When each Event was last written, by the revision of that write.
#[derive(Debug, Default)]
pub(crate) struct EventExpiry(BTreeMap<u64, (Timestamp, Key)>);

impl EventExpiry {
    /// Records a write of an Event; `former` is the revision of the write before.
    pub fn written(&mut self, key: &Key, former: Option<u64>, revision: u64, now: Timestamp) {
        if let Some(former) = former {
            self.0.remove(&former);
        }
        self.0.insert(revision, (now, key.clone()));
    }

    /// Takes out the oldest Event if its time is over: the revision of its last write, and its key.
    pub fn take_expired(&mut self, now: Timestamp) -> Option<(u64, Key)> {
        let crowded = self.0.len() > MAX_EVENTS;
        let oldest = self.0.first_entry()?;
        let (written, _) = oldest.get();
        if !crowded && now.duration_since(*written) < TTL {
            return None;
        }
        let (revision, (_, key)) = oldest.remove_entry();
        Some((revision, key))
    }
}
