//! What a run says of itself: who is waited for, when time ends a wait, and what it is complete
//! without.

use super::*;
use crate::application_set::status::findings::rollout_message;

/// A person was asked only when the soak of another gate was over, which stood first in the policy.
#[test]
fn a_missing_approval_is_asked_for_at_once_in_any_order_of_gates_as_st_004() {
    let soak = json!({"name": "slow", "steps": [2], "soak": "40s"});
    let approval = json!({"name": "ok", "steps": [2], "approvals": 1});
    for gates in [[&soak, &approval], [&approval, &soak]] {
        let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(json!({ "gates": gates }));
        fleet.push("r2");
        fleet.run(10);
        assert_eq!(fleet.status().phase, RunPhase::AwaitingApproval, "{gates:?}");
        assert_eq!(fleet.kinds(), [WaitKind::Approval], "{gates:?}");
        assert!(fleet.what().contains(&"AwaitingApproval"), "{gates:?}");
        assert!(fleet.status().message.contains("1 of 1 approvals missing"), "{gates:?}");
        // The soak goes on meanwhile, and its end is a timer.
        let until = fleet.status().gates.iter().find_map(|gate| gate.soaks_until.clone()).unwrap();
        assert_eq!(fleet.plan.as_ref().unwrap().wake_at.map(|at| at <= until.0), Some(true));
        fleet.run(50);
        let gate = fleet.status().gates.iter().find(|gate| gate.name == "ok").cloned().unwrap();
        let approval = json!({"gate": "ok", "by": "ann", "covers": gate.covers});
        fleet.said(|spec| spec.approvals.push(serde_json::from_value(approval).unwrap()));
        fleet.run(10);
        assert_eq!(fleet.status().phase, RunPhase::Complete, "{gates:?}");
        assert_eq!(fleet.status().estimate, None, "it has ended");
    }
}

/// It was noticed at the next poll, and an Application that hangs was one that waits.
#[test]
fn a_deadline_is_a_timer_that_is_shown_before_and_named_after_as_st_040() {
    let policy = json!({"failures": {"max": 0, "deadline": "7s", "onFailure": "Hold"}});
    let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(policy);
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Progresses;
    fleet.push("r2");
    fleet.run(4);
    let started = fleet.apps["s1-0"].started.as_ref().unwrap().at;
    let deadline = started + SignedDuration::from_secs(7);
    let plan = fleet.plan.clone().unwrap();
    assert_eq!(plan.wake_at, Some(deadline));
    assert_eq!((plan.waiting[0].kind, plan.waiting[0].until), (WaitKind::Health, Some(deadline)));
    fleet.now = deadline;
    fleet.reconcile();
    assert_eq!(fleet.status().phase, RunPhase::Held);
    let plan = fleet.plan.clone().unwrap();
    let wait = &plan.waiting[0];
    assert_eq!((wait.kind, wait.until), (WaitKind::Deadline, None));
    assert!(wait.message.starts_with("failed by its deadline of 7s: "), "{}", wait.message);
    assert_eq!(fleet.status().failures[0].message, wait.message);
    // It may recover by itself.
    let app = fleet.apps.get_mut("s1-0").unwrap();
    app.observed.health = HealthStatus::Healthy;
    fleet.run(20);
    assert_eq!(fleet.status().phase, RunPhase::Complete);
    assert!(fleet.what().contains(&"Recovered"), "{:?}", fleet.what());
}

/// More failures than the budget permits were "within the budget", in silence.
#[test]
fn a_budget_that_only_reports_says_so_as_st_042() {
    let policy = json!({"failures": {"max": 1, "onFailure": "Continue"}});
    let mut fleet = Fleet::new(&[4, 1], json!(null)).policy(policy);
    for name in ["s1-0", "s1-1", "s1-2"] {
        fleet.apps.get_mut(name).unwrap().fate = Fate::Fails;
    }
    fleet.push("r2");
    fleet.run(30);
    let status = fleet.status().clone();
    let want = "3 failed, more than 1 (failure budget of policy p0)";
    assert_eq!((status.phase, status.message.as_str()), (RunPhase::CompleteWithFailures, want));
    assert_eq!((status.progress.as_str(), status.failed), ("2/5", 3));
    let said: Vec<&str> = status
        .timeline
        .iter()
        .filter(|entry| entry.what == "BudgetExceeded")
        .map(|entry| entry.message.as_str())
        .collect();
    assert!(matches!(said.as_slice(), [one] if one.ends_with("; going on")), "{said:?}");
    let message = rollout_message(fleet.plan.as_ref().unwrap());
    assert_eq!(message, "all 2 steps are complete; 3 failed: s1-0, s1-1, s1-2");
}

