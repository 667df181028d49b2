//! Rejects kustomizations that refer to resources outside the repository, unless that is
//! enabled.
//!
//! Kustomize fetches every entry that is not a file by `git` or http, and reads local
//! directories outside the repository. All references are therefore checked before it
//! runs, and what was checked is written to the copy that it reads: another parser may
//! read the same text otherwise. Confinement is a second safeguard.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::directory::source_directory::SourceDirectory;
use crate::links::leaves;
use crate::render::checked::in_time;
use crate::render::files::read_file;
use crate::render::manifest::RenderError;
use crate::render::mirror::replace;
use wavegate_api::yaml::{self, Document};

/// Lists of files and directories, as [`folded`].
const ENTRIES: [&str; 8] = [
    "resources",
    "bases",
    "components",
    "crds",
    "configurations",
    "generators",
    "transformers",
    "validators",
];

/// Lists of files that configure Kustomize itself, and may refer to more files.
const CONFIGURING: [&str; 3] = ["generators", "transformers", "validators"];

/// Fields that refer to files, anywhere in a kustomization.
const FILES: [&str; 9] = [
    "path",
    "paths",
    "files",
    "file",
    "env",
    "envs",
    "valuesfile",
    "additionalvaluesfiles",
    "patchesstrategicmerge",
];

/// Fields whose content is given to a chart as it is: its values, which name no files of the
/// kustomization.
const INLINE: [&str; 1] = ["valuesinline"];

/// File names of a kustomization.
const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// What ends a line in YAML 1.1, as Go's parser reads it, and not in YAML 1.2.
const GO_BREAKS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 10 << 20;

/// Most files and directories of one kustomization.
const MAX_VISITED: usize = 10_000;

/// Largest total size of the files of one kustomization, in bytes.
const MAX_BYTES: u64 = 32 << 20;

/// Limit on nested references between directories, since reading them recurses.
const MAX_DEPTH: usize = 32;

/// Files that refer to others, as they were read here: their path in the checkout, and a text
/// that every parser reads in the same way.
#[derive(Debug)]
pub(crate) struct Referring(Vec<(PathBuf, String)>);

impl Referring {
    /// Checks that everything the kustomization in `source_dir` refers to is in the repository.
    /// Blocking.
    ///
    /// # Errors
    ///
    /// [`RenderError::Source`] with the file, the field and the entry.
    pub(crate) fn read(source_dir: &SourceDirectory) -> Result<Self, RenderError> {
        let mut visit = Visit {
            root: &source_dir.root,
            seen: BTreeSet::new(),
            depth: 0,
            bytes: 0,
            read: Vec::new(),
        };
        visit.directory(&source_dir.directory, false)?;
        Ok(Self(visit.read))
    }

    /// Writes them to a copy of the checkout, so that Kustomize reads what was checked.
    pub(crate) fn write(&self, root: &Path) -> std::io::Result<()> {
        self.0.iter().try_for_each(|(path, text)| replace(&root.join(path), text))
    }
}

/// The name that Kustomize reads a field as: Go's JSON ignores the case of names, and takes
/// two other characters for letters (`ſ` for `s`, and the sign of Kelvin for `k`).
pub(crate) fn folded(field: &str) -> String {
    let letter = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    field.chars().map(letter).collect()
}

/// The documents of a text. Go's parser also ends lines, and comments, at characters that YAML 1.2
/// does not.
fn as_go(text: &str) -> Result<Vec<Document>, yaml::YamlError> {
    yaml::parse_documents(&text.replace(GO_BREAKS, "\n"))
}

/// The objects of an entry that is no path: Kustomize takes an entry for a path when it cannot be
/// read as objects.
fn inline(entry: &str) -> Option<Vec<Value>> {
    let documents = as_go(entry).ok()?;
    let objects: Vec<Value> = documents.into_iter().map(|document| document.value).collect();
    (!objects.is_empty() && objects.iter().all(|one| !one.is_string())).then_some(objects)
}

/// Documents as a text that every parser of YAML reads in the same way.
fn written(documents: &[Value]) -> String {
    let texts: Vec<String> = documents.iter().map(yaml::to_json).collect();
    texts.join("\n---\n") + "\n"
}

struct Visit<'a> {
    root: &'a Path,
    seen: BTreeSet<(PathBuf, bool)>,
    depth: usize,
    bytes: u64,
    read: Vec<(PathBuf, String)>,
}

