//! Who owns which field: `metadata.managedFields`.
//!
//! A [`FieldSet`] is a tree in the form of `fieldsV1`. Ownership follows
//! the structured merge rules: an update owns what it changed and takes it from
//! others; an apply owns what its configuration says (see [`super::patch::apply`]).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::clock::seconds;
use super::kinds::Kind;
use super::patch::shape::{Shape, item_keys};
use super::schema::ListType;

/// More managers that update are merged into one, so that an object cannot grow without end.
const MAX_UPDATERS: usize = 10;

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

/// A set of field paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    /// Whether the path up to here is itself in the set.
    pub member: bool,
    /// By path element as written in `fieldsV1`: `f:name`, `k:{…}`, `v:…`.
    pub children: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    pub fn is_empty(&self) -> bool {
        !self.member && self.children.values().all(FieldSet::is_empty)
    }

    fn leaf() -> Self {
        Self { member: true, children: BTreeMap::new() }
    }

    fn read(value: &Value) -> Self {
        let mut set = Self::default();
        for (key, child) in value.as_object().into_iter().flatten() {
            if key == "." {
                set.member = true;
            } else {
                let mut node = Self::read(child);
                node.member |= node.children.is_empty();
                set.children.insert(key.clone(), node);
            }
        }
        set
    }

    fn write(&self) -> Value {
        let mut map = Map::new();
        if self.member && !self.children.is_empty() {
            map.insert(".".to_owned(), json!({}));
        }
        for (key, child) in self.children.iter().filter(|(_, c)| !c.is_empty()) {
            map.insert(key.clone(), child.write());
        }
        Value::Object(map)
    }

    pub fn union(&mut self, other: &FieldSet) {
        self.member |= other.member;
        for (key, child) in &other.children {
            self.children.entry(key.clone()).or_default().union(child);
        }
    }

    /// Takes the members of another set out of this one.
    pub fn subtract(&mut self, other: &FieldSet) {
        self.member &= !other.member;
        for (key, child) in &other.children {
            if let Some(mine) = self.children.get_mut(key) {
                mine.subtract(child);
            }
        }
        self.children.retain(|_, c| !c.is_empty());
    }

    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let children = self
            .children
            .iter()
            .filter_map(|(key, child)| {
                Some((key.clone(), child.intersection(other.children.get(key)?)))
            })
            .filter(|(_, c)| !c.is_empty())
            .collect();
        Self { member: self.member && other.member, children }
    }

    /// Takes out structs that built-in kinds always have, so that nobody adds them.
    fn forget_structs(&mut self) {
        for (key, child) in &mut self.children {
            if ALWAYS_THERE.contains(&key.as_str()) && !child.children.is_empty() {
                child.member = false;
            }
            child.forget_structs();
        }
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
        for (key, child) in &self.children {
            child.collect_paths(&format!("{path}{}", shown(key)), out);
        }
    }

    /// Drops what no manager owns: identity, and what the server itself writes.
    pub fn strip(&mut self) {
        self.member = false;
        self.children.remove("f:apiVersion");
        self.children.remove("f:kind");
        if let Some(meta) = self.children.get_mut("f:metadata") {
            meta.member = false;
            for field in [
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "generation",
                "managedFields",
                "resourceVersion",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
            ] {
                meta.children.remove(&format!("f:{field}"));
            }
        }
        self.children.retain(|_, c| !c.is_empty());
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
                set.children.insert(format!("f:{key}"), node);
            }
        }
        Value::Array(list) if shape.list_type() != ListType::Atomic => {
            let kind = shape.list_type();
            for item in list {
                if let Some(element) = element(shape, &kind, item) {
                    let mut node = if matches!(kind, ListType::Map(_)) {
                        fields_of(shape.item(), item)
                    } else {
                        FieldSet::default()
                    };
                    node.member = true;
                    set.children.insert(element, node);
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

/// Compares two states of an object.
pub(crate) fn compare(kind: &Kind, old: Option<&Value>, new: &Value) -> Comparison {
    let mut result = Comparison::default();
    let empty = json!({});
    let shape = Shape::root(kind);
    compare_at(
        shape,
        Some(old.unwrap_or(&empty)),
        Some(new),
        &mut result.changed,
        &mut result.removed,
    );
    result.changed.strip();
    result.removed.strip();
    result
}

fn compare_at(
    shape: Shape<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    changed: &mut FieldSet,
    removed: &mut FieldSet,
) {
    if old == new {
        return;
    }
    let map = |v: Option<&Value>| v.is_none_or(Value::is_object);
    let list = |v: Option<&Value>| v.is_none_or(Value::is_array);
    let (list_type, granular) = (shape.list_type(), !shape.atomic_map());
    let mut descended = false;
    if map(old) && map(new) && granular {
        let empty = Map::new();
        let a = old.and_then(Value::as_object).unwrap_or(&empty);
        let b = new.and_then(Value::as_object).unwrap_or(&empty);
        descended = !(a.is_empty() && b.is_empty());
        for key in a.keys().chain(b.keys().filter(|k| !a.contains_key(*k))) {
            let element = format!("f:{key}");
            step(shape.field(key), element, a.get(key), b.get(key), changed, removed);
        }
    } else if list(old) && list(new) && list_type != ListType::Atomic {
        let index = |v: Option<&'_ Value>| {
            v.and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|item| Some((element(shape, &list_type, item)?, item.clone())))
                .collect::<BTreeMap<String, Value>>()
        };
        let (a, b) = (index(old), index(new));
        descended = !(a.is_empty() && b.is_empty());
        for key in a.keys().chain(b.keys().filter(|k| !a.contains_key(*k))) {
            step(shape.item(), key.clone(), a.get(key), b.get(key), changed, removed);
        }
    }
    match (old, new) {
        (None, _) => changed.member = true,
        (_, None) => removed.member = true,
        _ if !descended => changed.member = true,
        _ => {}
    }
}

fn step(
    shape: Shape<'_>,
    element: String,
    old: Option<&Value>,
    new: Option<&Value>,
    changed: &mut FieldSet,
    removed: &mut FieldSet,
) {
    let (mut c, mut r) = (FieldSet::default(), FieldSet::default());
    compare_at(shape, old, new, &mut c, &mut r);
    if !c.is_empty() {
        changed.children.insert(element.clone(), c);
    }
    if !r.is_empty() {
        removed.children.insert(element, r);
    }
}

/// One manager's entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manager {
    pub name: String,
    pub apply: bool,
    pub api_version: String,
    pub subresource: String,
    pub time: String,
    pub fields: FieldSet,
}

