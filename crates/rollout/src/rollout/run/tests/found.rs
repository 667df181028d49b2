//! What the property test of section 6 (`application_set/tests/rollouts`) has found.

use super::*;
use wavegate_api::Time;
use wavegate_api::run::Retry;

fn retry(fleet: &mut Fleet) {
    let at = Some(Time(fleet.now));
    fleet.said(|spec| {
        spec.retries.push(Retry { by: "bob".to_owned(), at, applications: Vec::new() });
    });
}

#[test]
fn a_retried_application_starts_again_also_after_an_abort_by_failures_as_st_063() {
    for action in ["Abort", "Rollback"] {
        let policy = json!({"failures": {"max": 0, "onFailure": action}});
        let mut fleet = Fleet::new(&[2, 1], json!(null)).policy(policy);
        fleet.push("r2");
        fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Fails;
        fleet.run(30);
        assert!(fleet.status().phase.has_ended(), "{:?}", fleet.status());
        fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Healthy;
        retry(&mut fleet);
        fleet.run(40);
        let end = (fleet.deployed("r2"), fleet.status().phase);
        assert_eq!(end, (3, RunPhase::Complete), "{action}: {:?}", fleet.status());
    }
}

#[test]
fn a_retried_application_counts_against_limits_as_st_030() {
    let policy = json!({"failures": {"max": 9}});
    let mut fleet = Fleet::new(&[6], json!(2)).policy(policy);
    fleet.push("r2");
    fleet.apps.values_mut().for_each(|app| app.fate = Fate::Fails);
    fleet.run(30);
    retry(&mut fleet);
    for _ in 0..30 {
        fleet.run(1);
        let busy = |app: &&App| app.observed.has_operation_in_flight();
        let busy = fleet.apps.values().filter(busy).count();
        assert!(busy <= 2, "{busy} of maxUpdate 2");
    }
}

#[test]
fn a_retry_opens_no_gate_as_st_010() {
    let gates = json!({"gates": [{"name": "production", "steps": [1], "approvals": 1}]});
    let mut fleet = Fleet::new(&[1], json!(null));
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Fails;
    fleet.run(10);
    // It has failed before there was a gate.
    fleet = fleet.policy(gates);
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Healthy;
    retry(&mut fleet);
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (0, RunPhase::AwaitingApproval));
    approve(&mut fleet, "ann");
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (1, RunPhase::Complete));
}

#[test]
fn what_is_terminated_is_terminated_once_as_st_060() {
    let mut fleet = Fleet::new(&[1], json!(null));
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Hangs;
    fleet.run(5);
    fleet.abort(true);
    fleet.reconcile();
    let terminated = |fleet: &Fleet| {
        let run = fleet.plan.as_ref().and_then(|plan| plan.run.as_ref());
        run.map_or(0, |run| run.terminates.len())
    };
    assert_eq!(terminated(&fleet), 1);
    let last = fleet.apps.get_mut("s1-0").unwrap().observed.operation.as_mut().unwrap();
    last.phase = OperationPhase::Terminating;
    fleet.reconcile();
    assert_eq!(terminated(&fleet), 0);
}

#[test]
fn the_name_of_a_deleted_run_is_free_only_for_what_it_has_begun_as_st_006() {
    let names = |fleet: &Fleet| -> Vec<String> {
        fleet.runs.iter().map(|(name, ..)| name.clone()).collect()
    };
    let mut fleet = Fleet::new(&[1, 1], json!(1));
    fleet.push("r2");
    fleet.run(20);
    assert_eq!(names(&fleet), ["shop-1"]);
    // What Applications remember of it does not count for another change.
    fleet.runs.clear();
    fleet.push("r3");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Hangs;
    fleet.run(5);
    assert_eq!(names(&fleet), ["shop-2"], "{:?}", fleet.runs);
    // What it has started of this change, and is under way, does.
    fleet.runs.clear();
    fleet.run(1);
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Healthy;
    fleet.run(20);
    assert_eq!((names(&fleet), fleet.deployed("r3")), (vec!["shop-2".to_owned()], 2));
}

