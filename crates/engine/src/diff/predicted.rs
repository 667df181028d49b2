//! Comparing with what the server predicts: its answer to a dry run of a server-side apply of
//! the target (SE-158).
//!
//! ```text
//! answer ─ changes of fields that we own ─ normalise ─ remove ignored ─┐
//! live ─────────────────────────────────── normalise ─ remove ignored ─┴─ equal?
//! ```
//!
//! The answer contains what admission webhooks change, too. Unless these changes are to be seen,
//! only those of fields that we own are kept. Ignore rules apply to the answer, not to what was
//! sent.

use serde_json::{Map, Value};

use super::config::ServerSide;
use super::fields::{Owners, elements, is_leaf, keys_match};
use super::keys::{self, ListKind};
use super::{
    Comparison, DiffConfig, DiffStrategy, Values, difference, ignore, last_applied, settle,
    strategy,
};
use wavegate_api::kind::KindRef;

/// A target, its live object, and the answer of the server.
pub type Answered<'a> = (&'a Value, &'a Value, &'a Value);

/// Compares a live object with the answer to the dry run of applying its target.
pub fn compare_predicted(
    (target, live): (&Value, &Value),
    answer: &Value,
    config: &DiffConfig,
    how: ServerSide,
) -> Comparison {
    let (mut predicted, mut found) = sides((target, live, answer), config, how);
    let both = (Some(&predicted), Some(&found), Some(live));
    let ignored = ignore::ignored(&[both], config).pop().unwrap_or_default();
    let skipped = ignored.remove(Some(&mut predicted), Some(&mut found));
    compared((target, live), (predicted, found), skipped, config)
}

/// The same for several, whose ignore rules are evaluated together.
pub fn compare_all_predicted(
    all: &[Answered<'_>],
    config: &DiffConfig,
    how: ServerSide,
) -> Vec<Comparison> {
    let prepared: Vec<(Value, Value)> = all.iter().map(|one| sides(*one, config, how)).collect();
    let both: Vec<ignore::Sides<'_>> = (prepared.iter().zip(all))
        .map(|((predicted, found), (_, live, _))| (Some(predicted), Some(found), Some(*live)))
        .collect();
    let ignored = ignore::ignored(&both, config);
    let each = prepared.into_iter().zip(all).zip(ignored);
    each.map(|(((mut predicted, mut found), (target, live, _)), ignored)| {
        let skipped = ignored.remove(Some(&mut predicted), Some(&mut found));
        compared((target, live), (predicted, found), skipped, config)
    })
    .collect()
}

/// What live would become, and live, both normalized.
fn sides(
    (target, live, answer): Answered<'_>,
    config: &DiffConfig,
    how: ServerSide,
) -> (Value, Value) {
    let mut predicted = match how.with_webhooks {
        true => answer.clone(),
        false => ours(live, answer, &config.manager),
    };
    if strategy(Some(target), Some(live), config) == DiffStrategy::ThreeWay
        && let Some(original) = last_applied(live)
    {
        // A server-side apply does not remove what was applied client-side; the sync does.
        let kind = KindRef::of(target);
        drop_removed(kind, &mut predicted, &original, target, &mut Vec::new());
    }
    let mut found = live.clone();
    for side in [&mut predicted, &mut found] {
        settle(side, config);
    }
    (predicted, found)
}

/// The difference of both sides without what is ignored.
fn compared(
    (target, live): (&Value, &Value),
    sides: (Value, Value),
    skipped: ignore::Skipped,
    config: &DiffConfig,
) -> Comparison {
    let how = (DiffStrategy::ServerSide, Values::Plain);
    difference((Some(target), Some(live)), sides, skipped, how, config)
}

/// The answer with only the changes of fields that our manager owns, before or after.
fn ours(live: &Value, answer: &Value, manager: &str) -> Value {
    let mine = |object| Owners::of(object, manager).and_then(|owners| owners.mine);
    // A server that does not say who owns what: its answer is what it is.
    let Some(after) = mine(answer) else { return answer.clone() };
    let trees = Trees { before: mine(live), after: Some(after) };
    let mut kept = kept(Some(live), Some(answer), trees).unwrap_or_default();
    // Nobody owns these.
    for field in ["apiVersion", "kind"] {
        kept[field] = answer[field].clone();
    }
    kept
}

/// What we own at a path: by our last apply, and by that of the dry run.
#[derive(Clone, Copy, Default)]
struct Trees<'a> {
    before: Option<&'a Value>,
    after: Option<&'a Value>,
}

impl<'a> Trees<'a> {
    fn field(self, name: &str) -> Self {
        let key = format!("f:{name}");
        let down = |tree: Option<&'a Value>| tree.and_then(|tree| tree.get(&key));
        Self { before: down(self.before), after: down(self.after) }
    }

