//! Sync options: `Key=Value` strings, case-sensitive (SE-300).

use serde_json::Value;

use super::annotations::{SYNC_OPTIONS, annotation_items};

/// `Prune=false`, on an operation or an object (SE-312).
pub const PRUNE_FALSE: &str = "Prune=false";
/// `Prune=confirm` (SE-313).
pub const PRUNE_CONFIRM: &str = "Prune=confirm";
/// Disables schema validation (SE-310).
pub const VALIDATE_FALSE: &str = "Validate=false";
/// A missing resource type does not fail the dry run (SE-311).
pub const SKIP_DRY_RUN_ON_MISSING_RESOURCE: &str = "SkipDryRunOnMissingResource=true";
/// Prunes after all other resources are healthy (SE-316).
pub const PRUNE_LAST: &str = "PruneLast=true";
/// Skips resources that are in sync (SE-318).
pub const APPLY_OUT_OF_SYNC_ONLY: &str = "ApplyOutOfSyncOnly=true";
/// Replaces instead of applying (SE-319).
pub const REPLACE: &str = "Replace=true";
/// Deletes and recreates resources that cannot be updated in place (SE-320).
pub const FORCE: &str = "Force=true";
/// Uses server-side apply (SE-321).
pub const SERVER_SIDE_APPLY: &str = "ServerSideApply=true";
/// Disables server-side apply, whatever the operation sets (SE-321).
pub const SERVER_SIDE_APPLY_FALSE: &str = "ServerSideApply=false";
/// Disables the migration of fields from client-side apply (SE-322).
pub const CLIENT_SIDE_APPLY_MIGRATION_FALSE: &str = "ClientSideApplyMigration=false";
/// Fails the sync when a resource belongs to another Application (SE-323).
pub const FAIL_ON_SHARED_RESOURCE: &str = "FailOnSharedResource=true";
/// Keeps ignored fields of live resources unchanged (SE-324).
pub const RESPECT_IGNORE_DIFFERENCES: &str = "RespectIgnoreDifferences=true";
/// Creates the destination namespace (SE-325).
pub const CREATE_NAMESPACE: &str = "CreateNamespace=true";

/// A list of options, in the order written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncOptions(Vec<String>);

impl SyncOptions {
    /// Options of an operation or a spec, unchanged (SE-019).
    pub fn from_list<S: AsRef<str>>(options: impl IntoIterator<Item = S>) -> Self {
        Self(options.into_iter().map(|option| option.as_ref().to_owned()).collect())
    }

    /// Options in the sync-options annotation of a raw object.
    pub fn of_object(object: &Value) -> Self {
        Self::from_list(annotation_items(object, SYNC_OPTIONS))
    }

    /// Whether the option is present; case-sensitive.
    pub fn has(&self, option: &str) -> bool {
        self.0.iter().any(|own| own == option)
    }

    /// The value of the first option with this key (SE-019).
    pub fn value(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find_map(|option| option.split_once('=').filter(|(own, _)| *own == key))
            .map(|(_, value)| value)
    }
}
