//! Rollouts in a simulated cluster: plans are applied, syncs end or fail,
//! commits are pushed, specs change, users interfere, writes and entries are
//! lost. The invariants (I1 to I5, I10, I15) are checked after every event.

use proptest::prelude::{
    Just, ProptestConfig, prop_assert, prop_assert_eq, prop_assume, prop_oneof, proptest,
};
use proptest::strategy::Strategy as Arbitrary;

use super::*;
use health::Status as H;

/// An event between two reconciles.
#[derive(Clone, Debug)]
enum Turn {
    /// The Application with this index progresses: compares, starts, ends.
    Advance(usize),
    /// A new commit.
    Commit,
    /// The plan is only applied in part: entries persisted, this many of the
    /// Applications written.
    Crash(usize),
    /// Time passes, in seconds.
    Sleep(u32),
    /// The generated spec of the Application changes.
    Spec(usize),
    /// The current operation of the Application will fail.
    Fail(usize),
    /// A user requests a sync of the newest commit.
    Manual(usize),
    /// The Application cannot be compared or synced, until the event is
    /// repeated.
    Break(usize),
    /// The cluster is changed manually.
    Drift(usize),
    /// The Application moves to another step.
    Relabel(usize, usize),
    /// The Application is no longer generated, or generated again.
    Toggle(usize),
    /// The status of the set is removed.
    Wipe,
    /// Another replica takes over, whose clock differs by this many seconds.
    Skew(i32),
    /// A sync window closes for the Application, or opens.
    Window(usize),
}

#[derive(Clone)]
struct App {
    observed: Observed,
    /// The version of its live spec.
    spec: u32,
    /// What is deployed: spec and commit.
    deployed: (u32, u32),
    /// What the current operation syncs; `None` for the newest commit.
    target: Option<u32>,
    /// The promotions whose operations were written.
    promotions: Vec<Timestamp>,
    broken: bool,
    fails: bool,
    drifted: bool,
    /// A sync window denies it.
    denied: bool,
}

struct World {
    strategy: StepStrategy,
    generated: BTreeMap<String, Generated>,
    /// The version of the generated spec of each Application.
    wanted: BTreeMap<String, u32>,
    apps: BTreeMap<String, App>,
    entries: BTreeMap<String, Entry>,
    commit: u32,
    now: Timestamp,
    skew: i32,
    /// Only the rollout has started syncs or moved Applications.
    undisturbed: bool,
    /// An Application was moved on by the progressing timeout.
    timed_out: bool,
    /// When each step was last closed.
    closed: BTreeMap<usize, Timestamp>,
}

fn revision(commit: u32) -> String {
    format!("r{commit}")
}

fn commit_of(revision: &str) -> u32 {
    revision.trim_start_matches('r').parse().unwrap()
}

impl App {
    fn new(spec: u32) -> Self {
        let observed = Observed {
            revisions: Vec::new(),
            reconciled_at: None,
            compared: Compared::Never,
            ..seen(H::Missing, SyncStatusCode::Unknown)
        };
        Self {
            observed,
            spec,
            deployed: (0, 0),
            target: None,
            promotions: Vec::new(),
            broken: false,
            fails: false,
            drifted: false,
            denied: false,
        }
    }

    /// Withdraws its operation, which has not started yet.
    fn withdraw(&mut self, now: Timestamp) {
        match self.observed.operation.as_mut().filter(|operation| !operation.phase.is_completed()) {
            Some(operation) => {
                assert!(operation.is_blocked && operation.promotion.is_some());
                operation.phase = OperationPhase::Failed;
                operation.finished_at = Some(wavegate_api::time::stored_time(now));
            }
            None => assert!(self.observed.requested.take().unwrap().promotion.is_some()),
        }
        self.target = None;
    }

    fn compare(&mut self, commit: u32, now: Timestamp) {
        self.observed.compared = Compared::Current;
        self.observed.reconciled_at = Some(wavegate_api::time::stored_time(now));
        if self.broken {
            // The status keeps the previous revision.
            self.observed.sync = SyncStatusCode::Unknown;
            return;
        }
        self.observed.revisions = vec![revision(commit)];
        let synced = self.deployed == (self.spec, commit) && !self.drifted;
        self.observed.sync =
            if synced { SyncStatusCode::Synced } else { SyncStatusCode::OutOfSync };
        self.observed.health = if self.deployed.1 > 0 { H::Healthy } else { H::Missing };
    }

