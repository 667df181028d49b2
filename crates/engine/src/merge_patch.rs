//! The smallest JSON merge patch between two values (RFC 7396), and changes of a part of one.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// The merge patch that changes `from` to `to`; `None` when they are equal.
///
/// Lists are replaced as a whole, as in merge patches. A null in an object
/// counts as an absent field: a merge patch cannot distinguish the two.
pub fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return Some(without_nulls(to));
    };
    let mut patch = Map::new();
    for (key, old) in from {
        match to.get(key) {
            // A null in a merge patch removes.
            None | Some(Value::Null) if !old.is_null() => {
                patch.insert(key.clone(), Value::Null);
            }
            None | Some(Value::Null) => {}
            Some(new) => {
                if let Some(change) = merge_patch(old, new) {
                    patch.insert(key.clone(), change);
                }
            }
        }
    }
    for (key, new) in to {
        if !from.contains_key(key) && !new.is_null() {
            patch.insert(key.clone(), without_nulls(new));
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The value as it is stored: fields of objects that are null are absent.
pub fn without_nulls(value: &Value) -> Value {
    let Value::Object(object) = value else { return value.clone() };
    let kept = object.iter().filter(|(_, value)| !value.is_null());
    kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect()
}

/// Makes a change in an object that was made in a view of it: `before` and `after` are the
/// view, which shows only some fields. What it does not show stays.
pub fn apply_change(object: &mut Value, before: &Value, after: &Value) {
    match (before, after) {
        (before, after) if before == after => {}
        (_, Value::Object(after)) => {
            if !object.is_object() {
                *object = Value::Object(Map::new());
            }
            let Value::Object(fields) = object else { return };
            for (key, old) in before.as_object().into_iter().flatten() {
                if !after.contains_key(key) && !old.is_null() {
                    fields.remove(key);
                }
            }
            for (key, new) in after {
                let old = before.get(key).unwrap_or(&Value::Null);
                if old != new {
                    apply_change(fields.entry(key.as_str()).or_insert(Value::Null), old, new);
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            let known = object.as_array_mut().filter(|known| known.len() == before.len());
            let known = known.map(std::mem::take).unwrap_or_default();
            let mut known: HashMap<String, (&Value, Value)> =
                before.iter().zip(known).map(|(old, item)| (identity(old), (old, item))).collect();
            let item = |new: &Value| match known.remove(&identity(new)) {
                Some((old, mut item)) => {
                    apply_change(&mut item, old, new);
                    item
                }
                None => new.clone(),
            };
            *object = after.iter().map(item).collect();
        }
        (_, after) => *object = after.clone(),
    }
}

/// Identifies an item of a list: the row of a resource by its resource and phase, another item
/// by all that is in it.
fn identity(item: &Value) -> String {
    match item.get("kind") {
        None => item.to_string(),
        Some(_) => {
            let fields = ["group", "kind", "namespace", "name", "syncPhase"];
            fields.map(|field| item[field].as_str().unwrap_or_default()).join("/")
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{apply_change, merge_patch, without_nulls};

    #[test]
    fn merge_patches_name_only_what_changed() {
        let cases = [
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!({"a": 1}), json!({"a": 2, "b": 3}), Some(json!({"a": 2, "b": 3}))),
            (json!({"a": 1, "b": 2}), json!({"a": 1}), Some(json!({"b": null}))),
            (
                json!({"a": {"b": 1, "c": 2}}),
                json!({"a": {"b": 1, "c": 3}}),
                Some(json!({"a": {"c": 3}})),
            ),
            (json!({"a": [1]}), json!({"a": [1, 2]}), Some(json!({"a": [1, 2]}))),
            (json!({}), json!({"a": null}), None),
            (json!({"a": null}), json!({}), None),
            (json!({"a": {"b": 1}}), json!({"a": null}), Some(json!({"a": null}))),
            (json!(null), json!({"a": 1, "b": null}), Some(json!({"a": 1}))),
        ];
        for (from, to, want) in cases {
            assert_eq!(merge_patch(&from, &to), want, "{from} to {to}");
        }
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(1)),
            Just(json!("x")),
            Just(json!([1, 2])),
            Just(json!({})),
            Just(json!(null))
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            proptest::collection::btree_map("[ab]", inner, 0..3)
                .prop_map(|map| map.into_iter().collect::<Value>())
        })
    }

    proptest! {
        #[test]
        fn a_patch_leads_from_one_to_the_other(from in tree(), to in tree()) {
            let (mut got, to) = (without_nulls(&from), without_nulls(&to));
            let patch = merge_patch(&got, &to);
            prop_assert_eq!(patch.is_none(), got == to);
            if let Some(patch) = patch {
                json_patch::merge(&mut got, &patch);
            }
            prop_assert_eq!(got, to);
        }
    }

    /// A change of a view is made in the object that it shows: what it does not show stays.
    #[test]
    fn a_change_of_a_view_keeps_what_it_does_not_show() {
        let row = |name: &str, more: Value| {
            let mut row = json!({"group": "g", "kind": "k", "namespace": "n", "name": name});
            json_patch::merge(&mut row, &more);
            row
        };
        let (shown, hidden) = (json!({"a": 1}), json!({"hidden": 1}));
        let changed = json!({"a": 2});
        let both = json!({"a": 2, "hidden": 1});
        let rows = |parts: &[(&str, &Value)]| -> Value {
            parts.iter().map(|(name, more)| row(name, (*more).clone())).collect()
        };
        let of_phase = |phase: &str, more: Value| {
            let mut row = row("a", more);
            row["syncPhase"] = phase.into();
            row
        };
        let cases = [
            ("nothing", json!({"x": 1}), shown.clone(), shown.clone(), json!({"x": 1})),
            ("a field", hidden.clone(), shown.clone(), changed.clone(), both.clone()),
            ("one that goes", both.clone(), changed.clone(), json!({}), hidden.clone()),
            (
                "one that was null",
                both,
                json!({"hidden": null}),
                json!({"a": 2}),
                json!({"a": 2, "hidden": 1}),
            ),
            (
                "one within",
                json!({"in": {"x": 1, "a": 1}}),
                json!({"in": {"a": 1}}),
                json!({"in": {"a": 2}}),
                json!({"in": {"x": 1, "a": 2}}),
            ),
            (
                "a new one within",
                json!({}),
                json!({}),
                json!({"in": {"a": 2}}),
                json!({"in": {"a": 2}}),
            ),
            ("a text", json!("x"), json!("a"), json!("b"), json!("b")),
            ("an object for a text", json!("x"), json!("x"), changed.clone(), changed),
            (
                "rows",
                rows(&[("a", &hidden), ("b", &hidden)]),
                rows(&[("a", &shown), ("b", &shown)]),
                rows(&[("b", &json!({"a": 3})), ("c", &shown)]),
                rows(&[("b", &json!({"a": 3, "hidden": 1})), ("c", &shown)]),
            ),
            (
                "rows of two phases",
                json!([of_phase("PreSync", json!({"x": 1})), of_phase("Sync", json!({"x": 2}))]),
                json!([of_phase("PreSync", json!({})), of_phase("Sync", json!({}))]),
                json!([of_phase("Sync", json!({"a": 1}))]),
                json!([of_phase("Sync", json!({"a": 1, "x": 2}))]),
            ),
            ("a text that stays", json!("x"), json!("a"), json!("a"), json!("x")),
            (
                "rows in another order",
                rows(&[("a", &json!({"hidden": "a"})), ("b", &json!({"hidden": "b"}))]),
                rows(&[("a", &shown), ("b", &shown)]),
                rows(&[("b", &shown), ("a", &json!({"a": 2}))]),
                rows(&[("b", &json!({"hidden": "b"})), ("a", &json!({"a": 2, "hidden": "a"}))]),
            ),
            (
                "another list than was shown",
                json!([row("a", hidden.clone())]),
                json!([]),
                rows(&[("a", &shown)]),
                rows(&[("a", &shown)]),
            ),
            (
                "items without a kind",
                json!([{"n": 1, "x": 1}, {"n": 2, "x": 2}]),
                json!([{"n": 1}, {"n": 2}]),
                json!([{"n": 2}]),
                json!([{"n": 2, "x": 2}]),
            ),
        ];
        for (name, mut object, before, after, want) in cases {
            apply_change(&mut object, &before, &after);
            assert_eq!(object, want, "{name}");
        }
    }
}