/// A run without a skipped, broken Application was complete with all of them.
#[test]
fn a_run_says_what_it_is_complete_without_as_st_064() {
    let mut fleet = Fleet::new(&[2, 1], json!(null));
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Degraded;
    fleet.push("r2");
    fleet.run(10);
    fleet.said(|spec| spec.skip.push("s1-0".to_owned()));
    fleet.run(20);
    let status = fleet.status().clone();
    assert_eq!((status.phase, status.message.as_str()), (RunPhase::Complete, "1 skipped: s1-0"));
    assert_eq!((status.progress.as_str(), status.steps[0].done), ("2/3", 1));
    assert!(status.steps[0].completed_at.is_some(), "the step does not wait for it");
    let plan = fleet.plan.clone().unwrap();
    assert!(plan.left_out.is_unhealthy);
    assert!(rollout_message(&plan).starts_with("all 2 steps are complete; 1 skipped: s1-0"));
    // It recovers, and nothing is left out any more.
    fleet.apps.get_mut("s1-0").unwrap().observed.health = HealthStatus::Healthy;
    fleet.run(3);
    assert_eq!(rollout_message(fleet.plan.as_ref().unwrap()), "all 2 steps are complete");
}

/// One that failed within the budget holds no soak, and who approves reads its name.
#[test]
fn who_approves_knows_what_failed_before_as_st_010() {
    let policy = json!({
        "gates": [{"name": "production", "steps": [2], "approvals": 1, "soak": "5s"}],
        "failures": {"max": 1},
    });
    let mut fleet = Fleet::new(&[2, 1], json!(null)).policy(policy);
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Degraded;
    fleet.push("r2");
    fleet.run(30);
    let status = fleet.status();
    assert_eq!(status.phase, RunPhase::AwaitingApproval);
    assert!(status.gates[0].waiting_since.is_some(), "its soak is over: {:?}", status.gates);
    assert!(status.message.contains("1 of 1 approvals missing; 1 failed: s1-0"), "{status:?}");
}

/// What went back said for good that it waits to be Synced.
#[test]
fn what_went_back_says_that_it_stays_as_st_061() {
    let mut fleet = Fleet::new(&[2], json!(1));
    fleet.push("r2");
    fleet.run(30);
    fleet.roll_back();
    fleet.run(40);
    assert_eq!(fleet.status().phase, RunPhase::RolledBack);
    for app in fleet.apps.values() {
        let entry = app.entry.as_ref().unwrap();
        assert!(entry.message.starts_with("it is held at r1 after a rollback"), "{entry:?}");
    }
    fleet.retry();
    fleet.run(40);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (2, RunPhase::Complete));
}

/// A retry in the second in which its Application had started was acknowledged and lost.
#[test]
fn a_retry_counts_in_the_second_of_the_start_as_st_063() {
    let policy = json!({"failures": {"max": 0, "onFailure": "Hold"}});
    let mut fleet = Fleet::new(&[2], json!(1)).policy(policy);
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Fails;
    fleet.push("r2");
    fleet.run(1);
    let promotions = |fleet: &Fleet| {
        let app = &fleet.apps["s1-0"];
        let last = app.observed.operation.as_ref().and_then(|last| last.promotion);
        (app.started.as_ref().map(|started| started.at), last)
    };
    let mut known = Vec::new();
    for round in 0..4 {
        // All of it in one second: it starts, fails, and is retried.
        for _ in 0..4 {
            fleet.act();
            fleet.reconcile();
        }
        let (started, promotion) = promotions(&fleet);
        assert_eq!(started, promotion, "round {round}");
        assert!(!known.contains(&started), "round {round}: {started:?} of {known:?}");
        assert_eq!(fleet.status().phase, RunPhase::Held, "round {round}");
        known.push(started);
        // Each once: without another retry, nothing starts.
        for _ in 0..3 {
            fleet.act();
            fleet.reconcile();
        }
        assert_eq!(promotions(&fleet), (started, promotion), "round {round}");
        let at = Some(wavegate_api::Time(fleet.now));
        let by = format!("ann-{round}");
        let retry = wavegate_api::run::Retry { by, at, applications: Vec::new() };
        fleet.said(|spec| spec.retries.push(retry));
        fleet.reconcile();
    }
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Healthy;
    fleet.run(30);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (2, RunPhase::Complete));
    // It counts for what had failed before, and for nothing that starts after it.
    assert!(fleet.apps["s1-1"].started.as_ref().unwrap().at > known.last().unwrap().unwrap());
}

