//! Structural schemas of CustomResourceDefinitions: reading, pruning, defaulting.
//!
//! Validation against them is in [`super::validate`]. CEL rules
//! (`x-kubernetes-validations`) are not evaluated.

use std::collections::BTreeMap;
use std::fmt;

use regex::Regex;
use serde_json::{Map, Value};

/// What `additionalProperties` allows.
#[derive(Clone, Debug, Default)]
pub(crate) enum Additional {
    /// Not said: unknown fields are pruned.
    #[default]
    Absent,
    /// `true`: anything.
    Any,
    Each(Box<Schema>),
}

/// How a list is merged by server-side apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// A compiled schema node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    pub kind: String,
    pub nullable: bool,
    pub int_or_string: bool,
    pub preserve_unknown: bool,
    pub embedded: bool,
    pub properties: BTreeMap<String, Schema>,
    pub additional: Additional,
    pub items: Option<Box<Schema>>,
    pub required: Vec<String>,
    pub default: Option<Value>,
    pub allowed: Option<Vec<Value>>,
    pub pattern: Option<Regex>,
    pub format: String,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub exclusive_minimum: bool,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub unique_items: bool,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    pub all_of: Vec<Schema>,
    pub any_of: Vec<Schema>,
    pub one_of: Vec<Schema>,
    pub not: Option<Box<Schema>>,
    pub list_type: ListType,
    pub atomic_map: bool,
}

/// Deeper schemas are cut off, as a guard against hostile input.
const MAX_DEPTH: usize = 64;

impl Schema {
    /// Reads an `openAPIV3Schema`. Parts that make no sense are ignored, except
    /// for a pattern that is no regular expression, which matches nothing it should.
    pub fn read(raw: &Value) -> Self {
        Self::read_at(raw, 0)
    }