/// When all had been started, nothing began another run: there was no record, no budget for
/// failures, and nothing to abort.
#[test]
fn a_run_that_is_deleted_when_all_of_it_has_started_is_written_again_as_st_006() {
    let mut fleet = Fleet::new(&[2], json!(null)).policy(json!({"failures": {"max": 0}}));
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Hangs;
    fleet.run(5);
    assert!(fleet.apps.values().all(|app| app.started.is_some()));
    fleet.runs.clear();
    fleet.run(3);
    let names: Vec<&str> = fleet.runs.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["shop-1"], "what it has started still counts");
    assert_eq!(fleet.status().phase, RunPhase::Progressing);
    fleet.abort(false);
    fleet.run(2);
    assert_eq!(fleet.status().phase, RunPhase::Aborted);
    let started = fleet.apps["s1-0"].started.clone();
    fleet.run(20);
    assert_eq!(fleet.apps["s1-0"].started, started, "no sync is repeated");
}

#[test]
fn the_ramp_of_a_run_does_not_count_what_a_deleted_one_has_started_as_st_030() {
    let ramp = json!({"pace": {"ramp": {"start": 1, "factor": 2}}});
    let mut fleet = Fleet::new(&[2], json!(null));
    fleet.push("r2");
    fleet.run(20);
    fleet.runs.clear();
    // One of them is compared later than the other.
    fleet.push("r3");
    fleet.apps.get_mut("s1-0").unwrap().head = "r2".to_owned();
    fleet = fleet.policy(ramp);
    fleet.paused = Some("lunch".to_owned());
    fleet.run(3);
    fleet.push("r3");
    fleet.run(3);
    fleet.paused = None;
    for _ in 0..20 {
        fleet.run(1);
        let busy = |app: &&App| app.observed.has_operation_in_flight();
        assert!(fleet.apps.values().filter(busy).count() <= 1, "{:?}", fleet.runs);
    }
    assert_eq!(fleet.deployed("r3"), 2);
}

#[test]
fn a_run_that_could_not_be_recorded_is_recorded_later_as_st_006() {
    let mut fleet = Fleet::new(&[2], json!(1));
    fleet.push("r2");
    fleet.run(2);
    fleet.push("r3");
    let before = fleet.runs.clone();
    while fleet.runs.len() == 1 {
        fleet.run(1);
    }
    // Its creation failed; its Applications were started.
    fleet.runs = before;
    fleet.run(20);
    let phases: Vec<(&str, RunPhase)> =
        fleet.runs.iter().map(|(name, _, status)| (name.as_str(), status.phase)).collect();
    assert_eq!(phases, [("shop-1", RunPhase::Superseded), ("shop-2", RunPhase::Complete)]);
    assert_eq!(fleet.deployed("r3"), 2);
}

#[test]
fn a_run_whose_first_status_was_lost_begins_again_as_st_006() {
    let mut fleet = Fleet::new(&[1], json!(null)).policy(json!({"paused": true}));
    fleet.push("r2");
    fleet.run(3);
    // It was created, and its status was not written.
    fleet.runs[0].2 = RolloutRunStatus::default();
    fleet.run(20);
    assert!(fleet.status().started_at.is_some());
    let paused = fleet.what().iter().filter(|what| **what == "Paused").count();
    assert_eq!(paused, 1, "{:?}", fleet.status().timeline);
}

#[test]
fn a_rollback_of_healthy_applications_waits_for_them_as_st_061() {
    let mut fleet = Fleet::new(&[2], json!(null));
    fleet.push("r2");
    fleet.run(20);
    assert_eq!(fleet.status().phase, RunPhase::Complete);
    fleet.paused = Some("freeze".to_owned());
    fleet.roll_back();
    fleet.run(5);
    let plan = fleet.plan.as_ref().unwrap();
    assert_eq!((plan.open_step, plan.waiting_count), (plan.open_step, 2), "not in silence");
    assert_eq!(fleet.status().phase, RunPhase::RollingBack);
    assert_eq!(fleet.kinds(), [WaitKind::Paused, WaitKind::Paused]);
    fleet.paused = None;
    fleet.run(20);
    assert_eq!((fleet.deployed("r1"), fleet.status().phase), (2, RunPhase::RolledBack));
}

#[test]
fn a_rollback_of_nothing_ends_also_while_paused_as_st_061() {
    let mut fleet = Fleet::new(&[1], json!(null));
    fleet.paused = Some("freeze".to_owned());
    fleet.push("r2");
    fleet.run(3);
    fleet.roll_back();
    fleet.run(3);
    assert_eq!(fleet.status().phase, RunPhase::RolledBack, "{:?}", fleet.status());
}

