//! Why a message or an attempt to deliver it failed.

use std::time::Duration;

/// Why an attempt or a message failed: a label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeliveryFailure {
    /// The sink or its Secret cannot be used.
    Sink,
    /// Its address is refused.
    Address,
    /// It cannot be reached.
    Connection,
    /// It does not answer in time.
    Timeout,
    /// It answers with an error that may pass.
    Status,
    /// It refuses the message.
    Refused,
    /// It was tried for an hour.
    Expired,
    /// Too many others wait.
    Dropped,
}

impl DeliveryFailure {
    /// The label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Sink => "Sink",
            Self::Address => "Address",
            Self::Connection => "Connection",
            Self::Timeout => "Timeout",
            Self::Status => "Status",
            Self::Refused => "Refused",
            Self::Expired => "Expired",
            Self::Dropped => "Dropped",
        }
    }
}

/// A failed attempt.
#[derive(Debug)]
pub(super) struct Failed {
    pub why: DeliveryFailure,
    /// Without what may be a credential.
    pub text: String,
    /// The pause that the sink asks for.
    pub not_before: Duration,
}

impl Failed {
    pub fn new(why: DeliveryFailure, text: String) -> Self {
        Self { why, text, not_before: Duration::ZERO }
    }

    /// Whether something is wrong with the policy or its Secret, and not with the receiver.
    pub fn is_problem(&self) -> bool {
        matches!(self.why, DeliveryFailure::Sink | DeliveryFailure::Address)
    }
}
