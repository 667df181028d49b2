//! What should exist: an ApplicationSet becomes the Applications it generates.
//!
//! ```text
//! generators ──▶ parameter sets ──▶ template ──▶ patch ──▶ Applications, by name
//! ```
//!
//! Works on raw JSON throughout, so that nothing a user wrote in a template is
//! lost, whether Wavegate models it or not. Pure: no cluster, no file; the time
//! and the source of chance that a few template functions ask for are handed
//! in. It either gives the whole set or an error, never a part of it: a part
//! would look like a wish to delete the rest (AS-140).

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod generators;
pub mod overrides;
pub mod patch;
pub mod selector;
pub mod template;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde_json::{Map, Value};

use self::template::Engine;
use crate::api::unknown;
use crate::api::{
    API_VERSION, annotations::RESOURCES_FINALIZER, conditions::application_set::reason,
};
use crate::template::go::{self, Env};

/// What generating one ApplicationSet may use up (AS-135).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long it may take, by the time of the [`Env`].
    pub time: Duration,
    /// What all its Applications may take together, in bytes: their text, and
    /// 32 bytes for each value.
    pub bytes: usize,
    /// What one Application may take, in bytes. The API server takes no more
    /// than 3 MiB, and etcd mostly 1.5 MiB.
    pub application_bytes: usize,
    /// The limits of each template.
    pub template: go::Limits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(30),
            bytes: 256 << 20,
            application_bytes: 4 << 20,
            template: go::Limits::default(),
        }
    }
}

/// The generated set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generation {
    /// Applications as raw objects, sorted by name; names may be missing, of
    /// another type or occur twice, validation tells.
    pub applications: Vec<Value>,
    /// What each of them was made of, in the same order, as
    /// `spec.generators[0].list.elements[2]`.
    pub origins: Vec<String>,
    /// What is odd but no error.
    pub warnings: Vec<String>,
}

impl Generation {
    /// Applications that were made of nothing, by number.
    #[cfg(test)]
    pub fn of(applications: impl IntoIterator<Item = Value>) -> Self {
        let applications: Vec<Value> = applications.into_iter().collect();
        let origins = (0..applications.len()).map(|index| format!("elements[{index}]")).collect();
        Self { applications, origins, warnings: Vec::new() }
    }

    /// Every Application under what it is called: its name, or where it comes
    /// from when its name is no text or empty. Several may be called the same.
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
        /// Which one, as a path such as `spec.generators[0].list`.
        place: String,
        /// What is wrong and what to do.
        cause: String,
    },
    /// The template or the patch failed for a parameter set.
    #[error("{place}: {cause} (parameters of {parameters})")]
    Render {
        /// Which string, as a path such as `spec.template.metadata.name`.
        place: String,
        /// What is wrong.
        cause: String,
        /// Which parameter set, as `spec.generators[0].list.elements[2]`.
        parameters: String,
        /// Whether it is a limit that was exceeded.
        limit: bool,
    },
    /// The set, or one of its Applications, uses up more than it may.
    #[error("{place}: limit exceeded: {cause}")]
    Limit {
        /// Which template, as a path.
        place: String,
        /// Which limit.
        cause: String,
    },
    /// `goTemplateOptions` names an option that does not exist.
    #[error("spec.goTemplateOptions: {0}")]
    Options(String),
}

impl Error {
    /// The reason of the condition it leads to (AS-140).
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Generator { .. } => reason::APPLICATION_GENERATION_FROM_PARAMS_ERROR,
            Self::Render { .. } | Self::Limit { .. } | Self::Options(_) => {
                reason::RENDER_TEMPLATE_PARAMS_ERROR
            }
        }
    }

    /// Whether a limit was exceeded: nothing more is tried then.
    fn is_limit(&self) -> bool {
        matches!(self, Self::Render { limit: true, .. } | Self::Limit { .. })
    }
}

/// Generates the Applications of an ApplicationSet, in name order.
///
/// `set` is the raw object; `env` serves template functions that ask for the
/// time or for chance.
///
/// # Errors
///
/// The first error of any generator or parameter set, after all were tried;
/// at once when a limit is exceeded. Trying again helps only once the set has
/// changed.
pub fn generate(set: &Value, env: &mut Env) -> Result<Generation, Error> {
    generate_within(set, Limits::default(), env)
}

/// As [`generate`], within other limits.
///
/// # Errors
///
/// As [`generate`].
pub fn generate_within(set: &Value, limits: Limits, env: &mut Env) -> Result<Generation, Error> {
    let mut made: Vec<(Value, String)> = Vec::new();
    generate_into(set, limits, env, &mut |application, origin| made.push((application, origin)))?;
    // Stable, so that two of one name keep the order they were generated in.
    made.sort_by(|(a, _), (b, _)| name_of(a).cmp(name_of(b)));
    let (applications, origins) = made.into_iter().unzip();
    Ok(Generation { applications, origins, warnings: Vec::new() })
}

/// As [`generate`], but each Application is handed on as it is made, with what it
/// was made of and in that order, so that a fleet of them is never there as
/// trees. When it fails, what was handed on is to be thrown away.
///
/// # Errors
///
/// As [`generate`].
pub fn generate_each(
    set: &Value,
    env: &mut Env,
    take: &mut dyn FnMut(Value, String),
) -> Result<(), Error> {
    generate_into(set, Limits::default(), env, take)
}

fn generate_into(
    set: &Value,
    limits: Limits,
    env: &mut Env,
    take: &mut dyn FnMut(Value, String),
) -> Result<(), Error> {
    let spec = &set["spec"];
    let mut engine = Engine::of(spec, limits, env)?;
    let mut first_error = None;
    for (index, element) in generators::elements(spec)?.iter().enumerate() {
        let place = format!("spec.generators[{index}]");
        let outputs = match generators::parameter_sets(element, &place, engine.is_go()) {
            Ok(outputs) => outputs,
            Err(error) => {
                first_error
                    .get_or_insert_with(|| generators::with_key_of_user(error, set, index, &place));
                continue;
            }
        };
        for output in outputs {
            let template = overrides::merge(&output.template, &spec["template"]);
            for parameters in output.sets {
                let which = || parameters.origin.clone();
                match render_one(set, &template, &parameters.values, &mut engine, env, &which) {
                    Ok(application) => take(application, parameters.origin),
                    Err(error) if error.is_limit() => return Err(error),
                    Err(error) => {
                        first_error.get_or_insert(error);
                    }
                }
            }
        }
    }
    first_error.map_or(Ok(()), Err)
}

/// An object's `metadata.name`; empty when it has none.
pub fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn render_one(
    set: &Value,
    template: &Value,
    parameters: &Map<String, Value>,
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
            let cause = "must be text; write it as a block, after a |".to_owned();
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
        // The API server would drop them, and the Application would differ for
        // ever. Those of the template it has kept in the set.
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

/// What is taken of a rendered and patched object: of its metadata the name,
/// labels, annotations and finalizers, and the spec (AS-144). The kind is kept
/// for validation to see.
///
/// Generated Applications live beside their set, whatever the template or the
/// patch say (AS-006): a security boundary.
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