#[test]
fn a_retried_application_is_in_the_batch_of_its_step_as_st_030() {
    let policy = json!({"failures": {"max": 0}, "pace": {"ramp": {"start": 1, "factor": 1}}});
    let mut fleet = Fleet::new(&[4], json!(null)).policy(policy);
    fleet.push("r2");
    fleet.apps.get_mut("s1-1").unwrap().fate = Fate::Fails;
    fleet.run(20);
    fleet.apps.get_mut("s1-1").unwrap().fate = Fate::Healthy;
    retry(&mut fleet);
    for _ in 0..30 {
        fleet.run(1);
        let busy = |app: &&App| app.observed.has_operation_in_flight();
        let busy = fleet.apps.values().filter(busy).count();
        assert!(busy <= 1, "{busy} of a batch of 1");
    }
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (4, RunPhase::Complete));
}

#[test]
fn what_goes_back_is_waited_for_also_when_it_is_skipped_as_st_061() {
    let mut fleet = Fleet::new(&[1], json!(null));
    fleet.push("r2");
    fleet.run(20);
    fleet.strategy = Fleet::new(&[1], json!(0)).strategy;
    fleet.roll_back();
    fleet.said(|spec| spec.skip = vec!["s1-0".to_owned()]);
    fleet.run(5);
    let wait = &fleet.plan.as_ref().unwrap().waiting[0];
    assert_eq!(wait.kind, WaitKind::RollingBack);
    assert!(wait.message.contains("maxUpdate permits it: 0 of 0"), "{}", wait.message);
}

#[test]
fn what_is_of_no_step_cannot_go_back_as_st_061() {
    let mut fleet = Fleet::new(&[1, 1], json!(null));
    fleet.push("r2");
    fleet.run(20);
    // No step selects those of the second step any more.
    fleet.strategy = Fleet::new(&[1], json!(null)).strategy;
    fleet.roll_back();
    fleet.run(20);
    assert_eq!((fleet.deployed("r1"), fleet.status().phase), (1, RunPhase::RolledBack));
}

#[test]
fn what_was_aborted_is_not_taken_by_the_next_run_because_it_was_skipped_as_st_060() {
    let mut fleet = Fleet::new(&[1, 1], json!(null));
    fleet.push("r2");
    fleet.run(2);
    fleet.said(|spec| spec.skip = vec!["s2-0".to_owned()]);
    fleet.abort(false);
    fleet.run(10);
    assert_eq!(fleet.status().phase, RunPhase::Aborted);
    fleet.apps.get_mut("s1-0").unwrap().head = "r3".to_owned();
    fleet.run(20);
    assert_eq!((fleet.runs.len(), fleet.deployed("r3"), fleet.deployed("r2")), (2, 1, 0));
}

#[test]
fn what_was_aborted_stays_so_when_the_first_status_of_the_next_run_is_lost_as_st_060() {
    let mut fleet = Fleet::new(&[1, 1], json!(null));
    fleet.push("r2");
    fleet.run(2);
    fleet.abort(false);
    fleet.run(10);
    fleet.apps.get_mut("s1-0").unwrap().head = "r3".to_owned();
    while fleet.runs.len() < 2 {
        fleet.run(1);
    }
    fleet.runs[1].2 = RolloutRunStatus::default();
    fleet.run(20);
    assert_eq!((fleet.deployed("r3"), fleet.deployed("r2")), (1, 0));
}

#[test]
fn a_soak_of_an_ended_run_wakes_nobody_as_st_012() {
    let gates = json!({"gates": [
        {"name": "g", "applications": {"matchLabels": {"step": "2"}}, "soak": "30s"},
    ]});
    let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(gates);
    fleet.push("r2");
    // No step selects what is behind the gate, so that the run ends before it opens.
    fleet.strategy = Fleet::new(&[1], json!(null)).strategy;
    fleet.run(60);
    assert_eq!(fleet.status().phase, RunPhase::Complete);
    let wake_at = fleet.plan.as_ref().unwrap().wake_at;
    assert!(wake_at.is_none_or(|at| at > fleet.now), "{wake_at:?} is not after {}", fleet.now);
}

