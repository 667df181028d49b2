//! Rejects kustomizations that refer to resources outside the repository, unless that is
//! enabled.
//!
//! Kustomize fetches every entry that is not a file by `git` or http, and reads local
//! directories outside the repository. All references are therefore checked before it
//! runs; the proxy and protocol settings of the program are a second safeguard.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::directory::source_directory::SourceDirectory;
use crate::render::files::{parse_yaml, read_file};
use crate::render::manifest::RenderError;

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

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 10 << 20;

/// Most files and directories of one kustomization.
const MAX_VISITED: usize = 10_000;

/// Largest total size of the files of one kustomization, in bytes.
const MAX_BYTES: u64 = 32 << 20;

/// Limit on nested references between directories, since reading them recurses.
const MAX_DEPTH: usize = 32;

/// Checks that everything the kustomization in `source_dir` refers to is in the repository.
/// Blocking.
///
/// # Errors
///
/// [`RenderError::Source`] with the file, the field and the entry.
pub(crate) fn stays_inside(source_dir: &SourceDirectory) -> Result<(), RenderError> {
    let mut visit = Visit { root: &source_dir.root, seen: BTreeSet::new(), depth: 0, bytes: 0 };
    visit.directory(&source_dir.directory, false)
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

struct Visit<'a> {
    root: &'a Path,
    seen: BTreeSet<(PathBuf, bool)>,
    depth: usize,
    bytes: u64,
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
            if file.is_file() {
                for document in self.documents(&file)? {
                    self.kustomization(&file, directory, &document, configuring)?;
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn kustomization(
        &mut self,
        file: &Path,
        directory: &Path,
        document: &Value,
        configuring: bool,
    ) -> Result<(), RenderError> {
        self.files_inside(file, document, "")?;
        for (field, value) in document.as_object().into_iter().flatten() {
            let lower = folded(field);
            if !ENTRIES.contains(&lower.as_str()) {
                continue;
            }
            let configuring = configuring || CONFIGURING.contains(&lower.as_str());
            for (index, entry) in value.as_array().into_iter().flatten().enumerate() {
                // A text of several lines is the resource itself.
                let Some(entry) = entry.as_str().filter(|entry| !entry.contains('\n')) else {
                    continue;
                };
                let path = directory.join(entry).canonicalize();
                let path = path.ok().filter(|path| path.starts_with(self.root));
                let Some(path) = path else {
                    return Err(self.refused(file, &format!("{field}[{index}]"), entry));
                };
                if path.is_dir() {
                    self.directory(&path, configuring)?;
                } else if configuring && self.first_visit(&path, true)? {
                    for document in self.documents(&path)? {
                        self.files_inside(&path, &document, "")?;
                    }
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
        Ok(parse_yaml(&bytes, &file)?.into_iter().map(|document| document.value).collect())
    }

    fn shown(&self, path: &Path) -> String {
        path.strip_prefix(self.root).unwrap_or(path).display().to_string()
    }

    fn refused(&self, file: &Path, at: &str, entry: &str) -> RenderError {
        let (file, entry) = (self.shown(file), crate::redact_urls(entry));
        let entry: String = entry.chars().take(200).collect();
        RenderError::source(format!(
            "{file}: {at}: {entry:?} is not in the repository, and nothing is fetched from \
                 elsewhere; copy it into the repository, or allow it with --kustomize-remote"
        ))
    }
}
