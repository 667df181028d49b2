//! One comparison: [`reconcile`] makes the observed state the fields of the status, and
//! possibly an automated sync (SE-376 … SE-379, SE-420 … SE-429).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::app::App;
use crate::auto_sync::{self, AutoSync, SelfHeal};
use crate::compared::ComparedResource;
use crate::condition::{self, NewCondition};
use crate::differences::DiffCache;
use crate::errors::ObserveError;
use crate::memory::ApplicationMemory;
use crate::observation::Observation;
use crate::pairs::ComparedApplication;
use crate::refresh::{Reason, wait_idle};
use crate::request::{ComparisonRequest, Level};
use crate::{deletion, held_back, operation, outside, status};
use wavegate_api::ApplicationStatus;
use wavegate_api::app_status::{ApplicationSummary, ResourceStatus};
use wavegate_api::operation::Requested;
use wavegate_api::time::{Time, stored_time};
use wavegate_engine::diff;
use wavegate_engine::health::{Health, Status};
use wavegate_engine::wait::{Wait, WaitFor};

/// While an unreachable repository does not change the status, it is requested
/// again after this time.
const TOLERATED_PAUSE: SignedDuration = SignedDuration::from_secs(10);

/// After this time, dry runs that failed are made again.
const PREDICTED_AGAIN: Duration = Duration::from_secs(30);

/// Settings of comparisons.
#[derive(Clone, Copy, Debug)]
pub struct ComparisonSettings {
    /// Delays between attempts of self-heal (SE-426).
    pub self_heal: SelfHeal,
    /// Whether the health of each resource is stored in the status (SE-571).
    pub resource_health: bool,
    /// For how long an unreachable repository does not change the status
    /// (SE-107).
    pub repo_error_grace: Duration,
    /// After this time a check of the revision that changes nothing moves `reconciledAt`
    /// nevertheless (SE-061); zero for never.
    pub reconciled_every: Duration,
}

/// The observed state for a comparison.
#[derive(Clone, Debug)]
pub struct ComparisonInput<'a> {
    /// Source and cluster.
    pub observation: Observation<'a>,
    /// The resolved revisions, by source.
    pub revisions: Vec<String>,
    /// The kinds of the sources, by source.
    pub types: Vec<String>,
    /// Warnings that do not come from the comparison itself.
    pub warnings: Vec<NewCondition>,
    /// The summary of what controllers have created from the resources, where it is known.
    pub below: ApplicationSummary,
    /// The revisions at which a rollback holds it, and the observed state for these.
    pub held: Option<(&'a [String], Result<Observation<'a>, &'a ObserveError>)>,
}

/// An error that prevented a comparison.
#[derive(Clone, Debug)]
pub struct CompareFailure<'a> {
    /// The error.
    pub error: ObserveError,
    /// The cluster with the last rendered targets, to compute the health when
    /// the source cannot be read.
    pub last: Option<Observation<'a>>,
}

/// The inputs of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct ComparisonSnapshot<'a> {
    /// The Application.
    pub app: &'a App,
    /// What the process remembers of it.
    pub memory: &'a ApplicationMemory,
    /// What was observed, or the error that prevented it.
    pub seen: Result<&'a ComparisonInput<'a>, &'a CompareFailure<'a>>,
    /// Why it is compared.
    pub reason: &'a Reason,
    /// The results of earlier comparisons.
    pub diffs: &'a DiffCache,
    /// The settings.
    pub settings: &'a ComparisonSettings,
    /// The time.
    pub now: Timestamp,
}

/// The decision of a comparison.
#[derive(Clone, Debug)]
pub struct ComparisonDecision {
    /// The Application to be stored.
    pub app: App,
    /// What the process remembers of it.
    pub memory: ApplicationMemory,
    /// What follows.
    pub wait: Wait,
    /// Whether nothing was written, since the failure is too recent.
    pub tolerated: bool,
    /// What was compared, and with which rules, for those who show it.
    pub shown: Option<Shown>,
    /// For the write that follows; `None` if the time of the comparison stays.
    pub checked: Option<Checked>,
}

/// The resources of a comparison, and its rules.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The resources.
    pub resources: Vec<ComparedResource>,
    /// The rules.
    pub config: diff::DiffConfig,
    /// The summary of the resources.
    pub summary: ApplicationSummary,
}

