//! Rollouts as their users see them: what people do and what happens in the cluster, and what
//! changes with it in the set, its runs, its Applications, its Events and the report of
//! `wavegate status`. The texts are in `stories/`, to be read with each change of them;
//! `WAVEGATE_REGENERATE=1` writes them.

mod seen;

use std::fmt::Write;

use serde_json::{Value, json};

use self::seen::{Seen, changes, see};

use super::cases::Turn::{self, *};
use super::people::Covers::{Nothing, Outdated, Present};
use super::people::RunModel;
use super::people::Word::*;
use super::spec::{SET, Step};
use super::trace;
use super::world::{Fault, World};
use crate::written;

/// The labels of Applications, which steps select by their number, and the limits of the steps.
struct Story {
    labels: &'static [usize],
    limits: Vec<Value>,
    policies: Option<Vec<Value>>,
    turns: Vec<Turn>,
}

impl Story {
    fn world(&self) -> World {
        let named = |(at, label): (usize, &usize)| (format!("app-{at:02}"), *label);
        let elements = self.labels.iter().enumerate().map(named).collect();
        let mut world = trace::world(elements, &self.limits);
        world.model = self.policies.as_deref().map(RunModel::new);
        world
    }

    fn run(&self) -> String {
        let mut world = self.world();
        let mut seen = Seen::new();
        let mut story = String::new();
        let mut after = |world: &mut World, what: String| {
            let now = see(world);
            let mut changed = changes(&seen, &now);
            for event in std::mem::take(&mut world.events) {
                let kind = if event.warning { "Warning" } else { "Normal" };
                let _ = writeln!(
                    changed,
                    "  event: {kind} {} {}: {}",
                    event.reason, event.action, event.text
                );
            }
            if !changed.is_empty() {
                let _ = writeln!(story, "{} {what}\n{changed}", world.cluster.now);
            }
            seen = now;
        };
        world.run_due(2);
        after(&mut world, "it begins".to_owned());
        for turn in &self.turns {
            // Each round of the cluster for itself.
            let (turn, times) = match turn {
                Word(Calm(rounds)) => (&Word(Calm(1)), *rounds),
                turn => (turn, 1),
            };
            for _ in 0..times {
                world.take(turn);
                world.run_due(2);
                after(&mut world, format!("{turn:?}"));
            }
        }
        story
    }
}

fn compare(name: &str, story: &str) {
    written::compare(&format!("src/application_set/tests/rollouts/stories/{name}.txt"), story);
}

fn calm(rounds: usize) -> Turn {
    Word(Calm(rounds))
}

fn approve(gate: usize, by: usize) -> Turn {
    Word(Approve { gate, by, covers: Present })
}

/// AS-300 to AS-390: steps, limits, failures, and what people do with single Applications.
#[test]
fn a_rollout_in_steps_with_what_may_happen_to_its_applications() {
    let turns = vec![
        calm(14),
        Commit,
        calm(3),
        Fail(1),
        calm(6),
        Manual(1),
        calm(8),
        Commit,
        calm(3),
        Old(2),
        calm(6),
        Degrade(0),
        calm(3),
        Degrade(0),
        calm(3),
        Drift(3),
        calm(6),
        Break(4),
        Commit,
        calm(10),
        Sleep(4000),
        calm(3),
        Break(4),
        calm(12),
        Manual(2),
        calm(8),
    ];
    let limits = vec![json!(null), json!(1), json!("50%")];
    let labels = &[1, 2, 2, 3, 3, 3, 0];
    compare("applications", &Story { labels, limits, policies: None, turns }.run());
}

/// AS-130 to AS-190, AS-380 to AS-384: what users change in the set.
#[test]
fn a_rollout_whose_set_is_changed() {
    let held = Step { values: vec![2], selects_none: false, limit: json!(0) };
    let turns = vec![
        calm(10),
        Spec(1),
        calm(2),
        Toggle(2),
        calm(6),
        Toggle(5),
        calm(6),
        Label(0, 2),
        calm(4),
        Invalid(1),
        calm(4),
        Invalid(1),
        Foreign(7),
        Toggle(7),
        calm(3),
        Template,
        calm(3),
        Template,
        Policy("create-only"),
        Specs,
        calm(4),
        Policy("create-delete"),
        Toggle(7),
        calm(4),
        Policy("create-update"),
        Toggle(0),
        calm(4),
        Policy("sync"),
        calm(6),
        Steps(vec![held.clone()]),
        Commit,
        calm(4),
        Manual(1),
        calm(5),
        Steps(Vec::new()),
        calm(2),
        Steps(vec![held]),
        Strategy,
        calm(6),
        Strategy,
        calm(6),
        Feature,
        calm(3),
        Feature,
        calm(3),
        Wipe,
        calm(8),
    ];
    let limits = vec![json!(1), json!("100%")];
    compare("set", &Story { labels: &[1, 1, 2, 2], limits, policies: None, turns }.run());
}

