//! Thin shells: one pass each, no rules in them. An `if` about steps, waves or
//! health here belongs in `decide`.

pub mod application;
pub mod application_set;
pub mod context;
pub mod error;
