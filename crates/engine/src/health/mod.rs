//! Health of a live object, and of an Application from its resources.
//!
//! Every rule uses the object only, and what it reports about itself (SE section 10). Two
//! principles:
//!
//! - A status of an older generation of the object gives `Progressing`, whatever else it
//!   reports, unless the spec pauses the object or a condition names its generation itself.
//! - An absent field is not treated as zero: each rule defines the meaning of an absent field.
//!
//! The kinds of Kubernetes, and those of Argo that need more than fields and conditions, have
//! one file per family. Kinds of other projects have rules as data, in `kinds/*.rules`
//! (see `table`). All others are assessed by what well-behaved controllers report (see
//! `generic`). Scripts of administrators go before all of these; their results are part of
//! the input (see [`scripts`]). Which of these apply is a choice, [`Checks`].
//!
//! No rule accesses a cluster or a clock, fails or panics: an object of unexpected shape
//! is assessed by its valid fields.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod application;
mod apps;
mod argo;
mod autoscaling;
mod batch;
mod checks;
mod core;
mod crds;
mod generic;
mod networking;
mod phases;
mod pod;
mod read;
mod reported_words;
mod rules;
pub mod scripts;
mod status;
mod table;
mod words;

#[cfg(test)]
mod tests;

use serde_json::Value;

pub use application::{Combined, Resource, combine_health};
pub use checks::{Checks, KindPattern, pending_deletion};
pub use status::{Health, Status};

/// Health of a live object by the default [`Checks`].
pub fn health_of(object: &Value) -> Option<Health> {
    Checks::default().of(object)
}

/// The rule of the object's kind by the default [`Checks`], without its deletion.
pub fn by_kind(object: &Value) -> Option<Health> {
    Checks::default().by_kind(object)
}

/// Whether the default [`Checks`] have a check for a kind.
pub fn has_check(group: &str, kind: &str) -> bool {
    Checks::default().has_check(group, kind)
}
