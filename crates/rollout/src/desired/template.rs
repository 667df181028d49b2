//! Renders every string of a template with parameters (AS-110).

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::error::GenerateError;
use super::field_order;
use super::limits::Limits;
use super::missing_key;
use super::texts::Given;
use gotemplate::go::{Env, GoTemplate, MissingKey, TemplateOptions};
use gotemplate::simple;
use wavegate_api::yaml::{map_weight, value_weight};

#[cfg(test)]
thread_local! {
    /// How many templates this thread has compiled.
    pub(super) static COMPILED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The engine selected by `goTemplate`, and its remaining limits.
#[derive(Debug)]
pub struct Engine {
    language: Language,
    limits: Limits,
    /// When generating started.
    began: Duration,
    /// Strings rendered since the last check of the time.
    unwatched: usize,
    /// The size of all Applications so far, in bytes.
    bytes: usize,
    /// The size of the current one.
    application_bytes: usize,
    /// The memory of all parameter sets so far, in bytes.
    parameter_bytes: u64,
    /// The same of all Applications.
    tree_bytes: u64,
}

/// A language, with its compiled templates: each distinct string is compiled
/// once per generation (AS-134).
#[derive(Debug)]
enum Language {
    /// Only `{{name}}`.
    Simple,
    /// Go `text/template`.
    Go {
        /// `goTemplateOptions`.
        options: TemplateOptions,
        /// Compiled templates by their text.
        compiled: HashMap<String, GoTemplate>,
        /// The same, compiled so that a missing key is an error.
        strict: HashMap<String, GoTemplate>,
        /// The length of all of them.
        bytes: usize,
    },
}

impl Language {
    fn of(spec: &Value) -> Result<Self, GenerateError> {
        if spec["goTemplate"] != Value::Bool(true) {
            return Ok(Self::Simple);
        }
        let listed = spec["goTemplateOptions"].as_array().into_iter().flatten();
        let options: Vec<String> =
            listed.filter_map(|option| option.as_str().map(str::to_owned)).collect();
        let options = TemplateOptions::parse(&options)
            .map_err(|error| GenerateError::Options(error.to_string()))?;
        Ok(Self::Go { options, compiled: HashMap::new(), strict: HashMap::new(), bytes: 0 })
    }
}

/// The size of a value besides its text, in bytes.
const VALUE: usize = 32;
/// What a parameter set takes beside its values, and an Application: itself, its origin, and its
/// place in lists.
const PARAMETER_SET: u64 = 256;

/// What an Application takes beside its values: its digests, names and places in lists.
const APPLICATION: usize = 512;

/// The largest factor between the length of a patch and its size when parsed.
const PATCH: usize = 8;

/// Most bytes of compiled templates that are kept. Texts of a template are few; those of a
/// generator that is interpolated may be another one for each parameter set.
const MAX_COMPILED: usize = 16 << 20;

/// Strings between two checks of the time, unless one of them takes long.
const WATCH: usize = 64;

impl Engine {
    /// The engine for the spec of an ApplicationSet; its time limit starts now.
    ///
    /// # Errors
    ///
    /// [`GenerateError::Options`] for an unknown option (AS-133).
    pub fn of(spec: &Value, limits: Limits, env: &Env) -> Result<Self, GenerateError> {
        let language = Language::of(spec)?;
        let began = (env.used)();
        Ok(Self {
            language,
            limits,
            began,
            unwatched: 0,
            bytes: 0,
            application_bytes: 0,
            parameter_bytes: 0,
            tree_bytes: 0,
        })
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether it is the Go engine.
    pub fn is_go(&self) -> bool {
        matches!(self.language, Language::Go { .. })
    }

    /// Starts the next Application.
    ///
    /// # Errors
    ///
    /// [`GenerateError::Limit`] when the time limit of the set is exceeded.
    pub fn begin_application(&mut self, env: &Env) -> Result<(), GenerateError> {
        self.application_bytes = 0;
        self.count("spec.template", APPLICATION)?;
        self.check_time("spec.template", env)
    }

    /// Checks the time limit of the set.
    ///
    /// # Errors
    ///
    /// [`GenerateError::Limit`] when it is exceeded.
    pub fn check_time(&mut self, place: &str, env: &Env) -> Result<(), GenerateError> {
        self.unwatched = 0;
        let (used, limit) = ((env.used)().saturating_sub(self.began), self.limits.time);
        if used <= limit {
            return Ok(());
        }
        let cause = format!("generating the set takes more than {} s", limit.as_secs_f64());
        Err(GenerateError::Limit { place: place.to_owned(), cause })
    }

    /// Counts the size of a part of an Application.
    fn count(&mut self, place: &str, bytes: usize) -> Result<(), GenerateError> {
        self.application_bytes = self.application_bytes.saturating_add(bytes);
        self.bytes = self.bytes.saturating_add(bytes);
        let exceeded = |what: &str, limit: usize| {
            let cause = format!("{what} takes more than {limit} bytes");
            Err(GenerateError::Limit { place: place.to_owned(), cause })
        };
        if self.application_bytes > self.limits.application_bytes {
            return exceeded("one Application", self.limits.application_bytes);
        }
        if self.bytes > self.limits.bytes {
            return exceeded("the set", self.limits.bytes);
        }
        Ok(())
    }

    /// Counts a generated Application as it is in memory.
    ///
    /// # Errors
    ///
    /// [`GenerateError::Limit`] when those of the set take too much.
    pub fn count_tree(&mut self, application: &Value) -> Result<(), GenerateError> {
        self.tree_bytes += PARAMETER_SET + value_weight(application);
        let limit = self.limits.tree_bytes;
        if self.tree_bytes <= limit {
            return Ok(());
        }
        let cause = format!("the set takes more than {limit} bytes of memory");
        Err(GenerateError::Limit { place: "spec.template".to_owned(), cause })
    }

    /// Renders the text of a patch, by the rules of `Self::render_text`.
    ///
    /// # Errors
    ///
    /// As [`Self::render`].
    pub fn render_patch(
        &mut self,
        text: &str,
        place: &str,
        parameters: &mut Given<'_>,
        env: &mut Env,
        which: &dyn Fn() -> String,
    ) -> Result<String, GenerateError> {
        let text = self.render_text(text, place, parameters, env, which)?;
        self.count(place, text.len().saturating_mul(PATCH - 1))?;
        Ok(text)
    }

    /// Renders every string of a value, including keys. Numbers and booleans
    /// are copied, nulls in objects are dropped.
    ///
    /// An empty parameter set renders nothing (AS-121). `place` is the path of
    /// the value and `which` identifies the parameter set, both for errors;
    /// `name` is that of the field, for the order of the fields in it.
    ///
    /// # Errors
    ///
    /// [`GenerateError::Render`] when a template fails, and [`GenerateError::Limit`] when the
    /// Application is too large or the set takes too long.
    pub fn render(
        &mut self,
        value: &Value,
        (name, place): (&str, &str),
        parameters: &mut Given<'_>,
        env: &mut Env,
        which: &dyn Fn() -> String,
    ) -> Result<Value, GenerateError> {
        self.count(place, VALUE)?;
        Ok(match value {
            Value::String(text) => self.render_text(text, place, parameters, env, which)?.into(),
            Value::Array(list) => {
                let mut rendered = Vec::with_capacity(list.len());
                for (index, item) in list.iter().enumerate() {
                    let place = format!("{place}[{index}]");
                    rendered.push(self.render(item, (name, &place), parameters, env, which)?);
                }
                rendered.into()
            }
            Value::Object(object) => {
                let mut rendered = Map::new();
                for (key, item) in field_order::ordered_fields(name, object) {
                    if item.is_null() {
                        continue;
                    }
                    let place = format!("{place}.{key}");
                    // The value before its key, as in Argo CD.
                    let item = self.render(item, (key, &place), parameters, env, which)?;
                    let key = self.render_text(key, &place, parameters, env, which)?;
                    rendered.insert(key, item);
                }
                rendered.into()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        })
    }

    /// Renders every string of a part of a generator with the parameters of another one
    /// (AS-071).
    ///
    /// # Errors
    ///
    /// As [`Self::render`].
    pub fn interpolate(
        &mut self,
        value: &Value,
        field: (&str, &str),
        parameters: &mut Given<'_>,
        env: &mut Env,
    ) -> Result<Value, GenerateError> {
        self.application_bytes = 0;
        // It is no Application, and counts for the set only.
        let most = std::mem::replace(&mut self.limits.application_bytes, usize::MAX);
        let rendered = self.render(value, field, parameters, env, &String::new);
        self.limits.application_bytes = most;
        rendered
    }

    /// Renders a text if all keys that it uses exist, and returns it unchanged otherwise
    /// (AS-073). The simple engine replaces the placeholders that exist.
    ///
    /// # Errors
    ///
    /// Any other failure of the template.
    pub fn render_if_known(
        &mut self,
        text: &str,
        parameters: &mut Given<'_>,
        env: &mut Env,
    ) -> Result<String, gotemplate::TemplateError> {
        match self.execute(text, parameters, env, true) {
            Err(error) if error.is_missing() => Ok(text.to_owned()),
            rendered => rendered,
        }
    }

    /// Renders a text of `values` (AS-112).
    ///
    /// # Errors
    ///
    /// The failure of the template.
    pub fn render_value(
        &mut self,
        text: &str,
        parameters: &mut Given<'_>,
        env: &mut Env,
    ) -> Result<String, gotemplate::TemplateError> {
        self.execute(text, parameters, env, false)
    }

    /// Counts a parameter set.
    ///
    /// # Errors
    ///
    /// The exceeded limit.
    pub fn count_parameters(&mut self, values: &Map<String, Value>) -> Result<(), String> {
        self.parameter_bytes += PARAMETER_SET + map_weight(values);
        let limit = self.limits.parameter_bytes;
        if self.parameter_bytes > limit {
            return Err(format!(
                "limit exceeded: the parameter sets take more than {limit} bytes of memory"
            ));
        }
        Ok(())
    }

    /// Renders one string, by the same rules.
    fn render_text(
        &mut self,
        text: &str,
        place: &str,
        parameters: &mut Given<'_>,
        env: &mut Env,
        which: &dyn Fn() -> String,
    ) -> Result<String, GenerateError> {
        if parameters.values.is_empty() || !text.contains("{{") {
            self.count(place, text.len())?;
            return Ok(text.to_owned());
        }
        let rendered = self.execute(text, parameters, env, false);
        self.unwatched += 1;
        if std::mem::take(&mut env.looked) || self.unwatched >= WATCH {
            self.check_time(place, env)?;
        }
        let rendered = rendered.map_err(|error| GenerateError::Render {
            place: place.to_owned(),
            limit: error.is_limit(),
            cause: missing_key::explained(&error),
            parameters: which(),
        })?;
        self.count(place, rendered.len())?;
        Ok(rendered)
    }

    /// Executes a template; with `strict`, a missing key is an error.
    fn execute(
        &mut self,
        text: &str,
        parameters: &mut Given<'_>,
        env: &mut Env,
        strict: bool,
    ) -> Result<String, gotemplate::TemplateError> {
        if parameters.values.is_empty() || !text.contains("{{") {
            return Ok(text.to_owned());
        }
        let limits = &self.limits.template;
        match &mut self.language {
            Language::Simple => simple::render(text, parameters.values, limits.output_bytes),
            Language::Go { options, compiled, strict: compiled_strictly, bytes } => {
                if *bytes > MAX_COMPILED {
                    compiled.clear();
                    compiled_strictly.clear();
                    *bytes = 0;
                }
                let (compiled, options) = if strict {
                    (compiled_strictly, TemplateOptions { missing_key: MissingKey::Error })
                } else {
                    (compiled, *options)
                };
                let template = match compiled.get(text) {
                    Some(template) => template,
                    None => {
                        let template = GoTemplate::parse(text, &options)?;
                        #[cfg(test)]
                        COMPILED.with(|compiled| compiled.set(compiled.get() + 1));
                        *bytes += text.len() + VALUE;
                        compiled.entry(text.to_owned()).or_insert(template)
                    }
                };
                template.execute_shared(parameters.shared(), limits, env)
            }
        }
    }
}
