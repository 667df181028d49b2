//! Why nothing of a set is promoted (ST-020).

use crate::rollout::cut::cut;
use crate::rollout::steering::Steering;

/// Why the set is paused (ST-020).
pub(super) fn paused(steering: &Steering<'_>) -> Option<String> {
    if let Some(reason) = steering.paused {
        let reason = if reason.is_empty() { "no reason given" } else { reason };
        return Some(format!("paused: {}: {}", cut(reason), steering.command("resume")));
    }
    let (policy, why) = steering.rules.paused.first()?;
    let edit = format!("kubectl -n {} edit rolloutpolicy {policy}", steering.namespace);
    Some(format!("paused by policy {policy}: {}: {edit}", cut(why)))
}
