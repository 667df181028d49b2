//! Generates the Applications of an ApplicationSet.
//!
//! ```text
//! generators ──▶ parameter sets ──▶ template ──▶ patch ──▶ Applications, by name
//! ```
//!
//! Works on raw JSON, so that all fields of a template are kept, even those
//! without a type here. Pure: no cluster and no file; the time and the entropy
//! for template functions are parameters. The result is either the complete set
//! or an error, never a part of it: missing Applications would be deleted
//! (AS-140).

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod flatten;
pub mod generators;
pub mod inputs;
pub mod overrides;
pub mod patch;
pub mod selector;
pub mod template;
#[cfg(test)]
mod tests;
mod texts;
mod values_object;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value};

use self::generators::{Evaluation, Output};
use self::inputs::{GitRequest, Inputs, Reads};
use self::template::Engine;
use self::texts::Given;
use crate::api::unknown;
use crate::api::{
    API_VERSION, annotations::RESOURCES_FINALIZER, conditions::application_set::reason,
};
use gotemplate::go::{self, Env};

/// Limits for generating one ApplicationSet (AS-135).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The time limit, measured with the clock of the [`Env`].
    pub time: Duration,
    /// The most bytes of all its Applications: their text, and 32 bytes for
    /// each value.
    pub bytes: usize,
    /// The most bytes of one Application. The API server accepts at most 3 MiB,
    /// and etcd usually 1.5 MiB.
    pub application_bytes: usize,
    /// The limits of each template.
    pub template: go::Limits,
    /// The most parameter sets of all generators together, those inside of matrix and
    /// merge generators included.
    pub parameter_sets: usize,
    /// The most parts of repositories that all generators together read: a matrix may name
    /// another repository for each parameter set.
    pub repository_reads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(30),
            bytes: 256 << 20,
            application_bytes: 4 << 20,
            template: go::Limits::default(),
            parameter_sets: 400_000,
            repository_reads: 1_000,
        }
    }
}

/// Most characters of the place and of the cause of an error: as much as a condition keeps.
const MAX_ERROR: usize = 1024;

/// The generated set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generation {
    /// Applications as raw objects, sorted by name; validation reports names
    /// that are missing, of another type or duplicate.
    pub applications: Vec<Value>,
    /// The origin of each of them in the same order, such as
    /// `spec.generators[0].list.elements[2]`.
    pub origins: Vec<String>,
    /// Warnings.
    pub warnings: Vec<String>,
    /// What its generators used.
    pub reads: Reads,
}

impl Generation {
    /// Applications from empty parameter sets, by index.
    #[cfg(test)]
    pub fn of(applications: impl IntoIterator<Item = Value>) -> Self {
        let applications: Vec<Value> = applications.into_iter().collect();
        let origins = (0..applications.len()).map(|index| format!("elements[{index}]")).collect();
        Self { applications, origins, ..Self::default() }
    }

    /// Every Application with its name, or its origin if the name is empty or
    /// not a string. Names may be duplicate.
    pub fn called(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.applications.iter().zip(&self.origins).map(|(application, origin)| {
            let name = name_of(application);
            (if name.is_empty() { origin.as_str() } else { name }, application)
        })
    }
}

/// Why a set could not be generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A generator failed.
    #[error("{place}: {cause}")]
    Generator {
        /// Its path, such as `spec.generators[0].list`.
        place: String,
        /// The error, and how to fix it.
        cause: String,
        /// Whether a limit was exceeded.
        limit: bool,
    },
    /// Parts of repositories are needed that were not read yet ([`Inputs::git`]).
    #[error(
        "spec.generators: {} is not read; a repository and its revision must be the same in each evaluation",
        unread(.0)
    )]
    Unread(BTreeSet<GitRequest>),
    /// The template or the patch failed for a parameter set.
    #[error("{place}: {cause} (parameters of {parameters})")]
    Render {
        /// The path of the string, such as `spec.template.metadata.name`.
        place: String,
        /// The error.
        cause: String,
        /// The parameter set, as `spec.generators[0].list.elements[2]`.
        parameters: String,
        /// Whether a limit was exceeded.
        limit: bool,
    },
    /// The set, or one of its Applications, exceeds a limit.
    #[error("{place}: limit exceeded: {cause}")]
    Limit {
        /// The path of the template.
        place: String,
        /// The limit.
        cause: String,
    },
    /// `goTemplateOptions` names an option that does not exist.
    #[error("spec.goTemplateOptions: {0}")]
    Options(String),
}

