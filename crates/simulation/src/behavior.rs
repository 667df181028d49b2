//! How Applications behave.

use std::time::Duration;

/// How an Application behaves when it is deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behavior {
    /// How long its sync takes, besides what the engine adds.
    pub sync: Duration,
    /// How long it takes to become Healthy after that.
    pub health: Duration,
    /// What comes of it.
    pub outcome: WorkloadOutcome,
}

/// What comes of a deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkloadOutcome {
    /// It becomes Healthy.
    #[default]
    Succeeds,
    /// It becomes Degraded.
    Fails,
    /// It makes progress for ever.
    Hangs,
    /// It becomes Degraded in so many of 100 cases, drawn for each Application and commit.
    Flaky(u8),
}
