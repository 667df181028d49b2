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
        Given { values: &self.values, texts: self.texts }
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

/// The value of a field that is a string, or empty.
pub(super) fn text<'a>(generator: &'a Value, field: &str) -> Result<&'a str, Failure> {
    match &generator[field] {
        Value::Null => Ok(""),
        Value::String(text) => Ok(text),
        other => Err(Failure::new(field, format!("must be a string, is {}", kind(other)))),
    }
}

/// The value of a field that is a list, or empty.
pub(super) fn list_of<'a>(generator: &'a Value, field: &str) -> Result<&'a [Value], Failure> {
    match &generator[field] {
        Value::Null => Ok(&[]),
        Value::Array(list) => Ok(list),
        other => Err(Failure::new(field, format!("must be a list, is {}", kind(other)))),
    }
}
