//! Text into objects: the rules for what one file may hold (SE-099, SE-100,
//! SE-102), and everything that can go wrong between checkout and objects.

use serde_json::Value;

use super::directory::Manifest;
use crate::glob::InvalidGlob;
use crate::yaml::{self, Document};

/// Most objects of one source.
const MAX_OBJECTS: usize = 100_000;

/// Why a source gave no manifests. The texts hold no path of this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// `path` is not in the repository at this revision.
    #[error("{path}: app path does not exist")]
    MissingPath {
        /// The path as written.
        path: String,
    },
    /// `path` names a file.
    #[error("{path}: app path is not a directory")]
    NotADirectory {
        /// The path as written.
        path: String,
    },
    /// `path` starts with `/`.
    #[error("{path}: app path is absolute, write it relative to the root of the repository")]
    AbsolutePath {
        /// The path as written.
        path: String,
    },
    /// `path` leads out of the repository, by `..` or by a symbolic link.
    #[error("{path}: app path is outside of the repository")]
    OutsidePath {
        /// The path as written.
        path: String,
    },
    /// A symbolic link leads out of the repository.
    #[error(
        "{file}: symbolic link leads out of the repository, make it point inside or exclude it"
    )]
    LinkOutside {
        /// The link, from the root of the repository.
        file: String,
    },
    /// `include` or `exclude` is no pattern.
    #[error("directory.{field}: {source}")]
    Pattern {
        /// `include` or `exclude`.
        field: &'static str,
        /// What is wrong with it.
        source: InvalidGlob,
    },
    /// There is more than is allowed.
    #[error("{what}")]
    TooLarge {
        /// Where, what and the limit.
        what: String,
    },
    /// A file could not be read.
    #[error("{file}: cannot read: {error}")]
    Read {
        /// The file, from the root of the repository.
        file: String,
        /// What the operating system said.
        error: String,
    },
    /// A file holds something that is no manifest.
    #[error("Failed to unmarshal {file:?}: {reason}")]
    Unreadable {
        /// The file, from the root of the repository.
        file: String,
        /// Line and reason.
        reason: String,
    },
    /// A JSON file holds more than one value.
    #[error("Found multiple objects in {file:?}. Only single objects are allowed in JSON files.")]
    MultipleJson {
        /// The file, from the root of the repository.
        file: String,
    },
    /// Jsonnet is not rendered: it can read any file of this machine.
    #[error("{file}: jsonnet is not supported, commit its output or exclude the file")]
    Jsonnet {
        /// The file, from the root of the repository.
        file: String,
    },
    /// The source block contradicts itself (SE-037) or cannot be read.
    #[error("{reason}")]
    Source {
        /// What is wrong.
        reason: String,
    },
    /// The program that renders this kind of source is not installed.
    #[error(
        "application {application}: cannot start {program}, which its source needs: {detail}; install it"
    )]
    MissingProgram {
        /// The Application.
        application: String,
        /// The program.
        program: String,
        /// What the operating system said.
        detail: String,
    },
    /// The program that renders this kind of source failed.
    #[error("application {application}: {program} failed: {detail}")]
    Program {
        /// The Application.
        application: String,
        /// The program.
        program: String,
        /// What it said, bounded.
        detail: String,
    },
    /// One of the above, with the repository and revision it is about.
    #[error("repository {repo}, revision {revision}: {source}")]
    At {
        /// The redacted URL.
        repo: String,
        /// The commit.
        revision: String,
        /// What went wrong.
        source: Box<RenderError>,
    },
}

impl RenderError {
    /// Says which repository and revision the error is about.
    #[must_use]
    pub fn at(self, repo: &str, revision: &str) -> Self {
        let (repo, revision) = (repo.to_owned(), revision.to_owned());
        Self::At { repo, revision, source: Box::new(self) }
    }

    /// Whether the same revision may render on a later try. What is in a
    /// commit does not change; a missing program or a broken disk may.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Read { .. } | Self::MissingProgram { .. } | Self::Program { .. } => true,
            Self::At { source, .. } => source.is_transient(),
            _ => false,
        }
    }
}

