//! What went wrong for users of other tools: words that are used up or undone, approvals that
//! cover too much, failures that nobody counts.

use super::*;
use wavegate_api::run::Retry;

fn retry(fleet: &mut Fleet, applications: &[&str]) {
    let applications = applications.iter().map(|name| (*name).to_owned()).collect();
    let at = Some(wavegate_api::Time(fleet.now));
    fleet.said(|spec| spec.retries.push(Retry { by: "ann".to_owned(), at, applications }));
}

fn budget(max: u64, on_failure: &str) -> Value {
    json!({"failures": {"max": max, "onFailure": on_failure}})
}

fn starts(fleet: &mut Fleet, seconds: usize) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..seconds {
        fleet.run(1);
        let starts = &fleet.plan.as_ref().unwrap().starts;
        all.extend(starts.iter().map(|start| start.application.clone()));
    }
    all
}

#[test]
fn a_retry_after_an_automatic_abort_starts_what_failed_as_st_063() {
    let mut fleet = Fleet::new(&[2, 1], json!(null)).policy(budget(0, "Abort"));
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Fails;
    fleet.run(20);
    assert_eq!(fleet.status().phase, RunPhase::Aborted);
    // It fails once more, and ends the run once more.
    retry(&mut fleet, &[]);
    assert_eq!(starts(&mut fleet, 1), ["s1-0"]);
    assert_eq!(fleet.status().phase, RunPhase::Progressing);
    assert_eq!(starts(&mut fleet, 20), [""; 0]);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (1, RunPhase::Aborted));
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Healthy;
    retry(&mut fleet, &[]);
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (3, RunPhase::Complete));
}

#[test]
fn a_retry_of_one_application_does_not_go_on_with_an_ended_run_as_st_063() {
    for on_failure in ["Abort", "Rollback"] {
        let mut fleet = Fleet::new(&[3, 2], json!(null)).policy(budget(0, on_failure));
        fleet.push("r2");
        fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Fails;
        fleet.run(40);
        let phase = fleet.status().phase;
        assert!(phase.has_ended(), "{phase:?}");
        fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Healthy;
        retry(&mut fleet, &["s1-0"]);
        assert_eq!(starts(&mut fleet, 40), ["s1-0"], "{on_failure}");
        assert_eq!(fleet.apps["s1-0"].deployed, "r2", "{on_failure}");
        assert_eq!(fleet.status().phase, phase, "{on_failure}");
    }
}

#[test]
fn a_retry_of_a_failed_rollback_takes_it_back_and_nothing_forward_as_st_062() {
    let mut fleet = Fleet::new(&[2, 2], json!(null)).policy(gate(0, "1h"));
    fleet.push("r2");
    fleet.run(20);
    fleet.apps.get_mut("s1-1").unwrap().fails_at = Some("r1".to_owned());
    fleet.roll_back();
    fleet.run(20);
    let waiting = &fleet.plan.as_ref().unwrap().waiting;
    assert_eq!(fleet.status().phase, RunPhase::RollingBack);
    assert!(
        waiting.iter().any(|wait| wait.message.contains("wavegate retry -n argocd shop")),
        "{waiting:?}"
    );
    fleet.apps.get_mut("s1-1").unwrap().fails_at = None;
    retry(&mut fleet, &[]);
    assert_eq!(starts(&mut fleet, 40), ["s1-1"]);
    assert_eq!((fleet.deployed("r1"), fleet.runs.len()), (4, 1));
    assert_eq!(fleet.status().phase, RunPhase::RolledBack);
}

