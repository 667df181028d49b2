//! Masks the values of a Secret in all states that leave the process (CA-350).

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use wavegate_api::annotations::LAST_APPLIED;
use wavegate_engine::diff;

/// The mask of the first distinct value; each further one is longer by [`LONGER`].
const FIRST: usize = 8;
const LONGER: usize = 4;

/// Masks a target and a live Secret, and the last-applied configuration in each. `annotations`
/// are those whose values are masked, too.
pub(super) fn secrets(
    target: Option<&Value>,
    live: Option<&Value>,
    annotations: &[String],
) -> (Option<Value>, Option<Value>) {
    let mut states = [target.cloned(), live.cloned()];
    let mut applied = [None, None];
    for (state, applied) in states.iter_mut().zip(&mut applied) {
        let Some(state) = state else { continue };
        fold(state);
        let Some(own) = state.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
        else {
            continue;
        };
        *applied = own.remove(LAST_APPLIED).map(|text| {
            let parsed = text.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
            let is_listed = annotations.iter().any(|name| name == LAST_APPLIED);
            let mut parsed = parsed.filter(|value| value.is_object() && !is_listed);
            if let Some(parsed) = &mut parsed {
                fold(parsed);
            }
            parsed
        });
    }
    let mut all: Vec<&mut Value> = states.iter_mut().flatten().collect();
    all.extend(applied.iter_mut().flatten().flatten());
    diff::mask_secrets(&mut all);
    listed(&mut all, annotations);
    for (state, applied) in states.iter_mut().zip(applied) {
        let (Some(state), Some(applied)) = (state, applied) else { continue };
        let text = applied.map_or_else(|| "+".repeat(FIRST), |applied| applied.to_string());
        state["metadata"]["annotations"][LAST_APPLIED] = text.into();
    }
    let [target, live] = states;
    (target, live)
}

/// Moves `stringData` into `data`, as the API server does.
fn fold(secret: &mut Value) {
    let Some(fields) = secret.as_object_mut() else { return };
    let Some(Value::Object(strings)) = fields.remove("stringData") else { return };
    let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
    if !data.is_object() {
        *data = Value::Object(Map::new());
    }
    for (key, value) in strings {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        data[key] = STANDARD.encode(text).into();
    }
}

/// Masks annotations by name: equal values alike.
fn listed(states: &mut [&mut Value], annotations: &[String]) {
    let mut seen: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for state in states {
        for name in annotations {
            let own = state.pointer_mut("/metadata/annotations");
            let Some(value) = own.and_then(|own| own.get_mut(name)) else { continue };
            let known = seen.entry(name).or_default();
            let at = known.iter().position(|one| one == value).unwrap_or_else(|| {
                known.push(value.clone());
                known.len() - 1
            });
            *value = "+".repeat(FIRST + LONGER * at).into();
        }
    }
}
