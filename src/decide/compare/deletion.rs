//! What goes with a deleted Application, and in which order (SE-510 … SE-519).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::targets::Target;
use crate::api::annotations::{deletion_approved, is_kept_by_helm, sync_wave};
use crate::api::hooks::{HookType, Role, role};
use crate::api::resource_key::ResourceKey;
use crate::api::sync_options::SyncOptions;
use crate::api::time::from_rfc3339;
use crate::decide::health::{self, Status};

/// What the cascade does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cascade {
    /// Nothing is left that goes with it.
    Done,
    /// Something is under way or needs a person; the text names it.
    Wait(String),
    /// These go now; all of one wave.
    Delete(Vec<ResourceKey>),
}

/// Decides the next step of a cascade over the managed live objects (SE-514).
pub fn cascade(application: &Value, managed: &BTreeMap<ResourceKey, Arc<Value>>) -> Cascade {
    let spec = &application["spec"]["syncPolicy"]["syncOptions"];
    let spec =
        SyncOptions::from_list(spec.as_array().into_iter().flatten().filter_map(Value::as_str));
    let going = managed.iter().find(|(_, live)| live["metadata"]["deletionTimestamp"].is_string());
    if let Some((key, live)) = going {
        let finalizers = crate::api::annotations::finalizers(live).collect::<Vec<_>>().join(", ");
        let held =
            if finalizers.is_empty() { String::new() } else { format!(", held by {finalizers}") };
        return Cascade::Wait(format!("waiting for deletion of {key}{held}"));
    }
    let own = &application["metadata"];
    let option = |live: &Value| {
        let resource = SyncOptions::of_object(live);
        resource.value("Delete").or(spec.value("Delete")).map(str::to_owned)
    };
    let deletable: Vec<(&ResourceKey, &Arc<Value>)> = (managed.iter())
        .filter(|(key, live)| {
            let itself = key.kind == "Application"
                && key.group == crate::api::GROUP
                && own["name"] == *key.name
                && own["namespace"] == *key.namespace;
            let definition = key.kind == "CustomResourceDefinition";
            let kept = option(live).as_deref() == Some("false") || is_kept_by_helm(live);
            !itself && !definition && !kept
        })
        .collect();
    let deleted_at = own["deletionTimestamp"].as_str().and_then(from_rfc3339);
    let approved = deletion_approved(application)
        .is_some_and(|approved| deleted_at.is_none_or(|deleted| approved >= deleted));
    let unconfirmed = deletable.iter().find(|(_, live)| option(live).as_deref() == Some("confirm"));
    if let Some((key, _)) = unconfirmed.filter(|_| !approved) {
        return Cascade::Wait(format!("waiting for approval of the deletion of {key}"));
    }
    let Some(wave) = deletable.iter().map(|(_, live)| sync_wave(live)).max() else {
        return Cascade::Done;
    };
    let keys = deletable.into_iter().filter(|(_, live)| sync_wave(live) == wave);
    Cascade::Delete(keys.map(|(key, _)| key.clone()).collect())
}

/// What delete hooks need next (SE-517).
#[derive(Clone, Debug)]
pub enum Hooks {
    /// None is left to wait for.
    Done,
    /// These have to be created; all of one wave.
    Create(Vec<Target>),
    /// These are under way; the text names them.
    Wait(String),
    /// These failed: they go, to be created again, and the text is the error.
    Failed(Vec<ResourceKey>, String),
}

/// Decides the next step of the hooks of one type, wave by wave.
pub fn hooks(
    kind: HookType,
    targets: &[Target],
    live: &BTreeMap<ResourceKey, Arc<Value>>,
) -> Hooks {
    let own: Vec<&Target> = targets.iter().filter(|target| is_of(kind, &target.object)).collect();
    let mut waves: BTreeMap<i32, Vec<&Target>> = BTreeMap::new();
    for target in own {
        waves.entry(sync_wave(&target.object)).or_default().push(target);
    }
    for hooks in waves.into_values() {
        let missing: Vec<Target> = (hooks.iter())
            .filter(|target| !live.contains_key(&target.key))
            .map(|target| (*target).clone())
            .collect();
        if !missing.is_empty() {
            return Hooks::Create(missing);
        }
        let (mut waiting, mut failed) = (Vec::new(), Vec::new());
        for target in hooks {
            let Some(object) = live.get(&target.key) else { continue };
            match health::of(object).map(|health| health.status) {
                Some(Status::Progressing | Status::Suspended) => waiting.push(&target.key),
                Some(Status::Degraded | Status::Unknown) => failed.push(target.key.clone()),
                Some(Status::Healthy | Status::Missing) | None => {}
            }
        }
        if let Some(first) = waiting.first() {
            return Hooks::Wait(format!("waiting for completion of hook {first}"));
        }
        if !failed.is_empty() {
            let names: Vec<String> =
                failed.iter().map(|key| format!("{}/{}", key.namespace, key.name)).collect();
            let message = format!("{} hook(s) failed: {}", kind.as_str(), names.join(", "));
            return Hooks::Failed(failed, message);
        }
    }
    Hooks::Done
}

/// Whether an object is a hook of this type.
pub fn is_of(kind: HookType, object: &Value) -> bool {
    matches!(role(object), Role::Hook(types) if types.contains(&kind))
}

/// Finalizers that an Application needs for the delete hooks of its source
/// (SE-511): the list as it should be; `None` when it is so already.
pub fn hook_finalizers(application: &Value, targets: &[Target]) -> Option<Vec<String>> {
    use crate::api::annotations as names;
    let old: Vec<String> = names::finalizers(application).map(str::to_owned).collect();
    let mut new = old.clone();
    let pairs = [
        (HookType::PreDelete, [names::PRE_DELETE_FINALIZER, names::PRE_DELETE_CLEANUP_FINALIZER]),
        (
            HookType::PostDelete,
            [names::POST_DELETE_FINALIZER, names::POST_DELETE_CLEANUP_FINALIZER],
        ),
    ];
    for (kind, finalizers) in pairs {
        let declared = targets.iter().any(|target| is_of(kind, &target.object));
        for finalizer in finalizers {
            match (declared, new.iter().position(|own| own == finalizer)) {
                (true, None) => new.push(finalizer.to_owned()),
                (false, Some(at)) => {
                    new.remove(at);
                }
                _ => {}
            }
        }
    }
    (new != old).then_some(new)
}

/// Hooks of one type that their policy removes once all are over (SE-519).
pub fn clean_up(
    kind: HookType,
    targets: &[Target],
    live: &BTreeMap<ResourceKey, Arc<Value>>,
) -> Vec<ResourceKey> {
    use crate::api::hooks::{DeletePolicy, delete_policies};
    let present: Vec<(&Target, &Arc<Value>)> = (targets.iter())
        .filter(|target| is_of(kind, &target.object))
        .filter_map(|target| Some((target, live.get(&target.key)?)))
        .collect();
    let worst = (present.iter())
        .filter_map(|(_, live)| health::of(live))
        .fold(Status::Healthy, |worst, health| worst.worst(health.status));
    let gone = present.into_iter().filter(|(target, _)| {
        let policies = delete_policies(&target.object);
        (worst == Status::Degraded && policies.contains(&DeletePolicy::HookFailed))
            || (worst == Status::Healthy && policies.contains(&DeletePolicy::HookSucceeded))
    });
    gone.map(|(target, _)| target.key.clone()).collect()
}

/// When a deletion was asked for; absent when it was not.
pub fn asked_at(application: &Value) -> Option<Timestamp> {
    application["metadata"]["deletionTimestamp"].as_str().and_then(from_rfc3339)
}
