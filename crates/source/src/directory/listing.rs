//! Directories and files of a checkout, for the git generator (AS-092, AS-094).
//!
//! Blocking. Symbolic links to directories are not entered; the target of a link to a file
//! must be inside the checkout.

use std::collections::BTreeMap;
use std::fs::{DirEntry, FileType};
use std::io::Read;
use std::path::Path;

use crate::deadline;
use crate::git::checkout::Checkout;
use crate::render::checked::in_time;
use crate::render::manifest::RenderError;

/// Deepest directory that is entered.
const MAX_DEPTH: usize = 64;

/// Most files and directories that are visited.
const MAX_ENTRIES: usize = 200_000;

/// Limit on the bytes of all files that one generator reads.
const MAX_BYTES: u64 = 64 << 20;

/// The paths of all directories, relative to the root and in lexical order. Hidden ones, whose
/// names start with a dot, and what is below them are left out unless they are asked for;
/// `.git` always is.
///
/// # Errors
///
/// When a directory cannot be read or a limit is exceeded: a part of the list would delete
/// Applications.
pub fn list_directories(
    checkout: &Checkout,
    with_hidden: bool,
) -> Result<Vec<String>, RenderError> {
    let mut found = Vec::new();
    walk(checkout.root(), &mut |path, kind, _| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_left_out = match with_hidden {
            true => name.eq_ignore_ascii_case(".git"),
            false => name.starts_with('.'),
        };
        let enters = kind.is_dir() && !is_left_out;
        if enters {
            found.push(path.to_owned());
        }
        Ok(enters)
    })?;
    found.sort_by(|a, b| a.split('/').cmp(b.split('/')));
    Ok(found)
}

/// The contents of the files whose path relative to the root is wanted, by path.
///
/// # Errors
///
/// When `wanted` exceeds a limit, a file cannot be read, is not UTF-8, is a link that leaves the checkout, or a limit
/// is exceeded.
pub fn list_files(
    checkout: &Checkout,
    wanted: &dyn Fn(&str) -> Result<bool, String>,
) -> Result<BTreeMap<String, String>, RenderError> {
    let root = checkout.root();
    let resolved_root = root.canonicalize().map_err(|error| failed("", &error))?;
    let (mut found, mut left) = (BTreeMap::new(), MAX_BYTES);
    walk(root, &mut |path, kind, entry| {
        if kind.is_dir() {
            return Ok(path != ".git");
        }
        if !wanted(path).map_err(RenderError::too_large)? {
            return Ok(false);
        }
        let target = match entry.path().canonicalize() {
            Ok(target) if target.starts_with(&resolved_root) => target,
            // A missing target outside of the checkout is reported in the same way, since
            // the answer would reveal which files exist.
            Err(error) if !crate::links::points_outside(&entry.path(), root) => {
                return Err(failed(path, &error));
            }
            _ => return Err(RenderError::LinkOutside { file: path.to_owned() }),
        };
        if !target.is_file() {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        let file = std::fs::File::open(&target).map_err(|error| failed(path, &error))?;
        file.take(left + 1).read_to_end(&mut bytes).map_err(|error| failed(path, &error))?;
        left = left.checked_sub(bytes.len() as u64).ok_or_else(|| {
            RenderError::too_large(format!(
                "{path}: the files of this generator exceed {MAX_BYTES} bytes in total"
            ))
        })?;
        let text = String::from_utf8(bytes)
            .map_err(|_| RenderError::read(path, "the file is not UTF-8 text"))?;
        found.insert(path.to_owned(), text);
        Ok(false)
    })?;
    Ok(found)
}

/// Visits the entries below a directory in lexical order, by path; `visit` returns whether
/// a directory is entered.
fn walk(
    root: &Path,
    visit: &mut dyn FnMut(&str, FileType, &DirEntry) -> Result<bool, RenderError>,
) -> Result<(), RenderError> {
    deadline::limited(deadline::MAX_WORK, || walk_in_time(root, visit))
}

fn walk_in_time(
    root: &Path,
    visit: &mut dyn FnMut(&str, FileType, &DirEntry) -> Result<bool, RenderError>,
) -> Result<(), RenderError> {
    let mut left = vec![(root.to_owned(), String::new(), 0)];
    let mut visited = 0;
    while let Some((directory, below, depth)) = left.pop() {
        if depth > MAX_DEPTH {
            return Err(RenderError::too_large(format!(
                "{below}: more than {MAX_DEPTH} directory levels"
            )));
        }
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(&directory).map_err(|error| failed(&below, &error))? {
            visited += 1;
            if visited > MAX_ENTRIES {
                return Err(RenderError::too_large(format!(
                    "more than {MAX_ENTRIES} files and directories"
                )));
            }
            entries.push(entry.map_err(|error| failed(&below, &error))?);
        }
        entries.sort_by_key(DirEntry::file_name);
        let mut inner = Vec::new();
        for entry in entries {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let path = if below.is_empty() { name.into_owned() } else { format!("{below}/{name}") };
            in_time(&path)?;
            let kind = entry.file_type().map_err(|error| failed(&path, &error))?;
            if visit(&path, kind, &entry)? {
                inner.push((entry.path(), path, depth + 1));
            }
        }
        left.extend(inner.into_iter().rev());
    }
    Ok(())
}

fn failed(path: &str, error: &std::io::Error) -> RenderError {
    RenderError::read(path, error)
}
