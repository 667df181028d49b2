//! A whole rollout at once: both controllers and the embedded API server in one thread, on a clock
//! that jumps to the next moment at which something can happen.
//!
//! The controllers are those of `wavegate run`, and so is what they write. What they deploy is
//! not read from repositories: each Application has one workload, with the behavior that the
//! [`Scenario`] gives it. Nothing here waits for real time, starts a program, or uses files or
//! the network; the same scenario takes the same course each time.

mod acting;
mod action;
mod definitions;
mod deployed;
mod environment;
mod fault;
mod history;
mod lifeline;
mod observer;
mod parts;
mod replica;
mod sources;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

pub use self::action::{Action, Change, ScheduledAction};
pub use self::fault::{Fault, Part};
pub use self::history::{ApplicationHistory, End, History, PerformedAction, Span, State, Waits};
pub use self::lifeline::Applied;
pub use self::replica::is_controller;
pub use self::sources::Manifests;

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
    /// It becomes Degraded in so many of 100 cases, drawn for each Application and commit.
    Flaky(u8),
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
    /// Those of them that the rollout does not count: no step selects them, and nothing syncs them.
    pub uncounted: BTreeSet<String>,
    /// When it begins, by the clock of the simulation.
    pub start: Timestamp,
    /// What there is before it begins.
    pub before: Before,
    /// What happens, by the time since the start.
    pub actions: Vec<ScheduledAction>,
    /// What happens unless all is complete before, all of it later than the actions.
    pub remedies: Vec<ScheduledAction>,
    /// After this time it is given up.
    pub limit: Duration,
    /// How many replicas of the controllers run, of which one leads.
    pub replicas: usize,
    /// Whether the log of the API server is kept.
    pub logs: bool,
    /// Gives the same course each time; another one, another order of what is simultaneous.
    pub seed: u64,
}

/// What there is before a change.
#[derive(Clone, Debug)]
pub enum Before {
    /// Nothing: the change creates the Applications.
    Nothing,
    /// The Applications at the first commit, which the controllers have rolled out.
    RolledOut,
    /// The same, of which these are known to have been deployed before: they and their objects
    /// exist when the controllers start. Their namespaces are among the objects.
    Deployed(Arc<Deployed>),
}

/// The Applications of each set, as they are generated.
pub type Deployed = BTreeMap<String, Vec<Value>>;

/// What is different from a simulation that users see.
#[derive(Default)]
pub struct Setup {
    /// Gets each request and each change of an object, in place of the log.
    pub record: Option<Record>,
    /// Wraps the client of the controllers.
    pub client: Option<Wrap>,
    /// What Applications deploy, instead of one workload each.
    pub manifests: Option<Manifests>,
    /// Whether all is as it shall be at last: remedies are left out then.
    pub is_settled: Option<Box<dyn Fn() -> bool + Send>>,
    /// Is set when the change begins, by the clock of the API server as if never shifted.
    pub started: Option<Arc<OnceLock<Timestamp>>>,
}

/// Gets what happens at the API server.
pub type Record = Box<dyn FnMut(kube_sim::Entry) + Send>;
/// Makes a client of another one.
pub type Wrap = Box<dyn Fn(kube::Client) -> kube::Client + Send>;

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").finish_non_exhaustive()
    }
}

/// Simulates a rollout.
///
/// # Errors
///
/// Objects that the API server rejects, and a runtime that cannot be created.
pub fn run(scenario: &Scenario) -> anyhow::Result<History> {
    run_with(scenario, Setup::default())
}

/// Simulates a rollout that differs.
///
/// # Errors
///
/// As [`run`].
pub fn run_with(scenario: &Scenario, setup: Setup) -> anyhow::Result<History> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(environment::simulate(scenario, setup))
}
