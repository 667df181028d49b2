//! The part of an object that an expression sees.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::known::Sees;

/// A part of an object: less to send, and the same for more objects.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Part<'a> {
    All(&'a Value),
    Fields(BTreeMap<&'a str, Self>),
}

/// What an expression sees of an object.
pub(super) fn part<'a>(object: &'a Value, sees: &Sees) -> Part<'a> {
    let (Some(places), Value::Object(fields)) = (sees, object) else { return Part::All(object) };
    let mut all = BTreeMap::new();
    for place in places.iter() {
        add_place(&mut all, fields, place);
    }
    Part::Fields(all)
}

/// Adds the value at a place. What is no object on the way there is added as it is, since it
/// decides whether the expression fails.
fn add_place<'a>(
    all: &mut BTreeMap<&'a str, Part<'a>>,
    fields: &'a serde_json::Map<String, Value>,
    place: &[String],
) {
    let Some((name, rest)) = place.split_first() else { return };
    let Some((name, value)) = fields.get_key_value(name) else { return };
    match value {
        Value::Object(fields) if !rest.is_empty() => {
            let below = all.entry(name).or_insert_with(|| Part::Fields(BTreeMap::new()));
            if let Part::Fields(below) = below {
                add_place(below, fields, rest);
            }
        }
        value => drop(all.insert(name, Part::All(value))),
    }
}
