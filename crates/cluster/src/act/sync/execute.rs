//! Executes actions that were decided.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use kube::core::discovery::ApiResource;
use serde_json::Value;

use super::apply::Applier;
use super::outcome;
use wavegate_api::{GroupVersionKind, Raw, ResourceKey};
use wavegate_application::PlacedTarget;
use wavegate_application::delete_hooks::DeleteHook;
use wavegate_application::finalize::Removal;
use wavegate_application::left_hooks::Hook;
use wavegate_application::operate::OperationAct;
use wavegate_engine::sync::{
    Action, ActionOutcome, ActionResult, Apply, ApplyMethod, LiveState, TaskKey,
};

/// Timeout of an action. It is longer than every wait inside an action.
const LIMIT: Duration = Duration::from_secs(180);

/// Pauses before an object is applied again after the server dropped fields of it.
const CUT_OFF_PAUSES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
];

/// Whether a field of the target is missing in the stored object.
fn lacks(target: &Value, stored: &Value) -> bool {
    match (target, stored) {
        (Value::Object(target), Value::Object(stored)) => {
            let mut said =
                target.iter().filter(|(key, value)| *key != "status" && !value.is_null());
            said.any(|(key, value)| stored.get(key).is_none_or(|stored| lacks(value, stored)))
        }
        (Value::Array(target), Value::Array(stored)) if target.len() == stored.len() => {
            target.iter().zip(stored).any(|(target, stored)| lacks(target, stored))
        }
        _ => false,
    }
}

/// The inputs of actions.
#[derive(Clone, Copy)]
pub struct Executor<'a> {
    /// What it writes with.
    pub applier: Applier<'a>,
    /// Maximum number of actions in parallel.
    pub parallel: usize,
    /// Whether the server checks objects that are applied with server-side apply.
    pub server_dry_run: bool,
}

