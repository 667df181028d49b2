//! When a new status is written: at once where the next decision or a user depends on
//! it, at most once per second otherwise.
//!
//! A status of a large ApplicationSet has hundreds of kilobytes, so the API server needs
//! more time for each write than the rollout for its decision. Most changes need no write
//! of their own: sync status, health and messages of Applications, and phases that let
//! nothing start. A phase that is not written is decided again by the next reconcile, from
//! the same stored entry.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::application_set::plan::observe::Existing;
use crate::application_set::status::stored::Status;
use crate::rollout::RolloutPlan;
use crate::rollout::phase::Phase;
use crate::rollout::run::RunDecision;
use crate::rollout::wait::WaitKind;
use wavegate_api::HealthStatus;
use wavegate_api::application_set::{RolloutStatus, WaitingFor};
use wavegate_api::conditions::application_set::ROLLOUT_PROGRESSING;

/// The least time between two status writes that are not urgent.
pub const WRITE_EVERY: SignedDuration = SignedDuration::from_secs(1);

/// The least time between two writes of a run's status that are not urgent (ST-005).
const RUN_EVERY: SignedDuration = SignedDuration::from_secs(2);

/// The least time between two writes of a status, or of a run's, in which nothing differs but the
/// share of other sets in a limit (ST-030): each move of one of them changes those of all that wait.
const SHARES_EVERY: SignedDuration = SignedDuration::from_secs(10);

/// When to decide again before a write is due: a place of a limit that other sets share may become
/// free long before that, and not each of them is announced.
pub fn decided_within(due: Duration) -> Duration {
    due.min(WRITE_EVERY.unsigned_abs())
}

/// When a run may be recorded at the earliest; `None` means now.
pub fn run_due_at(
    run: &RunDecision,
    written_at: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    let every = if run.is_of_shares { SHARES_EVERY } else { RUN_EVERY };
    let due = written_at?.checked_add(every).ok()?;
    let is_early = due > now && written_at <= Some(now);
    (is_early && !run.is_urgent).then_some(due)
}

/// When the status may be written at the earliest; `None` means now. `written_at` is
/// when this controller wrote the status last, `urgent` whether the rollout needs it.
pub fn due_at(
    old: &Status,
    new: &Status,
    urgent: bool,
    written_at: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    let every = if differs_in_shares(old, new) { SHARES_EVERY } else { WRITE_EVERY };
    let due = written_at?.checked_add(every).ok()?;
    // A clock that was set back must not delay a status for longer.
    let is_early = due > now && written_at <= Some(now);
    (is_early && !urgent && may_wait(old, new) && old != new).then_some(due)
}

/// Whether a transition has to be stored before anything else may happen: an Application
/// is promoted or returns to Waiting, or it is Healthy and would be held back by its phase; or it does
/// not exist any more, and a new one of that name must not find its entry.
pub fn is_urgent(old: &Status, plan: &RolloutPlan, existing: &[Existing]) -> bool {
    // Both are in the order of names.
    let mut left = existing.iter().peekable();
    let mut entries = old.entries.iter().flatten();
    let is_left = entries.any(|entry| {
        while left.next_if(|one| *one.name < *entry.application).is_some() {}
        left.peek().is_none_or(|one| *one.name != *entry.application)
    });
    is_left
        || plan.transitions.iter().any(|transition| match transition.to {
            Phase::Waiting => transition.from.is_some(),
            Phase::Pending => true,
            Phase::Progressing => is_done(&transition.application, existing),
            Phase::Healthy => transition.timed_out,
        })
}

/// Whether an Application is Synced and Healthy.
fn is_done(application: &str, existing: &[Existing]) -> bool {
    let at = existing.binary_search_by(|one| (*one.name).cmp(application));
    at.is_ok_and(|at| existing[at].observed.is_synced_and_healthy())
}

