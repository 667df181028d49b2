//! Whole rollouts in a toy world: the plan is carried out, syncs end, the clock
//! moves, writes are lost. What must hold is checked at every turn
//! (invariants I1 to I5, I10, I15).

use proptest::prelude::{
    Just, ProptestConfig, prop_assert, prop_assert_eq, prop_assume, prop_oneof, proptest,
};
use proptest::strategy::Strategy as Arbitrary;

use super::*;
use health::Status as H;

/// What happens in the world between two passes.
#[derive(Clone, Debug)]
enum Turn {
    /// The Application with this number gets on: compares, starts, ends.
    Advance(usize),
    /// A new commit.
    Commit,
    /// The pass's plan is only carried out in part: entries persisted, this
    /// many of the operations written.
    Crash(usize),
    /// Time passes, in seconds.
    Sleep(u32),
}

#[derive(Clone)]
struct App {
    observed: Observed,
    /// What is deployed.
    deployed: u32,
    /// Each start of a sync: promotion and revision.
    synced: Vec<(Timestamp, String)>,
}

struct World {
    strategy: Strategy,
    generated: BTreeMap<String, Generated>,
    apps: BTreeMap<String, App>,
    entries: BTreeMap<String, Entry>,
    commit: u32,
    now: Timestamp,
}

fn revision(commit: u32) -> String {
    format!("r{commit}")
}

impl World {
    fn new(limits: &[Value], sizes: &[usize]) -> Self {
        let mut generated = BTreeMap::new();
        let mut apps = BTreeMap::new();
        for (step, size) in sizes.iter().enumerate() {
            for index in 0..*size {
                let name = format!("s{step}-{index}");
                generated.insert(name.clone(), super::generated(&(step + 1).to_string()));
                let observed = Observed {
                    revisions: Vec::new(),
                    reconciled_at: None,
                    compared: Compared::Never,
                    ..seen(H::Missing, SyncCode::Unknown)
                };
                apps.insert(name, App { observed, deployed: 0, synced: Vec::new() });
            }
        }
        let strategy = steps_of(limits);
        Self { strategy, generated, apps, entries: BTreeMap::new(), commit: 1, now: now() }
    }

    fn plan(&self) -> Plan {
        let current =
            self.apps.iter().map(|(name, app)| (name.clone(), app.observed.clone())).collect();
        let snapshot = Snapshot {
            strategy: &self.strategy,
            generated: &self.generated,
            current: &current,
            entries: &self.entries,
            settings: Settings::default(),
        };
        let plan = step(&snapshot, self.now);
        assert_eq!(plan, step(&snapshot, self.now), "same snapshot, same plan");
        plan
    }

    /// Persists the entries, then writes at most `writes` operations.
    fn carry_out(&mut self, plan: &Plan, writes: usize) {
        self.entries =
            plan.entries.iter().map(|entry| (entry.application.clone(), entry.clone())).collect();
        for start in plan.starts.iter().take(writes) {
            let app = self.apps.get_mut(&start.application).unwrap();
            assert!(!app.observed.has_operation_in_flight(), "I3: never over another operation");
            assert!(
                app.synced.iter().all(|(promotion, _)| *promotion < start.promotion),
                "I3: once per promotion"
            );
            let revision =
                start.revisions.first().cloned().unwrap_or_else(|| revision(self.commit));
            app.synced.push((start.promotion, revision));
            app.observed.requested =
                Some(phase::RequestedOperation { promotion: Some(start.promotion) });
        }
        for name in &plan.refreshes {
            compare(self.apps.get_mut(name).unwrap(), self.commit, self.now);
        }
    }

    /// One Application does the next thing it would do by itself.
    fn advance(&mut self, index: usize) {
        let index = index % self.apps.len();
        let (commit, now) = (self.commit, self.now);
        let app = self.apps.values_mut().nth(index).unwrap();
        let target = app.synced.last().map(|(_, revision)| revision.clone());
        match (app.observed.requested.take(), app.observed.operation.clone()) {
            (Some(requested), _) => {
                app.observed.operation = Some(OperationState {
                    phase: OperationPhase::Running,
                    started_at: phase::whole_seconds(now),
                    finished_at: None,
                    promotion: requested.promotion,
                    revisions: target.into_iter().collect(),
                    message: String::new(),
                });
            }
            (None, Some(operation)) if operation.phase == OperationPhase::Running => {
                let synced = target.unwrap_or_default();
                app.deployed = synced.trim_start_matches('r').parse().unwrap();
                app.observed.operation = Some(OperationState {
                    phase: OperationPhase::Succeeded,
                    finished_at: Some(phase::whole_seconds(now)),
                    ..operation
                });
            }
            _ => compare(app, commit, now),
        }
    }

