//! Server-side apply: merges a configuration, keeps the managers, finds conflicts.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::super::errors::{ApiError, Cause};
use super::super::field_set::{FieldSet, compare, element, fields_of};
use super::super::kinds::Kind;
use super::super::managed_fields::{self as managed, Manager};
use super::super::schema::ListType;
use super::super::stored::Object;
use super::order::reorder;
use super::shape::Shape;

/// What an apply request says about itself.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub manager: &'a str,
    pub subresource: &'a str,
    pub force: bool,
    pub now: Timestamp,
}

/// The object that results from applying a configuration, with its managers.
///
/// `live` is absent when the object is to be created.
///
/// # Errors
///
/// `Conflict` with one cause per field that another manager owns, unless forced.
pub(crate) fn apply(
    kind: &Kind,
    live: Option<&Object>,
    config: &Value,
    request: &Request<'_>,
) -> Result<Object, ApiError> {
    let shape = Shape::root(kind);
    let mut managers =
        live.and_then(|live| managed::read(live.managed.as_ref())).unwrap_or_default();
    if let Some(live) = live.filter(|_| managers.is_empty()) {
        // The owners of the existing fields are unknown: one manager stands for them.
        let mut before =
            Manager::new("before-first-apply", false, kind.api_version(), "", request.now);
        before.fields = fields_of(shape, &live.value);
        before.fields.strip();
        managers.push(before);
    }

    let mut me =
        Manager::new(request.manager, true, kind.api_version(), request.subresource, request.now);
    let config = relevant(kind, config, request.subresource);
    me.fields = fields_of(shape, &config);
    me.fields.strip();

    let mut merged = live.map_or_else(|| json!({}), |live| live.value.clone());
    merge(shape, &mut merged, &config);
    if let Some(last) = managers.iter().find(|m| m.same(&me)) {
        let mut owned = me.fields.clone();
        for other in managers.iter().filter(|m| !m.same(&me)) {
            owned.union(&other.fields);
        }
        prune(shape, &mut merged, &last.fields, &owned);
    }

    let comparison = compare(kind, live.map(|live| &live.value), &merged);
    if !request.force {
        let causes = conflicts(&managers, &me, &comparison.changed);
        if !causes.is_empty() {
            return Err(ApiError::apply_conflict(causes));
        }
    }
    managed::take(&mut managers, &me, &comparison);
    match managers.iter_mut().find(|m| m.same(&me)) {
        Some(mine) => {
            if mine.fields == me.fields && mine.api_version == me.api_version {
                me.time.clone_from(&mine.time);
            }
            *mine = me;
        }
        None => managers.push(me),
    }
    Ok(Object { value: merged, managed: managed::write(managers) })
}

/// What would be taken from other managers.
fn conflicts(managers: &[Manager], me: &Manager, changed: &FieldSet) -> Vec<Cause> {
    let mut causes = Vec::new();
    for other in managers.iter().filter(|m| !m.same(me)) {
        for path in other.fields.intersection(changed).paths() {
            let mut message = format!("conflict with {:?}", other.name);
            if !other.subresource.is_empty() {
                message = format!("{message} with subresource {:?}", other.subresource);
            }
            if !other.apply {
                message = format!("{message} using {}", other.api_version);
            }
            causes.push(Cause::new("FieldManagerConflict", path, message));
        }
    }
    causes
}

/// The part of a configuration that the endpoint takes.
fn relevant(kind: &Kind, config: &Value, subresource: &str) -> Value {
    let mut config = config.clone();
    if let Some(map) = config.as_object_mut() {
        if subresource == "status" {
            map.retain(|k, _| matches!(k.as_str(), "apiVersion" | "kind" | "status"));
        } else if kind.status {
            map.remove("status");
        }
    }
    config
}

/// Merges a configuration into an object.
fn merge(shape: Shape<'_>, target: &mut Value, config: &Value) {
    match config {
        Value::Object(map) if !shape.atomic_map() => {
            if !target.is_object() {
                *target = Value::Object(Map::new());
            }
            let Some(target) = target.as_object_mut() else { return };
            for (key, value) in map {
                merge(shape.field(key), target.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        Value::Array(list) if shape.list_type() != ListType::Atomic => {
            let kind = shape.list_type();
            if !target.is_array() {
                *target = json!([]);
            }
            let Some(target) = target.as_array_mut() else { return };
            for item in list {
                let id = element(shape, &kind, item);
                let found = id.and_then(|id| {
                    target
                        .iter()
                        .position(|t| element(shape, &kind, t).as_deref() == Some(id.as_str()))
                });
                match found {
                    Some(i) if matches!(kind, ListType::Map(_)) => {
                        merge(shape.item(), &mut target[i], item)
                    }
                    Some(_) => {}
                    None => target.push(item.clone()),
                }
            }
            let wanted: Vec<Option<String>> =
                list.iter().map(|item| element(shape, &kind, item)).collect();
            reorder(target, |item| {
                let id = element(shape, &kind, item);
                wanted.iter().position(|wanted| *wanted == id)
            });
        }
        other => *target = other.clone(),
    }
}

/// Removes what was applied last time and has no owner any more.
fn prune(shape: Shape<'_>, value: &mut Value, last: &FieldSet, owned: &FieldSet) {
    for (path, was) in last.children() {
        let still = owned.get(path).filter(|o| !o.is_empty());
        if let Some(key) = path.strip_prefix("f:") {
            let Some(map) = value.as_object_mut() else { continue };
            match still {
                // The server's own metadata stay, whatever happens to labels and annotations.
                None if shape.is_root() && key == "metadata" => {
                    if let Some(metadata) = map.get_mut(key) {
                        prune(shape.field(key), metadata, was, &FieldSet::default());
                    }
                }
                None => {
                    map.remove(key);
                }
                Some(still) => {
                    if let Some(child) = map.get_mut(key)
                        && !was.is_leaf()
                    {
                        prune(shape.field(key), child, was, still);
                    }
                }
            }
        } else {
            let kind = shape.list_type();
            let Some(list) = value.as_array_mut() else { continue };
            let position =
                list.iter().position(|i| element(shape, &kind, i).as_deref() == Some(path));
            match (position, still) {
                (Some(i), None) => {
                    list.remove(i);
                }
                (Some(i), Some(still)) if !was.is_leaf() => {
                    prune(shape.item(), &mut list[i], was, still)
                }
                _ => {}
            }
        }
    }
}