#[test]
fn what_went_back_is_not_complete_by_an_older_comparison_as_st_061() {
    let mut fleet = Fleet::new(&[1], json!(null));
    fleet.ignores_drift = true;
    fleet.push("r2");
    fleet.run(2);
    fleet.roll_back();
    let went_back = |fleet: &Fleet| {
        let app = &fleet.apps["s1-0"];
        let has_ended = app.observed.operation.as_ref().is_some_and(|last| last.has_synced());
        has_ended && app.started.as_ref().is_some_and(|started| started.goes_back)
    };
    while !went_back(&fleet) {
        fleet.act();
        if went_back(&fleet) {
            // It was compared in the second of the end of its sync, and before it.
            let observed = &mut fleet.apps.get_mut("s1-0").unwrap().observed;
            (observed.sync, observed.went_back_just_now) = (SyncStatusCode::Synced, true);
        }
        fleet.now += SignedDuration::from_secs(1);
        fleet.reconcile();
    }
    fleet.apps.get_mut("s1-0").unwrap().observed.went_back_just_now = false;
    fleet.run(5);
    assert_eq!((fleet.deployed("r1"), fleet.status().phase), (1, RunPhase::RolledBack));
    retry(&mut fleet);
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (1, RunPhase::Complete));
}

#[test]
fn a_retry_that_is_read_after_a_persons_sync_but_said_before_it_holds_as_st_065() {
    for (said, is_taken_back) in [(-5, false), (5, true)] {
        let mut fleet = Fleet::new(&[1], json!(null));
        fleet.push("r2");
        fleet.run(20);
        fleet.sync_by_a_person("s1-0");
        let now = fleet.now;
        let at = Some(Time(now + SignedDuration::from_secs(said)));
        // No controller has read it for a while.
        fleet.now += SignedDuration::from_secs(60);
        fleet.said(|spec| {
            let applications = vec!["s1-0".to_owned()];
            spec.retries.push(Retry { by: "bob".to_owned(), at, applications });
        });
        fleet.reconcile();
        fleet.run(2);
        let starts = fleet.apps["s1-0"].started.as_ref().is_some_and(|one| one.at > now);
        assert_eq!(starts, is_taken_back, "said after {said} s: {:?}", fleet.kinds());
    }
}

#[test]
fn an_application_that_is_retried_closes_later_steps_again_as_st_063() {
    let mut fleet = Fleet::new(&[1, 2], json!(1));
    fleet.push("r2");
    fleet.apps.get_mut("s2-0").unwrap().fate = Fate::Hangs;
    fleet.run(10);
    // Healthy before, and not any more.
    fleet.apps.get_mut("s1-0").unwrap().observed.health = HealthStatus::Degraded;
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Hangs;
    fleet.reconcile();
    retry(&mut fleet);
    fleet.apps.get_mut("s2-0").unwrap().fate = Fate::Healthy;
    fleet.run(20);
    let requested = |name: &str| fleet.apps[name].started.as_ref().map(|one| &*one.run);
    assert_eq!(requested("s1-0"), Some("shop-1"));
    assert_eq!(requested("s2-1"), None, "its step has closed: {:?}", fleet.status());
}

#[test]
fn a_retry_of_one_in_an_aborted_run_begins_another_at_once_as_st_063() {
    let gate = json!({"gates": [{"name": "calm", "steps": [1], "soak": "5s"}]});
    let mut fleet = Fleet::new(&[2], json!(1)).policy(gate);
    fleet.push("r2");
    fleet.run(2);
    fleet.abort(false);
    fleet.run(2);
    assert_eq!(fleet.status().phase, RunPhase::Aborted);
    let at = Some(Time(fleet.now));
    fleet.said(|spec| {
        let applications = vec!["s1-1".to_owned()];
        spec.retries.push(Retry { by: "bob".to_owned(), at, applications });
    });
    fleet.reconcile();
    let wake = fleet.plan.as_ref().unwrap().wake_at.unwrap();
    assert_eq!(wake.duration_since(fleet.now), SignedDuration::from_secs(1));
    fleet.run(1);
    assert_eq!((fleet.runs.len(), fleet.status().phase), (2, RunPhase::Soaking));
    fleet.run(20);
    assert_eq!(fleet.apps["s1-1"].deployed, "r2", "{:?}", fleet.runs);
    assert_eq!(fleet.apps["s1-0"].deployed, "r1", "its target stays aborted");
}

