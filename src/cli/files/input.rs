//! Reads Kubernetes objects from files, directories and standard input.
//!
//! Input is not trusted: its size is limited, and symbolic links in directories are not
//! followed.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::cli::console::error::{Error, note};
use crate::cli::files::facts::GeneratorFacts;
use crate::cli::files::fields::{api_version, data_of, generators_of};
use wavegate_api::raw::edit_metadata;
use wavegate_api::yaml;
use wavegate_api::{self as api, ApplicationSet, Raw, policy};
use wavegate_engine::names::some_of;
use wavegate_rollout::desired::inputs::Inputs;

/// Metadata that only a server writes.
const SERVER_METADATA: [&str; 7] = [
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Size limit of a file and of standard input, in bytes.
const MAX_BYTES: u64 = 64 << 20;
/// Most files of a directory.
const MAX_FILES: usize = 20_000;
/// Most levels of nested directories.
const MAX_DEPTH: usize = 64;
/// The path that means standard input.
const STANDARD_INPUT: &str = "-";

/// One document of the input.
#[derive(Clone, Debug)]
pub(in crate::cli) struct FileObject {
    /// The file, or `standard input`.
    pub file: String,
    /// First line of the document, counted from 1.
    pub line: usize,
    /// Its content.
    pub value: Value,
}

impl FileObject {
    /// Location for messages.
    pub fn place(&self) -> String {
        format!("{}: line {}", self.file, self.line)
    }

    /// Location, kind and name for messages.
    pub fn described(&self) -> String {
        format!("{}: {}", self.place(), self.title())
    }

    /// Kind and name for messages.
    pub fn title(&self) -> String {
        let text = |pointer: &str| self.value.pointer(pointer).and_then(Value::as_str);
        match (text("/kind"), text("/metadata/name").or(text("/metadata/generateName"))) {
            (Some(kind), Some(name)) => format!("{kind} {name}"),
            (Some(kind), None) => kind.to_owned(),
            (None, _) => "a document that is not a Kubernetes object".to_owned(),
        }
    }
}

/// Removes the fields that `kubectl get -o yaml` prints in addition to the user's.
pub(in crate::cli) fn clean(object: &mut Value) {
    edit_metadata(object, |metadata| {
        for field in SERVER_METADATA {
            metadata.remove(field);
        }
    });
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
}

/// The documents of files, directories and standard input, in the given order; files of a
/// directory in lexical order.
fn documents(paths: &[PathBuf]) -> Result<Vec<FileObject>, Error> {
    if paths.iter().filter(|path| is_standard_input(path)).count() > 1 {
        return Err(Error::input("cannot read", "-f", "standard input can be read only once"));
    }
    let mut objects = Vec::new();
    for path in paths {
        let is_directory = !is_standard_input(path) && path.is_dir();
        for file in if is_directory { files_of(path)? } else { vec![path.clone()] } {
            match is_jsonnet(&file) {
                true => objects.extend(evaluated(&file)?),
                false => objects.extend(split(&text(&file)?)?),
            }
        }
    }
    Ok(objects)
}

/// The objects of one file or of standard input, with lists expanded.
pub(in crate::cli) fn objects_of(path: &Path) -> Result<Vec<FileObject>, Error> {
    if !is_standard_input(path) && path.is_dir() {
        let why = "is a directory; specify a file";
        return Err(Error::input("cannot read", path.display().to_string(), why));
    }
    objects(&[path.to_owned()])
}

/// Like [`documents`], for Kubernetes objects only, with lists expanded.
pub(in crate::cli) fn objects(paths: &[PathBuf]) -> Result<Vec<FileObject>, Error> {
    let mut objects = Vec::new();
    for document in documents(paths)? {
        expand(document, &mut objects)?;
    }
    Ok(objects)
}

/// What a command uses of some documents.
#[derive(Debug)]
pub(in crate::cli) struct FoundSets {
    /// The ApplicationSets, all or those with one name; at least one.
    pub sets: Vec<FileObject>,
    /// What the generators read: the Secrets.
    pub facts: GeneratorFacts,
    /// The RolloutPolicies.
    pub policies: Vec<Arc<Value>>,
}

/// The ApplicationSets among the documents, and what belongs to them; the generators have these
/// settings. Other documents are reported and ignored.
pub(in crate::cli) fn application_sets(
    paths: &[PathBuf],
    name: Option<&str>,
    settings: Inputs,
    namespace: &str,
) -> Result<FoundSets, Error> {
    let mut candidates = Vec::new();
    for document in documents(paths)? {
        // A document that is not an object is ignored, too.
        if problem_of(&document.value).is_some() {
            candidates.push(document);
        } else {
            expand(document, &mut candidates)?;
        }
    }
    let place = paths.iter().map(|path| shown(path)).collect::<Vec<_>>().join(", ");
    let (sets, others): (Vec<FileObject>, Vec<FileObject>) =
        candidates.into_iter().partition(|object| is_application_set(&object.value));
    let what = "cannot find an ApplicationSet";
    if sets.is_empty() {
        return Err(Error::input(what, place, without_set(&others)));
    }
    let facts =
        GeneratorFacts::of_objects(others.iter().map(|object| &object.value), settings, namespace);
    let (policies, others): (Vec<FileObject>, Vec<FileObject>) =
        others.into_iter().partition(|object| is_policy(&object.value));
    let policies = policies.into_iter().map(|object| Arc::new(object.value)).collect();
    // Those that generators name, and the resources whose kind these name.
    let generators: Vec<String> =
        sets.iter().map(|set| generators_of(&set.value).to_string()).collect();
    let is_named = |object: &FileObject| {
        let name = format!("{:?}", object.value.name());
        object.value.kind() == "ConfigMap" && generators.iter().any(|all| all.contains(&name))
    };
    let kinds = others.iter().filter(|object| is_named(object));
    let kinds: Vec<String> =
        kinds.filter_map(|object| data_of(&object.value).remove("apiVersion")).collect();
    let is_used = |object: &FileObject| {
        object.value.kind() == "Secret"
            || is_named(object)
            || kinds.iter().any(|version| *version == api_version(&object.value))
    };
    let others: Vec<FileObject> = others.into_iter().filter(|object| !is_used(object)).collect();
    if !others.is_empty() {
        let titles: Vec<String> =
            others.iter().map(|other| format!("{} (line {})", other.title(), other.line)).collect();
        let titles = some_of(titles.iter(), 5);
        note(&format!(
            "{place}: only ApplicationSets and what generators read are used, ignored: {titles}"
        ));
    }
    let Some(name) = name else { return Ok(FoundSets { sets, facts, policies }) };
    let (sets, others): (Vec<FileObject>, Vec<FileObject>) =
        sets.into_iter().partition(|set| set.value.name() == name);
    if sets.is_empty() {
        let there = some_of(others.iter().map(|set| set.value.name()), 10);
        let why = format!("no ApplicationSet is named {name}; found {there}");
        return Err(Error::input(what, place, why));
    }
    Ok(FoundSets { sets, facts, policies })
}

/// Why there is no ApplicationSet among some documents, of which none is one.
pub(in crate::cli) fn without_set(documents: &[FileObject]) -> String {
    let is_set = |object: &&FileObject| object.value.kind() == ApplicationSet::KIND;
    if let Some(set) = documents.iter().find(is_set) {
        return format!(
            "line {}: apiVersion of {} is {}; it must be {}",
            set.line,
            set.title(),
            set.value.get("apiVersion").unwrap_or(&Value::Null),
            api::API_VERSION
        );
    }
    match documents {
        [] => "it is empty".to_owned(),
        [one] => format!("line {}: contains only {}", one.line, one.title()),
        several => format!("none of its {} documents is an ApplicationSet", several.len()),
    }
}

/// Whether an object is an ApplicationSet.
pub(in crate::cli) fn is_application_set(value: &Value) -> bool {
    value.kind() == ApplicationSet::KIND && api_version(value) == api::API_VERSION
}

/// Whether an object is a RolloutPolicy.
pub(in crate::cli) fn is_policy(value: &Value) -> bool {
    value.kind() == policy::POLICY && api_version(value) == wavegate_api::WAVEGATE_API_VERSION
}

fn expand(document: FileObject, out: &mut Vec<FileObject>) -> Result<(), Error> {
    if let Some(problem) = problem_of(&document.value) {
        return Err(Error::input("cannot read", document.place(), problem));
    }
    let FileObject { file, line, mut value } = document;
    let Some(Value::Array(items)) = value.get_mut("items").map(Value::take) else {
        out.push(FileObject { file, line, value });
        return Ok(());
    };
    for (index, value) in items.into_iter().enumerate() {
        let item = FileObject { file: file.clone(), line, value };
        if let Some(problem) = problem_of(&item.value) {
            let problem = format!("items[{index}]: {problem}");
            return Err(Error::input("cannot read", item.place(), problem));
        }
        out.push(item);
    }
    Ok(())
}

/// Why a document is not a Kubernetes object.
fn problem_of(value: &Value) -> Option<&'static str> {
    let is_text = |field: &str| value[field].as_str().is_some_and(|text| !text.is_empty());
    match value {
        Value::Object(_) if !is_text("kind") => Some("not a Kubernetes object: kind is missing"),
        Value::Object(_) if !is_text("apiVersion") => {
            Some("not a Kubernetes object: apiVersion is missing")
        }
        Value::Object(_) => None,
        _ => Some("not a Kubernetes object: expected a mapping with apiVersion and kind"),
    }
}

