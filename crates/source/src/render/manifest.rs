//! Parses manifests: the rules for the content of a file (SE-099, SE-100, SE-102), and
//! the errors between a checkout and its objects.

use serde_json::Value;

use crate::error::SourceError;
use wavegate_api::glob::InvalidGlob;
use wavegate_api::yaml::{self, Document, Repeated};

/// Most objects of one source.
const MAX_OBJECTS: usize = 100_000;

/// Why a source could not be rendered. Messages contain no local paths.
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
    /// `path` leaves the repository, by `..` or a symbolic link.
    #[error("{path}: app path is outside of the repository")]
    OutsidePath {
        /// The path as written.
        path: String,
    },
    /// A symbolic link leaves the repository.
    #[error("{file}: symbolic link points outside the repository; change its target or remove it")]
    LinkOutside {
        /// The link, relative to the repository root.
        file: String,
    },
    /// A symbolic link leads nowhere: its content would be missing, and pruned.
    #[error("{file}: symbolic link to a file that does not exist; correct or remove it")]
    DanglingLink {
        /// The link, relative to the repository root.
        file: String,
    },
    /// A values file of a chart does not exist.
    #[error(
        "application {application}: helm.valueFiles[{index}]: Error: open {file}: no such file or \
         directory; add the file, correct its name, or set helm.ignoreMissingValueFiles"
    )]
    MissingValues {
        /// The Application.
        application: String,
        /// The position in `valueFiles`.
        index: usize,
        /// The file, relative to the repository root.
        file: String,
    },
    /// A chart needs others that are not in its directory `charts`.
    #[error(
        "application {application}: chart {chart}: missing in {directory}/charts: {missing}; \
         dependencies are not fetched: run `helm dependency build {directory}` and commit its \
         directory charts"
    )]
    MissingDependencies {
        /// The Application.
        application: String,
        /// Name of the chart.
        chart: String,
        /// The dependencies, each with its repository.
        missing: String,
        /// Its directory, relative to the repository root.
        directory: String,
    },
    /// `include` or `exclude` is not a valid pattern.
    #[error("directory.{field}: {source}")]
    Pattern {
        /// `include` or `exclude`.
        field: &'static str,
        /// Why the pattern is invalid.
        source: InvalidGlob,
    },
    /// A limit is exceeded.
    #[error("{what}")]
    TooLarge {
        /// File, what is too large, and the limit.
        what: String,
    },
    /// A file could not be read.
    #[error("{file}: cannot read: {error}")]
    Read {
        /// The file, relative to the repository root.
        file: String,
        /// Error of the operating system.
        error: String,
    },
    /// The content of a file is not a valid manifest.
    #[error("Failed to unmarshal {file:?}: {reason}")]
    Unreadable {
        /// The file, relative to the repository root.
        file: String,
        /// Line and reason.
        reason: String,
    },
    /// A file is not a manifest but another type of file.
    #[error("{file}: {what}")]
    NotAManifest {
        /// The file, relative to the repository root.
        file: String,
        /// Line, type of the content, and what to do.
        what: String,
    },
    /// The path is in a submodule, or contains one.
    #[error(
        "{path}: is a git submodule, and submodules are not fetched: they are switched off \
         (reposerver.enable.git.submodule), or .gitmodules has no URL for it; commit its files to \
         the repository, or add its repository as a source"
    )]
    Submodule {
        /// The submodule, relative to the repository root.
        path: String,
    },
    /// A JSON file contains more than one value.
    #[error("Found multiple objects in {file:?}. Only single objects are allowed in JSON files.")]
    MultipleJson {
        /// The file, relative to the repository root.
        file: String,
    },
    /// A Jsonnet file cannot be evaluated.
    #[error("Failed to evaluate jsonnet {file:?}: {reason}")]
    Jsonnet {
        /// The file, relative to the repository root.
        file: String,
        /// File and line of the mistake, and the reason.
        reason: String,
    },
    /// The source block is contradictory (SE-037) or invalid.
    #[error("{reason}")]
    Source {
        /// Why it is invalid.
        reason: String,
    },
    /// A config management plugin is missing, or failed.
    #[error("CMP processing failed for application {application:?}: {detail}")]
    Plugin {
        /// The Application.
        application: String,
        /// The plugin, what it said, and what to do.
        detail: String,
        /// Whether it could not be asked, or its answer was lost.
        transient: bool,
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
        /// Error of the operating system.
        detail: String,
    },
    /// The program that renders this kind of source failed.
    #[error("application {application}: {program} failed: {detail}")]
    Program {
        /// The Application.
        application: String,
        /// The program.
        program: String,
        /// Output of the program, truncated.
        detail: String,
        /// Whether a server did not answer the program.
        transient: bool,
    },
    /// What a source needs from elsewhere cannot be fetched.
    #[error("application {application}: {program} failed: {error}")]
    Fetch {
        /// The Application.
        application: String,
        /// The program that fetches it.
        program: String,
        /// Why.
        error: Box<SourceError>,
    },
    /// One of the above, with repository and revision.
    #[error("repository {repo}, revision {revision}: {source}")]
    At {
        /// The redacted URL.
        repo: String,
        /// The commit hash.
        revision: String,
        /// The error.
        source: Box<RenderError>,
    },
}

