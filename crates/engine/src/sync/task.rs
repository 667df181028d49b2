//! One task in its slot: its target, live object and state.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::hooks::{self, OPERATION_ANNOTATION};
use super::plan::TaskKey;
use super::snapshot::LiveObject;
use wavegate_api::Raw;
use wavegate_api::annotations::HOOK_FINALIZER;
use wavegate_api::hooks::DeletePolicy;
use wavegate_api::operation::{OperationPhase, SyncPhase};
use wavegate_api::raw::object_at;

/// One task, rebuilt in each reconcile from target and live object.
#[derive(Clone, Debug, Default)]
pub(super) struct Task<'a> {
    pub key: TaskKey,
    pub version: String,
    pub wave: i64,
    pub hook: bool,
    pub policies: BTreeSet<DeletePolicy>,
    /// `None`: the object is to be pruned.
    pub target: Option<Arc<Value>>,
    pub live: Option<&'a LiveObject>,
    /// Whether the object is created with a server-chosen name.
    pub nameless: bool,
    /// Whether each sync deletes the object and creates it again (`Replace` with `Force`).
    pub recreated: bool,
    /// Identifies an object as created by this task; see `hooks::stamp`.
    pub stamp: String,
    /// Whether the hook gets the finalizer.
    pub finalizer: bool,
    pub skip_dry_run: bool,
    /// Why the task must not run, and its state (SE-206).
    pub invalid: Option<(OperationPhase, String)>,
    /// `None` is pending; the rest is read from the stored result.
    pub state: Option<OperationPhase>,
}

impl<'a> Task<'a> {
    pub fn is_pending(&self) -> bool {
        self.state.is_none()
    }

    pub fn is_running(&self) -> bool {
        self.state == Some(OperationPhase::Running)
    }

    pub fn is_completed(&self) -> bool {
        self.state.is_some_and(OperationPhase::is_completed)
    }

    pub fn has_failed(&self) -> bool {
        self.is_completed() && self.state != Some(OperationPhase::Succeeded)
    }

    pub fn is_prune(&self) -> bool {
        self.target.is_none()
    }

    pub fn is_sync_fail(&self) -> bool {
        self.key.phase == SyncPhase::SyncFail
    }

    pub fn slot(&self) -> (SyncPhase, i64) {
        (self.key.phase, self.wave)
    }

    pub fn has_policy(&self, policy: DeletePolicy) -> bool {
        self.policies.contains(&policy)
    }

    pub fn live_view(&self) -> Option<&'a Value> {
        self.live.map(|live| live.object.as_ref())
    }

    /// Whether it is about the Application of this operation.
    pub fn is_itself(&self) -> bool {
        self.live.is_some_and(|live| live.is_itself)
    }

    /// Whether it would apply the Application of this operation, which is being deleted.
    pub fn is_leaving_itself(&self) -> bool {
        let goes = self.live_view().is_some_and(Raw::is_deleting);
        self.is_itself() && goes && self.is_pending() && self.target.is_some()
    }

    /// Whether this task has created the live object: this operation, this
    /// attempt, this phase.
    pub fn is_created(&self) -> bool {
        let live = self.live.and_then(|live| hooks::stamp_of(&live.object));
        live == Some(self.stamp.as_str())
    }

    /// Whether the live object may belong to another task of the same
    /// operation: a hook of two phases has one name, and the completed phase
    /// must not change it.
    pub fn is_foreign(&self, operation: &str) -> bool {
        let live = self.live.is_some_and(|live| hooks::is_stamped_by(&live.object, operation));
        live && !self.is_created()
    }

    /// Why this hook must not delete or replace the live object; `None` when it
    /// may, or when there is no object.
    pub fn objection(&self) -> Option<&'a str> {
        let live = self.live.filter(|_| self.hook && !self.is_created())?;
        live.objection.as_deref()
    }

    /// The object that prevents this hook from being created: one that this
    /// task has not created, and that must not be changed by an apply.
    pub fn obstacle(&self) -> Option<&'a Value> {
        let live = self.live_view()?;
        let in_the_way = self.has_policy(DeletePolicy::BeforeHookCreation) || live.is_deleting();
        (self.hook && !self.is_created() && in_the_way).then_some(live)
    }

    /// The manifest to send: the target with its final name and namespace, the
    /// stamp if it must not be created twice, and the finalizer of hooks
    /// (SE-193..SE-195). The manifest of the source is not changed.
    pub fn manifest(&self) -> Option<Arc<Value>> {
        let target = self.target.as_ref()?;
        let namespace = self.key.resource.namespace.as_str();
        let named = self.nameless || target.name() == self.key.resource.name;
        let placed = namespace.is_empty() || target.namespace() == namespace;
        if named && placed && !self.needs_stamp() {
            return Some(target.clone());
        }
        let mut manifest = target.as_ref().clone();
        let metadata = object_at(manifest.as_object_mut()?, "metadata")?;
        if !self.nameless {
            metadata.insert("name".into(), self.key.resource.name.clone().into());
        }
        if !namespace.is_empty() {
            metadata.insert("namespace".into(), namespace.into());
        }
        if self.hook && self.finalizer {
            let finalizers = metadata.entry("finalizers").or_insert_with(|| Value::Array(vec![]));
            match finalizers.as_array_mut() {
                Some(list) if list.iter().any(|item| item == HOOK_FINALIZER) => {}
                Some(list) => list.push(HOOK_FINALIZER.into()),
                None => *finalizers = Value::Array(vec![HOOK_FINALIZER.into()]),
            }
        }
        if self.needs_stamp() {
            let annotations = object_at(metadata, "annotations")?;
            annotations.insert(OPERATION_ANNOTATION.into(), self.stamp.clone().into());
        }
        Some(Arc::new(manifest))
    }

    /// Whether its object must not be created twice: only the stamp says that it was.
    pub fn needs_stamp(&self) -> bool {
        self.hook || self.nameless || self.recreated
    }
}
