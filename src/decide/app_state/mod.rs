//! One Application against its cluster: what its status should say, and
//! whether something should be started.
//!
//! ```text
//! spec ── spec ──> conditions ─────────────────────────────┐
//! manifests ── targets ──> placed, tracked, each key once ──┤
//!                                 live objects ─────────────┴─ compare ──> Comparison
//! Comparison ── status ──> fields of `status`               └─ auto_sync ──> an operation, or why not
//! ```
//!
//! - [`spec`], [`project`]: is the spec complete, does the project permit it;
//! - [`targets`]: manifests become targets in their namespaces (SE-131 … SE-140);
//! - `warnings`: what a sync leaves out or does not understand;
//! - [`compare`]: pairs, differences, health, warnings (SE-140 … SE-149, SE-490 …);
//! - [`status`]: the comparison as fields of the Application;
//! - [`refresh`]: whether to compare, and how thoroughly (SE-376, SE-377);
//! - [`auto_sync`]: whether to sync without being asked (SE-420 … SE-429);
//! - [`operation`]: the life of `operation` and `status.operationState`
//!   (SE-370 … SE-390);
//! - [`deletion`]: what goes with a deleted Application (SE-510 … SE-516);
//! - [`delete_hooks`]: the hooks of a deletion (SE-517 … SE-519);
//! - [`owner`]: whose a live object is, before it is deleted or replaced.
//!
//! Nothing here talks to a cluster, reads a clock, fails, or panics.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod auto_sync;
pub mod condition;
pub mod delete_hooks;
pub mod deletion;
pub mod operation;
pub mod owner;
mod pairs;
pub mod project;
pub mod refresh;
pub mod spec;
pub mod status;
pub mod targets;
mod warnings;

#[cfg(test)]
mod tests;

pub use condition::Condition;
pub use pairs::{Compared, Comparison, DiffCache, Facts, compare};
pub use targets::{Placed, Scope, Target};
pub use warnings::unlisted;
