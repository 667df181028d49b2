//! The plugin generator: the parameter sets that an HTTP service gives.

use serde_json::{Map, Value, json};

use super::element::Failure;
use super::fields::Fields;
use super::scope::{Generator, GeneratorScope, ParameterSets};
use crate::desired::queries::{self, Answer, Query};
use crate::desired::texts::Texts;

/// The plugin generator.
pub(super) static PLUGIN: Generator = Generator::new(
    "plugin",
    &["configMapRef", "input", "requeueAfterSeconds", "values", "template"],
    generate,
);

fn generate(generator: &Value, scope: &mut GeneratorScope<'_, '_>) -> ParameterSets {
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
    let Answer::Parameters(sets) = &*answer else {
        return Err(Failure::new("", "was answered with something else than parameters"));
    };
    let mut elements = Vec::with_capacity(sets.len());
    for (index, mut values) in sets.iter().cloned().enumerate() {
        // Its own key is replaced, as in Argo CD.
        values.insert("generator".to_owned(), json!({"input": {"parameters": input}}));
        let values = scope.parameters_of(values);
        let field = format!("[{index}]");
        elements.push(scope.element(generator, field, values, Texts::default())?);
    }
    Ok(elements)
}
