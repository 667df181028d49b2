//! Sync status of a resource, and of an Application (SE-145 … SE-149).

use serde_json::Value;

use super::config::compare_options;
pub use wavegate_api::SyncStatusCode as SyncStatus;

/// The facts that determine the sync status of a resource.
#[derive(Clone, Copy, Debug)]
pub struct ResourceState<'a> {
    /// The target object.
    pub target: Option<&'a Value>,
    /// The live object.
    pub live: Option<&'a Value>,
    /// Whether they differ; `None` when they could not be compared.
    pub modified: Option<bool>,
    /// A hook, an object ignored for its hook annotation, or skip-only: has no sync status.
    pub hook: bool,
    /// Whether the live object belongs to this Application (SE-116); otherwise the
    /// resource has no sync status.
    pub self_referenced: bool,
    /// Whether the project permits the kind.
    pub permitted: bool,
    /// The managed namespace (SE-144).
    pub managed_namespace: bool,
}

impl<'a> ResourceState<'a> {
    /// A plain, permitted resource of the Application.
    pub fn new(target: Option<&'a Value>, live: Option<&'a Value>, modified: Option<bool>) -> Self {
        Self {
            target,
            live,
            modified,
            hook: false,
            self_referenced: true,
            permitted: true,
            managed_namespace: false,
        }
    }

    /// The resource's sync status (SE-145, SE-146), if it has one.
    pub fn status(&self) -> Option<SyncStatus> {
        let compared = self.compared()?;
        Some(if self.permitted { compared } else { SyncStatus::Unknown })
    }

    /// What the comparison says, whether the kind is permitted or not.
    fn compared(&self) -> Option<SyncStatus> {
        if self.hook || !self.self_referenced {
            return None;
        }
        Some(match (self.target, self.live, self.modified) {
            // It is created by the sync itself.
            (Some(_), None, _) if self.managed_namespace => SyncStatus::Synced,
            // It is not in the source, but its metadata is in the spec.
            (None, Some(_), Some(false)) if self.managed_namespace => SyncStatus::Synced,
            (Some(_), None, _) | (None, Some(_), _) => SyncStatus::OutOfSync,
            (None, None, _) => SyncStatus::Synced,
            (Some(_), Some(_), Some(true)) => SyncStatus::OutOfSync,
            (Some(_), Some(_), Some(false)) => SyncStatus::Synced,
            (Some(_), Some(_), None) => SyncStatus::Unknown,
        })
    }

    /// Whether the resource is no longer in the source and would be pruned (SE-149).
    /// Never for a hook, and never for a managed namespace (SE-144).
    pub fn requires_pruning(&self) -> bool {
        self.target.is_none()
            && self.live.is_some()
            && self.self_referenced
            && !self.hook
            && !self.managed_namespace
    }

    /// The sync status for the Application (SE-147): a resource that is only in the
    /// cluster, with the option to ignore it, does not count. One of a kind that is not
    /// permitted counts as what it is, or an Application whose sync is refused was Synced.
    fn counted(&self) -> Option<SyncStatus> {
        let extraneous = self.target.is_none()
            && self.live.is_some_and(|live| {
                compare_options(live).any(|option| option == "IgnoreExtraneous")
            });
        if extraneous { None } else { self.compared() }
    }
}

/// The facts that determine the sync status of an Application besides its resources.
#[derive(Clone, Copy, Debug, Default)]
pub struct SyncStatusInput {
    /// Targets or live objects could not be loaded, or the comparison failed.
    pub failed: bool,
    /// `managedNamespaceMetadata` differs from what the last sync applied.
    pub namespace_metadata_changed: bool,
}

/// The Application's sync status (SE-146 … SE-148).
pub fn of_application<'a>(
    resources: impl IntoIterator<Item = &'a ResourceState<'a>>,
    circumstances: SyncStatusInput,
) -> SyncStatus {
    if circumstances.failed {
        return SyncStatus::Unknown;
    }
    let worst = resources
        .into_iter()
        .filter_map(ResourceState::counted)
        .max()
        .unwrap_or(SyncStatus::Synced);
    if circumstances.namespace_metadata_changed { worst.max(SyncStatus::OutOfSync) } else { worst }
}
