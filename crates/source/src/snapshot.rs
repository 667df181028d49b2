//! A directory of manifests without git, as a source.
//!
//! For `wavegate demo` and the command line only, when local directories are allowed. The
//! revision is a hash of the content, and a checkout is a copy, so that the planned
//! content is the applied content. Blocking.

use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::deadline;

/// Deepest directory that is read.
const MAX_DEPTH: usize = 64;

/// Content of a directory that was hashed or copied.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DirectoryContent {
    /// SHA-256 over relative paths, those of directories included, and contents in path order, hexadecimal.
    pub hash: String,
    /// The size of all files.
    pub bytes: u64,
}

/// Why a directory could not be hashed or copied.
#[derive(Debug)]
pub(super) enum Failure {
    /// It does not exist, or is not a directory.
    Missing,
    /// It contains more bytes, files or levels than allowed.
    TooLarge(String),
    /// Reading or writing failed.
    Io(std::io::Error),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl Failure {
    /// Names what could not be read, relative to the directory.
    fn at(self, relative: &Path) -> Self {
        match self {
            Self::Io(error) => {
                let place = if relative == Path::new("") { Path::new(".") } else { relative };
                let why = format!("{}: {error}", place.display());
                Self::Io(std::io::Error::new(error.kind(), why))
            }
            other => other,
        }
    }
}

/// Whether `git` would read this directory as a repository. A directory *inside* a work
/// tree is not one.
pub(super) fn is_repository(directory: &Path) -> bool {
    let has = |name: &str| directory.join(name).exists();
    has(".git") || (has("HEAD") && has("objects") && has("refs"))
}

/// Hashes a directory, and copies it when `copy_to` is given.
///
/// `.git` is skipped. Symbolic links stay links: their targets are checked when manifests
/// are read. Anything but files, links and directories is skipped.
pub(super) fn take(
    directory: &Path,
    copy_to: Option<&Path>,
    max_bytes: u64,
    max_files: usize,
) -> Result<DirectoryContent, Failure> {
    if !directory.is_dir() {
        return Err(Failure::Missing);
    }
    let mut walk = Walk { hash: Sha256::new(), bytes: 0, files: 0, max_bytes, max_files };
    walk.directory(directory, copy_to, Path::new(""), 0)?;
    let hash = HEXLOWER.encode(&walk.hash.finalize());
    Ok(DirectoryContent { hash, bytes: walk.bytes })
}

fn create_private(file: &Path) -> std::io::Result<std::fs::File> {
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)
}

struct Walk {
    hash: Sha256,
    bytes: u64,
    files: usize,
    max_bytes: u64,
    max_files: usize,
}

impl Walk {
    fn directory(
        &mut self,
        from: &Path,
        to: Option<&Path>,
        relative: &Path,
        depth: usize,
    ) -> Result<(), Failure> {
        if depth > MAX_DEPTH {
            return Err(Failure::TooLarge(format!("{MAX_DEPTH} levels of directories")));
        }
        let mut names = Vec::new();
        let entries = std::fs::read_dir(from).map_err(|error| Failure::from(error).at(relative))?;
        for entry in entries {
            names.push(entry?.file_name());
            if names.len() > self.max_files {
                return Err(Failure::TooLarge(format!("{} files", self.max_files)));
            }
        }
        names.sort();
        for name in names.iter().filter(|name| *name != ".git") {
            deadline::check()?;
            self.files += 1;
            if self.files > self.max_files {
                return Err(Failure::TooLarge(format!("{} files", self.max_files)));
            }
            let source = from.join(name);
            let target: Option<PathBuf> = to.map(|to| to.join(name));
            let relative = relative.join(name);
            let kind = std::fs::symlink_metadata(&source)?.file_type();
            if kind.is_dir() {
                // Also an empty one: generators list directories.
                self.part(b"directory", relative.as_os_str().as_bytes());
                if let Some(target) = &target {
                    std::fs::DirBuilder::new().mode(0o700).create(target)?;
                }
                self.directory(&source, target.as_deref(), &relative, depth + 1)?;
            } else if kind.is_symlink() {
                let leads_to = std::fs::read_link(&source)?;
                self.part(b"link", relative.as_os_str().as_bytes());
                self.part(b"to", leads_to.as_os_str().as_bytes());
                if let Some(target) = &target {
                    std::os::unix::fs::symlink(leads_to, target)?;
                }
            } else if kind.is_file() {
                self.file(&source, target.as_deref(), &relative).map_err(|f| f.at(&relative))?;
            }
        }
        Ok(())
    }

    fn file(
        &mut self,
        source: &Path,
        target: Option<&Path>,
        relative: &Path,
    ) -> Result<(), Failure> {
        self.part(b"file", relative.as_os_str().as_bytes());
        let mut source = std::fs::File::open(source)?;
        let mut target = target.map(create_private).transpose()?;
        // The content is hashed separately, so that its length need not be known before
        // reading: the file may grow meanwhile.
        let mut content = Sha256::new();
        let mut chunk = vec![0; 64 * 1024];
        loop {
            deadline::check()?;
            let read = source.read(&mut chunk)?;
            if read == 0 {
                break;
            }
            self.bytes += read as u64;
            if self.bytes > self.max_bytes {
                return Err(Failure::TooLarge(format!("{} MiB", self.max_bytes >> 20)));
            }
            content.update(&chunk[..read]);
            if let Some(target) = &mut target {
                target.write_all(&chunk[..read])?;
            }
        }
        let content = content.finalize();
        self.part(b"content", &content);
        Ok(())
    }

    /// Adds a length-prefixed part, so that different trees give different streams.
    fn part(&mut self, tag: &[u8], bytes: &[u8]) {
        self.hash.update(tag);
        self.hash.update((bytes.len() as u64).to_le_bytes());
        self.hash.update(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing else stops a thread that may block.
    #[test]
    fn a_directory_is_read_within_a_time() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a"), "text").unwrap();
        let read = || take(directory.path(), None, 100, 100);
        assert_eq!(read().unwrap().bytes, 4);
        let failure = deadline::limited(std::time::Duration::ZERO, read).unwrap_err();
        let Failure::Io(error) = failure else { panic!("{failure:?}") };
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    }
}