fn split((name, text): &(String, String)) -> Result<Vec<FileObject>, Error> {
    let documents = yaml::parse_documents(text)
        .map_err(|error| Error::input("cannot read", name.clone(), error))?;
    // Escapes the name in all later messages.
    documents.iter().for_each(|document| wavegate_net::redact::know_urls_of(&document.value));
    for document in &documents {
        for repeated in &document.repeated {
            note(&format!("{name}: {repeated}"));
        }
    }
    let object = |document: yaml::Document| FileObject {
        file: name.clone(),
        line: document.line,
        value: document.value,
    };
    Ok(documents.into_iter().map(object).collect())
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == STANDARD_INPUT
}

/// A path for messages.
pub(in crate::cli) fn shown(path: &Path) -> String {
    if is_standard_input(path) { "standard input".to_owned() } else { path.display().to_string() }
}

/// The name of a file or of standard input for messages, and its text.
pub(in crate::cli) fn text(path: &Path) -> Result<(String, String), Error> {
    let name = shown(path);
    let failed = |error: std::io::Error| {
        let why = match error.kind() {
            std::io::ErrorKind::NotFound => "file not found; check the path".to_owned(),
            _ => error.to_string(),
        };
        Error::input("cannot read", name.clone(), why)
    };
    let mut bytes = Vec::new();
    let read = if is_standard_input(path) {
        std::io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes)
    } else {
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)
    };
    if read.map_err(failed)? as u64 > MAX_BYTES {
        let why = format!("larger than {} MiB; split the file", MAX_BYTES >> 20);
        return Err(Error::input("cannot read", name, why));
    }
    let text = yaml::decode_text(&bytes)
        .map_err(|error| Error::input("cannot read", name.clone(), error))?;
    Ok((name, text.into_owned()))
}

