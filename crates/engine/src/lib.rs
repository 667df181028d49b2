//! The sync engine as pure functions of snapshots: the order of a sync ([`sync`]), differences
//! ([`diff`]), health ([`health`]), sync windows ([`windows`]), and what an Application waits for
//! ([`blocking_resource`]).
//!
//! Nothing here is `async`, holds a client, reads a clock or a file, or fails: errors in the
//! input are part of the result.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod blocking_resource;
pub mod diff;
pub mod external_urls;
pub mod health;
pub mod json_size;
pub mod merge_patch;
pub mod names;
pub mod promotion;
pub mod resource_tree;
pub mod sync;
pub mod wait;
pub mod windows;
#[cfg(test)]
#[path = "../../../tests/it/support/written.rs"]
mod written;
