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
//! - [`pruned_fields`]: guards of a project that the API server has dropped;
//! - [`signatures`]: which commits must be signed, and by whom (SE-080);
//! - `warnings`: ignored or unsupported settings;
//! - [`mod@compare`]: pairs, differences, health, warnings (SE-140 … SE-149, SE-490 …);
//! - [`predictions`]: what the API server predicts, instead of a difference that is computed
//!   here (SE-150, SE-158);
//! - [`handover`]: what other Applications have in their sources, which is not deleted;
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

pub mod app;
pub mod argocd_cache;
pub mod compare;
pub mod deletion;
pub mod errors;
pub mod memory;
pub mod operation;
pub mod project;
pub mod status;
pub mod steps;

#[cfg(test)]
mod tests;

pub(crate) use compare::{children, compared, differences, outside, pairs};
pub use compare::{
    handover, normalize, observation, predicted, predictions, reconcile, refresh, request, targets,
    updates,
};
pub use deletion::{delete_hooks, deletion_scope, finalize, left_hooks, owner, project_deletion};
pub(crate) use operation::engine_input;
pub use operation::{auto_sync, deployed, held_back, manual, operate};
pub use project::{
    access, global_projects, impersonation, pruned_fields, signatures, spec, unsupported,
};
pub use status::{condition, dry_run, events, size};
pub(crate) use status::{summary, warnings};

pub use compared::{ComparedResource, ComparisonFacts};
pub use condition::NewCondition;
pub use differences::{DiffCache, compare_objects};
pub use pairs::{ComparedApplication, compare};
pub use summary::with_below;
pub use targets::{KindScope, Placed, PlacedTarget};
pub use warnings::unlisted_condition;
