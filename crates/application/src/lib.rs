//! One Application against its cluster: its status, and whether an operation
//! must be started.
//!
//! ```text
//! spec ── spec ──> conditions ─────────────────────────────┐
//! manifests ── targets ──> placed, tracked, each key once ──┤
//!                                 live objects ─────────────┴─ compare ──> Comparison
//! Comparison ── status ──> fields of `status`               └─ auto_sync ──> an operation, or why not
//! ```
//!
//! - [`spec`], [`project`]: whether the spec is complete and the project
//!   permits it;
//! - [`access`]: what the Application may do, used by all other modules;
//! - [`targets`]: manifests become targets in their namespaces (SE-131 …
//!   SE-140);
//! - [`lost`]: guards of a project that the API server has dropped;
//! - [`signatures`]: which commits must be signed, and by whom (SE-080);
//! - `warnings`: ignored or unsupported settings;
//! - [`compare`]: pairs, differences, health, warnings (SE-140 … SE-149, SE-490 …);
//! - [`predictions`]: what the API server predicts, instead of a difference that is computed
//!   here (SE-150, SE-158);
//! - [`updates`]: which changes of live objects are compared (SE-178);
//! - [`status`]: the comparison as fields of the Application;
//! - [`size`]: what is left out of a status that the API server would not store;
//! - [`held_back`]: the same with the revisions at which a rollback holds it (ST-061);
//! - [`observation`]: the observed state, and [`errors`]: errors of observing it;
//! - [`steps`]: the steps of a reconcile, in order;
//! - [`reconcile`]: one comparison, [`operate`]: one round of an operation,
//!   [`finalize`]: one step of a deletion; the controller observes, calls one
//!   of these, and applies the result;
//! - [`refresh`]: whether to compare, and at which level (SE-376, SE-377), by a
//!   [`request`] and by what the process remembers ([`memory`]);
//! - [`auto_sync`]: whether to start an automated sync (SE-420 … SE-429);
//! - [`app`]: an Application with typed fields, of which the difference is written;
//! - [`operation`]: the fields `operation` and `status.operationState` (SE-370
//!   … SE-390);
//! - [`manual`]: the operation of a sync that a user requests;
//! - [`deletion`]: which resources are deleted with an Application (SE-510 …
//!   SE-516);
//! - [`deletion_scope`]: where, and which of them at all, whatever became of the spec;
//! - [`project_deletion`]: when a project may go;
//! - [`delete_hooks`]: the hooks of a deletion (SE-517 … SE-519);
//! - `children`: objects that controllers make with the labels of a resource;
//! - [`left_hooks`]: hooks whose finalizer no operation removes;
//! - [`owner`]: the owner of a live object, before it is deleted or replaced.
//!
//! Nothing here talks to a cluster, reads a clock, fails, or panics.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod access;
pub mod app;
pub mod argocd_cache;
pub mod auto_sync;
mod children;
mod compared;
pub mod condition;
pub mod delete_hooks;
pub mod deletion;
pub mod deletion_scope;
pub mod deployed;
pub mod dry_run;
pub mod errors;
pub mod events;
pub mod finalize;
pub mod global_projects;
pub mod held_back;
pub mod impersonation;
pub mod left_hooks;
pub mod lost;
pub mod manual;
pub mod memory;
pub mod normalize;
pub mod observation;
pub mod operate;
pub mod operation;
pub mod owner;
mod pairs;
pub mod predicted;
pub mod predictions;
pub mod project;
pub mod project_deletion;
pub mod reconcile;
pub mod refresh;
pub mod request;
pub mod signatures;
pub mod size;
pub mod spec;
pub mod status;
pub mod steps;
mod summary;
pub mod targets;
pub mod unsupported;
pub mod updates;
mod warnings;

#[cfg(test)]
mod tests;

pub use compared::{ComparedResource, Facts};
pub use condition::Condition;
pub use pairs::{Comparison, DiffCache, compare, compare_objects};
pub use summary::with_below;
pub use targets::{Placed, Scope, Target};
pub use warnings::unlisted;