/// Compares an Application with its cluster.
pub fn reconcile(snapshot: &ComparisonSnapshot<'_>) -> ComparisonDecision {
    let ComparisonSnapshot { seen, reason, settings, now, .. } = *snapshot;
    let (mut app, mut memory) = (snapshot.app.clone(), snapshot.memory.clone());
    let forced = reason.asked_for || reason.after_operation || app.status.reconciled_at.is_none();
    let finished = operation::finished(&app.status.operation_state);
    let finished = finished.filter(|_| reason.after_operation);
    let at = finished.map_or(now, |at| at.max(now));
    let snapshot = ComparisonSnapshot { now: at, ..*snapshot };
    let checked = Checked::of(&app.status, reason, settings, at);
    let (wait, tolerated, shown) = match seen {
        Ok(seen) => {
            memory.failing_since = None;
            memory.postponed = ComparisonRequest::default();
            let (wait, shown) = compared(&mut app, seen, forced, &snapshot);
            (wait, false, Some(shown))
        }
        Err(failure) => {
            memory.postponed = memory.postponed.and(reason.request);
            let passing = matches!(failure.error, ObserveError::Source { transient: true, .. });
            let since = passing.then(|| *memory.failing_since.get_or_insert(now));
            let (wait, tolerated) = failed(&mut app, failure, since, forced, &snapshot);
            (wait, tolerated, None)
        }
    };
    memory.wait = Some(wait);
    let checked = checked.filter(|_| !tolerated);
    ComparisonDecision { app, memory, wait, tolerated, shown, checked }
}

/// The time of a comparison in the status. The end of the last operation may be ahead of the
/// clock: a promotion is later than the ones before it, within whole seconds. A comparison
/// that counted as older than this operation would never be used by a rollout.
fn reconciled_at(status: &ApplicationStatus, now: Timestamp) -> Timestamp {
    let stored = status.reconciled_at.as_ref().map(|at| at.0);
    let finished = operation::finished(&status.operation_state);
    [finished, stored].into_iter().flatten().fold(now, Timestamp::max)
}

/// A comparison that has read the revision. It moves `reconciledAt` (SE-061) when something else
/// is written as well, or when the last time is long ago. Otherwise each Application was written
/// at each check of its revision, although nothing changes.
///
/// Only the write knows whether there is something else: the status that a comparison intends
/// may differ from the stored one in credentials, or in a field that the server drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    at: Timestamp,
    is_due: bool,
}

impl Checked {
    fn of(
        status: &ApplicationStatus,
        reason: &Reason,
        settings: &ComparisonSettings,
        now: Timestamp,
    ) -> Option<Self> {
        let at = reconciled_at(status, now);
        let age = status.reconciled_at.as_ref().map(|at| now.duration_since(at.0));
        let age = age.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default();
        let every = settings.reconciled_every;
        let is_due = reason.is_expired && !every.is_zero() && age >= every;
        (reason.request.level >= Level::Revision).then_some(Self { at, is_due })
    }

    /// Writes the time to an Application; `is_written` is whether it is written anyway. Returns
    /// whether it has.
    pub fn stamp(self, app: &mut App, is_written: bool) -> bool {
        let moves = is_written || self.is_due;
        if moves {
            app.status.reconciled_at = Some(Time(stored_time(self.at)));
        }
        moves
    }
}

