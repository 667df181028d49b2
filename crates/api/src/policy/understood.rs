//! Policies of which every guard is understood.

use serde_json::Value;

use super::{RolloutPolicySpec, policy_spec};
use crate::read::ReadError;
use crate::unknown;

/// Reads the `spec` of a policy that holds rollouts; an absent one says nothing.
///
/// A field that is not known, below gates, failures, pace or deletions, or beside them, is a
/// guard that a later version or a typo wrote: without it, more would be promoted than its author
/// permits. Definitions that are closed refuse it; an open one keeps it. Notifications hold
/// nothing, so that theirs do not count.
///
/// # Errors
///
/// As [`policy_spec`], and the first field that is not known.
pub fn understood_policy_spec(policy: &Value) -> Result<RolloutPolicySpec, ReadError> {
    let spec = policy_spec(policy)?;
    let mut unknown = unknown::in_policy(policy).into_iter();
    let is_guard = |path: &str| path.starts_with("spec.") && !path.starts_with("spec.notify");
    match unknown.find(|field| is_guard(&field.path)) {
        Some(field) => {
            let reason = field.to_string();
            let reason = reason.strip_prefix(&format!("{}: ", field.path)).unwrap_or(&reason);
            let reason = format!("{reason}; remove it, or use the version that knows it");
            Err(ReadError { path: field.path, reason })
        }
        None => Ok(spec),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_guard_that_is_not_known_is_an_error() {
        let error = |spec: Value| {
            let read = understood_policy_spec(&json!({"spec": spec}));
            read.err().map(|error| error.path)
        };
        let gate = |more: Value| {
            let mut gate = json!({"name": "g", "steps": [1]});
            gate.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"gates": [gate]})
        };
        for (spec, want) in [
            (json!({}), None),
            (gate(json!({"soak": "10m"})), None),
            (gate(json!({"dreams": {"until": "dawn"}})), Some("spec.gates[0].dreams")),
            (gate(json!({"soaks": "10m"})), Some("spec.gates[0].soaks")),
            (json!({"gatez": []}), Some("spec.gatez")),
            (json!({"pace": {"maxInFlightt": 1}}), Some("spec.pace.maxInFlightt")),
            (json!({"notify": [{"url": "https://a", "colour": "red"}]}), None),
        ] {
            assert_eq!(error(spec.clone()).as_deref(), want, "{spec}");
        }
    }
}
