//! Decisions whose moment matters: what must be stored before anything is done, when a deadline
//! counts, and where one stands that a person has synced while its run goes back.

use super::*;

/// Whether the last decision must be stored before anything is written.
fn must_be_stored(fleet: &Fleet) -> bool {
    let run = fleet.plan.as_ref().unwrap().run.as_ref();
    run.is_some_and(|run| run.must_be_stored)
}

/// The word of a person acts once. That is known only when it is stored.
#[test]
fn the_word_of_a_person_is_stored_before_it_acts_as_st_006() {
    let mut fleet = Fleet::new(&[1, 8], json!(1)).policy(gate(1, ""));
    fleet.push("r2");
    for _ in 0..10 {
        fleet.run(1);
        assert!(!must_be_stored(&fleet), "{:?}", fleet.status());
    }
    approve(&mut fleet, "ann");
    fleet.run(1);
    assert!(must_be_stored(&fleet), "the gate opens");
    for _ in 0..4 {
        fleet.run(1);
        assert!(!must_be_stored(&fleet), "it was open: {:?}", fleet.status());
    }
    assert_eq!(fleet.status().phase, RunPhase::Progressing);
    fleet.abort(false);
    fleet.run(1);
    assert!(must_be_stored(&fleet), "it is aborted");
    fleet.run(1);
    assert!(!must_be_stored(&fleet));
    fleet.retry();
    fleet.run(1);
    assert!(must_be_stored(&fleet), "it is retried");
}

/// ST-061: a way back by failures is decided without a word of a person.
#[test]
fn a_way_back_is_stored_before_it_begins_as_st_061() {
    let policy = json!({"failures": {"max": 0, "onFailure": "Rollback"}});
    let mut fleet = Fleet::new(&[1, 2], json!(1)).policy(policy);
    fleet.apps.get_mut("s2-0").unwrap().fate = Fate::Degraded;
    fleet.push("r2");
    let mut before = RunPhase::Progressing;
    for _ in 0..40 {
        fleet.run(1);
        let phase = fleet.status().phase;
        let begins = phase == RunPhase::RollingBack && before != phase;
        let ends = phase == RunPhase::RolledBack && before != phase;
        if begins || !ends {
            assert_eq!(must_be_stored(&fleet), begins, "{before:?} {phase:?}");
        }
        before = phase;
    }
    assert_eq!(before, RunPhase::RolledBack);
}

/// ST-061: one that a person has synced is back when it is Healthy at its last good revisions.
#[test]
fn where_one_stands_that_a_person_has_synced_as_st_061() {
    for (name, revision, health, compared, message) in [
        ("back", "r1", HealthStatus::Healthy, true, "2 of 2 are back"),
        ("not compared yet", "r1", HealthStatus::Healthy, false, "1 of 2 are back"),
        ("not Healthy yet", "r1", HealthStatus::Progressing, true, "1 of 2 are back"),
        ("something else", "r0", HealthStatus::Healthy, true, "1 of 1 is back;"),
        ("something else", "r0", HealthStatus::Progressing, true, "1 of 1 is back;"),
        ("Degraded", "r1", HealthStatus::Degraded, true, "1 of 1 is back;"),
    ] {
        let mut fleet = Fleet::new(&[2], json!(null));
        fleet.push("r2");
        fleet.run(30);
        fleet.sync_by_a_person("s1-0");
        fleet.run(3);
        assert_eq!(fleet.kinds(), [WaitKind::HeldByPerson], "{name}");
        fleet.roll_back();
        for _ in 0..30 {
            fleet.act();
            let now = wavegate_api::time::stored_time(fleet.now);
            let app = fleet.apps.get_mut("s1-0").unwrap();
            app.observed.deployed = Deployed::At(now, vec![revision.to_owned()]);
            app.observed.health = health;
            let after = SignedDuration::from_secs(if compared { 1 } else { -60 });
            let ended = app.observed.operation.as_ref().unwrap().finished_at.unwrap();
            app.observed.reconciled_at = Some(ended + after);
            fleet.now += SignedDuration::from_secs(1);
            fleet.reconcile();
        }
        let found = &fleet.status().message;
        assert!(found.starts_with(message), "{name}: {found}");
        let is_over = message.starts_with("2 of 2") || message.starts_with("1 of 1");
        let phase = if is_over { RunPhase::RolledBack } else { RunPhase::RollingBack };
        assert_eq!(fleet.status().phase, phase, "{name}: {found}");
    }
}

/// ST-062: a way back that has failed is retried when its step has its turn again.
#[test]
fn a_failed_way_back_waits_for_later_steps_as_st_062() {
    let mut fleet = Fleet::new(&[1, 1], json!(null));
    fleet.push("r2");
    fleet.run(30);
    fleet.apps.get_mut("s1-0").unwrap().fails_at = Some("r1".to_owned());
    fleet.roll_back();
    fleet.run(20);
    let wait = |fleet: &Fleet| {
        let plan = fleet.plan.as_ref().unwrap();
        let own = plan.waiting.iter().find(|wait| wait.application == "s1-0").unwrap();
        (own.kind, own.message.clone())
    };
    assert_eq!(wait(&fleet).0, WaitKind::RollbackFailed);
    // The one behind it is not Healthy any more.
    fleet.apps.get_mut("s2-0").unwrap().observed.health = HealthStatus::Progressing;
    fleet.run(1);
    let (kind, message) = wait(&fleet);
    assert_eq!(kind, WaitKind::RollingBack, "{message}");
    assert!(message.contains("after the Applications of the later steps"), "{message}");
}

/// AS-603: what goes back to Waiting while a run holds it has a cause of its own, but not what has
/// a new revision then.
#[test]
fn a_transition_of_what_is_held_has_its_own_cause_as_603() {
    let mut fleet = Fleet::new(&[2], json!(1));
    fleet.apps.values_mut().for_each(|app| app.fate = Fate::Ignores);
    let causes = |fleet: &Fleet| -> Vec<(String, Phase, &'static str)> {
        let plan = fleet.plan.as_ref().unwrap();
        let of = |one: &crate::rollout::Transition| (one.application.clone(), one.to, one.cause);
        plan.transitions.iter().map(of).collect()
    };
    fleet.paused = Some("lunch".to_owned());
    fleet.push("r2");
    fleet.run(1);
    let renewed = |name: &str| (name.to_owned(), Phase::Waiting, "NewRevision");
    assert_eq!(causes(&fleet), [renewed("s1-0"), renewed("s1-1")]);
    fleet.paused = None;
    fleet.run(1);
    assert_eq!(causes(&fleet), [("s1-0".to_owned(), Phase::Pending, "StepOpened")]);
    // Its request is lost, so that nothing of it has begun.
    fleet.apps.get_mut("s1-0").unwrap().observed.requested = None;
    fleet.abort(false);
    fleet.reconcile();
    assert_eq!(causes(&fleet), [("s1-0".to_owned(), Phase::Waiting, "Held")]);
}
