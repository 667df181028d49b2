//! One reconcile of a set as a pure function: from what is observed ([`decision::Snapshot`])
//! to what is done ([`decision::Decision`]), by [`reconcile`].
//!
//! [`generated`] is the spec as read, [`observe`] what is kept of existing Applications,
//! [`mod@plan`] the writes, and [`status`] what is reported.

pub mod approval;
pub mod asked;
pub mod autosync;
mod conditions;
pub mod decision;
mod delete_set;
pub mod deletion;
pub mod emptied;
pub mod events;
pub mod excluded;
pub mod failed;
pub mod failing;
pub mod findings;
pub mod found;
pub mod generated;
pub mod ignore;
mod last_good;
pub mod observe;
pub mod operation;
pub mod others;
pub mod outcome;
pub mod owner;
pub mod pace;
pub mod patch;
mod person;
pub mod plan;
pub mod policy;
pub mod preserve;
pub mod reconcile;
pub mod record;
pub mod report;
pub mod rollout_storage;
pub mod settings;
pub mod shape;
pub mod shown;
pub mod started;
pub mod status;
pub mod stored;
#[cfg(test)]
mod tests;
pub mod update;
pub mod validate;
pub mod windows;
pub mod write_plan;

pub use self::owner::{Identity, Owner, is_owned, set_of};
pub use self::plan::{PlanInput, plan};
pub use self::settings::{Settings, SizeLimits};
pub use self::update::{Comparison, Update};
pub use self::write_plan::{Create, Delete, Gate, Held, Patch, Release, WritePlan};
