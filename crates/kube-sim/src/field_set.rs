//! Sets of field paths, in the form of `fieldsV1`, and the paths of an object.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value};

use super::kinds::Kind;
use super::patch::shape::{Shape, item_keys};
use super::schema::ListType;

/// Fields of built-in kinds that are never absent in the real one's types.
const ALWAYS_THERE: &[&str] = &[
    "f:spec",
    "f:status",
    "f:template",
    "f:jobTemplate",
    "f:metadata",
    "f:containers",
    "f:strategy",
    "f:updateStrategy",
    "f:resources",
    "f:scaleTargetRef",
    "f:loadBalancer",
];

/// Fields of `metadata` that no manager owns.
const UNOWNED: &[&str] = &[
    "f:name",
    "f:namespace",
    "f:creationTimestamp",
    "f:selfLink",
    "f:uid",
    "f:generation",
    "f:managedFields",
    "f:resourceVersion",
    "f:deletionTimestamp",
    "f:deletionGracePeriodSeconds",
];

/// A set of field paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    /// Whether the path up to here is itself in the set.
    pub member: bool,
    /// By path element as written in `fieldsV1`: `f:name`, `k:{…}`, `v:…`; sorted by it.
    children: Vec<(Box<str>, FieldSet)>,
}

impl FieldSet {
    pub fn is_empty(&self) -> bool {
        !self.member && self.children.iter().all(|(_, child)| child.is_empty())
    }

    /// Whether there is nothing below this path.
    pub fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }

    pub fn children(&self) -> impl Iterator<Item = (&str, &FieldSet)> {
        self.children.iter().map(|(element, child)| (&**element, child))
    }

    fn position(&self, element: &str) -> Result<usize, usize> {
        match self.children.last() {
            // Most sets are made in order.
            Some((last, _)) if **last < *element => Err(self.children.len()),
            _ => self.children.binary_search_by(|(found, _)| (**found).cmp(element)),
        }
    }

    pub fn get(&self, element: &str) -> Option<&FieldSet> {
        self.position(element).ok().map(|at| &self.children[at].1)
    }

    fn get_mut(&mut self, element: &str) -> Option<&mut FieldSet> {
        self.position(element).ok().map(|at| &mut self.children[at].1)
    }

    fn insert(&mut self, element: impl Into<Box<str>>, child: FieldSet) {
        let element = element.into();
        match self.position(&element) {
            Ok(at) => self.children[at].1 = child,
            Err(at) => self.children.insert(at, (element, child)),
        }
    }

    fn remove(&mut self, element: &str) {
        if let Ok(at) = self.position(element) {
            self.children.remove(at);
        }
    }

    pub fn union(&mut self, other: &FieldSet) {
        self.member |= other.member;
        for (element, child) in &other.children {
            match self.position(element) {
                Ok(at) => self.children[at].1.union(child),
                Err(at) => self.children.insert(at, (element.clone(), child.clone())),
            }
        }
    }

    /// Takes the members of another set out of this one.
    pub fn subtract(&mut self, other: &FieldSet) {
        self.member &= !other.member;
        for (element, child) in &other.children {
            if let Some(mine) = self.get_mut(element) {
                mine.subtract(child);
            }
        }
        self.children.retain(|(_, child)| !child.is_empty());
    }

    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let children = self
            .children
            .iter()
            .filter_map(|(element, child)| {
                Some((element.clone(), child.intersection(other.get(element)?)))
            })
            .filter(|(_, child)| !child.is_empty())
            .collect();
        Self { member: self.member && other.member, children }
    }

    /// Whether the two have a member in common.
    pub fn overlaps(&self, other: &FieldSet) -> bool {
        (self.member && other.member)
            || self
                .children
                .iter()
                .any(|(element, child)| other.get(element).is_some_and(|o| child.overlaps(o)))
    }

    /// Whether all members of another set are in this one.
    pub fn covers(&self, other: &FieldSet) -> bool {
        (self.member || !other.member)
            && other.children.iter().all(|(element, child)| {
                child.is_empty() || self.get(element).is_some_and(|mine| mine.covers(child))
            })
    }

    /// Removes structs that objects of built-in kinds always have: no manager adds them.
    pub fn forget_structs(&mut self) {
        for (element, child) in &mut self.children {
            if ALWAYS_THERE.contains(&&**element) && !child.children.is_empty() {
                child.member = false;
            }
            child.forget_structs();
        }
    }

    /// Drops what no manager owns: identity, and what the server itself writes.
    pub fn strip(&mut self) {
        self.member = false;
        self.remove("f:apiVersion");
        self.remove("f:kind");
        if let Some(meta) = self.get_mut("f:metadata") {
            meta.member = false;
            meta.children.retain(|(element, _)| !UNOWNED.contains(&&**element));
        }
        self.children.retain(|(_, child)| !child.is_empty());
    }

    /// The paths as error messages write them: `.spec.containers[name="web"].image`.
    pub fn paths(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.collect_paths("", &mut out);
        out
    }

    fn collect_paths(&self, path: &str, out: &mut Vec<String>) {
        if self.member {
            out.push(path.to_owned());
        }
        for (element, child) in &self.children {
            child.collect_paths(&format!("{path}{}", shown(element)), out);
        }
    }
}

fn shown(element: &str) -> String {
    let (kind, rest) = element.split_at_checked(2).unwrap_or((element, ""));
    match kind {
        "f:" => format!(".{rest}"),
        "k:" => {
            let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
            let list = keys.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(",");
            format!("[{list}]")
        }
        "v:" => format!("[={rest}]"),
        _ => format!("[{rest}]"),
    }
}

