//! Resources that are no longer in the source and are not pruned.

use serde_json::Value;

use wavegate_api::Raw;

/// The status of a resource that stays OutOfSync, since nothing prunes it.
pub(super) const REQUIRES_PRUNING: &str = "RequiresPruning";

/// The status of a resource whose deletion has to be confirmed.
pub(super) const REQUIRES_CONFIRMATION: &str = "RequiresConfirmation";

/// The start of the message of an operation that waits for this.
pub const WAITS_FOR_CONFIRMATION: &str = "waiting for pruning confirmation of ";

/// The start of its description.
pub(super) const NOT_IN_SOURCE: &str = "is not in the source any more, and";

/// The reason of a resource whose deletion has to be confirmed.
pub(super) const TO_CONFIRM: &str = "its deletion has to be confirmed";

/// The reason of a resource that its own sync option keeps.
const BY_OPTION: &str = "its sync option Prune=false keeps it";

/// The reason of a resource that a sync without prune left, where others do prune: the next
/// one that is not by hand may be about to.
pub(super) const BY_LAST_SYNC: &str = "the last sync did not prune it";

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
        Some(("PruneSkipped", _)) if is_enabled => Some(BY_LAST_SYNC),
        Some(("Pruned", _)) if operation["operation"]["sync"]["dryRun"] != true => None,
        Some(_) | None => (!is_enabled).then_some("pruning is not enabled"),
    }
}

/// Whether its own sync option keeps it, also from a sync with prune.
pub(super) fn is_by_option(why: &str) -> bool {
    why == BY_OPTION
}

/// Whether an operation waits until a person confirms its deletions.
pub(super) fn is_unconfirmed(status: &Value) -> bool {
    status.text("/operationState/message").starts_with(WAITS_FOR_CONFIRMATION)
}

/// Whether both name the same object.
pub(super) fn same_resource(one: &Value, other: &Value) -> bool {
    let fields = ["group", "kind", "namespace", "name"];
    fields.iter().all(|field| one.field(field) == other.field(field))
}
