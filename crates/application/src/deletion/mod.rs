//! Cascading deletion of an Application: which objects, in which order (SE-510
//! … SE-519).

pub mod delete_hooks;
pub mod deletion_scope;
pub mod finalize;
pub mod left_hooks;
pub mod owner;
pub mod project_deletion;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::operation::is_itself;
use crate::targets::PlacedTarget;
use wavegate_api::annotations::{self as names, deletion_approved, is_kept_by_helm, sync_wave};
use wavegate_api::app_view::SpecView;
use wavegate_api::hooks::{HookType, Role, hook_role};
use wavegate_api::sync_options::SyncOptions;
use wavegate_api::time::to_rfc3339;
use wavegate_api::{Raw, ResourceKey};

/// How the reason of a deletion begins that somebody has to confirm (SE-315).
pub const WAITS_FOR_APPROVAL: &str = "waiting for approval of the deletion of ";

/// Finalizers that Kubernetes itself removes.
const OF_KUBERNETES: [&str; 7] = [
    "foregroundDeletion",
    "orphan",
    "kubernetes",
    "kubernetes.io/pvc-protection",
    "kubernetes.io/pv-protection",
    "batch.kubernetes.io/job-tracking",
    "service.kubernetes.io/load-balancer-cleanup",
];

/// Finalizers that this program or Argo CD removes, up to a `/` and what follows.
const OF_ARGO_CD: [&str; 3] =
    [names::RESOURCES_FINALIZER, names::PRE_DELETE_FINALIZER, names::POST_DELETE_FINALIZER];

/// How far the clock of a person may be ahead.
const AHEAD: SignedDuration = SignedDuration::from_mins(5);

/// When deletions were confirmed (SE-313, SE-315). A time far in the future would also confirm
/// deletions that are requested later, so it is ignored.
pub(crate) fn approved_at(application: &Value, now: Timestamp) -> Option<Timestamp> {
    let latest = now.checked_add(AHEAD).ok()?;
    deletion_approved(application).filter(|at| *at <= latest)
}

/// The next step of the cascade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CascadeStep {
    /// All objects are deleted.
    Done,
    /// A deletion is in progress; the text names the object.
    Wait(String),
    /// Somebody else has to do something first: to confirm a deletion, or to remove the
    /// finalizer of an object; the text says what.
    Held(String),
    /// Delete these now; all of one wave.
    Delete(Vec<ResourceKey>),
}

/// Decides the next step of a cascade over the managed live objects (SE-514).
pub fn decide_cascade(
    application: &Value,
    managed: &BTreeMap<ResourceKey, Arc<Value>>,
    now: Timestamp,
) -> CascadeStep {
    let spec = SpecView::of(application).sync_policy.sync_options;
    let spec = SyncOptions::from_list(spec.iter().map(String::as_str));
    // One that its own source contains is deleted by this deletion, and would wait for itself.
    let managed = || managed.iter().filter(|(key, live)| !is_itself(application, key, live));
    let held_by = |live: &Value| -> Vec<String> {
        let own = names::finalizers_of(live);
        own.filter(|own| is_of_somebody_else(own)).map(str::to_owned).collect()
    };
    let going =
        managed().filter(|(_, live)| live.is_deleting()).map(|(key, live)| (key, held_by(live)));
    let going: Vec<(&ResourceKey, Vec<String>)> = going.collect();
    if let Some((key, held)) = going.iter().find(|(_, held)| !held.is_empty()) {
        let held = held.join(", ");
        return CascadeStep::Held(format!("waiting for deletion of {key}, held by {held}"));
    }
    if let Some((key, _)) = going.first() {
        return CascadeStep::Wait(format!("waiting for deletion of {key}"));
    }
    let option = |live: &Value| {
        let resource = SyncOptions::of_object(live);
        resource.value("Delete").or(spec.value("Delete")).map(str::to_owned)
    };
    let deletable: Vec<(&ResourceKey, &Arc<Value>)> = managed()
        .filter(|(key, live)| {
            let definition = key.kind == "CustomResourceDefinition";
            let kept = option(live).as_deref() == Some("false") || is_kept_by_helm(live);
            !definition && !kept
        })
        .collect();
    let deleted_at = asked_at(application);
    let approved = approved_at(application, now)
        .is_some_and(|approved| deleted_at.is_none_or(|deleted| approved >= deleted));
    let unconfirmed = deletable.iter().find(|(_, live)| option(live).as_deref() == Some("confirm"));
    if let Some((key, _)) = unconfirmed.filter(|_| !approved) {
        let ahead = deletion_approved(application).filter(|at| *at > now);
        let why = ahead.map_or_else(String::new, |at| {
            format!(": annotation {} is ahead, at {}", names::DELETION_APPROVED, to_rfc3339(at))
        });
        return CascadeStep::Held(format!("{WAITS_FOR_APPROVAL}{key}{why}"));
    }
    let Some(wave) = deletable.iter().map(|(_, live)| sync_wave(live)).max() else {
        return CascadeStep::Done;
    };
    let keys = deletable.into_iter().filter(|(_, live)| sync_wave(live) == wave);
    CascadeStep::Delete(keys.map(|(key, _)| key.clone()).collect())
}

/// Whether somebody else has to remove this finalizer: nothing here goes on by itself then.
fn is_of_somebody_else(finalizer: &str) -> bool {
    let start = finalizer.split('/').next().unwrap_or_default();
    !OF_KUBERNETES.contains(&finalizer)
        && finalizer != names::HOOK_FINALIZER
        && !OF_ARGO_CD.contains(&start)
}

/// Whether an object is a hook of this type.
pub fn is_of(kind: HookType, object: &Value) -> bool {
    matches!(hook_role(object), Role::Hook(types) if types.contains(&kind))
}

/// The finalizers that an Application needs for the delete hooks of its source
/// (SE-511); `None` when they are unchanged.
pub fn hook_finalizers(old: &[String], targets: &[PlacedTarget]) -> Option<Vec<String>> {
    let mut new = old.to_vec();
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

/// When the deletion was requested; `None` if it was not.
pub fn asked_at(application: &Value) -> Option<Timestamp> {
    application.deletion_timestamp()
}
