//! What to do next: pure decisions on snapshots.
//!
//! Nothing in here is `async`, holds a client, reads a clock or a file, or
//! fails: what is wrong with the input is part of the answer.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod app_state;
pub mod application_set;
pub mod blocking_resource;
pub mod diff;
pub mod health;
pub mod merge_patch;
pub mod rollout;
pub mod sync;
pub mod windows;