/// AS-361, AS-363, AS-383: writes that fail.
#[test]
fn a_rollout_whose_writes_fail() {
    let faults =
        [Fault::Fails, Fault::AnswerLost, Fault::Conflict, Fault::CrashBefore, Fault::CrashAfter];
    let mut turns = vec![Fault(0, Fault::Fails), calm(2), Fault(1, Fault::Fails), calm(8)];
    for fault in faults {
        turns.extend([Commit, Specs, Fault(0, fault), calm(1), Fault(1, fault), calm(1)]);
        turns.extend([Fault(2, fault), calm(2), Sleep(300), calm(8)]);
    }
    turns.extend([Hold(0), HoldSet, Commit, calm(4), Release, calm(3), Crash, calm(6)]);
    let limits = vec![json!(1), json!(null)];
    let policies = Some(vec![json!({"failures": {"max": 1, "onFailure": "Hold"}})]);
    compare("writes", &Story { labels: &[1, 1, 2], limits, policies, turns }.run());
}

/// ST-020 to ST-032, ST-061 to ST-064: gates, pauses and skips.
#[test]
fn a_rollout_with_gates() {
    let policies = vec![
        json!({"gates": [
            {"name": "second", "steps": [2], "approvals": 2},
            {"name": "soaked", "steps": [3], "soak": "20s"},
        ]}),
        json!({"gates": [{"name": "odd", "applications": {"matchLabels": {"zone": "1"}}, "approvals": 1}]}),
    ];
    let turns = vec![
        calm(10),
        approve(2, 0),
        calm(3),
        approve(0, 0),
        calm(2),
        approve(0, 0),
        calm(2),
        approve(0, 1),
        calm(8),
        Sleep(100),
        calm(4),
        Sleep(200),
        calm(10),
        Commit,
        calm(5),
        Word(Approve { gate: 0, by: 1, covers: Outdated }),
        Word(Approve { gate: 0, by: 2, covers: Nothing }),
        calm(3),
        Word(Pause),
        calm(4),
        approve(0, 0),
        approve(0, 1),
        approve(2, 1),
        calm(2),
        Word(Pause),
        calm(5),
        Word(PausePolicy(0)),
        calm(3),
        Word(Skip(3)),
        calm(3),
        Word(PausePolicy(0)),
        calm(3),
        Word(Skip(3)),
        calm(2),
        Commit,
        calm(2),
        Word(Skip(0)),
        calm(6),
        approve(0, 0),
        approve(0, 2),
        approve(1, 0),
        approve(2, 0),
        calm(4),
        Sleep(300),
        calm(12),
    ];
    let limits = vec![json!(null), json!(1), json!(null)];
    let labels = &[1, 1, 2, 2, 3];
    compare("gates", &Story { labels, limits, policies: Some(policies), turns }.run());
}

/// ST-040 to ST-046, ST-050, ST-060: failures, and what follows from them.
#[test]
fn a_rollout_with_a_budget_of_failures() {
    let of = |max: Value, then: &str| json!({"failures": {"max": max, "same": 2, "deadline": "60s", "onFailure": then}});
    let policies = |max: Value, then: &str| Word(Policies(vec![of(max, then)]));
    let turns = vec![
        calm(14),
        Commit,
        Fail(0),
        calm(5),
        Fail(1),
        calm(6),
        Word(Retry(Some(0))),
        calm(5),
        Word(Retry(None)),
        calm(12),
        policies(json!(0), "Abort"),
        Commit,
        calm(2),
        Fail(1),
        calm(10),
        Word(Retry(None)),
        calm(14),
        policies(json!("10%"), "Rollback"),
        Commit,
        calm(5),
        Fail(3),
        calm(16),
        Commit,
        calm(12),
        policies(json!(null), "Continue"),
        Commit,
        Fail(2),
        calm(10),
        Manual(2),
        calm(8),
        policies(json!(1), "Hold"),
        Degrade(4),
        calm(2),
        Commit,
        Degrade(0),
        calm(5),
        Sleep(700),
        calm(3),
        Degrade(0),
        calm(3),
        Sleep(700),
        calm(8),
        Degrade(4),
        calm(6),
    ];
    let limits = vec![json!(null), json!(2)];
    let labels = &[1, 1, 2, 2, 2];
    let first = Some(vec![of(json!(1), "Hold")]);
    compare("failures", &Story { labels, limits, policies: first, turns }.run());
}

