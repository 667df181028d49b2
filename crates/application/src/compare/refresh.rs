//! Whether to compare an Application, and at which level (SE-376, SE-377).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::app::{App, Fields};
use crate::memory::{ApplicationMemory, digest_of};
use crate::operation;
use crate::request::{ComparisonRequest, Level};
use crate::status::compared_to;
use wavegate_api::annotations::Refresh;
use wavegate_engine::wait::{Wait, WaitFor, WakeEvent};

/// The request of the Application itself: by its refresh annotation, or by a
/// spec that differs from the compared one. `None` when there is none.
pub fn asked_for(app: &App) -> Option<ComparisonRequest> {
    if let Some(kind) = app.metadata.annotations.kind() {
        return Some(ComparisonRequest { level: Level::Newest, hard: kind == Refresh::Hard });
    }
    let compared = app.status.sync.compared_to.as_ref().unwrap_or(&Value::Null);
    let wanted = compared_to(app.spec());
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
        return Some(ComparisonRequest::new(Level::Newest));
    }
    if differs("destination") || differs("ignoreDifferences") {
        return Some(ComparisonRequest::new(Level::Revision));
    }
    None
}

/// When an Application is compared although nothing has changed; a time of zero is never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Intervals {
    /// After this time, the revision is resolved again.
    pub revision: Duration,
    /// Added to it, so that not all Applications are compared at once.
    pub delay: Duration,
    /// After this time, manifests are rendered again.
    pub manifests: Duration,
}

impl Intervals {
    /// How old a cached revision may be, unless the newest one is requested.
    pub fn revision_age(&self) -> Duration {
        let quarter = self.revision / 4;
        if quarter.is_zero() { Duration::from_secs(30) } else { quarter }
    }
}

/// Nothing is left to do.
pub fn wait_idle() -> Wait {
    let events =
        &[WakeEvent::Application, WakeEvent::LiveObject, WakeEvent::Project, WakeEvent::Secret];
    Wait::on(WaitFor::ApplicationChange, events)
}

/// Why a reconcile may compare an Application.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefreshTrigger {
    /// The request that triggered it.
    pub request: ComparisonRequest,
    /// When it is compared without any change.
    pub intervals: Intervals,
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

impl ApplicationMemory {
    /// Decides whether to compare, and remembers a request that is not met yet.
    pub fn due(&mut self, app: &App, occasion: &RefreshTrigger, now: Timestamp) -> Due {
        let spec = digest_of(app.spec());
        let reason = self.reason(app, spec, occasion, now);
        self.last_spec = Some(spec);
        let Some(reason) = reason else {
            // What the last comparison waits for is still to come, whatever has triggered
            // this reconcile.
            return Due::Wait(self.wait.unwrap_or_else(wait_idle));
        };
        match reason.settles(self.compared_at, now) {
            None => {
                self.compared_at = Some(now);
                Due::Now(reason)
            }
            Some(later) => {
                self.postponed = self.postponed.and(reason.request);
                Due::Wait(later)
            }
        }
    }

    /// When manifests are rendered again; `None` for never.
    fn rerenders(&self, intervals: &Intervals) -> Option<Timestamp> {
        after(self.rendered_at, intervals.manifests)
    }

    /// When the revision is resolved again; `None` for never.
    fn expires(&self, intervals: &Intervals) -> Option<Timestamp> {
        let revision = after(self.checked_at, intervals.revision);
        let revision = revision.and_then(|at| at.checked_add(intervals.delay).ok());
        [revision, self.rerenders(intervals)].into_iter().flatten().min()
    }

    /// A wait that ends at the latest when the revision is resolved again.
    pub fn until_expired(&self, wait: Wait, intervals: &Intervals) -> Wait {
        let expires = self.expires(intervals).map(|at| Wait::until(WaitFor::Revision, at));
        expires.map_or(wait, |expires| wait.or_earlier(expires))
    }

    /// The commits that a comparison need not resolve; empty for none, and then the revision is
    /// checked now.
    pub fn known_commits(&mut self, app: &Fields, reason: &Reason, now: Timestamp) -> Vec<String> {
        let is_live = reason.request.level <= Level::Live;
        let known = if is_live { app.status.sync.revisions() } else { Vec::new() };
        if known.is_empty() {
            self.checked_at = Some(now);
        }
        known
    }

