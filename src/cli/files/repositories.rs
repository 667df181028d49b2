//! Repositories that one command reads.

use std::sync::Arc;

use crate::cli::console::error::Error;
use wavegate_source::{Allow, ArtifactSettings, Repositories, SourceSettings, TriedSource};

/// Repositories, with a cache that is removed with this value.
#[derive(Debug)]
pub(in crate::cli) struct OpenedRepositories {
    /// The repositories.
    pub sources: Arc<Repositories>,
    _folder: tempfile::TempDir,
}

impl OpenedRepositories {
    /// Opens an empty cache. A user may read what is on their own machine.
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
        let allow = Allow::EVERYTHING;
        let settings =
            SourceSettings { allow, artifacts, tried, environment, ..SourceSettings::default() };
        let sources = Repositories::open(folder.path(), settings).map_err(failed)?;
        Ok(Self { sources: Arc::new(sources), _folder: folder })
    }
}
