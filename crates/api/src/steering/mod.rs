//! RolloutPolicy and RolloutRun: how people steer rollouts (ST-001 … ST-085).
//!
//! Both are kinds of Wavegate, of a group of their own. Nothing needs them: where their
//! definitions are not installed, rollouts go on as without them.

mod policy;
mod run;
mod start;
mod understood;

pub use policy::{
    Baseline, Deletions, Failures, Format, Gate, NO_ADDRESS, OnFailure, Pace, PolicyStatus, Ramp,
    RolloutPolicySpec, SecretRef, SetSelector, Sink, Spread, broken_rules, policy_spec,
};
pub use run::{
    Abort, Approval, Estimate, Retry, RevisionCount, RolloutRunSpec, RolloutRunStatus, RunFailure,
    RunGate, RunPhase, RunStep, RunWait, TimelineEntry, WordOfPerson,
};
pub use start::RunStart;
pub use understood::understood_policy_spec;

/// The API group of these kinds.
pub const GROUP: &str = "wavegate.dev";
/// Their API version.
pub const VERSION: &str = "v1alpha1";
/// Group and version, as in an object's `apiVersion`.
pub const API_VERSION: &str = "wavegate.dev/v1alpha1";
/// The label of a run with the name of its ApplicationSet, where that fits.
pub const SET_LABEL: &str = "wavegate.dev/application-set";
/// The kind of policies.
pub const POLICY: &str = "RolloutPolicy";
/// The plural of policies, as in paths.
pub const POLICIES: &str = "rolloutpolicies";
/// The kind of runs.
pub const RUN: &str = "RolloutRun";
/// The plural of runs, as in paths.
pub const RUNS: &str = "rolloutruns";
