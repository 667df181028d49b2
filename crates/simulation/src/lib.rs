//! A whole rollout at once: both controllers and the embedded API server in one thread, on a clock
//! that jumps to the next moment at which something can happen.
//!
//! The controllers are those of `wavegate run`, and so is what they write. What they deploy is
//! not read from repositories: each Application has one workload, with the behavior that the
//! [`Scenario`] gives it. Nothing here waits for real time, starts a program, or uses files or
//! the network; the same scenario takes the same course each time.

mod acting;
mod action;
mod behavior;
mod definitions;
mod deployed;
mod environment;
mod fault;
mod history;
mod lifeline;
mod observer;
mod parts;
mod replica;
mod scenario;
mod sources;
#[cfg(test)]
mod tests;

pub use self::action::{FleetAction, FleetChange, ScheduledAction};
pub use self::behavior::{Behavior, WorkloadOutcome};
pub use self::fault::{ControllerPart, FleetFault};
pub use self::history::{
    ApplicationHistory, History, HistorySpan, PerformedAction, SpanEnd, SpanKind, Waits,
};
pub use self::lifeline::Applied;
pub use self::replica::is_controller;
pub use self::scenario::{DeployedBefore, FleetBefore, FleetRecord, Scenario, Setup, Wrap};
pub use self::sources::Manifests;

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
