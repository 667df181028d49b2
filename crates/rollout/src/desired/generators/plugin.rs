//! The plugin generator: the parameter sets that an HTTP service gives.

use serde_json::{Map, Value, json};

use super::element::{Element, Failure};
use super::fields::Fields;
use super::git::requeue;
use super::scope::{Generator, GeneratorScope};
use crate::desired::flatten::flatten;
use crate::desired::inputs::PROVIDER_REQUEUE_AFTER;
use crate::desired::queries::{self, Answer, Query};
use crate::desired::texts::Texts;

/// The plugin generator.
pub struct Plugin;

impl Generator for Plugin {
    fn key(&self) -> &'static str {
        "plugin"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["configMapRef", "input", "requeueAfterSeconds", "values", "template"]
    }

    fn declare<'a>(
        &self,
        generator: &'a Value,
        scope: &mut GeneratorScope<'_, '_>,
    ) -> Result<&'a [Value], Failure> {
        requeue(generator, PROVIDER_REQUEUE_AFTER, scope)?;
        Ok(&[])
    }

    fn generate(
        &self,
        generator: &Value,
        scope: &mut GeneratorScope<'_, '_>,
    ) -> Result<Vec<Element>, Failure> {
        let config_map = Fields::of(&generator["configMapRef"], "configMapRef", &["name"])?;
        let input = match &generator["input"] {
            Value::Null => Value::Null,
            input => {
                Fields::of(input, "input", &["parameters"])?;
                input["parameters"].clone()
            }
        };
        let input = match input {
            Value::Null => Map::new(),
            Value::Object(input) => input,
            _ => return Err(Failure::new("input.parameters", "must be an object")),
        };
        let query = queries::Plugin {
            config_map: config_map.required("name")?,
            parameters: Value::from(input.clone()).to_string(),
        };
        let Some(answer) = scope.ask(Query::Plugin(query))? else { return Ok(Vec::new()) };
        let sets = match &*answer.map_err(|cause| Failure::new("", cause))? {
            Answer::Parameters(sets) => sets.clone(),
            _ => return Err(Failure::new("", "was answered with something else than parameters")),
        };
        let go = scope.is_go();
        let mut elements = Vec::with_capacity(sets.len());
        for (index, mut values) in sets.into_iter().enumerate() {
            // Its own key is replaced, as in Argo CD.
            values.insert("generator".to_owned(), json!({"input": {"parameters": input}}));
            if !go {
                values =
                    flatten(&values).into_iter().map(|(key, text)| (key, text.into())).collect();
            }
            let mut texts = Texts::default();
            scope.add_values(generator, &mut values, &mut texts)?;
            scope.count(&values)?;
            let field = format!("[{index}]");
            elements.push(Element { field, values, texts });
        }
        Ok(elements)
    }
}
