//! Validation: custom objects against their schema, names, metadata.
//!
//! Gives causes in the words of the real API server; never changes an object.

use std::collections::HashSet;
use std::fmt;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::errors::{Cause, Causes};
use super::schema::{ListType, Path, Schema};

/// More causes than this are not collected; the first ones say enough.
const MAX_CAUSES: usize = 50;

/// Checks an object of a custom kind. Fields at the top that are as in `old` are
/// not checked again.
pub(crate) fn custom(schema: &Schema, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Causes::default();
    check(schema, object, old, &Path::Root, &mut causes);
    causes.0
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn type_fits(schema: &Schema, value: &Value) -> bool {
    if schema.int_or_string {
        return matches!(type_of(value), "integer" | "string");
    }
    match schema.kind.as_str() {
        "" => true,
        // 1.0 is an integer too.
        "integer" => value.as_f64().is_some_and(|n| n.fract() == 0.0),
        "number" => value.is_number(),
        kind => type_of(value) == kind,
    }
}

fn check(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    if causes.0.len() >= MAX_CAUSES {
        return;
    }
    if value.is_null() && (schema.nullable || schema.kind.is_empty()) {
        return;
    }
    if !type_fits(schema, value) {
        causes.0.push(wrong_type(schema, value, path));
        return;
    }
    if let Some(allowed) = &schema.allowed
        && !allowed.contains(value)
    {
        let names: Vec<String> = allowed
            .iter()
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        causes.unsupported(path.to_string(), value, &names);
    }
    match value {
        Value::Object(map) => check_map(schema, map, value, old, path, causes),
        Value::Array(list) => {
            count(schema.min_items, schema.max_items, list.len(), "items", value, path, causes);
            unique(schema, list, path, causes);
            if let Some(items) = &schema.items {
                for (i, child) in list.iter().enumerate() {
                    check(items, child, None, &path.item(i), causes);
                }
            }
        }
        Value::String(text) => check_text(schema, text, value, path, causes),
        Value::Number(_) => check_number(schema, value, path, causes),
        Value::Null | Value::Bool(_) => {}
    }
    check_combinations(schema, value, path, causes);
}

/// Refuses a value of a body.
fn refuse(causes: &mut Causes, path: &Path<'_>, value: &Value, what: fmt::Arguments<'_>) {
    causes.invalid(path.to_string(), value, format!("{path} in body {what}"));
}

fn wrong_type(schema: &Schema, value: &Value, path: &Path<'_>) -> Cause {
    let path = path.to_string();
    let at = if path.is_empty() { "<nil>" } else { &path };
    let wanted = if schema.int_or_string { "integer,string" } else { schema.kind.as_str() };
    let shown = Value::String(type_of(value).to_owned());
    let detail = format!("{at} in body must be of type {wanted}: {shown}");
    let mut cause = Cause::invalid(path.as_str(), &shown, detail);
    cause.reason = "FieldValueTypeInvalid";
    cause
}

fn check_map(
    schema: &Schema,
    map: &Map<String, Value>,
    value: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    for name in schema.required.iter().filter(|name| !map.contains_key(*name)) {
        causes.required(path.field(name).to_string(), "");
    }
    let (min, max) = (schema.min_properties, schema.max_properties);
    count(min, max, map.len(), "properties", value, path, causes);
    let root = matches!(path, Path::Root);
    for (key, child) in map {
        if root && matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
            continue;
        }
        if old.is_some_and(|old| old.get(key) == Some(child)) {
            continue;
        }
        if let Some(known) = schema.field(key) {
            check(known, child, None, &path.field(key), causes);
        }
    }
}

fn unique(schema: &Schema, list: &[Value], path: &Path<'_>, causes: &mut Causes) {
    let keys = match &schema.list_type {
        ListType::Map(keys) => Some(keys),
        ListType::Set => None,
        ListType::Atomic if schema.unique_items => None,
        ListType::Atomic => return,
    };
    let identity = |item| match keys {
        Some(keys) => keys.iter().map(|key| Value::get(item, key)).collect(),
        None => vec![Some(item)],
    };
    let mut seen = HashSet::with_capacity(list.len());
    for (i, item) in list.iter().enumerate() {
        if !seen.insert(identity(item)) {
            let message = format!("Duplicate value: {item}");
            causes.add("FieldValueDuplicate", path.item(i).to_string(), message);
        }
    }
}

fn count(
    min: Option<u64>,
    max: Option<u64>,
    len: usize,
    what: &str,
    value: &Value,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let len = len as u64;
    if let Some(max) = max.filter(|m| len > *m) {
        let message = format!("Too many: {len}: must have at most {max} {what}");
        causes.add("FieldValueTooMany", path.to_string(), message);
    }
    if let Some(min) = min.filter(|m| len < *m) {
        refuse(causes, path, value, format_args!("should have at least {min} {what}"));
    }
}

fn check_text(schema: &Schema, text: &str, value: &Value, path: &Path<'_>, causes: &mut Causes) {
    let len = text.chars().count() as u64;
    if let Some(max) = schema.max_length.filter(|m| len > *m) {
        let message = format!("Too long: may not be more than {max} bytes");
        causes.add("FieldValueTooLong", path.to_string(), message);
    }
    if let Some(min) = schema.min_length.filter(|m| len < *m) {
        refuse(causes, path, value, format_args!("should be at least {min} chars long"));
    }
    if let Some(pattern) = schema.pattern.as_ref().filter(|p| !p.is_match(text)) {
        let detail = format!("{path} in body should match '{}'", pattern.as_str());
        causes.invalid(path.to_string(), value, detail);
    }
    if schema.format == "date-time" && !is_date_time(text) {
        refuse(causes, path, value, format_args!("must be of type date-time: {value}"));
    }
}

