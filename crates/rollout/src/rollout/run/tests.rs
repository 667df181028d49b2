//! Rollouts with policies in a small simulated fleet: what the tables of `spec/steering.md` say.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::started::Started;
use crate::rollout::observed::{
    Compared, Deployed, Observed, ObservedOperation, RequestedOperation,
};
use crate::rollout::observed::{OperationEnd, PersonSync};
use crate::rollout::phase::{Entry, Phase};
use crate::rollout::policy::{Policy, Rules, Selectable};
use crate::rollout::run_input::{CurrentRun, Pool, RunInput, StaleRequests, Unreadable};
use crate::rollout::steps::{Membership, StepStrategy};
use crate::rollout::wait_kind::WaitKind;
use crate::rollout::{Denied, Member, RolloutPlan, RolloutSettings, RolloutSnapshot, step};
use wavegate_api::run::{RolloutRunSpec, RolloutRunStatus, RunPhase};
use wavegate_api::{HealthStatus, OperationPhase, SyncStatusCode};

mod found;
mod hard_cases;
mod large;
mod late;
mod later;
mod moments;
mod quarantine;
mod sizes;
mod standings;
mod verdicts;
mod voids;
mod words;

/// An Application of the fleet.
#[derive(Clone)]
struct App {
    step: usize,
    observed: Observed,
    entry: Option<Entry>,
    started: Option<Started>,
    /// What its generated spec resolves to.
    head: String,
    spec: String,
    /// What the running operation deploys.
    target: String,
    deployed: String,
    /// How its next syncs end.
    fate: Fate,
    /// The revision at which they fail all the same.
    fails_at: Option<String>,
    is_going: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Healthy,
    Fails,
    Degraded,
    Hangs,
    /// It is synced, and stays Progressing.
    Progresses,
    /// Its operation is never taken.
    Ignores,
}

struct Fleet {
    apps: BTreeMap<String, App>,
    strategy: StepStrategy,
    policies: Vec<Policy>,
    paused: Option<String>,
    runs: Vec<(String, RolloutRunSpec, RolloutRunStatus)>,
    pools: Vec<Pool>,
    /// What denies syncs, of all or of one.
    denied: Option<Denied>,
    denied_one: Option<&'static str>,
    /// Whether the targets cannot be compared.
    unreadable: bool,
    /// Whether what drifts stays as it is.
    ignores_drift: bool,
    taken: u64,
    records_runs: bool,
    hides_runs: bool,
    hides_policies: bool,
    unreadable_run: Option<Unreadable>,
    now: Timestamp,
    plan: Option<RolloutPlan>,
}

impl Fleet {
    /// Applications `s1-0`, `s1-1`, …, `s2-0`, … that are Healthy at `r1`, without a run.
    fn new(sizes: &[usize], max_update: Value) -> Self {
        let steps: Vec<Value> = (1..=sizes.len())
            .map(|number| {
                json!({
                    "matchExpressions": [{"key": "step", "operator": "In", "values": [number.to_string()]}],
                    "maxUpdate": max_update,
                })
            })
            .collect();
        let strategy = json!({"type": "RollingSync", "rollingSync": {"steps": steps}});
        let now: Timestamp = "2026-01-02T12:00:00Z".parse().unwrap();
        let mut apps = BTreeMap::new();
        for (step, size) in sizes.iter().enumerate() {
            for index in 0..*size {
                let observed = Observed {
                    health: HealthStatus::Healthy,
                    sync: SyncStatusCode::Synced,
                    revisions: vec!["r1".to_owned()],
                    reconciled_at: Some(now),
                    compared: Compared::Current,
                    spec_differs: false,
                    requested: None,
                    operation: None,
                    deployed: Deployed::At(now, vec!["r1".to_owned()]),
                    person: None,
                    has_error_condition: false,
                    has_error: false,
                    went_back_just_now: false,
                    has_left_its_hold: false,
                    is_automated: false,
                    needs_confirmation: false,
                    needs_a_prune: false,
                    detail: String::new(),
                    until: None,
                    sources: Vec::new(),
                };
                let app = App {
                    step,
                    observed,
                    entry: None,
                    started: None,
                    head: "r1".to_owned(),
                    spec: "spec".to_owned(),
                    target: String::new(),
                    deployed: "r1".to_owned(),
                    fate: Fate::Healthy,
                    fails_at: None,
                    is_going: false,
                };
                apps.insert(format!("s{}-{index}", step + 1), app);
            }
        }
        let mut fleet = Self {
            apps,
            strategy: StepStrategy::read(Some(&strategy)).0,
            policies: Vec::new(),
            paused: None,
            runs: Vec::new(),
            pools: Vec::new(),
            denied: None,
            denied_one: None,
            unreadable: false,
            ignores_drift: false,
            taken: 0,
            records_runs: true,
            hides_runs: false,
            hides_policies: false,
            unreadable_run: None,
            now,
            plan: None,
        };
        fleet.reconcile();
        fleet
    }

    fn policy(mut self, spec: Value) -> Self {
        let spec = serde_json::from_value(spec).unwrap();
        self.policies.push(Policy { name: format!("p{}", self.policies.len()), spec: Ok(spec) });
        self
    }

    fn push(&mut self, revision: &str) {
        self.apps.values_mut().for_each(|app| app.head = revision.to_owned());
    }

    fn rules(&self) -> Rules {
        let selectable = |(name, app): (&String, &App)| Selectable {
            name: name.clone(),
            labels: [
                ("step".to_owned(), (app.step + 1).to_string()),
                ("parity".to_owned(), (name.ends_with(['0', '2', '4'])).to_string()),
            ]
            .into(),
            step: Some(app.step),
        };
        let all: Vec<Selectable> = self.apps.iter().map(selectable).collect();
        Rules::of(&self.policies, "shop", &BTreeMap::new(), &all, self.strategy.steps().len())
    }

    fn settings(&self) -> RolloutSettings {
        let mut settings = RolloutSettings::default();
        settings.rules.capture_drift = !self.ignores_drift;
        settings
    }

    fn decide(&self) -> RolloutPlan {
        let rules = self.rules();
        let memberships: BTreeMap<&String, Membership> = self
            .apps
            .iter()
            .map(|(name, app)| {
                // Those of a removed step are of none.
                let is_selected = app.step < self.strategy.steps().len();
                (name, Membership { steps: Vec::from_iter(is_selected.then_some(app.step)) })
            })
            .collect();
        let members: Vec<Member<'_>> = self
            .apps
            .iter()
            .map(|(name, app)| Member {
                name,
                steps: Some(&memberships[name]),
                invalid: None,
                unwritten: None,
                denied: (self.denied.as_ref())
                    .filter(|_| self.denied_one.is_none_or(|one| one == name.as_str())),
                excluded: None,
                is_going: app.is_going,
                resource: None,
                observed: Some(&app.observed),
                entry: app.entry.as_ref(),
                is_listed: app.entry.is_some(),
                record: None,
                spec: Some(&app.spec),
                started: app.started.as_ref(),
            })
            .collect();
        let history: Vec<RolloutRunStatus> =
            self.runs.iter().map(|(_, _, status)| status.clone()).collect();
        let history = &history[..history.len().saturating_sub(1)];
        let earlier = self.runs.iter().take(history.len());
        let late = earlier.filter_map(|(name, spec, status)| StaleRequests::of(name, spec, status));
        let late: Vec<StaleRequests> = late.collect();
        let unreadable = self.unreadable_run.as_ref();
        let run = self.runs.last();
        let run = run.map(|(name, spec, status)| CurrentRun {
            name,
            spec,
            skip_manager: None,
            status,
            unreadable,
        });
        let snapshot = RolloutSnapshot {
            strategy: &self.strategy,
            members: &members,
            settings: self.settings(),
            opened: None,
            capacity: 1 << 20,
            run_input: Some(RunInput {
                namespace: "argocd",
                set: "shop",
                rules: &rules,
                paused: self.paused.as_deref(),
                paused_by: None,
                resumed_by: None,
                run,
                records_runs: self.records_runs,
                hides_runs: self.hides_runs,
                hides_policies: self.hides_policies,
                taken: self.taken,
                pools: &self.pools,
                history,
                late: &late,
                written_at: None,
            }),
        };
        let plan = step(&snapshot, self.now);
        assert_eq!(plan, step(&snapshot, self.now), "the same snapshot gives the same plan");
        plan
    }

