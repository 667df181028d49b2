//! The controller in the simulated cluster: it observes, decides with the real
//! functions, writes with faults, and loses its memory.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::cluster::Cluster;
use super::people::{Run, RunModel};
use super::rest::Waits;
use super::spec::{SET, Spec};
use crate::application_set::DecisionSettings;
use crate::application_set::Identity;
use crate::application_set::decision::{Decision, NextReconcile, Snapshot};
use crate::application_set::deletion::Leaving;
use crate::application_set::generate::generated::{Generated, Wanted};
use crate::application_set::generate::refresh_requests::Asked;
use crate::application_set::plan::observe::Existing;
use crate::application_set::plan::outcome::{Ended, WriteAct, WriteFailure, WriteOutcome};
use crate::application_set::plan::ownership_transfer::Releases;
use crate::application_set::plan::update::Rules;
use crate::application_set::plan::windows::Facts;
use crate::application_set::reconcile;
use crate::application_set::status::error_status;
use crate::application_set::status::events::SetEvent;
use crate::application_set::status::report::{self, Carried, Reported};
use crate::application_set::status::stored::{Status, StoredApplicationSet};
use crate::rollout::run::RunDecision;
use wavegate_api::annotations::{APPROVED_DELETIONS, EXISTED};
use wavegate_api::run::{RolloutRunSpec, RolloutRunStatus};
use wavegate_engine::wait::WaitFor;

/// A fault of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The API server rejects it.
    Fails,
    /// It succeeds, but the response is lost.
    AnswerLost,
    /// The object has changed in the meantime.
    Conflict,
    /// The controller crashes before it.
    CrashBefore,
    /// The controller crashes after it.
    CrashAfter,
}

/// The outcome of one write.
enum Answer {
    Written,
    Outdated,
    Failed(Option<u16>),
    Crashed,
}

/// What the controller remembers.
#[derive(Default)]
pub struct Memory {
    /// The set as last observed or written.
    pub set: StoredApplicationSet,
    /// Its spec.
    pub spec: Option<Rc<Spec>>,
    /// The Applications of the cache.
    pub cache: BTreeMap<String, Value>,
    /// The result of reading the spec.
    pub generated: Option<Generated>,
    /// The generated Applications as written.
    written: BTreeMap<String, Value>,
    /// The digests of the cached Applications.
    pub existing: Vec<Existing>,
    releases: Releases,
    asked: Asked,
    pub leaving: Vec<Leaving>,
    pub invalid: BTreeMap<String, String>,
    reported: Reported,
    written_at: Option<Timestamp>,
    conflicts: u32,
}

/// The cluster and the controller.
pub struct World {
    pub cluster: Cluster,
    /// The set at the API server.
    pub set: StoredApplicationSet,
    pub spec: Rc<Spec>,
    pub memory: Memory,
    pub settings: DecisionSettings,
    /// Changes of these Applications do not reach the cache.
    pub held: BTreeSet<String>,
    /// The set does not reach the cache.
    pub set_is_held: bool,
    /// An event has triggered a reconcile.
    pub queued: bool,
    /// When the controller reconciles without an event.
    pub wake: Option<Timestamp>,
    /// Faults by the number of writes before them.
    pub faults: Vec<(usize, Fault)>,
    /// Counts changes of what limits and steps depend on.
    pub configuration: u64,
    /// An Application was moved on by the progressing timeout.
    pub timed_out: bool,
    /// Whether each decision is repeated (I14).
    pub repeats: bool,
    /// Whether the definition of ApplicationSets is Argo CD's, which prunes `status.rollout`.
    pub prunes: bool,
    /// The set does not exist any more.
    pub is_gone: bool,
    /// Whether the last reconcile wrote nothing, with current caches.
    pub is_settled: bool,
    /// The last reconcile has decided the rollout, and has not left its status to the next
    /// one. It decides nothing while generating fails (AS-141).
    pub is_decided: bool,
    /// The policies and runs of the set, if anything can be said about it.
    pub model: Option<RunModel>,
    /// There are no policies, and nobody says anything.
    pub is_plain: bool,
    /// What the last decision waits for.
    pub waits: Option<Waits>,
    /// The Events since they were taken last.
    pub events: Vec<SetEvent>,
    /// Those whose last write was answered: the answer is in the cache at once.
    answered: BTreeSet<String>,
    /// Attempted writes.
    attempts: u64,
    windows: BTreeMap<String, Vec<wavegate_engine::windows::Window>>,
}