/// ST-060 to ST-065: aborts and rollbacks by people.
#[test]
fn a_rollout_that_people_end_and_take_back() {
    let turns = vec![
        calm(14),
        Commit,
        calm(5),
        Word(Abort(false)),
        calm(8),
        Word(Retry(Some(2))),
        calm(6),
        Word(Retry(None)),
        calm(10),
        Commit,
        calm(4),
        Word(Abort(true)),
        calm(6),
        Commit,
        calm(12),
        Commit,
        calm(6),
        Word(Rollback),
        calm(4),
        Fail(1),
        calm(10),
        Drift(0),
        calm(4),
        Word(Retry(None)),
        calm(4),
        Manual(1),
        calm(8),
        Commit,
        calm(4),
        Old(0),
        calm(3),
        Word(Rollback),
        calm(3),
        Commit,
        calm(8),
        Word(Retry(Some(0))),
        calm(10),
        Word(DeleteRun),
        calm(3),
        Commit,
        calm(10),
        Word(HoldRuns),
        Commit,
        calm(3),
        Word(HoldRuns),
        calm(10),
    ];
    let limits = vec![json!(1), json!("50%")];
    let labels = &[1, 1, 2, 2];
    compare("people", &Story { labels, limits, policies: Some(Vec::new()), turns }.run());
}

/// ST-050 to ST-056, ST-070 to ST-072: ramps, spreads, limits that sets share, and deletions that
/// wait for an approval.
#[test]
fn a_rollout_with_a_pace_and_held_deletions() {
    let pace = |ramp: Value, spread: Value, shared: Value| {
        json!({"pace": {"ramp": ramp, "spread": spread, "maxInFlight": shared},
            "deletions": {"max": 1}})
    };
    let (ramp, spread) = (json!({"start": 1, "factor": 2}), json!({"label": "zone", "max": 1}));
    let other = |ramp: &Value, spread: &Value, shared: Value| {
        Word(Policies(vec![pace(ramp.clone(), spread.clone(), shared)]))
    };
    let turns = vec![
        calm(16),
        other(&json!(null), &spread, json!(null)),
        Commit,
        calm(14),
        other(&json!(null), &json!(null), json!(2)),
        Word(Elsewhere(1)),
        Commit,
        calm(6),
        Word(Elsewhere(2)),
        calm(6),
        Word(Elsewhere(0)),
        calm(14),
        other(&ramp, &spread, json!(3)),
        Commit,
        calm(4),
        Fail(5),
        calm(8),
        Word(Retry(None)),
        calm(10),
        Toggle(0),
        Toggle(1),
        Toggle(2),
        calm(4),
        Word(ApproveDeletions(false)),
        calm(3),
        Word(ApproveDeletions(true)),
        calm(6),
        Toggle(6),
        calm(8),
    ];
    let limits = vec![json!(1), json!(null)];
    let labels = &[1, 2, 2, 2, 2, 2, 2];
    let first = Some(vec![pace(ramp.clone(), json!(null), json!(null))]);
    compare("pace", &Story { labels, limits, policies: first, turns }.run());
}

/// AS-170 to AS-179: a set that is deleted, in the order of its steps backwards.
#[test]
fn a_set_that_is_deleted_in_reverse_order() {
    let limits = vec![json!(null), json!(null)];
    let story = Story { labels: &[1, 1, 2], limits, policies: None, turns: Vec::new() };
    let mut world = story.world();
    world.edit(|spec| spec.reverse = true);
    // The first version of a set is that of its first change here.
    world.touch_set();
    let (mut seen, mut text) = (Seen::new(), String::new());
    for round in 0..24 {
        if round == 10 {
            assert!(!world.set.finalizers.is_empty(), "AS-380");
            world.set.is_deleting = true;
            world.touch_set();
            world.queued = true;
        }
        world.take(&calm(1));
        world.run_due(2);
        let now = see(&world);
        let _ = writeln!(text, "{} round {round}\n{}", world.cluster.now, changes(&seen, &now));
        seen = now;
    }
    assert!(world.is_gone && world.cluster.apps.values().all(|app| app.owner() != SET));
    compare("deletion", &text);
}
