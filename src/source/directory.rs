//! Manifests out of a directory of a checkout (SE-093 to SE-102).
//!
//! Blocking, and reads inside the checkout only: every path is resolved, links
//! included, and what leads out is an error. [`super::render`] calls it from
//! async code.

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::manifests::{RenderError, Sink};
use crate::glob::{Glob, InvalidGlob};
use crate::yaml::Repeated;

/// Default of [`DirectoryOptions::max_bytes`] (SE-098).
pub const DEFAULT_MAX_BYTES: u64 = 10_000_000;

/// Default of [`DirectoryOptions::max_memory`]: 10 MB of usual manifests take
/// some 100 MB.
pub const DEFAULT_MAX_MEMORY: u64 = crate::yaml::MAX_MEMORY;

/// Deepest directory that is entered below `path`.
const MAX_DEPTH: usize = 64;

/// Most files and directories that are looked at.
const MAX_ENTRIES: usize = 200_000;

/// Largest file of a kind that SE-098 does not count.
const MAX_UNCOUNTED: u64 = 100 << 20;

/// Most steps of matching patterns of one source, some seconds of work: 4 KB
/// of pattern over 200,000 long paths would take an hour.
const MAX_GLOB_STEPS: u64 = 2_000_000_000;

/// A file with this text anywhere is no manifest (SE-096).
const SKIP_MARKER: &str = "+argocd:skip-file-rendering";

/// How a directory is read: the `directory` block of a source (SE-036).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryOptions {
    /// Whether sub-directories are entered.
    pub recurse: bool,
    /// Pattern that a file must match; empty means all.
    pub include: String,
    /// Pattern that a file must not match; empty means none.
    pub exclude: String,
    /// Whether files of any name are read, not only `.yaml`, `.yml`, `.json`.
    pub disable_extension_filter: bool,
    /// Most bytes of all files together; 0 means no limit.
    pub max_bytes: u64,
    /// Most bytes of memory that all objects together may take.
    pub max_memory: u64,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            recurse: false,
            include: String::new(),
            exclude: String::new(),
            disable_extension_filter: false,
            max_bytes: DEFAULT_MAX_BYTES,
            max_memory: DEFAULT_MAX_MEMORY,
        }
    }
}

/// One object of a source, and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The object as it was written.
    pub object: Value,
    /// The file, relative to the root of the repository; for what another
    /// program rendered, the name of that program.
    pub file: String,
    /// The line its document starts at, counted from 1.
    pub line: usize,
    /// Keys that its document holds twice; the last one counts.
    pub repeated: Vec<Repeated>,
}

/// Reads all manifests of `path`, a directory relative to `checkout_root`,
/// in file order and, inside a file, in document order.
///
/// # Errors
///
/// [`RenderError`], with the file and line where there is one. Nothing is
/// returned then: half of a source would look like a deletion.
pub fn directory(
    checkout_root: &Path,
    path: &str,
    options: &DirectoryOptions,
) -> Result<Vec<Manifest>, RenderError> {
    read(checkout_root, path, options, &[])
}

/// As [`directory`], where `submodules` are directories whose files are not
/// there: entering one is an error.
pub(super) fn read(
    checkout_root: &Path,
    path: &str,
    options: &DirectoryOptions,
    submodules: &[String],
) -> Result<Vec<Manifest>, RenderError> {
    let place = Place::new(checkout_root, path)?;
    let pattern = |name: &'static str, text: &str| {
        let glob = (!text.is_empty()).then(|| Glob::new(text)).transpose();
        glob.map_err(|source: InvalidGlob| RenderError::Pattern { field: name, source })
    };
    let mut reader = Reader {
        include: pattern("include", &options.include)?,
        exclude: pattern("exclude", &options.exclude)?,
        place,
        options,
        submodules,
        entries: 0,
        bytes: 0,
        glob_steps: 0,
        files: Vec::new(),
    };
    reader.walk(&reader.place.directory.clone(), "", 0)?;
    let files = std::mem::take(&mut reader.files);
    let mut sink = Sink::new(options.max_memory);
    for file in &files {
        reader.read(file, &mut sink)?;
    }
    Ok(sink.manifests)
}

