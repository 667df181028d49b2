//! What a generator may use: the template engine, the observed facts, and other generators.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::element::{Element, Failure, join, object, text, wrong_type};
use crate::desired::error::GenerateError;
use crate::desired::field_order;
use crate::desired::flatten::{flatten, matches};
use crate::desired::inputs::{
    CLUSTER_SECRETS, Finding, GitAnswer, GitRequest, Inputs, PROVIDER_REQUEUE_AFTER, Projects,
    Reads, UnreadRepository,
};
use crate::desired::missing_key;
use crate::desired::queries::{Answer, Query};
use crate::desired::template::Engine;
use crate::desired::texts::{Given, Texts};
use gotemplate::go::Env;
use wavegate_api::cluster::ClusterSecret;
use wavegate_api::selector::Selector;

/// The deepest nesting: matrix and merge in matrix and merge (AS-004).
const MAX_DEPTH: usize = 2;

/// Where parameter sets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParameterOrigin {
    /// Written in the generator.
    Spec,
    /// Combined from those of other generators.
    Elements,
    /// Observed: in a cluster, a repository or a service.
    Outside,
}

/// What a generator gives.
pub(super) type ParameterSets = Result<Vec<Element>, Failure>;

/// A source of parameter sets.
pub(super) struct Generator {
    /// Its key in `spec.generators`.
    pub key: &'static str,
    /// Its fields.
    pub fields: &'static [&'static str],
    /// Where its parameter sets come from.
    pub origin: ParameterOrigin,
    /// The interval at which it is evaluated again, unless its field `requeueAfterSeconds` says
    /// another one.
    pub requeue_after: fn(&Inputs) -> Duration,
    /// What is known without its parameter sets, which may never be needed: the elements that it
    /// combines; or why it cannot be evaluated, whatever the parameters are.
    pub declare: for<'a> fn(&'a Value, &GeneratorScope<'_, '_>) -> Result<&'a [Value], Failure>,
    /// Its parameter sets, in order, of its object with known fields only.
    pub generate: fn(&Value, &mut GeneratorScope<'_, '_>) -> ParameterSets,
}

impl Generator {
    /// One that looks at something outside.
    pub const fn new(
        key: &'static str,
        fields: &'static [&'static str],
        generate: fn(&Value, &mut GeneratorScope<'_, '_>) -> ParameterSets,
    ) -> Self {
        Self {
            key,
            fields,
            origin: ParameterOrigin::Outside,
            requeue_after: |_| PROVIDER_REQUEUE_AFTER,
            declare: |_, _| Ok(&[]),
            generate,
        }
    }
}

/// All generators, in the order in which those of one element run.
pub(super) type Generators = &'static [&'static Generator];

/// Evaluates the generators of a set.
pub struct GeneratorEvaluation<'a> {
    /// All generators.
    pub(super) generators: Generators,
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
    /// What is missing in `inputs`.
    pub unread: UnreadRepository,
    /// Whether the generator that ran last may find nothing in the ordinary course of things.
    pub(super) may_end: bool,
}

impl GeneratorEvaluation<'_> {
    /// What the generator that ran last found, with these parameter sets.
    pub(super) fn finding<T>(&mut self, sets: &[T]) -> Finding {
        match (std::mem::take(&mut self.may_end), sets.is_empty()) {
            (true, true) => Finding::Ended,
            (_, is_empty) => Finding::of(!is_empty),
        }
    }
}

/// The evaluation of one generator.
pub struct GeneratorScope<'s, 'e> {
    evaluation: &'s mut GeneratorEvaluation<'e>,
    /// The path of its element of `spec.generators`.
    element: &'s str,
    /// The path of the generator below that, such as `matrix.generators[0].git`.
    around: String,
    /// The number of matrix and merge generators around it.
    depth: usize,
    /// Whether it contains parameters of another generator.
    is_interpolated: bool,
}

impl<'s, 'e> GeneratorScope<'s, 'e> {
    /// The scope of a generator in `spec.generators`; `element` is the path of its element.
    pub fn top(evaluation: &'s mut GeneratorEvaluation<'e>, element: &'s str, key: &str) -> Self {
        Self { evaluation, element, around: key.to_owned(), depth: 0, is_interpolated: false }
    }

