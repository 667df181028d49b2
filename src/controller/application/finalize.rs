//! Deletion of an Application: hooks, its resources, its finalizers
//! (SE-510 … SE-521).

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::context::{Context, Draft, Memory};
use super::observe::{self, ClusterState, Destination, Trouble};
use super::queue::Trigger;
use crate::act::apply::Applier;
use crate::act::delete;
use crate::api::ObjectKey;
use crate::api::ResourceKey;
use crate::api::annotations as names;
use crate::api::hooks::HookType;
use crate::api::operation::SyncPhase;
use crate::api::tracking::Tracking;
use crate::controller::error::Error;
use crate::decide::app_state::condition::{Condition, OF_DELETION};
use crate::decide::app_state::delete_hooks::{self, DeleteHook, Next};
use crate::decide::app_state::deletion::{self, Cascade};
use crate::decide::app_state::owner::Owner;
use crate::decide::app_state::{operation, status};
use crate::decide::sync::{Apply, Happened, How, Method, Propagation, TaskKey};
use crate::watch::cluster_cache::kind_of;

/// A deletion is looked at again after this time even if nothing happens.
const AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// Goes on with a deletion. Gives back when to look again; the draft holds
/// the finalizers that are left and what went wrong.
pub async fn finalize(
    ctx: &Context,
    key: &ObjectKey,
    memory: &mut Memory,
    draft: &mut Draft,
    trigger: Trigger,
) -> Result<Option<Timestamp>, Error> {
    if names::finalizers(&draft.wanted).next().is_none() {
        return Ok(None);
    }
    let hurry = names::refresh(&draft.wanted).is_some();
    let step = advance(ctx, key, memory, draft, trigger).await;
    if hurry
        && let Some(annotations) =
            draft.wanted.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
    {
        annotations.remove(names::REFRESH);
        annotations.remove(names::REFRESH_TIMESTAMP);
    }
    let now = ctx.now();
    let (problem, again) = match step {
        Ok(Step::Done) => (None, None),
        Ok(Step::Wait { reason, keep }) => {
            tracing::info!(application = %key, %reason, "deletion");
            if keep {
                return Ok(Some(now + AGAIN));
            }
            (None, Some(now + AGAIN))
        }
        Ok(Step::Stuck { message, next }) => {
            let again = now + AGAIN;
            (Some(message), Some(next.map_or(again, |next| next.min(again))))
        }
        Err(message) => (Some(message), Some(now + AGAIN)),
    };
    let type_ = crate::api::conditions::application::DELETION_ERROR;
    let problems: Vec<Condition> =
        problem.into_iter().map(|message| Condition::new(type_, message)).collect();
    if let Some(problem) = problems.first() {
        let known = draft.wanted["status"]["conditions"].as_array().into_iter().flatten();
        let told = known.into_iter().any(|c| c["message"] == problem.message.as_str());
        if told {
            tracing::debug!(application = %key, error = problem.message, "deletion failed again");
        } else {
            tracing::warn!(application = %key, error = problem.message, "deletion failed");
        }
    }
    if !problems.is_empty() || draft.wanted["status"]["conditions"].is_array() {
        if !draft.wanted["status"].is_object() {
            draft.wanted["status"] = Value::Object(serde_json::Map::new());
        }
        if let Some(fields) = draft.wanted["status"].as_object_mut() {
            status::conditions(fields, OF_DELETION, &problems, now);
        }
    }
    Ok(again)
}

enum Step {
    /// Nothing is left to do.
    Done,
    /// Something is under way.
    Wait {
        /// What.
        reason: String,
        /// Whether a failure that was told before still holds.
        keep: bool,
    },
    /// Something failed, and is tried again then.
    Stuck { message: String, next: Option<Timestamp> },
}

impl Step {
    fn wait(reason: impl Into<String>) -> Self {
        Self::Wait { reason: reason.into(), keep: false }
    }
}

fn has(draft: &Draft, finalizer: &str) -> bool {
    names::finalizers(&draft.wanted).any(|own| own == finalizer)
}

fn remove(draft: &mut Draft, finalizers: &[&str]) {
    let kept: Vec<String> = names::finalizers(&draft.wanted)
        .filter(|own| !finalizers.contains(own))
        .map(str::to_owned)
        .collect();
    match kept.is_empty() {
        true => {
            if let Some(metadata) = draft.wanted["metadata"].as_object_mut() {
                metadata.remove("finalizers");
            }
        }
        false => draft.wanted["metadata"]["finalizers"] = kept.into(),
    }
}

