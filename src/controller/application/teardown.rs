//! Deletion of an Application: hooks, its resources, its finalizers
//! (SE-510 … SE-521).

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::context::{Context, Draft, Memory};
use super::error::Error;
use super::observe::{self, Place, Trouble, World};
use super::queue::{Asked, Key};
use crate::act::apply::Applier;
use crate::act::delete;
use crate::api::ResourceKey;
use crate::api::annotations as names;
use crate::api::hooks::HookType;
use crate::decide::compare::condition::{Condition, OF_DELETION};
use crate::decide::compare::deletion::{self, Cascade, Hooks};
use crate::decide::compare::{operation, project, status, targets};
use crate::decide::sync::{Apply, Happened, How, Method, Propagation, SyncPhase, TaskKey};
use crate::watch::live::kind_of;

/// A deletion is looked at again after this time even if nothing happens.
const AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// Goes on with a deletion. Gives back when to look again; the draft holds
/// the finalizers that are left and what went wrong.
pub async fn tear_down(
    ctx: &Context,
    key: &Key,
    memory: &mut Memory,
    draft: &mut Draft,
    asked: Asked,
) -> Result<Option<Timestamp>, Error> {
    if names::finalizers(&draft.wanted).next().is_none() {
        return Ok(None);
    }
    let step = advance(ctx, key, memory, draft, asked).await;
    let now = ctx.now();
    let (problems, again) = match step {
        Ok(Step::Done) => (Vec::new(), None),
        Ok(Step::Wait(reason)) => {
            tracing::info!(application = %key, %reason, "deletion");
            (Vec::new(), Some(now + AGAIN))
        }
        Err(message) => {
            tracing::warn!(application = %key, error = %message, "deletion failed");
            let type_ = crate::api::conditions::application::DELETION_ERROR;
            (vec![Condition::new(type_, message)], Some(now + AGAIN))
        }
    };
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
    Done,
    Wait(String),
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
    key: &Key,
    memory: &mut Memory,
    draft: &mut Draft,
    asked: Asked,
) -> Result<Step, String> {
    let place = match place(ctx, key, &draft.wanted).await? {
        Some(place) => place,
        None => {
            // There is nothing that could be reached any more.
            remove(draft, &[CASCADE.as_slice(), HOOKS.as_slice()].concat());
            return Ok(Step::Done);
        }
    };
    let world = world(ctx, key, memory, &draft.wanted, &place, asked).await?;
    let tearing = Tearing { ctx, place: &place, world: &world };
    if has(draft, names::PRE_DELETE_FINALIZER) {
        if let Some(reason) = tearing.hooks(HookType::PreDelete).await? {
            return Ok(Step::Wait(reason));
        }
        remove(draft, &[names::PRE_DELETE_FINALIZER]);
    }
    if let Some(cascade) = names::cascade(&draft.wanted) {
        let propagation = match cascade {
            names::Cascade::Foreground => Propagation::Foreground,
            names::Cascade::Background => Propagation::Background,
        };
        let managed = tearing.managed(ctx, key);
        match deletion::cascade(&draft.wanted, &managed) {
            Cascade::Wait(reason) => return Ok(Step::Wait(reason)),
            Cascade::Delete(keys) => {
                tearing.delete(&keys, &managed, propagation).await?;
                let count = keys.len();
                return Ok(Step::Wait(format!("waiting for deletion of {count} resources")));
            }
            Cascade::Done => remove(draft, &CASCADE),
        }
    }
    if has(draft, names::POST_DELETE_FINALIZER) {
        if let Some(reason) = tearing.hooks(HookType::PostDelete).await? {
            return Ok(Step::Wait(reason));
        }
        remove(draft, &[names::POST_DELETE_FINALIZER]);
    }
    let cleanups = [
        (names::PRE_DELETE_CLEANUP_FINALIZER, HookType::PreDelete),
        (names::POST_DELETE_CLEANUP_FINALIZER, HookType::PostDelete),
    ];
    for (finalizer, kind) in cleanups {
        if !has(draft, finalizer) {
            continue;
        }
        let gone = deletion::clean_up(kind, &world.placed.targets, &world.live);
        if !gone.is_empty() {
            tearing.delete(&gone, &world.live, Propagation::Foreground).await?;
            return Ok(Step::Wait(format!("cleaning up {} hooks", kind.as_str())));
        }
        remove(draft, &[finalizer]);
    }
    Ok(Step::Done)
}