#[test]
fn an_approval_in_advance_is_for_its_targets_as_st_011() {
    let mut fleet = Fleet::new(&[1, 2], json!(null)).policy(gate(1, ""));
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Hangs;
    fleet.run(4);
    approve(&mut fleet, "ann");
    fleet.run(2);
    fleet.apps.get_mut("s2-1").unwrap().head = "r3".to_owned();
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Healthy;
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.deployed("r3")), (2, 0), "s2-0 was approved");
    assert_eq!(fleet.status().phase, RunPhase::AwaitingApproval);
    assert_eq!(fleet.status().gates[0].void, ["ann"]);
    approve(&mut fleet, "ann");
    fleet.run(20);
    assert_eq!((fleet.deployed("r3"), fleet.status().phase), (1, RunPhase::Complete));
}

#[test]
fn a_gate_that_has_opened_lets_no_other_targets_through_as_st_011() {
    let mut fleet = Fleet::new(&[1, 3], json!(1)).policy(gate(1, ""));
    fleet.push("r2");
    fleet.run(10);
    approve(&mut fleet, "ann");
    fleet.apps.get_mut("s2-0").unwrap().fate = Fate::Hangs;
    fleet.run(4);
    fleet.apps.get_mut("s2-2").unwrap().head = "r3".to_owned();
    fleet.run(2);
    fleet.apps.get_mut("s2-0").unwrap().fate = Fate::Healthy;
    fleet.run(30);
    assert_eq!((fleet.deployed("r2"), fleet.deployed("r3")), (3, 0));
    assert_eq!(fleet.kinds(), [WaitKind::Approval]);
    // Another soak or a pause does not matter to a gate that has opened.
    approve(&mut fleet, "bob");
    fleet.run(20);
    assert_eq!((fleet.deployed("r3"), fleet.status().phase), (1, RunPhase::Complete));
}

#[test]
fn a_gate_stays_open_when_one_behind_it_is_gone_as_st_010() {
    let mut fleet = Fleet::new(&[1, 4], json!(1)).policy(gate(1, ""));
    fleet.push("r2");
    fleet.run(10);
    approve(&mut fleet, "ann");
    fleet.run(4);
    fleet.apps.remove("s2-3");
    fleet.run(40);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (4, RunPhase::Complete));
    assert_eq!(fleet.status().gates[0].void, [""; 0]);
    assert_eq!(fleet.what().iter().filter(|what| **what == "ApprovalVoid").count(), 0);
}

#[test]
fn a_new_application_is_waited_for_although_it_was_not_healthy_before_as_st_041() {
    let policy = json!({"failures": {"max": 0, "baseline": "Ignore", "deadline": "60s"}});
    for before in [HealthStatus::Missing, HealthStatus::Unknown, HealthStatus::Degraded] {
        let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(policy.clone());
        let app = fleet.apps.get_mut("s1-0").unwrap();
        app.observed.health = before;
        app.fate = Fate::Progresses;
        fleet.push("r2");
        fleet.run(20);
        assert_eq!(fleet.deployed("r2"), 1, "{before:?}: the next step waits");
        fleet.run(60);
        match before {
            // It ends no worse than it was.
            HealthStatus::Degraded => assert_eq!(fleet.deployed("r2"), 2),
            _ => assert_eq!((fleet.deployed("r2"), fleet.status().failed), (1, 1), "{before:?}"),
        }
    }
    let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(policy);
    let app = fleet.apps.get_mut("s1-0").unwrap();
    app.observed.health = HealthStatus::Progressing;
    app.fate = Fate::Progresses;
    fleet.push("r2");
    fleet.run(20);
    assert_eq!(fleet.deployed("r2"), 2, "it is as it was");
}

#[test]
fn one_that_is_degraded_after_it_was_healthy_has_failed_as_st_040() {
    let mut fleet = Fleet::new(&[2, 1], json!(null)).policy(gate(0, "30m"));
    fleet = fleet.policy(budget(0, "Rollback"));
    fleet.push("r2");
    fleet.run(60);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (2, RunPhase::Soaking));
    fleet.apps.get_mut("s1-1").unwrap().observed.health = HealthStatus::Degraded;
    fleet.run(40);
    assert_eq!((fleet.deployed("r1"), fleet.status().phase), (3, RunPhase::RolledBack));
}