impl Error {
    /// The reason of the resulting condition (AS-140).
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Generator { .. } | Self::Unread(_) => {
                reason::APPLICATION_GENERATION_FROM_PARAMS_ERROR
            }
            Self::Render { .. } | Self::Limit { .. } | Self::Options(_) => {
                reason::RENDER_TEMPLATE_PARAMS_ERROR
            }
        }
    }

    /// The same error without more than the beginning of what it quotes: values and templates
    /// may be large, and it is kept, logged and stored.
    fn shortened(mut self) -> Self {
        let texts = match &mut self {
            Self::Generator { place, cause, .. } | Self::Limit { place, cause } => [place, cause],
            Self::Render { place, cause, .. } => [place, cause],
            Self::Unread(_) | Self::Options(_) => return self,
        };
        for text in texts {
            if let Some((at, _)) = text.char_indices().nth(MAX_ERROR) {
                text.truncate(at);
                text.push('…');
                text.shrink_to_fit();
            }
        }
        self
    }

    /// Whether a limit was exceeded: then generating stops at once.
    pub fn is_limit(&self) -> bool {
        matches!(
            self,
            Self::Generator { limit: true, .. }
                | Self::Render { limit: true, .. }
                | Self::Limit { .. }
        )
    }
}

/// Generates the Applications of an ApplicationSet, in name order.
///
/// `set` is the raw object; `env` provides the time and the entropy for
/// template functions.
///
/// # Errors
///
/// [`Error::Unread`] when `inputs` lack a part of a repository; otherwise the first error
/// of any generator or parameter set, after all were tried; at once when a limit is
/// exceeded. A retry is pointless until the set or the inputs have changed.
pub fn generate(set: &Value, inputs: &Inputs, env: &mut Env) -> Result<Generation, Error> {
    generate_within(set, inputs, Limits::default(), env)
}

/// As [`generate`], with other limits.
///
/// # Errors
///
/// As [`generate`].
pub fn generate_within(
    set: &Value,
    inputs: &Inputs,
    limits: Limits,
    env: &mut Env,
) -> Result<Generation, Error> {
    let mut made: Vec<(Value, String)> = Vec::new();
    let take = &mut |application, origin| made.push((application, origin));
    let mut reads = Reads::default();
    generate_each_within(set, inputs, limits, env, &mut reads, take)?;
    // The sort is stable, so Applications of one name keep their order.
    made.sort_by(|(a, _), (b, _)| name_of(a).cmp(name_of(b)));
    let (applications, origins) = made.into_iter().unzip();
    let warnings = reads.warnings.iter().cloned().collect();
    Ok(Generation { applications, origins, warnings, reads })
}

/// As [`generate_each_within`] with the limits of one set.
///
/// # Errors
///
/// As [`generate`].
pub fn generate_each(
    set: &Value,
    inputs: &Inputs,
    env: &mut Env,
    reads: &mut Reads,
    take: &mut dyn FnMut(Value, String),
) -> Result<(), Error> {
    generate_each_within(set, inputs, Limits::default(), env, reads, take)
}

/// As [`generate_within`], but passes on each Application with its origin as soon as
/// it is generated, so that not all of them are in memory as trees. After an
/// error, the caller must discard those passed on.
///
/// # Errors
///
/// As [`generate`].
pub fn generate_each_within(
    set: &Value,
    inputs: &Inputs,
    limits: Limits,
    env: &mut Env,
    reads: &mut Reads,
    take: &mut dyn FnMut(Value, String),
) -> Result<(), Error> {
    generate_into(set, inputs, limits, env, reads, take).map_err(Error::shortened)
}

fn generate_into(
    set: &Value,
    inputs: &Inputs,
    limits: Limits,
    env: &mut Env,
    reads: &mut Reads,
    take: &mut dyn FnMut(Value, String),
) -> Result<(), Error> {
    let spec = &set["spec"];
    let mut engine = Engine::of(spec, limits, env)?;
    let mut evaluation = Evaluation::new(spec, &mut engine, &mut *env, inputs, reads);
    let mut evaluated = Vec::new();
    for (index, element) in generators::elements(spec)?.iter().enumerate() {
        let place = format!("spec.generators[{index}]");
        let outputs = evaluation.parameter_sets(element, &place);
        let outputs =
            outputs.map_err(|error| generators::with_key_of_user(error, set, index, &place));
        match outputs {
            Err(error) if error.is_limit() => return Err(error),
            outputs => evaluated.push(outputs.map_err(Error::shortened)),
        }
    }
    let Evaluation { unread, .. } = evaluation;
    if !unread.is_empty() {
        return Err(Error::Unread(unread));
    }
    let mut first_error = None;
    for outputs in evaluated {
        match outputs {
            Err(error) => {
                first_error.get_or_insert(error);
            }
            Ok(outputs) => {
                for output in outputs {
                    let failed = render_output(set, output, &mut engine, env, take)?;
                    first_error = first_error.or(failed);
                }
            }
        }
    }
    first_error.map_or(Ok(()), Err)
}

