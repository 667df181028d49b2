//! The inputs of a comparison, and one compared resource.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::predicted::Predicted;
use crate::targets::PlacedTarget;
use wavegate_api::resource_key::ResourceKey;
use wavegate_api::tracking::Tracking;
use wavegate_api::{AppProjectSpec, ApplicationSpec};
use wavegate_engine::diff::{self, SyncStatus};
use wavegate_engine::health::{Checks, Health};
use wavegate_engine::sync::{Handover, ObjectClass};

/// The input of a comparison.
#[derive(Clone, Copy)]
pub struct ComparisonFacts<'a> {
    /// The Application as it is stored.
    pub application: &'a Value,
    /// Its spec.
    pub spec: &'a ApplicationSpec,
    /// How its resources are tracked.
    pub tracking: &'a Tracking,
    /// The default namespace of instance names.
    pub control_plane_namespace: &'a str,
    /// Which kinds have a health.
    pub checks: &'a Checks,
    /// The targets.
    pub targets: &'a [PlacedTarget],
    /// The live objects: everything tracked by the instance, and every object
    /// that a target names, regardless of its owner. A failed read must end the
    /// reconcile earlier.
    pub live: &'a BTreeMap<ResourceKey, Arc<Value>>,
    /// The permissions of the project.
    pub project: &'a AppProjectSpec,
    /// URL and name of the destination cluster.
    pub cluster: (&'a str, &'a str),
    /// The ignore rules.
    pub config: &'a diff::DiffConfig,
    /// What the server predicts; only used if the rules say so.
    pub predicted: &'a Predicted,
    /// Which of them other Applications have in their sources, or may have.
    pub handovers: &'a BTreeMap<ResourceKey, Handover>,
    /// Whether `managedNamespaceMetadata` differs from what the last sync
    /// applied.
    pub namespace_metadata_changed: bool,
}

/// One resource: target and live object.
#[derive(Clone, Debug)]
pub struct ComparedResource {
    /// Its key.
    pub key: ResourceKey,
    /// Its API version, that of the target if there is one.
    pub version: String,
    /// The target; `None` for an extraneous object.
    pub target: Option<Arc<Value>>,
    /// The live object.
    pub live: Option<Arc<Value>>,
    /// Its role in a sync.
    pub class: ObjectClass,
    /// Whether applying would change the live object.
    pub modified: bool,
    /// Whether it could be compared: then `modified` means something (SE-146).
    pub is_comparable: bool,
    /// What the server predicts that it would be after an apply, if it was asked.
    pub predicted: Option<Arc<Value>>,
    /// The health of its live object.
    pub health: Option<Health>,
    /// Whether its tracking id names this object (SE-116).
    pub self_referenced: bool,
    /// Whether the project permits its kind (SE-146).
    pub permitted: bool,
    /// The namespace whose metadata the Application manages (SE-144).
    pub managed_namespace: bool,
}

impl ComparedResource {
    /// Whether it has a hook annotation.
    pub fn is_hook(&self) -> bool {
        matches!(self.class, ObjectClass::Hook(_) | ObjectClass::DeleteHook | ObjectClass::Ignored)
    }

    pub(crate) fn sync(&self) -> diff::ResourceState<'_> {
        diff::ResourceState {
            hook: self.is_hook() || self.class == ObjectClass::Skipped,
            self_referenced: self.self_referenced,
            permitted: self.permitted,
            managed_namespace: self.managed_namespace,
            ..diff::ResourceState::new(
                self.target.as_deref(),
                self.live.as_deref(),
                Some(self.modified).filter(|_| self.is_comparable),
            )
        }
    }

    /// Its sync status; `None` for what has none (SE-145).
    pub fn status(&self) -> Option<SyncStatus> {
        self.sync().status()
    }

    /// Whether it is no longer in the source (SE-149).
    pub fn requires_pruning(&self) -> bool {
        self.sync().requires_pruning()
    }
}
