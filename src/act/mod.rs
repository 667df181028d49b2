//! All writes of Wavegate: each returns its outcome.

pub mod application_set_status;
pub mod application_status;
pub mod applications;
pub mod apply;
pub mod delete;
pub mod events;
pub mod hook_stamps;
pub mod operation;
pub mod outcome;
pub mod project;
mod redacted_status;
pub mod refresh;
pub mod retry;
pub mod run_lease;
mod secrets;

#[cfg(test)]
mod tests;
