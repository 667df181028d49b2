//! Hook annotations: which objects are hooks, when they run and when they are deleted
//! (SE-180 … SE-185).

use std::collections::BTreeSet;

use serde_json::Value;

use super::annotations::{
    HELM_HOOK, HELM_HOOK_DELETE_POLICY, HOOK, HOOK_DELETE_POLICY, SYNC_WAVE, annotation_items,
    annotation_of,
};
use super::operation::SyncPhase;

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookType {
    /// Before the resources are applied.
    PreSync,
    /// Together with the resources.
    Sync,
    /// After all resources are applied and healthy.
    PostSync,
    /// After the sync failed.
    SyncFail,
    /// Before the Application's resources are deleted.
    PreDelete,
    /// After they are deleted.
    PostDelete,
}

impl HookType {
    /// The hook type as written in annotations and results.
    pub fn as_str(self) -> &'static str {
        ROLES.iter().find(|(_, type_)| *type_ == Some(self)).map_or("", |(word, _)| word)
    }

    /// The sync phase that runs the hook; `None` for deletion hooks (SE-520).
    pub const fn phase(self) -> Option<SyncPhase> {
        match self {
            Self::PreSync => Some(SyncPhase::PreSync),
            Self::Sync => Some(SyncPhase::Sync),
            Self::PostSync => Some(SyncPhase::PostSync),
            Self::SyncFail => Some(SyncPhase::SyncFail),
            Self::PreDelete | Self::PostDelete => None,
        }
    }
}

/// Role of an object in a sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// An ordinary resource.
    Resource,
    /// A hook of these types, in the order written; never empty.
    Hook(Vec<HookType>),
    /// Only `Skip`: the object has no task (SE-190).
    Skip,
    /// A hook without a supported type: never applied and never out of sync (SE-183).
    Ignored,
}

impl Role {
    /// Whether the object is a hook, of a supported type or not. A hook is never pruned
    /// as an ordinary resource.
    pub const fn is_hook(&self) -> bool {
        matches!(self, Self::Hook(_) | Self::Ignored)
    }
}

/// The words of the annotation of Argo CD for the role of an object; `Skip` is no type of a hook.
const ROLES: [(&str, Option<HookType>); 7] = [
    ("PreSync", Some(HookType::PreSync)),
    ("Sync", Some(HookType::Sync)),
    ("PostSync", Some(HookType::PostSync)),
    ("SyncFail", Some(HookType::SyncFail)),
    ("PreDelete", Some(HookType::PreDelete)),
    ("PostDelete", Some(HookType::PostDelete)),
    ("Skip", None),
];

/// The words of the annotations of Argo CD and of Helm for deletion policies.
const POLICIES: [(&str, &str, DeletePolicy); 3] = [
    ("BeforeHookCreation", "before-hook-creation", DeletePolicy::BeforeHookCreation),
    ("HookFailed", "hook-failed", DeletePolicy::HookFailed),
    ("HookSucceeded", "hook-succeeded", DeletePolicy::HookSucceeded),
];

/// A part of an annotation that has no effect (SE-183, SE-185, SE-186).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithoutEffect<'a> {
    /// The annotation.
    pub annotation: &'static str,
    /// The part.
    pub part: &'a str,
    /// What has an effect.
    pub instead: String,
}

/// What the annotations of Argo CD about hooks and waves say and means nothing, in an object that is
/// not [`Role::Ignored`]. Those of Helm are of charts that others write, and know more words.
pub fn without_effect(object: &Value) -> Vec<WithoutEffect<'_>> {
    let unknown = |annotation: &'static str, known: Vec<&str>| {
        let instead = known.join(", ");
        let mut parts = annotation_items(object, annotation);
        parts.retain(|part| !known.contains(part));
        parts.into_iter().map(move |part| WithoutEffect {
            annotation,
            part,
            instead: instead.clone(),
        })
    };
    let wave = annotation_of(object, SYNC_WAVE).filter(|text| text.parse::<i64>().is_err());
    let wave = wave.map(|part| WithoutEffect {
        annotation: SYNC_WAVE,
        part,
        instead: "a whole number without spaces".to_owned(),
    });
    let roles = unknown(HOOK, ROLES.map(|(word, _)| word).to_vec());
    let policies = unknown(HOOK_DELETE_POLICY, POLICIES.map(|(word, _, _)| word).to_vec());
    roles.chain(policies).chain(wave).collect()
}

/// Role of a raw object in a sync, from its annotations.
pub fn hook_role(object: &Value) -> Role {
    let items = annotation_items(object, HOOK);
    let type_of = |item: &&str| ROLES.iter().find(|(word, _)| word == item)?.1;
    let mut types: Vec<HookType> = items.iter().filter_map(type_of).collect();
    if !types.is_empty() {
        return Role::Hook(types);
    }
    if items.contains(&"Skip") {
        return Role::Skip;
    }
    let is_argo_hook = annotation_of(object, HOOK).is_some();
    match annotation_of(object, HELM_HOOK) {
        None if is_argo_hook => Role::Ignored,
        None => Role::Resource,
        Some("crd-install") if !is_argo_hook => Role::Resource,
        Some(_) => {
            for item in annotation_items(object, HELM_HOOK) {
                let type_ = match item {
                    "pre-install" | "pre-upgrade" => HookType::PreSync,
                    "post-install" | "post-upgrade" => HookType::PostSync,
                    "pre-delete" => HookType::PreDelete,
                    "post-delete" => HookType::PostDelete,
                    _ => continue,
                };
                if !types.contains(&type_) {
                    types.push(type_);
                }
            }
            if types.is_empty() { Role::Ignored } else { Role::Hook(types) }
        }
    }
}

/// When the resource of a hook is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeletePolicy {
    /// Before the hook is created again.
    BeforeHookCreation,
    /// After the hook failed.
    HookFailed,
    /// After the hook succeeded.
    HookSucceeded,
}

/// Deletion policies of a hook (SE-185), from Argo CD's and Helm's annotations together;
/// `BeforeHookCreation` when neither has a supported value.
pub fn delete_policies(object: &Value) -> BTreeSet<DeletePolicy> {
    let ours = annotation_items(object, HOOK_DELETE_POLICY);
    let helms = annotation_items(object, HELM_HOOK_DELETE_POLICY);
    let named = POLICIES.iter().filter(|(our, helm, _)| ours.contains(our) || helms.contains(helm));
    let mut policies: BTreeSet<DeletePolicy> = named.map(|(_, _, policy)| *policy).collect();
    if policies.is_empty() {
        policies.insert(DeletePolicy::BeforeHookCreation);
    }
    policies
}
