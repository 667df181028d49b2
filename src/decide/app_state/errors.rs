//! Errors that prevent the reconcile of an Application, as reported in its
//! status.

use jiff::SignedDuration;

use super::access::Refusal;
use super::condition::Condition;

/// An error that prevents a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObserveError {
    /// The spec is invalid or not permitted.
    Refused(Refusal),
    /// Revision or manifests cannot be read; `transient` if a retry may
    /// succeed.
    Source {
        /// The message.
        message: String,
        /// Whether a retry may succeed.
        transient: bool,
    },
    /// The cluster cannot be read.
    Live(String),
    /// A target is outside of the part of the cluster that is managed (SE-433).
    Unmanaged(String),
    /// The request of the operation is invalid.
    Operation(String),
}

impl ObserveError {
    /// The conditions for the status.
    pub fn conditions(&self) -> Vec<Condition> {
        match self {
            Self::Refused(refusal) => refusal.conditions.clone(),
            Self::Source { message, .. } => {
                vec![Condition::comparison(format!("Failed to load target state: {message}"))]
            }
            Self::Live(message) | Self::Unmanaged(message) => {
                vec![Condition::comparison(format!("Failed to load live state: {message}"))]
            }
            Self::Operation(message) => vec![Condition::comparison(message.as_str())],
        }
    }

    /// The message in one line, for an operation.
    pub fn message(&self) -> String {
        let conditions = self.conditions();
        let all: Vec<&str> = conditions.iter().map(|c| c.message.as_str()).collect();
        all.join("; ")
    }

    /// Whether a retry may succeed soon. An operation that ends with it would
    /// run its hooks again when it is retried.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Live(_) => true,
            Self::Source { transient, .. } => *transient,
            Self::Refused(_) | Self::Operation(_) | Self::Unmanaged(_) => false,
        }
    }

    /// The delay of the next reconcile; an invalid spec needs an event, as does a target
    /// that is outside: a commit, or another Secret of the cluster.
    pub fn pause(&self) -> Option<SignedDuration> {
        match self {
            Self::Refused(_) | Self::Operation(_) | Self::Unmanaged(_) => None,
            Self::Source { transient: false, .. } => Some(SignedDuration::from_secs(60)),
            Self::Source { transient: true, .. } => Some(SignedDuration::from_secs(10)),
            Self::Live(_) => Some(SignedDuration::from_secs(3)),
        }
    }
}