const CASCADE: [&str; 3] = [
    names::RESOURCES_FINALIZER,
    names::RESOURCES_FINALIZER_FOREGROUND,
    names::RESOURCES_FINALIZER_BACKGROUND,
];
const HOOKS: [&str; 4] = [
    names::PRE_DELETE_FINALIZER,
    names::PRE_DELETE_CLEANUP_FINALIZER,
    names::POST_DELETE_FINALIZER,
    names::POST_DELETE_CLEANUP_FINALIZER,
];

/// How long one look at a deletion waits until all kinds were listed once.
const SURVEYED_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

/// The steps of SE-512, in order.
async fn advance(
    ctx: &Context,
    key: &ObjectKey,
    memory: &mut Memory,
    draft: &mut Draft,
    trigger: Trigger,
) -> Result<Step, String> {
    let place = match place(ctx, key, &draft.wanted).await? {
        Some(place) => place,
        None => {
            // There is nothing that could be reached any more.
            remove(draft, &[CASCADE.as_slice(), HOOKS.as_slice()].concat());
            return Ok(Step::Done);
        }
    };
    let world = world(ctx, key, memory, &draft.wanted, &place, trigger).await?;
    let application = draft.wanted.clone();
    let cascade_of = Finalizer {
        ctx,
        application: &application,
        place: &place,
        world: &world,
        tracking: &ctx.tracking(key),
        uid: &operation::uid(&application),
    };
    if has(draft, names::PRE_DELETE_FINALIZER) {
        if let Some(step) = cascade_of.hooks(HookType::PreDelete, memory).await? {
            return Ok(step);
        }
        remove(draft, &[names::PRE_DELETE_FINALIZER]);
    }
    if let Some(cascade) = names::cascade(&draft.wanted) {
        let propagation = match cascade {
            names::Cascade::Foreground => Propagation::Foreground,
            names::Cascade::Background => Propagation::Background,
        };
        let managed = cascade_of.managed();
        cascade_of.release(&managed).await?;
        match deletion::cascade(&draft.wanted, &managed) {
            Cascade::Wait(reason) => return Ok(Step::wait(reason)),
            Cascade::Delete(keys) => {
                cascade_of.delete(&keys, &managed, propagation).await?;
                let count = keys.len();
                return Ok(Step::wait(format!("waiting for deletion of {count} resources")));
            }
            Cascade::Done => remove(draft, &CASCADE),
        }
    }
    if has(draft, names::POST_DELETE_FINALIZER) {
        if let Some(step) = cascade_of.hooks(HookType::PostDelete, memory).await? {
            return Ok(step);
        }
        remove(draft, &[names::POST_DELETE_FINALIZER]);
    }
    let cleanups = [
        (names::PRE_DELETE_CLEANUP_FINALIZER, HookType::PreDelete),
        (names::POST_DELETE_CLEANUP_FINALIZER, HookType::PostDelete),
    ];
    for (finalizer, type_) in cleanups {
        if !has(draft, finalizer) {
            continue;
        }
        let hooks = DeleteHook::all(type_, &application, &world.placed.targets);
        let gone = delete_hooks::clean_up(&hooks, &world.live);
        if !gone.is_empty() {
            cascade_of.delete(&gone, &world.live, Propagation::Foreground).await?;
            return Ok(Step::wait(format!("cleaning up {} hooks", type_.as_str())));
        }
        remove(draft, &[finalizer]);
    }
    Ok(Step::Done)
}

/// Where the Application goes; `None` when that cluster is not known any more.
async fn place(
    ctx: &Context,
    key: &ObjectKey,
    application: &Value,
) -> Result<Option<Destination>, String> {
    match observe::place(ctx, key, application).await {
        Ok(place) => Ok(Some(place)),
        Err(trouble) => {
            let spec = crate::api::read::<crate::api::ApplicationSpec>(&application["spec"]);
            let spec = spec.map_err(|error| format!("spec.{error}"))?;
            let unknown =
                ctx.clusters.resolve(&spec.destination).await.is_err_and(|error| {
                    matches!(error, crate::watch::clusters::Error::Unknown { .. })
                });
            if unknown { Ok(None) } else { Err(trouble.message()) }
        }
    }
}

