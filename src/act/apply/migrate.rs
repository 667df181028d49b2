//! From client-side to server-side apply: fields of the former manager become
//! ours, or they could never be removed again (SE-346).

use serde_json::{Map, Value, json};

/// The JSON patch that moves the fields of `from` to `to`; `None` when there
/// is nothing to move.
pub(super) fn patch(live: &Value, from: &str, to: &str) -> Option<Value> {
    let metadata = &live["metadata"];
    let entries = metadata["managedFields"].as_array()?;
    let is_former = |entry: &Value| {
        entry["manager"] == from
            && entry["operation"] == "Update"
            && entry["subresource"].as_str().unwrap_or_default().is_empty()
    };
    let former: Vec<&Value> = entries.iter().filter(|entry| is_former(entry)).collect();
    let first = former.first()?;
    let mut kept: Vec<Value> = entries.iter().filter(|entry| !is_former(entry)).cloned().collect();
    let ours = kept.iter().position(|entry| {
        entry["manager"] == to && entry["operation"] == "Apply" && entry["subresource"].is_null()
    });
    let at = ours.unwrap_or_else(|| {
        let mut entry = (*first).clone();
        entry["manager"] = to.into();
        entry["operation"] = "Apply".into();
        entry["fieldsV1"] = json!({});
        kept.push(entry);
        kept.len() - 1
    });
    let mut fields = kept[at]["fieldsV1"].take();
    for entry in former {
        fields = union(fields, &entry["fieldsV1"]);
    }
    kept[at]["fieldsV1"] = fields;
    Some(json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": kept},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
    ]))
}

fn union(into: Value, from: &Value) -> Value {
    let mut into = match into {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    for (key, value) in from.as_object().into_iter().flatten() {
        let old = into.remove(key).unwrap_or_else(|| json!({}));
        into.insert(key.clone(), union(old, value));
    }
    Value::Object(into)
}