/// Found by simulated fleets: somebody changes what a sync of the rollout has just deployed.
#[test]
fn a_retry_that_names_it_starts_an_application_again_that_drifted_before_it_was_healthy_as_st_063()
{
    let mut fleet = Fleet::new(&[1], json!(null));
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Progresses;
    fleet.run(5);
    let app = fleet.apps.get_mut("s1-0").unwrap();
    app.fate = Fate::Healthy;
    app.deployed = "drift".to_owned();
    app.observed.health = HealthStatus::Healthy;
    // One of all that has failed is not about it.
    retry(&mut fleet);
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (0, RunPhase::Progressing));
    let at = Some(Time(fleet.now));
    fleet.said(|spec| {
        let applications = vec!["s1-0".to_owned()];
        spec.retries.push(Retry { by: "bob".to_owned(), at, applications });
    });
    fleet.run(10);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (1, RunPhase::Complete));
}

/// Found by simulated fleets: the controller started again while a role was broken.
#[test]
fn a_gate_whose_policy_or_run_cannot_be_read_stays_shut_as_st_006() {
    let gates = json!({"gates": [{"name": "production", "steps": [2], "approvals": 1}]});
    for loses_policies in [true, false] {
        let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(gates.clone());
        fleet.push("r2");
        fleet.run(10);
        assert_eq!(fleet.status().phase, RunPhase::AwaitingApproval);
        let policies = fleet.policies.clone();
        match loses_policies {
            true => {
                fleet.policies.clear();
                fleet.hides_policies = true;
            }
            false => fleet.records_runs = false,
        }
        fleet.run(20);
        let plan = fleet.decide();
        let kinds: Vec<WaitKind> = plan.waiting.iter().map(|wait| wait.kind).collect();
        assert_eq!((fleet.deployed("r2"), &*kinds), (1, &[WaitKind::Unreadable][..]));
        (fleet.policies, fleet.hides_policies, fleet.records_runs) = (policies, false, true);
        fleet.run(5);
        assert_eq!(fleet.status().phase, RunPhase::AwaitingApproval);
        approve(&mut fleet, "ann");
        fleet.run(20);
        assert_eq!((fleet.deployed("r2"), fleet.status().phase), (2, RunPhase::Complete));
    }
}

/// Found by simulated fleets: a second replica led, which might not read the policies.
#[test]
fn no_limit_of_a_policy_is_lifted_while_it_cannot_be_read_as_st_006() {
    for policy in [json!({"failures": {"max": 1}}), json!({"maxInFlight": 1})] {
        let mut fleet = Fleet::new(&[1, 1, 1], json!(null)).policy(policy);
        fleet.push("r2");
        fleet.run(3);
        let policies = std::mem::take(&mut fleet.policies);
        assert_eq!((fleet.status().policies.len(), fleet.deployed("r2")), (1, 1));
        fleet.hides_policies = true;
        fleet.run(20);
        let kinds: Vec<WaitKind> = fleet.decide().waiting.iter().map(|wait| wait.kind).collect();
        // The second one had begun.
        assert_eq!((fleet.deployed("r2"), &*kinds), (2, &[WaitKind::Unreadable][..]));
        (fleet.policies, fleet.hides_policies) = (policies, false);
        fleet.run(20);
        assert_eq!((fleet.deployed("r2"), fleet.status().phase), (3, RunPhase::Complete));
    }
}

/// Found by simulated fleets: a commit came after the start of a controller that might not read
/// the policies.
#[test]
fn no_limit_is_lifted_for_the_next_run_while_policies_cannot_be_read_as_st_006() {
    for ends_first in [true, false] {
        for loses_status in [true, false] {
            let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(json!({"maxInFlight": 1}));
            fleet.push("r2");
            fleet.run(if ends_first { 20 } else { 3 });
            let is_first_complete = fleet.status().phase == RunPhase::Complete;
            assert_eq!(is_first_complete, ends_first);
            let policies = std::mem::take(&mut fleet.policies);
            fleet.hides_policies = true;
            fleet.push("r3");
            while fleet.runs.len() < 2 {
                fleet.run(1);
            }
            if loses_status {
                fleet.runs[1].2 = RolloutRunStatus::default();
            }
            fleet.run(20);
            let plan = fleet.decide();
            let kinds: Vec<WaitKind> = plan.waiting.iter().map(|wait| wait.kind).collect();
            assert_eq!((fleet.deployed("r3"), &*kinds), (0, &[WaitKind::Unreadable][..]));
            (fleet.policies, fleet.hides_policies) = (policies, false);
            fleet.run(20);
            assert_eq!((fleet.deployed("r3"), fleet.status().phase), (2, RunPhase::Complete));
        }
    }
}

