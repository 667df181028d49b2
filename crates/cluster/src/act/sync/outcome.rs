//! Outcome of a request: applied, not found, rejected, or unknown.

use serde_json::Value;

use crate::watch::failure::{error_reason, is_unknown};
use wavegate_api::Raw;
use wavegate_api::resource_key::ResourceKey;
use wavegate_engine::sync::{self, ActionResult};

/// A failed request as an outcome for the sync engine.
pub fn failed_outcome(error: &kube::Error) -> ActionResult {
    if is_unknown(error) {
        ActionResult::Unknown(error_reason(error))
    } else {
        ActionResult::Failed(error_reason(error))
    }
}

/// The outcome of an action that may have been applied or not.
pub fn unknown_outcome(why: impl std::fmt::Display) -> ActionResult {
    ActionResult::Unknown(why.to_string())
}

/// A successful request, with a message as in kubectl (SE-341).
pub fn done_outcome(key: &ResourceKey, verb: &str, object: &Value, dry_run: bool) -> ActionResult {
    let (uid, resource_version) = match dry_run {
        true => Default::default(),
        false => (object.uid().to_owned(), object.resource_version().to_owned()),
    };
    // Where the server has chosen the name, no object has that of the key.
    let chosen = object.name();
    let named = (!dry_run && !chosen.is_empty() && chosen != key.name)
        .then(|| ResourceKey { name: chosen.to_owned(), ..key.clone() });
    let message = message(named.as_ref().unwrap_or(key), verb, dry_run);
    ActionResult::Done { message, uid, resource_version }
}

/// `deployment.apps/web configured`; an object that is updated as a whole, in the words of
/// SE-350: `Namespace/web updated`.
fn message(key: &ResourceKey, verb: &str, dry_run: bool) -> String {
    let suffix = if dry_run { " (dry run)" } else { "" };
    if verb == "updated" {
        return format!("{}/{} {verb}{suffix}", key.kind, key.name);
    }
    format!("{}{suffix}", sync::as_by_kubectl(key, verb))
}
