//! Which objects are hooks, when they run and when they go (SE-180 … SE-185).

use std::collections::BTreeSet;

use serde_json::Value;

use super::annotations::{
    HELM_HOOK, HELM_HOOK_DELETE_POLICY, HOOK, HOOK_DELETE_POLICY, annotation, items,
};
use super::operation::SyncPhase;

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookType {
    /// Before anything is applied.
    PreSync,
    /// While resources are applied.
    Sync,
    /// After everything is applied and healthy.
    PostSync,
    /// After a failure.
    SyncFail,
    /// Before the Application's resources are deleted.
    PreDelete,
    /// After they are deleted.
    PostDelete,
}

impl HookType {
    /// The type as annotations and results spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PreSync => "PreSync",
            Self::Sync => "Sync",
            Self::PostSync => "PostSync",
            Self::SyncFail => "SyncFail",
            Self::PreDelete => "PreDelete",
            Self::PostDelete => "PostDelete",
        }
    }

    /// The phase of a sync that runs it; `None` for deletion hooks (SE-520).
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

/// What an object is to a sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// An ordinary resource.
    Resource,
    /// A hook of these types, in the order written; never empty.
    Hook(Vec<HookType>),
    /// `Skip` and nothing else: no task at all (SE-190).
    Skip,
    /// Meant as a hook, but of no type that is known here: never applied,
    /// never out of sync (SE-183).
    Ignored,
}

impl Role {
    /// Whether the object is a hook, of a known type or not. A hook is no
    /// ordinary resource and is never pruned as one.
    pub const fn is_hook(&self) -> bool {
        matches!(self, Self::Hook(_) | Self::Ignored)
    }
}

/// What a raw object is to a sync, by its annotations.
pub fn role(object: &Value) -> Role {
    let mut skip = false;
    let mut types = Vec::new();
    for item in items(object, HOOK) {
        match item {
            "PreSync" => types.push(HookType::PreSync),
            "Sync" => types.push(HookType::Sync),
            "PostSync" => types.push(HookType::PostSync),
            "SyncFail" => types.push(HookType::SyncFail),
            "PreDelete" => types.push(HookType::PreDelete),
            "PostDelete" => types.push(HookType::PostDelete),
            "Skip" => skip = true,
            _ => {}
        }
    }
    if !types.is_empty() {
        return Role::Hook(types);
    }
    if skip {
        return Role::Skip;
    }
    let is_argo_hook = annotation(object, HOOK).is_some();
    match annotation(object, HELM_HOOK) {
        None if is_argo_hook => Role::Ignored,
        None => Role::Resource,
        Some("crd-install") if !is_argo_hook => Role::Resource,
        Some(_) => {
            for item in items(object, HELM_HOOK) {
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

/// When a hook's object is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeletePolicy {
    /// Before the hook is created again.
    BeforeHookCreation,
    /// After it failed.
    HookFailed,
    /// After it succeeded.
    HookSucceeded,
}

/// When a hook's object is deleted (SE-185): ours and Helm's annotation
/// together; before it is created again when neither says anything known.
pub fn delete_policies(object: &Value) -> BTreeSet<DeletePolicy> {
    let ours = items(object, HOOK_DELETE_POLICY).into_iter().filter_map(|item| match item {
        "BeforeHookCreation" => Some(DeletePolicy::BeforeHookCreation),
        "HookFailed" => Some(DeletePolicy::HookFailed),
        "HookSucceeded" => Some(DeletePolicy::HookSucceeded),
        _ => None,
    });
    let helms = items(object, HELM_HOOK_DELETE_POLICY).into_iter().filter_map(|item| match item {
        "before-hook-creation" => Some(DeletePolicy::BeforeHookCreation),
        "hook-failed" => Some(DeletePolicy::HookFailed),
        "hook-succeeded" => Some(DeletePolicy::HookSucceeded),
        _ => None,
    });
    let mut policies: BTreeSet<DeletePolicy> = ours.chain(helms).collect();
    if policies.is_empty() {
        policies.insert(DeletePolicy::BeforeHookCreation);
    }
    policies
}
