//! Fields of a later version in the lists of a status: what this version does not know of an entry
//! stays with it, although the list is written anew.

use serde_json::{Map, Value};

use wavegate_api::UnknownFields;
use wavegate_api::run::RolloutRunStatus;

/// The most bytes of these fields in one list, as JSON. Those of further entries are left out: a
/// status must not become too large for what this version does know.
const LIST_BYTES: usize = 32 << 10;

/// How many bytes of a list are left for such fields.
#[derive(Clone, Copy, Debug)]
pub struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(LIST_BYTES)
    }
}

impl Room {
    /// Whether there is room for these fields, which takes it.
    pub fn takes(&mut self, fields: &Map<String, Value>) -> bool {
        let bytes = serde_json::to_string(fields).map_or(usize::MAX, |text| text.len());
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// Gives the entries of a list what is not known of the same entries of the list before it.
pub fn keep_unknown<T: UnknownFields>(old: &[T], new: &mut [T], is_same: impl Fn(&T, &T) -> bool) {
    if old.iter().all(|entry| entry.unknown().is_empty()) {
        return;
    }
    let mut room = Room::default();
    for entry in new {
        let same = old.iter().find(|one| is_same(one, entry));
        keep_of(same, entry, &mut room);
    }
}

fn keep_of<T: UnknownFields>(old: Option<&T>, new: &mut T, room: &mut Room) {
    let fields = old.map(T::unknown).filter(|fields| room.takes(fields));
    *new.unknown_mut() = fields.cloned().unwrap_or_default();
}

/// The same for all lists of the status of a run.
pub(super) fn keep_unknown_of_run(old: &RolloutRunStatus, new: &mut RolloutRunStatus) {
    // Steps have no name: they are the same by their place.
    let mut room = Room::default();
    for (old, new) in old.steps.iter().zip(&mut new.steps) {
        keep_of(Some(old), new, &mut room);
    }
    keep_unknown(&old.from, &mut new.from, |a, b| a.revision == b.revision);
    keep_unknown(&old.to, &mut new.to, |a, b| a.revision == b.revision);
    keep_unknown(&old.gates, &mut new.gates, |a, b| (&a.name, &a.policy) == (&b.name, &b.policy));
    keep_unknown(&old.waiting_for, &mut new.waiting_for, |a, b| {
        (&a.application, &a.kind) == (&b.application, &b.kind)
    });
    keep_unknown(&old.failures, &mut new.failures, |a, b| a.signature == b.signature);
    keep_unknown(&old.timeline, &mut new.timeline, |a, b| {
        (&a.at, &a.what, &a.subject, &a.by) == (&b.at, &b.what, &b.subject, &b.by)
    });
}
