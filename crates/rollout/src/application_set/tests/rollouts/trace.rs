//! The example of the specification (A.15), with 22 Applications, and single situations of
//! its section 5 that need an exact order of events.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::super::DecisionSettings;
use super::spec::{Element, Spec, Step};
use super::world::{Fault, World};
use crate::rollout::phase::Phase::{self, Healthy, Pending, Progressing, Waiting};

/// A set of Applications with the number of their step, and the limits of the steps.
pub(super) fn world(elements: Vec<(String, usize)>, limits: &[Value]) -> World {
    let element = |label| Element { label, path: 1, automated: None };
    let step = |(at, limit): (usize, &Value)| Step {
        values: vec![at + 1],
        selects_none: false,
        limit: limit.clone(),
    };
    let spec = Spec {
        rolling: true,
        steps: limits.iter().enumerate().map(step).collect(),
        reverse: false,
        policy: "sync",
        elements: elements.into_iter().map(|(name, label)| (name, element(label))).collect(),
        invalid: Default::default(),
        fails: false,
    };
    let settings = DecisionSettings { progressive_syncs: true, ..DecisionSettings::default() };
    World::new(spec, settings, "2026-01-02T12:00:00Z".parse().unwrap())
}

impl World {
    /// One reconcile, some time after the last one.
    fn next(&mut self) {
        self.cluster.wait(1500);
        self.reconcile();
    }

    /// Reconciles until nothing follows.
    fn calm(&mut self) {
        self.next();
        self.run_due(5);
    }

    /// The application controller continues with an Application, a number of times.
    fn continues(&mut self, name: &str, times: usize) {
        for _ in 0..times {
            assert!(self.cluster.advance(name), "{name} has nothing to do");
            self.cluster.wait(1000);
        }
    }

    fn phases(&self) -> BTreeMap<&str, Phase> {
        let entries = self.set.status.entries.iter().flatten();
        entries.map(|entry| (entry.application.as_str(), entry.phase)).collect()
    }

    /// The Applications in flight.
    fn flying(&self) -> Vec<&str> {
        let phases = self.phases();
        phases.iter().filter(|(_, phase)| phase.is_in_flight()).map(|(name, _)| *name).collect()
    }

    fn operations(&self, name: &str) -> usize {
        self.cluster.apps[name].promotions.len()
    }

    fn step(&self) -> i64 {
        self.set.status.rollout.as_ref().unwrap().step
    }
}

/// Operation starts, ends, is compared, and becomes healthy.
const WHOLE_SYNC: usize = 4;

fn seed_example() -> World {
    let mut elements = vec![("dev".to_owned(), 1), ("qa".to_owned(), 2)];
    elements.extend((1..=20).map(|number| (format!("p{number:02}"), 3)));
    world(elements, &[json!(null), json!(0), json!("10%")])
}