impl Visit<'_> {
    fn directory(&mut self, directory: &Path, configuring: bool) -> Result<(), RenderError> {
        if !self.first_visit(directory, configuring)? {
            return Ok(());
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(RenderError::source(format!(
                "kustomizations refer to each other more than {MAX_DEPTH} deep"
            )));
        }
        for name in NAMES {
            let file = directory.join(name);
            // What a link outside leads to is not read, and not written to the copy.
            if leaves(directory, name, self.root) {
                return Err(RenderError::LinkOutside { file: self.shown(&file) });
            }
            if file.is_file() {
                let mut documents = self.documents(&file)?;
                for document in &mut documents {
                    self.kustomization(&file, directory, document, configuring)?;
                }
                // Kustomize reads no other one.
                documents.truncate(1);
                self.keep(&file, &documents);
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn kustomization(
        &mut self,
        file: &Path,
        directory: &Path,
        document: &mut Value,
        configuring: bool,
    ) -> Result<(), RenderError> {
        self.files_inside(file, document, "")?;
        for (field, value) in document.as_object_mut().into_iter().flatten() {
            let lower = folded(field);
            if !ENTRIES.contains(&lower.as_str()) {
                continue;
            }
            let may_be_inline = CONFIGURING.contains(&lower.as_str());
            let configuring = configuring || may_be_inline;
            for (index, entry) in value.as_array_mut().into_iter().flatten().enumerate() {
                in_time(field)?;
                let Value::String(entry) = entry else { continue };
                let at = format!("{field}[{index}]");
                if may_be_inline && let Some(objects) = inline(entry) {
                    for object in &objects {
                        self.files_inside(file, object, &at)?;
                    }
                    *entry = written(&objects);
                    continue;
                }
                let path = directory.join(&*entry).canonicalize();
                let path = path.ok().filter(|path| path.starts_with(self.root));
                let Some(path) = path else {
                    return Err(self.refused(file, &at, entry));
                };
                if path.is_dir() {
                    self.directory(&path, configuring)?;
                } else if configuring && self.first_visit(&path, true)? {
                    let documents = self.documents(&path)?;
                    for document in &documents {
                        self.files_inside(&path, document, "")?;
                    }
                    self.keep(&path, &documents);
                }
            }
        }
        Ok(())
    }

    /// Checks for files referred to by URL, anywhere in a document.
    fn files_inside(&self, file: &Path, value: &Value, at: &str) -> Result<(), RenderError> {
        match value {
            Value::Object(fields) => {
                for (field, value) in fields {
                    if INLINE.contains(&folded(field).as_str()) {
                        continue;
                    }
                    let below = if at.is_empty() { field.clone() } else { format!("{at}.{field}") };
                    if FILES.contains(&folded(field).as_str()) {
                        let own = value.as_str().into_iter();
                        let list = value.as_array().into_iter().flatten().filter_map(Value::as_str);
                        let remote = |entry: &&str| {
                            let path = entry.split_once('=').map_or(*entry, |(_, path)| path);
                            let is_url = entry.contains("://") || path.contains("://");
                            !entry.contains('\n') && (is_url || self.leaves(file, path))
                        };
                        if let Some(entry) = own.chain(list).find(remote) {
                            return Err(self.refused(file, &below, entry));
                        }
                    }
                    self.files_inside(file, value, &below)?;
                }
                Ok(())
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.files_inside(file, item, &format!("{at}[{index}]"))?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether the path of a file leads out of the repository, by its parts: Kustomize
    /// refuses that, but not with every option.
    fn leaves(&self, file: &Path, path: &str) -> bool {
        let below = file.parent().and_then(|parent| parent.strip_prefix(self.root).ok());
        let mut depth = below.map_or(0, |below| below.components().count());
        for part in Path::new(path).components() {
            match part {
                Component::RootDir | Component::Prefix(_) => return true,
                Component::CurDir => {}
                Component::Normal(_) => depth += 1,
                Component::ParentDir => match depth.checked_sub(1) {
                    Some(less) => depth = less,
                    None => return true,
                },
            }
        }
        false
    }

    /// Whether the file is visited for the first time.
    fn first_visit(&mut self, path: &Path, configuring: bool) -> Result<bool, RenderError> {
        if self.seen.len() >= MAX_VISITED {
            return Err(RenderError::too_large(format!(
                "the kustomization names more than {MAX_VISITED} directories"
            )));
        }
        Ok(self.seen.insert((path.to_owned(), configuring)))
    }

    fn documents(&mut self, path: &Path) -> Result<Vec<Value>, RenderError> {
        let file = self.shown(path);
        let failed = |error: std::io::Error| RenderError::read(file.clone(), error.kind());
        let bytes = read_file(path, &file, MAX_FILE, failed)?;
        self.bytes += bytes.len() as u64;
        if self.bytes > MAX_BYTES {
            return Err(RenderError::too_large(format!(
                "{file} and the files read before it exceed {MAX_BYTES} bytes in total"
            )));
        }
        // Kustomize might accept a file that cannot be parsed here.
        let unreadable = |error: yaml::YamlError| RenderError::unreadable(&file, error);
        let text = yaml::decode_text(&bytes).map_err(unreadable)?;
        Ok(as_go(&text).map_err(unreadable)?.into_iter().map(|document| document.value).collect())
    }

    fn keep(&mut self, path: &Path, documents: &[Value]) {
        if let Ok(path) = path.strip_prefix(self.root) {
            self.read.push((path.to_owned(), written(documents)));
        }
    }

    fn shown(&self, path: &Path) -> String {
        path.strip_prefix(self.root).unwrap_or(path).display().to_string()
    }

    fn refused(&self, file: &Path, at: &str, entry: &str) -> RenderError {
        let (file, entry) = (self.shown(file), crate::redact_urls(entry));
        let entry: String = entry.chars().take(200).collect();
        let why = format!(
            "{file}: {at}: {entry:?} is not in the repository, and nothing is fetched from \
                 elsewhere; copy it into the repository, or allow it with --kustomize-remote"
        );
        let missing = missing_path(Path::new(&file), &entry);
        RenderError::source(match missing {
            // The words of Kustomize come first: tools compare them.
            Some(path) => format!(
                "accumulating resources from '{entry}': open {path}: no such file or directory \
                 ({why})"
            ),
            None => why,
        })
    }
}

/// Where an entry of a kustomization would be in the repository; `None` for one that leads out of
/// it, or names another one by a URL or a host.
fn missing_path(kustomization: &Path, entry: &str) -> Option<String> {
    let host = entry.split_once('/').map_or("", |(host, _)| host);
    let is_host = host.contains('.') && !host.starts_with('.');
    if is_host || entry.contains(['\n', ':', '?']) || entry.contains("//") {
        return None;
    }
    let mut path = PathBuf::new();
    let directory = kustomization.parent().unwrap_or(Path::new(""));
    for part in directory.join(entry).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => path.push(name),
            Component::ParentDir if path.pop() => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path.display().to_string())
}
