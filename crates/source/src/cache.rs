//! The cache directory for repositories and checkouts on the local disk.
//!
//! Each process uses its own directory below the root and locks it while it runs. The
//! next process that starts removes directories of processes that were killed; their
//! content is never reused.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PREFIX: &str = "wavegate-source-";
const LOCK: &str = "lock";

/// The cache directory of this process, removed when dropped.
#[derive(Debug)]
pub(super) struct Cache {
    directory: tempfile::TempDir,
    /// Open lock file; closing it releases the lock.
    _lock: File,
    next: AtomicU64,
}

impl Cache {
    /// Creates a directory below `root`, which is created when missing, and removes
    /// directories of processes that no longer run.
    pub(super) fn open(root: &Path) -> std::io::Result<Self> {
        std::fs::create_dir_all(root)?;
        let root = root.canonicalize()?;
        let odd = |c: char| c.is_control() || "'\"\\".contains(c);
        if root.to_str().is_none_or(|path| path.contains(odd)) {
            // The path becomes part of an ssh command line.
            let message =
                "the path of the source cache directory contains quotes or special characters";
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, message));
        }
        remove_stale(&root)?;
        let directory = private_directory(PREFIX, &root)?;
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600);
        // Locked before another process can find it.
        let unnamed = directory.path().join("new-lock");
        let lock = options.open(&unnamed)?;
        lock.lock()?;
        std::fs::rename(unnamed, directory.path().join(LOCK))?;
        Ok(Self { directory, _lock: lock, next: AtomicU64::new(0) })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// An unused path. Nothing is created; what the caller creates there is removed when
    /// the returned value is dropped.
    pub(super) fn unused(self: &Arc<Self>, kind: &str) -> OwnedDirectory {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        OwnedDirectory {
            path: self.path().join(format!("{kind}-{number}")),
            cache: Arc::clone(self),
        }
    }
}

/// A temporary directory that only this user may read.
pub(super) fn private_directory(prefix: &str, parent: &Path) -> std::io::Result<tempfile::TempDir> {
    let private = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix(prefix).permissions(private).tempdir_in(parent)
}

/// Writes a new file that only this user may read.
pub(super) fn write_private(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let mut options = File::options();
    options.write(true).create_new(true).mode(mode).open(path)?.write_all(text.as_bytes())
}

/// A directory of the cache that is removed when dropped.
#[derive(Debug)]
pub(super) struct OwnedDirectory {
    path: PathBuf,
    /// Keeps the cache directory while a directory in it is in use.
    cache: Arc<Cache>,
}

impl OwnedDirectory {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of all of them.
    pub(super) fn cache(&self) -> &Path {
        self.cache.path()
    }
}

impl Drop for OwnedDirectory {
    fn drop(&mut self) {
        let (path, cache) = (std::mem::take(&mut self.path), Arc::clone(&self.cache));
        let remove = move || {
            if let Err(error) = std::fs::remove_dir_all(&path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(%error, "cannot remove a directory of the source cache");
            }
            drop(cache);
        };
        // Removing many files takes time and must not block a runtime thread.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

fn remove_stale(root: &Path) -> std::io::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        // Others may write to a directory for temporary files.
        let is_own = entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == user);
        let name = entry.file_name();
        let ours = is_own && name.to_str().is_some_and(|name| name.starts_with(PREFIX));
        // Without a lock file, the owner may be starting.
        let Some(lock) = ours.then(|| File::open(entry.path().join(LOCK)).ok()).flatten() else {
            continue;
        };
        if lock.try_lock().is_ok()
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            tracing::warn!(%error, "cannot remove the source cache of a stopped process");
        }
    }
    Ok(())
}
