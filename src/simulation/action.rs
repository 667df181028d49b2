//! What happens during a simulation, besides what the controllers do.

use std::time::Duration;

use serde_json::Value;

use super::Fault;
use crate::api::Raw as _;

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledAction {
    /// When: the time since the start.
    pub at: Duration,
    /// What.
    pub action: Action,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A commit to all repositories.
    Push,
    /// A Healthy Application becomes Degraded.
    Degrade(String),
    /// The controllers are killed, and start again.
    Restart,
    /// The API server answers no request for this time.
    ApiDown(Duration),
    /// All sets are paused.
    Pause,
    /// They are resumed.
    Resume,
    /// A person approves the gates of this name.
    Approve(String),
    /// A person takes the current runs back.
    Rollback,
    /// A person aborts the current runs.
    Abort,
    /// A person retries what has failed.
    Retry,
    /// A person retries one Application.
    RetryOne(String),
    /// A person leaves an Application out.
    Skip(String),
    /// A user applies an object.
    Apply(Value),
    /// Something goes wrong.
    Fault(Fault),
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Push => f.write_str("a commit is pushed"),
            Self::Degrade(application) => write!(f, "{application} becomes Degraded"),
            Self::Restart => f.write_str("the controllers are killed and start again"),
            Self::ApiDown(time) => write!(f, "the API server is down for {time:?}"),
            Self::Pause => f.write_str("the sets are paused"),
            Self::Resume => f.write_str("the sets are resumed"),
            Self::Approve(gate) => write!(f, "gate {gate} is approved"),
            Self::Rollback => f.write_str("a person takes the run back"),
            Self::Abort => f.write_str("a person aborts the run"),
            Self::Retry => f.write_str("a person retries what has failed"),
            Self::RetryOne(application) => write!(f, "a person retries {application}"),
            Self::Skip(application) => write!(f, "a person skips {application}"),
            Self::Apply(object) => {
                write!(f, "a user applies {} {}", object.field("kind"), object.name())
            }
            Self::Fault(fault) => fault.fmt(f),
        }
    }
}