    /// One reconcile: the run, the entries, the operations.
    fn reconcile(&mut self) {
        let plan = self.decide();
        if let Some(run) = &plan.run {
            if let Some((name, status)) = &run.superseded {
                let old = self.runs.iter_mut().find(|(known, ..)| known == name).unwrap();
                old.2 = status.clone();
            }
            for late in &run.late {
                let old = self.runs.iter_mut().find(|(known, ..)| *known == late.name).unwrap();
                old.2 = late.status.clone();
            }
            if let Some(new) = &run.new {
                let spec = RolloutRunSpec {
                    application_set: new.application_set.clone(),
                    ..RolloutRunSpec::default()
                };
                self.runs.push((run.name.clone(), spec, RolloutRunStatus::default()));
            }
            let last = self.runs.last_mut().unwrap();
            assert_eq!(last.0, run.name);
            // As it is stored: without fractions of a second.
            let stored = serde_json::to_string(&run.status).unwrap();
            assert!(stored.len() < 64 << 10);
            last.2 = serde_json::from_str(&stored).unwrap();
        }
        for entry in &plan.entries {
            self.apps.get_mut(&entry.application).unwrap().entry = Some(entry.clone());
        }
        for start in &plan.starts {
            let app = self.apps.get_mut(&start.application).unwrap();
            assert!(!app.observed.has_operation_in_flight());
            app.observed.requested =
                Some(RequestedOperation { promotion: Some(start.promotion), is_partial: false });
            app.target = start.revisions.first().cloned().unwrap_or_else(|| app.head.clone());
            let mut started = start.started.clone().unwrap();
            if started.good.is_empty() && started.before == HealthStatus::Healthy {
                started.good = vec![app.deployed.clone()];
            }
            app.started = Some(started);
        }
        self.plan = Some(plan);
    }

    /// The application controller goes on with all Applications.
    fn act(&mut self) {
        let now = wavegate_api::time::stored_time(self.now);
        for app in self.apps.values_mut() {
            let observed = &mut app.observed;
            let is_taken = app.fate != Fate::Ignores;
            if let Some(requested) = observed.requested.take_if(|_| is_taken) {
                observed.operation = Some(ObservedOperation {
                    phase: OperationPhase::Running,
                    started_at: now,
                    finished_at: None,
                    promotion: requested.promotion,
                    revisions: vec![app.target.clone()],
                    message: "running".to_owned(),
                    is_blocked: false,
                    is_partial: false,
                });
                continue;
            }
            let running = observed.operation.as_mut().filter(|last| last.phase.is_running());
            if let Some(operation) = running {
                let fate = match app.target.as_str() {
                    target if app.fails_at.as_deref() == Some(target) => Fate::Fails,
                    "r1" => Fate::Healthy,
                    _ => app.fate,
                };
                if fate == Fate::Hangs {
                    continue;
                }
                operation.finished_at = Some(now);
                operation.phase = OperationPhase::Succeeded;
                observed.health = HealthStatus::Healthy;
                match fate {
                    Fate::Fails => {
                        operation.phase = OperationPhase::Failed;
                        operation.message = "Job smoke-1 failed".to_owned();
                    }
                    Fate::Degraded => {
                        app.deployed.clone_from(&app.target);
                        observed.health = HealthStatus::Degraded;
                        observed.detail = "Pod web-1: CrashLoopBackOff".to_owned();
                    }
                    Fate::Progresses => {
                        app.deployed.clone_from(&app.target);
                        observed.health = HealthStatus::Progressing;
                    }
                    Fate::Healthy | Fate::Hangs | Fate::Ignores => {
                        app.deployed.clone_from(&app.target);
                    }
                }
                observed.deployed = Deployed::At(now, vec![app.deployed.clone()]);
            }
            observed.revisions = vec![app.head.clone()];
            observed.reconciled_at = Some(now);
            observed.sync = match app.deployed == app.head {
                _ if self.unreadable => SyncStatusCode::Unknown,
                true => SyncStatusCode::Synced,
                false => SyncStatusCode::OutOfSync,
            };
        }
    }

    /// So many seconds, with a reconcile and a step of the application controller in each.
    fn run(&mut self, seconds: usize) {
        for _ in 0..seconds {
            self.act();
            self.now += SignedDuration::from_secs(1);
            self.reconcile();
            self.check();
        }
    }

    /// What must always hold (section 6).
    fn check(&self) {
        let plan = self.plan.as_ref().unwrap();
        let promoted: Vec<&str> = plan.starts.iter().map(|start| &*start.application).collect();
        if self.paused.is_some() {
            assert!(promoted.is_empty(), "promoted while paused: {promoted:?}");
        }
        let rules = self.rules();
        let status = &self.runs.last().unwrap().2;
        // In one that has ended, only what has drifted starts.
        for name in promoted.into_iter().filter(|_| !status.phase.has_ended()) {
            for gate in rules.gates_of(name) {
                let is_open = status.gates[*gate].opened_at.is_some();
                let goes_back = self.apps[name].started.as_ref().is_some_and(|one| one.goes_back);
                assert!(is_open || goes_back, "{name} behind a shut gate");
            }
        }
    }

    fn status(&self) -> &RolloutRunStatus {
        &self.runs.last().unwrap().2
    }

    fn said(&mut self, change: impl FnOnce(&mut RolloutRunSpec)) {
        change(&mut self.runs.last_mut().unwrap().1);
    }

    /// A person retries what has failed.
    fn retry(&mut self) {
        let at = Some(wavegate_api::Time(self.now));
        let retry = wavegate_api::run::Retry { by: "ann".to_owned(), at, applications: Vec::new() };
        self.said(|spec| spec.retries.push(retry));
    }

    fn abort(&mut self, terminate: bool) {
        let at = Some(wavegate_api::Time(self.now));
        let abort = wavegate_api::run::Abort { by: "ann".to_owned(), at, terminate };
        self.said(|spec| spec.abort = Some(abort));
    }

    fn roll_back(&mut self) {
        let at = Some(wavegate_api::Time(self.now));
        let word = wavegate_api::run::UserRequest { by: "ann".to_owned(), at };
        self.said(|spec| spec.rollback = Some(word));
    }

    /// A person syncs it to `r1`, after it was synced to its target.
    fn sync_by_a_person(&mut self, name: &str) {
        let now = self.now;
        let app = self.apps.get_mut(name).unwrap();
        app.deployed = "r1".to_owned();
        app.observed.sync = SyncStatusCode::OutOfSync;
        let mut operation = app.observed.operation.clone().unwrap();
        operation.promotion = None;
        operation.started_at = now;
        operation.finished_at = Some(now);
        operation.revisions = vec!["r1".to_owned()];
        app.observed.operation = Some(operation);
        app.observed.person = Some(Box::new(PersonSync {
            revisions: vec!["r1".to_owned()],
            is_local: false,
            is_explicit: true,
            by: "ann".to_owned(),
            started_at: now,
            end: OperationEnd::Succeeded,
            is_after_target: true,
        }));
    }

    fn deployed(&self, revision: &str) -> usize {
        self.apps.values().filter(|app| app.deployed == revision).count()
    }

    fn in_flight(&self) -> usize {
        let is = |app: &&App| app.entry.as_ref().is_some_and(|entry| entry.phase.is_in_flight());
        self.apps.values().filter(is).count()
    }

    fn kinds(&self) -> Vec<WaitKind> {
        let plan = self.plan.as_ref().unwrap();
        plan.waiting.iter().map(|wait| wait.kind).collect()
    }

    fn what(&self) -> Vec<&str> {
        self.status().timeline.iter().map(|entry| entry.what.as_str()).collect()
    }
}

