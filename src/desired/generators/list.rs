//! The list generator: parameter sets as the user wrote them (AS-050 to AS-054).

use serde_json::{Map, Value};

use crate::yaml;

/// Where in the generator something is wrong, and what.
type Failure = (String, String);

/// Makes one parameter set per element of `elements`, then per element of
/// `elementsYaml`.
///
/// With the Go engine elements are taken as they are. With the simple one a
/// value must be a string, except `values`, whose strings become `values.<k>`.
pub fn generate(list: &Value, go: bool) -> Result<Vec<Map<String, Value>>, Failure> {
    let mut sets = Vec::new();
    let elements = match &list["elements"] {
        Value::Null => &[],
        Value::Array(elements) => elements.as_slice(),
        other => {
            return Err(("elements".to_owned(), format!("must be a list, is {}", kind(other))));
        }
    };
    for (index, element) in elements.iter().enumerate() {
        let place = format!("elements[{index}]");
        let Value::Object(element) = element else {
            return Err((place, format!("must be an object, is {}", kind(element))));
        };
        sets.push(if go { element.clone() } else { flat(element, &place)? });
    }
    match &list["elementsYaml"] {
        Value::Null => {}
        Value::String(text) => sets.extend(from_yaml(text)?),
        other => {
            return Err(("elementsYaml".to_owned(), format!("must be text, is {}", kind(other))));
        }
    }
    Ok(sets)
}

fn flat(element: &Map<String, Value>, place: &str) -> Result<Map<String, Value>, Failure> {
    let mut set = Map::new();
    for (key, value) in element {
        let place = format!("{place}.{key}");
        match value {
            Value::Object(values) if key == "values" => {
                for (inner, value) in values {
                    if !value.is_string() {
                        let cause = not_a_string(value);
                        return Err((format!("{place}.{inner}"), cause));
                    }
                    set.insert(format!("values.{inner}"), value.clone());
                }
            }
            other if key == "values" => {
                return Err((place, format!("must be an object of strings, is {}", kind(other))));
            }
            Value::String(_) => {
                set.insert(key.clone(), value.clone());
            }
            other => return Err((place, not_a_string(other))),
        }
    }
    Ok(set)
}

fn not_a_string(value: &Value) -> String {
    format!("must be a string, is {}; quote it, or set goTemplate: true", kind(value))
}

fn from_yaml(text: &str) -> Result<Vec<Map<String, Value>>, Failure> {
    let place = "elementsYaml".to_owned();
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let value = yaml::value(text).map_err(|error| (place.clone(), error.to_string()))?;
    let elements = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(elements) => elements,
        other => return Err((place, format!("must be a list of objects, is {}", kind(&other)))),
    };
    let object = |(index, element): (usize, Value)| match element {
        Value::Object(object) => Ok(object),
        other => {
            Err((format!("{place}[{index}]"), format!("must be an object, is {}", kind(&other))))
        }
    };
    elements.into_iter().enumerate().map(object).collect()
}

/// A JSON type for people.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
