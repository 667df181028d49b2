//! Decisions: pure functions of snapshots.
//!
//! Nothing here is `async`, holds a client, reads a clock or a file, or fails:
//! errors in the input are part of the result.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod app_state;
pub mod application_set;
pub mod argocd_cache;
pub mod blocking_resource;
pub mod diff;
pub mod external_urls;
pub mod health;
pub mod json_size;
pub mod merge_patch;
pub mod names;
pub mod notify;
pub mod resource_tree;
pub mod rollout;
pub mod steering;
pub mod sync;
pub mod wait;
pub mod webhook;
pub mod windows;