    /// Its next step without external events.
    fn advance(&mut self, commit: u32, now: Timestamp) {
        match (self.observed.requested.take(), self.observed.operation.clone()) {
            (Some(requested), _) => {
                self.target.get_or_insert(commit);
                self.observed.operation = Some(ObservedOperation {
                    phase: OperationPhase::Running,
                    started_at: wavegate_api::time::stored_time(now),
                    finished_at: None,
                    promotion: requested.promotion,
                    revisions: self.target.map(revision).into_iter().collect(),
                    message: String::new(),
                    is_blocked: self.denied,
                    is_partial: false,
                });
            }
            (None, Some(operation)) if operation.is_blocked && !operation.phase.is_completed() => {
                let waits = ObservedOperation { is_blocked: self.denied, ..operation };
                self.observed.operation = Some(waits);
            }
            (None, Some(operation)) if operation.phase == OperationPhase::Running => {
                let failed = self.broken || self.fails;
                if !failed {
                    self.deployed = (self.spec, self.target.unwrap_or(commit));
                    self.drifted = false;
                }
                self.fails = false;
                self.target = None;
                self.observed.operation = Some(ObservedOperation {
                    phase: if failed { OperationPhase::Failed } else { OperationPhase::Succeeded },
                    finished_at: Some(wavegate_api::time::stored_time(now)),
                    ..operation
                });
            }
            _ => self.compare(commit, now),
        }
    }
}

impl World {
    fn new(limits: &[Value], sizes: &[usize]) -> Self {
        let mut generated = BTreeMap::new();
        for (step, size) in sizes.iter().enumerate() {
            for index in 0..*size {
                generated
                    .insert(format!("s{step}-{index}"), super::generated(&(step + 1).to_string()));
            }
        }
        Self {
            strategy: steps_of(limits),
            wanted: generated.keys().map(|name| (name.clone(), 1)).collect(),
            apps: generated.keys().map(|name| (name.clone(), App::new(1))).collect(),
            generated,
            entries: BTreeMap::new(),
            commit: 1,
            now: now(),
            skew: 0,
            undisturbed: true,
            timed_out: false,
            closed: BTreeMap::new(),
        }
    }

    /// The state after these events, with a reconcile after each, and a final
    /// settling.
    fn after(limits: &[Value], sizes: &[usize], turns: Vec<Turn>) -> Self {
        let mut world = Self::new(&limits[..sizes.len()], sizes);
        for turn in turns {
            world.take(turn);
            world.reconcile(usize::MAX);
        }
        world.settle();
        world.check_end();
        world
    }

    fn plan(&self) -> RolloutPlan {
        let observe = |(name, app): (&String, &App)| {
            let spec_differs = self.generated.contains_key(name) && app.spec != self.wanted[name];
            (name.clone(), Observed { spec_differs, ..app.observed.clone() })
        };
        let mut generated = self.generated.clone();
        for (name, generated) in &mut generated {
            let is_denied = self.apps.get(name).is_some_and(|app| app.denied);
            generated.denied =
                is_denied.then(|| Denied { reason: "a window".to_owned(), until: None });
        }
        let snapshot = Snapshot {
            strategy: &self.strategy,
            generated: &generated,
            current: &self.apps.iter().map(observe).collect(),
            entries: &self.entries,
            settings: RolloutSettings::default(),
        };
        let now = self.now + SignedDuration::from_secs(self.skew.into());
        let plan = step(&snapshot, now);
        assert_eq!(plan, step(&snapshot, now), "same snapshot, same plan");
        plan
    }

    /// Persists the entries, then writes at most `writes` Applications.
    fn apply(&mut self, plan: &RolloutPlan, writes: usize) {
        self.entries =
            plan.entries.iter().map(|entry| (entry.application.clone(), entry.clone())).collect();
        let names: Vec<String> = self.generated.keys().cloned().collect();
        let (commit, now) = (self.commit, self.now);
        for name in names.into_iter().take(writes) {
            let wanted = self.wanted[&name];
            let app = self.apps.entry(name.clone()).or_insert_with(|| App::new(wanted));
            if app.spec != wanted {
                app.spec = wanted;
                app.observed.compared = Compared::Stale;
            }
            if plan.withdrawals.contains(&name) {
                app.withdraw(now);
            }
            if let Some(start) = plan.starts.iter().find(|start| start.application == name) {
                assert!(!app.observed.has_operation_in_flight(), "I3: never over another");
                let new = app.promotions.iter().all(|promotion| *promotion < start.promotion);
                assert!(new, "I3: once per promotion");
                app.promotions.push(start.promotion);
                app.target = start.revisions.first().map(|revision| commit_of(revision));
                app.observed.requested = Some(phase::RequestedOperation {
                    promotion: Some(start.promotion),
                    is_partial: false,
                });
            }
            if plan.refreshes.contains(&name) {
                app.compare(commit, now);
            }
        }
    }

