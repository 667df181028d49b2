//! Why a pass stopped before it was through.

use crate::act::application_status;

/// What made a pass, or the controller, stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The status could not be written.
    #[error(transparent)]
    Status(#[from] application_status::Error),
    /// The pass itself is at fault; the others go on.
    #[error("the pass failed unexpectedly: {0}")]
    Panic(String),
    /// The control plane cannot be watched.
    #[error("cannot watch {what}: {reason}")]
    Watch {
        /// Which kind.
        what: &'static str,
        /// What the server said.
        reason: String,
    },
}

impl Error {
    /// Whether the pass has only to be made again, on newer facts.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Status(application_status::Error::Stale { .. }))
    }

    /// Whether there is nothing left to work on.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Status(application_status::Error::Gone { .. }))
    }
}