/// Whether nothing differs but entries, resources, and what follows from them.
fn may_wait(old: &Status, new: &Status) -> bool {
    let is_exact =
        |status: &Status| status.exists && status.entries_are_exact && status.resources_are_exact;
    is_exact(old)
        && is_exact(new)
        && same_conditions(old, new)
        && old.entries.is_some() == new.entries.is_some()
        && same_rollout(old.rollout.as_ref(), new.rollout.as_ref())
}

/// Whether nothing that follows the rollout differs but the words of waits for a limit that other
/// sets share, and what repeats them.
fn differs_in_shares(old: &Status, new: &Status) -> bool {
    let (Some(before), Some(after)) = (&old.rollout, &new.rollout) else { return false };
    let is_of_shares = |wait: &WaitingFor| wait.kind == WaitKind::MaxInFlight.name();
    let without_words = |rollout: &RolloutStatus| {
        let mut waits = rollout.waiting_for.clone();
        for wait in waits.iter_mut().filter(|wait| is_of_shares(wait)) {
            wait.reason.clear();
        }
        waits
    };
    // The messages are of the first one.
    before.waiting_for.first().is_some_and(is_of_shares)
        && before.progress == after.progress
        && before.listed == after.listed
        && old.entries == new.entries
        && old.resources == new.resources
        && old.resources_count == new.resources_count
        && without_words(before) == without_words(after)
}

/// Whether the conditions differ at most in the message about the progress, which the
/// health repeats.
fn same_conditions(old: &Status, new: &Status) -> bool {
    let without_progress = |status: &Status| {
        let mut conditions = status.conditions.clone();
        for condition in &mut conditions {
            if condition.type_ == ROLLOUT_PROGRESSING {
                condition.message.clear();
                condition.last_transition_time = None;
            }
        }
        let mut health = status.health.clone();
        if let Some(health) = &mut health
            && health.status == HealthStatus::Progressing
        {
            health.message.clear();
        }
        (conditions, health)
    };
    without_progress(old) == without_progress(new)
}

