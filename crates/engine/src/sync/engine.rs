//! One reconcile of an operation: adds the known state to the tasks, then
//! decides.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::build;
use super::gate;
use super::messages;
use super::object::{images, is_namespace};
use super::options::AppOptions;
use super::plan::{
    Action, ActionResult, Group, InFlight, SyncEnding, SyncPlan, SyncProgress, TaskKey, Verb,
    WaitReason, Waiting,
};
use super::snapshot::{NamespaceFact, SyncSnapshot};
use super::task::Task;
use wavegate_api::Raw;
use wavegate_api::operation::{OperationPhase, ResourceResult, ResultCode};

/// How long to wait before an action is retried whose response was lost.
const LOST_ANSWER_PAUSE: SignedDuration = SignedDuration::from_secs(5);

/// One reconcile. Tasks are referred to by their index in run order.
pub(super) struct Engine<'a> {
    pub snapshot: &'a SyncSnapshot,
    pub now: Timestamp,
    pub app: AppOptions,
    pub tasks: Vec<Task<'a>>,
    pub results: Vec<ResourceResult>,
    /// The index of a task's result in `results`.
    pub index: BTreeMap<TaskKey, usize>,
    pub progress: SyncProgress,
    /// The working copy of `progress.in_flight`.
    pub in_flight: BTreeMap<TaskKey, InFlight>,
    outcomes: BTreeMap<(&'a TaskKey, Verb), &'a ActionResult>,
    /// Tasks of a wave that were run since the stored state.
    pub ran: Vec<usize>,
    /// Whether the stored progress was dropped by the server.
    pub restored: bool,
    /// Tasks with an action whose response was lost, and why.
    pub lost: Vec<(usize, &'a str)>,
    /// Groups that run before all others: they release completed hooks.
    pub cleanup: Vec<Group>,
    pub warnings: Vec<String>,
}

impl<'a> Engine<'a> {
    pub fn new(snapshot: &'a SyncSnapshot, now: Timestamp) -> Self {
        let app = snapshot.operation.options();
        let built = build::build(snapshot, &app);
        let results = snapshot.results.clone();
        let index =
            results.iter().enumerate().map(|(i, result)| (TaskKey::of(result), i)).collect();
        let outcomes = snapshot.outcomes.iter();
        let outcomes = outcomes.map(|o| ((&o.action.task, o.action.verb), &o.result)).collect();
        let in_flight = snapshot.progress.in_flight.iter();
        let in_flight = in_flight.map(|action| (action.task.clone(), action.clone())).collect();
        let mut engine = Self {
            snapshot,
            now,
            app,
            tasks: built.tasks,
            results,
            index,
            progress: snapshot.progress.clone(),
            in_flight,
            outcomes,
            ran: Vec::new(),
            restored: snapshot.has_lost_progress(),
            lost: Vec::new(),
            cleanup: Vec::new(),
            warnings: built.warnings,
        };
        for task in &mut engine.tasks {
            let stored = engine.index.get(&task.key).map(|at| engine.results[*at].hook_phase);
            // An unknown phase is ignored: the task is pending, and its live
            // object shows whether it has run.
            task.state = stored.filter(|phase| *phase != OperationPhase::Unknown);
        }
        if engine.restored {
            engine.add_unlisted();
            engine.restore();
        }
        engine
    }

    /// The decision (SE-241): the first rule that applies.
    pub fn decide(mut self) -> SyncPlan {
        self.record();
        let overdue = self.deadline().is_some_and(|deadline| deadline <= self.now);
        self.progress.timed_out |= overdue && self.snapshot.phase == OperationPhase::Running;
        let stopping = self.snapshot.phase == OperationPhase::Terminating;
        if !self.lost.is_empty() {
            return self.wait_for_answers(stopping);
        }
        if stopping || self.progress.timed_out {
            return self.terminate();
        }
        if let Some(ending) = self.progress.ending.clone() {
            return self.end(ending);
        }
        if let Some(plan) = self.refuse() {
            return plan;
        }
        if self.snapshot.operation.dry_run {
            return self.dry_run_operation();
        }
        if !self.has_started()
            && let Some(plan) = self.prepare()
        {
            return plan;
        }
        if let Some(plan) = self.after_wave() {
            return plan;
        }
        self.refresh();
        if let Some(plan) = self.await_running() {
            return plan;
        }
        if let Some(plan) = self.await_deletions() {
            return plan;
        }
        self.release_hooks();
        let failed = self.tasks.iter().any(|task| !task.is_sync_fail() && task.has_failed());
        if failed || self.progress.failure.is_some() {
            return self.fail();
        }
        self.next_wave()
    }

    /// When the operation has to stop; `None` without a limit (SE-288).
    pub fn deadline(&self) -> Option<Timestamp> {
        self.snapshot.settings.deadline(self.snapshot.started_at)
    }

    pub fn outcome(&self, verb: Verb, task: usize) -> Option<&'a ActionResult> {
        self.outcomes.get(&(&self.tasks[task].key, verb)).copied()
    }

    /// Whether an action was tried for an object that may be no task.
    pub fn is_tried(&self, task: &TaskKey, verb: Verb) -> bool {
        self.outcomes.contains_key(&(task, verb))
    }

    pub fn result(&self, task: usize) -> Option<&ResourceResult> {
        self.index.get(&self.tasks[task].key).map(|at| &self.results[*at])
    }

    /// Records the state of a task. The first call appends its result to the
    /// list; `None` as the code keeps the code.
    pub fn set(
        &mut self,
        at: usize,
        code: Option<ResultCode>,
        state: OperationPhase,
        message: impl Into<String>,
    ) {
        let task = &mut self.tasks[at];
        task.state = Some(state);
        let index = *self.index.entry(task.key.clone()).or_insert_with(|| {
            let hook_type = if task.hook { task.key.phase.to_string() } else { String::new() };
            self.results.push(ResourceResult { hook_type, ..task.key.result(&task.version) });
            self.results.len() - 1
        });
        let result = &mut self.results[index];
        result.status = code.unwrap_or(result.status);
        result.hook_phase = state;
        result.message = message.into();
        if let Some(target) = &task.target {
            result.images = images(target);
        }
        if state.is_completed() && code != Some(ResultCode::Pruned) {
            (result.uid, result.resource_version, result.since) = Default::default();
        }
    }

    /// Records the object of a result.
    pub fn note(&mut self, at: usize, uid: &str, resource_version: &str) {
        let now = self.now;
        if let Some(index) = self.index.get(&self.tasks[at].key) {
            let result = &mut self.results[*index];
            result.uid = uid.to_owned();
            result.resource_version = resource_version.to_owned();
            result.since = Some(now);
        }
    }

    /// Records an action whose effect cannot be derived from the cluster after
    /// a restart.
    pub fn announce(&mut self, at: usize, verb: Verb, uid: &str) {
        let Task { key, wave, version, .. } = &self.tasks[at];
        let (task, wave, version, uid) = (key.clone(), *wave, version.clone(), uid.to_owned());
        self.in_flight.insert(task.clone(), InFlight { verb, task, wave, version, uid });
    }

    /// The progress to store; ends the reconcile.
    pub fn take_progress(&mut self) -> SyncProgress {
        let in_flight = std::mem::take(&mut self.in_flight).into_values().collect();
        SyncProgress { in_flight, ..std::mem::take(&mut self.progress) }
    }

    /// Whether the dry run is complete. If this is lost, any result other than
    /// that of the destination namespace implies it.
    fn has_started(&self) -> bool {
        let namespace = self.namespace_task().map(|at| &self.tasks[at].key);
        self.progress.dry_run_done
            || self.results.iter().any(|result| Some(&TaskKey::of(result)) != namespace)
    }

    /// The task that creates the destination namespace, automatic or declared.
    pub fn namespace_task(&self) -> Option<usize> {
        let name = self.snapshot.destination_namespace.as_str();
        self.tasks.iter().position(|task| {
            let target = task.target.as_deref();
            !task.hook && target.is_some_and(|target| is_namespace(target) && target.name() == name)
        })
    }

    /// Errors that prevent the operation from starting (SE-207, SE-323).
    fn refuse(&mut self) -> Option<SyncPlan> {
        let shared = &self.snapshot.shared;
        if self.app.fail_on_shared && !shared.is_empty() && !self.has_started() {
            let message = format!("Shared resource found: {}", shared.join(", "));
            return Some(self.complete(OperationPhase::Failed, message));
        }
        let started = self.has_started();
        let mut reasons = Vec::new();
        for at in 0..self.tasks.len() {
            let task = &self.tasks[at];
            // Later a hook fails when its slot is reached.
            let objection = task.objection().filter(|_| !started);
            let objection = objection.map(|words| (OperationPhase::Failed, words.to_owned()));
            let Some((state, message)) = task.invalid.clone().or(objection) else { continue };
            if task.is_pending() {
                self.set(at, Some(ResultCode::SyncFailed), state, message.as_str());
                reasons.push(message);
            }
        }
        if reasons.is_empty() {
            return None;
        }
        if self.fails_with_hooks(messages::INVALID) {
            return None;
        }
        let message = messages::invalid(reasons.iter().map(String::as_str));
        Some(self.complete(OperationPhase::Failed, message))
    }

    /// Lets the SyncFail hooks run after a failure before the first wave, if the settings say so
    /// and there are some that can (SE-589).
    pub fn fails_with_hooks(&mut self, failure: &str) -> bool {
        let is_wanted =
            self.snapshot.settings.sync_fail_on_invalid && !self.snapshot.operation.dry_run;
        let runs = |task: &Task<'_>| task.is_sync_fail() && task.is_pending();
        if !is_wanted || !self.tasks.iter().any(runs) {
            return false;
        }
        self.progress.failure = Some(failure.to_owned());
        // Nothing else is checked or applied any more.
        self.progress.dry_run_done = true;
        true
    }

    /// After the last action of a wave: the end, or the delay before the next
    /// wave (SE-241.11, SE-241.12, SE-265).
    fn after_wave(&mut self) -> Option<SyncPlan> {
        if self.progress.failure.is_some() {
            return None;
        }
        let Some(last) = self.ran.last().copied() else {
            if self.restored
                && let Some(plan) = self.resume_end()
            {
                return Some(plan);
            }
            let until = self.progress.delay_until.filter(|until| *until > self.now)?;
            return Some(self.pause(until, self.snapshot.message.clone()));
        };
        if self.ran.iter().any(|at| self.tasks[*at].has_failed()) {
            self.progress.failure = Some(messages::FAILED_TO_APPLY.to_owned());
            return None;
        }
        let slot = self.tasks[last].slot();
        let pending = self.pending();
        if pending.iter().any(|at| self.tasks[*at].slot() == slot) {
            return None;
        }
        let wave: Vec<usize> = (0..self.tasks.len())
            .filter(|at| self.tasks[*at].slot() == slot && !self.tasks[*at].is_pending())
            .collect();
        if pending.is_empty() {
            return self.all_run(&wave);
        }
        let delay = self.snapshot.settings.wave_delay;
        let until = self.now.checked_add(delay).ok().filter(|until| *until > self.now)?;
        self.progress.delay_until = Some(until);
        let message = self.waiting_message(&wave);
        Some(self.pause(until, message))
    }

    /// Success without waiting for health, unless the wave has hooks (SE-242), or one is still
    /// running: after a restart the wave of an object that was pruned may be unknown.
    pub fn all_run(&mut self, wave: &[usize]) -> Option<SyncPlan> {
        let runs = |task: &Task<'_>| task.hook && task.is_running();
        let hooks = wave.iter().any(|at| self.tasks[*at].hook) || self.tasks.iter().any(runs);
        if hooks || self.snapshot.settings.wait_for_health {
            return None;
        }
        let message = messages::ALL_TASKS_RUN.to_owned();
        Some(self.end(SyncEnding { phase: OperationPhase::Succeeded, message }))
    }

    /// Updates running tasks from the live objects (SE-255, SE-256).
    pub fn refresh(&mut self) {
        for at in 0..self.tasks.len() {
            let task = &self.tasks[at];
            let Some(result) = self.result(at).filter(|_| task.is_running()) else { continue };
            let evaluated = gate::evaluate(task, result, &self.snapshot.settings, self.now);
            if let Some((state, message)) = evaluated {
                self.set(at, None, state, message);
            } else if task.live.is_none()
                && self.snapshot.namespace == NamespaceFact::Exists
                && self.namespace_task() == Some(at)
            {
                let message = result.message.clone();
                self.set(at, None, OperationPhase::Succeeded, message);
            }
        }
    }

    /// Whether a running task blocks later tasks: hooks always, resources if
    /// there are later tasks (SE-241.4, SE-257).
    fn is_awaited(&self, task: &Task<'_>) -> bool {
        let resources = self.snapshot.settings.wait_for_health || self.is_multi_step();
        task.is_running() && (task.hook || (resources && self.progress.failure.is_none()))
    }

    pub fn is_multi_step(&self) -> bool {
        self.progress.multi_step.unwrap_or_else(|| {
            let counts = self.snapshot.settings.sync_fail_counts_as_wave;
            let mut tasks = self.tasks.iter().filter(|task| counts || !task.is_sync_fail());
            let first = tasks.next().map(Task::slot);
            tasks.next_back().is_some_and(|last| Some(last.slot()) != first)
        })
    }

    fn await_running(&mut self) -> Option<SyncPlan> {
        let mut read = Group::default();
        let mut wakes = Vec::new();
        for at in 0..self.tasks.len() {
            let task = &self.tasks[at];
            if !self.is_awaited(task) || task.live.is_some() {
                continue;
            }
            let since = self.result(at).and_then(|result| result.since);
            let due = since.and_then(|since| since.checked_add(gate::READ_AFTER).ok());
            match self.outcome(Verb::Read, at) {
                Some(ActionResult::Gone) => {
                    let key = &task.key.resource;
                    let name = format!("{}/{}", key.group_kind(), key.name);
                    let message = format!("Resource {name} is missing, it might have been deleted");
                    self.set(at, Some(ResultCode::SyncFailed), OperationPhase::Error, message);
                }
                Some(ActionResult::Failed(error)) => {
                    self.set(at, None, OperationPhase::Error, error.as_str());
                }
                // It exists; the cache will contain it.
                Some(_) => wakes.extend(self.now.checked_add(gate::READ_AFTER).ok()),
                None => match due.filter(|due| *due > self.now) {
                    Some(due) => wakes.push(due),
                    None => read.actions.push(Action::Read(task.key.clone())),
                },
            }
        }
        let awaited: Vec<usize> =
            (0..self.tasks.len()).filter(|at| self.is_awaited(&self.tasks[*at])).collect();
        if awaited.is_empty() {
            return None;
        }
        let message = self.waiting_message(&awaited);
        let waiting = awaited.iter().map(|at| self.wait(*at, self.wait_reason(*at)));
        let mut waiting: Vec<Waiting> = waiting.collect();
        let (mut actions, held) = self.rest_of_wave(&awaited);
        waiting.extend(held);
        actions.extend(Some(read).filter(|group| !group.actions.is_empty()));
        Some(self.plan(OperationPhase::Running, message, actions, waiting, wakes.into_iter().min()))
    }

    fn wait_reason(&self, at: usize) -> WaitReason {
        if self.tasks[at].hook { WaitReason::HookCompletion } else { WaitReason::Health }
    }

    pub fn waiting_message(&self, tasks: &[usize]) -> String {
        let tasks: Vec<&Task<'_>> = tasks.iter().map(|at| &self.tasks[*at]).collect();
        let reason = match tasks.iter().any(|task| task.hook) {
            true => WaitReason::HookCompletion,
            false => WaitReason::Health,
        };
        messages::waiting(reason, &tasks)
    }

    /// A wave is complete only when its pruned objects are gone (SE-241.5). An
    /// object of the same name with another UID is not the pruned one. A wave that has failed
    /// ends without them (SE-241.11).
    fn await_deletions(&mut self) -> Option<SyncPlan> {
        if self.progress.failure.is_some() {
            return None;
        }
        let leaving: Vec<usize> = (0..self.tasks.len())
            .filter(|at| {
                let pruned = self.result(*at).filter(|r| r.status == ResultCode::Pruned);
                let task = &self.tasks[*at];
                let view = task.live_view().filter(|_| task.is_prune() && !task.is_itself());
                let (Some(result), Some(view)) = (pruned, view) else { return false };
                view.is_deleting() || view.uid() == result.uid
            })
            .collect();
        if leaving.is_empty() {
            return None;
        }
        let tasks: Vec<&Task<'_>> = leaving.iter().map(|at| &self.tasks[*at]).collect();
        let message = messages::waiting(WaitReason::Deletion, &tasks);
        let waiting = leaving.iter().map(|at| self.wait(*at, WaitReason::Deletion));
        let mut waiting: Vec<Waiting> = waiting.collect();
        let (actions, held) = self.rest_of_wave(&leaving);
        waiting.extend(held);
        Some(self.plan(OperationPhase::Running, message, actions, waiting, None))
    }

    fn wait_for_answers(&mut self, stopping: bool) -> SyncPlan {
        let mut lost = std::mem::take(&mut self.lost);
        // The first one is named, with its reason.
        lost.sort_by_key(|(at, _)| !self.tasks[*at].hook);
        let tasks: Vec<&Task<'_>> = lost.iter().map(|(at, _)| &self.tasks[*at]).collect();
        let message = messages::waiting(WaitReason::LostResponse, &tasks);
        let waiting = lost.iter().map(|(at, why)| Waiting {
            detail: (*why).to_owned(),
            since: None,
            ..self.wait(*at, WaitReason::LostResponse)
        });
        let waiting = waiting.collect();
        let again = self.now.checked_add(LOST_ANSWER_PAUSE).ok();
        let phase = match stopping {
            true => OperationPhase::Terminating,
            false => OperationPhase::Running,
        };
        self.plan(phase, message, Vec::new(), waiting, again)
    }

    /// Tasks still to run, without SyncFail; also without unmodified resources
    /// with `ApplyOutOfSyncOnly` (SE-318), unless their apply was in progress.
    pub fn pending(&self) -> Vec<usize> {
        (0..self.tasks.len())
            .filter(|at| {
                let task = &self.tasks[*at];
                let unmodified = self.app.out_of_sync_only
                    && !task.hook
                    && !task.is_prune()
                    && task
                        .live
                        .is_some_and(|live| !live.out_of_sync && !live.object.is_deleting())
                    && !self.in_flight.contains_key(&task.key);
                task.is_pending() && !task.is_sync_fail() && !unmodified
            })
            .collect()
    }
}
