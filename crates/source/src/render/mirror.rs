//! A private copy of a checkout: files of it are changed or added before a program reads it.
//!
//! Checkouts are shared and stay as they are. Blocking.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::cache::private_directory;
use crate::directory::source_directory::SourceDirectory;
use crate::render::checked::{MAX_ENTRIES, in_time};
use crate::render::manifest::RenderError;

/// A copy, removed when dropped.
#[derive(Debug)]
pub(crate) struct Mirror {
    /// The directory of the source in the copy.
    pub source_dir: SourceDirectory,
    _files: tempfile::TempDir,
}

/// Which files share their content with the checkout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// All, as far as the file system can: for programs that only read.
    Shared,
    /// All but those of the directory of the source, which a program may write to.
    Own,
}

/// Copies the checkout of `source_dir`, at most `limit` bytes that are not shared.
///
/// Links are copied as links: whether they stay inside is checked before a program runs.
pub(crate) fn mirror(
    source_dir: &SourceDirectory,
    content: Content,
    limit: u64,
) -> Result<Mirror, RenderError> {
    let made = private_directory("copy-", &source_dir.temporary);
    let failed = |error: &std::io::Error, file: &Path| {
        RenderError::read(
            file.strip_prefix(&source_dir.root)
                .unwrap_or(Path::new("temporary directory"))
                .display()
                .to_string(),
            error.kind(),
        )
    };
    let files = made.map_err(|error| failed(&error, Path::new("/")))?;
    let to = files.path().canonicalize().map_err(|error| failed(&error, files.path()))?;
    let to = to.join("source");
    let mut left = limit;
    let mut entries = 0;
    let mut open = vec![PathBuf::new()];
    while let Some(relative) = open.pop() {
        let from = source_dir.root.join(&relative);
        let target = to.join(&relative);
        std::fs::DirBuilder::new().mode(0o700).create(&target).map_err(|e| failed(&e, &from))?;
        let own = content == Content::Own && from.starts_with(&source_dir.directory);
        for entry in std::fs::read_dir(&from).map_err(|e| failed(&e, &from))? {
            let entry = entry.map_err(|e| failed(&e, &from))?;
            let (path, name) = (entry.path(), entry.file_name());
            in_time("the copy of the source")?;
            entries += 1;
            if entries > MAX_ENTRIES {
                return Err(RenderError::too_large(format!(
                    "the repository has more than {MAX_ENTRIES} files"
                )));
            }
            let kind = entry.file_type().map_err(|e| failed(&e, &path))?;
            if kind.is_dir() {
                // The history of a work tree is no part of a source.
                if name != ".git" {
                    open.push(relative.join(&name));
                }
                continue;
            }
            let copy = target.join(&name);
            if kind.is_symlink() {
                let link = std::fs::read_link(&path).map_err(|e| failed(&e, &path))?;
                // A link to the checkout by its whole path leads to the copy.
                let link = match link.strip_prefix(&source_dir.root) {
                    Ok(inside) => to.join(inside),
                    Err(_) => link,
                };
                std::os::unix::fs::symlink(link, &copy).map_err(|e| failed(&e, &path))?;
                continue;
            }
            if !kind.is_file() || (!own && std::fs::hard_link(&path, &copy).is_ok()) {
                continue;
            }
            let size = entry.metadata().map_err(|e| failed(&e, &path))?.len();
            left = left.checked_sub(size).ok_or_else(|| {
                RenderError::too_large(format!(
                    "the files of the source exceed {} MiB",
                    limit >> 20
                ))
            })?;
            std::fs::copy(&path, &copy).map_err(|e| failed(&e, &path))?;
        }
    }
    let relative = source_dir.directory.strip_prefix(&source_dir.root).unwrap_or(Path::new(""));
    let source_dir = SourceDirectory {
        directory: if relative == Path::new("") { to.clone() } else { to.join(relative) },
        root: to,
        relative: source_dir.relative.clone(),
        temporary: source_dir.temporary.clone(),
    };
    Ok(Mirror { source_dir, _files: files })
}

/// Replaces a file of a copy; its content may be shared.
pub(crate) fn replace(file: &Path, content: &str) -> std::io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::write(file, content)
}