/// Targets are only needed for hooks: without any, a source that cannot be
/// read does not hold up the cascade (SE-521).
async fn world(
    ctx: &Context,
    key: &ObjectKey,
    memory: &mut Memory,
    application: &Value,
    place: &Destination,
    trigger: Trigger,
) -> Result<ClusterState, String> {
    let needs_hooks = names::finalizers(application).any(|own| HOOKS.contains(&own));
    let tracking = ctx.tracking(key);
    let rendered = match needs_hooks {
        true => {
            let sources = place.spec.sources();
            let known = operation::given(&application["status"]["sync"]);
            let fresh = trigger.at.elapsed();
            // A failed hook is mended in the source (SE-518).
            let anew = !memory.delete_tries.is_empty() || names::refresh(application).is_some();
            let loaded = async {
                let newest = match anew {
                    true => observe::revisions(ctx, key, sources, &[], fresh).await.ok(),
                    false => None,
                };
                let revisions = match newest {
                    Some(newest) => newest,
                    None => observe::revisions(ctx, key, sources, &known, fresh).await?,
                };
                let raw = operation::sources(&without_state(application));
                let namespace = &place.spec.destination.namespace;
                observe::manifests(ctx, key, memory, &raw, &revisions, namespace, false).await
            };
            loaded.await.map_err(|trouble: Trouble| trouble.message())?
        }
        false => super::context::Rendered::default(),
    };
    let world = observe::world(memory, application, place, &rendered, &tracking).await;
    // What goes with the Application may be of any kind.
    if world.is_ok() && !place.destination.cluster.surveyed(SURVEYED_WITHIN).await {
        let server = place.destination.cluster.server();
        return Err(format!("not all kinds of the cluster {server} are listed yet"));
    }
    let world = match world {
        Ok(_) => observe::world(memory, application, place, &rendered, &tracking).await,
        Err(trouble) => Err(trouble),
    };
    world.map_err(|trouble| trouble.message())
}

fn without_state(application: &Value) -> Value {
    serde_json::json!({"spec": application["spec"]})
}

struct Finalizer<'a> {
    ctx: &'a Context,
    application: &'a Value,
    place: &'a Destination,
    world: &'a ClusterState,
    tracking: &'a Tracking,
    uid: &'a str,
}