impl RenderError {
    /// A file that cannot be read.
    pub(crate) fn read(file: impl Into<String>, error: impl ToString) -> Self {
        Self::Read { file: file.into(), error: error.to_string() }
    }

    /// A file that is not a valid manifest.
    pub(crate) fn unreadable(file: impl Into<String>, reason: impl ToString) -> Self {
        Self::Unreadable { file: file.into(), reason: reason.to_string() }
    }

    /// A source block that is invalid.
    pub(crate) fn source(reason: impl Into<String>) -> Self {
        Self::Source { reason: reason.into() }
    }

    /// Something that exceeds a limit.
    pub(crate) fn too_large(what: impl Into<String>) -> Self {
        Self::TooLarge { what: what.into() }
    }

    /// Adds repository and revision to the error.
    #[must_use]
    pub fn at(self, repo: &str, revision: &str) -> Self {
        let (repo, revision) = (repo.to_owned(), revision.to_owned());
        Self::At { repo, revision, source: Box::new(self) }
    }

    /// Whether rendering the same revision may succeed later without a change: a commit does not
    /// change, but a server may answer again. As for reading a commit, a missing program is not
    /// transient.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Read { .. } => true,
            Self::Program { transient, .. } | Self::Plugin { transient, .. } => *transient,
            // Others are what Helm says about the chart.
            Self::Fetch { error, .. } => {
                !matches!(**error, SourceError::Git { .. }) && error.is_transient()
            }
            Self::At { source, .. } => source.is_transient(),
            _ => false,
        }
    }
}

/// An object of a source and its location.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The object as written.
    pub object: Value,
    /// The file, relative to the repository root; for rendered manifests, the name of the
    /// program.
    pub file: String,
    /// The first line of its document, counted from 1.
    pub line: usize,
    /// Keys that its document contains twice; the last value is used.
    pub repeated: Vec<Repeated>,
}

/// Collects the manifests of one source, up to a memory limit.
#[derive(Debug)]
pub(crate) struct Sink {
    /// The manifests read so far.
    pub manifests: Vec<Manifest>,
    /// Remaining memory in bytes, as counted by [`yaml::weight`].
    left: u64,
    limit: u64,
}

impl Sink {
    /// An empty sink with a memory limit in bytes.
    pub(crate) fn new(limit: u64) -> Self {
        Self { manifests: Vec::new(), left: limit, limit }
    }

    /// Adds the objects of a file, by its type.
    pub(crate) fn file(&mut self, text: &str, file: &str) -> Result<(), RenderError> {
        if let Some(what) = foreign(text) {
            return Err(RenderError::NotAManifest { file: file.to_owned(), what });
        }
        if file.ends_with(".json") {
            let document = json(text, file, self.left)?;
            return self.expand(document, file);
        }
        for document in documents(text, file, self.left, Strictness::File)? {
            self.expand(document, file)?;
        }
        Ok(())
    }

    /// Adds the value of a Jsonnet file: an object, a list of objects, or nothing (SE-101).
    pub(crate) fn value(&mut self, value: Value, file: &str) -> Result<(), RenderError> {
        let values = match value {
            Value::Array(values) => values,
            value => vec![value],
        };
        for (index, value) in values.into_iter().enumerate() {
            if value.is_null() {
                continue;
            }
            if let Some(problem) = object_problem(&value) {
                let reason = format!("the value at index {index}: {problem}");
                return Err(RenderError::unreadable(file, reason));
            }
            self.expand(Document { line: 1, value, repeated: Vec::new() }, file)?;
        }
        Ok(())
    }

