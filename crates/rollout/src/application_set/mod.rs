//! One reconcile of a set as a pure function: from what is observed ([`decision::Snapshot`])
//! to what is done ([`decision::Decision`]), by [`reconcile`].
//!
//! [`generate`] is the spec as read, [`plan::observe`] what is kept of existing Applications,
//! [`mod@plan`] the writes, and [`status`] what is reported.

pub mod decision;
pub mod deletion;
pub mod generate;
pub mod plan;
pub mod reconcile;
pub mod rollout_io;
pub mod settings;
pub mod status;
#[cfg(test)]
mod tests;

pub use self::plan::owner::{ApplicationOwner, Identity, is_owned, set_of};
pub use self::plan::update::{Update, UpdateComparison};
pub use self::plan::write_plan::{Create, Delete, Held, Patch, Release, WriteGate, WritePlan};
pub use self::plan::{PlanInput, plan_writes};
pub use self::settings::{DecisionSettings, SizeLimits};