fn compared(
    app: &mut App,
    seen: &ComparisonInput<'_>,
    forced: bool,
    snapshot: &ComparisonSnapshot<'_>,
) -> (Wait, Shown) {
    let ComparisonSnapshot { reason, diffs, settings, now, .. } = *snapshot;
    let observation = &seen.observation;
    let compared = observation.compare(app, diffs);
    let comparison = &compared.comparison;
    let mut conditions = compared.conditions;
    conditions.extend(observation.placed.conditions.iter().cloned());
    conditions.extend(seen.warnings.iter().cloned());
    if let Some((revisions, held)) = &seen.held {
        conditions.extend(held_back::condition(app, held.as_ref().map_err(|e| *e), revisions));
    }
    let unclear = conditions.iter().chain(&comparison.conditions).any(NewCondition::is_error);
    // Not a reason to sync nothing: the next commit may repair what the script stumbles over.
    conditions.extend(comparison.health_error.clone());
    let moved = app.status.sync.revisions() != seen.revisions;
    let about = status::About {
        revisions: &seen.revisions,
        source_types: &seen.types,
        below: &seen.below,
        resource_health: settings.resource_health,
        controller_namespace: observation.control_plane_namespace,
        reconciled: forced || moved,
        now: reconciled_at(&app.status, now),
    };
    let outside = outside::rows(&app.status, app.spec(), &observation.access);
    conditions.extend(outside::condition(&outside, &observation.access));
    let outside: Vec<ResourceStatus> = outside.into_iter().map(outside::kept).collect();
    status::write_comparison(app, comparison, outside, &conditions, &about);
    answer(app, reason.request);
    let finalizers =
        deletion::hook_finalizers(&app.metadata.finalizers, &observation.placed.targets);
    let is_kept = deletion::asked_at(app.raw()).is_none();
    if let Some(finalizers) = finalizers.filter(|_| is_kept) {
        app.metadata.finalizers = finalizers;
    }
    let full = reason.request.level > Level::Live;
    // Self-heal also applies to a drift observed here.
    let heals = observation.access.spec.is_automated();
    let wait = match unclear || !(full || heals) {
        // A dry run may succeed later, without any change here.
        true if !comparison.is_predicted => {
            Wait::for_time(WaitFor::FailedComparison, PREDICTED_AGAIN, now)
        }
        true => wait_idle(),
        false => automate(app, seen, comparison, settings, now),
    };
    let ComparedApplication { resources, summary, .. } = compared.comparison;
    (wait, Shown { resources, config: compared.config, summary })
}

/// Starts an automated sync, or returns what it waits for.
fn automate(
    app: &mut App,
    seen: &ComparisonInput<'_>,
    comparison: &ComparedApplication,
    settings: &ComparisonSettings,
    now: Timestamp,
) -> Wait {
    let access = &seen.observation.access;
    let window = access.window(None, now);
    let decision = auto_sync::decide(
        app,
        access.spec,
        comparison,
        &seen.revisions,
        &settings.self_heal,
        window.allowed,
        now,
    );
    let mut conditions = Vec::new();
    let waits = !window.allowed && access.spec.is_automated();
    let mut wait = match window.next_change.filter(|_| waits) {
        Some(at) => Wait::until(WaitFor::AutomatedSyncWindow, at),
        None => wait_idle(),
    };
    match decision {
        AutoSync::Nothing => {}
        AutoSync::Refuse(condition) => conditions.push(condition),
        AutoSync::Wait(until) => wait = Wait::until(WaitFor::SelfHeal, until),
        AutoSync::Start(request) => {
            app.operation = Some(Requested::of(request));
        }
    }
    let all = &mut app.status.conditions;
    condition::replace(all, condition::OF_AUTO_SYNC, &conditions, now);
    wait
}

fn failed(
    app: &mut App,
    failure: &CompareFailure<'_>,
    failing_since: Option<Timestamp>,
    forced: bool,
    snapshot: &ComparisonSnapshot<'_>,
) -> (Wait, bool) {
    let ComparisonSnapshot { reason, diffs, settings, now, .. } = *snapshot;
    let CompareFailure { error, last } = failure;
    let is_recent = |since| {
        Duration::try_from(now.duration_since(since)).unwrap_or_default()
            < settings.repo_error_grace
    };
    if failing_since.is_some_and(is_recent) && !forced {
        let wait = Wait::for_time(WaitFor::Repository, TOLERATED_PAUSE.unsigned_abs(), now);
        return (wait, true);
    }
    let health = |last: &Observation<'_>| last.compare(app, diffs).comparison.health;
    let known_health = last.as_ref().map(health).or_else(|| kept_health(&app.status, error));
    let conditions = error.conditions();
    let at = reconciled_at(&app.status, now);
    status::write_failure(app, &conditions, known_health.as_ref(), forced, at);
    answer(app, reason.request);
    (error.wait(now), false)
}

/// The health when the source cannot be read: the last one, or that of no resource.
fn kept_health(status: &ApplicationStatus, error: &ObserveError) -> Option<Health> {
    if !error.is_of_source() {
        return None;
    }
    match status.health.as_ref().filter(|health| health.status != Status::Unknown) {
        Some(health) => Some(Health::new(health.status, health.message.as_str())),
        None if status.resources.is_empty() => Some(Health::new(Status::Healthy, "")),
        None => None,
    }
}

