//! Resources that are no longer in the source and are not pruned.

use serde_json::Value;

use super::same_resource;
use crate::api::Raw;

/// The status of a resource that stays OutOfSync, since nothing prunes it.
pub(super) const REQUIRES_PRUNING: &str = "RequiresPruning";

/// The start of its description.
pub(super) const NOT_IN_SOURCE: &str = "is not in the source any more, and";

/// The reason of a resource that its own sync option keeps.
const BY_OPTION: &str = "its sync option Prune=false keeps it";

/// Why an OutOfSync resource is not pruned; `None` for one that is in the source, is
/// pruned, or will be.
pub(super) fn why(application: &Value, resource: &Value) -> Option<&'static str> {
    if resource["requiresPruning"] != true {
        return None;
    }
    let operation = &application["status"]["operationState"];
    let results = operation.items("/syncResult/resources");
    let result = results.iter().find(|result| same_resource(resource, result));
    // Also of a rollout, which disables automated sync and keeps this setting.
    let is_enabled = application["spec"]["syncPolicy"]["automated"]["prune"] == true;
    match result.map(|result| (result.field("status"), result.field("message"))) {
        Some(("PruneSkipped", message)) if message.contains("no prune") => Some(BY_OPTION),
        Some(("PruneSkipped", _)) if is_enabled => Some("the last sync did not prune it"),
        Some(("Pruned", _)) if operation["operation"]["sync"]["dryRun"] != true => None,
        Some(_) | None => (!is_enabled).then_some("pruning is not enabled"),
    }
}

/// Whether its own sync option keeps it, also from a sync with prune.
pub(super) fn is_by_option(why: &str) -> bool {
    why == BY_OPTION
}
