//! Fields of a Service that the API server fills in, and keeps when they are set to nothing.

use serde_json::Value;

use wavegate_api::kind::KindRef;

const FIELDS: [&str; 6] = [
    "allocateLoadBalancerNodePorts",
    "clusterIP",
    "clusterIPs",
    "healthCheckNodePort",
    "ipFamilies",
    "ipFamilyPolicy",
];

/// Where a target sets such a field to nothing, as with `clusterIP: ""`, it has what live has.
pub(crate) fn keep(wanted: &mut Value, found: &Value) {
    let kind = KindRef::of(wanted);
    if !kind.group.is_empty() || kind.kind != "Service" {
        return;
    }
    let (Some(wanted), Some(found)) = (wanted.get_mut("spec"), found.get("spec")) else { return };
    FIELDS.iter().for_each(|field| keep_field(wanted, Some(found), field));
    let live = found.get("ports").and_then(Value::as_array);
    for port in wanted.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let same = live.into_iter().flatten().find(|one| key(one) == key(port));
        keep_field(port, same, "nodePort");
    }
}

fn keep_field(wanted: &mut Value, found: Option<&Value>, field: &str) {
    let Some(map) = wanted.as_object_mut() else { return };
    if !map.get(field).is_some_and(is_nothing) {
        return;
    }
    match found.and_then(|found| found.get(field)) {
        Some(value) => map.insert(field.to_owned(), value.clone()),
        None => map.remove(field),
    };
}

/// What identifies a port.
fn key(port: &Value) -> (Option<i64>, &str) {
    let protocol = port.get("protocol").and_then(Value::as_str).filter(|text| !text.is_empty());
    (port.get("port").and_then(Value::as_i64), protocol.unwrap_or("TCP"))
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        value => value.as_i64() == Some(0),
    }
}
