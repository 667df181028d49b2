//! Predicts the live object after applying the target.
//!
//! The strategies differ in what they remove:
//!
//! - two-way: nothing. Fields that only live has are kept.
//! - three-way: what the last-applied configuration has and the target does not (SE-152).
//! - structured: what only our field manager owns and the target does not have, as
//!   server-side apply does (SE-157).
//!
//! Lists of built-in kinds merge by Appendix B.1, those of custom resources by their
//! schema, else by field ownership, else as atomic. Elements of an atomic list of a custom
//! resource keep fields that only live has, unless it is applied server-side and its schema
//! is known: what its controller adds must not be a permanent difference (SE-153, SE-605).

use serde_json::{Map, Value};

use super::fields::{Owners, without_mine};
use super::keys::{self, ListKind};
use super::normalize::strip_nulls;
use super::schema;
use wavegate_api::kind::KindRef;

/// Context of a merge besides target and live.
pub struct Basis<'a> {
    /// The kind, for its merge keys.
    pub kind: KindRef<'a>,
    /// Whether the kind is part of Kubernetes.
    pub built_in: bool,
    /// Whether the target is applied server-side, so that what its schema calls atomic is.
    pub structured: bool,
}

/// Previous state and ownership at a path.
#[derive(Clone, Default)]
pub struct Past<'a> {
    /// The last-applied configuration at this path.
    pub original: Option<&'a Value>,
    /// Ownership at this path; empty if the strategy does not use it.
    pub owners: Owners<'a>,
    /// A custom resource's schema at this path, if known.
    pub schema: Option<&'a Value>,
}

impl<'a> Past<'a> {
    fn field(&self, name: &str) -> Self {
        Self {
            original: self.original.and_then(|original| original.get(name)),
            owners: self.owners.field(name),
            schema: self.schema.and_then(|schema| schema::field(schema, name)),
        }
    }

    fn element(&self, original: Option<&'a Value>, owners: Owners<'a>) -> Self {
        Self { original, owners, schema: self.schema.and_then(schema::items_schema) }
    }

    /// Whether we own a list as a whole, and no manager owns an element of it.
    fn owned_as_one_value(&self) -> bool {
        self.owners.is_leaf() && self.owners.list_keys().is_none() && !self.owners.is_set()
    }
}

/// The predicted object. `path` is the list of field names from the root, without list
/// elements. `live` contains no nulls.
pub(crate) fn merge<'a>(
    basis: &Basis<'_>,
    target: &'a Value,
    live: &Value,
    past: &Past<'a>,
    path: &mut Vec<&'a str>,
) -> Value {
    if target == live {
        return live.clone();
    }
    match (target, live) {
        (Value::Object(target), Value::Object(live)) => {
            Value::Object(merge_objects(basis, target, live, past, path))
        }
        (Value::Array(target), Value::Array(live)) => {
            Value::Array(merge_lists(basis, target, live, past, path))
        }
        (target, _) => whole(target),
    }
}

/// A target value that replaces the previous one.
fn whole(target: &Value) -> Value {
    let mut value = target.clone();
    strip_nulls(&mut value);
    value
}