/// A dry run and a sync of some resources take the place of a sync in the status.
#[test]
fn what_is_no_sync_of_the_whole_takes_back_no_failure_as_st_040() {
    for fate in [Fate::Fails, Fate::Degraded] {
        let mut fleet = Fleet::new(&[4, 2], json!(2)).policy(budget(1, "Hold"));
        fleet.push("r2");
        let failed = ["s1-0", "s1-1"];
        for name in failed {
            fleet.apps.get_mut(name).unwrap().fate = fate;
        }
        fleet.run(40);
        let deployed = fleet.deployed("r2");
        assert_eq!((fleet.status().phase, fleet.status().failed), (RunPhase::Held, 2));
        for phase in [
            None,
            Some(OperationPhase::Running),
            Some(OperationPhase::Succeeded),
            Some(OperationPhase::Failed),
        ] {
            let now = wavegate_api::time::stored_time(fleet.now);
            for name in failed {
                let app = fleet.apps.get_mut(name).unwrap();
                let partial = |phase: OperationPhase| ObservedOperation {
                    phase,
                    started_at: now,
                    finished_at: (!phase.is_running()).then_some(now),
                    promotion: None,
                    revisions: vec!["r2".to_owned()],
                    message: "dry run".to_owned(),
                    is_blocked: false,
                    is_partial: true,
                };
                let seen = &mut app.observed;
                seen.requested = phase
                    .is_none()
                    .then_some(RequestedOperation { promotion: None, is_partial: true });
                seen.operation = phase.map(partial).or(seen.operation.take());
                app.fate = if phase.is_none() { Fate::Ignores } else { Fate::Hangs };
            }
            fleet.run(10);
            let status = fleet.status();
            let found = (status.phase, status.failed, fleet.deployed("r2"));
            assert_eq!(found, (RunPhase::Held, 2, deployed), "{fate:?} {phase:?}");
        }
    }
}

/// Pods that end again and again make progress in between.
#[test]
fn one_that_was_degraded_has_failed_until_it_is_healthy_as_st_040() {
    let mut fleet = Fleet::new(&[4, 2], json!(2)).policy(budget(1, "Hold"));
    fleet.push("r2");
    let failed = ["s1-0", "s1-1"];
    for name in failed {
        fleet.apps.get_mut(name).unwrap().fate = Fate::Degraded;
    }
    fleet.run(40);
    let deployed = fleet.deployed("r2");
    let mut becomes = |health: HealthStatus, name: &str| {
        fleet.apps.get_mut(name).unwrap().observed.health = health;
        fleet.run(20);
        (fleet.status().phase, fleet.status().failed, fleet.deployed("r2"))
    };
    for health in [HealthStatus::Progressing, HealthStatus::Degraded, HealthStatus::Unknown] {
        for name in failed {
            assert_eq!(becomes(health, name), (RunPhase::Held, 2, deployed), "{health:?}");
        }
    }
    // Within the budget, it goes on without the other one.
    assert_eq!(becomes(HealthStatus::Healthy, "s1-0"), (RunPhase::CompleteWithFailures, 1, 6));
}

#[test]
fn a_soak_names_who_is_not_healthy_and_a_timeout_does_not_pass_it_as_st_012() {
    let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(gate(0, "10s"));
    fleet.push("r2");
    // Its operation is requested, and nobody takes it.
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Ignores;
    fleet.run(400);
    let entry = fleet.apps["s1-0"].entry.as_ref().unwrap();
    assert!(entry.timed_out(), "{entry:?}");
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (0, RunPhase::Soaking));
    let message = &fleet.plan.as_ref().unwrap().waiting[0].message;
    assert!(message.contains("s1-0 is not"), "{message}");
}

