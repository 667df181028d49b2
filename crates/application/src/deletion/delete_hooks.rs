//! Hooks that run when an Application is deleted (SE-511, SE-517 … SE-519).
//!
//! A hook of a deletion is identified by its stamp: the Application, the time
//! of its deletion, the type and the index in the source. An object of the same
//! name from a sync has another stamp.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use crate::deletion::{asked_at, is_of};
use crate::operation::uid_of;
use crate::owner::DeletionOwner;
use crate::project::Permits;
use crate::targets::PlacedTarget;
use wavegate_api::annotations::{annotation_of, sync_wave};
use wavegate_api::hooks::{DeletePolicy, HookType, delete_policies};
use wavegate_api::{Raw, ResourceKey};
use wavegate_engine::health::{Checks, Status};
use wavegate_engine::sync::{
    ApplyMethod, ApplyRequest, Method, OPERATION_ANNOTATION, generated_name, operation_id,
    operation_stamp,
};

/// The delay between two attempts of a failing hook; doubles up to the second
/// value, with a jitter of up to a fifth.
const PAUSE: (SignedDuration, SignedDuration) =
    (SignedDuration::from_secs(10), SignedDuration::from_mins(5));

/// One hook of one deletion.
#[derive(Clone, Debug)]
pub struct DeleteHook {
    /// Its key; a generated name is filled in.
    pub key: ResourceKey,
    type_: HookType,
    deletion: String,
    position: Option<usize>,
    target: Arc<Value>,
}

impl DeleteHook {
    /// The hooks of one type among the targets of a deleted Application.
    pub fn all(type_: HookType, application: &Value, targets: &[PlacedTarget]) -> Vec<Self> {
        let at = asked_at(application).unwrap_or_default();
        let deletion = deletion_id(application);
        let mut nameless = 0;
        let mut all = Vec::new();
        for target in targets {
            let mut key = target.key.clone();
            let position = key.name.is_empty().then(|| {
                nameless += 1;
                nameless - 1
            });
            if !is_of(type_, &target.object) {
                continue;
            }
            if let Some(position) = position {
                let prefix = target.object.generate_name();
                let words = format!("{}-{}", type_.as_str(), at.as_second());
                let identity = format!("{deletion}/{}/{position}", type_.as_str());
                key.name = generated_name(prefix, &words, &identity);
            }
            let (deletion, target) = (deletion.clone(), target.object.clone());
            all.push(Self { key, type_, deletion, position, target });
        }
        all
    }

    /// The stamp of the attempt, counted from 0, that creates it.
    pub fn stamp(&self, attempt: u64) -> String {
        operation_stamp(&self.deletion, attempt, self.type_.as_str(), self.position)
    }

    /// The object to create.
    pub fn manifest(&self, attempt: u64) -> Arc<Value> {
        let mut manifest = self.target.as_ref().clone();
        if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("name".to_owned(), self.key.name.clone().into());
            let entry = metadata.entry("annotations").or_insert_with(|| Map::new().into());
            if !entry.is_object() {
                *entry = Map::new().into();
            }
            entry[OPERATION_ANNOTATION] = self.stamp(attempt).into();
        }
        Arc::new(manifest)
    }

    /// The request that creates it.
    pub fn request(&self, attempt: u64) -> ApplyRequest {
        ApplyRequest {
            key: self.key.clone(),
            manifest: self.manifest(attempt),
            method: Method {
                how: ApplyMethod::Create,
                force: false,
                validate: true,
                migrate: false,
            },
            stamp: Some(self.stamp(attempt)),
            wait_established: false,
        }
    }

    /// The attempt of this hook that created a live object; `None` for another
    /// object.
    fn attempt(&self, live: &Value) -> Option<u64> {
        let stamp = annotation_of(live, OPERATION_ANNOTATION)?;
        let attempt = stamp.split('/').nth(1)?.parse().ok()?;
        (self.stamp(attempt) == stamp).then_some(attempt)
    }

    fn shown(&self) -> String {
        let ResourceKey { kind, namespace, name, .. } = &self.key;
        match namespace.as_str() {
            "" => format!("{kind} {name}"),
            namespace => format!("{kind} {namespace}/{name}"),
        }
    }
}