impl Manager {
    pub fn new(
        name: &str,
        apply: bool,
        api_version: String,
        subresource: &str,
        now: Timestamp,
    ) -> Self {
        Self {
            name: name.to_owned(),
            apply,
            api_version,
            subresource: subresource.to_owned(),
            time: seconds(now),
            fields: FieldSet::default(),
        }
    }

    /// Whether both entries stand for the same manager.
    pub fn same(&self, other: &Manager) -> bool {
        self.name == other.name
            && self.apply == other.apply
            && self.subresource == other.subresource
            // One that applies stays the same when it moves to another version.
            && (self.apply || self.api_version == other.api_version)
    }

    fn write(&self) -> Value {
        let mut entry = json!({
            "manager": self.name, "operation": if self.apply { "Apply" } else { "Update" },
            "apiVersion": self.api_version, "time": self.time,
            "fieldsType": "FieldsV1", "fieldsV1": self.fields.write(),
        });
        if !self.subresource.is_empty() {
            entry["subresource"] = json!(self.subresource);
        }
        entry
    }
}

/// Reads `metadata.managedFields`; `None` when there is nothing to read.
pub(crate) fn read(object: &Value) -> Option<Vec<Manager>> {
    let list = object["metadata"]["managedFields"].as_array()?;
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let managers: Vec<Manager> = list
        .iter()
        .filter(|e| e["manager"].is_string())
        .map(|e| Manager {
            name: text(&e["manager"]),
            apply: e["operation"] == "Apply",
            api_version: text(&e["apiVersion"]),
            subresource: text(&e["subresource"]),
            time: text(&e["time"]),
            fields: FieldSet::read(&e["fieldsV1"]),
        })
        .collect();
    (!managers.is_empty()).then_some(managers)
}