#[test]
fn no_time_is_estimated_for_what_people_end_as_st_083() {
    let policy = json!({"failures": {"max": 0, "onFailure": "Hold"}});
    let mut fleet = Fleet::new(&[2, 2], json!(1)).policy(policy);
    fleet.push("r2");
    fleet.run(60);
    fleet.push("r3");
    fleet.run(3);
    assert!(fleet.status().estimate.is_some());
    fleet.apps.get_mut("s1-1").unwrap().fate = Fate::Fails;
    fleet.run(20);
    assert_eq!((fleet.status().phase, fleet.status().estimate.clone()), (RunPhase::Held, None));
    // Nor for one that a person holds.
    let mut fleet = Fleet::new(&[1, 1], json!(null));
    fleet.push("r2");
    fleet.run(60);
    fleet.apps.get_mut("s2-0").unwrap().fate = Fate::Progresses;
    fleet.push("r3");
    fleet.run(10);
    assert!(fleet.status().estimate.is_some());
    fleet.sync_by_a_person("s1-0");
    fleet.run(3);
    assert_eq!(fleet.kinds(), [WaitKind::HeldByPerson]);
    assert_eq!(fleet.status().estimate, None);
}

/// The longer of both was said, so that the gate opened when nothing should have been left.
#[test]
fn a_new_soak_and_its_step_add_up_as_st_083() {
    let mut fleet = Fleet::new(&[1, 4], json!(1));
    fleet.push("r2");
    fleet.run(90);
    let took = {
        let step = &fleet.status().steps[1];
        let (from, to) = (step.opened_at.clone().unwrap(), step.completed_at.clone().unwrap());
        to.0.duration_since(from.0).as_secs()
    };
    assert!(took >= 8, "{took}");
    let soak = json!({"gates": [{"name": "production", "steps": [2], "soak": "60s"}]});
    let mut fleet = fleet.policy(soak);
    fleet.push("r3");
    fleet.run(2);
    // Before the soak has begun, all of it is left.
    let before = fleet.status().estimate.clone().unwrap().most_seconds;
    assert!(before >= 60 + took, "{before}");
    fleet.run(10);
    assert_eq!(fleet.status().phase, RunPhase::Soaking);
    let until = fleet.status().gates[0].soaks_until.clone().unwrap();
    let soak = until.0.duration_since(fleet.now).as_secs();
    let estimate = fleet.status().estimate.clone().unwrap();
    assert_eq!(estimate.most_seconds, soak + took, "{estimate:?}");
    fleet.run(usize::try_from(soak).unwrap() + 3);
    let estimate = fleet.status().estimate.clone().unwrap();
    assert!((took - 4..=took).contains(&estimate.most_seconds), "{estimate:?} of {took}");
    fleet.run(60);
    assert_eq!(fleet.status().phase, RunPhase::Complete);
    // The soak of an earlier run is not counted twice.
    fleet.push("r4");
    fleet.run(12);
    let until = fleet.status().gates[0].soaks_until.clone().unwrap();
    let soak = until.0.duration_since(fleet.now).as_secs();
    let estimate = fleet.status().estimate.clone().unwrap();
    assert!(estimate.most_seconds <= soak + took + 2, "{estimate:?}");
}

/// A soak that begins again was not in the timeline.
#[test]
fn a_soak_that_begins_again_is_a_transition_as_st_012() {
    let policy = json!({"gates": [{"name": "production", "steps": [2], "soak": "1h"}]});
    let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(policy);
    fleet.push("r2");
    fleet.run(10);
    fleet.apps.get_mut("s1-0").unwrap().observed.health = HealthStatus::Progressing;
    fleet.run(1);
    assert_eq!(fleet.what().iter().filter(|what| **what == "SoakRestarted").count(), 1);
    fleet.apps.get_mut("s1-0").unwrap().observed.health = HealthStatus::Healthy;
    fleet.run(5);
    assert_eq!(fleet.what().iter().filter(|what| **what == "SoakRestarted").count(), 1);
}

/// The places of its own were not said, so that nobody seemed to have them.
#[test]
fn who_waits_for_a_shared_limit_says_who_has_it_as_st_030() {
    let mut fleet = Fleet::new(&[4], json!(null)).policy(json!({"pace": {"maxInFlight": 3}}));
    let pool = |elsewhere: u64, users: &[(&str, u64)]| Pool {
        policy: "p0".to_owned(),
        max: 3,
        elsewhere,
        users: users.iter().map(|(set, count)| ((*set).to_owned(), *count)).collect(),
        reserved: 0,
        waiting: 0,
    };
    fleet.pools = vec![pool(1, &[("blue", 1)])];
    fleet.push("r2");
    fleet.run(2);
    let said = |fleet: &Fleet| {
        let plan = fleet.plan.as_ref().unwrap();
        let wait = plan.waiting.iter().find(|wait| wait.kind == WaitKind::MaxInFlight);
        wait.map(|wait| wait.message.clone()).unwrap_or_default()
    };
    let want = "3 of 3 are in flight in all sets of policy p0: 2 of shop, 1 of blue";
    assert_eq!(said(&fleet), want);
}
