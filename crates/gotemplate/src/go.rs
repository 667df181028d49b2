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
use crate::engine::run::{Changed, Run, Used, break_cycles};
use crate::engine::value::{Value, valid_text};
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
        self.run(Value::from_object(data, &[]), Run::new(*limits, None)).0
    }

    /// Renders the template with the given time and random source.
    pub fn execute_in(
        &self,
        data: &Map<String, Json>,
        limits: &TemplateLimits,
        env: &mut Env,
    ) -> Result<String, TemplateError> {
        self.run(Value::from_object(data, &[]), Run::new(*limits, Some(env))).0
    }

    /// As [`Self::execute_in`], with parameters that keep what functions such as `set` change,
    /// also when the template fails. Templates that change something have the steps and the
    /// memory of the limits together, as one.
    pub fn execute_shared(
        &self,
        data: &mut SharedParameters,
        limits: &TemplateLimits,
        env: &mut Env,
    ) -> Result<String, TemplateError> {
        let run = Run::new(*limits, Some(env)).after(data.used);
        let (out, run) = self.run(data.root.clone(), run);
        data.keep(run);
        out
    }

    fn run<'e>(&self, data: Value, run: Run<'e>) -> (Result<String, TemplateError>, Run<'e>) {
        let (out, run) = exec::execute(&self.0, data, run);
        // Functions that count bytes may split a character; the output is text.
        let text = |out| {
            String::from_utf8(out).unwrap_or_else(|error| valid_text(error.as_bytes()).into_owned())
        };
        (out.map(text), run)
    }
}

/// The parameters of several templates: each sees what functions such as `set` changed in those
/// before it, since maps are references in Go.
pub struct SharedParameters {
    root: Value,
    changed: Changed,
    used: Used,
}

impl SharedParameters {
    /// The parameters `data`; the objects at the paths `texts` are maps of strings, where `*` is
    /// any element of a list. One with another value is a map of any values.
    pub fn new(data: &Map<String, Json>, texts: &[&[&str]]) -> Self {
        let root = Value::from_object(data, texts);
        Self { root, changed: Changed::new(), used: Used::default() }
    }

    /// The parameters as they are now, as JSON; `None` when nothing was changed.
    ///
    /// # Errors
    ///
    /// Why they are no JSON: a map that contains itself, or a value without a JSON type.
    pub fn changed_values(
        &self,
        limits: &TemplateLimits,
    ) -> Option<Result<Map<String, Json>, String>> {
        if self.changed.is_empty() {
            return None;
        }
        // They may be as long as a template may make them, and not only as one text.
        let limits = TemplateLimits { output_bytes: limits.memory_bytes, ..*limits };
        let text = funcs::json_text(&mut Run::new(limits, None), &self.root);
        Some(text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string())))
    }

    fn keep(&mut self, run: Run<'_>) {
        let (changed, used) = run.into_changes();
        if !changed.is_empty() {
            self.used = used;
            self.changed.extend(changed);
        }
    }
}

impl std::fmt::Debug for SharedParameters {
    // Not the values: a map may contain itself.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedParameters").field("used", &self.used).finish_non_exhaustive()
    }
}

impl Drop for SharedParameters {
    fn drop(&mut self) {
        break_cycles(&mut self.changed);
    }
}
