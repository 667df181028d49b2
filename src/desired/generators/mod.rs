//! Generators: each creates parameter sets from its fields.
//!
//! One file per generator. An unsupported or unknown generator, and an element
//! without a generator, are errors and never empty results: these would delete
//! the existing Applications (AS-098).

mod clusters;
mod combine;
mod git;
mod list;
mod matrix;
mod merge;
pub mod path_pattern;
mod scope;
#[cfg(test)]
mod tests;
mod unsupported;

use serde_json::{Map, Value};

use super::Error;
use super::inputs::{Inputs, Reads};
use super::selector::Selector;
use super::template::Engine;
use super::texts::{Given, Texts};
use crate::api::annotations::LAST_APPLIED;
use gotemplate::go::Env;
use scope::Scope;

/// A source of parameter sets.
trait Generator: Sync {
    /// Its key in `spec.generators`.
    fn key(&self) -> &'static str;

    /// Its fields.
    fn fields(&self) -> &'static [&'static str];

    /// What is known without its parameter sets, which may never be needed: its interval is
    /// taken, and the elements that it combines are returned.
    ///
    /// # Errors
    ///
    /// When it cannot be evaluated, whatever the parameters are.
    fn declare<'a>(&self, _: &'a Value, _: &mut Scope<'_, '_>) -> Result<&'a [Value], Failure> {
        Ok(&[])
    }

    /// Its parameter sets, in order. `generator` is its object, with known fields only.
    fn generate(
        &self,
        generator: &Value,
        scope: &mut Scope<'_, '_>,
    ) -> Result<Vec<Element>, Failure>;
}

/// All generators, in the order in which those of one element run (AS-040).
static GENERATORS: [&dyn Generator; 9] = [
    &list::List,
    &clusters::Clusters,
    &git::Git,
    &unsupported::SCM_PROVIDER,
    &unsupported::CLUSTER_DECISION_RESOURCE,
    &unsupported::PULL_REQUEST,
    &matrix::Matrix,
    &merge::Merge,
    &unsupported::PLUGIN,
];

/// A parameter set of a generator.
#[derive(Clone, Debug, PartialEq)]
struct Element {
    /// Its path below the generator, such as `elements[2]` or `[staging]`.
    field: String,
    /// Its values by name.
    values: Map<String, Value>,
    /// Which of them are maps of strings.
    texts: Texts,
}

impl Element {
    /// Its values, for a template.
    fn given(&self) -> Given<'_> {
        Given { values: &self.values, texts: self.texts }
    }
}

/// Why a generator failed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    /// The path of the field below the generator; empty for the generator itself.
    field: String,
    /// The error, and how to fix it.
    cause: String,
    /// Whether a limit was exceeded: generating stops at once.
    limit: bool,
}

impl Failure {
    fn new(field: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { field: field.into(), cause: cause.into(), limit: false }
    }

    /// The same failure of a generator at `place`.
    fn below(self, place: &str) -> Self {
        Self { field: join(place, &self.field), ..self }
    }
}

/// The path of a field; one such as `[staging]` follows without a dot.
fn join(place: &str, field: &str) -> String {
    match field {
        "" => place.to_owned(),
        field if place.is_empty() || field.starts_with('[') => format!("{place}{field}"),
        field => format!("{place}.{field}"),
    }
}

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
    /// Which of them are maps of strings.
    texts: Texts,
}

impl Parameters {
    /// Its values, for a template.
    pub fn given(&self) -> Given<'_> {
        Given { values: &self.values, texts: self.texts }
    }
}

/// The elements of `spec.generators`.
///
/// # Errors
///
/// [`Error::Generator`] when there is no such list: this does not mean that no
/// Applications are wanted.
pub fn elements(spec: &Value) -> Result<&[Value], Error> {
    let failed = |cause: String| {
        Err(Error::Generator { place: "spec.generators".to_owned(), cause, limit: false })
    };
    match &spec["generators"] {
        Value::Array(elements) => Ok(elements),
        Value::Null => failed("is missing; write an empty list for no applications".to_owned()),
        other => failed(format!("must be a list, is {}", kind(other))),
    }
}

/// Evaluates the generators of a set.
pub struct Evaluation<'a> {
    /// The template engine; it counts what is generated.
    pub engine: &'a mut Engine,
    /// Time and entropy for template functions.
    pub env: &'a mut Env,
    /// The observed facts.
    pub inputs: &'a Inputs,
    /// The project of the template; empty when it contains placeholders (AS-091).
    pub project: &'a str,
    /// What was used.
    pub reads: &'a mut Reads,
    /// The parts of repositories that are missing in `inputs`.
    pub unread: std::collections::BTreeSet<super::inputs::GitRequest>,
}

