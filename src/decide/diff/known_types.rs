//! Fields of custom resources that have the type of a built-in kind (SE-168): their values are
//! compared as the server prints them, such as `100m` for `0.1`.

use serde_json::Value;

use super::{normalize, quantity};

/// The names of the types of `core/v1`, separated by white space.
const CORE_TYPES: &str = include_str!("core_types.txt");

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownType {
    /// A type of `core/v1`, such as `PodSpec`.
    Core,
    /// `core/v1/ResourceList`: a map of quantities.
    Quantities,
    /// `core/Quantity`.
    Quantity,
    /// `meta/v1/Duration`.
    Duration,
}

impl KnownType {
    /// A type by its name in the settings; `None` for one that is not known.
    pub fn parse(name: &str) -> Option<Self> {
        match name.rsplit_once('/')? {
            ("core", "Quantity") => Some(Self::Quantity),
            ("meta/v1", "Duration") => Some(Self::Duration),
            ("core/v1", "ResourceList") => Some(Self::Quantities),
            ("core/v1", name) => {
                let is_known = CORE_TYPES.split_whitespace().any(|known| known == name);
                is_known.then_some(Self::Core)
            }
            _ => None,
        }
    }
}

/// A field with a known type, of all objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownField {
    /// Glob of the API group.
    pub group: String,
    /// Glob of the kind.
    pub kind: String,
    /// The names of the fields from the root; lists on the way are descended.
    pub path: Vec<String>,
    /// Its type.
    pub of: KnownType,
}

impl KnownField {
    /// Writes the values of the field as the server prints them. `compare` also removes what the
    /// type omits.
    pub(super) fn normalize(&self, object: &mut Value, compare: bool) {
        let names: Vec<&str> = self.path.iter().map(String::as_str).collect();
        each(object, &names, &mut |value| encode(self.of, value, compare));
    }
}

/// Calls `change` for the values at a path; lists are descended.
fn each(value: &mut Value, path: &[&str], change: &mut impl FnMut(&mut Value)) {
    let Some((name, rest)) = path.split_first() else { return change(value) };
    match value {
        Value::Array(list) => list.iter_mut().for_each(|element| each(element, path, change)),
        Value::Object(map) => {
            if let Some(child) = map.get_mut(*name) {
                each(child, rest, change);
            }
        }
        _ => {}
    }
}

fn encode(of: KnownType, value: &mut Value, compare: bool) {
    match (of, value) {
        // A type of a list is that of its elements.
        (of, Value::Array(list)) => {
            list.iter_mut().for_each(|element| encode(of, element, compare));
        }
        (KnownType::Core, value) => normalize::as_core_type(value, compare),
        (KnownType::Quantities, value) => normalize::quantity_map(value),
        (KnownType::Quantity, value) => quantity::canonicalize(value),
        (KnownType::Duration, value) => duration(value),
    }
}

/// A duration as Go prints it; what is none stays.
fn duration(value: &mut Value) {
    let read = value.as_str().and_then(|text| gotime::duration::parse(text).ok());
    if let Some(read) = read {
        *value = gotime::duration::print(read).into();
    }
}
