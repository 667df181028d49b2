//! Errors that prevent the reconcile of an Application, as reported in its
//! status.

use std::time::Duration;

use jiff::Timestamp;

use super::access::{Lacking, Refusal};
use super::condition::NewCondition;
use wavegate_engine::wait::{Wait, WaitFor, WakeEvent};

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
    /// The connection to the cluster ended while it was read: its Secret has changed.
    Ended(String),
    /// A target is outside of the part of the cluster that is managed (SE-433).
    Unmanaged(String),
    /// The request of the operation is invalid.
    Operation(String),
}

impl ObserveError {
    /// The conditions for the status.
    pub fn conditions(&self) -> Vec<NewCondition> {
        match self {
            Self::Refused(refusal) => refusal.conditions.clone(),
            Self::Source { message, .. } => {
                vec![NewCondition::comparison(format!("Failed to load target state: {message}"))]
            }
            Self::Live(message) | Self::Ended(message) | Self::Unmanaged(message) => {
                vec![NewCondition::comparison(format!("Failed to load live state: {message}"))]
            }
            Self::Operation(message) => vec![NewCondition::comparison(message.as_str())],
        }
    }

    /// The message in one line.
    pub fn message(&self) -> String {
        let conditions = self.conditions();
        let all: Vec<&str> = conditions.iter().map(|c| c.message.as_str()).collect();
        all.join("; ")
    }

    /// The message of an operation that ends with it (SE-373).
    pub fn of_operation(&self) -> String {
        let lacking = match self {
            Self::Refused(refusal) => refusal.lacking,
            _ => Lacking::Nothing,
        };
        format!("{}{}", lacking.words(), self.message())
    }

    /// Whether only the source cannot be read: the health is known nevertheless.
    pub fn is_of_source(&self) -> bool {
        matches!(self, Self::Source { .. })
    }

    /// Whether a retry may succeed soon. An operation that ends with it would
    /// run its hooks again when it is retried.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Live(_) | Self::Ended(_) => true,
            Self::Source { transient, .. } => *transient,
            Self::Refused(_) | Self::Operation(_) | Self::Unmanaged(_) => false,
        }
    }

    /// What ends it: a retry, or for an invalid spec a change of what it is invalid for.
    pub fn wait(&self, now: Timestamp) -> Wait {
        let seconds = match self {
            // A target that is outside: a commit, or another Secret of the cluster.
            Self::Refused(_) | Self::Operation(_) | Self::Unmanaged(_) => {
                let events = &[WakeEvent::Application, WakeEvent::Project, WakeEvent::Secret];
                return Wait::on(WaitFor::ValidSpec, events);
            }
            Self::Source { transient: false, .. } => 60,
            Self::Source { transient: true, .. } => 10,
            Self::Live(_) | Self::Ended(_) => 3,
        };
        Wait::for_time(WaitFor::FailedComparison, Duration::from_secs(seconds), now)
    }
}
