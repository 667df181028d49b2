//! Reads manifests from a directory of a checkout (SE-093 to SE-102).
//!
//! Blocking. Reads inside the checkout only: every path is resolved including symbolic
//! links, and a path that leaves the checkout is an error.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::directory::jsonnet::{Evaluator, JsonnetOptions};
use crate::directory::source_directory::{DEFAULT_MAX_MEMORY, SourceDirectory, submodule_behind};
use crate::links::points_outside;
use crate::render::checked::in_time;
use crate::render::files::read_file;
use crate::render::manifest::{Manifest, RenderError, Sink, lfs_pointer};
use wavegate_api::glob::{Glob, InvalidGlob};

/// Default of [`DirectoryOptions::max_bytes`] (SE-098).
pub const DEFAULT_MAX_BYTES: u64 = 10_000_000;

/// Deepest directory that is entered below `path`.
const MAX_DEPTH: usize = 64;

/// Most files and directories that are visited.
const MAX_ENTRIES: usize = 200_000;

/// Largest file of a type that is not counted by SE-098.
const MAX_UNCOUNTED: u64 = 100 << 20;

/// Limit on the steps of pattern matching per source, some seconds of work: a pattern of
/// 4 KB and 200,000 long paths would take an hour.
const MAX_GLOB_STEPS: u64 = 2_000_000_000;

/// A file that contains this text is skipped (SE-096).
const SKIP_MARKER: &str = "+argocd:skip-file-rendering";

/// How a directory is read: the `directory` block of a source (SE-036).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryOptions {
    /// Whether sub-directories are entered.
    pub recurse: bool,
    /// Pattern that a file must match; empty means all.
    pub include: String,
    /// Pattern of the files to exclude; empty excludes none.
    pub exclude: String,
    /// Whether files of any name are read, not only `.yaml`, `.yml`, `.json`.
    pub disable_extension_filter: bool,
    /// Limit on the bytes of all files together; 0 means no limit.
    pub max_bytes: u64,
    /// Limit on the memory of all objects together, in bytes.
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

/// Reads all manifests of `path`, a directory relative to `checkout_root`, in the order
/// of files and of documents within a file.
///
/// # Errors
///
/// [`RenderError`], with file and line if known. No manifests are returned then, since
/// missing ones would look like deletions.
pub fn read_directory(
    checkout_root: &Path,
    path: &str,
    options: &DirectoryOptions,
) -> Result<Vec<Manifest>, RenderError> {
    let read = read(checkout_root, path, options, &[], &Jsonnet::Off)?;
    Ok(read.map(|content| content.manifests).unwrap_or_default())
}

/// How the Jsonnet files of a directory are read.
pub(crate) enum Jsonnet {
    /// They are left out, and reported (SE-091).
    Off,
    /// If there are any, the directory is not read: this thread would wait for workers.
    Later,
    /// They are evaluated.
    On {
        /// The `jsonnet` block.
        options: JsonnetOptions,
        /// Limit on the bytes of one result.
        output: usize,
        /// Limit on the time of all files.
        time: Duration,
    },
}

/// The content of a directory.
pub(crate) struct Content {
    /// The manifests, in order.
    pub manifests: Vec<Manifest>,
    /// What users should know.
    pub notes: Vec<String>,
}

/// Like [`read_directory`], with Jsonnet; entering one of `submodules` is an error, since their
/// files are missing. Nothing with [`Jsonnet::Later`] if there is some.
pub(crate) fn read(
    checkout_root: &Path,
    path: &str,
    options: &DirectoryOptions,
    submodules: &[String],
    jsonnet: &Jsonnet,
) -> Result<Option<Content>, RenderError> {
    let source_dir = SourceDirectory::new(checkout_root, path)?;
    let pattern = |name: &'static str, text: &str| {
        let glob = (!text.is_empty()).then(|| Glob::new(text)).transpose();
        glob.map_err(|source: InvalidGlob| RenderError::Pattern { field: name, source })
    };
    let mut reader = Reader {
        include: pattern("include", &options.include)?,
        exclude: pattern("exclude", &options.exclude)?,
        source_dir,
        options,
        submodules,
        entries: 0,
        bytes: 0,
        glob_steps: 0,
        files: Vec::new(),
    };
    reader.walk(&reader.source_dir.directory.clone(), "", 0)?;
    let files = std::mem::take(&mut reader.files);
    let is_jsonnet = |file: &Candidate| file.shown.ends_with(".jsonnet");
    if matches!(jsonnet, Jsonnet::Later) && files.iter().any(is_jsonnet) {
        return Ok(None);
    }
    let mut sink = Sink::new(options.max_memory);
    let mut notes = Vec::new();
    let mut evaluator = match jsonnet {
        Jsonnet::Off | Jsonnet::Later => None,
        Jsonnet::On { options, output, time } => {
            notes.extend_from_slice(options.notes());
            let source_dir = &reader.source_dir;
            Some(Evaluator::new(options, source_dir, submodules, *output, *time)?)
        }
    };
    for file in &files {
        in_time(&file.shown)?;
        let Some(text) = reader.read(file)? else { continue };
        let name = &file.shown;
        if !is_jsonnet(file) {
            sink.file(&text, name)?;
        } else if let Some(what) = lfs_pointer(&text) {
            return Err(RenderError::NotAManifest { file: name.clone(), what });
        } else if let Some(evaluator) = &mut evaluator {
            sink.value(evaluator.evaluate(name, &text)?, name)?;
        } else {
            notes.push(format!(
                "{name}: left out, since Jsonnet is disabled (jsonnet.enable of ConfigMap argocd-cm)"
            ));
        }
    }
    Ok(Some(Content { manifests: sink.manifests, notes }))
}

