//! Which failures of a run count: what was worse before is excused, a budget permits some, and the rest
//! is listed by what failed.

use super::standings::{OfSeen, at, changed, entry, last, seen, started, with_row};
use super::*;
use crate::rollout::policy::Rules;
use crate::rollout::run::failures::{Verdict, by_signature, excuse, is_no_worse, judge};
use crate::rollout::run::health_before::{health_text, set_health_before};
use crate::rollout::run_input::{Excuse, Failure, RowRun};
use crate::rollout::snapshot::Row;
use wavegate_api::policy::OnFailure;

/// ST-041: what was not Healthy before its run does not count against it, as long as it is no worse
/// after its sync.
#[test]
fn what_was_unhealthy_before_is_excused_while_it_is_no_worse_st_041() {
    use HealthStatus::{Degraded, Healthy, Missing, Progressing, Suspended, Unknown};
    let deadline = Some(SignedDuration::from_secs(60));
    let of = |before: HealthStatus, now: i64, change: OfSeen<'_>| {
        let started = Started { before, ..started() };
        with_row(&changed(change), &entry(Phase::Progressing), Some(&started), |row| {
            is_no_worse(row, deadline, at(now))
        })
    };
    for (before, is, now, want) in [
        (Degraded, Degraded, 20, true),
        (Degraded, Missing, 20, true),
        (Degraded, Healthy, 20, true),
        (Degraded, Unknown, 20, false),
        (Missing, Missing, 20, true),
        (Missing, Degraded, 20, false),
        (Suspended, Suspended, 20, true),
        (Suspended, Missing, 20, false),
        (Healthy, Degraded, 99, false),
        (Healthy, Healthy, 99, false),
        (Unknown, Unknown, 99, false),
        // One that makes progress has not ended, unless it did so before.
        (Degraded, Progressing, 59, false),
        (Degraded, Progressing, 60, true),
        (Missing, Progressing, 99, false),
        (Progressing, Progressing, 20, true),
    ] {
        let found = of(before, now, &|one| one.health = is);
        assert_eq!(found, want, "{before:?} before, {is:?} at {now}");
    }
    let degraded = |one: &mut Observed| one.health = Degraded;
    let out = of(Degraded, 20, &|one| {
        degraded(one);
        one.sync = SyncStatusCode::OutOfSync;
    });
    assert!(!out, "OutOfSync");
    let syncs = of(Degraded, 20, &|one| {
        degraded(one);
        last(one).phase = OperationPhase::Running;
    });
    assert!(!syncs, "its sync runs");
    let stale = of(Degraded, 20, &|one| {
        degraded(one);
        one.reconciled_at = Some(at(9));
    });
    assert!(!stale, "not compared since");
    // What the run remembers comes before what the Application does.
    let started = Started { before: Degraded, ..self::started() };
    let seen = changed(&degraded);
    let found = with_row(&seen, &entry(Phase::Progressing), Some(&started), |row| {
        row.run.before = Some(Healthy);
        is_no_worse(row, deadline, at(20))
    });
    assert!(!found, "the run itself has broken it");
    let unknown =
        with_row(&seen, &entry(Phase::Progressing), None, |row| is_no_worse(row, deadline, at(20)));
    assert!(!unknown, "the run has not started it");
}

/// Rows of the first step that failed in these ways, and as many more that did not.
fn judged(
    failures: Value,
    failed: &[&str],
    others: usize,
) -> (Verdict, Vec<(Option<Excuse>, bool)>) {
    let spec = serde_json::from_value(json!({ "failures": failures })).unwrap();
    let policy = Policy { name: "p".to_owned(), spec: Ok(spec) };
    let rules = Rules::of(&[policy], "shop", &BTreeMap::new(), &[], 1);
    let membership = Membership { steps: vec![0] };
    let (seen, stored) = (seen(), entry(Phase::Progressing));
    let started = Started { before: HealthStatus::Healthy, ..started() };
    let member = Member {
        name: "a",
        steps: Some(&membership),
        invalid: None,
        unwritten: None,
        denied: None,
        excluded: None,
        is_going: false,
        resource: None,
        observed: Some(&seen),
        entry: Some(&stored),
        is_listed: true,
        record: None,
        spec: Some("spec"),
        started: Some(&started),
    };
    let row = |failure: Option<&str>| Row {
        member: &member,
        entry: Some(stored.clone()),
        behind: None,
        is_beyond_capacity: false,
        run: RowRun {
            is_started: true,
            failure: failure.map(|signature| Failure {
                signature: signature.to_owned(),
                message: signature.to_owned(),
                is_overdue: false,
            }),
            ..RowRun::default()
        },
    };
    let mut rows: Vec<Row<'_>> = failed.iter().map(|one| row(Some(one))).collect();
    rows.extend((0..others).map(|_| row(None)));
    let verdict = judge(&rules, &rows);
    excuse(&rules, &verdict, &mut rows, at(99));
    let excused = rows.iter().map(|row| (row.run.excuse, row.run.failure.is_some())).collect();
    (verdict, excused)
}

