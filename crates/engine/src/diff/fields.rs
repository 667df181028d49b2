//! Field ownership: reading `metadata.managedFields`.
//!
//! `fieldsV1` of an entry is a tree of JSON objects. Keys are path elements: `f:name` is
//! a field, `k:{…}` an element of a keyed list, `v:…` an element of a set, `i:n` an
//! index, and `.` the parent itself. A leaf is `{}`.

use serde_json::{Map, Value};

use super::keys::key_default;

/// Ownership of several managers below one path. Cheap to copy: borrows the trees.
#[derive(Clone, Debug, Default)]
pub struct Owners<'a> {
    /// Our own tree, if we own anything here.
    pub mine: Option<&'a Value>,
    /// The trees of other managers.
    pub others: Vec<&'a Value>,
}

impl<'a> Owners<'a> {
    /// Reads a live object. `None` when our manager never applied it, so that ownership
    /// is unknown.
    pub fn of(live: &'a Value, manager: &str) -> Option<Self> {
        let mut owners = Self::default();
        for entry in entries(live) {
            let Some(fields) = entry.get("fieldsV1") else { continue };
            if is_apply_by(entry, manager) {
                owners.mine = Some(fields);
            } else {
                owners.others.push(fields);
            }
        }
        owners.mine.is_some().then_some(owners)
    }

    /// Ownership of a field.
    pub fn field(&self, name: &str) -> Self {
        let key = format!("f:{name}");
        self.down(|tree| tree.get(&key))
    }

    /// Ownership of one element of a keyed list.
    pub fn element(&self, element: &Value) -> Self {
        self.down(|tree| {
            let found = elements(tree).find(|(keys, _)| keys_match(keys, element));
            found.map(|(_, below)| below)
        })
    }

    /// Ownership of one element of a set.
    pub fn member(&self, value: &Value) -> Self {
        let key = format!("v:{value}");
        self.down(|tree| tree.get(&key))
    }

    fn down(&self, step: impl Fn(&'a Value) -> Option<&'a Value>) -> Self {
        Self {
            mine: self.mine.and_then(&step),
            others: self.others.iter().filter_map(|tree| step(tree)).collect(),
        }
    }

    /// Whether we own the value as a whole, without fields below it.
    pub fn is_leaf(&self) -> bool {
        self.mine.is_some_and(is_leaf)
    }

    /// The key fields of a list, as shown by the ownership of any manager.
    pub fn list_keys(&self) -> Option<Vec<String>> {
        let trees = self.mine.iter().chain(&self.others);
        let first = trees.flat_map(|tree| elements(tree)).next();
        first.map(|(keys, _)| keys.into_iter().map(|(key, _)| key).collect())
    }

    /// Whether ownership shows the list to be a set.
    pub fn is_set(&self) -> bool {
        let mut trees = self.mine.iter().chain(&self.others).filter_map(|tree| tree.as_object());
        trees.any(|tree| tree.keys().any(|key| key.starts_with("v:")))
    }
}

/// The entries of `metadata.managedFields`.
pub(crate) fn entries(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten()
}

fn is_apply_by(entry: &Value, manager: &str) -> bool {
    is_entry(entry, manager, "Apply")
}

fn is_entry(entry: &Value, manager: &str, operation: &str) -> bool {
    let text = |field| entry.get(field).and_then(Value::as_str).unwrap_or_default();
    text("manager") == manager && text("operation") == operation && text("subresource").is_empty()
}

/// `managedFields` after the fields updated by any of `from` were migrated to the apply
/// of `to`; `None` when there are none (SE-346).
///
/// An apply does not remove fields that a manager owns by updates, not even its own: a
/// field that was applied client-side could never be removed by server-side apply.
pub fn taken_over(live: &Value, from: &[&str], to: &str) -> Option<Vec<Value>> {
    let is_former = |entry: &&Value| from.iter().any(|from| is_entry(entry, from, "Update"));
    let (former, kept): (Vec<&Value>, Vec<&Value>) = entries(live).partition(is_former);
    let first = former.first()?;
    let mut kept: Vec<Value> = kept.into_iter().cloned().collect();
    let at = kept.iter().position(|entry| is_apply_by(entry, to)).unwrap_or_else(|| {
        let mut entry = (*first).clone();
        entry["manager"] = to.into();
        entry["operation"] = "Apply".into();
        entry["fieldsV1"] = Value::Object(Map::new());
        kept.push(entry);
        kept.len() - 1
    });
    let mut fields = kept[at]["fieldsV1"].take();
    for entry in former {
        fields = union(fields, &entry["fieldsV1"]);
    }
    kept[at]["fieldsV1"] = fields;
    Some(kept)
}

fn union(into: Value, from: &Value) -> Value {
    let mut into = match into {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    for (key, value) in from.as_object().into_iter().flatten() {
        let old = into.remove(key).unwrap_or_default();
        into.insert(key.clone(), union(old, value));
    }
    Value::Object(into)
}

/// Whether a tree has nothing below it.
pub fn is_leaf(tree: &Value) -> bool {
    tree.as_object().is_none_or(|tree| tree.keys().all(|key| key == "."))
}

/// The keyed elements of a list's tree: their keys and what is below.
pub(crate) fn elements(tree: &Value) -> impl Iterator<Item = (Map<String, Value>, &Value)> {
    tree.as_object().into_iter().flatten().filter_map(|(key, below)| {
        let keys = serde_json::from_str(key.strip_prefix("k:")?).ok()?;
        Some((keys, below))
    })
}

/// Whether a list element has these keys; an absent key has its default.
pub fn keys_match(keys: &Map<String, Value>, element: &Value) -> bool {
    keys.iter().all(|(key, value)| match element.get(key) {
        Some(found) => found == value,
        None => key_default(key).is_some_and(|default| value == default),
    })
}

/// The rest of `live`, which the target no longer has, after our apply: fields that only
/// we own are removed, others are kept. `None` when nothing is left.
pub fn without_mine(live: &Value, owners: &Owners<'_>) -> Option<Value> {
    let Some(mine) = owners.mine else { return Some(live.clone()) };
    let whole = is_leaf(mine) || mine.get(".").is_some();
    if whole && owners.others.is_empty() {
        return None;
    }
    if is_leaf(mine) {
        return Some(live.clone());
    }
    let rest = match live {
        Value::Object(map) => {
            let rest: Map<String, Value> = map
                .iter()
                .filter_map(|(key, child)| {
                    Some((key.clone(), without_mine(child, &owners.field(key))?))
                })
                .collect();
            // An object that became empty is removed, too.
            if rest.is_empty() && !map.is_empty() {
                return None;
            }
            Value::Object(rest)
        }
        Value::Array(list) => {
            let rest: Vec<Value> = list
                .iter()
                .filter_map(|element| {
                    let below = if element.is_object() {
                        owners.element(element)
                    } else {
                        owners.member(element)
                    };
                    without_mine(element, &below)
                })
                .collect();
            if rest.is_empty() && !list.is_empty() {
                return None;
            }
            Value::Array(rest)
        }
        other => other.clone(),
    };
    Some(rest)
}
