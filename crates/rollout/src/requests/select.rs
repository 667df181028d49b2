//! Which ApplicationSets a policy selects (ST-001), for the commands.

use serde::Deserialize;
use serde_json::Value;

use crate::application_set::generate::generated::labels_of;
use crate::rollout::policy::policy_selects;
use wavegate_api::Raw;
use wavegate_api::policy::SetSelector;

/// Whether a policy selects a set, as the controller decides it.
///
/// # Errors
///
/// What is wrong with its selector.
pub fn selects_set(policy: &Value, set: &Value) -> Result<bool, String> {
    if policy.namespace() != set.namespace() {
        return Ok(false);
    }
    let stored = policy.spec().get("applicationSets").unwrap_or(&Value::Null);
    let selector = Option::<SetSelector>::deserialize(stored).map_err(|error| error.to_string())?;
    policy_selects(&selector.unwrap_or_default(), set.name(), &labels_of(set))
}