impl World {
    /// A set in an empty cluster.
    pub fn new(spec: Spec, settings: DecisionSettings, now: Timestamp) -> Self {
        let id = Identity {
            namespace: "argocd".into(),
            name: "set".into(),
            uid: SET.into(),
            namespace_uid: Some("namespace".into()),
        };
        let set = StoredApplicationSet {
            id,
            version: "1".into(),
            generation: 1,
            ..StoredApplicationSet::default()
        };
        let mut world = Self {
            cluster: Cluster::new(now),
            set,
            spec: Rc::new(spec),
            memory: Memory::default(),
            settings,
            held: BTreeSet::new(),
            set_is_held: false,
            queued: true,
            wake: None,
            faults: Vec::new(),
            configuration: 1,
            timed_out: false,
            repeats: false,
            prunes: false,
            is_gone: false,
            is_settled: false,
            is_decided: false,
            model: None,
            is_plain: false,
            waits: None,
            events: Vec::new(),
            answered: BTreeSet::new(),
            attempts: 0,
            windows: BTreeMap::new(),
        };
        world.restart();
        world
    }

    /// The controller starts without memory, with complete caches.
    pub fn restart(&mut self) {
        self.held.clear();
        self.set_is_held = false;
        // As read from the API server.
        self.set.status = match self.set.status.exists {
            true => Status::read(&self.set.status.to_json()),
            false => Status::default(),
        };
        let cache = self.cluster.apps.iter().map(|(name, app)| (name.clone(), app.object.clone()));
        self.memory = Memory {
            set: self.set.clone(),
            spec: Some(Rc::clone(&self.spec)),
            cache: cache.collect(),
            ..Memory::default()
        };
        if let Some(model) = &mut self.model {
            (model.is_held, model.written_at) = (false, None);
        }
        self.cluster.changed.clear();
        self.queued = true;
        self.wake = None;
    }

    /// A user changes the spec of the set.
    pub fn edit(&mut self, change: impl FnOnce(&mut Spec)) {
        change(Rc::make_mut(&mut self.spec));
        self.configuration += 1;
        self.set.generation += 1;
        self.touch_set();
        self.queued = true;
    }

    /// A new version of the set.
    pub fn touch_set(&mut self) {
        self.cluster.version += 1;
        self.set.version = self.cluster.version.to_string();
    }

    /// Whether the caches equal the API server.
    pub fn is_fresh(&self) -> bool {
        self.cluster.changed.is_empty() && self.memory.set.version == self.set.version
    }

    /// The spec as the controller knows it.
    pub fn known(&self) -> &Spec {
        self.memory.spec.as_ref().unwrap_or(&self.spec)
    }

    fn observe(&mut self) {
        let memory = &mut self.memory;
        if !self.set_is_held && memory.set.version != self.set.version {
            memory.set = self.set.clone();
            memory.spec = Some(Rc::clone(&self.spec));
        }
        let spec = Rc::clone(memory.spec.as_ref().unwrap_or(&self.spec));
        let names: Vec<String> = self
            .cluster
            .changed
            .iter()
            .filter(|name| !self.held.contains(*name) || self.answered.contains(*name))
            .cloned()
            .collect();
        self.answered.clear();
        for name in &names {
            self.cluster.changed.remove(name);
            match self.cluster.apps.get(name) {
                Some(app) => drop(memory.cache.insert(name.clone(), app.object.clone())),
                None => drop(memory.cache.remove(name)),
            }
        }
        let set = &memory.set;
        let is_current = |made: &Generated| made.generation == set.generation;
        let is_new = !memory.generated.as_ref().is_some_and(is_current);
        if is_new || set.is_deleting {
            let generated = spec.generate(set.generation, set.is_deleting, &self.settings);
            let has_steps = generated.has_steps;
            let written = |wanted: &Wanted| (wanted.name.to_string(), wanted.written(has_steps));
            memory.written = generated.applications.iter().map(written).collect();
            memory.generated = Some(generated);
        }
        if let (Some(model), Some(generated)) = (&mut self.model, &memory.generated) {
            model.observe(generated);
        }
        memory.invalid =
            spec.invalid.iter().map(|name| (name.clone(), "it is rejected".to_owned())).collect();
        if set.is_deleting {
            self.observe_leaving();
        } else if is_new {
            let all: Vec<String> = self.memory.cache.keys().cloned().collect();
            self.memory.existing.clear();
            self.read(&all);
        } else {
            self.read(&names);
        }
    }