/// The documents of a YAML text that holds manifests (SE-099).
///
/// A text that cannot be read, gave no object before the mistake and does not
/// look like a manifest is some other YAML file, and gives nothing.
pub(super) fn documents(text: &str, file: &str) -> Result<Vec<Document>, RenderError> {
    let (objects, mistake) = match yaml::documents(text) {
        Ok(mut documents) => {
            match documents.iter().position(|d| object_problem(&d.value).is_some()) {
                None => (documents, None),
                Some(bad) => {
                    let problem = object_problem(&documents[bad].value).unwrap_or_default();
                    let reason = format!("line {}: {problem}", documents[bad].line);
                    documents.truncate(bad);
                    (documents, Some(reason))
                }
            }
        }
        Err(error) => (before(text, &error), Some(error.to_string())),
    };
    let Some(reason) = mistake else { return Ok(objects) };
    let looks_like_one = ["apiVersion:", "kind:", "metadata:"].iter().all(|key| text.contains(key));
    if objects.is_empty() && !looks_like_one {
        tracing::debug!(file, reason, "ignoring a file that holds no manifests");
        return Ok(Vec::new());
    }
    Err(RenderError::Unreadable { file: file.to_owned(), reason })
}

/// The documents that end before a mistake.
fn before(text: &str, error: &yaml::Error) -> Vec<Document> {
    let yaml::Error::At { line, .. } = error else { return Vec::new() };
    let line = usize::try_from(*line).unwrap_or(usize::MAX);
    let mut end = 0;
    let mut offset = 0;
    for text_line in text.split_inclusive('\n').take(line.saturating_sub(1)) {
        if text_line.starts_with("---") {
            end = offset;
        }
        offset += text_line.len();
    }
    let mut documents = yaml::documents(&text[..end]).unwrap_or_default();
    documents.retain(|document| object_problem(&document.value).is_none());
    documents
}

/// What keeps a document from being an object; `None` when nothing does.
fn object_problem(value: &Value) -> Option<&'static str> {
    match value {
        Value::Object(fields) => match fields.get("kind") {
            Some(Value::String(kind)) if !kind.is_empty() => None,
            Some(Value::String(_)) | None => Some("object 'kind' is missing"),
            Some(_) => Some("object 'kind' is not a string"),
        },
        _ => Some("not an object"),
    }
}

/// The one object of a JSON text (SE-100).
pub(super) fn json(text: &str, file: &str) -> Result<Value, RenderError> {
    let unreadable = |reason: String| RenderError::Unreadable { file: file.to_owned(), reason };
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = match values.next() {
        Some(Ok(value)) => value,
        Some(Err(error)) => return Err(unreadable(error.to_string())),
        None => return Err(unreadable("the file is empty".into())),
    };
    let rest = text.get(values.byte_offset()..).unwrap_or_default();
    if !rest.trim().is_empty() {
        return Err(RenderError::MultipleJson { file: file.to_owned() });
    }
    match object_problem(&value) {
        Some(problem) => Err(unreadable(format!("line 1: {problem}"))),
        None => Ok(value),
    }
}

/// Adds an object, or the items of a list (SE-102), to the manifests.
pub(super) fn expand(
    mut object: Value,
    file: &str,
    line: usize,
    out: &mut Vec<Manifest>,
) -> Result<(), RenderError> {
    let unreadable = |reason: String| RenderError::Unreadable { file: file.to_owned(), reason };
    let empty_list = object.get("items").is_some_and(Value::is_null)
        && object.get("spec").is_none()
        && object.get("status").is_none();
    if empty_list {
        return Ok(());
    }
    let objects = match object.get_mut("items") {
        Some(Value::Array(items)) => std::mem::take(items),
        _ => vec![object],
    };
    for (index, object) in objects.into_iter().enumerate() {
        if let Some(problem) = object_problem(&object) {
            return Err(unreadable(format!("line {line}: items[{index}]: {problem}")));
        }
        if object.get("apiVersion").and_then(Value::as_str).is_none_or(str::is_empty) {
            let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
            return Err(unreadable(format!("line {line}: {kind} has no apiVersion")));
        }
        if out.len() >= MAX_OBJECTS {
            let what = format!("{file}: more than {MAX_OBJECTS} objects in one source");
            return Err(RenderError::TooLarge { what });
        }
        out.push(Manifest { object, file: file.to_owned(), line });
    }
    Ok(())
}