impl Serialize for FieldSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.member && !self.children.is_empty() {
            map.serialize_entry(".", &Map::new())?;
        }
        for (element, child) in self.children.iter().filter(|(_, child)| !child.is_empty()) {
            map.serialize_entry(&**element, child)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for FieldSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = FieldSet;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a set of fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FieldSet, A::Error> {
                let mut set = FieldSet::default();
                while let Some(element) = map.next_key::<Box<str>>()? {
                    if &*element == "." {
                        map.next_value::<IgnoredAny>()?;
                        set.member = true;
                    } else {
                        let mut child: FieldSet = map.next_value()?;
                        child.member |= child.is_leaf();
                        set.insert(element, child);
                    }
                }
                Ok(set)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// The path element of a list item; `None` in lists that are atomic.
pub(crate) fn element(shape: Shape<'_>, list: &ListType, item: &Value) -> Option<String> {
    match list {
        ListType::Atomic => None,
        ListType::Set => Some(format!("v:{item}")),
        ListType::Map(keys) => {
            let keys: Map<String, Value> = item_keys(shape, keys, item)?.into_iter().collect();
            Some(format!("k:{}", Value::Object(keys)))
        }
    }
}

/// All fields that a configuration sets.
pub(crate) fn fields_of(shape: Shape<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    match value {
        Value::Object(map) if !shape.atomic_map() => {
            for (key, child) in map {
                let mut node = fields_of(shape.field(key), child);
                let empty = child.is_null() || child.as_object().is_some_and(Map::is_empty);
                node.member |= empty || !shape.declares(key);
                set.insert(format!("f:{key}"), node);
            }
        }
        Value::Array(list) => {
            let kind = shape.list_type();
            set.member = kind == ListType::Atomic;
            for item in list {
                if let Some(element) = element(shape, &kind, item) {
                    let mut node = match kind {
                        ListType::Map(_) => fields_of(shape.item(), item),
                        ListType::Atomic | ListType::Set => FieldSet::default(),
                    };
                    node.member = true;
                    set.insert(element, node);
                }
            }
        }
        _ => set.member = true,
    }
    set
}

/// What changed from one state to the next.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Added or modified.
    pub changed: FieldSet,
    pub removed: FieldSet,
}

impl Comparison {
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }
}

/// Compares two states of an object.
pub(crate) fn compare(kind: &Kind, old: Option<&Value>, new: &Value) -> Comparison {
    let shape = Shape::root(kind);
    let mut result = match old {
        Some(old) => between(shape, old, new),
        None => Comparison { changed: all(shape, new), removed: FieldSet::default() },
    };
    result.changed.strip();
    result.removed.strip();
    result
}

/// Every path of a value, those on the way included.
fn all(shape: Shape<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet { member: true, ..FieldSet::default() };
    match value {
        Value::Object(map) if !shape.atomic_map() => {
            for (key, child) in map {
                set.insert(format!("f:{key}"), all(shape.field(key), child));
            }
        }
        Value::Array(list) => {
            for (element, item) in elements(shape, &shape.list_type(), list) {
                set.insert(element, all(shape.item(), item));
            }
        }
        _ => {}
    }
    set
}

fn between(shape: Shape<'_>, old: &Value, new: &Value) -> Comparison {
    let mut result = Comparison::default();
    match (old, new) {
        (Value::Object(a), Value::Object(b)) if !shape.atomic_map() => {
            for (key, old) in a {
                result.step(shape.field(key), || format!("f:{key}"), Some(old), b.get(key));
            }
            for (key, new) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                result.step(shape.field(key), || format!("f:{key}"), None, Some(new));
            }
        }
        _ if old == new => {}
        (Value::Array(a), Value::Array(b)) => {
            let kind = shape.list_type();
            let (a, b) = (elements(shape, &kind, a), elements(shape, &kind, b));
            // An order is no path: where nothing has one, the list has changed as a whole.
            result.changed.member = a.is_empty() && b.is_empty();
            for (element, old) in &a {
                let new = b.get(element).copied();
                result.step(shape.item(), || element.clone(), Some(old), new);
            }
            for (element, new) in b.iter().filter(|(element, _)| !a.contains_key(*element)) {
                result.step(shape.item(), || element.clone(), None, Some(new));
            }
        }
        _ => result.changed.member = true,
    }
    result
}

/// The items of a list that has path elements, with them.
fn elements<'a>(
    shape: Shape<'_>,
    kind: &ListType,
    list: &'a [Value],
) -> BTreeMap<String, &'a Value> {
    list.iter().filter_map(|item| Some((element(shape, kind, item)?, item))).collect()
}

impl Comparison {
    fn step(
        &mut self,
        shape: Shape<'_>,
        element: impl Fn() -> String,
        old: Option<&Value>,
        new: Option<&Value>,
    ) {
        let below = match (old, new) {
            (Some(old), Some(new)) => between(shape, old, new),
            (None, Some(new)) => {
                Comparison { changed: all(shape, new), removed: FieldSet::default() }
            }
            (Some(old), None) => {
                Comparison { changed: FieldSet::default(), removed: all(shape, old) }
            }
            (None, None) => return,
        };
        if !below.changed.is_empty() {
            self.changed.insert(element(), below.changed);
        }
        if !below.removed.is_empty() {
            self.removed.insert(element(), below.removed);
        }
    }
}

/// A set with one member, for tests.
#[cfg(test)]
impl From<&[&str]> for FieldSet {
    fn from(path: &[&str]) -> Self {
        match path {
            [] => Self { member: true, ..Self::default() },
            [first, rest @ ..] => {
                let children = vec![((*first).into(), Self::from(rest))];
                Self { member: false, children }
            }
        }
    }
}