#[test]
fn a_deadline_counts_although_the_timeout_has_passed_as_st_040() {
    let policy = json!({"failures": {"max": 0, "deadline": "10m"}});
    let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(policy);
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Ignores;
    fleet.run(620);
    assert_eq!(fleet.status().failed, 1);
}

#[test]
fn what_goes_back_waits_for_its_window_as_as_366() {
    let mut fleet = Fleet::new(&[2], json!(null));
    fleet.push("r2");
    fleet.run(20);
    let until = fleet.now + SignedDuration::from_secs(30);
    let denied = Denied { reason: "window nightly".to_owned(), until: Some(until) };
    fleet.denied = Some(denied);
    fleet.roll_back();
    for _ in 0..29 {
        fleet.run(1);
        let plan = fleet.plan.as_ref().unwrap();
        assert_eq!((&plan.starts, &plan.withdrawals), (&Vec::new(), &Vec::new()));
        assert_eq!(fleet.kinds(), [WaitKind::SyncWindow; 2]);
        assert!(plan.wake_at.is_some_and(|at| at <= until));
    }
    fleet.denied = None;
    fleet.run(20);
    assert_eq!((fleet.deployed("r1"), fleet.status().phase), (2, RunPhase::RolledBack));
}

#[test]
fn a_way_back_needs_no_comparison_with_the_target_as_st_061() {
    let mut fleet = Fleet::new(&[2], json!(null));
    fleet.push("r2");
    fleet.run(20);
    fleet.unreadable = true;
    fleet.run(2);
    fleet.roll_back();
    fleet.run(10);
    assert_eq!(fleet.deployed("r1"), 2);
}

#[test]
fn a_retry_leaves_those_alone_that_are_only_slow_as_st_063() {
    let mut fleet = Fleet::new(&[3], json!(null)).policy(budget(0, "Hold"));
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Fails;
    fleet.apps.get_mut("s1-1").unwrap().fate = Fate::Progresses;
    fleet.run(20);
    assert_eq!(fleet.status().phase, RunPhase::Held);
    retry(&mut fleet, &[]);
    assert_eq!(starts(&mut fleet, 10), ["s1-0"]);
}

#[test]
fn an_empty_gate_waits_for_nobody_as_st_013() {
    let policy = json!({"gates": [
        {"name": "qa", "applications": {"matchLabels": {"env": "qa"}}, "approvals": 1},
    ]});
    let mut fleet = Fleet::new(&[1], json!(null)).policy(policy);
    fleet.push("r2");
    fleet.run(1);
    assert_eq!(fleet.status().gates[0].waiting_since, None);
}

#[test]
fn what_went_back_is_not_healed_for_another_target_as_st_061() {
    let mut fleet = Fleet::new(&[1], json!(null));
    fleet.push("r2");
    fleet.run(20);
    fleet.roll_back();
    fleet.run(80);
    let app = fleet.apps.get_mut("s1-0").unwrap();
    app.spec = "other".to_owned();
    app.observed.has_left_its_hold = true;
    fleet.paused = Some("look at it".to_owned());
    fleet.run(2);
    fleet.abort(false);
    fleet.run(2);
    fleet.paused = None;
    assert_eq!(starts(&mut fleet, 90), [""; 0]);
    assert_eq!(fleet.status().phase, RunPhase::Aborted);
}