/// Renders the Applications of one generator; returns the first error, or fails when a
/// limit is exceeded.
fn render_output(
    set: &Value,
    output: Output,
    engine: &mut Engine,
    env: &mut Env,
    take: &mut dyn FnMut(Value, String),
) -> Result<Option<Error>, Error> {
    let mut template = overrides::merge(&output.template, &set["spec"]["template"]);
    let Some(first) = output.sets.first() else { return Ok(None) };
    if let Err((place, cause)) = values_object::parse(&mut template) {
        let parameters = first.origin.clone();
        return Ok(Some(Error::Render { place, cause, parameters, limit: false }));
    }
    let mut first_error = None;
    for parameters in output.sets {
        let which = || parameters.origin.clone();
        match render_one(set, &template, parameters.given(), engine, env, &which) {
            Ok(application) => take(application, parameters.origin),
            Err(error) if error.is_limit() => return Err(error),
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    Ok(first_error)
}

/// The repositories of some requests, for a message.
fn unread(requests: &BTreeSet<GitRequest>) -> String {
    let urls: BTreeSet<&str> = requests.iter().map(|request| &*request.repo_url).collect();
    urls.into_iter().collect::<Vec<_>>().join(", ")
}

/// An object's `metadata.name`; empty when it has none.
pub fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn render_one(
    set: &Value,
    template: &Value,
    parameters: Given<'_>,
    engine: &mut Engine,
    env: &mut Env,
    which: &dyn Fn() -> String,
) -> Result<Value, Error> {
    engine.begin_application(env)?;
    let mut application = Map::new();
    application.insert("apiVersion".to_owned(), API_VERSION.into());
    application.insert("kind".to_owned(), "Application".into());
    for part in ["metadata", "spec"] {
        let place = format!("spec.template.{part}");
        let rendered = engine.render(&template[part], &place, parameters, env, which)?;
        application.insert(part.to_owned(), rendered);
    }
    let mut application = Value::Object(application);
    add_finalizer(&mut application, &set["spec"]["syncPolicy"]);
    let place = "spec.templatePatch";
    let text = match &set["spec"]["templatePatch"] {
        Value::Null => None,
        Value::String(text) => Some(text),
        _ => {
            let cause = "must be a string; write it as a block, after a |".to_owned();
            return Err(Error::Render {
                place: place.to_owned(),
                cause,
                parameters: which(),
                limit: false,
            });
        }
    };
    if let Some(text) = text {
        let text = engine.render_patch(text, place, parameters, env, which)?;
        let failed = |cause: String| Error::Render {
            place: place.to_owned(),
            cause,
            parameters: which(),
            limit: false,
        };
        let known = unknown::in_application(&application);
        patch::apply(&mut application, &text).map_err(failed)?;
        // The API server would drop them, and the Application would always
        // differ. Those of the template are kept in the set.
        let is_taken = |path: &str| path.starts_with("spec.") || path.starts_with("metadata.");
        let added: Vec<String> = unknown::in_application(&application)
            .iter()
            .filter(|field| is_taken(&field.path) && !known.contains(field))
            .map(ToString::to_string)
            .collect();
        if !added.is_empty() {
            return Err(failed(added.join("; ")));
        }
    }
    Ok(taken(application, set))
}

/// The fields used of a rendered and patched object: the spec, and of the
/// metadata the name, labels, annotations and finalizers (AS-144). The kind is
/// kept for validation.
///
/// Generated Applications are in the namespace of their set, regardless of
/// template and patch (AS-006): a security boundary.
fn taken(mut application: Value, set: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["name", "labels", "annotations", "finalizers"] {
        let rendered = application.get_mut("metadata").and_then(|metadata| metadata.get_mut(field));
        match rendered.map(Value::take) {
            None | Some(Value::Null) => {}
            Some(value) => {
                metadata.insert(field.to_owned(), value);
            }
        }
    }
    if let Some(namespace) = set["metadata"]["namespace"].as_str() {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    let mut object = Map::new();
    let mut take = |field: &str| application.get_mut(field).map(Value::take).unwrap_or_default();
    for field in ["apiVersion", "kind", "spec"] {
        object.insert(field.to_owned(), take(field));
    }
    object.insert("metadata".to_owned(), metadata.into());
    Value::Object(object)
}

/// AS-160; also for an empty parameter set (AS-121).
fn add_finalizer(application: &mut Value, sync_policy: &Value) {
    let preserve = sync_policy["preserveResourcesOnDeletion"] == Value::Bool(true);
    let Some(metadata) = application["metadata"].as_object_mut() else { return };
    let has_any = metadata
        .get("finalizers")
        .and_then(Value::as_array)
        .is_some_and(|finalizers| !finalizers.is_empty());
    if !preserve && !has_any {
        metadata.insert("finalizers".to_owned(), Value::from(vec![RESOURCES_FINALIZER]));
    }
}
