//! Simulated rollouts whose status lists a part of the entries, with crashes
//! between the write of the status and the last write of an Application: an
//! omitted entry has the same state as if it were listed.

use proptest::prelude::{Just, ProptestConfig, prop_assert, prop_oneof, proptest};
use proptest::strategy::Strategy as Arbitrary;
use std::collections::BTreeSet;

use super::*;
use crate::rollout::listed::{CompletionRecord, Listed, RecordKind, choose, implied};
use health::Status as H;

/// One Application: what is observed, its record, and its real history.
#[derive(Clone)]
struct App {
    observed: Observed,
    record: Option<CompletionRecord>,
    /// The revisions that it was Synced and Healthy with.
    healthy: BTreeSet<String>,
    fails: bool,
}

/// A simulated cluster with a small limit for the status.
struct Fleet {
    strategy: StepStrategy,
    memberships: BTreeMap<String, Membership>,
    apps: BTreeMap<String, App>,
    /// The stored status: the entries, and their number according to it.
    stored: BTreeMap<String, Entry>,
    listed: Option<usize>,
    commit: u32,
    now: Timestamp,
    capacity: usize,
}

#[derive(Clone, Debug)]
enum Turn {
    Advance(usize),
    Commit,
    /// The branch is reset to the previous commit.
    Revert,
    /// The cluster is changed manually.
    Drift(usize),
    /// Its operation fails, or its health is delayed.
    Fail(usize),
    Sleep(u32),
    /// The status is written, and this many of the Applications.
    Crash(usize),
    /// The entry with this number is removed.
    Lose(usize),
    Wipe,
}

impl Fleet {
    fn new(sizes: &[usize], capacity: usize) -> Self {
        let limits: Vec<Value> = sizes.iter().map(|_| json!(2)).collect();
        let strategy = steps_of(&limits);
        let mut labels = BTreeMap::new();
        for (step, size) in sizes.iter().enumerate() {
            for index in 0..*size {
                labels
                    .insert(format!("s{step}-{index}"), generated(&(step + 1).to_string()).labels);
            }
        }
        let memberships = steps::step_memberships(
            strategy.steps(),
            labels.iter().map(|(name, labels)| (name.as_str(), labels)),
        );
        let app = App {
            observed: Observed { revisions: vec![], ..seen(H::Missing, SyncStatusCode::OutOfSync) },
            record: None,
            healthy: BTreeSet::new(),
            fails: false,
        };
        let apps = labels.keys().map(|name| (name.clone(), app.clone())).collect();
        let (stored, listed) = (BTreeMap::new(), None);
        Self { strategy, memberships, apps, stored, listed, commit: 1, now: now(), capacity }
    }

    fn revision(&self) -> String {
        format!("r{}", self.commit)
    }

    /// Decides as the controller does.
    fn decide(&self) -> (RolloutPlan, Listed) {
        let is_compact = self.listed == Some(self.stored.len());
        let entry = |(name, app): (&String, &App)| {
            let step = self.memberships[name].step();
            let missing = is_compact && !self.stored.contains_key(name);
            let record = app.record.as_ref();
            missing.then(|| implied(name, step, record, Some("spec"), &app.observed, now()))
        };
        let implied: Vec<Option<Entry>> = self.apps.iter().map(entry).collect();
        let member = |((name, app), implied): ((&'_ String, &'_ App), &'_ Option<Entry>)| {
            (name.clone(), app.clone(), implied.clone())
        };
        let owned: Vec<(String, App, Option<Entry>)> =
            self.apps.iter().zip(&implied).map(member).collect();
        let members: Vec<Member<'_>> = owned
            .iter()
            .map(|(name, app, implied)| Member {
                name,
                steps: self.memberships.get(name),
                invalid: None,
                unwritten: None,
                excluded: None,
                is_going: false,
                resource: None,
                denied: None,
                observed: Some(&app.observed),
                entry: self.stored.get(name).or(implied.as_ref()),
                is_listed: self.stored.contains_key(name),
                record: app.record.as_ref(),
                spec: Some("spec"),
                started: None,
            })
            .collect();
        let snapshot = super::super::RolloutSnapshot {
            strategy: &self.strategy,
            members: &members,
            settings: RolloutSettings::default(),
            opened: None,
            capacity: self.capacity,
            run_input: None,
        };
        let plan = super::super::step(&snapshot, self.now);
        let listed = choose(&members, plan.entries.clone(), self.capacity);
        (plan, listed)
    }

