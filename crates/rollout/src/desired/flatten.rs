//! Parameter sets as flat maps of text (AS-045, AS-111).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use gotemplate::float_text;

use wavegate_api::selector::Selector;

/// Whether `selector` of a generator keeps a parameter set; the keys of nested values are
/// joined with dots, in both template modes.
pub(crate) fn matches(selector: &Selector, set: &Map<String, Value>) -> bool {
    selector.is_empty() || selector.selects(&flatten(set))
}

/// One entry per leaf; the keys of nested objects are joined with dots, those of lists are
/// indexes. Empty objects and lists have no entry.
pub(crate) fn flatten(set: &Map<String, Value>) -> BTreeMap<String, String> {
    let mut flat = BTreeMap::new();
    for (key, value) in set {
        add(key.clone(), value, &mut flat);
    }
    flat
}

fn add(key: String, value: &Value, flat: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(object) => {
            for (inner, value) in object {
                add(format!("{key}.{inner}"), value, flat);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                add(format!("{key}.{index}"), value, flat);
            }
        }
        leaf => {
            flat.insert(key, text(leaf));
        }
    }
}

/// A value as Go prints it with `%v` (AS-111).
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), float_text),
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(text).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(object) => {
            let sorted: BTreeMap<&String, &Value> = object.iter().collect();
            let entries: Vec<String> =
                sorted.into_iter().map(|(key, value)| format!("{key}:{}", text(value))).collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}
