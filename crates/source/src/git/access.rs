//! Which repositories may be read besides the one that a source names.

use std::fmt;

use crate::http::credentials::RepoCredentials;

/// Which repositories an Application may use for the dependencies of its charts and for its
/// submodules, and how to log in.
pub trait RepositoryAccess: fmt::Debug + Send + Sync {
    /// The credentials for a repository; a registry is `oci://host/path`.
    ///
    /// # Errors
    ///
    /// Why the Application may not use it.
    fn credentials(&self, url: &str) -> Result<Option<RepoCredentials>, String>;
}
