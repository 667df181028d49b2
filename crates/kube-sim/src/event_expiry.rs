//! Kubernetes Events are deleted after an hour, as in the real one, and the
//! oldest earlier when there are too many: nothing else deletes them.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::kinds::ResourceKey;
use super::state::State;
use super::store::{Key, Place};

/// How long an Event stays after its last write: `--event-ttl` of the real one.
const TTL: SignedDuration = SignedDuration::from_hours(1);

/// Events at a time.
pub(crate) const MAX_EVENTS: usize = 10_000;

/// When each Event was last written, by the revision of that write.
#[derive(Debug, Default)]
pub(crate) struct EventExpiry(BTreeMap<u64, (Timestamp, Key)>);

/// Where the Events of both groups are stored.
pub(crate) fn events() -> ResourceKey {
    ResourceKey::new("", "events")
}

impl State {
    /// Records a write of an Event, and deletes expired Events.
    pub fn event_written(&mut self, key: &Key, former: Option<u64>, revision: u64, now: Timestamp) {
        let written = &mut self.event_expiry.0;
        if let Some(former) = former {
            written.remove(&former);
        }
        written.insert(revision, (now, key.clone()));
        self.expire_events(now);
    }

    /// Deletes expired Events. Called before each request for Events.
    pub fn expire_events(&mut self, now: Timestamp) {
        let resource = events();
        loop {
            let crowded = self.event_expiry.0.len() > MAX_EVENTS;
            let Some(oldest) = self.event_expiry.0.first_entry() else { return };
            let (written, _) = oldest.get();
            if !crowded && now.duration_since(*written) < TTL {
                return;
            }
            let revision = *oldest.key();
            let (_, key) = oldest.remove();
            let place: Place = (resource.clone(), key);
            // A client may have deleted it and created another one of that name.
            if self.store.get(&place.0, &place.1).is_some_and(|event| event.revision == revision) {
                self.remove_now(&place, now);
            }
        }
    }
}