#[test]
fn a_change_is_a_run_from_its_first_promotion_to_its_end_as_st_003() {
    let mut fleet = Fleet::new(&[2, 2], json!(null));
    assert!(fleet.runs.is_empty(), "nothing to roll out");
    fleet.push("r2");
    fleet.run(20);
    let (name, spec, status) = &fleet.runs[0];
    assert_eq!((fleet.runs.len(), name.as_str()), (1, "shop-1"));
    assert_eq!(spec.application_set, "shop");
    assert_eq!(status.phase, RunPhase::Complete, "{status:?}");
    assert_eq!((status.done, status.total, status.progress.as_str()), (4, 4, "4/4"));
    assert_eq!((status.from[0].revision.as_str(), status.from[0].applications), ("r1", 4));
    assert_eq!((status.to[0].revision.as_str(), status.to[0].applications), ("r2", 4));
    assert!(status.steps.iter().all(|step| step.completed_at.is_some()));
    assert_eq!(
        fleet.what(),
        ["StepOpened", "Progressing", "StepCompleted", "StepOpened", "StepCompleted", "Complete"]
    );
    let runs = fleet.runs.clone();
    fleet.run(5);
    assert_eq!(fleet.runs.len(), runs.len());
    assert_eq!(fleet.runs[0].2, runs[0].2, "an ended run does not change");
    fleet.push("r3");
    fleet.run(20);
    assert_eq!(fleet.runs[1].0, "shop-2");
    assert_eq!(fleet.deployed("r3"), 4);
}

#[test]
fn a_new_target_of_a_started_application_supersedes_the_run_as_st_003() {
    let mut fleet = Fleet::new(&[1, 1], json!(null));
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Hangs;
    fleet.run(4);
    // It joins the run: it is not started.
    fleet.apps.get_mut("s2-0").unwrap().head = "r3".to_owned();
    fleet.run(2);
    assert_eq!(fleet.runs.len(), 1);
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Healthy;
    fleet.run(1);
    fleet.apps.get_mut("s1-0").unwrap().head = "r3".to_owned();
    fleet.run(20);
    let phases: Vec<RunPhase> = fleet.runs.iter().map(|(_, _, status)| status.phase).collect();
    assert_eq!(phases, [RunPhase::Superseded, RunPhase::Complete]);
    assert_eq!(fleet.deployed("r3"), 2);
}

#[test]
fn nothing_is_promoted_while_paused_and_resuming_needs_nothing_as_st_020() {
    for by_policy in [false, true] {
        let mut fleet = Fleet::new(&[4], json!(1));
        fleet.push("r2");
        fleet.run(6);
        let before = fleet.deployed("r2");
        assert!(before >= 1);
        match by_policy {
            true => fleet = fleet.policy(json!({"paused": true})),
            false => fleet.paused = Some("freeze".to_owned()),
        }
        fleet.run(20);
        let running = fleet.deployed("r2");
        assert!(running <= before + 1, "what ran ends by itself");
        assert_eq!(fleet.status().phase, RunPhase::Paused);
        assert!(fleet.kinds().iter().all(|kind| *kind == WaitKind::Paused), "{:?}", fleet.kinds());
        let said = &fleet.plan.as_ref().unwrap().waiting[0].message;
        let word = if by_policy { "policy p0" } else { "freeze" };
        assert!(said.contains(word), "{said}");
        fleet.paused = None;
        fleet.policies.clear();
        fleet.run(40);
        assert_eq!((fleet.deployed("r2"), fleet.status().phase), (4, RunPhase::Complete));
    }
}

fn gate(approvals: u64, soak: &str) -> Value {
    json!({"gates": [{"name": "production", "steps": [2], "approvals": approvals, "soak": soak}]})
}

fn approve(fleet: &mut Fleet, by: &str) {
    let covers = fleet.status().gates[0].covers.clone();
    fleet.said(|spec| {
        spec.approvals.push(wavegate_api::run::Approval {
            gate: "production".to_owned(),
            by: by.to_owned(),
            at: None,
            covers,
        });
    });
}

#[test]
fn a_gate_opens_with_approvals_of_different_people_as_st_011() {
    let mut fleet = Fleet::new(&[1, 2], json!(null)).policy(gate(2, ""));
    fleet.push("r2");
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (1, RunPhase::AwaitingApproval));
    assert_eq!(fleet.kinds(), [WaitKind::Approval; 2]);
    approve(&mut fleet, "ann");
    approve(&mut fleet, "ann");
    fleet.run(5);
    assert_eq!(fleet.deployed("r2"), 1, "one person");
    assert_eq!(fleet.status().gates[0].approved_by, ["ann"]);
    approve(&mut fleet, "bob");
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (3, RunPhase::Complete));
    assert!(fleet.what().contains(&"GateOpened"));
}

#[test]
fn an_approval_counts_for_the_targets_it_was_given_for_as_st_011() {
    let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(gate(1, ""));
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Hangs;
    fleet.run(4);
    // Before the gate is reached.
    approve(&mut fleet, "ann");
    fleet.run(2);
    assert_eq!(fleet.status().gates[0].approved_by, ["ann"]);
    let is_open = fleet.status().gates[0].opened_at.is_some();
    assert!(is_open, "nothing but the approval was missing");
    let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(gate(1, "10s"));
    fleet.push("r2");
    fleet.run(4);
    approve(&mut fleet, "ann");
    fleet.run(2);
    fleet.apps.get_mut("s2-0").unwrap().head = "r3".to_owned();
    fleet.run(40);
    assert_eq!(fleet.deployed("r3"), 0);
    assert_eq!(fleet.status().gates[0].void, ["ann"]);
    assert_eq!(fleet.status().phase, RunPhase::AwaitingApproval);
    assert!(fleet.what().contains(&"ApprovalVoid"));
    approve(&mut fleet, "ann");
    fleet.run(20);
    assert_eq!((fleet.deployed("r3"), fleet.status().phase), (1, RunPhase::Complete));
}

#[test]
fn a_soak_counts_from_when_all_earlier_steps_are_healthy_as_st_012() {
    let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(gate(0, "30s"));
    fleet.push("r2");
    fleet.run(25);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (1, RunPhase::Soaking));
    // It begins again.
    fleet.apps.get_mut("s1-0").unwrap().observed.health = HealthStatus::Degraded;
    fleet.run(3);
    assert_eq!(fleet.status().gates[0].soaking_since, None);
    fleet.apps.get_mut("s1-0").unwrap().observed.health = HealthStatus::Healthy;
    fleet.run(25);
    assert_eq!(fleet.deployed("r2"), 1, "the time counts from the start");
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (2, RunPhase::Complete));
}

/// A soak took as much longer as the clock of the controller before was ahead.
#[test]
fn a_soak_ends_although_the_clock_was_set_back_as_st_012() {
    let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(gate(0, "30s"));
    fleet.push("r2");
    fleet.run(25);
    assert_eq!(fleet.status().phase, RunPhase::Soaking);
    let ahead = fleet.now.checked_add(SignedDuration::from_hours(2)).unwrap();
    let (_, _, status) = fleet.runs.last_mut().unwrap();
    status.gates[0].soaking_since = Some(wavegate_api::Time(ahead));
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (1, RunPhase::Soaking));
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (2, RunPhase::Complete));
}

#[test]
fn failures_within_the_budget_do_not_hold_their_step_as_st_042() {
    let budget = json!({"failures": {"max": 1}});
    let mut fleet = Fleet::new(&[3, 2], json!(1)).policy(budget);
    fleet.push("r2");
    fleet.apps.get_mut("s1-1").unwrap().fate = Fate::Fails;
    fleet.run(60);
    let status = fleet.status();
    assert_eq!((fleet.deployed("r2"), status.phase), (4, RunPhase::CompleteWithFailures));
    assert_eq!((status.failed, status.failures[0].count), (1, 1));
    assert_eq!(status.failures[0].applications, ["s1-1"]);
    fleet.run(5);
    assert_eq!(fleet.runs.len(), 1, "what it left begins no run");
    // The next change takes it again.
    fleet.apps.get_mut("s1-1").unwrap().fate = Fate::Healthy;
    fleet.push("r3");
    fleet.run(60);
    assert_eq!((fleet.deployed("r3"), fleet.status().phase), (5, RunPhase::Complete));
}