/// A controller that starts without a permission does not see what holds, and knows that it does
/// not: nothing goes on that a policy may hold, in a run that has ended or goes back either.
#[test]
fn hidden_policies_hold_what_has_drifted_and_what_goes_back_as_st_006() {
    let mut fleet = Fleet::new(&[2, 2], json!(null)).policy(json!({"maxInFlight": 1}));
    fleet.push("r2");
    fleet.run(40);
    assert_eq!(fleet.status().phase, RunPhase::Complete);
    let policies = std::mem::take(&mut fleet.policies);
    fleet.hides_policies = true;
    for app in fleet.apps.values_mut() {
        app.deployed = "drift".to_owned();
    }
    fleet.run(20);
    assert_eq!((fleet.deployed("drift"), fleet.in_flight()), (4, 0));
    assert!(fleet.kinds().iter().all(|kind| *kind == WaitKind::Unreadable), "{:?}", fleet.kinds());
    fleet.policies = policies.clone();
    fleet.hides_policies = false;
    fleet.run(40);
    assert_eq!(fleet.deployed("r2"), 4);

    fleet.push("r3");
    fleet.run(6);
    fleet.roll_back();
    fleet.run(1);
    fleet.policies.clear();
    fleet.hides_policies = true;
    // The operation that runs ends.
    fleet.run(5);
    let deployed = fleet.deployed("r2");
    fleet.run(20);
    assert_eq!((fleet.status().phase, fleet.deployed("r2")), (RunPhase::RollingBack, deployed));
    assert!(deployed < 4, "{deployed}");
    (fleet.policies, fleet.hides_policies) = (policies, false);
    fleet.run(40);
    assert_eq!((fleet.status().phase, fleet.deployed("r2")), (RunPhase::RolledBack, 4));
}

/// Without its definition there can be no policy: what was recorded of it holds nothing.
#[test]
fn policies_whose_definition_is_gone_hold_nothing_as_st_006() {
    let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(json!({"paused": true}));
    fleet.push("r2");
    fleet.run(10);
    assert_eq!((fleet.deployed("r2"), fleet.status().policies.len()), (0, 1));
    fleet.policies.clear();
    fleet.hides_policies = true;
    fleet.run(10);
    assert_eq!(fleet.deployed("r2"), 0);
    fleet.hides_policies = false;
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.status().policies.len()), (2, 0));
}

/// A run that cannot be read may have been aborted, and without it no failures are counted.
#[test]
fn hidden_runs_hold_what_they_may_have_aborted_as_st_006() {
    let mut fleet = Fleet::new(&[1, 1], json!(null));
    fleet.push("r2");
    fleet.run(2);
    fleet.abort(false);
    fleet.run(10);
    assert_eq!(fleet.status().phase, RunPhase::Aborted);
    let deployed = fleet.deployed("r2");
    let runs = std::mem::take(&mut fleet.runs);
    (fleet.records_runs, fleet.hides_runs) = (false, true);
    for _ in 0..30 {
        fleet.act();
        fleet.now += SignedDuration::from_secs(1);
        fleet.reconcile();
    }
    assert_eq!(fleet.deployed("r2"), deployed, "an aborted target is not promoted to");
    assert!(fleet.kinds().contains(&WaitKind::Unreadable), "{:?}", fleet.kinds());
    // Without the definition, no run says anything.
    fleet.hides_runs = false;
    let plan = fleet.decide();
    assert!(plan.waiting.iter().all(|wait| wait.kind != WaitKind::Unreadable));
    (fleet.runs, fleet.records_runs) = (runs, true);
    fleet.run(10);
    assert_eq!(fleet.deployed("r2"), deployed);

    let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(json!({"failures": {"max": 0}}));
    fleet.records_runs = false;
    fleet.push("r2");
    for _ in 0..10 {
        fleet.act();
        fleet.reconcile();
    }
    assert_eq!((fleet.deployed("r2"), fleet.kinds()), (0, vec![WaitKind::Unreadable]));
}