    fn step_of(&self, name: &str) -> Option<usize> {
        let label = self.generated.get(name)?.labels["step"].parse::<usize>().unwrap();
        Some(label - 1)
    }

    /// I1, I2 and I5, checked in the simulated cluster rather than in the plan.
    fn check(&self, plan: &RolloutPlan) {
        for (index, state) in plan.steps.iter().enumerate() {
            let limit = state.limit.capped(state.total);
            let in_step = |name: &String| self.step_of(name) == Some(index);
            let in_flight = plan
                .entries
                .iter()
                .filter(|entry| entry.phase.is_in_flight() && in_step(&entry.application));
            let in_flight = in_flight.count() as u64;
            let has_operation = |name: &String| self.apps[name].observed.has_operation_in_flight();
            let promoted = plan.transitions.iter().any(|transition| {
                transition.to == Phase::Pending
                    && transition.step == Some(index)
                    && !has_operation(&transition.application)
            });
            assert!(!promoted || in_flight <= limit, "I1: step {index}: {in_flight} of {limit}");
            let running = self
                .apps
                .iter()
                .filter(|(name, app)| in_step(name) && app.observed.has_operation_in_flight());
            let running = running.count() as u64;
            assert!(
                !self.undisturbed || running <= limit,
                "step {index} runs {running} of {limit}"
            );
        }
        for start in &plan.starts {
            assert!(!self.apps[&start.application].denied, "a window denies {start:?}");
            let target = start.revisions.first().map(|revision| commit_of(revision));
            for name in self.generated.keys() {
                if self.step_of(name).is_none_or(|step| step >= start.step) {
                    continue;
                }
                let deployed = self.apps.get(name).map(|app| app.deployed);
                let done = deployed.is_some_and(|(spec, commit)| {
                    spec == self.wanted[name] && target.is_none_or(|target| target <= commit)
                });
                let by = &start.application;
                assert!(
                    done || self.timed_out,
                    "I2: {by} starts {target:?} while {name} is at {deployed:?}"
                );
            }
        }
        let names: Vec<&String> = plan.entries.iter().map(|entry| &entry.application).collect();
        assert_eq!(names, self.apps.keys().collect::<Vec<_>>(), "I5");
        // Whoever could start has started: what is left waits for something with a name.
        let idle = plan.waiting.iter().find(|wait| wait.kind == wait::WaitKind::Promotion);
        assert_eq!(idle, None, "nothing keeps it from starting");
        self.check_report(plan);
    }

    /// A report without the waits of the status finds the same ones, apart from those that only
    /// the controller knows.
    fn check_report(&self, plan: &RolloutPlan) {
        use wait::WaitKind as K;
        let status = report::Status {
            exists: true,
            entries: plan.entries.clone(),
            rollout: None,
            ..report::Status::default()
        };
        let set = report::Set { strategy: self.strategy.clone(), status, ..report::Set::default() };
        let applications = self.apps.iter().map(|(name, app)| {
            let differs = self.wanted.get(name).is_some_and(|wanted| app.spec != *wanted);
            let spec_differs = self.generated.contains_key(name) && differs;
            let observed = Observed { spec_differs, ..app.observed.clone() };
            (name.clone(), report::ApplicationReport::of(observed))
        });
        let report = report::build_report(set, applications);
        let known = report.waits(true);
        for wait in &plan.waiting {
            let is_hidden = matches!(wait.kind, K::Creating | K::SyncWindow | K::Comparison);
            let found = known.iter().find(|known| known.application == wait.application);
            let Some(found) = found.filter(|_| !is_hidden) else { continue };
            // Promoted now, and its operation, which was requested before its step closed, runs
            // already: the plan moves it one phase at a time, and the report knows the next one.
            let is_promoted = plan.transitions.iter().any(|transition| {
                transition.application == wait.application && transition.to == Phase::Pending
            });
            if is_promoted && (wait.kind, found.kind) == (K::OperationStart, K::Operation) {
                continue;
            }
            assert_eq!(found.kind, wait.kind, "{wait:?}: {found:?}");
        }
    }

