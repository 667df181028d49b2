//! The end of operations: succeeded, failed with SyncFail hooks, or terminated;
//! and the conversion of a decision to a plan.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::engine::Engine;
use super::gate;
use super::messages;
use super::plan::{
    Action, ActionResult, DeleteReason, Group, LiveState, SyncEnding, SyncPlan, SyncProgress,
    TaskKey, Verb, WaitReason, Waiting,
};
use super::snapshot::HookPolicyScope;
use super::task::Task;
use wavegate_api::Raw;
use wavegate_api::annotations::is_held_as_hook;
use wavegate_api::hooks::{DeletePolicy, hook_role};
use wavegate_api::operation::{OperationPhase, ResourceResult, ResultCode, SyncPhase};

/// How soon a prune is decided again that waits for comparisons of other Applications. The last of
/// them usually ends the wait.
const COMPARED_AGAIN: SignedDuration = SignedDuration::from_secs(2);

impl Engine<'_> {
    /// Removes the finalizer of completed hooks (SE-241.6) and deletes those
    /// whose policy depends on their own end. Runs before all other actions.
    pub(super) fn release_hooks(&mut self) {
        self.cleanup = self.clean_up(|engine, at| engine.delete_reason(at, None));
    }

    /// Groups that remove the finalizer of completed hooks and delete those
    /// with a given reason. Objects of other phases are not changed.
    fn clean_up(&self, reason: impl Fn(&Self, usize) -> Option<DeleteReason>) -> Vec<Group> {
        let (mut released, mut deleted) = (Group::default(), Group::default());
        for at in 0..self.tasks.len() {
            let task = &self.tasks[at];
            let foreign = task.is_foreign(&self.snapshot.operation_id);
            let ours = task.hook && !foreign && task.objection().is_none();
            let Some(view) = task.live_view().filter(|_| ours) else { continue };
            let reason = reason(self, at);
            if task.is_completed() || reason.is_some() {
                released.actions.extend(self.release(at, view));
            }
            deleted.actions.extend(reason.and_then(|reason| self.delete_hook(at, view, reason)));
        }
        let groups = [released, deleted].into_iter();
        groups.filter(|group| !group.actions.is_empty()).collect()
    }

    /// Whether its policy deletes a hook now: when the hook has completed, or
    /// when the operation has ended (SE-291, SE-292).
    fn delete_reason(&self, at: usize, end: Option<OperationPhase>) -> Option<DeleteReason> {
        let task = &self.tasks[at];
        let decisive = match self.snapshot.settings.hook_policy_scope {
            HookPolicyScope::Operation if task.is_running() => None,
            HookPolicyScope::Operation => end,
            HookPolicyScope::Hook => task.state,
        };
        match decisive? {
            OperationPhase::Succeeded if task.has_policy(DeletePolicy::HookSucceeded) => {
                Some(DeleteReason::HookSucceeded)
            }
            phase if phase.has_failed() && task.has_policy(DeletePolicy::HookFailed) => {
                Some(DeleteReason::HookFailed)
            }
            _ => None,
        }
    }

    /// Removes the finalizer of hooks that are no task of this operation, but of an earlier state
    /// of it or of an earlier operation: the destination or the source has changed meanwhile.
    /// Nothing else would do so, and the objects could never be deleted.
    fn release_abandoned(&self) -> Vec<Group> {
        let known: BTreeSet<&str> =
            self.tasks.iter().filter_map(|task| Some(task.live_view()?.uid())).collect();
        let left = self.snapshot.live.iter().filter(|(_, live)| {
            is_held_as_hook(&live.object)
                && live.tracked
                && hook_role(&live.object).is_hook()
                && !known.contains(live.object.uid())
        });
        let tasks = left.map(|(resource, live)| {
            (TaskKey { phase: SyncPhase::Sync, resource: resource.clone() }, &*live.object)
        });
        let untried = tasks.filter(|(task, _)| !self.is_tried(task, Verb::RemoveFinalizer));
        let released = untried.map(|(task, view)| {
            let key = task.resource.clone();
            let (version, uid) = (view.version().to_owned(), view.uid().to_owned());
            Action::RemoveFinalizer(LiveState { task, key, version, uid })
        });
        let actions: Vec<Action> = released.collect();
        match actions.is_empty() {
            true => Vec::new(),
            false => vec![Group { actions, stops_on_failure: false }],
        }
    }

    /// A failed operation: deletes HookFailed hooks, runs SyncFail hooks wave
    /// by wave, then ends (SE-241.7, SE-271..SE-274).
    pub(super) fn fail(mut self) -> SyncPlan {
        let base = match self.progress.failure.take() {
            Some(base) => base,
            None => messages::UNSUCCESSFUL.to_owned(),
        };
        self.progress.failure = Some(base.clone());
        self.cleanup = self.clean_up(|engine, at| {
            let waits = engine.tasks[at].is_pending() && engine.tasks[at].is_sync_fail();
            engine.delete_reason(at, Some(OperationPhase::Failed)).filter(|_| !waits)
        });
        loop {
            let sync_fail: Vec<usize> = (0..self.tasks.len())
                .filter(|at| self.tasks[*at].is_sync_fail() && self.tasks[*at].is_pending())
                .collect();
            let slot = sync_fail.first().map(|at| self.tasks[*at].slot());
            let wave: Vec<usize> =
                sync_fail.into_iter().filter(|at| Some(self.tasks[*at].slot()) == slot).collect();
            if wave.is_empty() {
                break;
            }
            if self.refuse_strangers(&wave) {
                continue;
            }
            if let Some(plan) = self.run(&wave) {
                return plan;
            }
            break;
        }
        let message = messages::failure(&base, &self.results);
        self.end(SyncEnding { phase: OperationPhase::Failed, message })
    }

    /// Deletes hooks, then ends. The end is stored first, so that the deletion
    /// continues after a restart.
    pub(super) fn end(&mut self, ending: SyncEnding) -> SyncPlan {
        // An unknown stored phase is an error, and an end.
        let phase = match ending.phase.is_completed() {
            true => ending.phase,
            false => OperationPhase::Error,
        };
        self.progress.ending = Some(ending.clone());
        let mut groups = self.clean_up(|engine, at| engine.delete_reason(at, Some(phase)));
        groups.extend(self.release_abandoned());
        match groups.is_empty() {
            true => self.complete(phase, ending.message),
            false => self.act(groups),
        }
    }

    /// Stops running hooks and ends; resources are not changed (SE-285).
    pub(super) fn terminate(mut self) -> SyncPlan {
        let running: Vec<bool> = self.tasks.iter().map(Task::is_running).collect();
        self.refresh();
        let mut groups = self.clean_up(|engine, at| {
            let task = &engine.tasks[at];
            match task.is_running() {
                true => Some(DeleteReason::Terminated),
                // Hooks that had completed before stay, whatever their policy.
                false => (running[at]
                    && task.is_completed()
                    && task.has_policy(DeletePolicy::HookFailed))
                .then_some(DeleteReason::HookFailed),
            }
        });
        groups.extend(self.release_abandoned());
        if !groups.is_empty() {
            let message = match self.progress.timed_out {
                true => messages::TIMED_OUT,
                false => messages::TERMINATING,
            };
            let phase = OperationPhase::Terminating;
            return self.plan(phase, message.to_owned(), groups, Vec::new(), None);
        }
        let mut errors = false;
        for at in 0..self.tasks.len() {
            let verbs = [Verb::RemoveFinalizer, Verb::DeleteHook];
            let refused = |verb| matches!(self.outcome(verb, at), Some(ActionResult::Failed(_)));
            errors |= verbs.into_iter().any(refused);
            if self.tasks[at].hook && self.tasks[at].is_running() {
                self.set(at, None, OperationPhase::Failed, "Terminated");
            }
        }
        let (phase, message) = match errors {
            true => (OperationPhase::Error, messages::TERMINATED_WITH_ERRORS),
            false => (OperationPhase::Failed, messages::TERMINATED),
        };
        let by = if self.progress.timed_out { messages::BY_TIMEOUT } else { "" };
        SyncPlan { terminated: true, ..self.complete(phase, format!("{message}{by}")) }
    }

    /// The delay between two waves: health is not evaluated and nothing starts.
    pub(super) fn pause(&mut self, until: Timestamp, message: String) -> SyncPlan {
        let running = (0..self.tasks.len()).filter(|at| self.tasks[*at].is_running());
        let mut running: Vec<usize> = running.collect();
        if running.is_empty() {
            // All tasks are complete: names the next task that the delay
            // blocks.
            running.extend(self.pending().first());
        }
        let waiting = running.iter().map(|at| {
            let wait = self.wait(*at, WaitReason::WaveDelay);
            Waiting { until: Some(until), ..wait }
        });
        let waiting = waiting.collect();
        self.plan(OperationPhase::Running, message, Vec::new(), waiting, Some(until))
    }

    pub(super) fn wait(&self, at: usize, reason: WaitReason) -> Waiting {
        let since = self.result(at).and_then(|result| result.since);
        // Tasks that were complete for a moment only are not known.
        let since = since.or(Some(self.snapshot.started_at));
        let (settings, deadline) = (&self.snapshot.settings, self.deadline());
        let mut waiting = gate::waiting(&self.tasks[at], reason, since, settings, deadline);
        if reason == WaitReason::Handover {
            let again = self.now.checked_add(COMPARED_AGAIN).ok();
            waiting.until = waiting.until.into_iter().chain(again).min();
        }
        waiting
    }

    /// A plan with actions.
    pub(super) fn act(&mut self, groups: Vec<Group>) -> SyncPlan {
        let message = messages::TASKS_RUNNING.to_owned();
        self.plan(OperationPhase::Running, message, groups, Vec::new(), None)
    }

    /// The final plan of an operation.
    pub(super) fn complete(&mut self, phase: OperationPhase, message: String) -> SyncPlan {
        self.leave_namespace_running();
        let _ = self.take_progress();
        self.plan(phase, message, Vec::new(), Vec::new(), None)
    }

    /// The row of a Namespace that the sync has created stays Running, as in Argo CD, which looks at
    /// it again only for the metadata that it manages: tools compare the rows.
    fn leave_namespace_running(&mut self) {
        let Some(at) = self.namespace_task() else { return };
        // A declared one is a resource of the phase Sync.
        let is_created = self.tasks[at].key.phase == SyncPhase::PreSync;
        let is_managed = self.snapshot.managed_namespace_metadata.is_some();
        let stored = self.result(at).filter(|row| row.hook_phase == OperationPhase::Succeeded);
        if let Some(message) = stored.map(|row| row.message.clone())
            && is_created
            && !is_managed
        {
            self.set(at, None, OperationPhase::Running, message);
        }
    }

    /// Any plan. Decides whether it must be stored before its actions run, and
    /// adds the times when a wait ends by itself.
    pub(super) fn plan(
        &mut self,
        phase: OperationPhase,
        message: String,
        actions: Vec<Group>,
        waiting_for: Vec<Waiting>,
        wake_at: Option<Timestamp>,
    ) -> SyncPlan {
        let progress = self.take_progress();
        let learnt = phase != self.snapshot.phase
            || significant(&self.results) != significant(&self.snapshot.results)
            || essential(&progress) != essential(&self.snapshot.progress);
        let limits = waiting_for.iter().filter_map(|wait| wait.until).chain(self.deadline());
        let wake_at = limits.filter(|at| *at > self.now).chain(wake_at).min();
        SyncPlan {
            needs_persist_before_actions: !actions.is_empty() && learnt,
            actions,
            results: std::mem::take(&mut self.results),
            progress,
            phase,
            message,
            waiting_for,
            wake_at: wake_at.filter(|_| !phase.is_completed()),
            warnings: std::mem::take(&mut self.warnings),
            terminated: false,
        }
    }
}

/// Results that must survive a crash: skipping a prune again is harmless.
fn significant(results: &[ResourceResult]) -> Vec<&ResourceResult> {
    results.iter().filter(|result| result.status != ResultCode::PruneSkipped).collect()
}

/// Progress that must survive a crash; the rest is computed again.
fn essential(progress: &SyncProgress) -> SyncProgress {
    SyncProgress {
        dry_run_done: false,
        multi_step: None,
        prune_waves: Default::default(),
        ..progress.clone()
    }
}