    /// Adds the output of a program, which contains manifests only (SE-103).
    pub(crate) fn output(&mut self, text: &str, program: &str) -> Result<(), RenderError> {
        for document in documents(text, program, self.left, Strictness::Output)? {
            self.expand(document, program)?;
        }
        Ok(())
    }

    /// Adds an object, or the items of a list (SE-102).
    fn expand(&mut self, document: Document, file: &str) -> Result<(), RenderError> {
        let Document { line, value: mut object, mut repeated } = document;
        let unreadable = |reason: String| RenderError::unreadable(file, reason);
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
            let kind = || object.get("kind").and_then(Value::as_str).unwrap_or_default();
            match object.get("apiVersion") {
                Some(Value::String(version)) if !version.is_empty() => {}
                None | Some(Value::Null | Value::String(_)) => {
                    return Err(unreadable(format!("line {line}: {} has no apiVersion", kind())));
                }
                Some(_) => {
                    let what = "apiVersion is not a string, write it in quotes";
                    return Err(unreadable(format!("line {line}: {}: {what}", kind())));
                }
            }
            if self.manifests.len() >= MAX_OBJECTS {
                return Err(RenderError::too_large(format!(
                    "{file}: more than {MAX_OBJECTS} objects in one source"
                )));
            }
            let weight = FIXED_WEIGHT + yaml::value_weight(&object);
            self.left =
                self.left.checked_sub(weight).ok_or_else(|| too_much(file, line, self.limit))?;
            let repeated = std::mem::take(&mut repeated);
            self.manifests.push(Manifest { object, file: file.to_owned(), line, repeated });
        }
        Ok(())
    }
}

/// Memory of an object in addition to its content, in bytes.
const FIXED_WEIGHT: u64 = 256;

fn too_much(file: &str, line: usize, limit: u64) -> RenderError {
    let limit = limit >> 20;
    let what = format!(
        "{file}: line {line}: the manifests take more than {limit} MiB of memory; split the source \
         or raise --manifest-memory"
    );
    RenderError::too_large(what)
}

/// That a text is a pointer of Git LFS, and what to do.
pub(crate) fn lfs_pointer(text: &str) -> Option<String> {
    let start = text.trim_start();
    let pointer =
        ["version https://git-lfs.github.com/spec/", "version https://hawser.github.com/"];
    if !pointer.iter().any(|pointer| start.starts_with(pointer)) {
        return None;
    }
    let oid = start.lines().find_map(|line| line.strip_prefix("oid ")).unwrap_or("unknown");
    Some(format!(
        "a Git LFS pointer ({}) and not its content, which is not fetched; set enableLfs in the \
         Secret of the repository, commit the file without Git LFS, or exclude it",
        oid.chars().take(80).collect::<String>()
    ))
}

/// Type of a text that is not a manifest, with its line (SE-099 would ignore it as an
/// unrelated YAML file).
fn foreign(text: &str) -> Option<String> {
    if let Some(pointer) = lfs_pointer(text) {
        return Some(format!("line 1: {pointer}"));
    }
    let line_of = |found: &dyn Fn(&str) -> bool| text.lines().position(found).map(|at| at + 1);
    if let Some(line) = line_of(&|line| line.contains('\0')) {
        return Some(format!("line {line}: binary content; commit it as text or exclude it"));
    }
    // Inside a manifest, conflict markers are indented as part of a text.
    let marked = ["<<<<<<< ", ">>>>>>> "].map(|mark| line_of(&|line| line.starts_with(mark)));
    if let [Some(line), Some(_)] = marked {
        return Some(format!("line {line}: an unresolved merge conflict"));
    }
    None
}

/// How much of a text must be manifests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    /// A file in a directory, which may belong to another program.
    File,
    /// All of the text.
    Output,
}

