//! Resources that are no longer in the source and are not pruned.

use serde_json::Value;

use wavegate_api::app_view::{ResourceView, ResultView};
use wavegate_api::operation::RequestView;

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
/// pruned, or will be. `prunes`: whether automated sync does; `operation`: what was requested last,
/// and the `results` of that.
pub(super) fn why<'a>(
    resource: &ResourceView,
    prunes: bool,
    operation: &Value,
    results: impl Fn() -> &'a [ResultView],
) -> Option<&'static str> {
    if !resource.requires_pruning {
        return None;
    }
    let key = resource.key();
    let result = results().iter().find(|result| result.key() == key);
    let is_dry_run = || RequestView::of(operation).sync.is_some_and(|sync| sync.dry_run);
    match result.map(|result| (result.status.as_str(), result.message.as_str())) {
        Some(("PruneSkipped", message)) if message.contains("no prune") => Some(BY_OPTION),
        Some(("PruneSkipped", _)) if prunes => Some(BY_LAST_SYNC),
        Some(("Pruned", _)) if !is_dry_run() => None,
        Some(_) | None => (!prunes).then_some("pruning is not enabled"),
    }
}

/// Whether its own sync option keeps it, also from a sync with prune.
pub(super) fn is_by_option(why: &str) -> bool {
    why == BY_OPTION
}