    fn observe_leaving(&mut self) {
        let memory = &mut self.memory;
        let Some(generated) = &memory.generated else { return };
        let owned =
            |live: &&Value| live["metadata"]["ownerReferences"][0]["uid"].as_str() == Some(SET);
        let owned = memory.cache.values().filter(owned);
        memory.leaving =
            owned.map(|live| Leaving::read(live, &memory.set.id, &generated.strategy)).collect();
    }

    /// Reads these Applications of the cache.
    fn read(&mut self, names: &[String]) {
        let memory = &mut self.memory;
        let Some(generated) = &memory.generated else { return };
        let rules = Rules::of(&memory.set.id, generated);
        for name in names {
            let wanted = generated.get(name);
            let live = memory.cache.get(name);
            let read = live.map(|live| Existing::read(live, memory.written.get(name), &rules));
            let read = read.filter(|one| wanted.is_some() || one.is_owned());
            if let Some(read) = &read {
                super::checks::spec_change(read, generated.policy.updates());
            }
            match (memory.existing.binary_search_by(|one| (*one.name).cmp(name)), read) {
                (Ok(at), Some(read)) => memory.existing[at] = read,
                (Ok(at), None) => drop(memory.existing.remove(at)),
                (Err(at), Some(read)) => memory.existing.insert(at, read),
                (Err(_), None) => {}
            }
        }
        let left = crate::application_set::plan::ownership_transfer::left_applications(
            &memory.existing,
            &generated.applications,
        );
        // No other set may take one over.
        memory.releases.update(1, left, Timestamp::UNIX_EPOCH);
    }

