//! Why a repository, a revision or a checkout could not be had.
//!
//! Every text here is safe to show: repositories are named by their redacted
//! URL, and no variant carries a credential or a path of this machine.

use std::time::Duration;

/// What went wrong between a `repoURL` and a checkout.
///
/// Cloneable, since callers that waited for the same work share its outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The `repoURL` cannot be used as it is written.
    #[error("repository {repo}: {reason}")]
    InvalidUrl {
        /// The URL as written, redacted and without control characters.
        repo: String,
        /// What is wrong with it and what to write instead.
        reason: String,
    },
    /// The `targetRevision` cannot be a revision.
    #[error("repository {repo}: revision {revision:?}: {reason}")]
    InvalidRevision {
        /// The redacted URL.
        repo: String,
        /// The revision as asked for.
        revision: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A directory of this machine was named, and that is not switched on.
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
        /// What the operating system said.
        detail: String,
    },
    /// The server answered that there is no such repository.
    ///
    /// Servers say the same to somebody who may not read it.
    #[error("repository {repo}: not found, or not visible with these credentials: {detail}")]
    MissingRepository {
        /// The redacted URL.
        repo: String,
        /// What the server said.
        detail: String,
    },
    /// The repository is there, the revision is not.
    #[error("repository {repo}: revision {revision:?} not found: {detail}")]
    MissingRevision {
        /// The redacted URL.
        repo: String,
        /// The revision as asked for.
        revision: String,
        /// What was looked for, and what to do.
        detail: String,
    },
    /// Credentials are missing or were turned down, or the host is not trusted.
    #[error("repository {repo}: access refused, check its credentials: {detail}")]
    Refused {
        /// The redacted URL.
        repo: String,
        /// What the server said.
        detail: String,
    },
    /// The server could not be reached, or the connection broke.
    #[error("repository {repo}: not reachable: {detail}")]
    Unreachable {
        /// The redacted URL.
        repo: String,
        /// What was seen.
        detail: String,
    },
    /// The work took longer than its limit and was stopped.
    #[error("repository {repo}: {what} took longer than {} s and was stopped", limit.as_secs_f64())]
    TimedOut {
        /// The redacted URL.
        repo: String,
        /// The step, such as `git fetch`.
        what: String,
        /// The limit.
        limit: Duration,
    },
    /// More was sent or would be written than the limit allows.
    #[error("repository {repo}: {what} is over the limit of {limit}")]
    TooLarge {
        /// The redacted URL.
        repo: String,
        /// What is too large.
        what: String,
        /// The limit with its unit.
        limit: String,
    },
    /// A failure of `git` that fits none of the others.
    #[error("repository {repo}: {what} failed: {detail}")]
    Git {
        /// The redacted URL.
        repo: String,
        /// The step, such as `git fetch`.
        what: String,
        /// What it said, bounded and redacted.
        detail: String,
    },
    /// The cache directory of this machine could not be used.
    #[error("repository {repo}: cannot {what}: {detail}")]
    Cache {
        /// The redacted URL.
        repo: String,
        /// The step that failed.
        what: String,
        /// What the operating system said.
        detail: String,
    },
}

impl Error {
    /// Whether the same request may succeed on a later try, with nothing
    /// changed by a person.
    ///
    /// A missing revision is not transient: the regular poll finds it once it
    /// is pushed, and hurrying does not help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Git { .. }
            | Self::Cache { .. } => true,
            Self::InvalidUrl { .. }
            | Self::InvalidRevision { .. }
            | Self::LocalNotAllowed { .. }
            | Self::MissingProgram { .. }
            | Self::MissingRepository { .. }
            | Self::MissingRevision { .. }
            | Self::Refused { .. }
            | Self::TooLarge { .. } => false,
        }
    }
}