fn deletion_id(application: &Value) -> String {
    operation_id(&uid_of(application), asked_at(application).unwrap_or_default(), "delete")
}

/// Whether the deletion of an Application has created a live object as a hook.
pub fn is_made_by(application: &Value, live: &Value) -> bool {
    let rest = annotation_of(live, OPERATION_ANNOTATION)
        .and_then(|stamp| stamp.strip_prefix(deletion_id(application).as_str()));
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// The input of the next step, besides hooks and live objects.
#[derive(Clone, Copy, Debug)]
pub struct HookStepInput<'a> {
    /// The Application.
    pub owner: DeletionOwner<'a>,
    /// The permissions of its project.
    pub permits: Permits<'a>,
    /// Name of the project.
    pub project: &'a str,
    /// Which kinds have a health.
    pub checks: &'a Checks,
    /// Whether failed hooks run again without a delay, since a refresh was
    /// requested.
    pub hurry: bool,
    /// The time.
    pub now: Timestamp,
}

/// The next step of delete hooks (SE-517).
#[derive(Clone, Debug)]
pub enum NextHook {
    /// All hooks have completed.
    Done,
    /// These must be created; all of one wave.
    Create(Vec<DeleteHook>),
    /// These exist already from elsewhere and must be deleted first.
    Remove(Vec<ResourceKey>),
    /// A hook is running.
    Wait {
        /// Its key and state.
        reason: String,
        /// Whether it has failed before.
        again: bool,
    },
    /// None of them runs again without a change; the text describes the change.
    Refused(String),
    /// Some failed.
    Failed {
        /// The hooks, with their messages.
        message: String,
        /// Those to be deleted now and created again, with the number of the
        /// next attempt.
        due: Vec<(ResourceKey, u64)>,
        /// When the next of the others is retried.
        next: Option<Timestamp>,
    },
}

/// Decides the next step of the hooks of one type, wave by wave.
pub fn next_hook_step(
    hooks: &[DeleteHook],
    live: &BTreeMap<ResourceKey, Arc<Value>>,
    about: &HookStepInput<'_>,
) -> NextHook {
    let objections: Vec<String> =
        hooks.iter().filter_map(|hook| objection(hook, live, about)).collect();
    if !objections.is_empty() {
        return NextHook::Refused(objections.join("; "));
    }
    let mut waves: BTreeMap<i64, Vec<&DeleteHook>> = BTreeMap::new();
    for hook in hooks {
        waves.entry(sync_wave(&hook.target)).or_default().push(hook);
    }
    for wave in waves.into_values() {
        match next_of_wave(&wave, live, about) {
            NextHook::Done => {}
            other => return other,
        }
    }
    NextHook::Done
}

/// Why a hook must not run: the project, or an unrelated object of its name.
fn objection(
    hook: &DeleteHook,
    live: &BTreeMap<ResourceKey, Arc<Value>>,
    about: &HookStepInput<'_>,
) -> Option<String> {
    let type_ = hook.type_.as_str();
    if let Some(denial) = about.permits.denial(&hook.key, &hook.target) {
        let why = denial.message(&hook.key, about.project);
        return Some(format!("{type_} hook {}: {why}", hook.shown()));
    }
    let live = live.get(&hook.key).filter(|live| hook.attempt(live).is_none())?;
    about.owner.objection(&hook.key, live).map(|why| format!("{type_} {why}"))
}