    /// No Application is Healthy that never was with its current revision.
    fn check(&self, plan: &RolloutPlan, listed: &Listed) {
        for entry in plan.entries.iter().filter(|entry| entry.phase == Phase::Healthy) {
            let app = &self.apps[&entry.application];
            let revision = app.observed.revisions.first().cloned().unwrap_or_default();
            let was = app.healthy.contains(&revision);
            assert!(was || entry.timed_out(), "{entry:?} was never healthy at {revision}");
        }
        let bytes = status::to_json(&listed.entries).to_string().len();
        assert!(bytes <= self.capacity + 2, "{bytes} bytes of {}", self.capacity);
        if listed.count.is_some() {
            let in_flight = plan.entries.iter().filter(|entry| entry.phase.is_in_flight());
            for entry in in_flight {
                let name = &entry.application;
                assert!(listed.entries.iter().any(|one| one.application == *name), "{name}");
            }
        }
        for (index, step) in plan.steps.iter().enumerate() {
            let limit = step.limit.capped(step.total);
            assert!(step.in_flight <= limit, "step {index}: {} of {limit}", step.in_flight);
        }
    }

    fn reconcile(&mut self, writes: usize) {
        let (plan, listed) = self.decide();
        self.check(&plan, &listed);
        let targets: BTreeMap<&String, &Entry> =
            plan.entries.iter().map(|entry| (&entry.application, entry)).collect();
        let starts = plan.starts.iter().map(|start| {
            let record = listed.is_compact.then(|| CompletionRecord {
                kind: RecordKind::Started,
                target_revisions: targets[&start.application].target_revisions.clone(),
                spec: "spec".to_owned(),
                step: Some(start.step),
                since: start.promotion,
            });
            (start.application.clone(), Some(start.promotion), record)
        });
        let records =
            listed.records.iter().map(|(name, one)| (name.clone(), None, Some(one.clone())));
        let all: Vec<_> = starts.chain(records).take(writes).collect();
        self.listed = listed.count;
        self.stored =
            listed.entries.iter().map(|one| (one.application.clone(), one.clone())).collect();
        for (name, promotion, record) in all {
            let Some(app) = self.apps.get_mut(&name) else { continue };
            app.record = record.or(app.record.take());
            if promotion.is_some() {
                app.observed.requested =
                    Some(phase::RequestedOperation { promotion, is_partial: false });
            }
        }
    }

    fn name(&self, index: usize) -> String {
        self.apps.keys().nth(index % self.apps.len()).unwrap().clone()
    }

    fn advance(&mut self, index: usize) {
        let (name, revision, now) = (self.name(index), self.revision(), self.now);
        let Some(app) = self.apps.get_mut(&name) else { return };
        let observed = &mut app.observed;
        observed.reconciled_at = Some(wavegate_api::time::stored_time(now));
        if let Some(requested) = observed.requested.take() {
            observed.operation = Some(ObservedOperation {
                promotion: requested.promotion,
                finished_at: None,
                phase: OperationPhase::Running,
                started_at: wavegate_api::time::stored_time(now),
                revisions: vec![revision],
                message: String::new(),
                is_blocked: false,
                is_partial: false,
            });
            return;
        }
        let running = observed.operation.take_if(|operation| !operation.phase.is_completed());
        if let Some(mut operation) = running {
            let failed = std::mem::take(&mut app.fails);
            operation.phase =
                if failed { OperationPhase::Failed } else { OperationPhase::Succeeded };
            operation.finished_at = Some(wavegate_api::time::stored_time(now));
            observed.sync = SyncStatusCode::Synced;
            // Healthy only later.
            observed.health = H::Progressing;
            observed.revisions.clone_from(&operation.revisions);
            observed.operation = Some(operation);
            return;
        }
        if observed.revisions != [revision.clone()] {
            observed.revisions = vec![revision];
            observed.sync = SyncStatusCode::OutOfSync;
        } else if observed.sync == SyncStatusCode::Synced {
            observed.health = H::Healthy;
            app.healthy.insert(revision);
        }
    }

