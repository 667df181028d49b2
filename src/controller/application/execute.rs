//! Carries out the actions of a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use serde_json::Value;

use super::context::Context;
use super::observe::Destination;
use crate::act::apply::Applier;
use crate::act::delete;
use crate::api::ResourceKey;
use crate::api::kind::GroupVersionKind;
use crate::decide::app_state::owner::Owner;
use crate::decide::sync::{
    Action, Apply, Group, Happened, How, LiveObject, Object, Outcome, TaskKey,
};
use crate::watch::cluster_cache::kind_of;

/// An action that takes longer has lost its answer. Longer than any wait that
/// is part of an action.
const LIMIT: Duration = Duration::from_secs(180);

/// Before an object is applied again that the server has cut off fields of.
const CUT_OFF_PAUSES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
];

/// Whether a field of the target is missing in what the server has stored.
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

/// What actions need to know.
pub struct Executor<'a> {
    /// Settings.
    pub ctx: &'a Context,
    /// The cluster.
    pub place: &'a Destination,
    /// What is live, as the plan saw it.
    pub live: &'a BTreeMap<ResourceKey, LiveObject>,
    /// The kinds of the targets, to read one directly.
    pub kinds: &'a BTreeMap<ResourceKey, GroupVersionKind>,
    /// Groups and kinds that definitions among the targets bring along.
    pub defined: &'a BTreeSet<(String, String)>,
    /// Manager whose fields are taken over by server-side apply.
    pub former_manager: &'a str,
    /// On whose behalf.
    pub owner: Owner<'a>,
}

impl Executor<'_> {
    /// Runs group after group, the actions of a group side by side.
    pub async fn run(&self, groups: &[Group]) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for group in groups {
            let parallel = self.ctx.settings.parallel_applies.max(1);
            let mut work: Vec<BoxFuture<'_, Outcome>> = Vec::new();
            for action in &group.actions {
                let act = async {
                    let answer = tokio::time::timeout(LIMIT, self.act(action)).await;
                    let result = answer.unwrap_or_else(|_| {
                        Happened::Unknown(format!("no answer within {} s", LIMIT.as_secs()))
                    });
                    Outcome { action: action.id(), result }
                };
                work.push(act.boxed());
            }
            // In order, so that results come in the order of tasks.
            let done: Vec<Outcome> = futures::stream::iter(work).buffered(parallel).collect().await;
            let failed = done.iter().any(|outcome| matches!(outcome.result, Happened::Failed(_)));
            outcomes.extend(done);
            if failed && group.stops_on_failure {
                break;
            }
        }
        outcomes
    }

    async fn act(&self, action: &Action) -> Happened {
        let cluster = &self.place.destination.cluster;
        let applier = Applier {
            cluster,
            manager: &self.ctx.settings.field_manager,
            former_manager: self.former_manager,
            owner: self.owner,
        };
        let live = |task: &TaskKey| self.live.get(&task.resource);
        let object = |task: &TaskKey| live(task).map(|live| Arc::clone(&live.object));
        let happened = match action {
            Action::DryRun(apply) => {
                let ResourceKey { group, kind, .. } = &apply.task.resource;
                let defined = self.defined.contains(&(group.clone(), kind.clone()));
                let server_side = apply.method.how == How::ServerSide;
                // Its definition may not be what it will be once it was synced.
                if defined || (server_side && !self.ctx.settings.server_dry_run) {
                    let key = &apply.task.resource;
                    let message = crate::act::outcome::message(key, "configured", true);
                    let (uid, resource_version) = Default::default();
                    return Happened::Done { message, uid, resource_version };
                }
                let in_sync = live(&apply.task).is_some_and(|live| !live.out_of_sync);
                let live = object(&apply.task);
                applier.apply(apply, live.as_ref(), in_sync, true).await
            }
            Action::CreateNamespace(apply) | Action::Apply(apply) => {
                self.bring(&applier, apply, object(&apply.task)).await
            }
            Action::CreateHook(apply) => applier.create_hook(apply).await,
            Action::RemoveFinalizer(target) => match self.resource(target).await {
                Ok(resource) => {
                    delete::remove_finalizer(cluster, &resource, &target.key, &target.uid).await
                }
                Err(happened) => happened,
            },
            Action::DeleteHook(target, _, propagation) | Action::Prune(target, propagation) => {
                match self.resource(target).await {
                    Ok(resource) => {
                        let (key, uid) = (&target.key, &target.uid);
                        delete::delete(cluster, &resource, key, uid, *propagation).await
                    }
                    Err(happened) => happened,
                }
            }
            Action::Read(task) => self.read(task).await,
        };
        let id = action.id();
        tracing::debug!(
            verb = ?id.verb, phase = %id.task.phase, resource = %id.task.resource, ?happened,
            "action"
        );
        happened
    }

    /// Applies an object. Where its definition was changed by the same sync, the
    /// server may still cut off the new fields for a moment: then it is applied
    /// again, or they would be missing while the sync says that it succeeded.
    async fn bring(
        &self,
        applier: &Applier<'_>,
        apply: &Apply,
        mut live: Option<Arc<Value>>,
    ) -> Happened {
        let key = &apply.task.resource;
        let defined = self.defined.contains(&(key.group.clone(), key.kind.clone()));
        let mut pauses = CUT_OFF_PAUSES.into_iter();
        loop {
            let happened = applier.apply(apply, live.as_ref(), false, false).await;
            if !defined || !matches!(happened, Happened::Done { .. }) {
                return happened;
            }
            let kind = kind_of(&apply.manifest);
            let found = self.place.destination.cluster.get(&kind, key).await;
            let Ok(Some(found)) = found else { return happened };
            let Some(pause) = pauses.next().filter(|_| lacks(&apply.manifest, &found)) else {
                return happened;
            };
            tokio::time::sleep(pause).await;
            live = Some(found);
        }
    }

    async fn resource(
        &self,
        target: &Object,
    ) -> Result<kube::core::discovery::ApiResource, Happened> {
        let kind = GroupVersionKind {
            group: target.key.group.clone(),
            version: target.version.clone(),
            kind: target.key.kind.clone(),
        };
        match self.place.destination.cluster.resource(&kind, true).await {
            Ok(Some((resource, _))) => Ok(resource),
            // Without its kind the object cannot be there.
            Ok(None) => Err(Happened::Gone),
            Err(error) => Err(Happened::Unknown(error.to_string())),
        }
    }

    async fn read(&self, task: &TaskKey) -> Happened {
        let cluster = &self.place.destination.cluster;
        let key = &task.resource;
        let live = || self.live.get(key).map(|live| kind_of(&live.object));
        let Some(kind) = self.kinds.get(key).cloned().or_else(live) else {
            return Happened::Gone;
        };
        let resource = match cluster.resource(&kind, true).await {
            Ok(Some((resource, _))) => resource,
            Ok(None) => return Happened::Gone,
            Err(error) => return Happened::Unknown(error.to_string()),
        };
        match cluster.read(&resource, key).await {
            Ok(Some(found)) => crate::act::outcome::done(key, "found", &found, false),
            Ok(None) => Happened::Gone,
            Err(error) => Happened::Unknown(error.to_string()),
        }
    }
}
