//! Where an Application of a run stands: whether it has failed, and how far its way back is.

use super::*;
use crate::rollout::entry::EntryMark;
use crate::rollout::run::failures::{deadline_of, failure_of};
use crate::rollout::run::rollback::{RollbackState, is_to_be_healed, standing};
use crate::rollout::run::started::Target;
use crate::rollout::run_input::RowRun;
use crate::rollout::snapshot::Row;

pub(super) fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = "2026-01-02T12:00:00Z".parse().unwrap();
    start + SignedDuration::from_secs(seconds)
}

/// Started at second 0.
pub(super) fn started() -> Started {
    Started {
        run: "shop-1".to_owned(),
        target: Target { spec: "spec".to_owned(), revisions: vec!["r2".to_owned()] },
        at: at(0),
        before: HealthStatus::Healthy,
        good: vec!["r1".to_owned()],
        base: String::new(),
        goes_back: false,
    }
}

/// Its sync succeeded at second 10, and was compared at second 20: Synced and Healthy.
pub(super) fn seen() -> Observed {
    Observed {
        health: HealthStatus::Healthy,
        sync: SyncStatusCode::Synced,
        revisions: vec!["r2".to_owned()],
        reconciled_at: Some(at(20)),
        compared: Compared::Current,
        spec_differs: false,
        requested: None,
        operation: Some(ObservedOperation {
            phase: OperationPhase::Succeeded,
            started_at: at(1),
            finished_at: Some(at(10)),
            promotion: Some(at(0)),
            revisions: vec!["r2".to_owned()],
            message: "what it says".to_owned(),
            is_blocked: false,
            is_partial: false,
        }),
        deployed: Deployed::At(at(10), vec!["r2".to_owned()]),
        person: None,
        has_error_condition: false,
        has_error: false,
        went_back_just_now: false,
        has_left_its_hold: false,
        is_automated: false,
        needs_confirmation: false,
        needs_a_prune: false,
        detail: String::new(),
        until: None,
        sources: Vec::new(),
    }
}

pub(super) fn entry(phase: Phase) -> Entry {
    Entry {
        application: "a".to_owned(),
        phase,
        step: Some(0),
        message: String::new(),
        mark: None,
        target_revisions: vec!["r2".to_owned()],
        since: at(0),
        earlier: crate::rollout::entry::Earlier::None,
    }
}

pub(super) type OfSeen<'a> = &'a dyn Fn(&mut Observed);

pub(super) fn last(seen: &mut Observed) -> &mut ObservedOperation {
    seen.operation.as_mut().unwrap()
}

pub(super) fn changed(change: OfSeen<'_>) -> Observed {
    let mut seen = seen();
    change(&mut seen);
    seen
}