struct Reader<'a> {
    source_dir: SourceDirectory,
    options: &'a DirectoryOptions,
    submodules: &'a [String],
    include: Option<Glob>,
    exclude: Option<Glob>,
    entries: usize,
    bytes: u64,
    /// Upper bound of the pattern matching steps so far.
    glob_steps: u64,
    files: Vec<Candidate>,
}

/// A file that passed all filters on its name.
struct Candidate {
    /// Path of the content, symbolic links resolved.
    resolved: PathBuf,
    /// Path for messages.
    shown: String,
}

impl Reader<'_> {
    /// Collects candidates in lexical order; a directory is ordered by its own name.
    fn walk(&mut self, directory: &Path, below: &str, depth: usize) -> Result<(), RenderError> {
        let shown = self.source_dir.shown(below);
        let failed = |error: std::io::Error| RenderError::read(shown.clone(), error);
        if self.submodules.contains(&shown.trim_end_matches('/').to_owned()) {
            return Err(RenderError::Submodule { path: shown });
        }
        if depth > MAX_DEPTH {
            return Err(RenderError::too_large(format!(
                "{shown}: more than {MAX_DEPTH} directory levels"
            )));
        }
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(failed)? {
            in_time(&shown)?;
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err(RenderError::too_large(format!(
                    "more than {MAX_ENTRIES} files below {:?}",
                    self.source_dir.relative
                )));
            }
            entries.push(entry.map_err(failed)?);
        }
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let below =
                if below.is_empty() { name.into_owned() } else { format!("{below}/{name}") };
            // The type of the entry itself: a link to a directory is not entered.
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

    /// Applies the filters of SE-095 up to the content marker, in this order.
    fn consider(&mut self, path: &Path, below: String) -> Result<(), RenderError> {
        in_time(&below)?;
        let known = [".yaml", ".yml", ".json", ".jsonnet"];
        if !self.options.disable_extension_filter
            && !known.iter().any(|ending| below.ends_with(ending))
        {
            return Ok(());
        }
        let shown = self.source_dir.shown(&below);
        let resolved = match path.canonicalize() {
            Ok(resolved) if resolved.starts_with(&self.source_dir.root) => resolved,
            Ok(_) => return Err(RenderError::LinkOutside { file: shown }),
            // Also the result for circular links.
            Err(error) => {
                // Also the result for a link into a submodule, whose files are missing.
                if let Some(path) = submodule_behind(path, &self.source_dir.root, self.submodules) {
                    return Err(RenderError::Submodule { path });
                }
                // A link out of the checkout is rejected even when its target is missing,
                // since the outcome would reveal which files exist.
                if points_outside(path, &self.source_dir.root) {
                    return Err(RenderError::LinkOutside { file: shown });
                }
                // One that the patterns leave out is not read in any case.
                if !self.wants(&below)? {
                    return Ok(());
                }
                // What it was to contain would be missing, and pruned.
                return Err(match error.kind() {
                    std::io::ErrorKind::PermissionDenied => RenderError::read(shown, error),
                    _ => RenderError::DanglingLink { file: shown },
                });
            }
        };
        let meta = std::fs::metadata(&resolved)
            .map_err(|error| RenderError::read(shown.clone(), error))?;
        if !meta.is_file() {
            tracing::warn!(file = shown, "skipping an entry that is not a regular file");
            return Ok(());
        }
        if !self.wants(&below)? {
            return Ok(());
        }
        if !below.ends_with(".jsonnet") {
            self.bytes = self.bytes.saturating_add(meta.len());
            if self.options.max_bytes > 0 && self.bytes > self.options.max_bytes {
                return Err(RenderError::too_large(format!(
                    "{shown}: the manifests of this source exceed {} bytes in total",
                    self.options.max_bytes
                )));
            }
        }
        self.files.push(Candidate { resolved, shown });
        Ok(())
    }

    /// Whether the patterns select a file.
    fn wants(&mut self, below: &str) -> Result<bool, RenderError> {
        let globs = [self.exclude.as_ref(), self.include.as_ref()];
        let cost = globs.into_iter().flatten().map(|glob| glob.cost(below.len())).sum::<u64>();
        self.glob_steps = self.glob_steps.saturating_add(cost);
        if self.glob_steps > MAX_GLOB_STEPS {
            let shown = self.source_dir.shown(below);
            return Err(RenderError::too_large(format!(
                "{shown}: directory.include and directory.exclude are too expensive to match for this number of files"
            )));
        }
        let is_excluded = self.exclude.as_ref().is_some_and(|glob| glob.matches(below));
        Ok(!is_excluded && self.include.as_ref().is_none_or(|glob| glob.matches(below)))
    }

    /// The text of a file; `None` for one with the marker.
    fn read(&self, file: &Candidate) -> Result<Option<String>, RenderError> {
        let name = &file.shown;
        let limit = match self.options.max_bytes {
            0 => MAX_UNCOUNTED,
            limit => limit.min(MAX_UNCOUNTED),
        };
        let failed = |error| RenderError::read(name, error);
        let bytes = read_file(&file.resolved, name, limit, failed)?;
        if bytes.windows(SKIP_MARKER.len()).any(|window| window == SKIP_MARKER.as_bytes()) {
            return Ok(None);
        }
        let text = wavegate_api::yaml::decode_text(&bytes)
            .map_err(|error| RenderError::unreadable(name, error))?;
        Ok((!text.contains(SKIP_MARKER)).then(|| text.into_owned()))
    }
}
