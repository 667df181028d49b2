//! Generators: each creates parameter sets from its fields.
//!
//! One file per generator. An unsupported or unknown generator, and an element
//! without a generator, are errors and never empty results: these would delete
//! the existing Applications (AS-098).

mod list;

use serde_json::{Map, Value};

use super::Error;
use super::selector::Selector;

/// All generators, in the order in which those of one element run (AS-040).
const KNOWN: [&str; 9] = [
    "list",
    "clusters",
    "git",
    "scmProvider",
    "clusterDecisionResource",
    "pullRequest",
    "matrix",
    "merge",
    "plugin",
];

/// The annotation in which `kubectl apply` stores the manifest. The API server
/// drops unknown fields, so a misspelt generator may be found only there.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The result of one generator.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Its path.
    pub place: String,
    /// Its own template, null when it has none.
    pub template: Value,
    /// The parameter sets, in order.
    pub sets: Vec<Parameters>,
}

/// One parameter set.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Its origin, such as `spec.generators[0].list.elements[2]`.
    pub origin: String,
    /// Its values by name.
    pub values: Map<String, Value>,
}

/// The elements of `spec.generators`.
///
/// # Errors
///
/// [`Error::Generator`] when there is no such list: this does not mean that no
/// Applications are wanted.
pub fn elements(spec: &Value) -> Result<&[Value], Error> {
    let failed = |cause: String| Error::Generator { place: "spec.generators".to_owned(), cause };
    match &spec["generators"] {
        Value::Array(elements) => Ok(elements),
        Value::Null => {
            Err(failed("is missing; write an empty list for no applications".to_owned()))
        }
        other => Err(failed(format!("must be a list, is {}", kind(other)))),
    }
}

/// Runs all generators of one element of `spec.generators` and keeps the
/// parameter sets that its selector matches.
///
/// `place` is the path of the element.
///
/// # Errors
///
/// [`Error::Generator`] with the field: also for an unknown generator, and for
/// an element without a generator, since their parameter sets are unknown.
pub fn parameter_sets(element: &Value, place: &str, go: bool) -> Result<Vec<Output>, Error> {
    let failed = |place: String, cause: String| Error::Generator { place, cause };
    let Value::Object(fields) = element else {
        return Err(failed(place.to_owned(), format!("must be an object, is {}", kind(element))));
    };
    let is_known = |key: &String| key == "selector" || KNOWN.contains(&key.as_str());
    if let Some(unknown) = fields.keys().find(|key| !is_known(key)) {
        return Err(failed(format!("{place}.{unknown}"), not_a_generator()));
    }
    let selector = Selector::read(&element["selector"])
        .map_err(|cause| failed(format!("{place}.selector"), cause))?;
    let mut outputs = Vec::new();
    for name in KNOWN {
        let generator = &element[name];
        if generator.is_null() {
            continue;
        }
        let place = format!("{place}.{name}");
        if name != "list" {
            return Err(failed(
                place,
                format!(
                    "the {name} generator is not available in this version; use a list generator"
                ),
            ));
        }
        let field_of = |field: String| match field.as_str() {
            "" => place.clone(),
            field => format!("{place}.{field}"),
        };
        let sets = list::generate(generator, go)
            .map_err(|(field, cause)| failed(field_of(field), cause))?;
        let sets = sets.into_iter().filter(|(_, values)| selector.matches(values));
        let sets = sets.map(|(field, values)| Parameters { origin: field_of(field), values });
        let sets = sets.collect();
        outputs.push(Output {
            place: place.clone(),
            template: generator["template"].clone(),
            sets,
        });
    }
    if outputs.is_empty() {
        let cause = "has no generator; add a list generator, or remove the element".to_owned();
        return Err(failed(place.to_owned(), cause));
    }
    Ok(outputs)
}

/// The same error with the original key from the annotation of `kubectl apply`:
/// the API server has dropped the unknown field.
pub fn with_key_of_user(error: Error, set: &Value, index: usize, place: &str) -> Error {
    let Error::Generator { place: at, cause } = &error else { return error };
    let written = set["metadata"]["annotations"][LAST_APPLIED].as_str();
    let written = written.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let element = written.as_ref().map(|written| &written["spec"]["generators"][index]);
    let keys_of = |value: &Value| -> Vec<String> {
        value.as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default()
    };
    let lost = |of: &Value, kept: &Value| {
        keys_of(of).into_iter().find(|key| kept.get(key).is_none() && !of[key.as_str()].is_null())
    };
    let stored = &set["spec"]["generators"][index];
    match element {
        Some(element) if at == place => match lost(element, stored) {
            Some(key) => {
                Error::Generator { place: format!("{place}.{key}"), cause: not_a_generator() }
            }
            None => error,
        },
        Some(element) if *at == format!("{place}.list") => {
            match lost(&element["list"], &stored["list"]) {
                Some(key) => Error::Generator {
                    place: format!("{at}.{key}"),
                    cause: format!("is not a field of a list generator, which {cause}"),
                },
                None => error,
            }
        }
        _ => error,
    }
}

fn not_a_generator() -> String {
    format!("is not a generator; supported generators are {}", KNOWN.join(", "))
}

/// A JSON type for users.
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
