//! Fields of an object, and their defaults.

use serde_json::{Map, Value};

pub(super) type Object = Map<String, Value>;

/// Sets a field that is absent.
pub(super) fn set(object: &mut Object, field: &str, value: impl Into<Value>) {
    if !object.contains_key(field) {
        object.insert(field.to_owned(), value.into());
    }
}

/// Sets a number that is absent or zero, which is the same for the server.
pub(super) fn set_count(object: &mut Object, field: &str, value: i64) {
    if object.get(field).is_none_or(|found| found.as_i64() == Some(0)) {
        object.insert(field.to_owned(), value.into());
    }
}

/// Sets the fields that are absent, also of the objects in fields.
pub(super) fn fill(object: &mut Object, defaults: Value) {
    let Value::Object(defaults) = defaults else { return };
    for (field, default) in defaults {
        match (object.get_mut(&field), default) {
            (None, default) => set(object, &field, default),
            (Some(Value::Object(found)), default @ Value::Object(_)) => fill(found, default),
            (Some(_), _) => {}
        }
    }
}

/// The object in a field, where there is one.
pub(super) fn object<'a>(parent: &'a mut Object, field: &str) -> Option<&'a mut Object> {
    parent.get_mut(field)?.as_object_mut()
}

/// The object in a field, created when absent; `None` when the field has another type.
pub(super) fn object_or_new<'a>(parent: &'a mut Object, field: &str) -> Option<&'a mut Object> {
    set(parent, field, Value::Object(Object::new()));
    object(parent, field)
}

/// The objects of a list in a field.
pub(super) fn each<'a>(
    parent: &'a mut Object,
    field: &str,
) -> impl Iterator<Item = &'a mut Object> {
    let list = parent.get_mut(field).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

pub(super) fn is(object: &Object, field: &str, value: &str) -> bool {
    object.get(field).and_then(Value::as_str) == Some(value)
}

pub(super) fn walk<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut Object> {
    path.iter().try_fold(object, |here, field| here.get_mut(field))?.as_object_mut()
}