impl<'a> Evaluation<'a> {
    /// The evaluation of the generators of a spec; what they use is added to `reads`.
    pub fn new(
        spec: &'a Value,
        engine: &'a mut Engine,
        env: &'a mut Env,
        inputs: &'a Inputs,
        reads: &'a mut Reads,
    ) -> Self {
        let project = spec["template"]["spec"]["project"].as_str().unwrap_or_default();
        let project = if project.contains("{{") { "" } else { project };
        let unread = std::collections::BTreeSet::new();
        Self { engine, env, inputs, project, reads, unread }
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
    pub fn parameter_sets(&mut self, element: &Value, place: &str) -> Result<Vec<Output>, Error> {
        let failed = |failure: Failure| {
            let Failure { field, cause, limit } = failure.below(place);
            Error::Generator { place: field, cause, limit }
        };
        let selector = shape(element).map_err(failed)?;
        Scope::top(self, place, "").declare(element, "").map_err(failed)?;
        let mut outputs = Vec::new();
        for generator in of(element) {
            let key = generator.key();
            let mut scope = Scope::top(self, place, key);
            let sets = scope.generate(generator, &element[key]).map_err(failed)?;
            let place = format!("{place}.{key}");
            let sets = sets.into_iter().filter(|set| selector.matches(&set.values));
            let sets = sets.map(|Element { field, values, texts }| Parameters {
                origin: join(
                    &place,
                    field.strip_prefix(key).unwrap_or(&field).trim_start_matches('.'),
                ),
                values,
                texts,
            });
            let sets: Vec<Parameters> = sets.collect();
            self.reads.found(place.clone(), !sets.is_empty());
            outputs.push(Output { template: element[key]["template"].clone(), sets, place });
        }
        Ok(outputs)
    }
}

/// The generators of an element.
fn of(element: &Value) -> impl Iterator<Item = &'static dyn Generator> {
    GENERATORS.iter().copied().filter(|generator| !element[generator.key()].is_null())
}

/// Checks that an element is an object with a generator and known keys only; returns its
/// selector.
fn shape(element: &Value) -> Result<Selector, Failure> {
    let Value::Object(fields) = element else {
        return Err(Failure::new("", format!("must be an object, is {}", kind(element))));
    };
    let is_known = |key: &&String| {
        *key == "selector" || GENERATORS.iter().any(|generator| generator.key() == *key)
    };
    if let Some(unknown) = fields.keys().find(|key| !is_known(key)) {
        return Err(Failure::new(unknown, not_a_generator()));
    }
    if of(element).next().is_none() {
        let cause = "has no generator; add a list generator, or remove the element";
        return Err(Failure::new("", cause));
    }
    Selector::read(&element["selector"]).map_err(|cause| Failure::new("selector", cause))
}

/// The same error with the original key from the annotation of `kubectl apply`:
/// the API server has dropped the unknown field.
pub fn with_key_of_user(error: Error, set: &Value, index: usize, place: &str) -> Error {
    let Error::Generator { place: at, cause, .. } = &error else { return error };
    let written = set["metadata"]["annotations"][LAST_APPLIED].as_str();
    let written = written.and_then(|text| serde_json::from_str::<Value>(text).ok());
    // The annotation is the user's text: it may lack anything that the set has.
    let element = written.as_ref().map(|set| &set["spec"]["generators"][index]);
    let Some(written) = element else { return error };
    let lost = |of: &Value, kept: &Value| {
        let mut keys = of.as_object().into_iter().flatten();
        keys.find(|(key, value)| kept.get(key.as_str()).is_none() && !value.is_null())
            .map(|(key, _)| key.clone())
    };
    let stored = &set["spec"]["generators"][index];
    let named = |place: String, cause: String| Error::Generator { place, cause, limit: false };
    if at == place {
        return match lost(written, stored) {
            Some(key) => named(format!("{place}.{key}"), not_a_generator()),
            None => error,
        };
    }
    let generator = of(stored).find(|generator| *at == format!("{place}.{}", generator.key()));
    let Some(key) = generator.map(Generator::key) else { return error };
    match lost(&written[key], &stored[key]) {
        Some(field) => named(
            format!("{at}.{field}"),
            format!("is not a field of a {key} generator, which {cause}"),
        ),
        None => error,
    }
}

fn not_a_generator() -> String {
    let keys: Vec<&str> = GENERATORS.iter().map(|generator| generator.key()).collect();
    format!("is not a generator; the generators are {}", keys.join(", "))
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

/// The value of a field that is a string, or empty.
fn text<'a>(generator: &'a Value, field: &str) -> Result<&'a str, Failure> {
    match &generator[field] {
        Value::Null => Ok(""),
        Value::String(text) => Ok(text),
        other => Err(Failure::new(field, format!("must be a string, is {}", kind(other)))),
    }
}

/// The value of a field that is a list, or empty.
fn list_of<'a>(generator: &'a Value, field: &str) -> Result<&'a [Value], Failure> {
    match &generator[field] {
        Value::Null => Ok(&[]),
        Value::Array(list) => Ok(list),
        other => Err(Failure::new(field, format!("must be a list, is {}", kind(other)))),
    }
}
