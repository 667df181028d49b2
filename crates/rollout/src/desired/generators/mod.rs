//! Generators: each creates parameter sets from its fields.
//!
//! One file per generator. An unknown generator, a service that does not answer in full, and
//! an element without a generator are errors and never empty results: these would delete the
//! existing Applications (AS-098).

mod cluster_decision;
mod clusters;
mod combine;
mod element;
mod fields;
mod git;
mod list;
mod matrix;
mod merge;
pub mod path_pattern;
mod plugin;
mod provider_fields;
mod pull_request;
mod scm_provider;
mod scope;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use self::element::{Element, Failure, join, kind};
pub use self::scope::GeneratorEvaluation;
use self::scope::{Generator, GeneratorScope, not_a_generator, of, shape};
use super::error::GenerateError;
use super::inputs::{Inputs, Reads, UnreadRepository};
use super::template::Engine;
use super::texts::{Given, Texts};
use crate::desired::flatten::matches;
use gotemplate::go::Env;
use wavegate_api::Raw;
use wavegate_api::annotations::LAST_APPLIED;

/// All generators, in the order in which those of one element run (AS-040).
static GENERATORS: [&Generator; 9] = [
    &list::LIST,
    &clusters::CLUSTERS,
    &git::GIT,
    &scm_provider::SCM_PROVIDER,
    &cluster_decision::CLUSTER_DECISION,
    &pull_request::PULL_REQUEST,
    &matrix::MATRIX,
    &merge::MERGE,
    &plugin::PLUGIN,
];

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
        Given::new(&self.values, self.texts)
    }
}

/// The elements of `spec.generators`.
///
/// # Errors
///
/// [`GenerateError::Generator`] when there is no such list: this does not mean that no
/// Applications are wanted.
pub fn generator_elements(spec: &Value) -> Result<&[Value], GenerateError> {
    let failed = |cause: String| {
        Err(GenerateError::Generator { place: "spec.generators".to_owned(), cause, limit: false })
    };
    match &spec["generators"] {
        Value::Array(elements) => Ok(elements),
        Value::Null => failed("is missing; write an empty list for no applications".to_owned()),
        other => failed(format!("must be a list, is {}", kind(other))),
    }
}

impl<'a> GeneratorEvaluation<'a> {
    /// The evaluation of the generators of a spec; what they use is added to `reads`.
    pub fn new(
        spec: &'a Value,
        engine: &'a mut Engine,
        env: &'a mut Env,
        inputs: &'a Inputs,
        reads: &'a mut Reads,
    ) -> Self {
        let project = spec.text("/template/spec/project");
        let project = if project.contains("{{") { "" } else { project };
        let unread = UnreadRepository::default();
        let generators = &GENERATORS;
        Self { generators, engine, env, inputs, project, reads, unread, may_end: false }
    }

    /// Runs all generators of one element of `spec.generators` and keeps the
    /// parameter sets that its selector matches.
    ///
    /// `place` is the path of the element.
    ///
    /// # Errors
    ///
    /// [`GenerateError::Generator`] with the field: also for an unknown generator, and for
    /// an element without a generator, since their parameter sets are unknown.
    pub fn parameter_sets(
        &mut self,
        element: &Value,
        place: &str,
    ) -> Result<Vec<Output>, GenerateError> {
        let failed = |failure: Failure| {
            let Failure { field, cause, limit } = failure.below(place);
            GenerateError::Generator { place: field, cause, limit }
        };
        let selector = shape(&GENERATORS, element).map_err(failed)?;
        GeneratorScope::top(self, place, "").declare(element, "").map_err(failed)?;
        let mut outputs = Vec::new();
        for generator in of(&GENERATORS, element) {
            let key = generator.key;
            let mut scope = GeneratorScope::top(self, place, key);
            let sets = scope.generate(generator, &element[key]).map_err(failed)?;
            let place = format!("{place}.{key}");
            let sets = sets.into_iter().filter(|set| matches(&selector, &set.values));
            let sets = sets.map(|Element { field, values, texts }| Parameters {
                origin: join(
                    &place,
                    field.strip_prefix(key).unwrap_or(&field).trim_start_matches('.'),
                ),
                values,
                texts,
            });
            let sets: Vec<Parameters> = sets.collect();
            let found = self.finding(&sets);
            self.reads.found(place.clone(), found);
            outputs.push(Output { template: element[key]["template"].clone(), sets, place });
        }
        Ok(outputs)
    }
}

/// The same error with the original key from the annotation of `kubectl apply`:
/// the API server has dropped the unknown field.
pub fn with_key_of_user(
    error: GenerateError,
    set: &Value,
    index: usize,
    place: &str,
) -> GenerateError {
    let GenerateError::Generator { place: at, cause, .. } = &error else { return error };
    let written = set.annotation(LAST_APPLIED);
    let written = written.and_then(|text| serde_json::from_str::<Value>(text).ok());
    // The annotation is the user's text: it may lack anything that the set has.
    let written = written.as_ref().map(|set| set.items("/spec/generators"));
    let Some(written) = written.map(|all| all.get(index).unwrap_or(&Value::Null)) else {
        return error;
    };
    let lost = |of: &Value, kept: &Value| {
        let mut keys = of.as_object().into_iter().flatten();
        keys.find(|(key, value)| kept.get(key.as_str()).is_none() && !value.is_null())
            .map(|(key, _)| key.clone())
    };
    let stored = set.items("/spec/generators").get(index).unwrap_or(&Value::Null);
    let named =
        |place: String, cause: String| GenerateError::Generator { place, cause, limit: false };
    if at == place {
        return match lost(written, stored) {
            Some(key) => named(format!("{place}.{key}"), not_a_generator(&GENERATORS)),
            None => error,
        };
    }
    let generator =
        of(&GENERATORS, stored).find(|generator| *at == format!("{place}.{}", generator.key));
    let Some(key) = generator.map(|generator| generator.key) else { return error };
    match lost(&written[key], &stored[key]) {
        Some(field) => named(
            format!("{at}.{field}"),
            format!("is not a field of a {key} generator, which {cause}"),
        ),
        None => error,
    }
}