/// Calls this with the row of an Application of the first step.
pub(super) fn with_row<T>(
    seen: &Observed,
    entry: &Entry,
    started: Option<&Started>,
    call: impl FnOnce(&mut Row<'_>) -> T,
) -> T {
    let membership = Membership { steps: vec![0] };
    let member = Member {
        name: "a",
        steps: Some(&membership),
        invalid: None,
        unwritten: None,
        denied: None,
        excluded: None,
        is_going: false,
        resource: None,
        observed: Some(seen),
        entry: Some(entry),
        is_listed: true,
        record: None,
        spec: Some("spec"),
        started,
    };
    let mut row = Row {
        member: &member,
        entry: Some(entry.clone()),
        behind: None,
        is_beyond_capacity: false,
        run: RowRun { is_started: started.is_some(), ..RowRun::default() },
    };
    call(&mut row)
}

/// ST-061, ST-062: what goes back is back when it is Healthy after its own sync, and not by an older
/// one; while it makes progress it has not failed.
#[test]
fn where_one_stands_on_its_way_back_st_061() {
    use RollbackState::{Back, Cannot, Due, Failed, Running};
    let back = Started { goes_back: true, ..started() };
    let cases: [(&str, OfSeen<'_>, bool, RollbackState); 15] = [
        ("it is back", &|_| {}, false, Back),
        ("in the second of its end", &|one| one.reconciled_at = Some(at(10)), false, Back),
        ("not compared since", &|one| one.reconciled_at = Some(at(9)), false, Running),
        ("Degraded", &|one| one.health = HealthStatus::Degraded, false, Failed),
        (
            "Degraded before",
            &|one| (one.health, one.reconciled_at) = (HealthStatus::Degraded, Some(at(9))),
            false,
            Running,
        ),
        ("it makes progress", &|one| one.health = HealthStatus::Progressing, false, Running),
        ("its sync failed", &|one| last(one).phase = OperationPhase::Failed, false, Failed),
        ("a dry run of it", &|one| last(one).is_partial = true, false, Running),
        ("its sync runs", &|one| last(one).phase = OperationPhase::Running, false, Running),
        (
            "it is requested",
            &|one| one.requested = Some(RequestedOperation { promotion: None, is_partial: false }),
            false,
            Running,
        ),
        ("an earlier sync", &|one| last(one).promotion = Some(at(-1)), false, Due),
        ("a later sync", &|one| last(one).promotion = Some(at(1)), false, Back),
        ("a sync of a person", &|one| last(one).promotion = None, false, Due),
        ("without a sync", &|one| one.operation = None, false, Due),
        ("it is retried", &|_| {}, true, Due),
    ];
    for (name, change, retries, want) in cases {
        assert_eq!(standing(&back, &changed(change), retries), want, "{name}");
    }
    let forward = started();
    assert_eq!(standing(&forward, &seen(), false), Due, "it has gone forward");
    let running = changed(&|one| last(one).phase = OperationPhase::Running);
    assert_eq!(standing(&forward, &running, false), Due, "that is to end first");
    let unknown = Started { good: Vec::new(), ..back };
    assert_eq!(standing(&unknown, &seen(), true), Cannot);
}

/// ST-061: what is held is synced again when it has drifted, a minute after its last way back, and
/// only over a sync of its own that succeeded.
#[test]
fn what_has_drifted_from_its_hold_is_healed_st_061() {
    let back = Started { goes_back: true, ..started() };
    let drifted = |change: OfSeen<'_>| {
        changed(&|one| {
            one.has_left_its_hold = true;
            change(one);
        })
    };
    let cases: [(&str, Observed, &Started, i64, bool); 10] = [
        ("after a minute", drifted(&|_| {}), &back, 60, true),
        ("before", drifted(&|_| {}), &back, 59, false),
        ("as it was", seen(), &back, 60, false),
        ("it went forward", drifted(&|_| {}), &started(), 60, false),
        ("not compared since", drifted(&|one| one.reconciled_at = Some(at(9))), &back, 60, false),
        (
            "its sync failed",
            drifted(&|one| last(one).phase = OperationPhase::Failed),
            &back,
            60,
            false,
        ),
        ("a dry run", drifted(&|one| last(one).is_partial = true), &back, 60, false),
        ("an earlier sync", drifted(&|one| last(one).promotion = Some(at(-1))), &back, 60, false),
        ("of a person", drifted(&|one| last(one).promotion = None), &back, 60, false),
        ("without one", drifted(&|one| one.operation = None), &back, 60, false),
    ];
    for (name, seen, started, now, want) in cases {
        assert_eq!(is_to_be_healed(started, &seen, at(now)), want, "{name}");
    }
    let unknown = Started { good: Vec::new(), ..back };
    assert!(!is_to_be_healed(&unknown, &drifted(&|_| {}), at(60)));
}

/// ST-040: one has failed when its sync has, when it is Degraded after it, or at its deadline; what a
/// person has synced, and what is older than its start, is no failure of the run.
#[test]
fn how_an_application_of_a_run_has_failed_st_040() {
    let deadline = SignedDuration::from_secs(60);
    let synced = Some("it is Degraded");
    let degraded = |one: &mut Observed| one.health = HealthStatus::Degraded;
    let failed = |one: &mut Observed| last(one).phase = OperationPhase::Failed;
    let progresses = |one: &mut Observed| one.health = HealthStatus::Progressing;
    let overdue = Some("failed by its deadline of 1m0s: Synced, Progressing");
    use Phase::{Healthy, Pending, Progressing, Waiting};
    let cases: [(&str, Phase, OfSeen<'_>, i64, Option<&str>); 19] = [
        ("it makes progress", Progressing, &progresses, 59, None),
        ("until its deadline", Progressing, &progresses, 60, overdue),
        ("it is Healthy", Healthy, &|_| {}, 99, None),
        ("its sync failed", Progressing, &failed, 20, Some("what it says")),
        (
            "it failed on a resource",
            Progressing,
            &|one| {
                failed(one);
                one.detail = "Pod p is Degraded: crash".to_owned();
            },
            20,
            Some("Pod p is Degraded: crash"),
        ),
        (
            "an earlier sync failed",
            Progressing,
            &|one| {
                failed(one);
                last(one).promotion = Some(at(-1));
            },
            20,
            None,
        ),
        (
            "a sync of a person failed",
            Progressing,
            &|one| {
                failed(one);
                last(one).promotion = None;
            },
            20,
            Some("what it says"),
        ),
        (
            "a dry run failed",
            Progressing,
            &|one| {
                failed(one);
                last(one).is_partial = true;
            },
            20,
            None,
        ),
        ("Degraded after it", Progressing, &degraded, 20, synced),
        (
            "Degraded before its end",
            Progressing,
            &|one| {
                degraded(one);
                one.reconciled_at = Some(at(9));
            },
            20,
            None,
        ),
        (
            "Degraded while it runs",
            Progressing,
            &|one| {
                degraded(one);
                last(one).phase = OperationPhase::Running;
            },
            20,
            None,
        ),
        ("Degraded, and was Healthy", Healthy, &degraded, 20, synced),
        (
            "Degraded, and compared before",
            Healthy,
            &|one| {
                degraded(one);
                one.reconciled_at = Some(at(9));
            },
            20,
            None,
        ),
        (
            "Degraded after a dry run",
            Healthy,
            &|one| {
                degraded(one);
                last(one).is_partial = true;
            },
            20,
            synced,
        ),
        ("not started yet", Pending, &|one| one.operation = None, 59, None),
        (
            "it does not start",
            Pending,
            &|one| one.operation = None,
            60,
            Some("failed by its deadline of 1m0s: Synced, Healthy"),
        ),
        ("it waits again", Waiting, &|_| {}, 99, None),
        (
            "it waits, and its sync runs",
            Waiting,
            &|one| last(one).phase = OperationPhase::Running,
            60,
            Some("failed by its deadline of 1m0s: Synced, Healthy"),
        ),
        (
            "it waits, and its sync is not judged",
            Waiting,
            &|one| one.reconciled_at = Some(at(9)),
            60,
            Some("failed by its deadline of 1m0s: Synced, Healthy"),
        ),
    ];
    let started = started();
    for (name, phase, change, now, want) in cases {
        let found = with_row(&changed(change), &entry(phase), Some(&started), |row| {
            failure_of(row, Some(deadline), at(now))
        });
        assert_eq!(found.as_ref().map(|one| one.message.as_str()), want, "{name}");
        let is_overdue = want.is_some_and(|text| text.starts_with("failed by its deadline"));
        assert_eq!(found.is_some_and(|one| one.is_overdue), is_overdue, "{name}");
    }
    let marked = |phase, mark: EntryMark| Entry {
        mark: Some(mark),
        message: format!("{}: why", mark.prefix()),
        ..entry(phase)
    };
    let partial = changed(&|one| last(one).is_partial = true);
    let found = |seen: &Observed, entry: &Entry, started: Option<&Started>| {
        with_row(seen, entry, started, |row| failure_of(row, None, at(99)).map(|one| one.message))
    };
    let start = Some(&started);
    let why = Some("why".to_owned());
    let failed_before = marked(Phase::Progressing, EntryMark::SyncFailed);
    assert_eq!(found(&partial, &failed_before, start), why, "a dry run takes back no failure");
    assert_eq!(found(&seen(), &failed_before, start), None, "another sync does");
    let was_degraded = marked(Phase::Progressing, EntryMark::Degraded);
    assert_eq!(found(&changed(&progresses), &was_degraded, start), why, "until it is Healthy");
    let held = marked(Phase::Waiting, EntryMark::HeldByPerson);
    assert_eq!(found(&changed(&failed), &held, start), None, "of a person");
    assert_eq!(found(&changed(&failed), &entry(Phase::Progressing), None), None, "not of the run");
    // A timeout is no success: the deadline counts all the same.
    let timed_out = marked(Phase::Healthy, EntryMark::TimedOut);
    let waits = changed(&|one| one.operation = None);
    let late = with_row(&waits, &timed_out, start, |row| deadline_of(row, Some(deadline)));
    assert_eq!(late, Some(at(60)));
    for (phase, want) in [(Phase::Healthy, None), (Phase::Progressing, Some(at(60)))] {
        let found = with_row(&seen(), &entry(phase), start, |row| deadline_of(row, Some(deadline)));
        assert_eq!(found, want, "{phase:?}");
        assert_eq!(with_row(&seen(), &entry(phase), start, |row| deadline_of(row, None)), None);
    }
}