/// The manifest files of a directory and its subdirectories, by path.
fn files_of(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    let mut left = vec![(directory.to_owned(), 0)];
    while let Some((at, depth)) = left.pop() {
        let failed =
            |error: std::io::Error| Error::input("cannot read", at.display().to_string(), error);
        for entry in std::fs::read_dir(&at).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
            if kind.is_symlink() && (is_manifest(&path) || path.is_dir()) {
                note(&format!(
                    "{}: skipped, since symbolic links are not followed",
                    path.display()
                ));
            } else if kind.is_dir() && depth < MAX_DEPTH {
                left.push((path, depth + 1));
            } else if kind.is_dir() {
                let why = format!("more than {MAX_DEPTH} levels of directories");
                return Err(Error::input("cannot read", path.display().to_string(), why));
            } else if kind.is_file() && is_manifest(&path) {
                files.push(path);
            }
        }
        if files.len() > MAX_FILES {
            let why = format!("more than {MAX_FILES} manifest files; use fewer files");
            return Err(Error::input("cannot read", directory.display().to_string(), why));
        }
    }
    files.sort();
    if files.is_empty() {
        let why = "contains no .yaml, .yml, .json or .jsonnet file";
        return Err(Error::input("cannot read", directory.display().to_string(), why));
    }
    Ok(files)
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("yaml" | "yml" | "json" | "jsonnet"))
}

fn is_jsonnet(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonnet")
}

/// The objects of a Jsonnet file; it is evaluated in a confined process.
fn evaluated(file: &Path) -> Result<Vec<FileObject>, Error> {
    let name = shown(file);
    let values = wavegate_source::evaluate_local(file)
        .map_err(|error| Error::input("cannot read", name.clone(), error))?;
    values.iter().for_each(wavegate_net::redact::know_urls_of);
    let object = |value| FileObject { file: name.clone(), line: 1, value };
    Ok(values.into_iter().map(object).collect())
}
