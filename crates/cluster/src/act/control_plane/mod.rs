//! The only writer of each status and of what else the controllers own.

pub mod application_set_metadata;
pub mod application_set_status;
pub mod application_status;
pub mod applications;
pub mod cluster_label;
pub mod lease;
pub mod project;
mod redacted_status;
pub mod rollout_policy;
pub mod rollout_run;
