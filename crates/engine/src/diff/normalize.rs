//! Normalizes equivalent notations (SE-155, SE-156, SE-160 … SE-168).
//!
//! Works on one object without the other side, so that it can be applied to target, live
//! and last-applied alike. Idempotent. Does not set defaults: see `defaults`.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::definition;
use super::encoded::{authorities, encoded_map, unwrap_lines};
use super::known_types::KnownType;
use super::quantity;
use super::system::SystemSettings;
use wavegate_api::annotations::LAST_APPLIED;
use wavegate_api::glob;
use wavegate_api::kind::{GroupVersionKind, KindRef};

/// Fields that the server sets on every object, never a difference (SE-160, SE-161).
const SERVER_FIELDS: [&str; 6] =
    ["creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"];

/// Purpose of normalizing an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To be merged into live: explicit null, empty or zero values are kept.
    Apply,
    /// To be compared: values that a built-in type omits are removed. Nulls are handled
    /// by [`strip_nulls`].
    Compare,
}

/// Normalises an object in place.
pub fn normalize_object(object: &mut Value, purpose: Purpose, system: &SystemSettings) {
    let compare = purpose == Purpose::Compare;
    let kind = GroupVersionKind::of(object);
    let kind = kind.borrowed();

    canonicalize_numbers(object);
    strip_server_fields(object);
    if let Some(root) = object.as_object_mut().filter(|_| system.status.covers(kind)) {
        root.remove("status");
    }
    match (kind.group, kind.kind) {
        ("", "Secret") => secret(object),
        ("", "ConfigMap") => encoded_map(object, "binaryData"),
        ("admissionregistration.k8s.io" | "apiextensions.k8s.io" | "apiregistration.k8s.io", _) => {
            authorities(object)
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            object.pointer_mut("/spec/request").into_iter().for_each(unwrap_lines);
        }
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
            role(object, system.ignores_aggregated_roles);
        }
        _ => {}
    }
    if let Some(metadata) = object.get_mut("metadata").filter(|_| compare) {
        drop_empty_metadata(metadata);
    }
    if kind.is_built_in() {
        quantities(object);
        if compare {
            drop_empty(object, "");
            drop_empty_in(object, kind);
        }
    }
    if kind.group.is_empty() && kind.kind == "Endpoints" {
        // Last, since the order depends on the final texts.
        endpoints(object);
    }
    if (kind.group, kind.kind) == ("argoproj.io", "Rollout")
        && let Some(pod) = object.pointer_mut("/spec/template/spec")
    {
        // The same type as in a Deployment (SE-168).
        as_core_type(pod, compare);
    }
    for field in &system.known_fields {
        if glob::glob_allows(&field.group, kind.group, None)
            && glob::glob_allows(&field.kind, kind.kind, None)
        {
            let names: Vec<&str> = field.path.iter().map(String::as_str).collect();
            each(object, &names, &mut |value| as_type(field.of, value, compare));
        }
    }
}

/// Normalizes a value that has a type of the core group.
fn as_core_type(value: &mut Value, compare: bool) {
    quantities(value);
    if compare {
        drop_empty(value, "");
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

/// Writes a value as the server prints it, such as `100m` for `0.1`. `compare` also removes what
/// the type omits.
fn as_type(of: KnownType, value: &mut Value, compare: bool) {
    match (of, value) {
        // A type of a list is that of its elements.
        (of, Value::Array(list)) => {
            list.iter_mut().for_each(|element| as_type(of, element, compare));
        }
        (KnownType::Core, value) => as_core_type(value, compare),
        (KnownType::Quantities, value) => quantity_map(value),
        (KnownType::Quantity, value) => quantity::canonicalize(value),
        (KnownType::Duration, value) => duration(value),
    }
}

/// A duration as Go prints it; what is none stays.
fn duration(value: &mut Value) {
    let read = value.as_str().and_then(|text| gotime::duration::parse(text).ok());
    if let Some(read) = read {
        *value = gotime::duration::print_duration(read).into();
    }
}

fn strip_server_fields(object: &mut Value) {
    let Some(root) = object.as_object_mut() else { return };
    let Some(metadata) = root.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.retain(|key, _| !SERVER_FIELDS.contains(&key.as_str()));
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
}

/// Removes explicit nulls from objects, at any depth, and returns whether there was one. Nulls in
/// lists are elements and are kept.
pub fn strip_nulls(value: &mut Value) -> bool {
    let mut has_nulls = false;
    match value {
        Value::Object(map) => {
            for child in map.values_mut() {
                has_nulls |= child.is_null() || strip_nulls(child);
            }
            if has_nulls {
                map.retain(|_, child| !child.is_null());
            }
        }
        Value::Array(list) => {
            for element in list {
                has_nulls |= strip_nulls(element);
            }
        }
        _ => {}
    }
    has_nulls
}

/// Writes whole numbers as integers: `1.0` equals `1` (SE-156).
fn canonicalize_numbers(value: &mut Value) {
    /// Beyond this, a float cannot represent every integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() < EXACT {
                *value = Value::from(float as i64);
            }
        }
        Value::Object(map) => map.values_mut().for_each(canonicalize_numbers),
        Value::Array(list) => list.iter_mut().for_each(canonicalize_numbers),
        _ => {}
    }
}

