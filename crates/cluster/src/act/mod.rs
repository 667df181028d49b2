//! All writes of Wavegate: each returns its outcome.

pub mod application_events;
pub mod application_set_metadata;
pub mod application_set_status;
pub mod application_status;
pub mod applications;
pub mod apply;
pub mod cluster_label;
pub mod delete;
pub mod events;
pub mod execute;
pub mod lease;
pub mod manifests;
pub mod meter;
pub mod notify;
pub mod operation;
pub mod outcome;
pub mod predict;
pub mod project;
mod redacted_status;
pub mod redis;
pub mod refresh;
pub mod request_limit;
pub mod retry;
pub mod rollout_policy;
pub mod rollout_run;
mod secrets;
pub mod steering;

#[cfg(test)]
mod tests;
