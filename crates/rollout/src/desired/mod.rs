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

mod error;
mod field_order;
mod flatten;
pub mod generators;
mod go_syntax;
pub mod inputs;
mod limits;
mod missing_key;
pub mod overrides;
pub mod patch;
pub mod queries;
pub mod template;
#[cfg(test)]
mod tests;
mod texts;
mod values_object;

use serde_json::{Map, Value};

use self::generators::{GeneratorEvaluation, Output};
use self::inputs::{Inputs, Reads};
use self::template::Engine;
use self::texts::Given;
pub use self::{error::GenerateError, limits::Limits};
use gotemplate::go::Env;
use wavegate_api::application_set::ApplicationSetSyncPolicy;
use wavegate_api::live::LiveSetSpec;
use wavegate_api::{API_VERSION, Raw, annotations::RESOURCES_FINALIZER, unknown};

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
    /// Applications that nothing generated, by index: for tests.
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

/// Generates the Applications of an ApplicationSet, in name order.
///
/// `set` is the raw object; `env` provides the time and the entropy for
/// template functions.
///
/// # Errors
///
/// [`GenerateError::Unread`] when `inputs` lack a part of a repository or the answer of a service; otherwise the first error
/// of any generator or parameter set, after all were tried; at once when a limit is
/// exceeded. A retry is pointless until the set or the inputs have changed.
pub fn generate(set: &Value, inputs: &Inputs, env: &mut Env) -> Result<Generation, GenerateError> {
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
) -> Result<Generation, GenerateError> {
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

/// As [`generate_within`], but passes on each Application with its origin as soon as
/// it is generated, so that not all of them are in memory as trees
/// ([`Limits::tree_bytes`]). After an error, the caller must discard those passed on.
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
) -> Result<(), GenerateError> {
    generate_into(set, inputs, limits, env, reads, take).map_err(GenerateError::shortened)
}

fn generate_into(
    set: &Value,
    inputs: &Inputs,
    limits: Limits,
    env: &mut Env,
    reads: &mut Reads,
    take: &mut dyn FnMut(Value, String),
) -> Result<(), GenerateError> {
    let spec = set.spec();
    let mut engine = Engine::of(spec, limits, env)?;
    if !engine.is_go() {
        for field in ["template", "templatePatch"] {
            let found = spec.get(field).and_then(|value| go_syntax::in_value(value, field));
            if let Some(found) = found {
                reads.warn(format!("spec.{found}"));
            }
        }
    }
    let mut evaluation = GeneratorEvaluation::new(spec, &mut engine, &mut *env, inputs, reads);
    let mut evaluated = Vec::new();
    for (index, element) in generators::generator_elements(spec)?.iter().enumerate() {
        let place = format!("spec.generators[{index}]");
        let outputs = evaluation.parameter_sets(element, &place);
        let outputs =
            outputs.map_err(|error| generators::with_key_of_user(error, set, index, &place));
        match outputs {
            Err(error) if error.is_limit() => return Err(error),
            outputs => evaluated.push(outputs.map_err(GenerateError::shortened)),
        }
    }
    let GeneratorEvaluation { unread, .. } = evaluation;
    if !unread.is_empty() {
        return Err(GenerateError::Unread(unread));
    }
    let mut first_error = None;
    for outputs in evaluated {
        match outputs {
            Err(error) => {
                first_error.get_or_insert(error);
            }
            Ok(outputs) => {
                for output in outputs {
                    env.varied = false;
                    let failed = render_output(set, output, &mut engine, env, take)?;
                    first_error = first_error.or(failed);
                    if env.varied {
                        reads.warn(VARIES.to_owned());
                    }
                }
            }
        }
    }
    first_error.map_or(Ok(()), Err)
}

/// The warning about a template that reads the time or random values (AS-135). Argo CD generates
/// every few minutes, and shows it at once.
const VARIES: &str = "spec.template: reads the time or random values: after a restart, or when a \
    generator finds something new, all its Applications change, or get other names";

/// Renders the Applications of one generator; returns the first error, or fails when a
/// limit is exceeded.
fn render_output(
    set: &Value,
    output: Output,
    engine: &mut Engine,
    env: &mut Env,
    take: &mut dyn FnMut(Value, String),
) -> Result<Option<GenerateError>, GenerateError> {
    let mut template =
        overrides::merge(&output.template, set.spec().get("template").unwrap_or(&Value::Null));
    let Some(first) = output.sets.first() else { return Ok(None) };
    if let Err((place, cause)) = values_object::parse(&mut template) {
        let parameters = first.origin.clone();
        return Ok(Some(GenerateError::Render { place, cause, parameters, limit: false }));
    }
    let mut first_error = None;
    for parameters in output.sets {
        let which = || parameters.origin.clone();
        match render_one(set, &template, &mut parameters.given(), engine, env, &which) {
            Ok(application) => {
                engine.count_tree(&application)?;
                take(application, parameters.origin);
            }
            Err(error) if error.is_limit() => return Err(error),
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    Ok(first_error)
}

/// An object's `metadata.name`; empty when it has none.
pub fn name_of(object: &Value) -> &str {
    object.name()
}

fn render_one(
    set: &Value,
    template: &Value,
    parameters: &mut Given<'_>,
    engine: &mut Engine,
    env: &mut Env,
    which: &dyn Fn() -> String,
) -> Result<Value, GenerateError> {
    engine.begin_application(env)?;
    let mut application = Map::new();
    application.insert("apiVersion".to_owned(), API_VERSION.into());
    application.insert("kind".to_owned(), "Application".into());
    for part in ["metadata", "spec"] {
        let place = format!("spec.template.{part}");
        let field = (part, place.as_str());
        let rendered = engine.render(&template[part], field, parameters, env, which)?;
        application.insert(part.to_owned(), rendered);
    }
    let mut application = Value::Object(application);
    add_finalizer(&mut application, &LiveSetSpec::of(set).sync_policy);
    let place = "spec.templatePatch";
    let text = match set.spec().get("templatePatch") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text),
        Some(_) => {
            let cause = "must be a string; write it as a block, after a |".to_owned();
            return Err(GenerateError::Render {
                place: place.to_owned(),
                cause,
                parameters: which(),
                limit: false,
            });
        }
    };
    if let Some(text) = text {
        let text = engine.render_patch(text, place, parameters, env, which)?;
        let failed = |cause: String| GenerateError::Render {
            place: place.to_owned(),
            cause,
            parameters: which(),
            limit: false,
        };
        let known = unknown::in_application(&application);
        patch::apply(&mut application, &text).map_err(|cause| {
            failed(match go_syntax::first_action(&text).filter(|_| !engine.is_go()) {
                Some(action) => format!("{cause}; {}", go_syntax::go_remedy(action)),
                None => cause,
            })
        })?;
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
    if !set.namespace().is_empty() {
        metadata.insert("namespace".to_owned(), set.namespace().into());
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
fn add_finalizer(application: &mut Value, sync_policy: &ApplicationSetSyncPolicy) {
    let preserve = sync_policy.preserve_resources_on_deletion;
    let Some(Value::Object(metadata)) = application.get_mut("metadata") else { return };
    let has_any = metadata
        .get("finalizers")
        .and_then(Value::as_array)
        .is_some_and(|finalizers| !finalizers.is_empty());
    if !preserve && !has_any {
        metadata.insert("finalizers".to_owned(), Value::from(vec![RESOURCES_FINALIZER]));
    }
}