/// Whether the summaries differ at most in what follows the entries. The number of listed
/// entries is written together with them.
fn same_rollout(old: Option<&RolloutStatus>, new: Option<&RolloutStatus>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return old == new };
    let following = RolloutStatus {
        message: new.message.clone(),
        waiting_for: new.waiting_for.clone(),
        progress: new.progress.clone(),
        listed: new.listed,
        ..old.clone()
    };
    following == *new
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    type Change = fn(&mut Value);

    fn status(change: impl FnOnce(&mut Value)) -> Status {
        let mut status = json!({
            "conditions": [{"type": "RolloutProgressing", "status": "True"}],
            "applicationStatus": [{
                "application": "a", "lastTransitionTime": "2026-01-02T03:04:05Z",
                "message": "m", "status": "Pending", "step": "1", "targetRevisions": ["r"],
            }],
            "resources": [{
                "group": "argoproj.io", "version": "v1alpha1", "kind": "Application",
                "namespace": "ns", "name": "a", "health": {"status": "Progressing"},
            }],
            "resourcesCount": 1,
            "rollout": {"step": 1, "steps": 2, "progress": "0/1", "message": "x"},
        });
        change(&mut status);
        Status::read(&status)
    }

    #[test]
    fn a_status_that_nothing_depends_on_is_written_once_per_second() {
        let now: Timestamp = "2026-01-02T03:04:10Z".parse().unwrap();
        let cases: [(&str, bool, Change); 11] = [
            ("health", true, |s| s["resources"][0]["health"]["status"] = "Healthy".into()),
            ("message", true, |s| s["applicationStatus"][0]["message"] = "n".into()),
            ("waits", true, |s| s["rollout"]["waitingFor"] = json!([{"application": "a"}])),
            ("phase", true, |s| s["applicationStatus"][0]["status"] = "Healthy".into()),
            ("progress", true, |s| s["rollout"]["progress"] = "1/1".into()),
            ("step", false, |s| s["rollout"]["step"] = 2.into()),
            ("stalled", false, |s| s["rollout"]["stalled"] = json!([{"application": "a"}])),
            ("progress message", true, |s| s["conditions"][0]["message"] = "m".into()),
            ("progress reason", false, |s| s["conditions"][0]["reason"] = "r".into()),
            ("condition", false, |s| s["conditions"][0]["status"] = "False".into()),
            ("number", true, |s| s["resourcesCount"] = 2.into()),
        ];
        let old = status(|_| {});
        let before = |seconds| now.checked_sub(SignedDuration::from_millis(seconds)).unwrap();
        for (name, waits, change) in cases {
            let new = status(change);
            let due = due_at(&old, &new, false, Some(before(400)), now);
            let want = waits.then(|| before(400).checked_add(WRITE_EVERY).unwrap());
            assert_eq!(due, want, "{name}");
            assert_eq!(
                due_at(&old, &new, false, Some(before(1000)), now),
                None,
                "{name}: a second later"
            );
            assert_eq!(due_at(&old, &new, false, None, now), None, "{name}: after a start");
            assert_eq!(due_at(&old, &new, true, Some(before(400)), now), None, "{name}: urgent");
            assert_eq!(
                due_at(&old, &new, false, Some(before(-5000)), now),
                None,
                "{name}: clock set back"
            );
        }
        assert_eq!(due_at(&old, &old, false, Some(before(400)), now), None, "nothing to write");
    }

    /// Each of hundreds of sets wrote its status every second, since others moved.
    #[test]
    fn the_share_of_other_sets_is_written_every_ten_seconds_as_st_030() {
        let wait = |application: &str, kind: &str, reason: &str| json!({"application": application, "kind": kind, "reason": reason, "since": "2026-01-02T03:04:05Z"});
        let shared = |reason: &str| wait("a", "MaxInFlight", reason);
        let waiting = |waits: Value| {
            status(|s| {
                s["conditions"][0]["message"] = waits.to_string().into();
                s["rollout"]["message"] = waits.to_string().into();
                s["rollout"]["waitingFor"] = waits;
            })
        };
        let old = waiting(json!([shared("14 of 15"), wait("b", "Paused", "p")]));
        let cases = [
            ("shares", json!([shared("15 of 15"), wait("b", "Paused", "p")]), SHARES_EVERY),
            ("another wait", json!([shared("14 of 15"), wait("b", "Paused", "q")]), WRITE_EVERY),
            ("other kinds", json!([wait("a", "Operation", "14 of 15")]), WRITE_EVERY),
            ("fewer waits", json!([shared("15 of 15")]), WRITE_EVERY),
        ];
        let now: Timestamp = "2026-01-02T03:04:10Z".parse().unwrap();
        let before = now.checked_sub(SignedDuration::from_millis(400)).unwrap();
        for (name, waits, every) in cases {
            let due = due_at(&old, &waiting(waits), false, Some(before), now);
            assert_eq!(due, Some(before.checked_add(every).unwrap()), "{name}");
        }
        let mut healthy = waiting(json!([shared("15 of 15"), wait("b", "Paused", "p")]));
        healthy.entries = None;
        assert!(!differs_in_shares(&old, &healthy), "an entry");
        // What is not written is decided again all the same.
        assert_eq!(decided_within(Duration::from_secs(9)), Duration::from_secs(1));
    }

    /// ST-005: a run is recorded every two seconds, and every ten where only the share of other sets
    /// differs; at once where something depends on it, or the clock was set back.
    #[test]
    fn a_run_is_recorded_every_two_seconds_st_005() {
        let now: Timestamp = "2026-01-02T03:04:10Z".parse().unwrap();
        let run = |is_urgent: bool, is_of_shares: bool| RunDecision {
            name: "shop-1".to_owned(),
            new: None,
            status: Default::default(),
            is_urgent,
            is_of_shares,
            must_be_stored: false,
            superseded: None,
            terminates: Vec::new(),
            news: Vec::new(),
            late: Vec::new(),
        };
        for (name, is_urgent, is_of_shares, ago, want) in [
            ("just now", false, false, 500, Some(1_500)),
            ("two seconds later", false, false, 2_000, None),
            ("shares", false, true, 2_000, Some(8_000)),
            ("ten seconds later", false, true, 10_000, None),
            ("urgent", true, false, 500, None),
            ("the clock was set back", false, false, -500, None),
            ("in the same moment", false, false, 0, Some(2_000)),
        ] {
            let written = now.checked_sub(SignedDuration::from_millis(ago)).unwrap();
            let due = run_due_at(&run(is_urgent, is_of_shares), Some(written), now);
            let left = due.map(|due| due.duration_since(now).as_millis());
            assert_eq!(left, want, "{name}");
        }
        assert_eq!(run_due_at(&run(false, false), None, now), None, "after a start");
    }

    /// A transition that lets something start, or that must not be lost, is stored at once.
    #[test]
    fn a_transition_that_something_depends_on_is_stored_at_once() {
        use crate::application_set::generate::ignore::Ignore;
        use crate::application_set::generate::policy::Policy;
        use crate::application_set::generate::preserve::Preserve;
        use crate::application_set::plan::owner::Identity;
        use crate::application_set::plan::update::Rules;
        use crate::rollout::Transition;
        let set = Identity::default();
        let (preserve, ignore) = (Preserve::default(), Ignore::default());
        let rules = Rules {
            set: &set,
            policy: Policy::Sync,
            preserve: &preserve,
            ignore: &ignore,
            keeps_resources: false,
        };
        let existing = |name: &str, sync: &str| {
            let live = json!({"metadata": {"name": name}, "status": {
                "sync": {"status": sync}, "health": {"status": "Healthy"},
            }});
            Existing::read(&live, None, &rules)
        };
        let transition = |to: Phase, is_new: bool, timed_out: bool| Transition {
            application: "a".to_owned(),
            step: Some(0),
            from: (!is_new).then_some(Phase::Waiting),
            to,
            message: String::new(),
            target_revisions: Vec::new(),
            before: None,
            health: HealthStatus::Healthy,
            sync: wavegate_api::SyncStatusCode::Synced,
            cause: "x",
            timed_out,
        };
        let urgent = |old: &Status, sync: &str, transitions: Vec<Transition>| {
            let plan = RolloutPlan { transitions, ..empty_plan() };
            is_urgent(old, &plan, &[existing("a", sync)])
        };
        let old = status(|_| {});
        for (name, sync, of, want) in [
            ("it begins to wait", "OutOfSync", transition(Phase::Waiting, true, false), false),
            ("it waits again", "OutOfSync", transition(Phase::Waiting, false, false), true),
            ("it is promoted", "OutOfSync", transition(Phase::Pending, false, false), true),
            ("it makes progress", "OutOfSync", transition(Phase::Progressing, false, false), false),
            ("it is done already", "Synced", transition(Phase::Progressing, false, false), true),
            ("it is Healthy", "Synced", transition(Phase::Healthy, false, false), false),
            ("it was moved on", "OutOfSync", transition(Phase::Healthy, false, true), true),
        ] {
            assert_eq!(urgent(&old, sync, vec![of]), want, "{name}");
        }
        assert!(!urgent(&old, "Synced", vec![]));
        // A new one of its name must not find its entry.
        let gone = status(|one| one["applicationStatus"][0]["application"] = "b".into());
        assert!(urgent(&gone, "Synced", vec![]));
        let first = status(|one| one["applicationStatus"][0]["application"] = "0".into());
        assert!(urgent(&first, "Synced", vec![]));
    }

    fn empty_plan() -> RolloutPlan {
        use crate::rollout::RolloutSnapshot;
        let snapshot = RolloutSnapshot {
            strategy: &crate::rollout::steps::StepStrategy::AllAtOnce,
            members: &[],
            settings: Default::default(),
            opened: None,
            capacity: 0,
            run_input: None,
        };
        crate::rollout::step(&snapshot, Timestamp::UNIX_EPOCH)
    }
}
