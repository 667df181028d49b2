//! Which ApplicationSets a policy selects (ST-001).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::api::Raw;
use crate::desired::selector::Selector;

/// Whether a policy selects a set.
///
/// # Errors
///
/// What is wrong with its selector.
pub fn selects(policy: &Value, set: &Value) -> Result<bool, String> {
    if policy.namespace() != set.namespace() {
        return Ok(false);
    }
    let selector = &policy["spec"]["applicationSets"];
    let names = selector.items("/names");
    if !names.is_empty() && !names.iter().any(|name| *name == set.name()) {
        return Ok(false);
    }
    let labels = json!({
        "matchLabels": selector["matchLabels"], "matchExpressions": selector["matchExpressions"],
    });
    let of_set = set.labels().into_iter().flatten();
    let of_set: BTreeMap<String, String> =
        of_set.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    Ok(Selector::read_of_labels(&labels)?.selects(&of_set))
}