    /// The scope of a generator inside of this one.
    fn inner(&mut self) -> GeneratorScope<'_, 'e> {
        GeneratorScope {
            evaluation: &mut *self.evaluation,
            element: self.element,
            around: self.around.clone(),
            depth: self.depth + 1,
            is_interpolated: self.is_interpolated,
        }
    }

    /// Whether the generator contains parameters of another one.
    pub fn is_interpolated(&self) -> bool {
        self.is_interpolated
    }

    /// Whether something must be read first.
    pub fn has_unread(&self) -> bool {
        !self.evaluation.unread.is_empty()
    }

    /// Reports what is ignored of this generator.
    pub fn warn(&mut self, warning: &str) {
        self.evaluation.reads.warn(format!("{}: {warning}", self.element));
    }

    /// Whether templates are those of Go.
    pub fn is_go(&self) -> bool {
        self.evaluation.engine.is_go()
    }

    /// The observed facts.
    pub fn inputs(&self) -> &'e Inputs {
        self.evaluation.inputs
    }

    /// The project of the template; empty when it contains placeholders.
    pub fn project(&self) -> &'e str {
        self.evaluation.project
    }

    /// The AppProjects that exist; `None` when they are not known.
    pub fn projects(&mut self) -> Option<&'e Projects> {
        self.evaluation.reads.projects = true;
        self.evaluation.inputs.projects.as_ref()
    }

    /// The cluster Secrets.
    pub fn clusters(&mut self) -> &'e [ClusterSecret] {
        self.evaluation.reads.clusters = true;
        &self.evaluation.inputs.clusters
    }

    /// A part of a repository; `None` when it must be read first.
    pub fn git(&mut self, request: GitRequest) -> Result<Option<Arc<GitAnswer>>, Failure> {
        let answer = self.evaluation.inputs.git.get(&request).cloned();
        if answer.is_none() {
            self.evaluation.unread.git.insert(request.clone());
        }
        self.evaluation.reads.git.insert(request);
        self.answered(answer)
    }

    /// What a service has answered; `None` when it must be asked first.
    pub fn ask(&mut self, query: Query) -> Result<Option<Arc<Answer>>, Failure> {
        let answer = self.evaluation.inputs.answers.get(&query).cloned();
        if answer.is_none() {
            self.evaluation.unread.queries.insert(query.clone());
        }
        self.evaluation.reads.queries.insert(query);
        self.answered(answer)
    }

    /// An answer, unless the generators read too much.
    fn answered<T>(&self, answer: Option<Result<T, String>>) -> Result<Option<T>, Failure> {
        let limit = self.evaluation.engine.limits().repository_reads;
        let reads = &self.evaluation.reads;
        if reads.git.len() + reads.queries.len() <= limit {
            return answer.transpose().map_err(|cause| Failure::new("", cause));
        }
        let cause = format!(
            "limit exceeded: the generators read more than {limit} repositories, revisions, lists \
             of files and answers of services"
        );
        Err(Failure { field: String::new(), cause, limit: true })
    }

    /// Takes the interval at which a generator is evaluated again, if it has one.
    fn requeue(&mut self, generator: &Generator, fields: &Value) -> Result<(), Failure> {
        const FIELD: &str = "requeueAfterSeconds";
        if !generator.fields.contains(&FIELD) {
            return Ok(());
        }
        let interval = match &fields[FIELD] {
            Value::Null => (generator.requeue_after)(self.evaluation.inputs),
            value => value.as_u64().map(Duration::from_secs).ok_or_else(|| {
                Failure::new(FIELD, "must be a number of seconds; 0 disables the interval")
            })?,
        };
        self.evaluation.reads.requeue_after(interval);
        Ok(())
    }

    /// Runs a generator, and counts its parameter sets; failures have its key in their path.
    pub fn generate(
        &mut self,
        generator: &Generator,
        fields: &Value,
    ) -> Result<Vec<Element>, Failure> {
        let key = generator.key;
        let below = |failure: Failure| failure.below(key);
        known_fields(generator, object(fields, key)?).map_err(below)?;
        let elements = (generator.generate)(fields, self).map_err(below)?;
        self.check_time(key)?;
        Ok(elements
            .into_iter()
            .map(|set| Element { field: join(key, &set.field), ..set })
            .collect())
    }

    /// The parameter sets of an element of a matrix or merge generator, those that its
    /// selector matches. It must contain one generator (AS-041, AS-070).
    pub fn child(&mut self, element: &Value, place: &str) -> Result<Vec<Element>, Failure> {
        let selector =
            shape(self.evaluation.generators, element).map_err(|failure| failure.below(place))?;
        let generator = self.only(element).map_err(|failure| failure.below(place))?;
        let fields = &element[generator.key];
        let path = join(&join(&self.around, place), generator.key);
        let mut inner = self.inner();
        inner.around.clone_from(&path);
        let sets = inner.generate(generator, fields).map_err(|f| f.below(place))?;
        let sets = sets.into_iter().filter(|set| matches(&selector, &set.values));
        let sets = sets.map(|set| Element { field: join(place, &set.field), ..set });
        let sets: Vec<Element> = sets.collect();
        let mut path = join(self.element, &path);
        if self.is_interpolated && generator.origin == ParameterOrigin::Outside {
            path = self.evaluation.reads.evaluation(path, fields);
        }
        let found = self.evaluation.finding(&sets);
        self.evaluation.reads.found(path, found);
        Ok(sets)
    }

    /// Records whether the cluster Secrets of this generator are there: it also yields
    /// something without any.
    pub fn found_secrets(&mut self, found: bool) {
        let path = format!("{}{CLUSTER_SECRETS}", join(self.element, &self.around));
        self.evaluation.reads.found(path, Finding::of(found));
    }

    /// Records that the answer for this generator is complete, and that nothing in it is no
    /// sign of a mistake.
    pub fn may_end(&mut self) {
        self.evaluation.may_end = true;
    }

    /// As [`Self::child`], of the result of [`Self::interpolate`].
    pub fn interpolated_child(
        &mut self,
        element: &Value,
        place: &str,
    ) -> Result<Vec<Element>, Failure> {
        let before = std::mem::replace(&mut self.is_interpolated, true);
        let sets = self.child(element, place);
        self.is_interpolated = before;
        sets
    }

    /// The generator of an element inside of this one.
    fn only(&self, element: &Value) -> Result<&'static Generator, Failure> {
        let all = self.evaluation.generators;
        let mut generators = of(all, element);
        let (Some(generator), None) = (generators.next(), generators.next()) else {
            let keys: Vec<&str> = of(all, element).map(|generator| generator.key).collect();
            let cause = format!(
                "has {} generators, {}; write one, and the others as elements of their own",
                keys.len(),
                keys.join(" and ")
            );
            return Err(Failure::new("", cause));
        };
        if generator.origin == ParameterOrigin::Elements && self.depth + 1 >= MAX_DEPTH {
            let cause = "a matrix or merge generator can be nested once only";
            return Err(Failure::new(generator.key, cause));
        }
        Ok(generator)
    }

    /// Checks an element and those inside of it, also those that no parameter set may ever
    /// need, and takes their intervals (AS-047, AS-098).
    pub fn declare(&mut self, element: &Value, place: &str) -> Result<(), Failure> {
        let below = |failure: Failure| failure.below(place);
        let all = self.evaluation.generators;
        shape(all, element).map_err(below)?;
        for generator in of(all, element) {
            let key = generator.key;
            let place = join(place, key);
            let below = |failure: Failure| failure.below(&place);
            let fields = &element[key];
            known_fields(generator, object(fields, &place)?).map_err(below)?;
            let children = (generator.declare)(fields, self).map_err(below)?;
            self.requeue(generator, fields).map_err(below)?;
            for (index, child) in children.iter().enumerate() {
                let place = join(&place, &format!("generators[{index}]"));
                shape(all, child).and_then(|_| self.only(child)).map_err(|f| f.below(&place))?;
                self.inner().declare(child, &place)?;
            }
        }
        Ok(())
    }

    /// An element with the parameters of another generator in its strings (AS-071): not in
    /// its selector (AS-046), in templates, which are ignored (AS-074), nor in what `values`
    /// take from the parameters of their own generator (AS-073).
    pub fn interpolate(
        &mut self,
        element: &Value,
        place: &str,
        parameters: &mut Given<'_>,
    ) -> Result<Value, Failure> {
        let mut interpolated = Map::new();
        for (key, value) in element.as_object().into_iter().flatten() {
            let generator = self.evaluation.generators.iter().copied().find(|one| one.key == key);
            let value = match (generator, value) {
                (Some(generator), Value::Object(fields)) => {
                    let place = join(place, key);
                    self.interpolate_generator(generator, fields, &place, parameters)?
                }
                _ => value.clone(),
            };
            interpolated.insert(key.clone(), value);
        }
        Ok(interpolated.into())
    }

    fn interpolate_generator(
        &mut self,
        generator: &'static Generator,
        fields: &Map<String, Value>,
        place: &str,
        parameters: &mut Given<'_>,
    ) -> Result<Value, Failure> {
        let own_values = generator.fields.contains(&"values");
        let mut interpolated = Map::new();
        for (field, value) in field_order::ordered_fields(generator.key, fields) {
            let place = join(place, field);
            let value = match (field, value) {
                ("template", _) => continue,
                ("values", Value::Object(values)) if own_values => {
                    self.interpolate_values(values, &place, parameters)?
                }
                ("generators", Value::Array(children))
                    if generator.origin == ParameterOrigin::Elements =>
                {
                    let mut elements = Vec::with_capacity(children.len());
                    for (index, child) in children.iter().enumerate() {
                        let place = format!("{place}[{index}]");
                        let mut element = self.interpolate(child, &place, parameters)?;
                        // A field of the nested generator, unlike the selector of this one.
                        if let Some(selector) = element.get_mut("selector") {
                            let place = join(&place, "selector");
                            *selector = self.render(selector, ("selector", &place), parameters)?;
                        }
                        elements.push(element);
                    }
                    elements.into()
                }
                _ => self.render(value, (field, &place), parameters)?,
            };
            interpolated.insert(field.to_owned(), value);
        }
        Ok(interpolated.into())
    }

    /// `values` with the parameters of another generator. A text that uses keys that these
    /// do not have is kept: the parameters of its own generator may have them (AS-073).
    fn interpolate_values(
        &mut self,
        values: &Map<String, Value>,
        place: &str,
        parameters: &mut Given<'_>,
    ) -> Result<Value, Failure> {
        let mut interpolated = Map::new();
        for (name, value) in values {
            let (engine, env) = (&mut *self.evaluation.engine, &mut *self.evaluation.env);
            let mut render = |text: &str| {
                let rendered = engine.render_if_known(text, parameters, env);
                rendered.map_err(|error| of_template(&error, join(place, name)))
            };
            let value = match value {
                Value::String(text) => render(text)?.into(),
                other => other.clone(),
            };
            interpolated.insert(render(name)?, value);
        }
        Ok(interpolated.into())
    }

    /// A value with parameters in all its strings.
    fn render(
        &mut self,
        value: &Value,
        field: (&str, &str),
        parameters: &mut Given<'_>,
    ) -> Result<Value, Failure> {
        let (engine, env) = (&mut *self.evaluation.engine, &mut *self.evaluation.env);
        engine.interpolate(value, field, parameters, env).map_err(of_engine)
    }

    /// An object as parameters: with the simple engine, a flat map of text.
    pub fn parameters_of(&self, object: Map<String, Value>) -> Map<String, Value> {
        match self.is_go() {
            true => object,
            false => {
                let flat = flatten(&object).into_iter();
                flat.map(|(key, text)| (key, text.into())).collect()
            }
        }
    }

    /// A counted parameter set: these parameters with the `values` of its generator.
    pub fn element(
        &mut self,
        generator: &Value,
        field: String,
        mut values: Map<String, Value>,
        mut texts: Texts,
    ) -> Result<Element, Failure> {
        self.add_values(generator, &mut values, &mut texts)?;
        self.count(&values)?;
        Ok(Element { field, values, texts })
    }

    /// Adds the `values` of a generator to its parameters (AS-112): each is rendered with
    /// these parameters, and without the other values.
    fn add_values(
        &mut self,
        generator: &Value,
        parameters: &mut Map<String, Value>,
        texts: &mut Texts,
    ) -> Result<(), Failure> {
        let values = match &generator["values"] {
            Value::Null => return Ok(()),
            Value::Object(values) => values,
            other => return Err(wrong_type("values", "an object of strings", other)),
        };
        let mut rendered = Map::new();
        let mut given = Given::new(parameters, *texts);
        for name in values.keys() {
            let value = text(&generator["values"], name).map_err(|f| f.below("values"))?;
            let (engine, env) = (&mut *self.evaluation.engine, &mut *self.evaluation.env);
            let value = engine.render_value(value, &mut given, env);
            let place = || join("values", name);
            rendered.insert(name.clone(), value.map_err(|e| of_template(&e, place()))?.into());
        }
        if let Some(changed) = self.changed_values(&given) {
            *parameters = changed.map_err(|failure| failure.below("values"))?;
        }
        if self.is_go() {
            if !rendered.is_empty() {
                parameters.insert("values".to_owned(), rendered.into());
                *texts = texts.and(Texts::VALUES);
            }
        } else {
            let flat = rendered.into_iter().map(|(name, value)| (format!("values.{name}"), value));
            parameters.extend(flat);
        }
        Ok(())
    }

    /// The parameters as templates have changed them, if one has.
    pub fn changed_values(&self, given: &Given<'_>) -> Option<Result<Map<String, Value>, Failure>> {
        let changed = given.changed_values(&self.evaluation.engine.limits().template)?;
        Some(changed.map_err(|cause| Failure::new("", cause)))
    }

    /// Counts a parameter set against the limits of the ApplicationSet.
    pub fn count(&mut self, values: &Map<String, Value>) -> Result<(), Failure> {
        let counted = self.evaluation.engine.count_parameters(values);
        counted.map_err(|cause| Failure { field: String::new(), cause, limit: true })
    }

    fn check_time(&mut self, place: &str) -> Result<(), Failure> {
        self.evaluation.engine.check_time(place, self.evaluation.env).map_err(of_engine)
    }
}