#[test]
fn more_failures_hold_until_a_person_acts_or_they_recover_as_st_042() {
    let budget = || json!({"failures": {"max": 1}});
    let held = || {
        let mut fleet = Fleet::new(&[4, 2], json!(2)).policy(budget());
        fleet.push("r2");
        for name in ["s1-0", "s1-1"] {
            fleet.apps.get_mut(name).unwrap().fate = Fate::Degraded;
        }
        fleet.run(40);
        assert_eq!(fleet.status().phase, RunPhase::Held, "{:?}", fleet.status());
        assert!(fleet.kinds().contains(&WaitKind::FailureBudget), "{:?}", fleet.kinds());
        fleet
    };
    let mut recovers = held();
    for name in ["s1-0", "s1-1"] {
        recovers.apps.get_mut(name).unwrap().observed.health = HealthStatus::Healthy;
    }
    recovers.run(60);
    assert_eq!(recovers.status().phase, RunPhase::Complete);

    let mut retried = held();
    for app in retried.apps.values_mut() {
        app.fate = Fate::Healthy;
    }
    retried.retry();
    retried.run(60);
    assert_eq!((retried.deployed("r2"), retried.status().phase), (6, RunPhase::Complete));

    let mut skipped = held();
    skipped.said(|spec| spec.skip.push("s1-0".to_owned()));
    skipped.run(60);
    assert_eq!(skipped.status().phase, RunPhase::CompleteWithFailures);
    assert_eq!(skipped.status().skipped, ["s1-0"]);
}

#[test]
fn a_retry_starts_a_failed_application_once_as_st_063() {
    let mut fleet = Fleet::new(&[2], json!(null));
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Degraded;
    fleet.run(20);
    let first = fleet.apps["s1-0"].started.clone().unwrap().at;
    let at = fleet.now;
    fleet.said(|spec| {
        spec.retries.push(wavegate_api::run::Retry {
            by: "ann".to_owned(),
            at: Some(wavegate_api::Time(at)),
            applications: vec!["s1-0".to_owned()],
        });
    });
    fleet.run(20);
    let second = fleet.apps["s1-0"].started.clone().unwrap().at;
    assert!(second > first);
    fleet.run(40);
    assert_eq!(fleet.apps["s1-0"].started.clone().unwrap().at, second, "once");
    assert_eq!(fleet.status().retried.len(), 1);
}

/// A merge patch with one retry takes the place of the retry before it. It was ignored, and nothing
/// said so.
#[test]
fn a_retry_in_the_place_of_an_earlier_one_counts_as_st_063() {
    let mut fleet = Fleet::new(&[2], json!(null));
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Degraded;
    fleet.run(20);
    let mut starts = vec![fleet.apps["s1-0"].started.clone().unwrap().at];
    for _ in 0..2 {
        let retry = wavegate_api::run::Retry {
            by: "ann".to_owned(),
            at: Some(wavegate_api::Time(fleet.now)),
            applications: Vec::new(),
        };
        // Written twice, it counts once.
        fleet.said(|spec| spec.retries = vec![retry.clone(), retry]);
        fleet.run(60);
        starts.push(fleet.apps["s1-0"].started.clone().unwrap().at);
    }
    assert!(starts.is_sorted_by(|earlier, later| earlier < later), "{starts:?}");
    let retries = fleet.status().timeline.iter().filter(|entry| entry.what == "Retried").count();
    assert_eq!(retries, 2);
}

/// The failed one counts until it is started again, so that one which has drifted meanwhile does
/// not start in its place.
#[test]
fn a_failed_application_keeps_its_place_until_its_retry_as_st_063() {
    for policy in [
        json!({}),
        json!({"maxInFlight": 1}),
        json!({"spread": [{"label": "step", "max": 1}]}),
        json!({"failures": {"max": 0, "onFailure": "Hold"}}),
        json!({"failures": {"deadline": "20m"}}),
    ] {
        let mut fleet = Fleet::new(&[3], json!(1)).policy(policy.clone());
        fleet.push("r2");
        fleet.apps.get_mut("s1-1").unwrap().fate = Fate::Degraded;
        fleet.run(20);
        assert_eq!(fleet.in_flight(), 1, "{policy}");
        let drifted = fleet.apps.get_mut("s1-0").unwrap();
        drifted.deployed = "r1".to_owned();
        // Others have waited for longer, and wait for this place themselves.
        if policy["maxInFlight"] == 1 {
            let users = vec![("other".to_owned(), 0)];
            let policy = "p0".to_owned();
            fleet.pools =
                vec![Pool { policy, max: 1, elsewhere: 0, users, reserved: 1, waiting: 1 }];
        }
        fleet.run(3);
        fleet.apps.get_mut("s1-1").unwrap().fate = Fate::Healthy;
        fleet.retry();
        // The sync windows deny it at first.
        fleet.denied = Some(Denied { reason: "window".to_owned(), until: None });
        fleet.run(2);
        let plan = fleet.plan.as_ref().unwrap();
        assert_eq!(
            (plan.steps[0].in_flight, plan.in_flight, plan.starts.len()),
            (1, 0, 0),
            "its place is kept: {policy}"
        );
        let wait = plan.waiting.iter().find(|wait| wait.application == "s1-1").unwrap();
        assert_eq!(wait.kind, WaitKind::SyncWindow, "{wait:?}");
        fleet.denied = None;
        let mut order = Vec::new();
        for _ in 0..20 {
            fleet.run(1);
            let plan = fleet.plan.as_ref().unwrap();
            order.extend(plan.starts.iter().map(|start| start.application.clone()));
            assert!(plan.in_flight <= 1, "{policy}: {order:?}");
            if fleet.apps["s1-1"].observed.health == HealthStatus::Healthy {
                fleet.pools.iter_mut().for_each(|pool| pool.reserved = 0);
            }
        }
        assert_eq!(order, ["s1-1", "s1-0", "s1-2"], "{policy}");
        assert_eq!(fleet.deployed("r2"), 3, "{policy}");
    }
}

/// One that only keeps its place is named by its own wait; the others say so, and the set stands in
/// no queue of another limit for them.
#[test]
fn a_kept_place_is_told_and_waits_for_no_other_set_as_st_063() {
    let mut fleet = Fleet::new(&[3], json!(2)).policy(json!({"maxInFlight": 1}));
    let pool = Pool {
        policy: "p0".to_owned(),
        max: 1,
        elsewhere: 0,
        users: Vec::new(),
        reserved: 0,
        waiting: 0,
    };
    fleet.pools = vec![pool];
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Degraded;
    fleet.run(20);
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Healthy;
    let opens = fleet.now.checked_add(SignedDuration::from_secs(20)).unwrap();
    fleet.denied = Some(Denied { reason: "window".to_owned(), until: Some(opens) });
    fleet.denied_one = Some("s1-0");
    fleet.retry();
    fleet.run(3);
    let plan = fleet.plan.as_ref().unwrap();
    let why = |name: &str| {
        let wait = plan.waiting.iter().find(|wait| wait.application == name).unwrap();
        (wait.kind, wait.message.as_str())
    };
    assert_eq!(why("s1-0"), (WaitKind::SyncWindow, "a sync window denies it: window"));
    let message = "0 of 1 are in flight, and 1 that is retried keeps its place in all sets of \
                policy p0";
    assert_eq!(why("s1-1"), (WaitKind::MaxInFlight, message));
    assert_eq!(plan.waits_for_pools, Vec::<String>::new(), "the place is free for other sets");
    assert_eq!(plan.stalled, [], "its turn has just come");
    assert!(plan.wake_at <= Some(opens), "{:?}", plan.wake_at);
    // Another set has it, and its own place is still all that holds the others.
    fleet.pools[0].elsewhere = 1;
    fleet.run(1);
    assert_eq!(fleet.plan.as_ref().unwrap().waits_for_pools, Vec::<String>::new());
    fleet.denied = None;
    fleet.run(1);
    assert_eq!(fleet.plan.as_ref().unwrap().waits_for_pools, ["p0"]);
    fleet.pools[0].elsewhere = 0;
    fleet.run(40);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (3, RunPhase::Complete));
}