    pub fn snapshot(&self) -> Snapshot<'_> {
        let memory = &self.memory;
        let windows = Facts { projects: &self.windows, clusters: &[] };
        let generated = memory.generated.as_ref().unwrap();
        let first =
            Snapshot::first(&memory.set, generated, &self.settings, windows, self.cluster.now);
        Snapshot {
            existing: &memory.existing,
            leaving: &memory.leaving,
            invalid: &memory.invalid,
            failing: memory.reported.failing(),
            asked: &memory.asked,
            written_at: memory.written_at,
            releases: &memory.releases,
            run_input: self.model.as_ref().map(|all| all.input(memory.set.paused.as_deref())),
            ..first
        }
    }

    /// One reconcile.
    pub fn reconcile(&mut self) {
        self.queued = false;
        self.is_settled = false;
        if self.is_gone {
            return;
        }
        self.observe();
        let was_fresh = self.is_fresh();
        let decision = reconcile::reconcile(&self.snapshot());
        if self.repeats {
            super::checks::same(&decision, &reconcile::reconcile(&self.snapshot()));
        }
        super::history::note(|| super::history::decision(self, &decision));
        super::checks::decision(self, &decision);
        self.decided(&decision);
        self.remember_waits(&decision);
        self.is_decided = decision.rollout.is_some() && decision.status.is_some();
        let transitions = decision.rollout.iter().flat_map(|plan| &plan.transitions);
        self.timed_out |= transitions.into_iter().any(|transition| transition.timed_out);
        let attempts = self.attempts;
        self.events.extend(decision.events.iter().cloned());
        let next = self.apply(&decision);
        self.wake = None;
        match next {
            // A crash: the start triggers a reconcile.
            None => {}
            Some(NextReconcile::Gone) if self.set.finalizers.is_empty() => self.is_gone = true,
            Some(NextReconcile::Gone | NextReconcile::On(_)) => {}
            Some(NextReconcile::Again) => {
                self.memory.conflicts += 1;
                self.queued = true;
            }
            Some(NextReconcile::After(_, delay)) => {
                let delay = SignedDuration::try_from(delay).unwrap();
                self.wake = Some(self.cluster.now + delay);
            }
        }
        if next != Some(NextReconcile::Again) {
            self.memory.conflicts = 0;
        }
        self.is_settled = was_fresh && self.attempts == attempts;
        super::checks::state(self, was_fresh);
    }

    /// Applies a decision like the controller; returns what follows, `None`
    /// after a crash.
    fn apply(&mut self, decision: &Decision) -> Option<NextReconcile> {
        let retry =
            Some(NextReconcile::After(WaitFor::ValidSet, std::time::Duration::from_secs(1)));
        if let Some(finalizers) = &decision.finalizers {
            return match self.write_set(|set| set.finalizers.clone_from(finalizers)) {
                Answer::Crashed => None,
                Answer::Failed(_) => retry,
                Answer::Written | Answer::Outdated => Some(decision.next),
            };
        }
        if let Some(annotations) = &decision.annotations {
            let written = |name: &str| annotations.get(name).map(Value::as_str);
            return match self.write_set(|set| {
                if let Some(approval) = written(APPROVED_DELETIONS) {
                    set.approved_deletions = approval.map(str::to_owned);
                }
                if let Some(existed) = written(EXISTED) {
                    set.existed = existed.and_then(|text| text.parse().ok());
                }
            }) {
                Answer::Crashed => None,
                Answer::Failed(_) => retry,
                Answer::Written | Answer::Outdated => Some(NextReconcile::Again),
            };
        }
        if let Some(run) = decision.run() {
            match self.record(run, decision) {
                Answer::Crashed => return None,
                Answer::Outdated => return Some(NextReconcile::Again),
                Answer::Failed(_) if run.must_be_stored => return retry,
                Answer::Written | Answer::Failed(_) => {}
            }
        }
        if let Some(status) = &decision.status {
            match self.write_status(status) {
                Answer::Crashed => return None,
                Answer::Outdated => return Some(NextReconcile::Again),
                Answer::Written => {
                    if let (Some(model), Some(plan)) = (&mut self.model, &decision.rollout) {
                        model.in_flight = plan.in_flight;
                    }
                }
                Answer::Failed(code) => {
                    let cause = WriteFailure { code, text: "rejected".to_owned() };
                    if code.is_some() {
                        let (status, _) = error_status::refused_status(&self.snapshot(), &cause);
                        if matches!(self.write_status(&status), Answer::Crashed) {
                            return None;
                        }
                    }
                    return retry;
                }
            }
        }
        if !decision.unsure.is_empty() {
            // They are read from the API server (AS-383).
            for unsure in &decision.unsure {
                self.held.remove(&unsure.name);
                self.cluster.changed.insert(unsure.name.clone());
            }
            return Some(NextReconcile::Again);
        }
        let outcomes = self.write_applications(decision)?;
        let Memory { asked, existing, .. } = &mut self.memory;
        asked.record(decision.behind(), &decision.writes, &outcomes, existing, self.cluster.now);
        let recorded = {
            let mut reported = std::mem::take(&mut self.memory.reported);
            let carried = Carried {
                set: &self.memory.set,
                outcomes: &outcomes,
                stalled: &decision.stalled,
                conflicts: self.memory.conflicts,
            };
            let recorded =
                report::record_outcome(&self.snapshot(), decision, &carried, &mut reported);
            self.memory.reported = reported;
            recorded
        };
        self.events.extend(recorded.events);
        if let Some(status) = &recorded.status
            && matches!(self.write_status(status), Answer::Crashed)
        {
            return None;
        }
        if recorded.error.is_some() { retry } else { Some(recorded.next) }
    }

    /// Records a run like the controller: the end of the one before it, the object, its status.
    fn record(&mut self, run: &RunDecision, decision: &Decision) -> Answer {
        if let Some((old, status)) = &run.superseded {
            match self.write_run(old, status, decision) {
                Answer::Written => {}
                other => return other,
            }
        }
        for late in &run.late {
            match self.write_run(&late.name, &late.status, decision) {
                Answer::Written => {}
                other => return other,
            }
        }
        if run.new.is_some() {
            let name = run.name.clone();
            let answer = self.attempt(|world| {
                world.cluster.version += 1;
                let version = world.cluster.version;
                let Some(model) = &mut world.model else { return Err(404) };
                // One that exists is read instead.
                if !model.runs.iter().any(|run| run.name == name) {
                    let spec =
                        RolloutRunSpec { application_set: "set".into(), ..Default::default() };
                    let status = RolloutRunStatus::default();
                    model.runs.push(Run { name, version, spec, status });
                }
                Ok(())
            });
            if !matches!(answer, Answer::Written) {
                return answer;
            }
            let Some(model) = &mut self.model else { return answer };
            model.known.clone_from(&model.runs);
        }
        let answer = self.write_run(&run.name, &run.status, decision);
        if matches!(answer, Answer::Written) {
            self.delete_old_runs();
            let now = self.cluster.now;
            self.model.iter_mut().for_each(|model| model.written_at = Some(now));
        }
        answer
    }

    /// Writes the status of a run, with the observed version as a precondition.
    fn write_run(&mut self, name: &str, status: &RolloutRunStatus, decision: &Decision) -> Answer {
        let observed = self.model.as_ref().and_then(|model| {
            let known = model.known.iter().find(|run| run.name == name)?;
            Some((known.version, known.status == *status))
        });
        let Some((observed, is_same)) = observed else { return Answer::Outdated };
        if is_same {
            return Answer::Written;
        }
        let answer = self.attempt(|world| {
            world.cluster.version += 1;
            let version = world.cluster.version;
            let Some(model) = &mut world.model else { return Err(404) };
            let run = model.runs.iter_mut().find(|run| run.name == name).ok_or(404_u16)?;
            if run.version != observed {
                return Err(409);
            }
            let old = run.clone();
            run.version = version;
            // As read from the API server.
            run.status = serde_json::from_value(serde_json::json!(status)).unwrap();
            assert_eq!(run.status, *status, "a status of a run survives being stored");
            let new = run.clone();
            let old = Some(old).filter(|old| old.status.started_at.is_some());
            world.quarantine(old.as_ref(), &new, decision);
            world.cluster.writes += 1;
            Ok(())
        });
        if matches!(answer, Answer::Written)
            && let Some(model) = &mut self.model
        {
            model.known.clone_from(&model.runs);
        }
        answer
    }

    /// Writes the Applications in the order of the controller.
    fn write_applications(&mut self, decision: &Decision) -> Option<Vec<WriteOutcome>> {
        let plan = &decision.writes;
        let mut outcomes = Vec::new();
        let push = |outcomes: &mut Vec<WriteOutcome>, name: &str, act, answer| {
            let ended = match answer {
                Answer::Crashed => return None,
                Answer::Written => Ended::Written,
                Answer::Outdated => Ended::Outdated,
                Answer::Failed(code) => {
                    Ended::Failed(WriteFailure { code, text: "rejected".to_owned() })
                }
            };
            outcomes.push(WriteOutcome { application: name.to_owned(), act, ended });
            Some(())
        };
        let (starts, patches): (Vec<_>, Vec<_>) = plan.patches.iter().partition(|one| one.starts);
        for patch in &starts {
            super::checks::start(self, &patch.name, &patch.body());
            self.check_start(&patch.name, &patch.body());
            let answer = self.write(&patch.name, |world| world.patch(&patch.name, &patch.body()));
            push(&mut outcomes, &patch.name, WriteAct::Start, answer)?;
        }
        for create in &plan.creates {
            let object: Value = serde_json::from_str(&create.json).unwrap();
            super::checks::create(self, &create.name, &object);
            let answer = self
                .write(&create.name, |world| world.cluster.create(&create.name, object.clone()));
            push(&mut outcomes, &create.name, WriteAct::Create, answer)?;
        }
        for patch in &patches {
            super::checks::patch(self, patch);
            let answer = self.write(&patch.name, |world| world.patch(&patch.name, &patch.body()));
            let act = if patch.changes_spec { WriteAct::Update } else { WriteAct::Annotate };
            push(&mut outcomes, &patch.name, act, answer)?;
        }
        let is_held = outcomes.iter().any(WriteOutcome::is_lacking);
        for delete in &plan.deletes {
            if is_held {
                let application = delete.name.clone();
                outcomes.push(WriteOutcome {
                    application,
                    act: WriteAct::Delete,
                    ended: Ended::Held,
                });
                continue;
            }
            super::checks::delete(self, &delete.name);
            let answer =
                self.write(&delete.name, |world| world.cluster.delete(&delete.name, &delete.uid));
            push(&mut outcomes, &delete.name, WriteAct::Delete, answer)?;
        }
        Some(outcomes)
    }

    fn patch(&mut self, name: &str, body: &Value) -> Result<(), u16> {
        let configuration = self.configuration;
        self.cluster.patch(name, body, configuration)?;
        if body["operation"].is_object() {
            self.begin(name, body);
        }
        Ok(())
    }

    /// Writes an Application; its response is added to the cache.
    fn write(&mut self, name: &str, write: impl FnOnce(&mut Self) -> Result<(), u16>) -> Answer {
        let answer = self.attempt(write);
        if matches!(answer, Answer::Written) {
            self.held.remove(name);
            self.answered.insert(name.to_owned());
            // The response triggers the next reconcile, which reads it.
            self.cluster.changed.insert(name.to_owned());
            self.queued = true;
        }
        answer
    }

    /// Writes the status, unless it is stored already.
    fn write_status(&mut self, status: &Status) -> Answer {
        if *status == self.memory.set.status {
            return Answer::Written;
        }
        let written = self.store_status(status);
        let moved = status.where_it_is_kept(&self.memory.set.status);
        match (written, moved) {
            (Answer::Written, Some(moved)) => self.store_status(&moved),
            (written, _) => written,
        }
    }

    /// Writes the status as it is; what the API server stored is the answer.
    fn store_status(&mut self, status: &Status) -> Answer {
        let prunes = self.prunes;
        let answer = self.write_set(|set| {
            let mut stored = status.to_json();
            if prunes && let Some(fields) = stored.as_object_mut() {
                fields.remove("rollout");
            }
            set.status = Status::read(&stored);
        });
        if matches!(answer, Answer::Written) {
            self.memory.written_at = Some(self.cluster.now);
        }
        answer
    }

    /// Writes the set, with the observed version as a precondition.
    fn write_set(&mut self, change: impl FnOnce(&mut StoredApplicationSet)) -> Answer {
        let answer = self.attempt(|world| {
            if world.memory.set.version != world.set.version {
                return Err(409);
            }
            change(&mut world.set);
            world.touch_set();
            world.cluster.writes += 1;
            Ok(())
        });
        if matches!(answer, Answer::Written) {
            self.memory.set = self.set.clone();
        }
        answer
    }

    /// Applies the fault of this write, if any.
    fn attempt(&mut self, write: impl FnOnce(&mut Self) -> Result<(), u16>) -> Answer {
        self.attempts += 1;
        let fault = match self.faults.first_mut() {
            None => None,
            Some((0, fault)) => {
                let fault = *fault;
                self.faults.remove(0);
                Some(fault)
            }
            Some((writes, _)) => {
                *writes -= 1;
                None
            }
        };
        match fault {
            None => match write(self) {
                Ok(()) => Answer::Written,
                Err(404 | 409) => Answer::Outdated,
                Err(code) => Answer::Failed(Some(code)),
            },
            Some(Fault::Fails) => Answer::Failed(Some(500)),
            Some(Fault::Conflict) => Answer::Outdated,
            Some(Fault::AnswerLost) => {
                let _ = write(self);
                Answer::Failed(None)
            }
            Some(Fault::CrashBefore) => {
                self.restart();
                Answer::Crashed
            }
            Some(Fault::CrashAfter) => {
                let _ = write(self);
                self.restart();
                Answer::Crashed
            }
        }
    }
}
