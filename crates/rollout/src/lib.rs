//! ApplicationSets as pure functions of snapshots: generators and templates make Applications
//! ([`desired`]), steps and policies decide which of them are updated next ([`rollout`]), and
//! [`application_set`] plans the writes and the status. [`requests`] is what people ask of a
//! rollout, [`notify`] what is said about it, [`webhook`] which sets and Applications an event of
//! a Git server concerns.
//!
//! Nothing here is `async`, holds a client, reads a clock or a file, or fails: errors in the
//! input are part of the result.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod application_set;
pub mod desired;
#[cfg(test)]
#[path = "../../../tests/it/support/growth.rs"]
mod growth;
pub mod notify;
pub mod requests;
pub mod rollout;
pub mod webhook;
#[cfg(test)]
#[path = "../../../tests/it/support/written.rs"]
mod written;
