//! Parameters and a template become an object: every string of the template is
//! rendered on its own (AS-110).

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::Error;
use crate::template::go::{Env, Limits, Options, Template};
use crate::template::simple;

/// The engine that `goTemplate` selects, with the templates compiled so far:
/// each distinct string is compiled once per generation (AS-134).
#[derive(Debug)]
pub enum Engine {
    /// `{{name}}` and nothing else.
    Simple,
    /// Go `text/template`.
    Go {
        /// `goTemplateOptions`.
        options: Options,
        /// Compiled templates by their text.
        compiled: HashMap<String, Template>,
    },
}

impl Engine {
    /// The engine of an ApplicationSet's spec.
    ///
    /// # Errors
    ///
    /// [`Error::Options`] for an option that does not exist (AS-133).
    pub fn of(spec: &Value) -> Result<Self, Error> {
        if spec["goTemplate"] != Value::Bool(true) {
            return Ok(Self::Simple);
        }
        let listed = spec["goTemplateOptions"].as_array().into_iter().flatten();
        let options: Vec<String> =
            listed.filter_map(|option| option.as_str().map(str::to_owned)).collect();
        let options =
            Options::parse(&options).map_err(|error| Error::Options(error.to_string()))?;
        Ok(Self::Go { options, compiled: HashMap::new() })
    }

    /// Whether it is the Go engine.
    pub fn is_go(&self) -> bool {
        matches!(self, Self::Go { .. })
    }

    /// Renders every string of a value, keys included. Numbers and booleans are
    /// copied, nulls in objects are dropped.
    ///
    /// An empty parameter set renders nothing at all (AS-121). `place` is the
    /// value's path and `which` tells the parameter set, both for errors.
    pub fn render(
        &mut self,
        value: &Value,
        place: &str,
        parameters: &Map<String, Value>,
        env: &mut Env,
        which: &dyn Fn() -> String,
    ) -> Result<Value, Error> {
        Ok(match value {
            Value::String(text) => self.render_text(text, place, parameters, env, which)?.into(),
            Value::Array(list) => {
                let mut rendered = Vec::with_capacity(list.len());
                for (index, item) in list.iter().enumerate() {
                    let place = format!("{place}[{index}]");
                    rendered.push(self.render(item, &place, parameters, env, which)?);
                }
                rendered.into()
            }
            Value::Object(object) => {
                let mut rendered = Map::new();
                for (key, item) in object {
                    if item.is_null() {
                        continue;
                    }
                    let place = format!("{place}.{key}");
                    let key = self.render_text(key, &place, parameters, env, which)?;
                    rendered.insert(key, self.render(item, &place, parameters, env, which)?);
                }
                rendered.into()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        })
    }

    /// Renders one string, under the same rules.
    pub fn render_text(
        &mut self,
        text: &str,
        place: &str,
        parameters: &Map<String, Value>,
        env: &mut Env,
        which: &dyn Fn() -> String,
    ) -> Result<String, Error> {
        if parameters.is_empty() || !text.contains("{{") {
            return Ok(text.to_owned());
        }
        let failed = |error: crate::template::Error| Error::Render {
            place: place.to_owned(),
            cause: error.to_string(),
            parameters: which(),
        };
        match self {
            Self::Simple => simple::render(text, parameters).map_err(failed),
            Self::Go { options, compiled } => {
                let template = match compiled.get(text) {
                    Some(template) => template,
                    None => {
                        let template = Template::parse(text, options).map_err(failed)?;
                        compiled.entry(text.to_owned()).or_insert(template)
                    }
                };
                template.execute_in(parameters, &Limits::default(), env).map_err(failed)
            }
        }
    }
}