/// A directory inside a checkout, after all checks.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The checkout, all links resolved.
    pub root: PathBuf,
    /// The directory, likewise.
    pub directory: PathBuf,
    /// The directory relative to the checkout, as written, without `.` parts.
    pub relative: String,
}

impl Place {
    /// Resolves `path` inside a checkout. Empty and `.` mean its root.
    pub(super) fn new(checkout_root: &Path, path: &str) -> Result<Self, RenderError> {
        let named = || path.to_owned();
        let mut parts: Vec<&str> = Vec::new();
        for part in Path::new(path).components() {
            match part {
                Component::CurDir => {}
                Component::Normal(name) => parts.extend(name.to_str()),
                Component::RootDir | Component::Prefix(_) => {
                    return Err(RenderError::AbsolutePath { path: named() });
                }
                Component::ParentDir => {
                    if parts.pop().is_none() {
                        return Err(RenderError::OutsidePath { path: named() });
                    }
                }
            }
        }
        let relative = parts.join("/");
        let missing = |_| RenderError::MissingPath { path: named() };
        let root = checkout_root.canonicalize().map_err(missing)?;
        let directory = root.join(&relative).canonicalize().map_err(missing)?;
        if !directory.starts_with(&root) {
            return Err(RenderError::OutsidePath { path: named() });
        }
        if !directory.is_dir() {
            return Err(RenderError::NotADirectory { path: named() });
        }
        Ok(Self { root, directory, relative })
    }

    /// A path below the directory as people know it: from the repository root.
    fn shown(&self, below: &str) -> String {
        if self.relative.is_empty() {
            below.to_owned()
        } else {
            format!("{}/{below}", self.relative)
        }
    }
}

struct Reader<'a> {
    place: Place,
    options: &'a DirectoryOptions,
    submodules: &'a [String],
    include: Option<Glob>,
    exclude: Option<Glob>,
    entries: usize,
    bytes: u64,
    /// Upper bound of the steps that matching patterns took.
    glob_steps: u64,
    files: Vec<Candidate>,
}

/// A file that passed all filters on its name.
struct Candidate {
    /// Where its content is, links resolved.
    resolved: PathBuf,
    /// For messages.
    shown: String,
}

