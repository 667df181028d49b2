//! Errors of reading a repository, a revision or a checkout.
//!
//! All messages are safe to show: repositories are named by their redacted URL, and no
//! variant contains credentials or a local path.

use std::time::Duration;

/// An error between a `repoURL` and a checkout.
///
/// Cloneable, since callers that wait for the same work share its result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The `repoURL` is invalid.
    #[error("repository {repo}: {reason}")]
    InvalidUrl {
        /// The URL as written, redacted and without control characters.
        repo: String,
        /// Why the URL is invalid and how to write it.
        reason: String,
    },
    /// The `targetRevision` is invalid.
    #[error("repository {repo}: revision {revision:?}: {reason}")]
    InvalidRevision {
        /// The redacted URL.
        repo: String,
        /// The requested revision.
        revision: String,
        /// Why the revision is invalid.
        reason: String,
    },
    /// The URL is a local directory, and these are not allowed.
    #[error("repository {repo}: local directories are not allowed here, use an https or ssh URL")]
    LocalNotAllowed {
        /// The path or `file://` URL.
        repo: String,
    },
    /// The `git` program is not installed.
    #[error(
        "repository {repo}: cannot start the program {program}: {detail}; install it or set its path"
    )]
    MissingProgram {
        /// The redacted URL.
        repo: String,
        /// The program that was looked for.
        program: String,
        /// Error of the operating system.
        detail: String,
    },
    /// The server reports that the repository does not exist.
    ///
    /// Servers report the same to users without access.
    #[error("repository {repo}: not found, or not visible with these credentials: {detail}")]
    MissingRepository {
        /// The redacted URL.
        repo: String,
        /// What the server said.
        detail: String,
    },
    /// The repository exists, the revision does not.
    #[error("repository {repo}: revision {revision:?} not found: {detail}")]
    MissingRevision {
        /// The redacted URL.
        repo: String,
        /// The requested revision.
        revision: String,
        /// What was searched, and what to do.
        detail: String,
    },
    /// Credentials are missing or were rejected, or the host is not trusted.
    #[error("repository {repo}: access refused, check its credentials: {detail}")]
    Refused {
        /// The redacted URL.
        repo: String,
        /// Message of the server.
        detail: String,
    },
    /// The certificate of the server is not trusted.
    #[error("repository {repo}: {detail}")]
    Untrusted {
        /// The redacted URL.
        repo: String,
        /// The host, and where to add the certificate of its authority.
        detail: String,
    },
    /// The server cannot be reached, or the connection was lost.
    #[error("repository {repo}: not reachable: {detail}")]
    Unreachable {
        /// The redacted URL.
        repo: String,
        /// Details of the failure.
        detail: String,
    },
    /// The work exceeded its time limit and was stopped.
    #[error("repository {repo}: {what} took longer than {} s and was stopped", limit.as_secs_f64())]
    TimedOut {
        /// The redacted URL.
        repo: String,
        /// The step, such as `git fetch`.
        what: String,
        /// The limit.
        limit: Duration,
    },
    /// The data exceeds a size limit.
    #[error("repository {repo}: {what} is over the limit of {limit}")]
    TooLarge {
        /// The redacted URL.
        repo: String,
        /// What is too large.
        what: String,
        /// The limit with its unit.
        limit: String,
    },
    /// A submodule cannot be read.
    #[error("repository {repo}: submodule {path}: {error}")]
    Submodule {
        /// The redacted URL of the repository that contains it.
        repo: String,
        /// Where it is in that repository.
        path: String,
        /// Why.
        error: Box<SourceError>,
    },
    /// Any other failure of `git`.
    #[error("repository {repo}: {what} failed: {detail}")]
    Git {
        /// The redacted URL.
        repo: String,
        /// The step, such as `git fetch`.
        what: String,
        /// Output of `git`, truncated and redacted.
        detail: String,
    },
    /// The local cache directory could not be used.
    #[error("repository {repo}: cannot {what}: {detail}")]
    Cache {
        /// The redacted URL.
        repo: String,
        /// The step that failed.
        what: String,
        /// Error of the operating system.
        detail: String,
    },
}

impl SourceError {
    /// Another failure of `git`, or of a program or server.
    pub(super) fn git(
        repo: impl Into<String>,
        what: impl Into<String>,
        detail: impl ToString,
    ) -> Self {
        Self::Git { repo: repo.into(), what: what.into(), detail: detail.to_string() }
    }

    /// A failure of the local cache directory.
    pub(super) fn cache(
        repo: impl Into<String>,
        what: impl Into<String>,
        detail: impl ToString,
    ) -> Self {
        Self::Cache { repo: repo.into(), what: what.into(), detail: detail.to_string() }
    }

    /// Data that exceeds a limit.
    pub(super) fn too_large(
        repo: impl Into<String>,
        what: impl Into<String>,
        limit: impl ToString,
    ) -> Self {
        Self::TooLarge { repo: repo.into(), what: what.into(), limit: limit.to_string() }
    }

    /// A refusal of a server, or of this process to log in.
    pub(super) fn refused(repo: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Refused { repo: repo.into(), detail: detail.into() }
    }

    /// A server that does not answer.
    pub(super) fn unreachable(repo: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Unreachable { repo: repo.into(), detail: detail.into() }
    }

    /// A repository that does not exist, as far as its server says.
    pub(super) fn missing_repository(repo: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::MissingRepository { repo: repo.into(), detail: detail.into() }
    }

    /// A revision that does not exist.
    pub(super) fn missing_revision(
        repo: impl Into<String>,
        revision: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        let (repo, revision, detail) = (repo.into(), revision.into(), detail.into());
        Self::MissingRevision { repo, revision, detail }
    }

    /// Whether the same request may succeed later without a change of its input.
    ///
    /// A missing revision is not transient: regular polling finds it once it is pushed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Git { .. }
            | Self::Cache { .. } => true,
            Self::Submodule { error, .. } => error.is_transient(),
            Self::InvalidUrl { .. }
            | Self::InvalidRevision { .. }
            | Self::LocalNotAllowed { .. }
            | Self::MissingProgram { .. }
            | Self::MissingRepository { .. }
            | Self::MissingRevision { .. }
            | Self::Refused { .. }
            | Self::Untrusted { .. }
            | Self::TooLarge { .. } => false,
        }
    }
}
