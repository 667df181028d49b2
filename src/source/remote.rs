//! What a kustomization reads besides the repository: nothing, unless that is
//! switched on.
//!
//! Kustomize fetches every entry that is no file by `git` or http, and reads
//! directories of the machine that lie outside of the repository. Everything
//! that it may be sent to is therefore looked up before it runs; the proxy and
//! the protocols that the program is given are the second guard.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::directory::Place;
use super::manifests::RenderError;

/// Lists of files and directories. Kustomize reads its fields like Go does:
/// without regard to case.
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

/// Lists of files that configure kustomize itself, and may name more files.
const CONFIGURING: [&str; 3] = ["generators", "transformers", "validators"];

/// Fields that name files, wherever they stand in a kustomization.
const FILES: [&str; 8] =
    ["path", "paths", "files", "file", "env", "envs", "valuesfile", "patchesstrategicmerge"];

/// Names of a kustomization.
const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Largest file that is looked at, in bytes.
const MAX_FILE: u64 = 10 << 20;

/// Most files and directories that one kustomization may lead to.
const MAX_VISITED: usize = 10_000;

/// Largest size of all files of one kustomization together, in bytes.
const MAX_BYTES: u64 = 32 << 20;

/// How deep directories may refer to each other: reading them recurses.
const MAX_DEPTH: usize = 32;

/// Whether everything that the kustomization at `place` names is in the
/// repository. Blocking.
///
/// # Errors
///
/// [`RenderError::Source`] with the file, the field and the entry.
pub(super) fn stays_inside(place: &Place) -> Result<(), RenderError> {
    let mut visit = Visit { root: &place.root, seen: BTreeSet::new(), depth: 0, bytes: 0 };
    visit.directory(&place.directory, false)
}

struct Visit<'a> {
    root: &'a Path,
    seen: BTreeSet<(PathBuf, bool)>,
    depth: usize,
    bytes: u64,
}

impl Visit<'_> {
    fn directory(&mut self, directory: &Path, configuring: bool) -> Result<(), RenderError> {
        if !self.note(directory, configuring)? {
            return Ok(());
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let reason = format!("kustomizations refer to each other more than {MAX_DEPTH} deep");
            return Err(RenderError::Source { reason });
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
            let lower = field.to_ascii_lowercase();
            if !ENTRIES.contains(&lower.as_str()) {
                continue;
            }
            let configuring = configuring || CONFIGURING.contains(&lower.as_str());
            for (index, entry) in value.as_array().into_iter().flatten().enumerate() {
                // What has several lines is the resource itself.
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
                } else if configuring && self.note(&path, true)? {
                    for document in self.documents(&path)? {
                        self.files_inside(&path, &document, "")?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Files that are named by a URL, anywhere in a document.
    fn files_inside(&self, file: &Path, value: &Value, at: &str) -> Result<(), RenderError> {
        match value {
            Value::Object(fields) => {
                for (field, value) in fields {
                    let below = if at.is_empty() { field.clone() } else { format!("{at}.{field}") };
                    if FILES.contains(&field.to_ascii_lowercase().as_str()) {
                        let own = value.as_str().into_iter();
                        let list = value.as_array().into_iter().flatten().filter_map(Value::as_str);
                        let remote = |entry: &&str| {
                            let path = entry.split_once('=').map_or(*entry, |(_, path)| path);
                            !entry.contains('\n') && (entry.contains("://") || path.contains("://"))
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

    /// Whether it is seen for the first time.
    fn note(&mut self, path: &Path, configuring: bool) -> Result<bool, RenderError> {
        if self.seen.len() >= MAX_VISITED {
            let what = format!("the kustomization names more than {MAX_VISITED} directories");
            return Err(RenderError::TooLarge { what });
        }
        Ok(self.seen.insert((path.to_owned(), configuring)))
    }

    fn documents(&mut self, path: &Path) -> Result<Vec<Value>, RenderError> {
        let file = self.shown(path);
        let failed = |error: std::io::Error| RenderError::Read {
            file: file.clone(),
            error: error.kind().to_string(),
        };
        let mut bytes = Vec::new();
        let content = std::fs::File::open(path).map_err(failed)?;
        content.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MAX_FILE {
            let what = format!("{file}: larger than {MAX_FILE} bytes");
            return Err(RenderError::TooLarge { what });
        }
        self.bytes += bytes.len() as u64;
        if self.bytes > MAX_BYTES {
            let what = format!("{file} and what was read before it: larger than {MAX_BYTES} bytes");
            return Err(RenderError::TooLarge { what });
        }
        // What is not understood here might be understood by kustomize.
        let unreadable = |error: crate::yaml::Error| RenderError::Unreadable {
            file: file.clone(),
            reason: error.to_string(),
        };
        let text = crate::yaml::decode(&bytes).map_err(unreadable)?;
        let documents = crate::yaml::documents(&text).map_err(unreadable)?;
        Ok(documents.into_iter().map(|document| document.value).collect())
    }

    fn shown(&self, path: &Path) -> String {
        path.strip_prefix(self.root).unwrap_or(path).display().to_string()
    }

    fn refused(&self, file: &Path, at: &str, entry: &str) -> RenderError {
        let (file, entry) = (self.shown(file), super::redact(entry));
        let entry: String = entry.chars().take(200).collect();
        RenderError::Source {
            reason: format!(
                "{file}: {at}: {entry:?} is not in the repository, and nothing is fetched from \
                 elsewhere; copy it into the repository, or allow it with --kustomize-remote"
            ),
        }
    }
}