fn merge_objects<'a>(
    basis: &Basis<'_>,
    target: &'a Map<String, Value>,
    live: &Map<String, Value>,
    past: &Past<'a>,
    path: &mut Vec<&'a str>,
) -> Map<String, Value> {
    // Owned as a whole: atomic for the server. An empty object looks the same when it is
    // not atomic; only selectors are known to be atomic even then.
    let selector = basis.built_in && path.last().is_some_and(|field| field.ends_with("elector"));
    let owned_whole = past.owners.is_leaf() && (!target.is_empty() || selector);
    let atomic = basis.built_in && keys::is_atomic_map(basis.kind, path)
        || basis.structured && past.schema.is_some_and(schema::is_atomic_map);
    if owned_whole || atomic {
        let kept = target.iter().filter(|(_, value)| !value.is_null());
        return kept.map(|(key, value)| (key.clone(), whole(value))).collect();
    }
    let retains_keys = basis.built_in && keys::retains_keys(basis.kind, path);
    let original = past.original.and_then(Value::as_object);
    // What stays of a field that only live has.
    let kept = |key: &str, found: &Value| -> Option<Value> {
        if retains_keys || original.is_some_and(|original| original.contains_key(key)) {
            return None;
        }
        match past.owners.mine {
            Some(_) => without_mine(found, &past.owners.field(key)),
            None => Some(found.clone()),
        }
    };
    let mut merged = Map::new();
    for (key, found) in live {
        let value = match target.get_key_value(key) {
            // A type of Kubernetes has no null, and one that is applied server-side is a field
            // of its own. In a custom resource that is applied client-side, a null leaves the
            // field to others, unless it had a value before (SE-162).
            Some((_, Value::Null)) if basis.built_in || basis.structured => None,
            Some((_, Value::Null)) => kept(key, found),
            Some((field, wanted)) => {
                path.push(field);
                let value = merge(basis, wanted, found, &past.field(key), path);
                path.pop();
                Some(value)
            }
            None => kept(key, found),
        };
        merged.extend(value.map(|value| (key.clone(), value)));
    }
    let added = target.iter().filter(|(key, value)| !value.is_null() && !live.contains_key(*key));
    merged.extend(added.map(|(key, value)| (key.clone(), whole(value))));
    merged
}

fn merge_lists<'a>(
    basis: &Basis<'_>,
    target: &'a [Value],
    live: &[Value],
    past: &Past<'a>,
    path: &mut Vec<&'a str>,
) -> Vec<Value> {
    let kind = match list_kind(basis, past, path) {
        // Our ownership of the list as a whole is more reliable, unless we applied an
        // empty list.
        ListKind::Keyed(_) | ListKind::Set if past.owned_as_one_value() && !target.is_empty() => {
            ListKind::Atomic
        }
        kind => kind,
    };
    match kind {
        ListKind::Keyed(keys) => match pair(&keys, target, live) {
            Some(pairs) => merge_keyed(basis, &keys, target, live, &pairs, past, path),
            // With missing or duplicate keys, elements cannot be identified: merging by
            // position loses no element (Appendix B.1).
            None => merge_by_position(basis, target, live, past, path),
        },
        ListKind::Set => merge_sets(target, live, past),
        ListKind::Atomic if basis.built_in || basis.structured && past.schema.is_some() => {
            target.iter().map(whole).collect()
        }
        ListKind::Atomic => merge_by_position(basis, target, live, past, path),
    }
}

fn list_kind(basis: &Basis<'_>, past: &Past<'_>, path: &[&str]) -> ListKind {
    if basis.built_in {
        let known = keys::list_kind(basis.kind, path);
        if known != ListKind::Atomic {
            return known;
        }
    }
    if let Some(schema) = past.schema {
        return schema::list_kind(schema);
    }
    if let Some(keys) = past.owners.list_keys() {
        return ListKind::Keyed(keys);
    }
    if past.owners.is_set() { ListKind::Set } else { ListKind::Atomic }
}

/// For each target element the live element with the same keys, if any. `None` when keys
/// do not identify elements.
fn pair(keys: &[String], target: &[Value], live: &[Value]) -> Option<Vec<Option<usize>>> {
    let has_keys = |element: &Value| keys.iter().any(|key| has_key(element, key));
    if !target.iter().chain(live).all(has_keys)
        || has_doubles(keys, target)
        || has_doubles(keys, live)
    {
        return None;
    }
    let mut taken = vec![false; live.len()];
    let mut pairs = Vec::with_capacity(target.len());
    for wanted in target {
        let mut found = live.iter().enumerate().filter(|(_, l)| may_be_same(keys, wanted, l));
        let first = found.next().map(|(index, _)| index);
        if found.next().is_some() {
            return None;
        }
        if let Some(index) = first
            && std::mem::replace(&mut taken[index], true)
        {
            return None;
        }
        pairs.push(first);
    }
    Some(pairs)
}

fn has_key(element: &Value, key: &str) -> bool {
    element.get(key).is_some_and(|value| !value.is_null())
}

