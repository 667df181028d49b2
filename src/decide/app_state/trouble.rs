//! What keeps an Application from being looked at, as its status says it.

use jiff::SignedDuration;

use super::access::Refusal;
use super::condition::Condition;

/// Why the facts cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The spec is not valid or not permitted.
    Refused(Refusal),
    /// Revision or manifests cannot be read; `transient` when the same request
    /// may succeed later.
    Source {
        /// What happened.
        message: String,
        /// Whether trying again may help.
        transient: bool,
    },
    /// The cluster cannot be read.
    Live(String),
    /// The operation asks for what cannot be done.
    Operation(String),
}

impl Trouble {
    /// What the status says about it.
    pub fn conditions(&self) -> Vec<Condition> {
        match self {
            Self::Refused(refusal) => refusal.conditions.clone(),
            Self::Source { message, .. } => {
                vec![Condition::comparison(format!("Failed to load target state: {message}"))]
            }
            Self::Live(message) => {
                vec![Condition::comparison(format!("Failed to load live state: {message}"))]
            }
            Self::Operation(message) => vec![Condition::comparison(message.as_str())],
        }
    }

    /// In one line, for an operation.
    pub fn message(&self) -> String {
        let conditions = self.conditions();
        let all: Vec<&str> = conditions.iter().map(|c| c.message.as_str()).collect();
        all.join("; ")
    }

    /// Whether it may be over in a moment. An operation that ended by it would
    /// run its hooks again when it is tried again.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Live(_) => true,
            Self::Source { transient, .. } => *transient,
            Self::Refused(_) | Self::Operation(_) => false,
        }
    }

    /// After which time to look again; a spec heals by an event only.
    pub fn pause(&self) -> Option<SignedDuration> {
        match self {
            Self::Refused(_) | Self::Operation(_) => None,
            Self::Source { transient: false, .. } => Some(SignedDuration::from_secs(60)),
            Self::Source { transient: true, .. } => Some(SignedDuration::from_secs(10)),
            Self::Live(_) => Some(SignedDuration::from_secs(3)),
        }
    }
}