    /// Whether to compare, and why (SE-377).
    pub(crate) fn reason(
        &self,
        app: &App,
        spec: u64,
        occasion: &RefreshTrigger,
        now: Timestamp,
    ) -> Option<Reason> {
        let is_past = |time: Option<Timestamp>| time.is_some_and(|at| at <= now);
        let wanted = asked_for(app);
        let mut request = occasion.request.and(self.postponed).and(wanted.unwrap_or_default());
        let is_other_spec = self.last_spec != Some(spec);
        if is_other_spec {
            request = request.and(ComparisonRequest::new(Level::Revision));
        }
        let (mut since, mut accepts_synced) = (None, false);
        if occasion.after_operation {
            // The synced revision may be newer than the known one: another cached
            // revision counts only if it was requested after the operation started
            // (SE-372).
            accepts_synced = request.level < Level::Newest;
            request = request.and(ComparisonRequest::new(Level::Newest));
            let state = &app.status.operation_state;
            let began = self.operation_began.or_else(|| operation::started(state));
            since = began.filter(|_| wanted.is_none());
        }
        if self.wait.is_some_and(|wait| wait.is_due(now)) {
            // Also a newer revision, as after any wait (SE-426).
            request = request.and(ComparisonRequest::new(Level::Revision));
        }
        let intervals = &occasion.intervals;
        let is_expired = self.checked_at.is_none() || is_past(self.expires(intervals));
        if is_expired {
            let hard = is_past(self.rerenders(intervals));
            request = request.and(ComparisonRequest { level: Level::Revision, hard });
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

/// The time after a duration; `None` for never: durations of zero, or out of range.
fn after(since: Option<Timestamp>, time: Duration) -> Option<Timestamp> {
    since.filter(|_| !time.is_zero()).and_then(|since| since.checked_add(time).ok())
}

/// Why a comparison is made.
#[derive(Clone, Copy, Debug)]
pub struct Reason {
    /// The level.
    pub request: ComparisonRequest,
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
    pub(crate) fn settles(&self, compared_at: Option<Timestamp>, now: Timestamp) -> Option<Wait> {
        let asked = self.asked_for || self.after_operation || self.request.level > Level::Live;
        let due = compared_at.filter(|_| !asked)?.checked_add(SETTLE).ok()?;
        (due > now).then(|| Wait::until(WaitFor::MoreChanges, due))
    }

    /// How old a cached revision may be (SE-376); `request` is the age of the request itself,
    /// `is_synced` whether the cached revisions are those of the last operation.
    pub fn freshness(
        &self,
        is_synced: impl FnOnce() -> bool,
        request: Duration,
        intervals: &Intervals,
        now: Timestamp,
    ) -> Duration {
        let is_newest = self.request.level == Level::Newest;
        match is_newest && !(self.accepts_synced && is_synced()) {
            // A response to any request that was sent after this one.
            true => self.age(request, now),
            false => intervals.revision_age(),
        }
    }

    /// The same for the newest revision.
    pub(crate) fn age(&self, request: Duration, now: Timestamp) -> Duration {
        // An operation may begin later than the request.
        let since = |at| Duration::try_from(now.duration_since(at)).unwrap_or_default();
        self.since.map_or(request, |at| since(at).min(request))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::{Intervals, Reason, asked_for};
    use crate::app::{App, Fields};
    use crate::memory::ApplicationMemory;
    use crate::request::{ComparisonRequest, Level};
    use wavegate_engine::wait::{Wait, WaitFor};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    fn reason(level: Level) -> Reason {
        Reason {
            request: ComparisonRequest::new(level),
            since: None,
            accepts_synced: false,
            after_operation: false,
            asked_for: false,
            is_expired: false,
        }
    }

    /// A changed source needs its newest revision, another change of the spec the known one.
    #[test]
    fn a_changed_spec_asks_for_a_comparison_se_377() {
        let spec = json!({"source": {"path": "p"}, "destination": {"server": "s"}});
        let compared = |to: &Value, annotations: Value| {
            let application = json!({"metadata": {"annotations": annotations}, "spec": spec,
                "status": {"sync": {"comparedTo": to}}});
            asked_for(&App::of(application)).map(|request| (request.level, request.hard))
        };
        let with = |change: Value| {
            let mut to = spec.clone();
            json_patch::merge(&mut to, &change);
            to
        };
        let refresh = |kind: &str| json!({"argocd.argoproj.io/refresh": kind});
        let (newest, revision) = (Some((Level::Newest, false)), Some((Level::Revision, false)));
        for (to, annotations, want) in [
            (spec.clone(), json!({}), None),
            (spec.clone(), refresh("normal"), newest),
            (spec.clone(), refresh("hard"), Some((Level::Newest, true))),
            (with(json!({"source": {"path": "q"}})), json!({}), newest),
            (with(json!({"sources": [{"path": "q"}]})), json!({}), newest),
            (with(json!({"destination": {"server": "t"}})), json!({}), revision),
            (with(json!({"ignoreDifferences": [{"kind": "Pod"}]})), json!({}), revision),
            (with(json!({"ignoreDifferences": [], "sources": []})), json!({}), None),
            (Value::Null, json!({}), newest),
        ] {
            assert_eq!(compared(&to, annotations.clone()), want, "{to} {annotations}");
        }
    }

    /// By the age of the revision with its delay, or by that of the manifests.
    #[test]
    fn a_comparison_expires_by_its_revision_or_its_manifests_se_376() {
        let seconds = Duration::from_secs;
        let memory = |checked: Option<i64>, rendered: Option<i64>| ApplicationMemory {
            checked_at: checked.map(at),
            rendered_at: rendered.map(at),
            ..ApplicationMemory::default()
        };
        let intervals = |revision, delay, manifests| Intervals {
            revision: seconds(revision),
            delay: seconds(delay),
            manifests: seconds(manifests),
        };
        for (memory, intervals, want) in [
            (memory(Some(0), Some(0)), intervals(100, 5, 1000), Some(105)),
            (memory(Some(0), Some(0)), intervals(100, 5, 50), Some(50)),
            (memory(Some(0), Some(0)), intervals(0, 5, 50), Some(50)),
            (memory(Some(0), Some(0)), intervals(100, 0, 0), Some(100)),
            (memory(Some(0), Some(0)), intervals(0, 5, 0), None),
            (memory(None, None), intervals(100, 5, 50), None),
        ] {
            let later = Wait::until(WaitFor::SelfHeal, at(500));
            let wait = memory.until_expired(later, &intervals);
            assert_eq!(wait.at(), Some(at(want.unwrap_or(500))), "{intervals:?}");
        }
    }

    /// Only a change of live objects is compared with the known revisions.
    #[test]
    fn known_commits_serve_a_change_of_live_objects() {
        let fields = |sync: Value| Fields::of(&json!({"status": {"sync": sync}}));
        let known = fields(json!({"status": "Synced", "revision": "abc"}));
        for (level, fields, want) in [
            (Level::Live, &known, &["abc"][..]),
            (Level::Revision, &known, &[]),
            (Level::Newest, &known, &[]),
            (Level::Live, &fields(json!({})), &[]),
        ] {
            let mut memory = ApplicationMemory::default();
            assert_eq!(memory.known_commits(fields, &reason(level), at(7)), want, "{level:?}");
            assert_eq!(memory.checked_at.is_some(), want.is_empty(), "{level:?}");
        }
    }

    /// What is asked for is as new as the request; anything else may be a quarter of the
    /// interval old.
    #[test]
    fn a_response_is_as_fresh_as_its_reason_wants_se_372() {
        let seconds = Duration::from_secs;
        let intervals =
            |revision| Intervals { revision: seconds(revision), ..Intervals::default() };
        let of = |reason: Reason, is_synced: bool, revision| {
            reason.freshness(|| is_synced, seconds(2), &intervals(revision), at(100))
        };
        let newest = reason(Level::Newest);
        let synced = Reason { accepts_synced: true, ..newest };
        let since = |at| Reason { since: Some(at), ..newest };
        for (name, reason, is_synced, revision, want) in [
            ("a check", reason(Level::Revision), false, 120, seconds(30)),
            ("without an interval", reason(Level::Revision), false, 0, seconds(30)),
            ("another interval", reason(Level::Live), false, 40, seconds(10)),
            ("asked for", newest, true, 120, seconds(2)),
            ("after an operation, with its revision", synced, true, 120, seconds(30)),
            ("with another one", synced, false, 120, seconds(2)),
            ("since its start", since(at(99)), false, 120, seconds(1)),
            ("since long ago", since(at(0)), false, 120, seconds(2)),
            ("since later", since(at(101)), false, 120, seconds(0)),
        ] {
            assert_eq!(of(reason, is_synced, revision), want, "{name}");
        }
    }

    /// Changes that follow each other are compared together, unless somebody asks.
    #[test]
    fn changes_of_live_objects_settle_before_they_are_compared() {
        let hundred = |millis: i64| at(0).checked_add(jiff::SignedDuration::from_millis(millis));
        let live = reason(Level::Live);
        let settles = |reason: Reason, compared: Option<Timestamp>, millis: i64| {
            reason.settles(compared, hundred(millis).unwrap()).and_then(|wait| wait.at())
        };
        let due = hundred(100).ok();
        assert_eq!(settles(live, Some(at(0)), 99), due);
        assert_eq!(settles(live, Some(at(0)), 100), None);
        assert_eq!(settles(live, None, 0), None);
        assert_eq!(settles(reason(Level::Revision), Some(at(0)), 0), None);
        assert_eq!(settles(Reason { asked_for: true, ..live }, Some(at(0)), 0), None);
        assert_eq!(settles(Reason { after_operation: true, ..live }, Some(at(0)), 0), None);
    }
}
