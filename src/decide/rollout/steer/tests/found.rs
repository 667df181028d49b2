//! What the property test of section 6 (`application_set/tests/rollouts`) has found.

use super::*;
use crate::api::Time;
use crate::api::steering::{Abort, Retry};

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
    let at = Some(Time(fleet.now));
    fleet.said(|spec| spec.abort = Some(Abort { by: "ann".to_owned(), at, terminate: true }));
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