/// t0 to t10: AS-305, AS-307, AS-308, AS-330, AS-332, AS-334, AS-341 to AS-344, AS-350,
/// AS-353, AS-357, AS-364.
#[test]
fn the_seed_example_with_22_applications_runs_as_its_trace() {
    let mut world = seed_example();
    world.next(); // t0
    assert_eq!(world.cluster.apps.len(), 22, "t0, AS-332: all are created at once");
    assert_eq!(world.phases(), BTreeMap::new(), "t0: an Application gets its entry once it exists");

    let names: Vec<String> = world.cluster.apps.keys().cloned().collect();
    names.iter().for_each(|name| world.continues(name, 1));
    world.next(); // t1
    assert_eq!(world.operations("dev"), 1, "t1, AS-307: promoted and started in one reconcile");
    assert_eq!(world.flying(), ["dev"], "t1, AS-330");
    assert!(world.set.status.has("RolloutProgressing", "True") && world.step() == 1, "t1");
    assert_eq!(world.phases().keys().copied().collect::<Vec<_>>(), names, "t1, AS-350: by name");

    world.continues("dev", 1);
    world.calm(); // t2
    assert_eq!(world.phases()["dev"], Progressing, "t2");
    assert_eq!(world.operations("dev"), 1, "t2, AS-307: no second operation");

    world.continues("dev", 3);
    world.calm(); // t3
    assert_eq!((world.phases()["dev"], world.phases()["qa"]), (Healthy, Waiting), "t3");
    assert_eq!((world.step(), world.operations("qa")), (2, 0), "t3, AS-343: maxUpdate 0");

    assert!(world.cluster.sync_manually("qa"));
    world.continues("qa", 3);
    world.calm(); // t4
    assert_eq!(world.phases()["qa"], Progressing, "t4, AS-364: found Synced, not healthy yet");
    assert_eq!((world.step(), world.flying()), (2, vec!["qa"]), "t4");

    world.continues("qa", 1);
    world.next(); // t5
    assert_eq!(world.phases()["qa"], Healthy, "t5, AS-364");
    assert_eq!(
        world.flying(),
        ["p01", "p02"],
        "t5, AS-334, AS-342: 10% of 20, in the same reconcile"
    );
    assert_eq!((world.operations("p01"), world.operations("p02")), (1, 1), "t5");

    world.continues("p01", WHOLE_SYNC);
    world.continues("p02", 1);
    world.calm(); // t6
    world.calm();
    assert_eq!(world.phases()["p01"], Healthy, "t6");
    assert_eq!(
        world.flying(),
        ["p02", "p03"],
        "t6, AS-341: one slot is free, the next one by name"
    );

    world.cluster.change("p02", |app| app.fails = true);
    world.continues("p02", 2);
    for (done, next) in [("p03", "p04"), ("p04", "p05"), ("p05", "p06")] {
        world.continues(done, WHOLE_SYNC);
        world.calm(); // t7
        world.calm();
        assert_eq!(world.flying(), ["p02", next], "t7, AS-357: the failed one keeps its slot");
        assert_eq!(world.operations("p02"), 1, "t7, AS-357: the controller does not retry");
    }

    assert!(world.cluster.sync_manually("p02"));
    world.continues("p02", WHOLE_SYNC);
    world.calm(); // t8
    assert_eq!(world.flying(), ["p06", "p07"], "t8: two slots again");
    finish(&mut world, 2);

    world.edit(|spec| {
        let prod = spec.elements.iter_mut().filter(|(name, _)| name.starts_with('p'));
        prod.for_each(|(_, element)| element.path = 2);
    });
    let before = world.operations("dev");
    world.calm(); // t9
    let waiting = world.phases().values().filter(|phase| **phase == Waiting).count();
    assert_eq!(waiting, 20, "t9, AS-353: all of prod changed");
    assert_eq!((world.phases()["dev"], world.phases()["qa"]), (Healthy, Healthy), "t9");
    finish(&mut world, 2);
    // t10
    assert_eq!(world.operations("dev"), before, "t10: only prod was synced");
    let condition = world.set.status.condition("RolloutProgressing").unwrap();
    assert_eq!(condition.reason, "ApplicationSetRolloutComplete", "t10");
    assert_eq!(world.phases().len(), 22, "t10: the entries stay");
    assert!(world.phases().values().all(|phase| *phase == Healthy), "t10");
}

/// Continues until the rollout is complete, with at most this many in flight.
fn finish(world: &mut World, at_most: usize) {
    for _ in 0..200 {
        let names: Vec<String> = world.cluster.apps.keys().cloned().collect();
        for name in &names {
            world.cluster.advance(name);
        }
        world.calm();
        assert!(world.flying().len() <= at_most, "AS-340: {:?}", world.flying());
        if world.set.status.has("RolloutProgressing", "False") {
            return;
        }
    }
    panic!("it is not complete: {:?}", world.phases());
}

fn two_in_one_step(limit: Value) -> World {
    let mut world = world(vec![("a".to_owned(), 1), ("b".to_owned(), 1)], &[limit]);
    world.next();
    world.continues("a", 1);
    world.continues("b", 1);
    world
}

