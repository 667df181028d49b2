//! The actions of the next wave, when no task is running: dry run, prune,
//! deletion of old hooks, creation (SE-241, SE-250..SE-254).

use std::collections::BTreeMap;

use serde_json::Value;

use super::engine::Engine;
use super::messages;
use super::object::{defines, is_namespace};
use super::options;
use super::plan::{
    Action, ActionResult, Apply, ApplyRequest, DeleteReason, Group, LiveState, SyncEnding,
    SyncPlan, Verb, WaitReason, Waiting,
};
use super::prune::{self, PruneDecision};
use super::snapshot::{Handover, NamespaceFact};
use super::task::Task;
use wavegate_api::Raw;
use wavegate_api::annotations::{is_held_as_hook, sync_wave};
use wavegate_api::operation::{OperationPhase, ResultCode};

/// Most actions that are announced at once: the stored state names each of them, and has a limited
/// size (SE-597). The rest of the wave follows.
const MOST_ANNOUNCED: usize = 500;

impl Engine<'_> {
    /// Destination namespace and dry run; `None` once both are complete.
    pub(super) fn prepare(&mut self) -> Option<SyncPlan> {
        if let Some(at) = self.namespace_task() {
            let task = &self.tasks[at];
            if task.has_failed() {
                let message = messages::failure(messages::FAILED_NAMESPACE, &self.results);
                return Some(self.complete(OperationPhase::Failed, message));
            }
            if task.is_pending() && task.live_view().is_some_and(Raw::is_deleting) {
                let message = messages::waiting(WaitReason::Deletion, &[task]);
                let waiting = vec![self.wait(at, WaitReason::Deletion)];
                let groups = Vec::new();
                return Some(self.plan(OperationPhase::Running, message, groups, waiting, None));
            }
            let missing = task.live.is_none() && self.snapshot.namespace == NamespaceFact::Missing;
            if task.is_pending() && missing {
                self.announce(at, Verb::CreateNamespace, "");
                let create = self.apply(at).map(Action::CreateNamespace);
                let groups = vec![parallel(create.into_iter().collect())];
                return Some(self.act(groups));
            }
        }
        let checks = self.dry_runs(&self.pending_with_sync_fail());
        if checks.iter().any(|(at, _)| self.outcome(Verb::DryRun, *at).is_none()) {
            let checks = checks.into_iter().map(|(_, action)| action).collect();
            return Some(self.act(vec![parallel(checks)]));
        }
        if self.record_refused(&checks) {
            if self.fails_with_hooks(messages::FAILED_DRY_RUN) {
                return None;
            }
            let message = messages::FAILED_DRY_RUN.to_owned();
            return Some(self.complete(OperationPhase::Failed, message));
        }
        // From here on the plan is fixed, even if objects disappear from the
        // task list.
        self.progress.multi_step = Some(self.is_multi_step());
        self.progress.prune_waves = self.planned_prune_waves();
        self.progress.dry_run_done = true;
        None
    }

    fn pending_with_sync_fail(&self) -> Vec<usize> {
        let mut tasks = self.pending();
        let all = 0..self.tasks.len();
        tasks.extend(
            all.filter(|at| self.tasks[*at].is_sync_fail() && self.tasks[*at].is_pending()),
        );
        tasks
    }

    fn dry_runs(&self, tasks: &[usize]) -> Vec<(usize, Action)> {
        let is_checked = |task: &Task<'_>| !task.skip_dry_run && !task.is_leaving_itself();
        let checked = tasks.iter().filter(|at| is_checked(&self.tasks[**at]));
        checked.filter_map(|at| Some((*at, Action::DryRun(self.apply(*at)?)))).collect()
    }

    fn record_refused(&mut self, checks: &[(usize, Action)]) -> bool {
        let mut refused = false;
        for (at, _) in checks {
            let message = match self.outcome(Verb::DryRun, *at) {
                Some(ActionResult::Failed(error)) => messages::refusal(error),
                Some(ActionResult::Gone) => "the object was deleted during its dry run".to_owned(),
                _ => continue,
            };
            self.set(*at, Some(ResultCode::SyncFailed), OperationPhase::Failed, message);
            refused = true;
        }
        refused
    }

    /// Stored only if they are not those of the objects, as of several waves that are mirrored: they
    /// cannot be computed again once some of the objects are gone.
    fn planned_prune_waves(&self) -> BTreeMap<String, i64> {
        let prunes = || self.tasks.iter().filter(|task| task.is_prune());
        let own = |live: &super::snapshot::LiveObject| sync_wave(&live.object);
        let moved = prunes().any(|task| task.live.is_some_and(|live| own(live) != task.wave));
        match moved {
            true => prunes().map(|task| (task.key.resource.to_string(), task.wave)).collect(),
            false => BTreeMap::new(),
        }
    }

    /// A dry-run operation (SE-282).
    pub(super) fn dry_run_operation(&mut self) -> SyncPlan {
        let tasks = self.pending();
        let checks = self.dry_runs(&tasks);
        if checks.iter().any(|(at, _)| self.outcome(Verb::DryRun, *at).is_none()) {
            let checks = checks.into_iter().map(|(_, action)| action).collect();
            return self.act(vec![parallel(checks)]);
        }
        if self.record_refused(&checks) {
            return self.complete(OperationPhase::Failed, messages::FAILED_DRY_RUN.to_owned());
        }
        for at in tasks {
            let (code, message) = match (&self.tasks[at].live, self.outcome(Verb::DryRun, at)) {
                (Some(live), _) if self.tasks[at].is_prune() => {
                    match self.prune_decision(at, &live.object) {
                        PruneDecision::Skip(message) => (ResultCode::PruneSkipped, message),
                        PruneDecision::Delete | PruneDecision::Confirm | PruneDecision::Await => {
                            (ResultCode::Pruned, messages::dry_run("pruned"))
                        }
                    }
                }
                (_, Some(ActionResult::Done { message, .. })) => {
                    (ResultCode::Synced, messages::dry_run(message))
                }
                _ => (
                    ResultCode::Synced,
                    messages::dry_run("not checked, since its kind does not exist yet"),
                ),
            };
            self.set(at, Some(code), OperationPhase::Succeeded, message);
        }
        self.complete(OperationPhase::Succeeded, messages::ALL_TASKS_RUN.to_owned())
    }

    /// Runs the first wave with remaining tasks, or ends successfully.
    pub(super) fn next_wave(mut self) -> SyncPlan {
        loop {
            let pending = self.pending();
            let Some(slot) = pending.first().map(|at| self.tasks[*at].slot()) else {
                let message = messages::NO_MORE_TASKS.to_owned();
                return self.end(SyncEnding { phase: OperationPhase::Succeeded, message });
            };
            let (wave, later): (Vec<usize>, Vec<usize>) =
                pending.into_iter().partition(|at| self.tasks[*at].slot() == slot);
            if self.refuse_strangers(&wave) {
                return self.fail();
            }
            if let Some(plan) = self.run(&wave) {
                return plan;
            }
            // No request was needed, so there is no delay, either.
            if later.is_empty()
                && let Some(plan) = self.all_run(&wave)
            {
                return plan;
            }
        }
    }

    /// Fails the hooks of a wave whose name is used by an unrelated object,
    /// which is not changed. Returns whether there are any.
    pub(super) fn refuse_strangers(&mut self, wave: &[usize]) -> bool {
        let mut any = false;
        for at in wave.iter().copied() {
            let task = &self.tasks[at];
            let Some(objection) = task.objection().filter(|_| task.is_pending()) else { continue };
            self.set(at, Some(ResultCode::SyncFailed), OperationPhase::Failed, objection);
            any = true;
        }
        any
    }

    /// The next actions of one wave, or what it waits for. `None` when no
    /// action is needed; its tasks then have results.
    pub(super) fn run(&mut self, wave: &[usize]) -> Option<SyncPlan> {
        let (groups, (reason, tasks)) = match self.actions_of(wave) {
            (groups, None) if groups.is_empty() => return None,
            (groups, None) => return Some(self.act(groups)),
            (groups, Some(held)) => (groups, held),
        };
        let named: Vec<_> = tasks.iter().map(|at| &self.tasks[*at]).collect();
        let mut message = messages::waiting(reason, &named);
        let handover = named.first().and_then(|task| self.handover(task));
        if let Some(Handover::Undecided(others)) =
            handover.filter(|_| reason == WaitReason::Handover)
        {
            message = messages::of_others(&message, others);
        }
        let waiting = tasks.iter().map(|at| self.wait(*at, reason)).collect();
        Some(self.plan(OperationPhase::Running, message, groups, waiting, None))
    }

    /// The next actions of one wave, and its tasks that cannot run yet, with the reason.
    pub(super) fn actions_of(
        &mut self,
        wave: &[usize],
    ) -> (Vec<Group>, Option<(WaitReason, Vec<usize>)>) {
        let Prunes { actions: prunes, unapproved, undecided, rest } = self.prunes(wave);
        let mut blocked = Vec::new();
        let (mut released, mut deleted) = (Group::default(), Group::default());
        released.stops_on_failure = true;
        for at in wave.iter().copied().filter(|at| self.tasks[*at].hook) {
            let Some(view) = self.tasks[at].obstacle() else { continue };
            if self.outcome(Verb::DeleteHook, at) == Some(&ActionResult::Gone) {
                continue;
            }
            blocked.push(at);
            released.actions.extend(self.release(at, view));
            deleted.actions.extend(self.delete_hook(at, view, DeleteReason::BeforeHookCreation));
        }

        let mut groups = std::mem::take(&mut self.cleanup);
        groups.push(Group { actions: prunes, stops_on_failure: true });
        self.spare_itself(wave);
        let (ready, leaving) = self.without_leaving(wave);
        if blocked.is_empty() {
            // All prunes come first.
            if !rest {
                groups.extend(self.creations(&ready));
            }
        } else {
            groups.extend([released, deleted]);
        }
        groups.retain(|group| !group.actions.is_empty());

        let held = match (blocked.is_empty(), unapproved.is_empty()) {
            (false, _) => Some((WaitReason::HookDeletion, blocked)),
            (true, false) => Some((WaitReason::PruneConfirmation, unapproved)),
            (true, true) if !undecided.is_empty() => Some((WaitReason::Handover, undecided)),
            (true, true) if groups.is_empty() && !leaving.is_empty() => {
                Some((WaitReason::Deletion, leaving))
            }
            (true, true) => None,
        };
        (groups, held)
    }

    /// What is left of the wave of which these tasks are awaited: its next actions, and what
    /// else it waits for. A wave is applied as a whole before anything of it is awaited (SE-251),
    /// also when a part of it had to be postponed: what is awaited may need that part.
    pub(super) fn rest_of_wave(&mut self, awaited: &[usize]) -> (Vec<Group>, Vec<Waiting>) {
        let failed = |task: &Task<'_>| !task.is_sync_fail() && task.has_failed();
        if self.progress.failure.is_some() || self.tasks.iter().any(failed) {
            return Default::default();
        }
        let mut rest = self.pending();
        let Some(slot) = rest.first().map(|at| self.tasks[*at].slot()) else {
            return Default::default();
        };
        rest.retain(|at| self.tasks[*at].slot() == slot);
        let is_open = awaited.iter().all(|at| self.tasks[*at].slot() == slot);
        if !is_open || self.refuse_strangers(&rest) {
            return Default::default();
        }
        let (groups, held) = self.actions_of(&rest);
        let waiting = held.map_or_else(Vec::new, |(reason, tasks)| {
            tasks.into_iter().map(|at| self.wait(at, reason)).collect()
        });
        (groups, waiting)
    }

    /// Nothing is applied to the Application of this operation while it is being deleted, and it
    /// is not awaited either: its deletion waits for the end of the operation (SE-513).
    fn spare_itself(&mut self, wave: &[usize]) {
        for at in wave.iter().copied() {
            if !self.tasks[at].is_leaving_itself() {
                continue;
            }
            self.in_flight.remove(&self.tasks[at].key);
            let message = "not applied: the application is being deleted";
            self.set(at, Some(ResultCode::Synced), OperationPhase::Succeeded, message);
        }
    }

    /// The tasks of a wave that can be applied, and those whose object is being deleted: what
    /// is applied to it goes with it, so it is applied when it is gone. A namespace or a
    /// definition also holds what comes after it, which may belong to it; other objects hold
    /// nothing else, since it may be the old state of others that holds them.
    fn without_leaving(&self, wave: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let (mut ready, mut leaving) = (Vec::new(), Vec::new());
        for at in wave.iter().copied() {
            let task = &self.tasks[at];
            let applied = task.target.as_deref().filter(|_| task.is_pending() && !task.hook);
            if task.is_itself() && !task.is_pending() {
                continue;
            }
            let goes = task.live_view().is_some_and(Raw::is_deleting);
            let Some(target) = applied.filter(|_| goes) else {
                ready.push(at);
                continue;
            };
            leaving.push(at);
            if is_namespace(target) || defines(target).is_some() {
                break;
            }
        }
        (ready, leaving)
    }

    fn prune_decision(&self, at: usize, live: &Value) -> PruneDecision {
        let handover = self.handover(&self.tasks[at]);
        prune::decide(live, handover, &self.app, self.snapshot.operation.prune)
    }

    fn handover(&self, task: &Task<'_>) -> Option<&Handover> {
        self.snapshot.handovers.get(&task.key.resource)
    }

    /// Deletions of a wave. Kept
    /// objects and those that are already being deleted get their result at
    /// once.
    fn prunes(&mut self, wave: &[usize]) -> Prunes {
        let approved = self.snapshot.deletion_approved_at;
        let approved = approved.is_some_and(|at| at >= self.snapshot.started_at);
        let mut prunes = Prunes::default();
        for at in wave.iter().copied() {
            let task = &self.tasks[at];
            let Some(live) = task.live.filter(|_| task.is_prune()) else { continue };
            let view: &Value = &live.object;
            match self.prune_decision(at, &live.object) {
                PruneDecision::Await => prunes.undecided.push(at),
                PruneDecision::Skip(message) => {
                    let code = Some(ResultCode::PruneSkipped);
                    self.set(at, code, OperationPhase::Succeeded, message);
                }
                PruneDecision::Confirm if !approved => prunes.unapproved.push(at),
                PruneDecision::Delete | PruneDecision::Confirm if view.is_deleting() => {
                    self.set(at, Some(ResultCode::Pruned), OperationPhase::Succeeded, "pruned");
                    self.note(at, view.uid(), "");
                }
                PruneDecision::Delete | PruneDecision::Confirm if !self.may_announce(at) => {
                    prunes.rest = true;
                }
                PruneDecision::Delete | PruneDecision::Confirm => {
                    let object = self.object(at, view);
                    self.announce(at, Verb::Prune, view.uid());
                    prunes.actions.push(Action::Prune(object, self.app.propagation));
                }
            }
        }
        prunes
    }

    /// Creations and applies: consecutive tasks of one kind run in parallel,
    /// kinds one after another, and a failure does not stop the rest (SE-251
    /// e).
    fn creations(&mut self, wave: &[usize]) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut kind = None;
        for at in wave.iter().copied() {
            // A prune task has no manifest to apply.
            let Some(apply) = self.apply(at) else { continue };
            if self.app.out_of_sync_only && !self.tasks[at].hook {
                if !self.may_announce(at) {
                    break;
                }
                self.announce(at, Verb::Apply, "");
            }
            let task = &self.tasks[at];
            // A hook that may exist already is applied (SE-294).
            let gone = self.outcome(Verb::DeleteHook, at) == Some(&ActionResult::Gone);
            let action = match task.hook && (task.live.is_none() || gone) {
                true => Action::CreateHook(apply),
                false => Action::Apply(apply),
            };
            let this = Some(task.key.resource.kind.clone());
            match groups.last_mut().filter(|_| kind == this) {
                Some(group) => group.actions.push(action),
                None => groups.push(parallel(vec![action])),
            }
            kind = this;
        }
        groups
    }

    /// Whether the stored state names an action of this task, or can name another one.
    fn may_announce(&self, at: usize) -> bool {
        self.in_flight.len() < MOST_ANNOUNCED || self.in_flight.contains_key(&self.tasks[at].key)
    }

    fn apply(&self, at: usize) -> Option<Apply> {
        let task = &self.tasks[at];
        let manifest = task.manifest()?;
        let live = task.live.map(|live| live.object.as_ref());
        let request = ApplyRequest {
            key: task.key.resource.clone(),
            method: options::method(&manifest, live, &self.app, task.nameless),
            stamp: (task.hook || task.nameless).then(|| task.stamp.clone()),
            wait_established: defines(&manifest).is_some(),
            manifest,
        };
        Some(Apply { task: task.key.clone(), request })
    }

    pub(super) fn object(&self, at: usize, view: &Value) -> LiveState {
        let task = &self.tasks[at];
        let mut key = task.key.resource.clone();
        key.namespace = view.namespace().to_owned();
        let version = view.version().to_owned();
        LiveState { task: task.key.clone(), key, version, uid: view.uid().to_owned() }
    }

    /// Removes the finalizer of a hook object, unless that was just tried.
    pub(super) fn release(&self, at: usize, view: &Value) -> Option<Action> {
        let tried = self.outcome(Verb::RemoveFinalizer, at).is_some();
        (is_held_as_hook(view) && !tried).then(|| Action::RemoveFinalizer(self.object(at, view)))
    }

    /// Deletes a hook object, unless it is being deleted already.
    pub(super) fn delete_hook(
        &self,
        at: usize,
        view: &Value,
        reason: DeleteReason,
    ) -> Option<Action> {
        let tried = self.outcome(Verb::DeleteHook, at).is_some();
        let needed = !tried && !view.is_deleting();
        let propagation = self.app.propagation;
        needed.then(|| Action::DeleteHook(self.object(at, view), reason, propagation))
    }
}

/// The deletions of a wave.
#[derive(Default)]
struct Prunes {
    actions: Vec<Action>,
    /// Tasks that still need confirmation.
    unapproved: Vec<usize>,
    /// Tasks that wait for comparisons of other Applications.
    undecided: Vec<usize>,
    /// Whether more follow when these have been recorded.
    rest: bool,
}

fn parallel(actions: Vec<Action>) -> Group {
    Group { actions, stops_on_failure: false }
}