/// Whether the real API server takes a text for a time: it checks neither the range of the offset
/// nor what follows another "t".
fn is_date_time(text: &str) -> bool {
    static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let hours = "([01][0-9]|2[0-3])";
        let pattern =
            format!("^{hours}:[0-5][0-9]:[0-5][0-9](.[0-9]+)?(z|[+-][0-9]{{2}}:[0-9]{{2}})$");
        Regex::new(&pattern).ok()
    });
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let is_date = date.len() == "2006-01-02".len() && date.parse::<jiff::civil::Date>().is_ok();
    is_date && TIME.as_ref().is_some_and(|pattern| pattern.is_match(time))
}

fn check_number(schema: &Schema, value: &Value, path: &Path<'_>, causes: &mut Causes) {
    let Some(n) = value.as_f64() else { return };
    if let Some(max) = schema.maximum
        && (n > max || (schema.exclusive_maximum && n >= max))
    {
        let relation = if schema.exclusive_maximum { "less than" } else { "less than or equal to" };
        refuse(causes, path, value, format_args!("should be {relation} {max}"));
    }
    if let Some(min) = schema.minimum
        && (n < min || (schema.exclusive_minimum && n <= min))
    {
        let relation =
            if schema.exclusive_minimum { "greater than" } else { "greater than or equal to" };
        refuse(causes, path, value, format_args!("should be {relation} {min}"));
    }
    if let Some(step) = schema.multiple_of.filter(|s| *s > 0.0)
        && (n / step).fract() != 0.0
    {
        refuse(causes, path, value, format_args!("should be a multiple of {step}"));
    }
}

fn check_combinations(schema: &Schema, value: &Value, path: &Path<'_>, causes: &mut Causes) {
    let fits = |branch: &Schema| {
        let mut found = Causes::default();
        check(branch, value, None, path, &mut found);
        found.0.is_empty()
    };
    for branch in &schema.all_of {
        check(branch, value, None, path, causes);
    }
    if !schema.any_of.is_empty() && !schema.any_of.iter().any(fits) {
        refuse(causes, path, value, format_args!("must validate at least one schema (anyOf)"));
    }
    if !schema.one_of.is_empty() && schema.one_of.iter().filter(|b| fits(b)).count() != 1 {
        refuse(causes, path, value, format_args!("must validate one and only one schema (oneOf)"));
    }
    if schema.not.as_ref().is_some_and(|branch| fits(branch)) {
        refuse(causes, path, value, format_args!("must not validate the schema (not)"));
    }
}

/// Whether a text begins and ends with one of some bytes, and has only these and `others`.
fn is_word(text: &str, fine: fn(&u8) -> bool, others: &[u8]) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().all(|b| fine(b) || others.contains(b))
        && bytes.first().is_some_and(fine)
        && bytes.last().is_some_and(fine)
}

fn is_label(text: &str) -> bool {
    is_word(text, |b| b.is_ascii_lowercase() || b.is_ascii_digit(), b"-")
}

/// Lower-case letters, digits and `-`, at most 63, starting and ending with a letter or digit.
pub(crate) fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_label(text)
}

/// Dot-separated labels, at most 253 characters in all.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// The name part of a label or annotation key, or a label's value when not empty.
fn is_qualified_part(text: &str) -> bool {
    text.len() <= 63 && is_word(text, u8::is_ascii_alphanumeric, b"-_.")
}

fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_qualified_part(name),
        None => is_qualified_part(text),
    }
}

/// At most this many bytes of annotations on one object.
const ANNOTATION_BYTES: usize = 256 << 10;

/// Checks labels, annotations, finalizers and owners.
pub(crate) fn metadata(object: &Value) -> Vec<Cause> {
    let mut causes = Causes::default();
    let meta = &object["metadata"];
    for (key, value) in meta["labels"].as_object().into_iter().flatten() {
        if !is_qualified_name(key) {
            let key = Value::String(key.clone());
            causes.invalid("metadata.labels", &key, "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character");
        }
        let text = value.as_str().unwrap_or_default();
        if !text.is_empty() && !is_qualified_part(text) {
            causes.invalid("metadata.labels", value, "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character");
        }
    }
    let mut bytes = 0;
    for (key, value) in meta["annotations"].as_object().into_iter().flatten() {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        if !is_qualified_name(&key.to_lowercase()) {
            let key = Value::String(key.clone());
            causes.invalid("metadata.annotations", &key, "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character");
        }
    }
    if bytes > ANNOTATION_BYTES {
        let message = format!("Too long: must have at most {ANNOTATION_BYTES} bytes");
        causes.add("FieldValueTooLong", "metadata.annotations", message);
    }
    for (i, finalizer) in meta["finalizers"].as_array().into_iter().flatten().enumerate() {
        if !finalizer.as_str().is_some_and(is_qualified_name) {
            causes.invalid(
                format!("metadata.finalizers[{i}]"),
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            );
        }
    }
    let mut controllers = 0;
    for (i, owner) in meta["ownerReferences"].as_array().into_iter().flatten().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                let shown = Value::String(String::new());
                causes.invalid(
                    format!("metadata.ownerReferences[{i}].{field}"),
                    &shown,
                    format!("{field} must not be empty"),
                );
            }
        }
        controllers += usize::from(owner["controller"] == true);
    }
    if controllers > 1 {
        let refs = &meta["ownerReferences"];
        causes.invalid(
            "metadata.ownerReferences",
            refs,
            "Only one reference can have Controller set to true",
        );
    }
    causes.0
}
