//! Why nothing of a set is promoted (ST-020).

use crate::rollout::cut::cut;
use crate::rollout::run_input::RunInput;

/// Why the set is paused (ST-020).
pub(super) fn paused(input: &RunInput<'_>) -> Option<String> {
    if let Some(reason) = input.paused {
        let reason = if reason.is_empty() { "no reason given" } else { reason };
        return Some(format!("paused: {}: {}", cut(reason), input.command("resume")));
    }
    let (policy, why) = input.rules.paused.first()?;
    let edit = format!("kubectl -n {} edit rolloutpolicy {policy}", input.namespace);
    Some(format!("paused by policy {policy}: {}: {edit}", cut(why)))
}