impl Reader<'_> {
    /// Collects candidates in lexical order; a directory stands in the order
    /// by its own name.
    fn walk(&mut self, directory: &Path, below: &str, depth: usize) -> Result<(), RenderError> {
        let shown = self.place.shown(below);
        let failed = |error: std::io::Error| RenderError::Read {
            file: shown.clone(),
            error: error.to_string(),
        };
        if self.submodules.contains(&shown.trim_end_matches('/').to_owned()) {
            return Err(RenderError::Submodule { path: shown });
        }
        if depth > MAX_DEPTH {
            return Err(RenderError::TooLarge {
                what: format!("{shown}: more than {MAX_DEPTH} directory levels"),
            });
        }
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(failed)? {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                let what = format!("more than {MAX_ENTRIES} files below {:?}", self.place.relative);
                return Err(RenderError::TooLarge { what });
            }
            entries.push(entry.map_err(failed)?);
        }
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let below =
                if below.is_empty() { name.into_owned() } else { format!("{below}/{name}") };
            // Of the entry itself: a link to a directory is not entered.
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                if self.options.recurse && !below.ends_with("/.git") && below != ".git" {
                    self.walk(&entry.path(), &below, depth + 1)?;
                }
            } else {
                self.consider(&entry.path(), below)?;
            }
        }
        Ok(())
    }

    /// The filters of SE-095 up to the content marker, in its order.
    fn consider(&mut self, path: &Path, below: String) -> Result<(), RenderError> {
        let known = [".yaml", ".yml", ".json", ".jsonnet"];
        if !self.options.disable_extension_filter
            && !known.iter().any(|ending| below.ends_with(ending))
        {
            return Ok(());
        }
        let shown = self.place.shown(&below);
        let resolved = match path.canonicalize() {
            Ok(resolved) if resolved.starts_with(&self.place.root) => resolved,
            Ok(_) => return Err(RenderError::LinkOutside { file: shown }),
            // Links in a circle end up here too.
            Err(error) => {
                // So is one into a submodule, whose files are not there.
                if let Some(path) = self.submodule_behind(path) {
                    return Err(RenderError::Submodule { path });
                }
                // A link that leads out is as wrong when nothing is there:
                // whether there is would be told apart by the outcome.
                if leads_out(path, &self.place.root) {
                    return Err(RenderError::LinkOutside { file: shown });
                }
                tracing::warn!(file = shown, %error, "skipping a link that leads nowhere");
                return Ok(());
            }
        };
        let meta = std::fs::metadata(&resolved)
            .map_err(|error| RenderError::Read { file: shown.clone(), error: error.to_string() })?;
        if !meta.is_file() {
            tracing::warn!(file = shown, "skipping what is not a regular file");
            return Ok(());
        }
        let globs = [self.exclude.as_ref(), self.include.as_ref()];
        let cost = globs.into_iter().flatten().map(|glob| glob.cost(below.len())).sum::<u64>();
        self.glob_steps = self.glob_steps.saturating_add(cost);
        if self.glob_steps > MAX_GLOB_STEPS {
            let what = format!(
                "{shown}: directory.include and directory.exclude are too long for so many files"
            );
            return Err(RenderError::TooLarge { what });
        }
        if self.exclude.as_ref().is_some_and(|glob| glob.matches(&below))
            || self.include.as_ref().is_some_and(|glob| !glob.matches(&below))
        {
            return Ok(());
        }
        if !below.ends_with(".jsonnet") {
            self.bytes = self.bytes.saturating_add(meta.len());
            if self.options.max_bytes > 0 && self.bytes > self.options.max_bytes {
                return Err(RenderError::TooLarge {
                    what: format!(
                        "{shown}: the manifests of this source are larger than {} bytes together",
                        self.options.max_bytes
                    ),
                });
            }
        }
        self.files.push(Candidate { resolved, shown });
        Ok(())
    }

    /// The submodule that a link leads into.
    fn submodule_behind(&self, link: &Path) -> Option<String> {
        let target = link.parent()?.join(std::fs::read_link(link).ok()?);
        let mut parts: Vec<&std::ffi::OsStr> = Vec::new();
        for part in target.strip_prefix(&self.place.root).ok()?.components() {
            match part {
                Component::ParentDir => drop(parts.pop()),
                Component::Normal(name) => parts.push(name),
                _ => {}
            }
        }
        let target: PathBuf = parts.into_iter().collect();
        self.submodules.iter().find(|path| target.starts_with(path)).cloned()
    }

    fn read(&self, file: &Candidate, sink: &mut Sink) -> Result<(), RenderError> {
        let name = &file.shown;
        let failed = |error: String| RenderError::Read { file: name.clone(), error };
        let limit = match self.options.max_bytes {
            0 => MAX_UNCOUNTED,
            limit => limit.min(MAX_UNCOUNTED),
        };
        let content = std::fs::File::open(&file.resolved).map_err(|e| failed(e.to_string()))?;
        let mut bytes = Vec::new();
        content.take(limit + 1).read_to_end(&mut bytes).map_err(|e| failed(e.to_string()))?;
        if bytes.len() as u64 > limit {
            return Err(RenderError::TooLarge {
                what: format!("{name}: larger than {limit} bytes"),
            });
        }
        if bytes.windows(SKIP_MARKER.len()).any(|window| window == SKIP_MARKER.as_bytes()) {
            return Ok(());
        }
        let text = crate::yaml::decode(&bytes).map_err(|error| RenderError::Unreadable {
            file: name.clone(),
            reason: error.to_string(),
        })?;
        if text.contains(SKIP_MARKER) {
            return Ok(());
        }
        if name.ends_with(".jsonnet") {
            return Err(RenderError::Jsonnet { file: name.clone() });
        }
        sink.file(&text, name)
    }
}

/// Whether a link that cannot be resolved points out of the root as written.
pub(super) fn leads_out(link: &Path, root: &Path) -> bool {
    let Ok(target) = std::fs::read_link(link) else { return false };
    // The directory that the link is in has been resolved already.
    let mut at = link.parent().unwrap_or(root).to_owned();
    for part in target.components() {
        match part {
            Component::RootDir | Component::Prefix(_) => return true,
            Component::ParentDir => {
                at.pop();
                if !at.starts_with(root) {
                    return true;
                }
            }
            Component::CurDir | Component::Normal(_) => at.push(part),
        }
    }
    false
}