/// A Secret as the server stores it; other objects as they are. The server says of `data` who owns
/// what in it.
pub fn as_stored(object: &Value) -> Cow<'_, Value> {
    let kind = KindRef::of(object);
    if !kind.group.is_empty() || kind.kind != "Secret" {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    secret(&mut object);
    Cow::Owned(object)
}

/// SE-164: `stringData` is merged into `data`.
fn secret(object: &mut Value) {
    let Some(root) = object.as_object_mut() else { return };
    if let Some(Value::Object(plain)) = root.remove("stringData") {
        let data = root.entry("data").or_insert_with(|| Value::Object(Map::new()));
        if data.is_null() {
            *data = Value::Object(Map::new());
        }
        if let Some(data) = data.as_object_mut() {
            for (key, value) in plain {
                let encoded = match value {
                    Value::String(text) => Value::String(STANDARD.encode(text)),
                    Value::Null => Value::String(String::new()),
                    // Not a string: kept, so that the apply fails visibly.
                    other => other,
                };
                data.insert(key, encoded);
            }
        }
    }
    if let Some(data) = root.get_mut("data").and_then(Value::as_object_mut) {
        for value in data.values_mut().filter(|value| value.is_null()) {
            *value = Value::String(String::new());
        }
    }
    encoded_map(object, "data");
}

/// SE-165: the rules of an aggregated role are those of others, by a setting.
fn role(object: &mut Value, ignores_aggregated: bool) {
    let Some(root) = object.as_object_mut().filter(|_| ignores_aggregated) else { return };
    if root.get("aggregationRule").is_some_and(Value::is_object) {
        root.remove("rules");
    }
}

/// SE-166: the API server reorders subsets, addresses and ports.
fn endpoints(object: &mut Value) {
    let Some(subsets) = object.get_mut("subsets").and_then(Value::as_array_mut) else { return };
    for subset in subsets.iter_mut() {
        strip_nulls(subset);
        for port in subset.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(port) = port.as_object_mut() {
                port.entry("protocol").or_insert_with(|| "TCP".into());
            }
        }
        for list in ["addresses", "notReadyAddresses", "ports"] {
            if let Some(list) = subset.get_mut(list).and_then(Value::as_array_mut) {
                list.sort_by_cached_key(Value::to_string);
            }
        }
    }
    subsets.sort_by_cached_key(Value::to_string);
}

/// Metadata has the same Go type in all kinds, which omits empty maps and lists.
fn drop_empty_metadata(metadata: &mut Value) {
    let Some(metadata) = metadata.as_object_mut() else { return };
    let fields = ["annotations", "labels", "finalizers", "ownerReferences"];
    metadata.retain(|key, value| {
        let empty = match &*value {
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => false,
        };
        !(empty && fields.contains(&key.as_str()))
    });
}

/// Objects whose values are free text, where an empty string is a value.
const TEXT_MAPS: [&str; 11] = [
    "annotations",
    "attributes",
    "binaryData",
    "data",
    "labels",
    "matchLabels",
    "nodeSelector",
    "options",
    "parameters",
    "stringData",
    "volumeAttributes",
];

/// Objects that are a plain struct or an omitted map in Go, so that `{}` equals absent.
/// Others keep it: an empty selector selects everything.
const EMPTY_OBJECTS: [&str; 18] = [
    "annotations",
    "binaryData",
    "data",
    "deprecatedTopology",
    "hard",
    "labels",
    "limits",
    "loadBalancer",
    "matchLabels",
    "metadata",
    "nodeSelector",
    "options",
    "requests",
    "resources",
    "status",
    "strategy",
    "updateStrategy",
    "volumeAttributes",
];

