//! What a generator may use: the template engine, the observed facts, and other generators.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Element, Evaluation, Failure, Generator, join, kind, of, shape, text};
use crate::api::cluster::ClusterSecret;
use crate::desired::Error;
use crate::desired::inputs::{GitAnswer, GitRequest, Inputs};

/// The deepest nesting: matrix and merge in matrix and merge (AS-004).
const MAX_DEPTH: usize = 2;

/// The evaluation of one generator.
pub struct Scope<'s, 'e> {
    evaluation: &'s mut Evaluation<'e>,
    /// The number of matrix and merge generators around it.
    depth: usize,
}

impl<'s, 'e> Scope<'s, 'e> {
    /// The scope of a generator in `spec.generators`.
    pub fn top(evaluation: &'s mut Evaluation<'e>) -> Self {
        Self { evaluation, depth: 0 }
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

    /// The cluster Secrets.
    pub fn clusters(&mut self) -> &'e [ClusterSecret] {
        self.evaluation.reads.clusters = true;
        &self.evaluation.inputs.clusters
    }

    /// A part of a repository; `None` when it must be read first.
    pub fn git(&mut self, request: GitRequest) -> Option<Result<Arc<GitAnswer>, String>> {
        let answer = self.evaluation.inputs.git.get(&request).cloned();
        if answer.is_none() {
            self.evaluation.unread.insert(request.clone());
        }
        self.evaluation.reads.git.insert(request);
        answer
    }

    /// Generate again after an interval, at the latest; zero for no interval.
    pub fn requeue_after(&mut self, interval: std::time::Duration) {
        self.evaluation.reads.requeue_after(interval);
    }

    /// Runs a generator, and counts its parameter sets; failures have its key in their path.
    pub fn generate(
        &mut self,
        generator: &dyn Generator,
        fields: &Value,
    ) -> Result<Vec<Element>, Failure> {
        let key = generator.key();
        let below = |failure: Failure| failure.below(key);
        let Value::Object(object) = fields else {
            let cause = format!("must be an object, is {}", kind(fields));
            return Err(Failure::new(key, cause));
        };
        let known = generator.fields();
        let unknown = |field: &&String| !known.contains(&field.as_str());
        if let Some(unknown) = object.keys().find(unknown).filter(|_| !known.is_empty()) {
            let known = known.join(", ");
            let cause = format!("is not a field of a {key} generator; its fields are {known}");
            return Err(below(Failure::new(unknown, cause)));
        }
        let elements = generator.generate(fields, self).map_err(below)?;
        self.check_time(key)?;
        Ok(elements
            .into_iter()
            .map(|Element { field, values }| Element { field: join(key, &field), values })
            .collect())
    }

    /// The parameter sets of an element of a matrix or merge generator, those that its
    /// selector matches. It must contain one generator (AS-041, AS-070).
    pub fn child(&mut self, element: &Value, place: &str) -> Result<Vec<Element>, Failure> {
        let selector = shape(element).map_err(|failure| failure.below(place))?;
        let mut generators = of(element);
        let (Some(generator), None) = (generators.next(), generators.next()) else {
            let keys: Vec<&str> = of(element).map(Generator::key).collect();
            let cause = format!(
                "has {} generators, {}; write one, and the others as elements of their own",
                keys.len(),
                keys.join(" and ")
            );
            return Err(Failure::new(place, cause));
        };
        let key = generator.key();
        let combines = matches!(key, "matrix" | "merge");
        if combines && self.depth + 1 >= MAX_DEPTH {
            let cause = "a matrix or merge generator can be nested once only";
            return Err(Failure::new(join(place, key), cause));
        }
        let mut inner = Scope { evaluation: &mut *self.evaluation, depth: self.depth + 1 };
        let sets = inner.generate(generator, &element[key]).map_err(|f| f.below(place))?;
        let sets = sets.into_iter().filter(|set| selector.matches(&set.values));
        Ok(sets.map(|set| Element { field: join(place, &set.field), ..set }).collect())
    }

    /// Checks the shape of an element that may never be evaluated.
    pub fn check(&self, element: &Value, place: &str) -> Result<(), Failure> {
        shape(element).map(drop).map_err(|failure| failure.below(place))
    }

    /// An element with the parameters of another generator in all its strings (AS-071):
    /// not in its selector (AS-046), its template, nor in what the `values` of its
    /// generator take from its own parameters (AS-073).
    pub fn interpolate(
        &mut self,
        element: &Value,
        place: &str,
        parameters: &Map<String, Value>,
    ) -> Result<Value, Failure> {
        let mut element = element.clone();
        for generator in super::GENERATORS {
            let key = generator.key();
            let Some(fields) = element.get_mut(key).and_then(Value::as_object_mut) else {
                continue;
            };
            let own_values = generator.fields().contains(&"values");
            for (field, value) in fields {
                let place = join(&join(place, key), field);
                if field == "template" {
                    continue;
                }
                if field != "values" || !own_values {
                    *value = self.render(value, &place, parameters)?;
                    continue;
                }
                for (name, value) in value.as_object_mut().into_iter().flatten() {
                    let Value::String(text) = value else { continue };
                    let (engine, env) = (&mut *self.evaluation.engine, &mut *self.evaluation.env);
                    let rendered = engine.render_if_known(text, parameters, env);
                    *text = rendered.map_err(|error| of_template(&error, join(&place, name)))?;
                }
            }
        }
        Ok(element)
    }

    /// A value with parameters in all its strings.
    fn render(
        &mut self,
        value: &Value,
        place: &str,
        parameters: &Map<String, Value>,
    ) -> Result<Value, Failure> {
        let (engine, env) = (&mut *self.evaluation.engine, &mut *self.evaluation.env);
        engine.interpolate(value, place, parameters, env).map_err(of_engine)
    }

    /// Adds the `values` of a generator to its parameters (AS-112): each is rendered with
    /// these parameters, and without the other values.
    pub fn add_values(
        &mut self,
        generator: &Value,
        parameters: &mut Map<String, Value>,
    ) -> Result<(), Failure> {
        let values = match &generator["values"] {
            Value::Null => return Ok(()),
            Value::Object(values) => values,
            other => {
                let cause = format!("must be an object of strings, is {}", kind(other));
                return Err(Failure::new("values", cause));
            }
        };
        let mut rendered = Map::new();
        for name in values.keys() {
            let value = text(&generator["values"], name).map_err(|f| f.below("values"))?;
            let (engine, env) = (&mut *self.evaluation.engine, &mut *self.evaluation.env);
            let value = engine.render_value(value, parameters, env);
            let place = || join("values", name);
            rendered.insert(name.clone(), value.map_err(|e| of_template(&e, place()))?.into());
        }
        if self.is_go() {
            if !rendered.is_empty() {
                parameters.insert("values".to_owned(), rendered.into());
            }
        } else {
            let flat = rendered.into_iter().map(|(name, value)| (format!("values.{name}"), value));
            parameters.extend(flat);
        }
        Ok(())
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

fn of_template(error: &crate::template::Error, field: String) -> Failure {
    Failure { field, cause: error.to_string(), limit: error.is_limit() }
}

fn of_engine(error: Error) -> Failure {
    match error {
        Error::Render { place, cause, limit, .. } => Failure { field: place, cause, limit },
        Error::Limit { place, cause } => {
            Failure { field: place, cause: format!("limit exceeded: {cause}"), limit: true }
        }
        other => Failure::new("", other.to_string()),
    }
}