fn key_value<'a>(element: &'a Value, key: &'a str) -> Option<&'a str> {
    match element.get(key) {
        Some(Value::String(text)) => Some(text),
        None | Some(Value::Null) => keys::key_default(key),
        Some(_) => None,
    }
}

/// Whether all keys of both elements are equal. A key that the target leaves to the
/// server's default may have any value.
fn may_be_same(keys: &[String], one: &Value, other: &Value) -> bool {
    let mut compared = false;
    let equal = keys.iter().all(|key| {
        let equal = match (one.get(key), other.get(key)) {
            (Some(one), Some(other)) if !one.is_null() && !other.is_null() => one == other,
            _ => match (key_value(one, key), key_value(other, key)) {
                (Some(one), Some(other)) => one == other,
                _ => return true,
            },
        };
        compared = true;
        equal
    });
    equal && compared
}

fn has_doubles(keys: &[String], list: &[Value]) -> bool {
    list.iter()
        .enumerate()
        .any(|(index, element)| list[..index].iter().any(|one| may_be_same(keys, one, element)))
}

fn merge_keyed<'a>(
    basis: &Basis<'_>,
    keys: &[String],
    target: &'a [Value],
    live: &[Value],
    pairs: &[Option<usize>],
    past: &Past<'a>,
    path: &mut Vec<&'a str>,
) -> Vec<Value> {
    let original = past.original.and_then(Value::as_array);
    let before = |element: &Value| {
        original.into_iter().flatten().find(|before| may_be_same(keys, before, element))
    };
    // The target's index of each element; live's order, then new elements.
    let mut merged: Vec<(Option<usize>, Value)> = Vec::with_capacity(live.len());
    for (index, found) in live.iter().enumerate() {
        match pairs.iter().position(|pair| *pair == Some(index)) {
            Some(at) => {
                let past = past.element(before(found), past.owners.element(found));
                merged.push((Some(at), merge(basis, &target[at], found, &past, path)));
            }
            None if before(found).is_some() => {}
            None => {
                let rest = without_mine(found, &past.owners.element(found));
                merged.extend(rest.map(|rest| (None, rest)));
            }
        }
    }
    for (at, wanted) in target.iter().enumerate() {
        if pairs[at].is_none() {
            merged.push((Some(at), whole(wanted)));
        }
    }
    if keys::order_counts(basis.kind, path) {
        reorder(&mut merged);
    }
    merged.into_iter().map(|(_, value)| value).collect()
}

/// Reorders the target's elements to the target's order, within the positions they have;
/// elements that only live has keep their position.
fn reorder(merged: &mut [(Option<usize>, Value)]) {
    let mut ours: Vec<(Option<usize>, Value)> =
        merged.iter().filter(|(at, _)| at.is_some()).cloned().collect();
    ours.sort_by_key(|(at, _)| *at);
    for (slot, element) in merged.iter_mut().filter(|(at, _)| at.is_some()).zip(ours) {
        *slot = element;
    }
}

fn merge_by_position<'a>(
    basis: &Basis<'_>,
    target: &'a [Value],
    live: &[Value],
    past: &Past<'a>,
    path: &mut Vec<&'a str>,
) -> Vec<Value> {
    let original = past.original.and_then(Value::as_array);
    let each = target.iter().enumerate().map(|(index, wanted)| match live.get(index) {
        Some(found) => {
            let original = original.and_then(|original| original.get(index));
            // Ownership does not depend on the position.
            let past = past.element(original, Owners::default());
            merge(basis, wanted, found, &past, path)
        }
        None => whole(wanted),
    });
    each.collect()
}

fn merge_sets(target: &[Value], live: &[Value], past: &Past<'_>) -> Vec<Value> {
    let target: Vec<Value> = target.iter().map(whole).collect();
    let original = past.original.and_then(Value::as_array);
    let was_ours = |value: &Value| original.is_some_and(|original| original.contains(value));
    let stays = |value: &Value| {
        target.contains(value)
            || (!was_ours(value) && without_mine(value, &past.owners.member(value)).is_some())
    };
    let mut merged: Vec<Value> = live.iter().filter(|value| stays(value)).cloned().collect();
    for value in target {
        if !merged.contains(&value) {
            merged.push(value);
        }
    }
    merged
}
