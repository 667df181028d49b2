//! The list generator: parameter sets from the spec (AS-050 to AS-054).

use serde_json::{Map, Value};

use super::element::{Element, Failure, kind, list_of, object, text, wrong_type};
use super::scope::{Generator, GeneratorScope, ParameterOrigin, ParameterSets};
use crate::desired::texts::Texts;
use wavegate_api::yaml;

/// The list generator.
pub(super) static LIST: Generator = Generator {
    origin: ParameterOrigin::Spec,
    ..Generator::new("list", &["elements", "elementsYaml", "template"], generate)
};

fn generate(generator: &Value, scope: &mut GeneratorScope<'_, '_>) -> ParameterSets {
    let elements = parameter_sets(generator, scope.is_go(), scope.is_interpolated())?;
    // Written so, and not made of what another generator found.
    let is_written = generator["elementsYaml"].is_null() || !scope.is_interpolated();
    if elements.is_empty() && is_written {
        scope.may_end();
    }
    for element in &elements {
        scope.count(&element.values)?;
    }
    Ok(elements)
}

/// One parameter set per element of `elements`, then per element of
/// `elementsYaml`.
///
/// The Go engine accepts any elements. With the simple engine a value must be a
/// string, except for `values`, whose strings become `values.<k>`.
///
/// A list without `elements` and `elementsYaml` is an error, since a field may
/// be misspelt and no elements would delete every Application. Use an empty
/// list for no Applications. With parameters of another generator in it, the
/// text of `elementsYaml` may become empty.
fn parameter_sets(list: &Value, go: bool, is_interpolated: bool) -> Result<Vec<Element>, Failure> {
    let listed = !list["elements"].is_null();
    let written = match &list["elementsYaml"] {
        Value::Null => false,
        // Also when every line is a comment.
        Value::String(text) => {
            is_interpolated
                || !matches!(
                    yaml::parse_value(text),
                    Ok(Value::Null) | Err(yaml::YamlError::Count { found: 0 })
                )
        }
        _ => true,
    };
    if !listed && !written {
        let cause = "has neither elements nor elementsYaml; write elements: [] for no \
                     applications"
            .to_owned();
        return Err(Failure::new("", cause));
    }
    let mut sets = Vec::new();
    for (index, element) in list_of(list, "elements")?.iter().enumerate() {
        let place = format!("elements[{index}]");
        let element = object(element, &place)?;
        let values = if go { element.clone() } else { flat(element, &place)? };
        sets.push(Element { field: place, values, texts: Texts::default() });
    }
    sets.extend(from_yaml(text(list, "elementsYaml")?)?);
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
                        return Err(Failure::new(format!("{place}.{inner}"), cause));
                    }
                    set.insert(format!("values.{inner}"), value.clone());
                }
            }
            other if key == "values" => {
                return Err(wrong_type(place, "an object of strings", other));
            }
            Value::String(_) => {
                set.insert(key.clone(), value.clone());
            }
            other => return Err(Failure::new(place, not_a_string(other))),
        }
    }
    Ok(set)
}

fn not_a_string(value: &Value) -> String {
    format!("must be a string, is {}; quote it, or set goTemplate: true", kind(value))
}

fn from_yaml(text: &str) -> Result<Vec<Element>, Failure> {
    let place = "elementsYaml";
    let value = match yaml::parse_value(text) {
        Err(yaml::YamlError::Count { found: 0 }) => return Ok(Vec::new()),
        read => read.map_err(|error| Failure::new(place, error.to_string()))?,
    };
    let elements = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(elements) => elements,
        other => return Err(wrong_type(place, "a list of objects", &other)),
    };
    let object = |(index, element): (usize, Value)| {
        let field = format!("{place}[{index}]");
        match element {
            Value::Object(values) => Ok(Element { field, values, texts: Texts::default() }),
            other => Err(wrong_type(field, "an object", &other)),
        }
    };
    elements.into_iter().enumerate().map(object).collect()
}