    fn element(self, element: &Value) -> Self {
        let member = format!("v:{element}");
        let down = |tree: Option<&'a Value>| {
            let tree = tree?;
            let keyed = elements(tree).find(|(keys, _)| keys_match(keys, element));
            keyed.map(|(_, below)| below).or_else(|| tree.get(&member))
        };
        Self { before: down(self.before), after: down(self.after) }
    }

    fn is_none(self) -> bool {
        self.before.is_none() && self.after.is_none()
    }

    /// The key fields of a list's elements.
    fn list_keys(self) -> Option<Vec<String>> {
        let trees = [self.after, self.before].into_iter().flatten();
        let first = trees.flat_map(elements).next();
        first.map(|(keys, _)| keys.into_iter().map(|(key, _)| key).collect())
    }
}

/// The value after our changes at a path; `None` when it does not exist then.
fn kept(live: Option<&Value>, answer: Option<&Value>, trees: Trees<'_>) -> Option<Value> {
    if live == answer || trees.is_none() {
        return live.cloned();
    }
    // Owned as one value, by the dry run or, when it is gone, before.
    if trees.after.or(trees.before).is_some_and(is_leaf) {
        return answer.cloned();
    }
    match (live, answer) {
        (Some(Value::Object(live)), Some(Value::Object(answer))) => {
            Some(Value::Object(objects(live, answer, trees)))
        }
        (Some(Value::Object(live)), None) => {
            let rest = objects(live, &Map::new(), trees);
            (!rest.is_empty()).then_some(Value::Object(rest))
        }
        (None, Some(Value::Object(answer))) => {
            Some(Value::Object(objects(&Map::new(), answer, trees)))
        }
        (Some(Value::Array(live)), Some(Value::Array(answer))) => {
            Some(Value::Array(lists(live, answer, trees)))
        }
        (Some(Value::Array(live)), None) => {
            let rest = lists(live, &[], trees);
            (!rest.is_empty()).then_some(Value::Array(rest))
        }
        (None, Some(Value::Array(answer))) => Some(Value::Array(lists(&[], answer, trees))),
        (_, answer) => answer.cloned(),
    }
}

fn objects(
    live: &Map<String, Value>,
    answer: &Map<String, Value>,
    trees: Trees<'_>,
) -> Map<String, Value> {
    let mut names: Vec<&String> = live.keys().chain(answer.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let each = names.into_iter().filter_map(|name| {
        Some((name.clone(), kept(live.get(name), answer.get(name), trees.field(name))?))
    });
    each.collect()
}

/// Lists with elements of keys, and sets. Elements that only live has, and that are not ours,
/// keep their place.
fn lists(live: &[Value], answer: &[Value], trees: Trees<'_>) -> Vec<Value> {
    let keys = trees.list_keys();
    let is_same = |one: &Value, other: &Value| match &keys {
        Some(keys) if one.is_object() && other.is_object() => keys::are_same(keys, one, other),
        _ => one == other,
    };
    let mut list: Vec<Value> = Vec::with_capacity(answer.len());
    for element in answer {
        let before = live.iter().find(|found| is_same(found, element));
        list.extend(kept(before, Some(element), trees.element(element)));
    }
    for (index, found) in live.iter().enumerate() {
        if answer.iter().any(|element| is_same(found, element)) {
            continue;
        }
        if let Some(rest) = kept(Some(found), None, trees.element(found)) {
            list.insert(index.min(list.len()), rest);
        }
    }
    list
}

/// Removes what the last-applied configuration has and the target does not. `path` are the
/// fields from the root.
fn drop_removed<'a>(
    kind: KindRef<'_>,
    predicted: &mut Value,
    original: &'a Value,
    target: &Value,
    path: &mut Vec<&'a str>,
) {
    match (predicted, original, target) {
        (Value::Object(predicted), Value::Object(original), Value::Object(target)) => {
            for (name, before) in original {
                match target.get(name) {
                    // Live always has one.
                    None if path == &["metadata"] && name == "namespace" => {}
                    None => drop(predicted.remove(name)),
                    Some(wanted) => {
                        if let Some(below) = predicted.get_mut(name) {
                            path.push(name);
                            drop_removed(kind, below, before, wanted, path);
                            path.pop();
                        }
                    }
                }
            }
        }
        (Value::Array(predicted), Value::Array(original), Value::Array(target)) => {
            let ListKind::Keyed(keys) = keys::list_kind(kind, path) else { return };
            let is_same = |one: &Value, other: &Value| keys::are_same(&keys, one, other);
            for before in original {
                let Some(wanted) = target.iter().find(|wanted| is_same(wanted, before)) else {
                    predicted.retain(|one| !is_same(one, before));
                    continue;
                };
                if let Some(below) = predicted.iter_mut().find(|one| is_same(one, before)) {
                    drop_removed(kind, below, before, wanted, path);
                }
            }
        }
        _ => {}
    }
}
