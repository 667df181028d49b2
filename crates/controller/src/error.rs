//! Errors of reconciles, and how the scheduler handles them.

use std::time::Duration;

use wavegate_cluster::act::control_plane::application_status;
use wavegate_cluster::watch::control_plane::Forbidden;

/// Why a reconcile, or a controller, stopped. Errors in user input are not included: they
/// are reported in the status.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The status of an Application could not be written.
    #[error(transparent)]
    ApplicationStatus(#[from] application_status::Error),
    /// The status of an ApplicationSet could not be written.
    #[error("cannot write the status of ApplicationSet {name}: {reason}")]
    Status {
        /// The ApplicationSet, as `namespace/name`.
        name: String,
        /// The message of the server.
        reason: String,
    },
    /// A RolloutRun could not be written, and what follows depends on it.
    #[error("cannot write RolloutRun {name}: {reason}")]
    Run {
        /// The run, as `namespace/name`.
        name: String,
        /// The message of the server.
        reason: String,
    },
    /// The ApplicationSet itself could not be patched.
    #[error("cannot patch ApplicationSet {name}: {reason}")]
    Patch {
        /// The ApplicationSet, as `namespace/name`.
        name: String,
        /// The message of the server.
        reason: String,
    },
    /// Applications could not be written; the status names the first one.
    #[error(
        "cannot write {count} of the applications of ApplicationSet {name}; the first is {first}"
    )]
    Applications {
        /// The ApplicationSet, as `namespace/name`.
        name: String,
        /// How many failed.
        count: usize,
        /// The first one, with the reason.
        first: String,
    },
    /// Applications of an ApplicationSet that is being deleted are not gone after a long
    /// time, or could not be read (AS-383).
    #[error(
        "cannot delete {count} of the applications of ApplicationSet {name}; the first is {first}"
    )]
    DeletionStuck {
        /// The ApplicationSet, as `namespace/name`.
        name: String,
        /// How many are stuck.
        count: usize,
        /// The first one, with the reason.
        first: String,
    },
    /// The reconcile panicked because of a bug; others are not affected.
    #[error("the reconcile failed unexpectedly: {0}")]
    Panic(String),
    /// The reconcile timed out.
    #[error("the reconcile did not end within {} s: a request hangs", .0.as_secs())]
    TimeLimit(Duration),
    /// The control plane cannot be watched.
    #[error(transparent)]
    Watch(#[from] Forbidden),
}

/// How an error is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorAction {
    /// Retry after a pause.
    Retry,
    /// Reconcile again soon, based on a newer version.
    Outdated,
    /// Like [`Self::Retry`], and the bug is reported on the object.
    Bug,
}

impl ReconcileError {
    /// The error handling of both controllers.
    pub fn action(&self) -> ErrorAction {
        match self {
            // A server says that an object does not exist also while it does not serve its kind:
            // only the watch reports that it was deleted.
            Self::ApplicationStatus(
                application_status::Error::Stale { .. } | application_status::Error::Gone { .. },
            ) => ErrorAction::Outdated,
            Self::Panic(_) => ErrorAction::Bug,
            Self::ApplicationStatus(
                application_status::Error::Failed { .. }
                | application_status::Error::TooLarge { .. },
            )
            | Self::Status { .. }
            | Self::Run { .. }
            | Self::Patch { .. }
            | Self::Applications { .. }
            | Self::DeletionStuck { .. }
            | Self::TimeLimit(_)
            | Self::Watch(_) => ErrorAction::Retry,
        }
    }
}