    fn take(&mut self, turn: &Turn) {
        match turn {
            Turn::Advance(index) => self.advance(*index),
            Turn::Commit => self.commit += 1,
            Turn::Revert => self.commit = self.commit.saturating_sub(1).max(1),
            Turn::Sleep(seconds) => self.now += SignedDuration::from_secs(i64::from(*seconds)),
            Turn::Crash(writes) => self.reconcile(*writes),
            Turn::Wipe => {
                self.stored.clear();
                self.listed = None;
            }
            Turn::Lose(index) => {
                let name = self.name(*index);
                self.stored.remove(&name);
            }
            Turn::Fail(index) | Turn::Drift(index) => {
                let name = self.name(*index);
                let Some(app) = self.apps.get_mut(&name) else { return };
                match turn {
                    Turn::Fail(_) => app.fails = true,
                    _ if !app.observed.has_operation_in_flight() => {
                        app.observed.sync = SyncStatusCode::OutOfSync;
                    }
                    _ => {}
                }
            }
        }
    }
}

fn turn() -> impl Arbitrary<Value = Turn> {
    prop_oneof![
        24 => (0usize..64).prop_map(Turn::Advance),
        1 => Just(Turn::Commit),
        1 => Just(Turn::Revert),
        1 => (0usize..64).prop_map(Turn::Drift),
        1 => (0usize..64).prop_map(Turn::Fail),
        2 => (0u32..3).prop_map(Turn::Sleep),
        4 => (0usize..4).prop_map(Turn::Crash),
        1 => (0usize..64).prop_map(Turn::Lose),
        1 => Just(Turn::Wipe),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_is_not_listed_is_never_taken_for_more_than_it_was(
        turns in proptest::collection::vec(turn(), 0..200),
        sizes in proptest::collection::vec(1usize..7, 1..4),
        capacity in 500usize..2_500,
    ) {
        let mut fleet = Fleet::new(&sizes, capacity);
        for turn in &turns {
            fleet.take(turn);
            fleet.reconcile(usize::MAX);
        }
    }

    #[test]
    fn a_rollout_ends_however_little_the_status_holds(
        sizes in proptest::collection::vec(1usize..9, 1..4),
        capacity in 500usize..2_500,
        commits in 1u32..4,
    ) {
        let mut fleet = Fleet::new(&sizes, capacity);
        for _ in 0..commits {
            fleet.commit += 1;
            for _ in 0..60 {
                for index in 0..fleet.apps.len() {
                    fleet.advance(index);
                    fleet.reconcile(usize::MAX);
                }
                fleet.now += SignedDuration::from_secs(1);
            }
            let (plan, listed) = fleet.decide();
            prop_assert!(plan.open_step.is_none(), "{:?}", plan.waiting);
            prop_assert!(listed.records.is_empty(), "{:?}", listed.records);
            prop_assert!(plan.starts.is_empty() && plan.transitions.is_empty());
        }
    }
}

/// A status without entries, while an operation was requested in a step that had closed
/// again: the Application was Waiting with the record of a start, was not listed in the full
/// status, and so became Healthy without ever having been synced.
#[test]
fn a_requested_operation_is_not_taken_for_a_finished_one_after_a_loss_of_the_status() {
    let before = [0, 1, 0, 0, 0, 2, 2, 2, 1, 0, 1].map(Turn::Advance);
    let commit = [Turn::Commit, Turn::Advance(1), Turn::Revert, Turn::Advance(1)];
    let loss = [Turn::Wipe, Turn::Advance(0)];
    let mut fleet = Fleet::new(&[3, 6], 500);
    for turn in before.iter().chain(&commit).chain(&loss) {
        fleet.take(turn);
        fleet.reconcile(usize::MAX);
    }
}

/// The status was lost while an Application was Synced and not Healthy yet, and was so full that
/// it could not be listed as Progressing: it did not count, and another one was promoted.
#[test]
fn what_the_status_has_no_room_for_counts_as_in_flight() {
    use Turn::{Advance, Commit, Drift, Fail, Revert, Wipe};
    let begin = [0, 1, 1, 0].map(Advance);
    let commit = [Commit, Advance(1), Revert, Advance(1), Fail(1)];
    let sync = [2, 0, 2, 2, 0, 3, 3, 3, 1, 1].map(Advance);
    let loss = [Drift(0), Advance(3), Wipe, Advance(4), Advance(4), Wipe, Turn::Sleep(0)];
    let mut fleet = Fleet::new(&[6], 505);
    for turn in begin.iter().chain(&commit).chain(&sync).chain(&loss) {
        fleet.take(turn);
        fleet.reconcile(usize::MAX);
    }
}
