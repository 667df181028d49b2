//! Carries out the actions of a plan.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};

use super::context::Context;
use super::observe::Place;
use crate::act::apply::Applier;
use crate::act::delete;
use crate::api::ResourceKey;
use crate::decide::sync::{
    Action, Group, GroupVersionKind, Happened, LiveObject, Object, Outcome, TaskKey,
};
use crate::watch::live::kind_of;

/// An action that takes longer has lost its answer. Longer than any wait that
/// is part of an action.
const LIMIT: Duration = Duration::from_secs(180);

/// What actions need to know.
pub struct Executor<'a> {
    /// Settings.
    pub ctx: &'a Context,
    /// The cluster.
    pub place: &'a Place,
    /// What is live, as the plan saw it.
    pub live: &'a BTreeMap<ResourceKey, LiveObject>,
    /// The kinds of the targets, to read one directly.
    pub kinds: &'a BTreeMap<ResourceKey, GroupVersionKind>,
    /// Manager whose fields are taken over by server-side apply.
    pub former_manager: &'a str,
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
        };
        let live = |task: &TaskKey| self.live.get(&task.resource);
        let object = |task: &TaskKey| live(task).map(|live| Arc::clone(&live.object));
        let happened = match action {
            Action::DryRun(apply) => {
                let in_sync = live(&apply.task).is_some_and(|live| !live.out_of_sync);
                if !self.ctx.settings.server_dry_run {
                    let key = &apply.task.resource;
                    let message = crate::act::outcome::message(key, "configured", true);
                    let (uid, resource_version) = Default::default();
                    return Happened::Done { message, uid, resource_version };
                }
                let live = object(&apply.task);
                applier.apply(apply, live.as_ref(), in_sync, true).await
            }
            Action::CreateNamespace(apply) | Action::Apply(apply) => {
                applier.apply(apply, object(&apply.task).as_ref(), false, false).await
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