/// What was behind a gate in an earlier run is healed, also when the last run has ended before the
/// gate opened: nothing could open it any more.
#[test]
fn a_gate_of_a_run_that_has_ended_holds_nothing_as_st_010() {
    for soak in ["", "30m"] {
        let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(gate(1, soak));
        fleet.push("r2");
        fleet.run(10);
        approve(&mut fleet, "ann");
        fleet.run(1900);
        assert_eq!(fleet.status().phase, RunPhase::Complete, "{soak}");
        fleet.apps.get_mut("s1-0").unwrap().head = "r3".to_owned();
        fleet.run(30);
        assert_eq!((fleet.runs.len(), fleet.status().phase), (2, RunPhase::Complete));
        assert!(fleet.status().gates.iter().all(|gate| gate.opened_at.is_none()));
        fleet.apps.get_mut("s2-0").unwrap().deployed = "drift".to_owned();
        fleet.run(30);
        assert_eq!((fleet.deployed("drift"), fleet.runs.len()), (0, 2), "{:?}", fleet.kinds());
    }
}

/// One that is compared with the commit only after the abort has a target of the aborted run.
#[test]
fn a_target_that_is_known_after_the_abort_is_not_promoted_to_as_st_060() {
    let aborted = || {
        let mut fleet = Fleet::new(&[3], json!(1));
        fleet.push("r2");
        fleet.apps.get_mut("s1-2").unwrap().head = "r1".to_owned();
        fleet.run(2);
        fleet.abort(false);
        fleet.run(30);
        assert_eq!(fleet.status().phase, RunPhase::Aborted);
        fleet.apps.get_mut("s1-2").unwrap().head = "r2".to_owned();
        fleet.run(30);
        assert_eq!(fleet.apps["s1-2"].deployed, "r1", "{:?}", fleet.kinds());
        assert_eq!(fleet.runs.len(), 1);
        assert!(fleet.kinds().contains(&WaitKind::Quarantined), "{:?}", fleet.kinds());
        fleet
    };
    let mut retried = aborted();
    retried.retry();
    retried.run(60);
    assert_eq!(retried.deployed("r2"), 3);
    // Another spec, or another commit, is another target.
    let mut changed = aborted();
    changed.apps.get_mut("s1-2").unwrap().spec = "other".to_owned();
    changed.run(30);
    assert_eq!(changed.apps["s1-2"].deployed, "r2");
    let mut next = aborted();
    next.apps.get_mut("s1-1").unwrap().head = "r3".to_owned();
    next.run(30);
    assert_eq!((next.apps["s1-1"].deployed.as_str(), next.runs.len()), ("r3", 2));
    assert_eq!(next.apps["s1-2"].deployed, "r1", "the next run remembers it");
    next.push("r3");
    next.run(60);
    assert_eq!(next.deployed("r3"), 3);
}

/// What no run has started, since a commit changes nothing of it, is healed after an abort; so is
/// what the others had before.
#[test]
fn what_an_aborted_run_did_not_start_is_healed_as_st_060() {
    for is_new in [false, true] {
        let mut fleet = Fleet::new(&[3], json!(null));
        if is_new {
            // One at the commit of the others that was never deployed.
            fleet.push("r2");
            fleet.run(30);
            let new = fleet.apps.get_mut("s1-0").unwrap();
            (new.spec, new.deployed) = ("new".to_owned(), "none".to_owned());
            new.observed.deployed = Deployed::Never;
            new.started = None;
        } else {
            fleet.push("r2");
            for name in ["s1-1", "s1-2"] {
                fleet.apps.get_mut(name).unwrap().deployed = "r2".to_owned();
            }
        }
        fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Hangs;
        fleet.run(5);
        fleet.abort(false);
        fleet.run(5);
        assert_eq!(fleet.status().phase, RunPhase::Aborted);
        let drifted = fleet.apps.get_mut("s1-1").unwrap();
        drifted.deployed = "drift".to_owned();
        drifted.target = "r2".to_owned();
        fleet.run(30);
        assert_eq!(fleet.apps["s1-1"].deployed, "r2", "{is_new}: {:?}", fleet.kinds());
    }
}

/// A retry is also about an operation that a deadline had failed, and that ends later.
#[test]
fn a_retry_waits_for_what_hangs_beyond_its_deadline_as_st_063() {
    let policy = json!({"failures": {"max": 0, "deadline": "15s", "onFailure": "Hold"}});
    let mut fleet = Fleet::new(&[1], json!(null)).policy(policy);
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Hangs;
    fleet.run(30);
    assert_eq!(fleet.status().phase, RunPhase::Held);
    fleet.retry();
    fleet.run(20);
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Fails;
    fleet.run(1);
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Healthy;
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (1, RunPhase::Complete));
}

/// The deadline is for what was started to become Healthy, and not for what was so, or what a
/// person has synced.
#[test]
fn the_deadline_of_what_has_become_healthy_is_met_as_st_040() {
    let policy = json!({
        "gates": [{"name": "production", "steps": [2], "soak": "1h"}],
        "failures": {"max": 0, "deadline": "15s", "onFailure": "Rollback"},
    });
    let soaking = || {
        let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(policy.clone());
        fleet.push("r2");
        fleet.run(60);
        assert_eq!(fleet.deployed("r2"), 1);
        fleet
    };
    let mut drifted = soaking();
    drifted.apps.get_mut("s1-0").unwrap().deployed = "drift".to_owned();
    drifted.run(30);
    let what = (drifted.deployed("r2"), drifted.status().phase.has_ended());
    assert_eq!(what, (1, false), "{:?}", drifted.status());
    let mut held = soaking();
    held.sync_by_a_person("s1-0");
    held.run(60);
    assert!(!matches!(held.status().phase, RunPhase::RollingBack | RunPhase::RolledBack));
}

/// A sync of a person neither goes back nor keeps the others from it.
#[test]
fn what_a_person_holds_does_not_block_a_rollback_as_st_061() {
    let mut fleet = Fleet::new(&[2, 2], json!(null));
    fleet.push("r2");
    fleet.run(60);
    fleet.sync_by_a_person("s2-0");
    let at = fleet.now;
    let held = fleet.apps.get_mut("s2-0").unwrap();
    held.observed.deployed = Deployed::At(at, vec!["r1".to_owned()]);
    fleet.run(10);
    fleet.roll_back();
    fleet.run(60);
    assert_eq!(fleet.status().phase, RunPhase::RolledBack, "{:?}", fleet.status());
    assert!(fleet.deployed("r1") >= 3, "{}", fleet.deployed("r1"));
}

/// What is terminated is so until it has ended: a write may fail, and an operation begin later.
#[test]
fn what_an_abort_terminates_is_terminated_until_it_ends_as_st_060() {
    let mut fleet = Fleet::new(&[2], json!(null));
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Hangs;
    fleet.run(6);
    fleet.abort(true);
    let is_running = |fleet: &Fleet| {
        let last = fleet.apps["s1-0"].observed.operation.as_ref();
        last.is_some_and(|last| last.phase.is_running())
    };
    for _ in 0..5 {
        fleet.run(1);
        let run = fleet.plan.as_ref().unwrap().run.as_ref();
        let terminates = run.map_or(&[][..], |run| &run.terminates);
        assert_eq!(terminates.iter().any(|name| name == "s1-0"), is_running(&fleet));
    }
}