    /// No Application is moved on before it was waited for as long as allowed.
    fn check_timeouts(&mut self, plan: &RolloutPlan) {
        for transition in plan.transitions.iter().filter(|transition| transition.timed_out) {
            self.timed_out = true;
            let step =
                transition.step.expect("the rollout does not wait for Applications without a step");
            let closed = self.closed.get(&step).copied();
            let open = closed.map_or(SignedDuration::MAX, |at| self.now.duration_since(at));
            assert!(open.as_secs() >= 300, "{} was open for {open}", step + 1);
        }
        for (step, _) in plan.steps.iter().enumerate().filter(|(_, state)| !state.open) {
            self.closed.insert(step, self.now);
        }
    }

    fn reconcile(&mut self, writes: usize) {
        let plan = self.plan();
        self.check_timeouts(&plan);
        self.check(&plan);
        self.apply(&plan, writes);
    }

    fn name(&self, index: usize) -> String {
        self.wanted.keys().nth(index % self.wanted.len()).unwrap().clone()
    }

    fn advance(&mut self, index: usize) {
        let (name, commit, now) = (self.name(index), self.commit, self.now);
        if !self.generated.contains_key(&name) {
            self.apps.remove(&name);
        } else if let Some(app) = self.apps.get_mut(&name) {
            app.advance(commit, now);
        }
    }

    fn sync_manually(&mut self, index: usize) {
        let name = self.name(index);
        let Some(app) = self.apps.get_mut(&name) else { return };
        if !app.observed.has_operation_in_flight() {
            self.undisturbed = false;
            app.observed.requested =
                Some(phase::RequestedOperation { promotion: None, is_partial: false });
            app.target = None;
        }
    }

    fn take(&mut self, turn: Turn) {
        let app = |world: &mut Self, index: usize, change: fn(&mut App)| {
            let name = world.name(index);
            world.apps.get_mut(&name).map(change);
        };
        match turn {
            Turn::Advance(index) => self.advance(index),
            Turn::Commit if self.commit < 4 => self.commit += 1,
            Turn::Commit => {}
            Turn::Crash(writes) => self.reconcile(writes),
            Turn::Sleep(seconds) => self.now += SignedDuration::from_secs(i64::from(seconds)),
            Turn::Spec(index) => {
                let name = self.name(index);
                *self.wanted.get_mut(&name).unwrap() += 1;
            }
            Turn::Fail(index) => app(self, index, |app| app.fails = true),
            Turn::Manual(index) => self.sync_manually(index),
            Turn::Break(index) => app(self, index, |app| app.broken = !app.broken),
            Turn::Drift(index) => app(self, index, |app| app.drifted = true),
            Turn::Relabel(index, step) => {
                self.undisturbed = false;
                let (name, steps) = (self.name(index), self.strategy.steps().len());
                if let Some(generated) = self.generated.get_mut(&name) {
                    *generated = super::generated(&(step % steps + 1).to_string());
                }
            }
            Turn::Toggle(index) => {
                self.undisturbed = false;
                let name = self.name(index);
                if self.generated.remove(&name).is_none() {
                    self.generated.insert(name, super::generated("1"));
                }
            }
            Turn::Wipe => {
                // Promotions that have not started are unknown from here on.
                self.undisturbed = false;
                self.entries.clear();
                // So are earlier promotions, once a manual sync has replaced
                // the result of the last one.
                self.apps.values_mut().for_each(|app| app.promotions.clear());
            }
            Turn::Skew(seconds) => self.skew = seconds,
            Turn::Window(index) => app(self, index, |app| app.denied = !app.denied),
        }
    }

    /// What requires a user (R10): the sync failed, or the cluster was changed
    /// before the Application was seen in sync after it.
    fn needs_user(&self, index: usize) -> bool {
        let name = self.name(index);
        let (Some(app), Some(entry)) = (self.apps.get(&name), self.entries.get(&name)) else {
            return false;
        };
        let out = app.observed.is_current() && app.observed.sync == SyncStatusCode::OutOfSync;
        entry.phase == Phase::Progressing && (out || app.observed.failed_operation().is_some())
    }

