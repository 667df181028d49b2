//! What an assessment of an object gives.

use serde::{Deserialize, Serialize};

/// Health status, ordered from best to worst; an Application has the worst status of its
/// resources (SE-440).
pub use wavegate_api::HealthStatus as Status;

/// A health status and its message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The status.
    pub status: Status,
    /// Details; empty when the status is sufficient.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Health {
    /// A status with a message.
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(super) fn healthy(message: impl Into<String>) -> Self {
        Self::new(Status::Healthy, message)
    }

    pub(super) fn progressing(message: impl Into<String>) -> Self {
        Self::new(Status::Progressing, message)
    }

    pub(super) fn suspended(message: impl Into<String>) -> Self {
        Self::new(Status::Suspended, message)
    }

    pub(super) fn degraded(message: impl Into<String>) -> Self {
        Self::new(Status::Degraded, message)
    }

    pub(super) fn unknown(message: impl Into<String>) -> Self {
        Self::new(Status::Unknown, message)
    }
}