impl Executor<'_> {
    /// Runs the groups of an operation one after the other, the actions of a group in parallel.
    pub async fn run(&self, act: &OperationAct, targets: &[PlacedTarget]) -> Vec<ActionOutcome> {
        let mut outcomes = Vec::new();
        for group in &act.groups {
            let parallel = self.parallel.max(1);
            let mut work: Vec<BoxFuture<'_, ActionOutcome>> = Vec::new();
            for action in &group.actions {
                let one = async move {
                    let answer = tokio::time::timeout(LIMIT, self.one(action, act, targets)).await;
                    let result = answer.unwrap_or_else(|_| {
                        ActionResult::Unknown(format!("no response within {} s", LIMIT.as_secs()))
                    });
                    ActionOutcome { action: action.id(), result }
                };
                work.push(one.boxed());
            }
            // In order of tasks, as the results are.
            let done: Vec<ActionOutcome> =
                futures::stream::iter(work).buffered(parallel).collect().await;
            let failed =
                done.iter().any(|outcome| matches!(outcome.result, ActionResult::Failed(_)));
            outcomes.extend(done);
            if failed && group.stops_on_failure {
                break;
            }
        }
        outcomes
    }

    async fn one(
        &self,
        action: &Action,
        act: &OperationAct,
        targets: &[PlacedTarget],
    ) -> ActionResult {
        let live = |task: &TaskKey| act.live.get(&task.resource);
        let object = |task: &TaskKey| live(task).map(|live| Arc::clone(&live.object));
        let happened = match action {
            Action::DryRun(apply) => {
                let request = &apply.request;
                let server_side = request.method.how == ApplyMethod::ServerSide;
                // The sync may change its definition first.
                if is_defined(apply, act) || (server_side && !self.server_dry_run) {
                    return outcome::done_outcome(&request.key, "configured", &Value::Null, true);
                }
                let in_sync = live(&apply.task).is_some_and(|live| !live.out_of_sync);
                let live = object(&apply.task);
                self.applier.apply(request, live.as_ref(), in_sync, true).await
            }
            Action::CreateNamespace(apply) | Action::Apply(apply) => {
                self.apply(apply, object(&apply.task), act).await
            }
            Action::CreateHook(apply) => self.applier.create_hook(&apply.request).await,
            Action::RemoveFinalizer(target) => match self.resource(target).await {
                Ok(of) => self.applier.remove_finalizer(&of, &target.key, &target.uid).await,
                Err(ended) => ended,
            },
            Action::DeleteHook(target, _, propagation) | Action::Prune(target, propagation) => {
                match self.resource(target).await {
                    Ok(of) => {
                        let (key, uid) = (&target.key, &target.uid);
                        let own = object(&target.task);
                        let own = own.filter(|_| matches!(action, Action::Prune(..)));
                        let own = own.as_deref();
                        self.applier.delete_object(&of, key, uid, *propagation, own).await
                    }
                    Err(ended) => ended,
                }
            }
            Action::Read(task) => self.read(task, act, targets).await.unwrap_or_else(|ended| ended),
        };
        let id = action.id();
        tracing::debug!(
            verb = ?id.verb, phase = %id.task.phase, resource = %id.task.resource, ?happened,
            "action"
        );
        happened
    }

    /// Applies an object. When its definition was changed by the same sync, the server
    /// may still drop the new fields for a short time: then the object is applied again,
    /// so that a successful sync includes them.
    async fn apply(
        &self,
        apply: &Apply,
        mut live: Option<Arc<Value>>,
        act: &OperationAct,
    ) -> ActionResult {
        let request = &apply.request;
        let defined = is_defined(apply, act);
        let mut pauses = CUT_OFF_PAUSES.into_iter();
        loop {
            let happened = self.applier.apply(request, live.as_ref(), false, false).await;
            if !defined || !matches!(happened, ActionResult::Done { .. }) {
                return happened;
            }
            let kind = GroupVersionKind::of(&request.manifest);
            let found = self.applier.cluster.get(&kind, &request.key).await;
            let Ok(Some(found)) = found else { return happened };
            let Some(pause) = pauses.next().filter(|_| lacks(&request.manifest, &found)) else {
                return happened;
            };
            tokio::time::sleep(pause).await;
            live = Some(found);
        }
    }

    async fn resource(&self, target: &LiveState) -> Result<ApiResource, ActionResult> {
        let ResourceKey { group, kind, .. } = &target.key;
        self.served(&GroupVersionKind::new(group, &target.version, kind)).await
    }

    async fn served(&self, kind: &GroupVersionKind) -> Result<ApiResource, ActionResult> {
        match self.applier.cluster.resource(kind, true).await {
            Ok(Some((resource, _))) => Ok(resource),
            // Without its kind the object cannot exist.
            Ok(None) => Err(ActionResult::Gone),
            Err(error) => Err(outcome::unknown_outcome(error)),
        }
    }

    async fn read(
        &self,
        task: &TaskKey,
        act: &OperationAct,
        targets: &[PlacedTarget],
    ) -> Result<ActionResult, ActionResult> {
        let key = &task.resource;
        let target = targets.iter().find(|target| target.key == *key);
        let live = || act.live.get(key).map(|live| GroupVersionKind::of(&live.object));
        let Some(kind) = target.map(|target| GroupVersionKind::of(&target.object)).or_else(live)
        else {
            return Err(ActionResult::Gone);
        };
        let resource = self.served(&kind).await?;
        let found = self.applier.cluster.read(&resource, key).await;
        let found = found.map_err(outcome::unknown_outcome)?.ok_or(ActionResult::Gone)?;
        Ok(outcome::done_outcome(key, "found", &found, false))
    }

    /// Deletes objects in parallel, for a deletion of the Application.
    pub async fn remove(&self, removals: &[Removal]) -> Result<(), String> {
        let work: Vec<BoxFuture<'_, Result<(), String>>> =
            removals.iter().map(|removal| self.remove_one(removal).boxed()).collect();
        let parallel = self.parallel.max(1);
        let done: Vec<Result<(), String>> =
            futures::stream::iter(work).buffered(parallel).collect().await;
        done.into_iter().collect()
    }

    async fn remove_one(&self, removal: &Removal) -> Result<(), String> {
        let Removal { key, object, propagation, .. } = removal;
        let Some(resource) = self.resource_of(object).await? else { return Ok(()) };
        let uid = object.uid();
        if removal.release {
            self.applier.remove_finalizer(&resource, key, uid).await;
        }
        if !removal.delete {
            return Ok(());
        }
        // A hook may carry nothing but a stamp.
        let own = Some(&**object).filter(|object| self.applier.owner.tracking.owns(object));
        match self.applier.delete_object(&resource, key, uid, *propagation, own).await {
            ActionResult::Done { .. } | ActionResult::Gone | ActionResult::Left(_) => Ok(()),
            ActionResult::Failed(words) | ActionResult::Unknown(words) => {
                Err(format!("cannot delete {key}: {words}"))
            }
        }
    }

    /// Where objects like a live one are; `None` when the cluster has no such kind any more.
    async fn resource_of(&self, object: &Value) -> Result<Option<ApiResource>, String> {
        let found = self.applier.cluster.resource(&GroupVersionKind::of(object), true).await;
        found.map(|found| found.map(|(resource, _)| resource)).map_err(|error| error.to_string())
    }

    /// Removes the finalizer of hooks.
    ///
    /// # Errors
    ///
    /// The first failure, with the hook.
    pub async fn release(&self, hooks: &[Hook]) -> Result<(), String> {
        for (key, object) in hooks {
            let failed = |why: String| format!("cannot remove the finalizer of hook {key}: {why}");
            let Some(resource) = self.resource_of(object).await.map_err(failed)? else { continue };
            match self.applier.remove_finalizer(&resource, key, object.uid()).await {
                ActionResult::Done { .. } | ActionResult::Gone | ActionResult::Left(_) => {}
                ActionResult::Failed(words) | ActionResult::Unknown(words) => {
                    return Err(failed(words));
                }
            }
        }
        Ok(())
    }

    /// Creates a hook of a deletion.
    pub async fn create(&self, hook: &DeleteHook, attempt: u64) -> Result<(), String> {
        match self.applier.apply(&hook.request(attempt), None, false, false).await {
            ActionResult::Done { .. } | ActionResult::Gone | ActionResult::Left(_) => Ok(()),
            ActionResult::Failed(words) | ActionResult::Unknown(words) => {
                Err(format!("cannot create hook {}: {words}", hook.key))
            }
        }
    }
}

/// Whether the kind of an object is defined by the same sync.
fn is_defined(apply: &Apply, act: &OperationAct) -> bool {
    let ResourceKey { group, kind, .. } = &apply.request.key;
    act.defined.contains(&(group.clone(), kind.clone()))
}
