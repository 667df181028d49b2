//! Who owns which field: `metadata.managedFields`.
//!
//! Ownership follows the structured merge rules: an update owns what it changed
//! and takes it from others; an apply owns what its configuration says (see
//! [`super::patch::apply`]).

use std::borrow::Cow;

use hyper::body::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::clock::seconds;
use super::field_set::{Comparison, FieldSet, compare};
use super::kinds::Kind;
use super::stored::Object;

/// More managers that update are merged into one, so that an object cannot grow without end.
const MAX_UPDATERS: usize = 10;

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
}

/// An entry of `metadata.managedFields`.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(skip_deserializing)]
    fields_type: &'static str,
    #[serde(default)]
    fields_v1: Cow<'a, FieldSet>,
    #[serde(borrow)]
    manager: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    operation: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    subresource: Cow<'a, str>,
    #[serde(borrow, default)]
    time: Cow<'a, str>,
}

/// Reads managed fields; `None` when there is nothing to read.
pub(crate) fn read(managed: Option<&Bytes>) -> Option<Vec<Manager>> {
    let entries: Vec<Entry<'_>> = serde_json::from_slice(managed?).ok()?;
    let managers: Vec<Manager> = entries
        .into_iter()
        .filter_map(|entry| {
            Some(Manager {
                name: entry.manager?.into_owned(),
                apply: entry.operation == "Apply",
                api_version: entry.api_version.into_owned(),
                subresource: entry.subresource.into_owned(),
                time: entry.time.into_owned(),
                fields: entry.fields_v1.into_owned(),
            })
        })
        .collect();
    (!managers.is_empty()).then_some(managers)
}

/// Writes managed fields, in the real one's order: appliers first, then by time.
pub(crate) fn write(mut managers: Vec<Manager>) -> Option<Bytes> {
    managers.retain(|m| !m.fields.is_empty());
    fn order(m: &Manager) -> (bool, &str, &str, &str, &str) {
        (!m.apply, &m.time, &m.name, &m.api_version, &m.subresource)
    }
    managers.sort_by(|a, b| order(a).cmp(&order(b)));
    let entries: Vec<Entry<'_>> = managers
        .iter()
        .map(|manager| Entry {
            manager: Some(manager.name.as_str().into()),
            operation: if manager.apply { "Apply" } else { "Update" }.into(),
            api_version: manager.api_version.as_str().into(),
            subresource: manager.subresource.as_str().into(),
            time: manager.time.as_str().into(),
            fields_type: "FieldsV1",
            fields_v1: Cow::Borrowed(&manager.fields),
        })
        .collect();
    // Keys are strings, so that writing cannot fail.
    (!entries.is_empty()).then(|| serde_json::to_vec(&entries).unwrap_or_default().into())
}

/// Attributes a plain write: what it changed is now the writer's.
pub(crate) fn record_update(
    kind: &Kind,
    old: Option<&Object>,
    new: &mut Object,
    manager: &str,
    subresource: &str,
    now: Timestamp,
) {
    let before = old.and_then(|old| old.managed.as_ref());
    // This is how a client resets managedFields.
    let reset = new.managed.as_deref() == Some(b"[{}]");
    let given = read(new.managed.as_ref());
    let as_before = given.is_none() || new.managed.as_ref() == before;
    let managers = match given {
        Some(managers) => managers,
        None if reset && old.is_some() => {
            new.managed = None;
            return;
        }
        None => read(before).unwrap_or_default(),
    };
    let mut comparison = compare(kind, old.map(|old| &old.value), &new.value);
    if kind.is_builtin() {
        comparison.changed.forget_structs();
    }
    let me = Manager::new(manager, false, kind.api_version(), subresource, now);
    // Most writes change fields that the writer owns already.
    new.managed = if as_before && is_owner(&managers, &me, &comparison) {
        before.cloned()
    } else {
        attribute(managers, me, &comparison)
    };
}

/// Whether a manager owns all changed fields already, and no other manager owns any.
fn is_owner(managers: &[Manager], me: &Manager, comparison: &Comparison) -> bool {
    let Comparison { changed, removed } = comparison;
    comparison.is_empty()
        || (managers.iter().any(|m| m.same(me) && m.fields.covers(changed))
            && managers.iter().all(|m| {
                !m.fields.overlaps(removed) && (m.same(me) || !m.fields.overlaps(changed))
            }))
}

fn attribute(mut managers: Vec<Manager>, me: Manager, comparison: &Comparison) -> Option<Bytes> {
    take(&mut managers, &me, comparison);
    let at = managers.iter().position(|m| m.same(&me)).unwrap_or_else(|| {
        managers.push(me.clone());
        managers.len() - 1
    });
    let mine = &mut managers[at];
    let before = mine.fields.clone();
    mine.fields.subtract(&comparison.removed);
    mine.fields.union(&comparison.changed);
    if mine.fields != before {
        mine.time = me.time;
    }
    cap(&mut managers);
    write(managers)
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

/// Whether two states of managed fields differ in times only.
pub(crate) fn same_but_times(old: Option<&Bytes>, new: Option<&Bytes>) -> bool {
    if old == new {
        return true;
    }
    let timeless = |managed| {
        let mut managers = read(managed)?;
        managers.iter_mut().for_each(|manager| manager.time.clear());
        Some(managers)
    };
    let old = timeless(old);
    old.is_some() && old == timeless(new)
}