/// One that is being deleted gets no operation, so that it takes no place for one.
#[test]
fn one_that_is_being_deleted_takes_no_place_as_st_030() {
    for policy in [json!({}), json!({"failures": {"max": 0, "deadline": "20m"}})] {
        let mut fleet = Fleet::new(&[2], json!(1)).policy(policy);
        fleet.apps.get_mut("s1-0").unwrap().is_going = true;
        fleet.push("r2");
        fleet.run(20);
        assert_eq!(fleet.deployed("r2"), 1, "{:?}", fleet.kinds());
        assert_eq!(fleet.kinds(), [WaitKind::Deletion]);
        fleet.apps.get_mut("s1-0").unwrap().is_going = false;
        fleet.run(20);
        assert_eq!(fleet.deployed("r2"), 2);
    }
}

/// A retry is about what has failed before it. What fails later is counted.
#[test]
fn a_failure_after_a_retry_counts_as_st_063() {
    let policy = json!({"failures": {"max": 0, "onFailure": "Hold"}});
    let mut fleet = Fleet::new(&[2], json!(null)).policy(policy);
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Degraded;
    fleet.apps.get_mut("s1-1").unwrap().fate = Fate::Hangs;
    fleet.run(20);
    assert_eq!(fleet.status().phase, RunPhase::Held);
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Healthy;
    fleet.retry();
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.status().failed), (1, 0));
    let first = fleet.apps["s1-1"].started.clone().unwrap().at;
    fleet.apps.get_mut("s1-1").unwrap().fate = Fate::Fails;
    fleet.run(20);
    assert_eq!((fleet.status().phase, fleet.status().failed), (RunPhase::Held, 1));
    assert_eq!(fleet.apps["s1-1"].started.clone().unwrap().at, first);
    fleet.apps.get_mut("s1-1").unwrap().fate = Fate::Healthy;
    fleet.retry();
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (2, RunPhase::Complete));
}

/// What went back is at rest, so that its retry waits for a place as any other.
#[test]
fn what_went_back_keeps_no_place_for_its_retry_as_st_063() {
    let mut fleet = Fleet::new(&[5], json!(1));
    fleet.push("r2");
    while fleet.deployed("r2") < 4 {
        fleet.run(1);
    }
    fleet.roll_back();
    fleet.run(40);
    assert_eq!((fleet.deployed("r1"), fleet.status().phase), (5, RunPhase::RolledBack));
    fleet.denied = Some(Denied { reason: "window".to_owned(), until: None });
    fleet.denied_one = Some("s1-1");
    fleet.retry();
    fleet.run(60);
    assert_eq!(fleet.deployed("r2"), 4, "all but the one that is denied: {:?}", fleet.kinds());
    fleet.denied = None;
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (5, RunPhase::Complete));
}

/// In a step that is closed it cannot start, and what is to complete the earlier step takes the
/// place in a limit of all steps.
#[test]
fn a_kept_place_of_a_closed_step_holds_no_earlier_step_as_st_063() {
    for policy in [json!({"maxInFlight": 1}), json!({"spread": [{"label": "none", "max": 1}]})] {
        let mut fleet = Fleet::new(&[1, 1], json!(1)).policy(policy.clone());
        if policy["maxInFlight"] == 1 {
            let (policy, users) = ("p0".to_owned(), Vec::new());
            fleet.pools =
                vec![Pool { policy, max: 1, elsewhere: 0, users, reserved: 0, waiting: 0 }];
        }
        fleet.push("r2");
        fleet.apps.get_mut("s2-0").unwrap().fate = Fate::Degraded;
        fleet.run(20);
        fleet.apps.get_mut("s1-0").unwrap().deployed = "r1".to_owned();
        fleet.run(3);
        fleet.apps.get_mut("s2-0").unwrap().fate = Fate::Healthy;
        fleet.retry();
        fleet.run(30);
        assert_eq!(fleet.status().phase, RunPhase::Complete, "{policy}: {:?}", fleet.kinds());
        assert_eq!(fleet.deployed("r2"), 2, "{policy}");
    }
}

#[test]
fn the_same_failure_acts_at_once_as_st_043() {
    let same = json!({"failures": {"max": 10, "same": 2, "onFailure": "Abort"}});
    let mut fleet = Fleet::new(&[6], json!(1)).policy(same);
    fleet.push("r2");
    fleet.apps.values_mut().for_each(|app| app.fate = Fate::Fails);
    fleet.run(60);
    assert_eq!(fleet.status().phase, RunPhase::Aborted);
    assert!(fleet.status().message.contains("2 failed in the same way"), "{:?}", fleet.status());
    let started = fleet.apps.values().filter(|app| app.started.is_some()).count();
    assert_eq!(started, 2);
}

#[test]
fn a_deadline_is_a_failure_as_st_040() {
    let deadline = json!({"failures": {"max": 0, "deadline": "15s"}});
    let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(deadline);
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Hangs;
    fleet.run(10);
    assert_eq!(fleet.status().phase, RunPhase::Progressing);
    fleet.run(15);
    assert_eq!((fleet.status().phase, fleet.status().failed), (RunPhase::Held, 1));
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Healthy;
    fleet.run(20);
    assert_eq!(fleet.status().phase, RunPhase::Complete, "it is not failed any more");
}

/// The status of its set is lost while nothing compares it: its sync has ended, and what that has
/// done is not known. A start that was withdrawn, and one that drifts later, have no deadline.
#[test]
fn a_deadline_outlives_the_status_of_the_set_as_st_040() {
    for (case, want) in
        [("not compared", true), ("compared", false), ("withdrawn", false), ("older", false)]
    {
        let deadline = json!({"failures": {"max": 0, "deadline": "15s"}});
        let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(deadline);
        fleet.push("r2");
        fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Hangs;
        fleet.run(3);
        let app = fleet.apps.get_mut("s1-0").unwrap();
        app.entry = None;
        let ended = wavegate_api::time::stored_time(fleet.now);
        match case {
            "withdrawn" => app.observed.operation = None,
            _ => {
                let last = app.observed.operation.as_mut().unwrap();
                assert!(last.promotion.is_some());
                (last.phase, last.finished_at) = (OperationPhase::Succeeded, Some(ended));
                if case == "older" {
                    // Its own start was withdrawn, and nothing has compared it since.
                    last.promotion = last.promotion.map(|at| at - SignedDuration::from_secs(60));
                }
                let after = SignedDuration::from_secs(if case == "compared" { 1 } else { -1 });
                app.observed.reconciled_at = Some(ended + after);
                app.observed.deployed = Deployed::At(ended, vec!["r2".to_owned()]);
            }
        }
        // What is done again is not what this is about.
        fleet.paused = Some("a look".to_owned());
        fleet.now += SignedDuration::from_secs(20);
        fleet.reconcile();
        assert_eq!(fleet.status().failed == 1, want, "{case}: {:#?}", fleet.status());
    }
}

#[test]
fn what_was_unhealthy_before_does_not_count_as_st_041() {
    for (ignore, want) in [(true, RunPhase::Complete), (false, RunPhase::Held)] {
        let baseline = if ignore { "Ignore" } else { "Count" };
        let policy = json!({"failures": {"max": 0, "baseline": baseline}});
        let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(policy);
        let sick = fleet.apps.get_mut("s1-0").unwrap();
        sick.observed.health = HealthStatus::Degraded;
        sick.fate = Fate::Degraded;
        fleet.push("r2");
        fleet.run(30);
        assert_eq!(fleet.status().phase, want, "{baseline}");
        if ignore {
            assert_eq!(fleet.runs[0].2.unhealthy_before, ["s1-0"]);
            assert_eq!(fleet.deployed("r2"), 2, "it is synced all the same");
        }
    }
}