fn next_of_wave(
    wave: &[&DeleteHook],
    live: &BTreeMap<ResourceKey, Arc<Value>>,
    about: &HookStepInput<'_>,
) -> NextHook {
    let (mut missing, mut former, mut leaving) = (Vec::new(), Vec::new(), Vec::new());
    let (mut waiting, mut failed) = (Vec::new(), Vec::new());
    for hook in wave {
        let Some(object) = live.get(&hook.key) else {
            missing.push((*hook).clone());
            continue;
        };
        let going = object.is_deleting();
        let Some(attempt) = hook.attempt(object) else {
            if going {
                leaving.push(hook)
            } else {
                former.push(hook.key.clone())
            }
            continue;
        };
        let health = about.checks.of(object);
        let message = health.as_ref().map(|health| health.message.clone()).unwrap_or_default();
        match health.map(|health| health.status) {
            _ if going => waiting.push((hook, attempt)),
            Some(Status::Progressing | Status::Suspended) => waiting.push((hook, attempt)),
            Some(Status::Degraded | Status::Unknown) => {
                failed.push((hook, attempt, object, message));
            }
            Some(Status::Healthy | Status::Missing) | None => {}
        }
    }
    if !former.is_empty() {
        return NextHook::Remove(former);
    }
    if let Some(hook) = leaving.first() {
        let reason = format!("waiting for deletion of the former hook {}", hook.key);
        return NextHook::Wait { reason, again: false };
    }
    if !missing.is_empty() {
        return NextHook::Create(missing);
    }
    if let Some((hook, attempt)) = waiting.first() {
        let reason = format!("waiting for completion of hook {}", hook.key);
        return NextHook::Wait { reason, again: *attempt > 0 };
    }
    let Some((first, ..)) = failed.first() else { return NextHook::Done };
    let named = failed.iter().map(|(hook, _, _, message)| {
        let ResourceKey { namespace, name, .. } = &hook.key;
        match message.is_empty() {
            true => format!("{namespace}/{name}"),
            false => format!("{namespace}/{name} ({message})"),
        }
    });
    let named: Vec<String> = named.collect();
    let message = format!("{} hook(s) failed: {}", first.type_.as_str(), named.join(", "));
    let (mut due, mut next) = (Vec::new(), None::<Timestamp>);
    for (hook, attempt, object, _) in failed {
        let at = due_at(object, attempt);
        if about.hurry || at.is_none_or(|at| at <= about.now) {
            due.push((hook.key.clone(), attempt.saturating_add(1)));
        } else {
            next = [next, at].into_iter().flatten().min();
        }
    }
    NextHook::Failed { message, due, next }
}

/// The shortest delay between two attempts.
pub fn retry_pause(attempt: u64) -> SignedDuration {
    let (first, longest) = PAUSE;
    first.checked_mul(1 << attempt.min(16)).unwrap_or(longest).min(longest)
}

/// When a failed hook runs again.
fn due_at(live: &Value, attempt: u64) -> Option<Timestamp> {
    let created = live.time("/metadata/creationTimestamp")?;
    let doubled = retry_pause(attempt);
    // The jitter is deterministic.
    let chance =
        live.uid().bytes().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let more = SignedDuration::from_millis(doubled.as_secs() * i64::from(chance % 200));
    created.checked_add(doubled).ok()?.checked_add(more).ok()
}

/// Hooks of one type whose policy deletes them once all have completed
/// (SE-519); with `all_succeeded`, also those that succeeded, whatever their policy.
pub fn clean_up(
    hooks: &[DeleteHook],
    live: &BTreeMap<ResourceKey, Arc<Value>>,
    checks: &Checks,
    all_succeeded: bool,
) -> Vec<ResourceKey> {
    let present: Vec<(&DeleteHook, &Arc<Value>)> = (hooks.iter())
        .filter_map(|hook| Some((hook, live.get(&hook.key)?)))
        .filter(|(hook, live)| hook.attempt(live).is_some())
        .collect();
    let worst = (present.iter())
        .filter_map(|(_, live)| checks.by_kind(live))
        .fold(Status::Healthy, |worst, health| worst.worst(health.status));
    let gone = present.into_iter().filter(|(hook, _)| {
        let policies = delete_policies(&hook.target);
        (worst == Status::Degraded && policies.contains(&DeletePolicy::HookFailed))
            || (worst == Status::Healthy
                && (all_succeeded || policies.contains(&DeletePolicy::HookSucceeded)))
    });
    gone.map(|(hook, _)| hook.key.clone()).collect()
}