    fn running(&self, step: usize) -> u64 {
        let running = |(name, app): &(&String, &App)| {
            name.starts_with(&format!("s{step}-")) && app.observed.has_operation_in_flight()
        };
        self.apps.iter().filter(running).count() as u64
    }

    /// I1 and I2, from the world rather than from the plan.
    fn check(&self, plan: &Plan) {
        for (index, state) in plan.steps.iter().enumerate() {
            let limit = state.limit.capped(state.total);
            assert!(
                self.running(index) <= limit,
                "step {index} runs {} of {limit}",
                self.running(index)
            );
        }
        for start in &plan.starts {
            for (name, app) in &self.apps {
                let step: usize = name[1..2].parse().unwrap();
                let revision = start.revisions.first().cloned().unwrap_or_default();
                assert!(
                    step >= start.step || revision <= self::revision(app.deployed),
                    "{} starts {revision} while {name} of step {step} is at r{}",
                    start.application,
                    app.deployed
                );
            }
        }
        let names: Vec<&String> = plan.entries.iter().map(|entry| &entry.application).collect();
        assert_eq!(names, self.apps.keys().collect::<Vec<_>>(), "I5");
    }

    fn pass(&mut self, writes: usize) {
        let plan = self.plan();
        self.check(&plan);
        self.carry_out(&plan, writes);
    }
}

fn compare(app: &mut App, commit: u32, now: Timestamp) {
    app.observed.compared = Compared::Current;
    app.observed.revisions = vec![revision(commit)];
    app.observed.reconciled_at = Some(phase::whole_seconds(now));
    let synced = app.deployed == commit;
    app.observed.sync = if synced { SyncCode::Synced } else { SyncCode::OutOfSync };
    app.observed.health = if app.deployed > 0 { H::Healthy } else { H::Missing };
}

fn turns() -> impl Arbitrary<Value = Vec<Turn>> {
    let turn = prop_oneof![
        8 => (0usize..64).prop_map(Turn::Advance),
        1 => Just(Turn::Commit),
        2 => (0usize..3).prop_map(Turn::Crash),
        2 => (0u32..3).prop_map(Turn::Sleep),
    ];
    proptest::collection::vec(turn, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_rollout_is_never_wrong_and_always_ends(
        turns in turns(),
        sizes in proptest::collection::vec(0usize..6, 1..4),
        limits in proptest::collection::vec(prop_oneof![Just(json!(null)), Just(json!(1)), Just(json!(2)), Just(json!("30%"))], 4),
    ) {
        prop_assume!(sizes.iter().sum::<usize>() > 0);
        let mut world = World::new(&limits[..sizes.len()], &sizes);
        for turn in turns {
            match turn {
                Turn::Advance(index) => world.advance(index),
                Turn::Commit if world.commit < 4 => world.commit += 1,
                Turn::Commit => {}
                Turn::Crash(writes) => world.pass(writes),
                Turn::Sleep(seconds) => world.now += SignedDuration::from_secs(i64::from(seconds)),
            }
            world.pass(usize::MAX);
        }
        // I10: left alone, it ends; each Application is at the last commit.
        for _ in 0..100 {
            for index in 0..world.apps.len() {
                world.advance(index);
                world.pass(usize::MAX);
            }
            world.now += SignedDuration::from_secs(1);
        }
        let plan = world.plan();
        prop_assert_eq!(plan.open_step, None, "waiting: {:?}", plan.waiting);
        for (name, app) in &world.apps {
            prop_assert_eq!(app.deployed, world.commit, "{}", name);
            // No revision is synced twice: a promotion is only for something new.
            let mut revisions: Vec<&String> = app.synced.iter().map(|(_, revision)| revision).collect();
            revisions.sort();
            let count = revisions.len();
            revisions.dedup();
            prop_assert_eq!(revisions.len(), count, "{}: {:?}", name, &app.synced);
        }
        // I4: carried out, the plan is empty.
        world.carry_out(&plan, usize::MAX);
        let again = world.plan();
        prop_assert_eq!(again.entries, plan.entries);
        prop_assert!(again.starts.is_empty() && again.transitions.is_empty() && again.wake_at.is_none());
    }
}