/// What the run itself has broken before it was promoted was Healthy before the run.
#[test]
fn what_an_earlier_step_has_broken_is_not_excused_as_st_041() {
    for was_sick in [false, true] {
        let policy = json!({"failures": {"max": 0, "baseline": "Ignore"}});
        let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(policy);
        let second = |fleet: &mut Fleet| {
            let app = fleet.apps.get_mut("s2-0").unwrap();
            (app.observed.health, app.fate) = (HealthStatus::Degraded, Fate::Degraded);
        };
        if was_sick {
            second(&mut fleet);
        }
        fleet.push("r2");
        fleet.run(1);
        assert_eq!(fleet.deployed("r2"), 0);
        second(&mut fleet);
        fleet.run(30);
        let want = if was_sick { RunPhase::Complete } else { RunPhase::Held };
        assert_eq!((fleet.deployed("r2"), fleet.status().phase), (2, want));
        let listed: &[&str] = if was_sick { &["s2-0"] } else { &[] };
        assert_eq!(fleet.status().unhealthy_before, listed);
        // A run that an earlier version began remembers nothing: the promotion counts.
        fleet.runs[0].2.health_before.clear();
        fleet.run(2);
        assert_eq!(fleet.status().phase, RunPhase::Complete);
    }
}

#[test]
fn an_aborted_target_is_not_promoted_to_until_it_changes_or_a_retry_as_st_060() {
    let aborted = || {
        let mut fleet = Fleet::new(&[5], json!(1));
        fleet.push("r2");
        fleet.run(6);
        fleet.abort(false);
        let started = fleet.deployed("r2") + fleet.in_flight();
        fleet.run(30);
        assert_eq!(fleet.status().phase, RunPhase::Aborted);
        assert_eq!((fleet.deployed("r2"), started), (3, 3), "what runs ends by itself");
        assert_eq!(fleet.status().ended_by, "ann");
        assert!(fleet.kinds().contains(&WaitKind::Quarantined), "{:?}", fleet.kinds());
        assert_eq!(fleet.runs.len(), 1, "what is in quarantine begins no run");
        fleet
    };
    let mut changed = aborted();
    changed.push("r3");
    changed.run(60);
    assert_eq!((changed.deployed("r3"), changed.status().phase), (5, RunPhase::Complete));
    assert_eq!(changed.runs.len(), 2);

    let mut one = aborted();
    one.apps.get_mut("s1-3").unwrap().head = "r3".to_owned();
    one.run(30);
    assert_eq!((one.deployed("r3"), one.deployed("r2")), (1, 3), "the others stay in quarantine");

    let mut retried = aborted();
    let at = retried.now;
    retried.said(|spec| {
        spec.retries.push(wavegate_api::run::Retry {
            by: "bob".to_owned(),
            at: Some(wavegate_api::Time(at)),
            applications: Vec::new(),
        });
    });
    retried.run(60);
    assert_eq!((retried.deployed("r2"), retried.status().phase), (5, RunPhase::Complete));
}

#[test]
fn a_rollback_takes_back_what_was_started_in_reverse_order_as_st_061() {
    let policy = json!({"failures": {"max": 1, "onFailure": "Rollback"}});
    let mut fleet = Fleet::new(&[3, 4], json!(2)).policy(policy);
    fleet.push("r2");
    for name in ["s2-0", "s2-1"] {
        fleet.apps.get_mut(name).unwrap().fate = Fate::Degraded;
    }
    let mut order: Vec<String> = Vec::new();
    let mut most = 0;
    for _ in 0..120 {
        fleet.run(1);
        for start in &fleet.plan.as_ref().unwrap().starts {
            if start.started.as_ref().is_some_and(|started| started.goes_back) {
                assert_eq!(start.revisions, ["r1"]);
                order.push(start.application.clone());
            }
        }
        most = most.max(fleet.in_flight());
    }
    assert_eq!(fleet.status().phase, RunPhase::RolledBack, "{:?}", fleet.status());
    assert_eq!(fleet.deployed("r1"), 7);
    let steps: Vec<&str> = order.iter().map(|name| &name[..2]).collect();
    let mut sorted = steps.clone();
    sorted.sort_unstable();
    sorted.reverse();
    assert_eq!(steps, sorted, "the last step first: {order:?}");
    assert!(order.len() >= 5 && order.len() <= 7, "{order:?}");
    // They stay there, until the target changes.
    let starts = order.len();
    fleet.run(30);
    assert_eq!((fleet.deployed("r1"), starts), (7, order.len()));
    assert!(fleet.kinds().contains(&WaitKind::HeldBack), "{:?}", fleet.kinds());
    fleet.apps.values_mut().for_each(|app| app.fate = Fate::Healthy);
    fleet.push("r3");
    fleet.run(60);
    assert_eq!((fleet.deployed("r3"), fleet.status().phase), (7, RunPhase::Complete));
}

#[test]
fn a_name_that_is_taken_leads_to_the_next_number_as_st_002() {
    let mut fleet = Fleet::new(&[1], json!(null));
    fleet.taken = 4;
    fleet.push("r2");
    fleet.run(20);
    assert_eq!(fleet.runs[0].0, "shop-5");
    fleet.push("r3");
    fleet.run(20);
    assert_eq!(fleet.runs[1].0, "shop-6", "the numbers go on");
}

#[test]
fn a_person_takes_back_a_complete_run_as_st_061() {
    let mut fleet = Fleet::new(&[2, 2], json!(null));
    fleet.push("r2");
    fleet.run(30);
    fleet.roll_back();
    fleet.run(40);
    assert_eq!((fleet.deployed("r1"), fleet.status().phase), (4, RunPhase::RolledBack));
}

/// ST-061: the status went on saying that it goes back, until something else happened.
#[test]
fn what_cannot_go_back_waits_for_a_person_once_the_rollback_is_over() {
    let mut fleet = Fleet::new(&[1], json!(null));
    fleet.push("r2");
    fleet.apps.get_mut("s1-0").unwrap().fate = Fate::Fails;
    fleet.run(20);
    assert_eq!(fleet.kinds(), [WaitKind::FailedOperation]);
    fleet.apps.get_mut("s1-0").unwrap().started.as_mut().unwrap().good.clear();
    fleet.roll_back();
    fleet.reconcile();
    let message = "0 of 0 are back; 1 cannot go back by itself: s1-0: revert the ApplicationSet";
    assert_eq!(
        (fleet.status().phase, fleet.status().message.as_str()),
        (RunPhase::RolledBack, message)
    );
    let next = fleet.plan.as_ref().unwrap().wake_at.unwrap();
    assert!(next <= fleet.now + SignedDuration::from_secs(1), "{next}");
    fleet.now = next;
    fleet.reconcile();
    assert_eq!(fleet.kinds(), [WaitKind::FailedOperation]);
}

/// The simulator said of step 1 that it took until the end of the way back.
#[test]
fn a_step_that_was_complete_stays_so_in_the_record_of_a_run_that_is_taken_back_as_st_005() {
    let mut fleet = Fleet::new(&[2, 2], json!(null));
    fleet.push("r2");
    fleet.run(1);
    while fleet.status().steps[0].completed_at.is_none() {
        fleet.run(1);
    }
    let completed = fleet.status().steps[0].completed_at.clone();
    assert_eq!(fleet.status().steps[1].completed_at, None);
    fleet.roll_back();
    fleet.run(40);
    let status = fleet.status();
    assert_eq!((fleet.deployed("r1"), status.phase), (4, RunPhase::RolledBack));
    assert_eq!(status.steps[0].completed_at, completed);
    assert_eq!(status.steps[1].completed_at, None);
    let completions = fleet.what().into_iter().filter(|what| *what == "StepCompleted");
    assert_eq!(completions.count(), 1);
    // It is repeated from its beginning.
    fleet.retry();
    fleet.run(40);
    assert_eq!((fleet.deployed("r2"), fleet.status().phase), (4, RunPhase::Complete));
    assert_ne!(fleet.status().steps[0].completed_at, completed);
}

#[test]
fn the_way_back_is_one_sync_while_it_becomes_healthy_as_st_061() {
    let mut fleet = Fleet::new(&[1], json!(null));
    fleet.push("r2");
    fleet.run(20);
    fleet.roll_back();
    let mut starts = 0;
    for _ in 0..20 {
        fleet.act();
        fleet.apps.get_mut("s1-0").unwrap().observed.health = HealthStatus::Progressing;
        fleet.now += SignedDuration::from_secs(1);
        fleet.reconcile();
        starts += fleet.plan.as_ref().unwrap().starts.len();
    }
    assert_eq!((starts, fleet.status().phase), (1, RunPhase::RollingBack));
    fleet.apps.get_mut("s1-0").unwrap().observed.health = HealthStatus::Healthy;
    fleet.run(5);
    assert_eq!((fleet.deployed("r1"), fleet.status().phase), (1, RunPhase::RolledBack));
}