/// Fails for a field that a generator does not have.
fn known_fields(generator: &Generator, fields: &Map<String, Value>) -> Result<(), Failure> {
    let known = generator.fields;
    let unknown = |field: &&String| !known.contains(&field.as_str());
    match fields.keys().find(unknown).filter(|_| !known.is_empty()) {
        None => Ok(()),
        Some(unknown) => {
            let (key, known) = (generator.key, known.join(", "));
            let cause = format!("is not a field of a {key} generator; its fields are {known}");
            Err(Failure::new(unknown, cause))
        }
    }
}

/// The generators of an element.
pub(super) fn of(
    generators: Generators,
    element: &Value,
) -> impl Iterator<Item = &'static Generator> {
    generators.iter().copied().filter(|generator| !element[generator.key].is_null())
}

/// Checks that an element is an object with a generator and known keys only; returns its
/// selector.
pub(super) fn shape(generators: Generators, element: &Value) -> Result<Selector, Failure> {
    let fields = object(element, "")?;
    let is_known = |key: &&String| {
        *key == "selector" || generators.iter().any(|generator| generator.key == *key)
    };
    if let Some(unknown) = fields.keys().find(|key| !is_known(key)) {
        return Err(Failure::new(unknown, not_a_generator(generators)));
    }
    if of(generators, element).next().is_none() {
        let cause = "has no generator; add a list generator, or remove the element";
        return Err(Failure::new("", cause));
    }
    Selector::read(&element["selector"]).map_err(|cause| Failure::new("selector", cause))
}

pub(super) fn not_a_generator(generators: Generators) -> String {
    let keys: Vec<&str> = generators.iter().map(|generator| generator.key).collect();
    format!("is not a generator; the generators are {}", keys.join(", "))
}

fn of_template(error: &gotemplate::TemplateError, field: String) -> Failure {
    Failure { field, cause: missing_key::explained(error), limit: error.is_limit() }
}

fn of_engine(error: GenerateError) -> Failure {
    match error {
        GenerateError::Render { place, cause, limit, .. } => Failure { field: place, cause, limit },
        GenerateError::Limit { place, cause } => {
            Failure { field: place, cause: format!("limit exceeded: {cause}"), limit: true }
        }
        other => Failure::new("", other.to_string()),
    }
}