/// Numbers and booleans that Go omits when they are zero or false. Others are pointers in
/// Go, where zero differs from absent.
const OMITTED_WHEN_ZERO: [&str; 25] = [
    "chapAuthDiscovery",
    "chapAuthSession",
    "clusterScope",
    "deprecated",
    "globalDefault",
    "healthCheckNodePort",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostPort",
    "initialDelaySeconds",
    "insecureSkipTLSVerify",
    "minReadySeconds",
    "nodePort",
    // A pointer in a StatefulSet, where zero is the default anyway.
    "partition",
    "paused",
    "preserveUnknownFields",
    // A pointer in a Pod, where zero is the default anyway.
    "priority",
    "publishNotReadyAddresses",
    "readOnly",
    "sslEnabled",
    "stdin",
    "stdinOnce",
    "tty",
    "unschedulable",
];

/// Strings that are pointers in Go: an empty storage class means none, an absent one the
/// default.
const TEXT_POINTERS: [&str; 1] = ["storageClassName"];

/// Removes values that the typed encoding of a built-in kind omits (SE-155), children
/// first. A field that the type does not have is kept, and so always differs.
fn drop_empty(value: &mut Value, field: &str) {
    // Schemas contain examples and defaults of any shape.
    if TEXT_MAPS.contains(&field) || field == "openAPIV3Schema" {
        return;
    }
    match value {
        Value::Object(map) => {
            for (key, child) in map.iter_mut() {
                drop_empty(child, key);
            }
            map.retain(|key, child| !is_omitted(key, child));
        }
        Value::Array(list) => list.iter_mut().for_each(|child| drop_empty(child, "")),
        _ => {}
    }
}

fn is_omitted(field: &str, value: &Value) -> bool {
    match value {
        Value::Array(list) => list.is_empty(),
        Value::String(text) => text.is_empty() && !TEXT_POINTERS.contains(&field),
        Value::Object(map) => map.is_empty() && EMPTY_OBJECTS.contains(&field),
        Value::Bool(set) => !set && OMITTED_WHEN_ZERO.contains(&field),
        Value::Number(number) => number.as_i64() == Some(0) && OMITTED_WHEN_ZERO.contains(&field),
        Value::Null => false,
    }
}

/// Removes what is omitted in some kinds only: the same name is a pointer in others, where empty
/// is a value.
fn drop_empty_in(object: &mut Value, kind: KindRef<'_>) {
    match (kind.group, kind.kind) {
        ("", "Service" | "ReplicationController") => {
            drop_empty_map(object, &["spec"], "selector");
        }
        ("storage.k8s.io", "StorageClass" | "VolumeAttributesClass") => {
            drop_empty_map(object, &[], "parameters");
        }
        ("", "PersistentVolume") => {
            // A pointer in a claim only.
            if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
                && spec.get("storageClassName").is_some_and(|class| class == "")
            {
                spec.remove("storageClassName");
            }
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition::drop_empty(object),
        ("", "LimitRange") => {
            let fields = ["default", "defaultRequest", "max", "maxLimitRequestRatio", "min"];
            let limits = object.pointer_mut("/spec/limits").and_then(Value::as_array_mut);
            for limit in limits.into_iter().flatten() {
                fields.iter().for_each(|field| drop_empty_map(limit, &[], field));
            }
        }
        _ => {}
    }
    if let Some(spec) = kind.pod_spec() {
        drop_empty_map(object, spec, "overhead");
    }
}

fn drop_empty_map(object: &mut Value, path: &[&str], field: &str) {
    each(object, path, &mut |parent| {
        if let Some(map) = parent.as_object_mut()
            && map.get(field).and_then(Value::as_object).is_some_and(Map::is_empty)
        {
            map.remove(field);
        }
    });
}

/// Fields with a map of quantities, anywhere in built-in kinds.
const QUANTITY_MAPS: [&str; 12] = [
    "allocatable",
    "capacity",
    "default",
    "defaultRequest",
    "hard",
    "limits",
    "max",
    "maxLimitRequestRatio",
    "min",
    "overhead",
    "podFixed",
    "requests",
];

/// Fields with one quantity.
const QUANTITIES: [&str; 3] = ["averageValue", "divisor", "sizeLimit"];

fn quantities(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, child) in map.iter_mut() {
                // Strings there are not quantities.
                if TEXT_MAPS.contains(&key.as_str()) || key == "openAPIV3Schema" {
                    continue;
                }
                if QUANTITIES.contains(&key.as_str()) {
                    quantity::canonicalize(child);
                } else if QUANTITY_MAPS.contains(&key.as_str()) && child.is_object() {
                    quantity_map(child);
                    // The overhead of a RuntimeClass has its quantities in a field.
                    quantities(child);
                } else if key == "target" {
                    // The target of a metric; an env value of that name is elsewhere.
                    child.get_mut("value").into_iter().for_each(quantity::canonicalize);
                    quantities(child);
                } else {
                    quantities(child);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(quantities),
        _ => {}
    }
}

fn quantity_map(value: &mut Value) {
    value.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(quantity::canonicalize);
}