/// Where the Application goes; `None` when that cluster is not known any more.
async fn place(ctx: &Context, key: &Key, application: &Value) -> Result<Option<Place>, String> {
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
    key: &Key,
    memory: &mut Memory,
    application: &Value,
    place: &Place,
    asked: Asked,
) -> Result<World, String> {
    let needs_hooks = names::finalizers(application).any(|own| HOOKS.contains(&own));
    let tracking = ctx.tracking(key);
    let rendered = match needs_hooks {
        true => {
            let sources = place.spec.sources();
            let known = operation::given(&application["status"]["sync"]);
            let fresh = asked.at.elapsed();
            let loaded = async {
                let revisions = observe::revisions(ctx, key, sources, &known, fresh).await?;
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

struct Tearing<'a> {
    ctx: &'a Context,
    place: &'a Place,
    world: &'a World,
}

impl Tearing<'_> {
    /// Live objects that go with the Application: its own, owned by nothing,
    /// permitted by the project, and no delete hooks.
    fn managed(&self, ctx: &Context, key: &Key) -> BTreeMap<ResourceKey, Arc<Value>> {
        let tracking = ctx.tracking(key);
        let project = &self.place.project.spec;
        let destination = &self.place.destination;
        let managed = self.world.live.iter().filter(|(key, live)| {
            let ResourceKey { group, kind, namespace, name } = key;
            let namespaced = !namespace.is_empty();
            let owned = live["metadata"]["ownerReferences"]
                .as_array()
                .is_some_and(|owners| !owners.is_empty());
            let permitted = project::permits_kind(project, group, kind, name, namespaced)
                && (!namespaced
                    || project::permits_destination(
                        project,
                        &destination.server,
                        &destination.name,
                        namespace,
                    ));
            tracking.owns(live)
                && tracking.is_self_referenced(live, key)
                && !owned
                && permitted
                && !deletion::is_of(HookType::PostDelete, live)
        });
        managed.map(|(key, live)| (key.clone(), live.clone())).collect()
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
        match delete::delete(cluster, &resource, key, uid, propagation).await {
            Happened::Done { .. } | Happened::Gone => Ok(()),
            Happened::Failed(words) | Happened::Unknown(words) => {
                Err(format!("cannot delete {key}: {words}"))
            }
        }
    }

    /// One step of delete hooks; the reason to wait, or `None` when all are over.
    async fn hooks(&self, kind: HookType) -> Result<Option<String>, String> {
        match deletion::hooks(kind, &self.world.placed.targets, &self.world.live) {
            Hooks::Done => Ok(None),
            Hooks::Wait(reason) => Ok(Some(reason)),
            Hooks::Create(hooks) => {
                let count = hooks.len();
                for hook in &hooks {
                    self.create(hook).await?;
                }
                Ok(Some(format!("waiting for {count} {} hooks", kind.as_str())))
            }
            Hooks::Failed(keys, message) => {
                self.delete(&keys, &self.world.live, Propagation::Foreground).await?;
                Err(message)
            }
        }
    }

    async fn create(&self, hook: &targets::Target) -> Result<(), String> {
        let applier = Applier {
            cluster: &self.place.destination.cluster,
            manager: &self.ctx.settings.field_manager,
            former_manager: "",
        };
        let task = TaskKey { phase: SyncPhase::PostSync, resource: hook.key.clone() };
        let method = Method { how: How::Create, force: false, validate: true, migrate: false };
        let manifest = hook.object.clone();
        let apply = Apply { task, manifest, method, stamp: None, wait_established: false };
        match applier.apply(&apply, None, false, false).await {
            Happened::Done { .. } | Happened::Gone => Ok(()),
            // It is there already.
            Happened::Failed(words) if words.contains("already exists") => Ok(()),
            Happened::Failed(words) | Happened::Unknown(words) => {
                Err(format!("cannot create hook {}: {words}", hook.key))
            }
        }
    }
}