/// Removes the request from the annotations (SE-379): the write is conditional
/// on the version that was read, so a newer request is kept.
fn answer(app: &mut App, request: ComparisonRequest) {
    if request.level >= Level::Newest {
        app.metadata.annotations = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::app::Fields;

    #[test]
    fn a_comparison_is_never_older_than_the_operation_before_it() {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let ahead = "2026-01-02T03:04:06Z";
        let ended = json!({"status": {"operationState": {"finishedAt": ahead}}});
        let compared = json!({"status": {"reconciledAt": ahead}});
        for application in [ended, compared] {
            let status = Fields::of(&application).status;
            assert_eq!(reconciled_at(&status, now), ahead.parse().unwrap());
        }
        assert_eq!(reconciled_at(&ApplicationStatus::default(), now), now);
    }

    /// A check that changes nothing moves the time only when the last one is long ago (SE-061).
    #[test]
    fn the_time_of_a_comparison_moves_with_a_write_or_when_it_is_due_se_061() {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let checked = |level, is_expired, every: u64, reconciled: Option<&str>| {
            let application = json!({"status": {"reconciledAt": reconciled}});
            let reason = Reason {
                request: ComparisonRequest::new(level),
                since: None,
                accepts_synced: false,
                after_operation: false,
                asked_for: false,
                is_expired,
            };
            let settings = ComparisonSettings {
                self_heal: SelfHeal::default(),
                resource_health: false,
                repo_error_grace: Duration::ZERO,
                reconciled_every: Duration::from_secs(every),
            };
            Checked::of(&Fields::of(&application).status, &reason, &settings, now)
        };
        let (minute, hour) = (Some("2026-01-02T03:03:05Z"), Some("2026-01-02T02:04:05Z"));
        for (name, level, is_expired, every, reconciled, want) in [
            ("live objects alone", Level::Live, true, 60, hour, None),
            ("due", Level::Revision, true, 60, hour, Some(true)),
            ("exactly due", Level::Newest, true, 60, minute, Some(true)),
            ("too early", Level::Revision, true, 61, minute, Some(false)),
            ("never", Level::Revision, true, 0, hour, Some(false)),
            ("not expired", Level::Revision, false, 60, hour, Some(false)),
            ("none before", Level::Revision, true, 60, None, Some(false)),
        ] {
            let found = checked(level, is_expired, every, reconciled);
            assert_eq!(found.map(|found| found.is_due), want, "{name}");
            let Some(found) = found else { continue };
            for is_written in [false, true] {
                let mut app = App::of(json!({}));
                let moves = found.stamp(&mut app, is_written);
                assert_eq!(moves, is_written || found.is_due, "{name}");
                let stored = app.status.reconciled_at.as_ref().map(|at| at.0);
                assert_eq!(stored, moves.then_some(now), "{name}");
            }
        }
    }

    /// A source that cannot be read says nothing about the health.
    #[test]
    fn the_health_stays_while_the_source_cannot_be_read() {
        let of_source = ObserveError::Source { message: "down".to_owned(), transient: false };
        let rows = json!([{"kind": "Pod", "name": "a", "namespace": "", "status": "Synced"}]);
        let kept = |status: &serde_json::Value, error: &ObserveError| {
            let status = Fields::of(&json!({ "status": status })).status;
            kept_health(&status, error).map(|health| (health.status, health.message))
        };
        let health =
            |word: &str| json!({"health": {"status": word, "message": "m"}, "resources": rows});
        let degraded = Some((Status::Degraded, "m".to_owned()));
        assert_eq!(kept(&health("Degraded"), &of_source), degraded);
        assert_eq!(kept(&health("Degraded"), &ObserveError::Live("down".to_owned())), None);
        assert_eq!(kept(&health("Unknown"), &of_source), None);
        assert_eq!(kept(&json!({}), &of_source), Some((Status::Healthy, String::new())));
        assert_eq!(kept(&json!({ "resources": rows }), &of_source), None);
    }

    #[test]
    fn a_request_is_answered_by_a_comparison_with_the_newest_revision_se_379() {
        for (level, is_left) in
            [(Level::Live, true), (Level::Revision, true), (Level::Newest, false)]
        {
            let annotations = json!({"argocd.argoproj.io/refresh": "hard"});
            let mut app = App::of(json!({"metadata": { "annotations": annotations }}));
            answer(&mut app, ComparisonRequest::new(level));
            assert_eq!(app.metadata.annotations.kind().is_some(), is_left, "{level:?}");
        }
    }
}
