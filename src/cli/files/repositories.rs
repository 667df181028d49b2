//! Repositories that one command reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cli::console::error::Error;
use wavegate_source::{Allow, ArtifactSettings, Repositories, SourceSettings, TriedSource};

/// Whether this process reads for others.
static FOR_OTHERS: AtomicBool = AtomicBool::new(false);

/// From now on, repositories are read for others than the user of this machine, as by a controller:
/// a repository that is a directory of the machine would show its credentials to who can write an
/// Application.
pub(in crate::cli) fn read_for_others() {
    FOR_OTHERS.store(true, Ordering::Relaxed);
}

/// Repositories, with a cache that is removed with this value.
#[derive(Debug)]
pub(in crate::cli) struct OpenedRepositories {
    /// The repositories.
    pub sources: Arc<Repositories>,
    _folder: tempfile::TempDir,
}

impl OpenedRepositories {
    /// Opens an empty cache. A user may read what is on their own machine; others may not.
    ///
    /// # Errors
    ///
    /// When there is no temporary directory for it.
    pub fn open(artifacts: ArtifactSettings, tried: Option<TriedSource>) -> Result<Self, Error> {
        let failed = |error: std::io::Error| {
            Error::input("cannot read repositories", "a temporary directory", error)
        };
        let folder = tempfile::Builder::new().prefix("wavegate-").tempdir().map_err(failed)?;
        let environment = crate::cli::run::proxies();
        let allow = match FOR_OTHERS.load(Ordering::Relaxed) {
            false => Allow::EVERYTHING,
            true => Allow::default(),
        };
        let settings =
            SourceSettings { allow, artifacts, tried, environment, ..SourceSettings::default() };
        let sources = Repositories::open(folder.path(), settings).map_err(failed)?;
        Ok(Self { sources: Arc::new(sources), _folder: folder })
    }
}
