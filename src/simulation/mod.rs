//! A whole rollout at once: both controllers and the embedded API server in one thread, on a clock
//! that jumps to the next moment at which something can happen.
//!
//! The controllers are those of `wavegate run`, and so is what they write. What they deploy is
//! not read from repositories: each Application has one workload, with the behavior that the
//! [`Scenario`] gives it. Nothing here waits for real time, starts a program, or uses files or
//! the network; the same scenario takes the same course each time.

mod action;
mod environment;
mod history;
mod lifeline;
mod observer;
mod sources;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

pub use self::action::{Action, ScheduledAction};
pub use self::history::{ApplicationHistory, End, History, PerformedAction, Span, State};

/// How an Application behaves when it is deployed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Behavior {
    /// How long its sync takes, besides what the engine adds.
    pub sync: Duration,
    /// How long it takes to become Healthy after that.
    pub health: Duration,
    /// What comes of it.
    pub outcome: Outcome,
}

/// What comes of a deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub enum Outcome {
    /// It becomes Healthy.
    #[default]
    Succeeds,
    /// It becomes Degraded.
    Fails,
    /// It makes progress for ever.
    Hangs,
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The namespace of the control plane.
    pub namespace: String,
    /// ApplicationSets, policies, projects and namespaces, as a user wrote them.
    pub objects: Vec<Value>,
    /// The Applications that the sets generate, by name.
    pub behaviors: BTreeMap<String, Behavior>,
    /// When it begins, by the clock of the simulation.
    pub start: Timestamp,
    /// Whether it begins with the creation of the Applications, instead of a commit after all
    /// were rolled out.
    pub is_first: bool,
    /// What happens, by the time since the start.
    pub actions: Vec<ScheduledAction>,
    /// After this time it is given up.
    pub limit: Duration,
    /// Whether the log of the API server is kept.
    pub logs: bool,
    /// Gives the same course each time; another one, another order of what is simultaneous.
    pub seed: u64,
}

/// Simulates a rollout.
///
/// # Errors
///
/// Objects that the API server rejects, and a runtime that cannot be created.
pub fn run(scenario: &Scenario) -> anyhow::Result<History> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(environment::simulate(scenario))
}