/// Writes `metadata.managedFields`, in the real one's order: appliers first, then by time.
pub(crate) fn write(object: &mut Value, mut managers: Vec<Manager>) {
    managers.retain(|m| !m.fields.is_empty());
    managers.sort_by(|a, b| {
        (!a.apply, &a.time, &a.name, &a.api_version, &a.subresource).cmp(&(
            !b.apply,
            &b.time,
            &b.name,
            &b.api_version,
            &b.subresource,
        ))
    });
    if managers.is_empty() {
        if let Some(meta) = object["metadata"].as_object_mut() {
            meta.remove("managedFields");
        }
    } else {
        object["metadata"]["managedFields"] =
            Value::Array(managers.iter().map(Manager::write).collect());
    }
}

/// Whether a new state asks to forget all managers: `managedFields: [{}]`.
fn is_reset(object: &Value) -> bool {
    object["metadata"]["managedFields"]
        .as_array()
        .is_some_and(|l| l.len() == 1 && l[0].as_object().is_some_and(Map::is_empty))
}

/// Attributes a plain write: what it changed is now the writer's.
pub(crate) fn record_update(
    kind: &Kind,
    old: Option<&Value>,
    new: &mut Value,
    manager: &str,
    subresource: &str,
    now: Timestamp,
) {
    let reset = is_reset(new);
    let mut managers = match read(new).or_else(|| if reset { None } else { old.and_then(read) }) {
        Some(managers) => managers,
        None if reset && old.is_some() => {
            write(new, Vec::new());
            return;
        }
        None => Vec::new(),
    };
    let mut comparison = compare(kind, old, new);
    if kind.is_builtin() {
        comparison.changed.forget_structs();
    }
    let me = Manager::new(manager, false, kind.api_version(), subresource, now);
    take(&mut managers, &me, &comparison);
    let mine = match managers.iter_mut().position(|m| m.same(&me)) {
        Some(i) => &mut managers[i],
        None => {
            managers.push(me.clone());
            let last = managers.len() - 1;
            &mut managers[last]
        }
    };
    let before = mine.fields.clone();
    mine.fields.subtract(&comparison.removed);
    mine.fields.union(&comparison.changed);
    if mine.fields != before {
        mine.time = me.time;
    }
    cap(&mut managers);
    write(new, managers);
}

/// Takes what changed or went away from all other managers.
pub(crate) fn take(managers: &mut [Manager], me: &Manager, comparison: &Comparison) {
    for other in managers.iter_mut().filter(|m| !m.same(me)) {
        other.fields.subtract(&comparison.changed);
        other.fields.subtract(&comparison.removed);
    }
}

/// Merges the oldest updaters into one when there are too many.
fn cap(managers: &mut Vec<Manager>) {
    managers.retain(|m| !m.fields.is_empty());
    let updaters = managers.iter().filter(|m| !m.apply && m.subresource.is_empty()).count();
    if updaters <= MAX_UPDATERS {
        return;
    }
    let mut oldest: Vec<usize> = (0..managers.len())
        .filter(|i| !managers[*i].apply && managers[*i].subresource.is_empty())
        .collect();
    oldest.sort_by(|a, b| managers[*a].time.cmp(&managers[*b].time));
    let merge: Vec<usize> = oldest.into_iter().take(updaters - MAX_UPDATERS + 1).collect();
    let mut ancient = managers[merge[0]].clone();
    ancient.name = "ancient-changes".to_owned();
    for i in &merge {
        ancient.fields.union(&managers[*i].fields);
    }
    let mut index = 0;
    managers.retain(|_| {
        index += 1;
        !merge.contains(&(index - 1))
    });
    managers.push(ancient);
}

/// Whether two states differ in the times of managers only.
pub(crate) fn same_but_times(old: &Value, new: &Value) -> bool {
    let (Some(a), Some(b)) = (old.as_object(), new.as_object()) else { return false };
    if a.len() != b.len() || a.iter().any(|(k, v)| k != "metadata" && b.get(k) != Some(v)) {
        return false;
    }
    let strip = |meta: &Value| {
        let mut meta = meta.clone();
        for entry in meta["managedFields"].as_array_mut().into_iter().flatten() {
            if let Some(entry) = entry.as_object_mut() {
                entry.remove("time");
            }
        }
        meta
    };
    strip(&old["metadata"]) == strip(&new["metadata"])
}

/// A set with one member, for tests and for atomic places.
impl From<&[&str]> for FieldSet {
    fn from(path: &[&str]) -> Self {
        match path {
            [] => Self::leaf(),
            [first, rest @ ..] => {
                let children = BTreeMap::from([((*first).to_owned(), Self::from(rest))]);
                Self { member: false, children }
            }
        }
    }
}
