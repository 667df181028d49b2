//! Why a reconcile stopped before it was through, and what that leads to.

use std::time::Duration;

use crate::act::application_status;
use crate::watch::control_plane::Forbidden;

/// Why a reconcile, or a controller, stopped. Errors of what users wrote are
/// none of these: they are told by the status.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The status of an Application could not be written.
    #[error(transparent)]
    ApplicationStatus(#[from] application_status::Error),
    /// The status of a set could not be written.
    #[error("cannot write the status of ApplicationSet {name}: {reason}")]
    Status {
        /// The set, as `namespace/name`.
        name: String,
        /// The server's words.
        reason: String,
    },
    /// The set itself could not be patched.
    #[error("cannot patch ApplicationSet {name}: {reason}")]
    Patch {
        /// The set, as `namespace/name`.
        name: String,
        /// The server's words.
        reason: String,
    },
    /// Applications could not be written; the status names the first.
    #[error(
        "cannot write {count} of the applications of ApplicationSet {name}; the first is {first}"
    )]
    Applications {
        /// The set, as `namespace/name`.
        name: String,
        /// How many failed.
        count: usize,
        /// The first one by name, with the reason.
        first: String,
    },
    /// The reconcile panicked: a bug, which must not take others along.
    #[error("the reconcile failed unexpectedly: {0}")]
    Panic(String),
    /// The reconcile took too long.
    #[error("the reconcile did not end within {} s: a request hangs", .0.as_secs())]
    TimeLimit(Duration),
    /// The control plane cannot be watched.
    #[error(transparent)]
    Watch(#[from] Forbidden),
}

/// What follows an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same again after a pause.
    Retry,
    /// Again soon, decided on what is newer.
    Outdated,
    /// There is nothing left to work on.
    Gone,
    /// As [`Self::Retry`], and the object says that this is a bug.
    Bug,
}

impl Error {
    /// The one place where it is said what follows an error.
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::ApplicationStatus(application_status::Error::Stale { .. }) => Verdict::Outdated,
            Self::ApplicationStatus(application_status::Error::Gone { .. }) => Verdict::Gone,
            Self::Panic(_) => Verdict::Bug,
            Self::ApplicationStatus(application_status::Error::Failed { .. })
            | Self::Status { .. }
            | Self::Patch { .. }
            | Self::Applications { .. }
            | Self::TimeLimit(_)
            | Self::Watch(_) => Verdict::Retry,
        }
    }
}
