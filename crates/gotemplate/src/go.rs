//! The Go `text/template` language (AS-120 to AS-135).
//!
//! [`GoTemplate::parse`] compiles a text once; [`GoTemplate::execute`] renders it for one set
//! of parameters, and can be called from many threads. Output, errors and their positions
//! are those of Go 1.26. Unlike Go, an execution is limited by [`TemplateLimits`] and can exhaust
//! neither memory nor the stack.

use serde_json::{Map, Value as Json};

pub use crate::engine::exec::MissingKey;
pub use crate::engine::run::{Env, Random, TemplateLimits};

use crate::engine::exec::{self, Source};
use crate::engine::run::Run;
use crate::engine::value::Value;
use crate::error::TemplateError;
use crate::funcs;

/// Options of the engine: `goTemplateOptions` of an ApplicationSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TemplateOptions {
    /// Meaning of a missing key.
    pub missing_key: MissingKey,
}

impl TemplateOptions {
    /// Parses options such as `missingkey=error`; the last one is used. An unknown option
    /// is an error (AS-133).
    pub fn parse(options: &[String]) -> Result<Self, TemplateError> {
        let mut parsed = Self::default();
        for option in options {
            parsed.missing_key = match option.as_str() {
                "missingkey=invalid" | "missingkey=default" => MissingKey::Default,
                "missingkey=zero" => MissingKey::Zero,
                "missingkey=error" => MissingKey::Error,
                _ => return Err(TemplateError::Option { option: option.clone() }),
            };
        }
        Ok(parsed)
    }
}

/// A compiled template.
#[derive(Debug)]
pub struct GoTemplate(Source);

impl GoTemplate {
    /// Compiles a template without a name. Syntax errors and unknown functions are errors that name the line (AS-131).
    pub fn parse(text: &str, options: &TemplateOptions) -> Result<Self, TemplateError> {
        Self::parse_named("", text, options)
    }

    /// Compiles a template whose name appears in its errors.
    pub fn parse_named(
        name: &str,
        text: &str,
        options: &TemplateOptions,
    ) -> Result<Self, TemplateError> {
        Source::parse(name, text, options.missing_key, funcs::find).map(Self)
    }

    /// Renders the template. Functions of time and random values (`now`, `randInt`, …)
    /// fail: see [`Self::execute_in`].
    pub fn execute(
        &self,
        data: &Map<String, Json>,
        limits: &TemplateLimits,
    ) -> Result<String, TemplateError> {
        self.run(Value::from_object(data, &[]), Run::new(*limits, None))
    }

    /// Renders the template with the given time and random source.
    pub fn execute_in(
        &self,
        data: &Map<String, Json>,
        limits: &TemplateLimits,
        env: &mut Env,
    ) -> Result<String, TemplateError> {
        self.execute_typed(data, &[], limits, env)
    }

    /// As [`Self::execute_in`]; the objects at the paths `texts` are maps of strings, where
    /// `*` is any element of a list. One with another value is a map of any values.
    pub fn execute_typed(
        &self,
        data: &Map<String, Json>,
        texts: &[&[&str]],
        limits: &TemplateLimits,
        env: &mut Env,
    ) -> Result<String, TemplateError> {
        self.run(Value::from_object(data, texts), Run::new(*limits, Some(env)))
    }

    fn run(&self, data: Value, run: Run<'_>) -> Result<String, TemplateError> {
        let out = exec::execute(&self.0, data, run)?;
        // Functions that count bytes may split a character; the output is text.
        Ok(String::from_utf8(out)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }
}