/// A gate without a soak waited for people from the first reconcile on.
#[test]
fn a_gate_waits_for_people_when_its_step_is_reached_as_st_011() {
    let one = |name: &str, step: u64| json!({"name": name, "steps": [step], "approvals": 1});
    let policy = json!({"gates": [one("staging", 2), one("production", 3)]});
    let mut fleet = Fleet::new(&[1, 1, 1], json!(null)).policy(policy);
    let waiting = |fleet: &Fleet| -> Vec<String> {
        let gates = fleet.status().gates.iter();
        gates.filter(|gate| gate.waiting_since.is_some()).map(|gate| gate.name.clone()).collect()
    };
    let approve = |fleet: &mut Fleet, name: &str| {
        let gates = &fleet.status().gates;
        let covers = gates.iter().find(|gate| gate.name == name).unwrap().covers.clone();
        let (gate, by) = (name.to_owned(), "ann".to_owned());
        fleet.said(|spec| {
            spec.approvals.push(wavegate_api::run::Approval { gate, by, at: None, covers });
        });
    };
    fleet.push("r2");
    fleet.run(1);
    assert_eq!(waiting(&fleet), [""; 0], "the first step is rolled out");
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), waiting(&fleet)), (1, vec!["staging".to_owned()]));
    approve(&mut fleet, "staging");
    fleet.run(1);
    assert_eq!(waiting(&fleet), [""; 0], "the second step is rolled out");
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), waiting(&fleet)), (2, vec!["production".to_owned()]));
    // A step that is complete without one is complete, although that one is not Healthy.
    let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(gate(1, ""));
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Ignores;
    fleet.run(400);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (0, RunPhase::AwaitingApproval));
    assert_eq!(waiting(&fleet), ["production"]);
}

/// A portal writes times with fractions of a second, which no status keeps: the same word ended
/// the run after each retry.
#[test]
fn a_word_with_fractions_of_a_second_is_acted_on_once_as_st_063() {
    for goes_back in [false, true] {
        let mut fleet = Fleet::new(&[5], json!(1));
        fleet.push("r2");
        fleet.run(6);
        let at = fleet.now + SignedDuration::from_millis(123);
        let (by, at) = ("ann".to_owned(), Some(wavegate_api::Time(at)));
        fleet.said(|spec| match goes_back {
            false => {
                spec.abort = Some(wavegate_api::run::Abort { by, at, terminate: false });
            }
            true => spec.rollback = Some(wavegate_api::run::UserRequest { by, at }),
        });
        fleet.run(60);
        let ended = if goes_back { RunPhase::RolledBack } else { RunPhase::Aborted };
        assert_eq!(fleet.status().phase, ended);
        retry(&mut fleet, &[]);
        fleet.run(60);
        assert_eq!((fleet.deployed("r2"), fleet.status().phase), (5, RunPhase::Complete));
    }
}

/// What it says may be an abort: neither another target nor a rollback goes on.
#[test]
fn a_run_that_cannot_be_read_holds_all_and_stays_as_st_060() {
    for goes_back in [false, true] {
        let mut fleet = Fleet::new(&[2, 1], json!(1));
        fleet.push("r2");
        fleet.run(6);
        match goes_back {
            true => fleet.roll_back(),
            false => fleet.abort(false),
        }
        fleet.run(1);
        fleet.unreadable_run = Some(Unreadable {
            run: "shop-1".to_owned(),
            is_in_status: false,
            field: "approvals[0].at".to_owned(),
            reason: "no time".to_owned(),
        });
        // What runs ends.
        fleet.run(5);
        let before = (fleet.status().clone(), fleet.deployed("r1"), fleet.deployed("r2"));
        fleet.push("r3");
        fleet.run(20);
        let after = (fleet.status().clone(), fleet.deployed("r1"), fleet.deployed("r2"));
        assert_eq!((after, fleet.runs.len()), (before, 1));
        let waiting = &fleet.plan.as_ref().unwrap().waiting;
        assert_eq!(
            waiting[0].message,
            "spec.approvals[0].at of RolloutRun shop-1 cannot be read: kubectl -n argocd edit rolloutrun shop-1 \
             (no time)"
        );
        let kinds = fleet.kinds();
        assert!(kinds.iter().all(|kind| *kind == WaitKind::Unreadable), "{kinds:?}");
        fleet.unreadable_run = None;
        fleet.run(60);
        assert_eq!((fleet.deployed("r3"), fleet.status().phase), (3, RunPhase::Complete));
    }
}
