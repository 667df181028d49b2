//! Whether to compare an Application, and at which level (SE-376, SE-377).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::operation::started_at;
use super::status::compared_to;
use crate::api::annotations::{Refresh, refresh};
use crate::decide::wait::{Wait, WaitFor, WakeEvent};

/// The level of a comparison (SE-376).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Level {
    /// No comparison.
    #[default]
    None,
    /// The live objects, with the revision that was compared last.
    Live,
    /// Also the revision; a cached one may be used.
    Revision,
    /// The newest revision.
    Newest,
}

/// A request to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Request {
    /// The level.
    pub level: Level,
    /// Whether manifests are rendered again even at the same revision.
    pub hard: bool,
}

impl Request {
    /// A request of this level.
    pub fn new(level: Level) -> Self {
        Self { level, hard: false }
    }

    /// Both requests combined.
    pub fn and(self, other: Self) -> Self {
        Self { level: self.level.max(other.level), hard: self.hard || other.hard }
    }

    /// Whether there is anything to do.
    pub fn is_some(self) -> bool {
        self.level > Level::None
    }
}

/// The request of the Application itself: by its refresh annotation, or by a
/// spec that differs from the compared one. `None` when there is none.
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

/// What a process knows of the comparisons of an Application. Without it, the Application is
/// compared again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// When the revision was last resolved.
    pub checked_at: Option<Timestamp>,
    /// When it was last compared.
    pub compared_at: Option<Timestamp>,
    /// What the last comparison waits for.
    pub wait: Option<Wait>,
    /// [`digest`] of the spec of the last comparison.
    pub last_spec: Option<u64>,
    /// The request of a comparison that was postponed or has failed.
    pub postponed: Request,
    /// When this process began its last operation. The status has whole seconds, and a
    /// revision resolved in that second may be older than the operation.
    pub operation_began: Option<Timestamp>,
}

/// Nothing is left to do.
pub fn idle() -> Wait {
    let events =
        &[WakeEvent::Application, WakeEvent::LiveObject, WakeEvent::Project, WakeEvent::Secret];
    Wait::on(WaitFor::ApplicationChange, events)
}

/// Why a reconcile may compare an Application.
#[derive(Clone, Copy, Debug, Default)]
pub struct Occasion {
    /// The request that triggered it.
    pub request: Request,
    /// When the last check of the revision is too old; `None` for never.
    pub expires: Option<Timestamp>,
    /// When manifests must be rendered again; `None` for never.
    pub hard: Option<Timestamp>,
    /// Whether an operation has just ended.
    pub after_operation: bool,
}

/// Whether an Application is compared now.
#[derive(Clone, Copy, Debug)]
pub enum Due {
    /// It is.
    Now(Reason),
    /// Not yet, or there is no reason: this is what follows.
    Wait(Wait),
}

impl Known {
    /// Decides whether to compare, and remembers a request that is not met yet.
    pub fn due(&mut self, application: &Value, occasion: &Occasion, now: Timestamp) -> Due {
        let reason = self.reason(application, occasion, now);
        self.last_spec = Some(digest(&application["spec"]));
        let Some(reason) = reason else {
            // What the last comparison waits for is still to come, whatever has triggered
            // this reconcile.
            return Due::Wait(self.wait.unwrap_or_else(idle));
        };
        match reason.settles(self.compared_at, now) {
            None => Due::Now(reason),
            Some(later) => {
                self.postponed = self.postponed.and(reason.request);
                Due::Wait(later)
            }
        }
    }

    /// Whether to compare, and why (SE-377).
    pub(super) fn reason(
        &self,
        application: &Value,
        occasion: &Occasion,
        now: Timestamp,
    ) -> Option<Reason> {
        let is_past = |time: Option<Timestamp>| time.is_some_and(|at| at <= now);
        let wanted = asked_for(application);
        let mut request = occasion.request.and(self.postponed).and(wanted.unwrap_or_default());
        let is_other_spec = self.last_spec != Some(digest(&application["spec"]));
        if is_other_spec {
            request = request.and(Request::new(Level::Revision));
        }
        let (mut since, mut accepts_synced) = (None, false);
        if occasion.after_operation {
            // The synced revision may be newer than the known one: another cached
            // revision counts only if it was requested after the operation started
            // (SE-372).
            accepts_synced = request.level < Level::Newest;
            request = request.and(Request::new(Level::Newest));
            let began = self.operation_began.or_else(|| started_at(application));
            since = began.filter(|_| wanted.is_none());
        }
        if self.wait.is_some_and(|wait| wait.is_due(now)) {
            // Also a newer revision, as after any wait (SE-426).
            request = request.and(Request::new(Level::Revision));
        }
        let is_expired = self.checked_at.is_none() || is_past(occasion.expires);
        if is_expired {
            request = request.and(Request { level: Level::Revision, hard: is_past(occasion.hard) });
        }
        request.is_some().then_some(Reason {
            request,
            since,
            accepts_synced,
            after_operation: occasion.after_operation,
            asked_for: wanted.is_some() || self.last_spec.is_some() && is_other_spec,
            // After a start the last check is not known: nothing is written for that alone.
            is_expired: is_expired && self.last_spec.is_some(),
        })
    }
}

/// Why a comparison is made.
#[derive(Clone, Copy, Debug)]
pub struct Reason {
    /// The level.
    pub request: Request,
    /// Cached revisions requested after this time count as new: the start of
    /// the operation that has just ended.
    pub since: Option<Timestamp>,
    /// A cached revision that the operation has synced needs to be no newer than for a lower level.
    pub accepts_synced: bool,
    /// Whether an operation has just ended.
    pub after_operation: bool,
    /// Whether a user requested it, by annotation or by a changed spec.
    pub asked_for: bool,
    /// Whether the last check of the revision is too old.
    pub is_expired: bool,
}

/// Objects that were just applied change several times in a row: a comparison
/// without a request of the user waits this long after the last one.
const SETTLE: SignedDuration = SignedDuration::from_millis(100);

impl Reason {
    /// The wait before the comparison, if it is better to wait for more changes first.
    pub(super) fn settles(&self, compared_at: Option<Timestamp>, now: Timestamp) -> Option<Wait> {
        let asked = self.asked_for || self.after_operation || self.request.level > Level::Live;
        let due = compared_at.filter(|_| !asked)?.checked_add(SETTLE).ok()?;
        (due > now).then(|| Wait::until(WaitFor::MoreChanges, due))
    }

    /// How old a cached revision may be for the newest level, when the request
    /// itself is this old.
    pub fn age(&self, request: Duration, now: Timestamp) -> Duration {
        // An operation may begin later than the request.
        let since = |at| Duration::try_from(now.duration_since(at)).unwrap_or_default();
        self.since.map_or(request, |at| since(at).min(request))
    }
}

/// Whether a change of an Application needs a reconcile: a status change by another client counts only for
/// its operation.
pub fn counts(old: &Value, new: &Value) -> bool {
    let metadata = |object: &Value| {
        let own = &object["metadata"];
        ["annotations", "labels", "finalizers", "deletionTimestamp", "uid"]
            .map(|field| own[field].clone())
    };
    let state = |object: &Value| object["status"]["operationState"]["phase"].clone();
    old["spec"] != new["spec"]
        || old["operation"] != new["operation"]
        || state(old) != state(new)
        || metadata(old) != metadata(new)
        || old["status"]["sync"] != new["status"]["sync"]
}

/// A digest of a value, to detect changes without keeping it.
pub fn digest<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
