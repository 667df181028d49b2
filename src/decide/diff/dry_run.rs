//! Compares live objects with the server's dry-run result (SE-158).
//!
//! The result of a dry run contains defaults, conversions, and changes of webhooks. The
//! latter are not in the source, so only differences in fields that our manager owns,
//! before or after, are considered.

use serde_json::{Map, Value};

use super::config::{Config, compare_options};
use super::fields::Owners;
use super::{Comparison, Strategy, changes, fill, ignore, mask, settle};

/// Compares live with the result of a dry run of our server-side apply.
///
/// `predicted` is that result, `live` the object as read just before, both with their
/// managed fields. Ignore rules are applied here, after the dry run, so that they do not
/// affect the request. Changes of webhooks are considered if `include_mutation_webhook`,
/// or the same option on the object, is set.
pub fn compare_dry_run(predicted: &Value, live: &Value, config: &Config) -> Comparison {
    let (mut wanted, mut found) = (predicted.clone(), live.clone());
    settle(&mut wanted, config);
    settle(&mut found, config);
    let mut skipped =
        ignore::remove_ignored(Some(&mut wanted), Some(&mut found), Some(live), config);
    fill(&mut wanted, config);
    fill(&mut found, config);
    let webhooks = config.include_mutation_webhook
        || compare_options(predicted).any(|option| option == "IncludeMutationWebhook=true");
    if !webhooks {
        let mine = |object| Owners::of(object, &config.manager).and_then(|owners| owners.mine);
        let trees = [mine(predicted), mine(live)].into_iter().flatten().collect();
        let owners = Owners { mine: None, others: trees };
        wanted = owned_changes(&found, &wanted, &owners);
    }
    let modified = wanted != found;
    if mask::is_secret(live) || mask::is_secret(predicted) {
        mask::mask(&mut [&mut found, &mut wanted]);
        skipped.mismatched.iter_mut().for_each(|words| *words = mask::rule(words));
    }
    let changes = changes::changes(&found, &wanted);
    Comparison {
        modified,
        predicted: wanted,
        live: found,
        changes,
        strategy: Strategy::ServerSide,
        skipped_rules: skipped.mismatched,
        exhausted_rules: skipped.exhausted,
    }
}

/// Live with only the changes in owned fields. Ownership before and after are two trees
/// in `owners.others`.
fn owned_changes(live: &Value, wanted: &Value, owners: &Owners<'_>) -> Value {
    if live == wanted || owners.others.is_empty() {
        return live.clone();
    }
    let below = owners.others.iter().any(|tree| !super::fields::is_leaf(tree));
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) if below => {
            let mut merged = Map::new();
            for key in live.keys().chain(wanted.keys()) {
                let owners = owners.field(key);
                let owned = !owners.others.is_empty();
                let value = match (live.get(key), wanted.get(key)) {
                    (Some(live), Some(wanted)) => Some(owned_changes(live, wanted, &owners)),
                    (None, Some(wanted)) => owned.then(|| wanted.clone()),
                    (Some(live), None) => (!owned).then(|| live.clone()),
                    (None, None) => None,
                };
                if let Some(value) = value {
                    merged.insert(key.clone(), value);
                }
            }
            Value::Object(merged)
        }
        (Value::Array(live), Value::Array(wanted)) if below => {
            Value::Array(owned_elements(live, wanted, owners))
        }
        _ => wanted.clone(),
    }
}

/// The elements of a keyed list or a set: those of live, without owned elements that are
/// removed, and with owned elements that are new.
fn owned_elements(live: &[Value], wanted: &[Value], owners: &Owners<'_>) -> Vec<Value> {
    let of = |element: &Value| {
        if element.is_object() { owners.element(element) } else { owners.member(element) }
    };
    let keys = owners.list_keys().unwrap_or_default();
    let same = |one: &Value, other: &Value| {
        if one.is_object() && !keys.is_empty() {
            keys.iter().all(|key| one.get(key) == other.get(key))
        } else {
            one == other
        }
    };
    let mut merged = Vec::new();
    for found in live {
        let owned = of(found);
        match wanted.iter().find(|wanted| same(found, wanted)) {
            Some(wanted) => merged.push(owned_changes(found, wanted, &owned)),
            None if owned.others.is_empty() => merged.push(found.clone()),
            None => {}
        }
    }
    let is_new = |element: &&Value| !live.iter().any(|found| same(found, element));
    let new = wanted.iter().filter(is_new).filter(|element| !of(element).others.is_empty());
    merged.extend(new.cloned());
    merged
}
