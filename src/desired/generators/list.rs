//! The list generator: parameter sets from the spec (AS-050 to AS-054).

use serde_json::{Map, Value};

use super::kind;
use crate::yaml;

/// The fields of a list generator.
const FIELDS: [&str; 3] = ["elements", "elementsYaml", "template"];

/// The path of an error in the generator, and the error.
type Failure = (String, String);

/// A parameter set, and the path of its element, such as `elements[2]`.
type Element = (String, Map<String, Value>);

/// One parameter set per element of `elements`, then per element of
/// `elementsYaml`.
///
/// The Go engine accepts any elements. With the simple engine a value must be a
/// string, except for `values`, whose strings become `values.<k>`.
///
/// A list without `elements` and `elementsYaml` is an error, since a field may
/// be misspelt and no elements would delete every Application. Use an empty
/// list for no Applications.
pub fn generate(list: &Value, go: bool) -> Result<Vec<Element>, Failure> {
    let Value::Object(fields) = list else {
        return Err((String::new(), format!("must be an object, is {}", kind(list))));
    };
    if let Some(unknown) = fields.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        let cause =
            format!("is not a field of a list generator; its fields are {}", FIELDS.join(", "));
        return Err((unknown.clone(), cause));
    }
    let listed = !list["elements"].is_null();
    let written = match &list["elementsYaml"] {
        Value::Null => false,
        // Also when every line is a comment.
        Value::String(text) => {
            !matches!(yaml::value(text), Ok(Value::Null) | Err(yaml::Error::Count { found: 0 }))
        }
        _ => true,
    };
    if !listed && !written {
        let cause = "has neither elements nor elementsYaml; write elements: [] for no \
                     applications"
            .to_owned();
        return Err((String::new(), cause));
    }
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
        let set = if go { element.clone() } else { flat(element, &place)? };
        sets.push((place, set));
    }
    match &list["elementsYaml"] {
        Value::Null => {}
        Value::String(text) => sets.extend(from_yaml(text)?),
        other => {
            return Err((
                "elementsYaml".to_owned(),
                format!("must be a string, is {}", kind(other)),
            ));
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

fn from_yaml(text: &str) -> Result<Vec<Element>, Failure> {
    let place = "elementsYaml".to_owned();
    let value = match yaml::value(text) {
        Err(yaml::Error::Count { found: 0 }) => return Ok(Vec::new()),
        read => read.map_err(|error| (place.clone(), error.to_string()))?,
    };
    let elements = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(elements) => elements,
        other => return Err((place, format!("must be a list of objects, is {}", kind(&other)))),
    };
    let object = |(index, element): (usize, Value)| match element {
        Value::Object(object) => Ok((format!("{place}[{index}]"), object)),
        other => {
            Err((format!("{place}[{index}]"), format!("must be an object, is {}", kind(&other))))
        }
    };
    elements.into_iter().enumerate().map(object).collect()
}