/// The policy that cannot be read may have a deadline: until then, none that does not start
/// becomes Healthy by a timeout.
#[test]
fn no_timeout_passes_what_does_not_start_while_policies_are_hidden_as_st_040() {
    let mut fleet =
        Fleet::new(&[1, 1], json!(null)).policy(json!({"failures": {"deadline": "1h"}}));
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Ignores;
    fleet.run(5);
    let policies = std::mem::take(&mut fleet.policies);
    fleet.hides_policies = true;
    fleet.run(400);
    (fleet.policies, fleet.hides_policies) = (policies, false);
    fleet.run(20);
    assert_eq!(fleet.deployed("r2"), 0, "the second step does not open");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Healthy;
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (2, RunPhase::Complete));
}

/// Found by simulated fleets: one went back while another one of the step was still in flight.
#[test]
fn what_is_in_flight_goes_back_first_within_the_limit_as_st_061() {
    let mut fleet = Fleet::new(&[2], json!(1));
    fleet.push("r2");
    fleet.apps.get_mut("s1-1").unwrap().fate = Fate::Progresses;
    fleet.run(12);
    assert_eq!(fleet.deployed("r2"), 2);
    fleet.roll_back();
    let mut most = 0;
    for _ in 0..30 {
        fleet.run(1);
        let is_unsettled = |app: &&App| {
            app.observed.has_operation_in_flight() || app.observed.health != HealthStatus::Healthy
        };
        most = most.max(fleet.apps.values().filter(is_unsettled).count());
    }
    assert_eq!((most, fleet.status().phase), (1, RunPhase::RolledBack));
}

#[test]
fn a_skipped_application_that_drifts_after_its_run_is_not_waiting_in_silence_as_st_064() {
    let mut fleet = Fleet::new(&[2], json!(null));
    fleet.push("r2");
    fleet.run(2);
    fleet.said(|spec| spec.skip = vec!["s1-0".to_owned()]);
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (2, RunPhase::Complete));
    assert!(fleet.kinds().is_empty(), "it is in sync: {:?}", fleet.plan);
    fleet.apps.get_mut("s1-0").unwrap().deployed = "r1".to_owned();
    fleet.run(20);
    assert_eq!(fleet.deployed("r2"), 1, "the run still skips it");
    let plan = fleet.plan.as_ref().unwrap();
    assert_eq!((plan.open_step, plan.waiting_count, plan.stalled.len()), (None, 1, 0));
    assert_eq!(plan.waiting[0].application, "s1-0");
    assert_eq!(plan.waiting[0].message, "run shop-1 skips it");
    assert_eq!(fleet.kinds(), [WaitKind::Skipped]);
    assert_eq!(fleet.status().phase, RunPhase::Complete, "the run stays over");
    // The next run takes it again.
    fleet.push("r3");
    fleet.run(30);
    assert_eq!((fleet.deployed("r3"), fleet.status().phase), (2, RunPhase::Complete));
    assert!(fleet.kinds().is_empty());
}

#[test]
fn a_promotion_that_is_not_written_keeps_its_place_as_st_030() {
    let mut fleet = Fleet::new(&[3], json!(null));
    fleet.pools = vec![Pool {
        policy: "p".to_owned(),
        max: 3,
        elsewhere: 1,
        users: vec![("other".to_owned(), 1)],
        reserved: 0,
        waiting: 0,
    }];
    fleet.push("r2");
    fleet.run(1);
    assert_eq!(fleet.plan.as_ref().unwrap().starts.len(), 2);
    // Killed before it knew whether the operations were written, while another set waits.
    for app in fleet.apps.values_mut() {
        app.observed.requested = None;
        app.started = None;
    }
    fleet.pools[0].reserved = 1;
    let plan = fleet.decide();
    let pending = plan.entries.iter().filter(|entry| entry.phase == Phase::Pending).count();
    assert_eq!((pending, plan.in_flight, plan.starts.len()), (2, 2, 2), "{:?}", plan.entries);
    // What exceeds the limit goes back.
    fleet.pools[0].elsewhere = 2;
    let plan = fleet.decide();
    assert_eq!((plan.in_flight, plan.starts.len()), (1, 1), "{:?}", plan.entries);
}
