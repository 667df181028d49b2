//! The Go `text/template` language (AS-120 to AS-135).
//!
//! [`Template::parse`] compiles a text once; [`Template::execute`] renders it for one set
//! of parameters, and can be called from many threads. Output, errors and their positions
//! are those of Go 1.26. Unlike Go, an execution is limited by [`Limits`] and can exhaust
//! neither memory nor the stack.

mod ast;
mod builtins;
mod call;
mod compare;
mod escape;
mod exec;
mod float;
pub(crate) mod format;
pub(crate) mod function;
pub(crate) mod gotime;
mod layout;
mod lex;
mod methods;
mod parse;
mod run;
pub(crate) mod strconv;
mod token;
pub(crate) mod value;
mod verbs;

pub(crate) use compare::deep_equal;
pub(crate) use float::{format_float, shortest};
pub(crate) use layout::parse as layout_parse;
pub(crate) use run::{Args, Run};
pub use run::{Env, Limits, Random};

use super::{Error, Fault};

/// Meaning of `{{.x}}` when the parameters have no `x` (AS-132).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// No value, which prints as `<no value>`.
    #[default]
    Default,
    /// The zero value of the map's type.
    Zero,
    /// The execution fails.
    Error,
}

/// Options of the engine: `goTemplateOptions` of an ApplicationSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Meaning of a missing key.
    pub missing_key: MissingKey,
}

impl Options {
    /// Parses options such as `missingkey=error`; the last one is used. An unknown option
    /// is an error (AS-133).
    pub fn parse(options: &[String]) -> Result<Self, Error> {
        let mut parsed = Self::default();
        for option in options {
            parsed.missing_key = match option.as_str() {
                "missingkey=invalid" | "missingkey=default" => MissingKey::Default,
                "missingkey=zero" => MissingKey::Zero,
                "missingkey=error" => MissingKey::Error,
                _ => return Err(Error::Option { option: option.clone() }),
            };
        }
        Ok(parsed)
    }
}

/// A compiled template.
#[derive(Debug)]
pub struct Template {
    name: String,
    text: String,
    options: Options,
    trees: parse::Trees,
}

impl Template {
    /// Compiles a template without a name. Syntax errors and unknown functions are errors that name the line (AS-131).
    pub fn parse(text: &str, options: &Options) -> Result<Self, Error> {
        Self::parse_named("", text, options)
    }

    /// Compiles a template whose name appears in its errors.
    pub fn parse_named(name: &str, text: &str, options: &Options) -> Result<Self, Error> {
        let trees = parse::parse(name, text).map_err(|error| Error::Parse {
            name: name.to_owned(),
            line: error.line,
            message: error.message,
        })?;
        Ok(Self { name: name.to_owned(), text: text.to_owned(), options: *options, trees })
    }

    /// Renders the template. Functions of time and random values (`now`, `randInt`, …)
    /// fail: see [`Self::execute_in`].
    pub fn execute(
        &self,
        data: &serde_json::Map<String, serde_json::Value>,
        limits: &Limits,
    ) -> Result<String, Error> {
        self.run(value::Value::from_object(data), Run::new(*limits, None))
    }

    /// Renders the template with the given time and random source.
    pub fn execute_in(
        &self,
        data: &serde_json::Map<String, serde_json::Value>,
        limits: &Limits,
        env: &mut Env,
    ) -> Result<String, Error> {
        self.run(value::Value::from_object(data), Run::new(*limits, Some(env)))
    }

    /// As [`Self::execute_in`]; the objects at the paths `texts` are maps of strings, where
    /// `*` is any element of a list. One with another value is a map of any values.
    pub fn execute_typed(
        &self,
        data: &serde_json::Map<String, serde_json::Value>,
        texts: &[&[&str]],
        limits: &Limits,
        env: &mut Env,
    ) -> Result<String, Error> {
        self.run(value::Value::from_typed_object(data, texts), Run::new(*limits, Some(env)))
    }

    fn run(&self, data: value::Value, run: Run<'_>) -> Result<String, Error> {
        let Some(root) = self.trees.get(self.name.as_bytes()) else { return Ok(String::new()) };
        let out = exec::Exec::new(self, root, run).execute(root, data)?;
        // Functions that count bytes may split a character, which a Kubernetes field
        // cannot contain.
        Ok(String::from_utf8(out)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }
}

/// The line (from 1) and the column (in bytes, from 0) of a byte offset, as Go counts them.
fn position(text: &str, pos: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..pos.min(text.len())];
    let line = 1 + before.iter().filter(|b| **b == b'\n').count();
    let column = before.iter().rev().take_while(|b| **b != b'\n').count();
    (line, column)
}
