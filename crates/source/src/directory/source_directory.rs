//! A directory of a checkout, and links that lead out of it.

use std::path::{Component, Path, PathBuf};

use crate::links::leaves;
use crate::render::manifest::RenderError;

/// Default of the memory of all objects of a directory, in bytes: 10 MB of typical manifests take about 100 MB.
pub const DEFAULT_MAX_MEMORY: u64 = wavegate_api::yaml::MAX_MEMORY;

/// A validated directory inside a checkout.
#[derive(Clone, Debug)]
pub(crate) struct SourceDirectory {
    /// The checkout, symbolic links resolved.
    pub root: PathBuf,
    /// The directory, symbolic links resolved.
    pub directory: PathBuf,
    /// The directory relative to the checkout, as written, without `.` parts.
    pub relative: String,
    /// The directory for private copies and other files of a call. On the file system of the
    /// checkout, copies share files with it; below the cache, they go when the process is killed.
    pub temporary: PathBuf,
}

impl SourceDirectory {
    /// Resolves `path` inside a checkout. Empty and `.` mean its root.
    pub(crate) fn new(checkout_root: &Path, path: &str) -> Result<Self, RenderError> {
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
        if leaves(&root, &relative, &root) {
            return Err(RenderError::OutsidePath { path: named() });
        }
        let directory = root.join(&relative).canonicalize().map_err(missing)?;
        if !directory.starts_with(&root) {
            return Err(RenderError::OutsidePath { path: named() });
        }
        if !directory.is_dir() {
            return Err(RenderError::NotADirectory { path: named() });
        }
        Ok(Self { root, directory, relative, temporary: std::env::temp_dir() })
    }

    /// The same with another directory for private files.
    pub(crate) fn with_temporary(self, temporary: &Path) -> Self {
        Self { temporary: temporary.to_owned(), ..self }
    }

    /// A path below the directory for messages: relative to the repository root.
    pub(crate) fn shown(&self, below: &str) -> String {
        if self.relative.is_empty() {
            below.to_owned()
        } else {
            format!("{}/{below}", self.relative)
        }
    }
}

/// The submodule that a link leads into.
pub(crate) fn submodule_behind(link: &Path, root: &Path, submodules: &[String]) -> Option<String> {
    let target = link.parent()?.join(std::fs::read_link(link).ok()?);
    let mut parts: Vec<&std::ffi::OsStr> = Vec::new();
    for part in target.strip_prefix(root).ok()?.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::Normal(name) => parts.push(name),
            _ => {}
        }
    }
    let target: PathBuf = parts.into_iter().collect();
    submodules.iter().find(|path| target.starts_with(path)).cloned()
}