/// ST-042, ST-043: more failures than a budget permits do what it says, and are named with it; as many
/// as it permits hold nothing.
#[test]
fn a_budget_is_exceeded_by_one_more_than_it_permits_st_042() {
    let hold = OnFailure::Hold;
    for (failures, failed, others, want, excuses) in [
        (json!({"max": 2, "onFailure": "Hold"}), &["x", "y"][..], 2, None, true),
        (
            json!({"max": 2, "onFailure": "Hold"}),
            &["x", "y", "z"],
            1,
            Some((hold, "3 failed, and 2 may (policy p)")),
            false,
        ),
        (json!({"max": "50%", "onFailure": "Hold"}), &["x", "y"], 2, None, true),
        (
            json!({"max": "50%", "onFailure": "Hold"}),
            &["x", "y", "z"],
            1,
            Some((hold, "3 of step 1 failed, and 2 may (50%) (policy p)")),
            false,
        ),
        (json!({"max": 9, "same": 2, "onFailure": "Abort"}), &["x", "y"], 2, None, true),
        (
            json!({"max": 9, "same": 2, "onFailure": "Abort"}),
            &["x", "y", "x"],
            2,
            Some((OnFailure::Abort, "2 failed in the same way: x (policy p)")),
            false,
        ),
        (
            json!({"max": 1, "onFailure": "Continue"}),
            &["x", "y"],
            2,
            Some((OnFailure::Continue, "2 failed, more than 1 (failure budget of policy p)")),
            true,
        ),
    ] {
        let (verdict, excused) = judged(failures.clone(), failed, others);
        let exceeded = verdict.exceeded.as_ref().map(|(action, why)| (*action, why.as_str()));
        assert_eq!(exceeded, want, "{failures} {failed:?}");
        assert_eq!(verdict.excuses, excuses, "{failures} {failed:?}");
        for (excuse, has_failed) in excused {
            let want = (has_failed && excuses).then_some(Excuse::Failed);
            assert_eq!(excuse, want, "{failures}: what did not fail needs no excuse");
        }
    }
    let none = with_row(&seen(), &entry(Phase::Progressing), None, |row| {
        judge(&Rules::default(), std::slice::from_ref(row))
    });
    assert_eq!(none, Verdict::default(), "without a budget");
}

/// ST-005: the failures of a run by their signature, the most frequent ones first, with some names.
#[test]
fn failures_are_listed_by_their_signature_st_005() {
    let (seen, stored) = (seen(), entry(Phase::Progressing));
    let names: Vec<String> = (0..30).map(|number| format!("app-{number:02}")).collect();
    let members: Vec<Member<'_>> = names
        .iter()
        .map(|name| Member {
            name,
            steps: None,
            invalid: None,
            unwritten: None,
            denied: None,
            excluded: None,
            is_going: false,
            resource: None,
            observed: Some(&seen),
            entry: Some(&stored),
            is_listed: true,
            record: None,
            spec: None,
            started: None,
        })
        .collect();
    let rows: Vec<Row<'_>> = members
        .iter()
        .enumerate()
        .map(|(number, member)| {
            // Four of them fail in the same way, one does not fail, each other in its own.
            let signature = match number {
                0 => None,
                25..=28 => Some("same".to_owned()),
                _ => Some(format!("s{number:02}")),
            };
            let failure = signature.map(|signature| Failure {
                message: format!("{signature} {}", "x".repeat(600)),
                signature,
                is_overdue: false,
            });
            Row {
                member,
                entry: Some(stored.clone()),
                behind: None,
                is_beyond_capacity: false,
                run: RowRun { failure, ..RowRun::default() },
            }
        })
        .collect();
    let found = by_signature(&rows);
    assert_eq!(found.len(), 20, "so many fit");
    assert_eq!((found[0].signature.as_str(), found[0].count), ("same", 4));
    assert_eq!(found[0].applications, ["app-25", "app-26", "app-27"]);
    assert_eq!(found[1].count, 1);
    assert!(found.iter().all(|one| one.message.chars().count() == 500));
}

/// ST-041: the health of each Application when its run began, also of thousands.
#[test]
fn the_health_before_a_run_is_remembered_st_041() {
    use HealthStatus::{Degraded, Healthy, Missing, Progressing, Suspended, Unknown};
    let all = [Degraded, Missing, Progressing, Suspended, Healthy, Unknown];
    let observed = all.map(|health| changed(&|one| one.health = health));
    let names = ["d", "m", "p", "s", "h", "u"];
    let stored = entry(Phase::Waiting);
    let members: Vec<Member<'_>> = names
        .iter()
        .zip(&observed)
        .map(|(name, seen)| Member {
            name,
            steps: None,
            invalid: None,
            unwritten: None,
            denied: None,
            excluded: None,
            is_going: false,
            resource: None,
            observed: Some(seen),
            entry: Some(&stored),
            is_listed: true,
            record: None,
            spec: None,
            started: None,
        })
        .collect();
    let mut rows: Vec<Row<'_>> = members
        .iter()
        .map(|member| Row {
            member,
            entry: None,
            behind: None,
            is_beyond_capacity: false,
            run: RowRun::default(),
        })
        .collect();
    let text = health_text(&rows);
    set_health_before(&text, &mut rows);
    let found: Vec<HealthStatus> = rows.iter().filter_map(|row| row.run.before).collect();
    assert_eq!(found, [Degraded, Missing, Progressing, Suspended, Healthy, Healthy]);
    // Of a run that an earlier version began, nothing is known.
    rows.iter_mut().for_each(|row| row.run.before = None);
    set_health_before("", &mut rows);
    assert!(rows.iter().all(|row| row.run.before.is_none()));
    let healthy = health_text(&rows[4..]);
    set_health_before(&healthy, &mut rows);
    assert!(rows.iter().all(|row| row.run.before == Some(Healthy)));
}
