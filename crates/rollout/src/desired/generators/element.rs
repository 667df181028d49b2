//! What a generator gives: parameter sets, or why it failed.

use serde_json::{Map, Value};

use crate::desired::texts::{Given, Texts};

/// A parameter set of a generator.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Element {
    /// Its path below the generator, such as `elements[2]` or `[staging]`.
    pub field: String,
    /// Its values by name.
    pub values: Map<String, Value>,
    /// Which of them are maps of strings.
    pub texts: Texts,
}

impl Element {
    /// Its values, for a template.
    pub fn given(&self) -> Given<'_> {
        Given::new(&self.values, self.texts)
    }
}

/// Why a generator failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The path of the field below the generator; empty for the generator itself.
    pub field: String,
    /// The error, and how to fix it.
    pub cause: String,
    /// Whether a limit was exceeded: generating stops at once.
    pub limit: bool,
}

impl Failure {
    pub fn new(field: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { field: field.into(), cause: cause.into(), limit: false }
    }

    /// The same failure of a generator at `place`.
    pub fn below(self, place: &str) -> Self {
        Self { field: join(place, &self.field), ..self }
    }
}

/// The path of a field; one such as `[staging]` follows without a dot.
pub(super) fn join(place: &str, field: &str) -> String {
    match field {
        "" => place.to_owned(),
        field if place.is_empty() || field.starts_with('[') => format!("{place}{field}"),
        field => format!("{place}.{field}"),
    }
}

/// A JSON type for users.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The failure of a value that has another type.
pub(super) fn wrong_type(field: impl Into<String>, wanted: &str, value: &Value) -> Failure {
    Failure::new(field, format!("must be {wanted}, is {}", kind(value)))
}

/// A value that is an object.
pub(super) fn object<'a>(value: &'a Value, field: &str) -> Result<&'a Map<String, Value>, Failure> {
    value.as_object().ok_or_else(|| wrong_type(field, "an object", value))
}

/// The value of a field that is a string, or empty.
pub(super) fn text<'a>(generator: &'a Value, field: &str) -> Result<&'a str, Failure> {
    match &generator[field] {
        Value::Null => Ok(""),
        Value::String(text) => Ok(text),
        other => Err(wrong_type(field, "a string", other)),
    }
}

/// The value of a field that is a boolean, or `default`.
pub(super) fn switch(generator: &Value, field: &str, default: bool) -> Result<bool, Failure> {
    match &generator[field] {
        Value::Null => Ok(default),
        Value::Bool(value) => Ok(*value),
        other => Err(wrong_type(field, "a boolean", other)),
    }
}

/// The value of a field that is a list, or empty.
pub(super) fn list_of<'a>(generator: &'a Value, field: &str) -> Result<&'a [Value], Failure> {
    match &generator[field] {
        Value::Null => Ok(&[]),
        Value::Array(list) => Ok(list),
        other => Err(wrong_type(field, "a list", other)),
    }
}

/// The strings of a field that is a list of them, or none.
pub(super) fn texts_of<'a>(generator: &'a Value, field: &str) -> Result<Vec<&'a str>, Failure> {
    let text = |(index, item): (usize, &'a Value)| {
        let place = || format!("{field}[{index}]");
        item.as_str().ok_or_else(|| wrong_type(place(), "a string", item))
    };
    list_of(generator, field)?.iter().enumerate().map(text).collect()
}
