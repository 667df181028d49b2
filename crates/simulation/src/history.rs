//! What has happened in a simulation.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use wavegate_api::run::RolloutRunStatus;
use wavegate_rollout::rollout::wait::WaitKind;

/// The course of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// When the change began.
    pub start: Timestamp,
    /// When nothing was left to do, or it was given up.
    pub end: Timestamp,
    /// How it ended.
    pub outcome: SpanEnd,
    /// The Applications, by name.
    pub applications: BTreeMap<String, ApplicationHistory>,
    /// What each set waited for, by namespace and name; each until the next one.
    pub waits: BTreeMap<String, Vec<Waits>>,
    /// The runs since the start, by set and in their order: name and last status.
    pub runs: BTreeMap<String, Vec<(String, RolloutRunStatus)>>,
    /// What happened from outside, with the answer if it could not be done.
    pub happened: Vec<PerformedAction>,
    /// Number of requests of the controllers since the start that changed something.
    pub writes: u64,
    /// The log of the API server, a line for each request and each change of an object; empty
    /// unless the scenario asks for it.
    pub log: String,
}

/// How a simulation ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "end")]
pub enum SpanEnd {
    /// All is rolled out.
    Complete,
    /// The rollout ended in another way.
    Ended {
        /// The phase of the run and why.
        message: String,
    },
    /// Nothing happens any more, and it is not complete.
    Stuck {
        /// What it waits for, as `explain` says.
        message: String,
    },
    /// It was given up after the limit.
    TimeIsOver {
        /// What it waited for then.
        message: String,
    },
}

/// Something that happened from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerformedAction {
    /// When.
    pub at: Timestamp,
    /// When it is over, if it lasts.
    pub until: Option<Timestamp>,
    /// What.
    pub what: String,
    /// Why it could not be done.
    pub refused: Option<String>,
}

/// The course of an Application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplicationHistory {
    /// Its set, as namespace and name.
    pub set: String,
    /// What it was, in the order of time; each until the next one.
    pub spans: Vec<HistorySpan>,
}

/// What a set waits for since a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Since when.
    pub from: Timestamp,
    /// The kinds of its waits.
    pub kinds: BTreeSet<WaitKind>,
}

/// A state of an Application since a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistorySpan {
    /// Since when.
    pub from: Timestamp,
    /// What it is.
    pub state: SpanKind,
}

/// A state of an Application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SpanKind {
    /// It waits for its step, or its turn.
    Waiting,
    /// Its step is open, and a gate, a pause, a window or failures hold it.
    Held,
    /// Its sync is requested, and has not started.
    Pending,
    /// Its sync runs.
    Syncing,
    /// It is synced, and not Healthy yet.
    BecomingHealthy,
    /// It is at its newest target, and Healthy.
    Healthy,
    /// Its sync has failed, or it is Degraded.
    Failed,
    /// It goes back to what it had before.
    GoingBack,
    /// It is back there.
    Back,
    /// The run leaves it out.
    Skipped,
}

impl SpanKind {
    /// All states, in the order of a legend.
    pub const ALL: [Self; 10] = [
        Self::Waiting,
        Self::Held,
        Self::Pending,
        Self::Syncing,
        Self::BecomingHealthy,
        Self::Healthy,
        Self::Failed,
        Self::GoingBack,
        Self::Back,
        Self::Skipped,
    ];

    /// Whether the Application is in flight.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Pending | Self::Syncing | Self::BecomingHealthy | Self::GoingBack)
    }

    /// The position in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}