impl Finalizer<'_> {
    fn owner(&self) -> Owner<'_> {
        let control_plane_namespace = &self.ctx.settings.control_plane_namespace;
        Owner { tracking: self.tracking, control_plane_namespace, uid: self.uid }
    }

    /// Live objects that go with the Application: its own, owned by nothing,
    /// permitted by the project, and no hooks that follow their deletion.
    fn managed(&self) -> BTreeMap<ResourceKey, Arc<Value>> {
        let permits = self.place.permits();
        let managed = self.world.live.iter().filter(|(key, live)| {
            let owned = live["metadata"]["ownerReferences"]
                .as_array()
                .is_some_and(|owners| !owners.is_empty());
            let follows = deletion::is_of(HookType::PostDelete, live)
                && delete_hooks::is_made_by(self.application, live);
            self.tracking.owns(live)
                && self.tracking.is_self_referenced(live, key)
                && !owned
                && permits.denial(key, live).is_none()
                && !follows
        });
        managed.map(|(key, live)| (key.clone(), live.clone())).collect()
    }

    /// Lets go of hooks that are going already: the sync that would have done
    /// so does not come any more.
    async fn release(&self, live: &BTreeMap<ResourceKey, Arc<Value>>) -> Result<(), String> {
        let held = live.iter().filter(|(_, live)| {
            live["metadata"]["deletionTimestamp"].is_string()
                && names::finalizers(live).any(|own| own == names::HOOK_FINALIZER)
        });
        let held: Vec<ResourceKey> = held.map(|(key, _)| key.clone()).collect();
        self.delete(&held, live, Propagation::Foreground).await
    }

    async fn delete(
        &self,
        keys: &[ResourceKey],
        live: &BTreeMap<ResourceKey, Arc<Value>>,
        propagation: Propagation,
    ) -> Result<(), String> {
        let mut work: Vec<BoxFuture<'_, Result<(), String>>> = Vec::new();
        for key in keys {
            if let Some(object) = live.get(key) {
                work.push(self.delete_one(key, object, propagation).boxed());
            }
        }
        let parallel = self.ctx.settings.parallel_applies.max(1);
        let done: Vec<Result<(), String>> =
            futures::stream::iter(work).buffered(parallel).collect().await;
        done.into_iter().collect()
    }

    async fn delete_one(
        &self,
        key: &ResourceKey,
        object: &Value,
        propagation: Propagation,
    ) -> Result<(), String> {
        let cluster = &self.place.destination.cluster;
        let resource = match cluster.resource(&kind_of(object), true).await {
            Ok(Some((resource, _))) => resource,
            Ok(None) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        // A hook may be held by its own finalizer.
        if names::finalizers(object).any(|own| own == names::HOOK_FINALIZER) {
            delete::remove_finalizer(cluster, &resource, key, uid).await;
        }
        if object["metadata"]["deletionTimestamp"].is_string() {
            return Ok(());
        }
        match delete::delete(cluster, &resource, key, uid, propagation).await {
            Happened::Done { .. } | Happened::Gone => Ok(()),
            Happened::Failed(words) | Happened::Unknown(words) => {
                Err(format!("cannot delete {key}: {words}"))
            }
        }
    }

    /// One step of delete hooks; `None` when all are over.
    async fn hooks(&self, type_: HookType, memory: &mut Memory) -> Result<Option<Step>, String> {
        let hooks = DeleteHook::all(type_, self.application, &self.world.placed.targets);
        let about = delete_hooks::Circumstances {
            owner: self.owner(),
            permits: self.place.permits(),
            project: &self.place.project_name,
            hurry: names::refresh(self.application).is_some(),
            now: self.ctx.now(),
        };
        let live = &self.world.live;
        match delete_hooks::next(&hooks, live, &about) {
            Next::Done => {
                memory.delete_tries.clear();
                memory.delete_made.clear();
                Ok(None)
            }
            Next::Wait { reason, again } => {
                let keep = again || !memory.delete_tries.is_empty();
                Ok(Some(Step::Wait { reason, keep }))
            }
            Next::Create(hooks) => {
                for hook in &hooks {
                    let mut attempt = memory.delete_tries.get(&hook.key).copied().unwrap_or(0);
                    let made = memory.delete_made.get(&hook.key);
                    let due = made.and_then(|at| at.checked_add(delete_hooks::pause(attempt)).ok());
                    if let Some(due) = due {
                        if due > about.now {
                            let message =
                                format!("hook {} was deleted before it was over", hook.key);
                            return Ok(Some(Step::Stuck { message, next: Some(due) }));
                        }
                        attempt = attempt.saturating_add(1);
                        memory.delete_tries.insert(hook.key.clone(), attempt);
                    }
                    self.create(hook, attempt).await?;
                    memory.delete_made.insert(hook.key.clone(), self.ctx.now());
                }
                let reason = format!("waiting for {} {} hooks", hooks.len(), type_.as_str());
                Ok(Some(Step::Wait { reason, keep: !memory.delete_tries.is_empty() }))
            }
            Next::Remove(former) => {
                self.delete(&former, live, Propagation::Foreground).await?;
                let reason = format!("waiting for deletion of {} former hooks", former.len());
                Ok(Some(Step::Wait { reason, keep: !memory.delete_tries.is_empty() }))
            }
            Next::Refused(message) => Ok(Some(Step::Stuck { message, next: None })),
            Next::Failed { message, due, next } => {
                let keys: Vec<ResourceKey> = due.iter().map(|(key, _)| key.clone()).collect();
                memory.delete_tries.extend(due);
                memory.delete_made.retain(|key, _| !keys.contains(key));
                self.delete(&keys, live, Propagation::Foreground).await?;
                Ok(Some(Step::Stuck { message, next }))
            }
        }
    }

    async fn create(&self, hook: &DeleteHook, attempt: u64) -> Result<(), String> {
        let applier = Applier {
            cluster: &self.place.destination.cluster,
            manager: &self.ctx.settings.field_manager,
            former_manager: "",
            owner: self.owner(),
        };
        let task = TaskKey { phase: SyncPhase::PostSync, resource: hook.key.clone() };
        let method = Method { how: How::Create, force: false, validate: true, migrate: false };
        let stamp = Some(hook.stamp(attempt));
        let manifest = hook.manifest(attempt);
        let apply = Apply { task, manifest, method, stamp, wait_established: false };
        match applier.apply(&apply, None, false, false).await {
            Happened::Done { .. } | Happened::Gone => Ok(()),
            Happened::Failed(words) | Happened::Unknown(words) => {
                Err(format!("cannot create hook {}: {words}", hook.key))
            }
        }
    }
}
