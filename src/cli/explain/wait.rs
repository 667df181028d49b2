//! An Application that a rollout is waiting for.

use serde::Serialize;

use super::advice::Action;
use wavegate_engine::blocking_resource::BlockingResource;
use wavegate_engine::blocking_resource::below::Cause;

/// An Application that the rollout is waiting for.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct ExplainedWait {
    pub application: String,
    /// Step, counted from 1; `null` outside a rollout.
    pub step: Option<usize>,
    pub phase: &'static str,
    pub sync: String,
    pub health: String,
    /// The kind of the wait, as `status.rollout.waitingFor[].kind` names it.
    pub kind: &'static str,
    /// Reason of the wait.
    pub reason: String,
    /// The blocking resource; `null` when there is none.
    pub resource: Option<BlockingResource>,
    /// The object below the resource that keeps it from being ready, such as a Pod; `null`
    /// when there is none, or it could not be read.
    pub cause: Option<Cause>,
    /// Start and latest end of the wait; empty when unknown.
    pub since: String,
    pub until: String,
    /// Suggested actions in one line; empty when no action is required.
    pub advice: String,
    /// The same, one by one.
    #[serde(skip)]
    pub actions: Vec<Action>,
}
