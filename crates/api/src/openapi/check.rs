//! Validates an object against its schema, with the messages of kubectl.

use serde_json::{Map, Value};

use super::{Document, Schema, What};
use crate::kind::KindRef;

/// Most errors that are reported per object.
const MAX_ERRORS: usize = 10;

/// Most values that are checked per object; the server validates the rest.
const MAX_VALUES: usize = 200_000;

impl Document {
    /// The errors of an object, in order; empty when its kind has no schema. Its status
    /// is not checked, since the server ignores it. The messages contain no values of a
    /// Secret.
    pub fn check(&self, object: &Value) -> Vec<String> {
        let KindRef { group, version, kind } = KindRef::of(object);
        let Some((name, schema)) = self.schema_of(group, version, kind) else { return Vec::new() };
        let mut check = Check { document: self, errors: Vec::new(), left: MAX_VALUES };
        check.value(object, schema, kind, name, true);
        check.errors
    }
}

/// The errors of one object as one message.
pub fn in_words(mistakes: &[String]) -> String {
    let all = match mistakes {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    format!(
        "error validating data: {all}; if you choose to ignore these errors, turn validation off \
         with the sync option Validate=false"
    )
}

struct Check<'a> {
    document: &'a Document,
    errors: Vec<String>,
    left: usize,
}

impl Check<'_> {
    fn report(&mut self, path: &str, what: &str) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(format!("ValidationError({path}): {what}"));
        }
    }

    /// `name` is the name of the enclosing schema, with the fields below it.
    fn value(&mut self, value: &Value, schema: &Schema, path: &str, name: &str, root: bool) {
        if self.left == 0 || self.errors.len() >= MAX_ERRORS {
            return;
        }
        self.left -= 1;
        let Some((reference, what)) = self.document.resolve(schema) else { return };
        let name = reference.unwrap_or(name);
        let expected = match (what, value) {
            (What::Any | What::Reference(_), _) => return,
            // Null is treated as absent.
            (_, Value::Null) => return,
            (What::Object(fields), Value::Object(object)) => {
                for (key, child) in object.iter().filter(|(_, child)| !child.is_null()) {
                    let below = format!("{path}.{key}");
                    match fields.get(key) {
                        Some(_) if root && key == "status" => {}
                        Some(schema) => {
                            self.value(child, schema, &below, &format!("{name}.{key}"), false);
                        }
                        None if fields.open => {}
                        None => self.report(path, &format!("unknown field \"{key}\" in {name}")),
                    }
                }
                let is_missing = |field: &str| {
                    let optional = fields.get(field).is_some_and(|schema| schema.optional)
                        || (root && field == "status");
                    !optional && is_absent(object, field)
                };
                for field in fields.required.iter().filter(|field| is_missing(field)) {
                    self.report(path, &format!("missing required field \"{field}\" in {name}"));
                }
                return;
            }
            (What::Map(like), Value::Object(object)) => {
                for (key, child) in object {
                    self.value(child, like, &format!("{path}.{key}"), name, false);
                }
                return;
            }
            (What::List(like), Value::Array(list)) => {
                for (index, child) in list.iter().enumerate() {
                    self.value(child, like, &format!("{path}[{index}]"), name, false);
                }
                return;
            }
            (What::Boolean, Value::Bool(_)) | (What::String, Value::String(_)) => return,
            (What::Integer, Value::Number(number)) if number.as_f64().is_some_and(is_whole) => {
                return;
            }
            (What::Number, Value::Number(_)) => return,
            (What::Object(_) | What::Map(_), _) => "map",
            (What::List(_), _) => "array",
            (What::String, _) => "string",
            (What::Integer, _) => "integer",
            (What::Number, _) => "number",
            (What::Boolean, _) => "boolean",
        };
        let got = type_of(value);
        self.report(
            path,
            &format!("invalid type for {name}: got \"{got}\", expected \"{expected}\""),
        );
    }
}

fn is_absent(object: &Map<String, Value>, field: &str) -> bool {
    object.get(field).is_none_or(Value::is_null)
}

fn is_whole(number: f64) -> bool {
    number.fract() == 0.0
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.as_f64().is_some_and(is_whole) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "map",
    }
}
