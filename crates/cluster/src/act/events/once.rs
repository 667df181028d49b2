//! Identity of Events that may be published several times.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::events::v1::Event;
use sha2::{Digest, Sha256};

/// How long after its Event a write may be repeated, after a conflict or by the process after
/// a kill.
pub(super) const REPEATED: SignedDuration = SignedDuration::from_secs(60);

/// What identifies an Event among those of its object: a digest, the same in each process. It
/// is kept, and what it is made of may be large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once {
    /// The Event exists once, however old it is.
    Ever(u64),
    /// A change of a stored version, whose write may be repeated. The version may become the
    /// same again: a change is another one when its Event is old.
    Change(u64),
}

impl Once {
    /// What never happens twice.
    pub fn ever(text: &str) -> Self {
        Self::Ever(digest(text))
    }

    /// A change of a stored version.
    pub fn change(text: &str) -> Self {
        Self::Change(digest(text))
    }

    /// The end of the name of its Event about an object.
    pub(super) fn suffix(self, uid: &str) -> String {
        let (Self::Ever(key) | Self::Change(key)) = self;
        format!("{:016x}", digest(&format!("{uid}/{key:016x}")))
    }
}

/// Whether a change that is published now repeats one that has this Event.
pub(super) fn is_repeated(existing: &Event, now: Timestamp) -> bool {
    let last = existing.series.as_ref().map(|series| series.last_observed_time.0);
    let at = last.or_else(|| existing.event_time.as_ref().map(|at| at.0));
    let at = at.or_else(|| existing.metadata.creation_timestamp.as_ref().map(|at| at.0));
    at.is_some_and(|at| now.duration_since(at) <= REPEATED)
}

/// The digest of a text that is the same in each process and release.
fn digest(text: &str) -> u64 {
    let hash = Sha256::digest(text);
    hash.iter().take(8).fold(0, |digest, byte| digest << 8 | u64::from(*byte))
}