    fn read_at(raw: &Value, depth: usize) -> Self {
        if depth > MAX_DEPTH {
            return Self { preserve_unknown: true, ..Self::default() };
        }
        let child = |value: &Value| Self::read_at(value, depth + 1);
        let list = |name: &str| {
            raw[name]
                .as_array()
                .map(|l| l.iter().map(child).collect::<Vec<_>>())
                .unwrap_or_default()
        };
        let flag = |name: &str| raw[name].as_bool().unwrap_or(false);
        let text = |name: &str| raw[name].as_str().unwrap_or_default().to_owned();
        let words = |name: &str| {
            raw[name]
                .as_array()
                .map(|l| l.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect::<Vec<_>>())
                .unwrap_or_default()
        };
        Self {
            kind: text("type"),
            nullable: flag("nullable"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            properties: raw["properties"]
                .as_object()
                .map(|p| p.iter().map(|(k, v)| (k.clone(), child(v))).collect())
                .unwrap_or_default(),
            additional: match &raw["additionalProperties"] {
                Value::Bool(true) => Additional::Any,
                Value::Object(_) => Additional::Each(Box::new(child(&raw["additionalProperties"]))),
                _ => Additional::Absent,
            },
            items: raw.get("items").map(|i| Box::new(child(i))),
            required: words("required"),
            default: raw.get("default").filter(|d| !d.is_null()).cloned(),
            allowed: raw["enum"].as_array().cloned(),
            pattern: raw["pattern"].as_str().and_then(|p| Regex::new(p).ok()),
            format: text("format"),
            minimum: raw["minimum"].as_f64(),
            maximum: raw["maximum"].as_f64(),
            exclusive_minimum: flag("exclusiveMinimum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            multiple_of: raw["multipleOf"].as_f64(),
            min_length: raw["minLength"].as_u64(),
            max_length: raw["maxLength"].as_u64(),
            min_items: raw["minItems"].as_u64(),
            max_items: raw["maxItems"].as_u64(),
            unique_items: flag("uniqueItems"),
            min_properties: raw["minProperties"].as_u64(),
            max_properties: raw["maxProperties"].as_u64(),
            all_of: list("allOf"),
            any_of: list("anyOf"),
            one_of: list("oneOf"),
            not: raw.get("not").map(|n| Box::new(child(n))),
            list_type: match raw["x-kubernetes-list-type"].as_str() {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map(words("x-kubernetes-list-map-keys")),
                _ => ListType::Atomic,
            },
            atomic_map: raw["x-kubernetes-map-type"] == "atomic",
        }
    }

    /// The schema of a field, when the field is known.
    pub fn field(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or(match &self.additional {
            Additional::Each(schema) => Some(schema),
            _ => None,
        })
    }

    /// Prunes an object and fills in its defaults. Both are done already in the fields at the top
    /// that are as in `old`, which are most of an object.
    pub fn normalise(&self, object: &mut Value, old: Option<&Value>, dropped: &mut Vec<String>) {
        let fields = object.as_object().into_iter().flatten();
        let done =
            fields.filter(|(field, value)| old.is_some_and(|o| o.get(*field) == Some(value)));
        let done: Vec<String> = done.map(|(field, _)| field.clone()).collect();
        self.prune_at(object, &Path::Root, true, &done, dropped);
        self.fill(object, &done);
    }

    /// Removes fields that the schema does not know and gives back their paths.
    pub fn prune(&self, object: &mut Value, dropped: &mut Vec<String>) {
        self.prune_at(object, &Path::Root, true, &[], dropped);
    }

    fn prune_at(
        &self,
        value: &mut Value,
        path: &Path<'_>,
        resource: bool,
        done: &[String],
        dropped: &mut Vec<String>,
    ) {
        // Metadata is the API server's own; the schema may only restrict the name.
        let own = |key: &str| resource && matches!(key, "apiVersion" | "kind" | "metadata");
        match value {
            Value::Object(map) => {
                if !self.preserve_unknown && matches!(self.additional, Additional::Absent) {
                    map.retain(|key, _| {
                        let known = self.properties.contains_key(key) || own(key);
                        if !known {
                            dropped.push(path.field(key).to_string());
                        }
                        known
                    });
                }
                let is_left = |key: &String| !own(key) && !done.contains(key);
                for (key, child) in map.iter_mut().filter(|(key, _)| is_left(key)) {
                    if let Some(schema) = self.field(key) {
                        schema.prune_at(child, &path.field(key), schema.embedded, &[], dropped);
                    }
                }
            }
            Value::Array(list) => {
                if let Some(items) = &self.items {
                    for (i, child) in list.iter_mut().enumerate() {
                        items.prune_at(child, &path.item(i), items.embedded, &[], dropped);
                    }
                }
            }
            _ => {}
        }
    }

    /// Fills in defaults of absent fields, and of null ones that may not be null.
    pub fn fill_defaults(&self, value: &mut Value) {
        self.fill(value, &[]);
    }

    fn fill(&self, value: &mut Value, done: &[String]) {
        match value {
            Value::Object(map) => {
                for (key, schema) in &self.properties {
                    if let Some(default) = &schema.default {
                        let missing = map.get(key).is_none_or(|v| v.is_null() && !schema.nullable);
                        if missing {
                            map.insert(key.clone(), default.clone());
                        }
                    } else if map.get(key).is_some_and(Value::is_null)
                        && !schema.nullable
                        && !schema.preserve_unknown
                    {
                        // Nulls of fields that may not be null are dropped, as the real one does.
                        map.remove(key);
                    }
                }
                self.fill_children(map, done);
            }
            Value::Array(list) => {
                if let Some(items) = &self.items {
                    list.iter_mut().for_each(|child| items.fill_defaults(child));
                }
            }
            _ => {}
        }
    }

    fn fill_children(&self, map: &mut Map<String, Value>, done: &[String]) {
        for (key, child) in map.iter_mut().filter(|(key, _)| !done.contains(key)) {
            if let Some(schema) = self.field(key) {
                schema.fill_defaults(child);
            }
        }
    }
}

/// A path in an object; written as text only where a message needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    pub fn field(&'a self, name: &'a str) -> Self {
        Self::Field(self, name)
    }

    pub fn item(&'a self, index: usize) -> Self {
        Self::Item(self, index)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Path::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