#[test]
fn what_went_back_is_healed_within_the_limits_as_st_061() {
    let mut fleet = Fleet::new(&[3], json!(1));
    fleet.push("r2");
    fleet.run(30);
    fleet.roll_back();
    fleet.run(30);
    assert_eq!((fleet.deployed("r1"), fleet.status().phase), (3, RunPhase::RolledBack));
    let starts = |fleet: &mut Fleet, seconds: usize| {
        let (mut starts, mut most) = (Vec::new(), 0);
        for _ in 0..seconds {
            fleet.run(1);
            for start in &fleet.plan.as_ref().unwrap().starts {
                assert_eq!(start.revisions, ["r1"], "{start:?}");
                assert!(start.started.as_ref().is_some_and(|one| one.goes_back), "{start:?}");
                starts.push(start.application.clone());
            }
            let running = |app: &&App| app.observed.has_operation_in_flight();
            most = most.max(fleet.apps.values().filter(running).count());
        }
        (starts, most)
    };
    let drift = |fleet: &mut Fleet, drifts: bool| {
        fleet.apps.values_mut().for_each(|app| app.observed.has_left_its_hold = drifts);
    };
    fleet.run(60);
    fleet.paused = Some("incident".to_owned());
    drift(&mut fleet, true);
    assert_eq!(starts(&mut fleet, 20).0.len(), 0, "nothing is synced while it is paused");
    fleet.paused = None;
    let (healed, most) = starts(&mut fleet, 20);
    assert_eq!((healed.len(), most), (3, 1), "each once, one at a time: {healed:?}");
    assert_eq!(fleet.status().phase, RunPhase::RolledBack);
    assert_eq!(starts(&mut fleet, 30).0.len(), 0, "not again at once, although it still differs");
    drift(&mut fleet, false);
    assert_eq!(starts(&mut fleet, 120).0.len(), 0);
    // A sync to them that fails is not repeated.
    drift(&mut fleet, true);
    for app in fleet.apps.values_mut() {
        app.observed.operation.as_mut().unwrap().phase = OperationPhase::Failed;
    }
    assert_eq!(starts(&mut fleet, 20).0.len(), 0);
}

#[test]
fn a_ramp_multiplies_after_batches_without_failures_as_st_030() {
    let ramp = json!({"pace": {"ramp": {"start": 1, "factor": 2}}});
    let mut fleet = Fleet::new(&[8], json!(null)).policy(ramp);
    fleet.push("r2");
    let mut batches = Vec::new();
    for _ in 0..80 {
        fleet.run(1);
        match fleet.plan.as_ref().unwrap().starts.len() {
            0 => {}
            started => batches.push(started),
        }
    }
    assert_eq!(batches, [1, 2, 4, 1]);
    assert_eq!(fleet.status().phase, RunPhase::Complete);
}

#[test]
fn a_ramp_begins_again_after_a_failure_as_st_030() {
    let ramp = json!({"pace": {"ramp": {"start": 1, "factor": 2}}, "failures": {"max": 5}});
    let mut fleet = Fleet::new(&[8], json!(null)).policy(ramp);
    fleet.push("r2");
    fleet.apps.get_mut("s1-2").unwrap().fate = Fate::Fails;
    let mut batches = Vec::new();
    for _ in 0..80 {
        fleet.run(1);
        match fleet.plan.as_ref().unwrap().starts.len() {
            0 => {}
            started => batches.push(started),
        }
    }
    assert_eq!(batches, [1, 2, 1, 2, 2]);
}

#[test]
fn a_spread_limits_each_value_of_a_label_as_st_030() {
    let spread = json!({"pace": {"spread": {"label": "parity", "max": 1}}});
    let mut fleet = Fleet::new(&[6], json!(null)).policy(spread);
    fleet.push("r2");
    for _ in 0..60 {
        fleet.run(1);
        let rules = fleet.rules();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, app) in &fleet.apps {
            if app.entry.as_ref().is_some_and(|entry| entry.phase.is_in_flight()) {
                *counts.entry(rules.value_of(name, 0)).or_default() += 1;
            }
        }
        assert!(counts.values().all(|count| *count <= 1), "{counts:?}");
    }
    assert_eq!(fleet.status().phase, RunPhase::Complete);
}

#[test]
fn sets_share_a_limit_as_st_030() {
    let mut fleet = Fleet::new(&[6], json!(null));
    fleet.pools = vec![Pool {
        policy: "p".to_owned(),
        max: 5,
        elsewhere: 3,
        users: vec![("other".to_owned(), 3)],
        reserved: 0,
        waiting: 0,
    }];
    fleet.push("r2");
    for _ in 0..40 {
        fleet.run(1);
        assert!(fleet.in_flight() <= 2);
        if fleet.deployed("r2") < 4 {
            let plan = fleet.plan.as_ref().unwrap();
            let waits = plan.waiting.iter().find(|wait| wait.kind == WaitKind::MaxInFlight);
            if let Some(wait) = waits {
                assert!(wait.message.contains("3 of other"), "{}", wait.message);
                assert_eq!(plan.waits_for_pools.len(), 1);
            }
        }
    }
    assert_eq!(fleet.status().phase, RunPhase::Complete);
    fleet.pools[0].reserved = 2;
    fleet.push("r3");
    fleet.run(20);
    assert_eq!(fleet.deployed("r3"), 0, "the set that has waited longest goes first");
    // Each move of another set changes what it says.
    fleet.pools[0].users = vec![("another".to_owned(), 3)];
    let run = fleet.decide().run.unwrap();
    assert!(run.status.message.contains("3 of another"), "{}", run.status.message);
    assert!(run.is_of_shares && !run.is_urgent, "{run:?}");
    fleet.paused = Some("incident".to_owned());
    assert!(!fleet.decide().run.unwrap().is_of_shares);
}

#[test]
fn the_estimate_is_of_the_last_runs_as_st_083() {
    let mut fleet = Fleet::new(&[2, 2], json!(1));
    fleet.push("r2");
    fleet.run(3);
    assert_eq!(fleet.status().estimate, None, "no history, no number");
    fleet.run(60);
    fleet.push("r3");
    fleet.run(3);
    let estimate = fleet.status().estimate.clone().unwrap();
    assert_eq!(estimate.runs, 1);
    assert!((5..60).contains(&estimate.most_seconds), "{estimate:?}");
    assert!(estimate.least_seconds <= estimate.most_seconds);
}

#[test]
fn what_a_person_holds_is_taken_back_by_a_retry_that_names_it_as_st_065() {
    let mut fleet = Fleet::new(&[2], json!(null));
    fleet.push("r2");
    fleet.run(20);
    fleet.sync_by_a_person("s1-0");
    fleet.run(10);
    assert_eq!(fleet.kinds(), [WaitKind::HeldByPerson]);
    let retry = |applications: Vec<String>, at: Timestamp| wavegate_api::run::Retry {
        by: "bob".to_owned(),
        at: Some(wavegate_api::Time(at)),
        applications,
    };
    let at = fleet.now;
    fleet.said(|spec| spec.retries.push(retry(Vec::new(), at)));
    fleet.run(10);
    assert_eq!(fleet.kinds(), [WaitKind::HeldByPerson], "a retry of all leaves it");
    let at = fleet.now;
    fleet.said(|spec| spec.retries.push(retry(vec!["s1-0".to_owned()], at)));
    for _ in 0..10 {
        fleet.run(1);
        let app = fleet.apps.get_mut("s1-0").unwrap();
        if app.observed.requested.is_some() {
            app.observed.person = None;
        }
    }
    assert_eq!(fleet.deployed("r2"), 2);
    assert_eq!(fleet.apps["s1-0"].entry.as_ref().unwrap().phase, Phase::Healthy);
}