/// The manifests of a YAML text (SE-099).
///
/// A text that cannot be parsed, has no object before the error and does not look like a
/// manifest is an unrelated YAML file and is ignored. A truncated manifest is an error:
/// if it were ignored, its objects would be pruned.
fn documents(
    text: &str,
    file: &str,
    memory: u64,
    strictness: Strictness,
) -> Result<Vec<Document>, RenderError> {
    let (objects, mistake, cut_off) = match yaml::documents_within(text, memory) {
        Ok(mut documents) => {
            match documents.iter().position(|d| object_problem(&d.value).is_some()) {
                None => (documents, None, false),
                Some(bad) => {
                    let problem = object_problem(&documents[bad].value).unwrap_or_default();
                    let line = documents[bad].line;
                    let template = template_at(text, line);
                    let reason = match template.filter(|_| strictness == Strictness::Output) {
                        Some(template) => {
                            format!("{template}: {problem} (line {line} of the output)")
                        }
                        None => format!("line {line}: {problem}"),
                    };
                    let cut_off = documents.iter().any(|d| begins_manifest(&d.value));
                    documents.truncate(bad);
                    (documents, Some(reason), cut_off)
                }
            }
        }
        Err(error) if error.is_limit() => {
            return Err(RenderError::too_large(format!("{file}: {error}")));
        }
        Err(error) => {
            let begins = |line: &str| line.starts_with("apiVersion:") || line.starts_with("kind:");
            (before(text, &error), Some(error.to_string()), text.lines().any(begins))
        }
    };
    let Some(reason) = mistake else { return Ok(objects) };
    // The keys of JSON have quotes.
    let unquoted = text.replace(['"', '\''], "");
    let has = |keys: &[&str]| keys.iter().all(|key| unquoted.contains(key));
    // One of JSON may be cut off anywhere.
    let is_json = text.trim_start().starts_with('{') && !text.trim_start().starts_with("{{");
    let looks_like_one =
        has(&["apiVersion:", "kind:", "metadata:"]) || is_json && has(&["apiVersion:", "kind:"]);
    let other = objects.is_empty() && !looks_like_one && !cut_off;
    if other && strictness == Strictness::File {
        tracing::debug!(file, reason, "ignoring a file that contains no manifests");
        return Ok(Vec::new());
    }
    Err(RenderError::unreadable(file, reason))
}

/// The template that the output of Helm names before a line, or as the first line of a document.
fn template_at(text: &str, line: usize) -> Option<&str> {
    let named = text.lines().take(line + 1).filter_map(|line| line.strip_prefix("# Source: "));
    named.last()
}

/// Whether a document that is not an object looks like a manifest: it has a kind, or the
/// `apiVersion` of one. Helm charts have `apiVersion` and `name`, and other programs use
/// a number there.
fn begins_manifest(value: &Value) -> bool {
    let version = value.get("apiVersion").and_then(Value::as_str);
    let kind = value.get("kind").is_some_and(|kind| !kind.is_null());
    kind || (version.is_some_and(|version| !version.is_empty()) && value.get("name").is_none())
}

/// The documents before an error.
fn before(text: &str, error: &yaml::YamlError) -> Vec<Document> {
    let yaml::YamlError::At { line, .. } = error else { return Vec::new() };
    let line = usize::try_from(*line).unwrap_or(usize::MAX);
    let mut end = 0;
    let mut offset = 0;
    for text_line in text.split_inclusive('\n').take(line.saturating_sub(1)) {
        if text_line.starts_with("---") {
            end = offset;
        }
        offset += text_line.len();
    }
    let mut documents = yaml::parse_documents(&text[..end]).unwrap_or_default();
    documents.retain(|document| object_problem(&document.value).is_none());
    documents
}

/// Why a document is not an object; `None` when it is one.
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

/// The only object of a JSON text (SE-100).
fn json(text: &str, file: &str, memory: u64) -> Result<Document, RenderError> {
    let unreadable = |reason: String| RenderError::unreadable(file, reason);
    let (document, rest) = yaml::parse_json(text, memory).map_err(|error| match error {
        yaml::YamlError::Count { .. } => unreadable("the file is empty".into()),
        error if error.is_limit() => RenderError::too_large(format!("{file}: {error}")),
        error => unreadable(error.to_string()),
    })?;
    if !rest.trim().is_empty() {
        return Err(RenderError::MultipleJson { file: file.to_owned() });
    }
    match object_problem(&document.value) {
        Some(problem) => Err(unreadable(format!("line 1: {problem}"))),
        None => Ok(document),
    }
}