    /// Every error is fixed, and the cluster is left alone for long enough.
    fn settle(&mut self) {
        for name in self.wanted.keys() {
            self.generated.entry(name.clone()).or_insert_with(|| super::generated("1"));
        }
        for app in self.apps.values_mut() {
            (app.broken, app.fails, app.denied) = (false, false, false);
        }
        for round in 0..100 {
            for index in 0..self.wanted.len() {
                if self.needs_user(index) {
                    self.sync_manually(index);
                }
                self.advance(index);
                self.reconcile(usize::MAX);
            }
            self.now += SignedDuration::from_secs(1);
            if self.plan().wake_at.is_none() && round > 2 {
                return;
            }
        }
    }

    /// I10 and I4: the rollout is complete, and a reconcile changes nothing.
    fn check_end(&mut self) {
        let plan = self.plan();
        assert_eq!(plan.open_step, None, "waiting: {:?}", plan.waiting);
        for (name, app) in &self.apps {
            // An Application that was moved on without a sync requires a user.
            let done = app.deployed == (self.wanted[name], self.commit);
            assert!(done || self.timed_out, "{name}: {:?}", app.deployed);
        }
        self.apply(&plan, usize::MAX);
        let again = self.plan();
        assert_eq!(again.entries, plan.entries);
        assert!(again.starts.is_empty() && again.transitions.is_empty());
        assert!(again.refreshes.is_empty() && again.wake_at.is_none());
    }
}

/// Events of an undisturbed rollout.
fn quiet_turn() -> impl Arbitrary<Value = Turn> {
    prop_oneof![
        8 => (0usize..64).prop_map(Turn::Advance),
        1 => Just(Turn::Commit),
        2 => (0usize..3).prop_map(Turn::Crash),
        2 => (0u32..3).prop_map(Turn::Sleep),
    ]
}

fn any_turn() -> impl Arbitrary<Value = Turn> {
    prop_oneof![
        12 => quiet_turn(),
        1 => (0usize..64).prop_map(Turn::Spec),
        1 => (0usize..64).prop_map(Turn::Fail),
        1 => (0usize..64).prop_map(Turn::Manual),
        1 => (0usize..64).prop_map(Turn::Break),
        1 => (0usize..64).prop_map(Turn::Drift),
        1 => (0usize..64, 0usize..4).prop_map(|(index, step)| Turn::Relabel(index, step)),
        1 => (0usize..64).prop_map(Turn::Toggle),
        1 => Just(Turn::Wipe),
        1 => (-20i32..20).prop_map(Turn::Skew),
        1 => (0usize..64).prop_map(Turn::Window),
    ]
}

/// Events of a rollout with sync windows and delays only.
fn slow_turn() -> impl Arbitrary<Value = Turn> {
    prop_oneof![
        16 => quiet_turn(),
        2 => (0usize..64).prop_map(Turn::Window),
        1 => (100u32..400).prop_map(Turn::Sleep),
        1 => (0usize..64).prop_map(Turn::Spec),
    ]
}

fn sizes() -> impl Arbitrary<Value = Vec<usize>> {
    proptest::collection::vec(0usize..6, 1..4)
}

fn limits() -> impl Arbitrary<Value = Vec<Value>> {
    let limit = prop_oneof![Just(json!(null)), Just(json!(1)), Just(json!(2)), Just(json!("30%"))];
    proptest::collection::vec(limit, 4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_rollout_is_never_wrong_and_always_ends(
        turns in proptest::collection::vec(quiet_turn(), 0..120),
        sizes in sizes(),
        limits in limits(),
    ) {
        prop_assume!(sizes.iter().sum::<usize>() > 0);
        let world = World::after(&limits, &sizes, turns);
        // A promotion is only for something new: at most one per commit.
        for (name, app) in &world.apps {
            prop_assert!(app.promotions.len() <= world.commit as usize, "{}", name);
        }
    }

    #[test]
    fn nor_when_windows_shut_and_steps_close_and_time_passes(
        turns in proptest::collection::vec(slow_turn(), 0..160),
        sizes in sizes(),
        limits in limits(),
    ) {
        prop_assume!(sizes.iter().sum::<usize>() > 0);
        let world = World::after(&limits, &sizes, turns);
        prop_assert_eq!(world.generated.len(), world.apps.len());
    }

    #[test]
    fn nor_when_people_interfere_and_things_break(
        turns in proptest::collection::vec(any_turn(), 0..120),
        sizes in sizes(),
        limits in limits(),
    ) {
        prop_assume!(sizes.iter().sum::<usize>() > 0);
        let world = World::after(&limits, &sizes, turns);
        prop_assert_eq!(world.generated.len(), world.apps.len());
    }
}
