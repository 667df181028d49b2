//! Whether to compare an Application, and how thoroughly (SE-376, SE-377).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::operation::started_at;
use super::status::compared_to;
use crate::api::annotations::{Refresh, refresh};

/// How thoroughly a comparison looks (SE-376).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Level {
    /// Not at all.
    #[default]
    None,
    /// At the live objects, for the revision that was compared last.
    Live,
    /// Also at the revision; an answer that somebody else got lately will do.
    Revision,
    /// At the newest revision there is.
    Newest,
}

/// A request to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Request {
    /// How thoroughly.
    pub level: Level,
    /// Whether manifests are rendered anew even at the same revision.
    pub hard: bool,
}

impl Request {
    /// A request of this level.
    pub fn new(level: Level) -> Self {
        Self { level, hard: false }
    }

    /// Both requests in one.
    pub fn and(self, other: Self) -> Self {
        Self { level: self.level.max(other.level), hard: self.hard || other.hard }
    }

    /// Whether there is anything to do.
    pub fn is_some(self) -> bool {
        self.level > Level::None
    }
}

/// What the Application itself asks for: by its refresh annotation, or by a
/// spec that is not the one that was compared. `None` when it asks for nothing.
pub fn asked_for(application: &Value) -> Option<Request> {
    if let Some(kind) = refresh(application) {
        return Some(Request { level: Level::Newest, hard: kind == Refresh::Hard });
    }
    let compared = &application["status"]["sync"]["comparedTo"];
    let wanted = compared_to(&application["spec"]);
    let differs = |field: &str| {
        let absent = |value: &Value| {
            value.is_null()
                || value.as_array().is_some_and(Vec::is_empty)
                || value.as_object().is_some_and(serde_json::Map::is_empty)
        };
        let (was, is) = (&compared[field], &wanted[field]);
        was != is && !(absent(was) && absent(is))
    };
    if differs("source") || differs("sources") {
        return Some(Request::new(Level::Newest));
    }
    if differs("destination") || differs("ignoreDifferences") {
        return Some(Request::new(Level::Revision));
    }
    None
}

/// What is known when it is decided whether to compare.
#[derive(Clone, Copy, Debug, Default)]
pub struct Circumstances {
    /// What events have asked for, and what a comparison that failed still owes.
    pub request: Request,
    /// [`digest`] of the spec that was looked at last; absent before the first
    /// look.
    pub last_spec: Option<u64>,
    /// Whether the last look at the revision is too long ago.
    pub expired: bool,
    /// Whether manifests are to be rendered anew then.
    pub hard: bool,
    /// Whether an operation has just ended.
    pub after_operation: bool,
}

/// Why a comparison is made.
#[derive(Clone, Copy, Debug)]
pub struct Reason {
    /// How thoroughly.
    pub request: Request,
    /// Answers of the repository that were asked for after this count as new:
    /// the start of the operation that has just ended.
    pub since: Option<Timestamp>,
    /// Whether an operation has just ended.
    pub after_operation: bool,
    /// Whether somebody asked, by annotation or by another spec.
    pub asked_for: bool,
}

/// Objects that have just been applied change several times in a row: what
/// nobody has asked for is compared this long after the last comparison.
const SETTLE: SignedDuration = SignedDuration::from_millis(100);

impl Reason {
    /// When to compare, if it is better to wait for more changes first.
    pub fn settles_at(&self, compared_at: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        let asked = self.asked_for || self.after_operation || self.request.level > Level::Live;
        let due = compared_at.filter(|_| !asked)?.checked_add(SETTLE).ok()?;
        (due > now).then_some(due)
    }

    /// How old an answer of the repository may be for the newest revision,
    /// when the request itself is this old.
    pub fn age(&self, request: Duration, now: Timestamp) -> Duration {
        let since = self.since.map(|at| now.duration_since(at));
        let since = since.and_then(|since| Duration::try_from(since).ok());
        request + since.unwrap_or_default()
    }
}

/// Whether to compare, and why (SE-377).
pub fn reason(application: &Value, about: &Circumstances) -> Option<Reason> {
    let wanted = asked_for(application);
    let mut request = about.request.and(wanted.unwrap_or_default());
    let spec = Some(digest(&application["spec"]));
    if about.last_spec != spec {
        request = request.and(Request::new(Level::Revision));
    }
    let mut since = None;
    if about.after_operation {
        // What was synced may be newer than what was known: an answer counts
        // only when it was asked for after the operation began (SE-372).
        request = request.and(Request::new(Level::Newest));
        since = started_at(application).filter(|_| wanted.is_none());
    }
    if about.expired {
        request = request.and(Request { level: Level::Revision, hard: about.hard });
    }
    let respecified = about.last_spec.is_some() && about.last_spec != spec;
    request.is_some().then_some(Reason {
        request,
        since,
        after_operation: about.after_operation,
        asked_for: wanted.is_some() || respecified,
    })
}

/// Tells whether a value is the same as before, without keeping it.
pub fn digest<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