/// AS-342, AS-344: rows 139 to 151, by what is really started.
#[test]
fn max_update_starts_as_many_syncs_as_the_table_says_as_340_to_344() {
    let table = [
        (json!(null), 7, 7),
        (json!(0), 3, 0),
        (json!(1), 3, 1),
        (json!(3), 4, 3),
        (json!(5), 3, 3),
        (json!(-1), 3, 0),
        (json!("0%"), 10, 0),
        (json!("30%"), 3, 1),
        (json!("50%"), 1, 1),
        (json!("50%"), 3, 1),
        (json!("50%"), 5, 2),
        (json!("100%"), 7, 7),
        (json!("1%"), 3, 1),
        (json!("00%"), 5, 0),
        (json!("-5%"), 5, 0),
        (json!("0"), 3, 0),
        (json!("3"), 5, 3),
        (json!("abc"), 3, 1),
        (json!("1.5%"), 5, 1),
        (json!(""), 5, 1),
    ];
    for (value, size, started) in table {
        let mut elements: Vec<(String, usize)> =
            (0..size).map(|number| (format!("app{number}"), 1)).collect();
        // AS-316, AS-344: an Application of no step, which counts nowhere.
        elements.push(("z".to_owned(), 0));
        let mut world = world(elements, std::slice::from_ref(&value));
        world.next();
        world.cluster.sync_manually("z");
        world.continues("z", 3);
        (0..size).for_each(|number| world.continues(&format!("app{number}"), 1));
        world.calm();
        let count = world.cluster.apps.values().filter(|app| app.runs_promotion()).count();
        assert_eq!(count, started, "maxUpdate {value} of {size}");
        assert_eq!(
            world.phases()["z"],
            Progressing,
            "AS-316: after a manual sync, it is not healthy yet"
        );
    }
}

/// AS-361, AS-363: the operation of a promotion is written once, whatever happened to the
/// write, and also when the Application has become Synced in the meantime.
#[test]
fn a_promotion_is_written_once_whatever_happens_to_the_write_as_361() {
    for fault in
        [Fault::Fails, Fault::AnswerLost, Fault::Conflict, Fault::CrashBefore, Fault::CrashAfter]
    {
        let mut world = two_in_one_step(json!(1));
        // After the status.
        world.faults = vec![(1, fault)];
        world.next();
        assert_eq!(world.phases()["a"], Pending, "AS-308: {fault:?}: stored before the write");
        world.cluster.change("a", |app| app.object["status"]["sync"]["status"] = "Synced".into());
        world.calm();
        world.calm();
        assert_eq!(world.operations("a"), 1, "AS-361, AS-363: {fault:?}");
        assert_eq!(world.operations("b"), 0, "{fault:?}");
    }
}

/// AS-356, AS-390: rows 170 to 172.
#[test]
fn a_pending_application_is_moved_on_after_the_timeout_and_not_before_as_356() {
    for (timeout, waited, want) in
        [(Some(300), 299, Pending), (Some(300), 300, Healthy), (None, 3600, Pending)]
    {
        let mut world = two_in_one_step(json!(1));
        world.settings.rollout.rules.progressing_timeout =
            timeout.map(jiff::SignedDuration::from_secs);
        world.calm();
        let since = world.set.status.entries.as_ref().unwrap()[0].since;
        world.cluster.now = since + jiff::SignedDuration::from_secs(waited);
        world.reconcile();
        assert_eq!(world.phases()["a"], want, "{timeout:?} after {waited} s");
        if (waited, want) == (299, Pending) {
            let wake = world.wake.unwrap();
            assert_eq!(
                wake.duration_since(world.cluster.now).as_secs(),
                1,
                "AS-390: at the deadline"
            );
        }
        let requested = world.cluster.apps["a"].object["operation"].is_object();
        assert!(requested, "AS-356: the operation is left in place");
    }
}

/// AS-314: an Application of two steps blocks both of them. Row 137.
#[test]
fn an_application_of_two_steps_blocks_both_as_314() {
    let mut world = world(
        vec![("a".to_owned(), 1), ("b".to_owned(), 2), ("c".to_owned(), 3)],
        &[json!(null), json!(null), json!(null)],
    );
    world.edit(|spec| spec.steps[1].values = vec![1, 2]);
    world.next();
    ["a", "b", "c"].iter().for_each(|name| world.continues(name, 1));
    world.calm();
    assert_eq!(world.flying(), ["a"]);
    world.continues("a", WHOLE_SYNC);
    world.calm();
    world.calm();
    world.continues("b", WHOLE_SYNC);
    world.cluster.push();
    world.continues("a", 1);
    world.calm();
    world.calm();
    assert_eq!(world.operations("c"), 0, "AS-314: a is not Healthy, so step 2 is not complete");
}

/// AS-317: a step without Applications is complete.
#[test]
fn a_step_without_applications_does_not_wait_as_317() {
    let mut world = world(vec![("b".to_owned(), 3)], &[json!(1), json!(0), json!(1)]);
    world.next();
    world.continues("b", 1);
    world.next();
    assert_eq!((world.flying(), world.step()), (vec!["b"], 3), "AS-317");
}
